"""From the earliest due instant to one countdown: which leg to arm now, and under which token.

A board counts at most seven days, and its clock is not the host's. So a far target is reached in
legs of the greatest length (R5), then perhaps one that ends early by what the board's clock may be
off, and a last one that is short enough to be precise.
"""

import binascii
import enum
from typing import Final

import msgspec

from wakebridge.schedule.instants import Now
from wakebridge.wake.board_rate import RateEstimate
from wakewire.limits import COUNTDOWN_MAX_MS

_NS_PER_S: Final = 1_000_000_000
_NS_PER_MS: Final = 1_000_000

LEG_MIN_NS: Final = 100_000_000
"""The shortest leg: what is overdue is not armed in the past but this far ahead."""

PRECISION_NS: Final = 400_000_000
"""How uncertain the end of a final leg may be. Ending between zero and twice this after the target,
it keeps the wake within one second of it, and never before it."""


class Leg(enum.Enum):
    """What a countdown is for."""

    FULL = "full"
    """Seven days of a longer way."""
    EARLY = "early"
    """Ends before the target by what the board's clock may be off; one more leg follows."""
    FINAL = "final"
    """Ends at the target."""


class Plan(msgspec.Struct, frozen=True):
    """The countdown that should run: `duration_ms` of the board's clock, from now on.

    `target_ns` is the wall-clock instant to wake for and `leg_end_ns` when this leg is expected to
    end. `token` names lease and target, so every leg towards one target carries the same.
    """

    token: int
    target_ns: int
    leg_end_ns: int
    duration_ms: int
    leg: Leg

    @property
    def final(self) -> bool:
        """Whether this leg ends at the target."""
        return self.leg is Leg.FINAL


def token_for(lease: int, target_ns: int) -> int:
    """Return the countdown token of a target: the bridge's 16-bit lease, then a 16-bit tag.

    The tag is a checksum of the target in ms, so that an unchanged target keeps its token over a
    restart of the bridge. `lease` is 1..65535; 0 is for countdowns that were set by hand.
    """
    target_ms = target_ns // _NS_PER_MS
    tag = binascii.crc_hqx(target_ms.to_bytes(16, "big", signed=True), 0)
    return lease << 16 | tag


def lease_of(token: int) -> int:
    """Return the lease that a token was made under."""
    return token >> 16


def wake_target(wall_ns: int, due_ns: int, lead_s: float) -> int:
    """Return the instant to wake for: `lead_s` before the due instant, then that instant itself."""
    early_ns = due_ns - round(lead_s * _NS_PER_S)
    return early_ns if wall_ns < early_ns else due_ns


def plan(
    now: Now, earliest_ns: int | None, *, lease: int, lead_s: float, rate: RateEstimate
) -> Plan | None:
    """Return the countdown that should run now, or None when nothing is due ever.

    `earliest_ns` is the earliest due instant of all schedules (R44), `lead_s` what the host needs
    to resume. A countdown is at most 604 800 s of the board's clock and at least `LEG_MIN_NS`.
    """
    if earliest_ns is None:
        return None
    target_ns = wake_target(now.wall_ns, earliest_ns, lead_s)
    ahead_ns = max(target_ns - now.wall_ns, LEG_MIN_NS)
    leg, duration_ms = _leg(ahead_ns, rate)
    leg_end_ns = now.wall_ns + rate.host_ns(duration_ms * _NS_PER_MS)
    return Plan(token_for(lease, target_ns), target_ns, leg_end_ns, duration_ms, leg)


def _leg(ahead_ns: int, rate: RateEstimate) -> tuple[Leg, int]:
    """Choose the leg towards a target `ahead_ns` away; return it with its board milliseconds."""
    bound_ppm = rate.bound_for(ahead_ns)
    if ahead_ns * bound_ppm <= PRECISION_NS * 1_000_000:
        # Counted as if the board ran as fast as it may, so that it is never early.
        final_ms = -(-rate.board_ns(ahead_ns, bound_ppm) // _NS_PER_MS)
        if final_ms <= COUNTDOWN_MAX_MS:
            return Leg.FINAL, final_ms
    # Counted as if it ran as slowly as it may, so that it is never late.
    early_ms = rate.board_ns(ahead_ns, -bound_ppm) // _NS_PER_MS
    if early_ms >= COUNTDOWN_MAX_MS:
        return Leg.FULL, COUNTDOWN_MAX_MS
    return Leg.EARLY, max(early_ms, LEG_MIN_NS // _NS_PER_MS)
