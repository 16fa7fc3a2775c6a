"""When a routine is due: integer arithmetic on its rule, so the phase never drifts (R6, R47)."""

from typing import assert_never

import msgspec

from wakebridge.routine.limits import INSTANT_MAX_NS, NS_PER_S
from wakebridge.routine.state import Every, Once, Rule


def first(rule: Rule) -> int:
    """Return the first occurrence, in ns."""
    match rule:
        case Once(due_ns=due_ns):
            return due_ns
        case Every(anchor_ns=anchor_ns):
            return anchor_ns
        case _ as never:
            assert_never(never)


def next_after(rule: Rule, after_ns: int) -> int | None:
    """Return the first occurrence strictly later than `after_ns`, or None when there is none.

    The cost does not depend on how many occurrences lie between.
    """
    match rule:
        case Once(due_ns=due_ns):
            return due_ns if due_ns > after_ns else None
        case Every(anchor_ns=anchor_ns, interval_s=interval_s):
            if after_ns < anchor_ns:
                return anchor_ns
            period_ns = interval_s * NS_PER_S
            due_ns = anchor_ns + ((after_ns - anchor_ns) // period_ns + 1) * period_ns
            return due_ns if due_ns <= INSTANT_MAX_NS else None
        case _ as never:
            assert_never(never)


def shifted(rule: Rule, by_ns: int) -> Rule:
    """Return the rule with all its occurrences moved by `by_ns`."""
    match rule:
        case Once(due_ns=due_ns):
            return msgspec.structs.replace(rule, due_ns=due_ns + by_ns)
        case Every(anchor_ns=anchor_ns):
            return msgspec.structs.replace(rule, anchor_ns=anchor_ns + by_ns)
        case _ as never:
            assert_never(never)
