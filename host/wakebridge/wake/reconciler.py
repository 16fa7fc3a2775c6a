"""The countdown that should run against the one that does: at most one change makes them agree.

Reconciling again after the change, after a lost answer or after a restart of the bridge finds that
they agree and changes nothing (R44), so a failure needs no undo.
"""

import enum
from typing import Final

import msgspec

from wakebridge.schedule.instants import Now
from wakebridge.wake.board_rate import RateEstimate
from wakebridge.wake.planner import Leg, Plan, lease_of
from wakewire.limits import COUNTDOWN_MAX_MS

_NS_PER_MS: Final = 1_000_000

AGREE_NS: Final = 2_000_000_000
"""Countdowns that end this close to each other agree (case A11)."""

# An early leg is armed anew when better knowledge of the board's clock saves at least this much of
# waiting and leaves less than a quarter of it. So it happens a few times, not at every poll.
_WORTH_REARMING_NS: Final = 60_000_000_000
_WORTH_REARMING_FACTOR: Final = 4

# A full leg is armed with the maximum, or with a millisecond less; see `_arm`.
_FULL_LEG_MS: Final = COUNTDOWN_MAX_MS - 1


class CountdownState(enum.Enum):
    """The state of the board's one countdown; the values are the wire's codes."""

    IDLE = 0
    ARMED = 1
    EXPIRED = 2


class TimerReading(msgspec.Struct, frozen=True):
    """What the board said of its countdown, and when by the host's boot clock.

    `approximate` means that the board restored the countdown from a checkpoint.
    """

    state: CountdownState
    token: int
    remaining_ms: int
    duration_ms: int
    approximate: bool
    boot_ns: int


class Keep(msgspec.Struct, frozen=True):
    """Nothing to change."""


class Arm(msgspec.Struct, frozen=True):
    """Set the countdown to `duration_ms` of the board's clock, under `token`."""

    token: int
    duration_ms: int


class Disarm(msgspec.Struct, frozen=True):
    """Cancel the countdown that runs under `token`; nothing is planned."""

    token: int


class Foreign(msgspec.Struct, frozen=True):
    """A countdown that this bridge did not arm is running; it is not touched."""

    token: int
    remaining_ms: int


Action = Keep | Arm | Disarm | Foreign


def reconcile(
    desired: Plan | None, reading: TimerReading, now: Now, *, lease: int, rate: RateEstimate
) -> Action:
    """Return the one change that brings the board's countdown to what is desired.

    `desired` is what `planner.plan` returned for this `now`; `reading` was taken before it, and
    what passed since is counted on the boot clock. Only countdowns under `lease` are ever changed.
    """
    live = reading.state is CountdownState.ARMED
    if live and lease_of(reading.token) != lease:
        return Foreign(reading.token, reading.remaining_ms)
    if desired is None:
        return Disarm(reading.token) if live else Keep()
    if live and _agrees(desired, reading, now, rate):
        return Keep()
    return _arm(desired, reading)


def _agrees(desired: Plan, reading: TimerReading, now: Now, rate: RateEstimate) -> bool:
    """Say whether the running countdown does what is desired well enough to be left alone."""
    if reading.token != desired.token or reading.approximate:
        return False
    remaining_ns = reading.remaining_ms * _NS_PER_MS
    read_at_ns = now.wall_ns - (now.boot_ns - reading.boot_ns)
    end_ns = read_at_ns + rate.host_ns(remaining_ns)
    bound_ppm = rate.bound_for(desired.target_ns - now.wall_ns)
    end_latest_ns = read_at_ns + rate.host_ns(remaining_ns, -bound_ppm)
    too_late = end_latest_ns > desired.target_ns + AGREE_NS
    on_the_way = reading.duration_ms >= _FULL_LEG_MS or desired.leg is Leg.FULL
    if on_the_way and not too_late:
        return True  # the next leg follows
    if desired.leg is Leg.EARLY:
        return not too_late and not _worth_rearming(
            desired.target_ns - end_ns, desired.target_ns - desired.leg_end_ns
        )
    return abs(end_ns - desired.leg_end_ns) <= AGREE_NS


def _worth_rearming(early_ns: int, could_be_ns: int) -> bool:
    return (
        early_ns > _WORTH_REARMING_FACTOR * could_be_ns
        and early_ns - could_be_ns > _WORTH_REARMING_NS
    )


def _arm(desired: Plan, reading: TimerReading) -> Arm:
    """Arm what is desired in a way that the board cannot take for the countdown it has.

    A board leaves a countdown alone when it is set again with the same token and duration; one that
    must be restarted therefore gets a millisecond less.
    """
    duration_ms = desired.duration_ms
    if reading.state is CountdownState.ARMED and (reading.token, reading.duration_ms) == (
        desired.token,
        duration_ms,
    ):
        duration_ms -= 1
    return Arm(desired.token, duration_ms)
