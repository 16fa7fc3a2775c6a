"""The desk board's reset vector: what a real port's C start-up does before and around main.py.

Runs under the unix MicroPython, with `-i`, once per boot. The flash directory becomes the root
file system, so that absolute paths mean on the desk what they mean on a board and board code cannot
reach the host's files. `/desk` holds the desk's own things: wake line, backup memory, clock, and
the `machine` module that the unix port lacks.
"""
# mypy: ignore-errors
# ruff: noqa: F821, PTH116, PTH123 -- MicroPython: execfile is a builtin, there is no pathlib

import os
import sys
import time

import vfs

_flash = os.getenv("WAKEBRIDGE_DESK_FLASH")
_side = os.getenv("WAKEBRIDGE_DESK_SIDE")
_start = os.getenv("WAKEBRIDGE_DESK_START")
vfs.umount("/")
vfs.mount(vfs.VfsPosix(_side), "/desk")
vfs.mount(vfs.VfsPosix(_flash), "/")
sys.path[:] = ["", ".frozen", "/lib", "/desk"]
sys.stdout.buffer.write(b"\x1eDESK UP\x1e")


def _run(name):
    """Run one start-up file as a board does; false when it failed."""
    try:
        os.stat(name)
    except OSError:
        return True
    try:
        execfile(name)
    except SystemExit:  # sys.exit() and machine.soft_reset() in a start-up file
        with open("/desk/requests", "wb") as desk:
            desk.write(b"soft-reset\n")
        while True:  # the desk ends this process
            time.sleep(1)
    except BaseException as error:  # the board's C code: a traceback, then the prompt
        sys.print_exception(error)
        return False
    return True


# A failing boot.py keeps main.py from running, and a raw REPL start never runs it.
if _start != "prompt" and _run("boot.py") and _start == "normal":
    _run("main.py")
if _start == "raw":
    sys.stdout.buffer.write(b"\x1eDESK RAW\x1e")
