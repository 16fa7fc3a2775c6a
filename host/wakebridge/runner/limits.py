"""What the limits of a runner may be: a configuration with one that cannot work is refused."""

from collections.abc import Iterable
from typing import Final

LIMIT_MIN_S: Final = 0.1
"""Shortest limit, in seconds: in less nobody answers, and what is repeated at it is a busy loop."""

LIMIT_MAX_S: Final = 31_536_000.0
"""Longest limit, in seconds: a year. Endless waits are no limit."""


def check_limits(
    config: object, limits_s: Iterable[str], graces_s: Iterable[str], *limits_bytes: str
) -> None:
    """Refuse what cannot work; raise ValueError naming the field.

    `limits_s` lie between `LIMIT_MIN_S` and `LIMIT_MAX_S`, `graces_s` may also be zero, and
    `limits_bytes` are at least one. Written so that "not a number" is refused as well.
    """
    for name in limits_s:
        if not LIMIT_MIN_S <= getattr(config, name) <= LIMIT_MAX_S:
            raise ValueError(_out_of_range(config, name, LIMIT_MIN_S))
    for name in graces_s:
        if not 0 <= getattr(config, name) <= LIMIT_MAX_S:
            raise ValueError(_out_of_range(config, name, 0))
    for name in limits_bytes:
        if getattr(config, name) < 1:
            raise ValueError(f"{name} must be at least 1, it is {getattr(config, name)}")


def _out_of_range(config: object, name: str, least_s: float) -> str:
    return f"{name} must be {least_s:g}..{LIMIT_MAX_S:.0f}, it is {getattr(config, name):g}"
