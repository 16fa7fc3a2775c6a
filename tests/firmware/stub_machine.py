# mypy: ignore-errors
# ruff: noqa: N801, N805 - modules and their functions, written as classes
# What a port's start-up code finds on a board, for a MicroPython that has none. Run, not imported:
# only the firmware that it lets start is measured, never this.
import sys


class _Pin:
    OUT = 1
    OPEN_DRAIN = 2

    def __init__(self, *args, **settings):
        pass

    def value(self, level):
        pass


class _Signal(_Pin):
    pass


class _Region:
    itemsize = 4

    def __init__(self, items):
        self._items = items

    def __len__(self):
        return len(self._items)

    def __getitem__(self, key):
        return _Region(self._items[key]) if isinstance(key, slice) else self._items[key]

    def __setitem__(self, key, item):
        self._items[key] = item


class _Poll:
    def register(self, stream, mask):
        pass

    def ipoll(self, timeout_ms):
        return ()


class machine:
    PWRON_RESET = 1
    Pin = _Pin
    Signal = _Signal

    def reset_cause():
        return 1

    def unique_id():
        return b"12345678"

    def mem_backup(region):
        return (_backup,)

    def reset():
        pass


class select:
    POLLIN = 1
    POLLOUT = 4
    poll = _Poll


class os:
    def urandom(count):
        return b"bootboot"

    def stat(path):
        raise OSError


class esp:
    def osdebug(level):
        pass


_backup = _Region([0] * 5)
for _module in (machine, select, os, esp):
    sys.modules[_module.__name__] = _module
