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

REFERENCES: Final = 2_000
REFERENCES_PER_RECORD: Final = 40
BYTES: Final = 20_000
BYTES_PER_RECORD: Final = 1_000
"""What a bridge and its board hold, and what they hold for each schedule, routine and run."""

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


def check_memory(roots: Iterable[Any], records: int) -> None:
    """Raise `Violation` when the parts of a bridge and its board hold too much for so many."""
    references, held_bytes = reach(roots)
    if (
        references > REFERENCES + REFERENCES_PER_RECORD * records
        or held_bytes > BYTES + BYTES_PER_RECORD * records
    ):
        raise Violation(
            BOUNDED, f"{references} references, {held_bytes} bytes for {records} records"
        )


def check_files(folder: Path) -> None:
    """Raise `Violation` when a file of the state has grown too large."""
    for path in folder.rglob("*"):
        limit = FILE_BYTES_MAX.get(path.name)
        if limit is not None and (size := path.stat().st_size) > limit:
            raise Violation(BOUNDED, f"{path.name} has {size} bytes")


def reach(roots: Iterable[Any]) -> tuple[int, int]:
    """Return how many references hang on these, and how much text.

    Objects of the product and plain containers are entered. What is of other packages, code and
    modules is not: a queue that grows is a container.
    """
    seen: set[int] = set()
    ahead = list(roots)
    held_bytes = references = 0
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
        referents = gc.get_referents(each)
        references += len(referents)
        ahead.extend(referents)
    return references, held_bytes
