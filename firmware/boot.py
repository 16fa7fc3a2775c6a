"""Puts the active version of the firmware on the import path.

Updates put each version into a directory of its own, /wb/<version>, and then let /wb/active name
it. Without /wb the firmware is found where it was installed: /lib, or the root of a checkout.
"""

import os
import sys


def version(pointer):
    """The directory that /wb/active or /wb/previous names, None when it is not complete."""
    root = os.getcwd().rstrip("/") + "/wb/"
    try:
        with open(root + pointer) as file:
            path = root + file.read().strip()
        os.stat(path + "/complete")
        return path
    except OSError:
        return None


_path = version("active") or version("previous")
if _path and _path not in sys.path:
    sys.path.insert(0, _path)
