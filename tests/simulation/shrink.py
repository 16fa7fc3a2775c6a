"""Makes a failing history short: leaves out what it fails without (delta debugging)."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from .board import BoardConfig
from .history import Config, History, Op
from .kernel import DAY
from .outcome import Outcome
from .world import run

_PLAIN: Final[dict[str, object]] = {
    "lead_s": 0.0,
    "idle_suspend_s": None,
    "resume_s": 0.5,
    "restart_s": 2.0,
    "sleep_max_s": 259_200.0,
}
"""What a device is like when nothing about it matters."""

_OPTIONAL: Final = ("data", "misfire", "grace_s", "ephemeral", "count", "until")
"""What a request need not say."""

Fails = Callable[[History], bool]


def shrink(failed: Outcome, limit_s: float) -> Outcome:
    """Return the shortest history found in that time that violates the same property."""
    assert failed.violation is not None
    name = failed.violation.name
    best = [failed]
    ends_at = time.monotonic() + limit_s

    def fails(history: History) -> bool:
        outcome = run(history)
        if outcome.violation is None or outcome.violation.name != name:
            return False
        best[0] = outcome
        return True

    for shorter in _rounds(failed, fails, lambda: time.monotonic() < ends_at):
        if not shorter:
            break
    return best[0]


def _rounds(failed: Outcome, fails: Fails, in_time: Callable[[], bool]) -> Iterator[bool]:
    """Shorten again and again, each time from what was reached; yields whether that did it."""
    history = failed.history
    cut = _cut(history, failed.at_ns)
    if fails(cut):
        history = cut
    while in_time():
        before = history
        history = _fewer(history, fails, in_time)
        history = _plainer(history, fails, in_time)
        history = _shorter_bodies(history, fails, in_time)
        yield history != before


def _cut(history: History, at_ns: int) -> History:
    """End the history where it failed."""
    ops = tuple(op for op in history.ops if op.at_ns <= at_ns)
    days = min(history.config.days, at_ns / DAY + 1e-9)
    return History(dataclasses.replace(history.config, days=days), ops)


def _fewer(history: History, fails: Fails, in_time: Callable[[], bool]) -> History:
    """Leave out ever smaller groups of operations, until none can be left out."""
    ops = history.ops
    size = max(1, len(ops) // 2)
    while in_time():
        kept = _without_groups(history.config, ops, size, fails, in_time)
        if size == 1 and len(kept) == len(ops):
            return History(history.config, kept)
        ops = kept
        size = max(1, min(size // 2, len(ops) // 2))
    return History(history.config, ops)


def _without_groups(
    config: Config, ops: Sequence[Op], size: int, fails: Fails, in_time: Callable[[], bool]
) -> tuple[Op, ...]:
    kept = tuple(ops)
    start = 0
    while start < len(kept) and in_time():
        fewer = kept[:start] + kept[start + size :]
        if fails(History(config, fewer)):
            kept = fewer
        else:
            start += size
    return kept


def _plainer(history: History, fails: Fails, in_time: Callable[[], bool]) -> History:
    """Make the device an ordinary one, as far as that does not matter."""
    config = history.config
    plain_board = BoardConfig(step_max_ms=config.board.step_max_ms)
    changes: list[dict[str, object]] = [{"board": plain_board}]
    changes += [{name: value} for name, value in _PLAIN.items()]
    for change in changes:
        if not in_time() or all(getattr(config, name) == value for name, value in change.items()):
            continue
        plainer = dataclasses.replace(config, **change)  # type: ignore[arg-type]
        if fails(History(plainer, history.ops)):
            config = plainer
    return History(config, history.ops)


def _shorter_bodies(history: History, fails: Fails, in_time: Callable[[], bool]) -> History:
    """Leave out of every request what it fails without."""
    ops = list(history.ops)
    for at, op in enumerate(ops):
        for name in _OPTIONAL:
            if not in_time() or name not in ops[at].args.get("body", ()):
                continue
            body = {key: value for key, value in ops[at].args["body"].items() if key != name}
            shorter = dataclasses.replace(op, args=ops[at].args | {"body": body})
            tried = History(history.config, (*ops[:at], shorter, *ops[at + 1 :]))
            if fails(tried):
                ops[at] = shorter
    return History(history.config, tuple(ops))
