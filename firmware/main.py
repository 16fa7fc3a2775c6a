import os
import sys

try:
    import boot  # puts the active version on the import path
except ImportError:
    os.rename("boot.py.new", "boot.py")  # on FAT its update can be cut in two
    import boot

try:
    import wakeboard.start  # loads all that runs
except Exception as error:
    sys.print_exception(error)
    boot.use("previous")

import wakeboard

wakeboard.run()
