"""Measures what a bridge holds: its memory, its queues and its files stay bounded (E54)."""

import asyncio
import gc
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from .kernel import Violation
from .properties import BOUNDED

TASKS_MAX: Final = 60
TIMERS_MAX: Final = 200
OBJECTS_MAX: Final = 60_000
BYTES_MAX: Final = 8 << 20

FILE_BYTES_MAX: Final = {
    "schedules.db": 1 << 20,
    "schedules.db-wal": 6 << 20,
    "state.json": 4 << 20,
    "state.json.previous": 4 << 20,
}
"""A log is folded into its database at 4 MB; a document keeps so many stopped routines."""

_HOLDS: Final = (list, dict, tuple, set, frozenset, deque, Counter, OrderedDict, defaultdict)
_OURS: Final = ("wakebridge.", "wakewire.", "wakeboard.")


def check_loop(loop: asyncio.AbstractEventLoop, timers: int) -> None:
    """Raise `Violation` when more is under way than can be."""
    tasks = len(asyncio.all_tasks(loop))
    if tasks > TASKS_MAX or timers > TIMERS_MAX:
        raise Violation(BOUNDED, f"{tasks} tasks, {timers} timers")


def check_memory(roots: Iterable[Any]) -> tuple[int, int]:
    """Raise `Violation` when the parts of a bridge, or of a board, hold too much."""
    objects, held_bytes = reach(roots)
    if objects > OBJECTS_MAX or held_bytes > BYTES_MAX:
        raise Violation(BOUNDED, f"{objects} objects, {held_bytes} bytes")
    return objects, held_bytes


def check_files(folder: Path) -> None:
    """Raise `Violation` when a file of the state has grown too large."""
    for path in folder.rglob("*"):
        limit = FILE_BYTES_MAX.get(path.name)
        if limit is not None and (size := path.stat().st_size) > limit:
            raise Violation(BOUNDED, f"{path.name} has {size} bytes")


def reach(roots: Iterable[Any]) -> tuple[int, int]:
    """Return how many objects of the product and plain containers hang on these, and their text.

    What is of other packages, code and modules is not entered: a queue that grows is a container.
    """
    seen: set[int] = set()
    ahead = list(roots)
    held_bytes = 0
    while ahead:
        each = ahead.pop()
        if isinstance(each, bytes | bytearray | str):
            held_bytes += len(each)
            continue
        kind = type(each)
        if kind not in _HOLDS and not kind.__module__.startswith(_OURS):
            continue
        if id(each) in seen:
            continue
        seen.add(id(each))
        ahead.extend(gc.get_referents(each))
    return len(seen), held_bytes
