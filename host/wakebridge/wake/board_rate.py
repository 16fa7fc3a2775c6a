"""How fast the board's clock runs, learned from the answers it gives anyway.

Every answer that carries the board's uptime pins a moment of the board's clock between two moments
of the host's boot clock. Two of them, far apart, bound the board's rate, and the bound shrinks with
the time between them. The boot clock counts suspend and no step moves it, so neither disturbs the
measurement.
"""

import itertools
import statistics
from typing import Final

import msgspec

from wakewire.codes import CLOCK_CRYSTAL, CLOCK_RC, CLOCK_RTC, CLOCK_UNKNOWN

_PPM: Final = 1_000_000
_NS_PER_MS: Final = 1_000_000

# What a clock of that kind may be off by before anything was measured, in ppm. Crystals: 50 ppm as
# sold, doubled for temperature and age. RC oscillators: the 5 % that ESP32 sleep clocks show.
_CLAIMED_BOUND_PPM: Final = {CLOCK_CRYSTAL: 100.0, CLOCK_RTC: 200.0, CLOCK_RC: 50_000.0}
_UNKNOWN_BOUND_PPM: Final = 50_000.0

# How far a clock of that kind may wander from its past average, in ppm: the bound never gets
# smaller, however long it was measured.
_WANDER_PPM: Final = {CLOCK_CRYSTAL: 5.0, CLOCK_RTC: 20.0, CLOCK_RC: 2000.0}
_UNKNOWN_WANDER_PPM: Final = 500.0

# A measurement this narrow (ppm) confirms or refutes what a board claims of its clock.
_CONFIRMED_PPM: Final = 200.0

# Until it is confirmed, a claim is believed for legs up to this long; a longer leg allows for the
# worst clock, because being wrong by 2 % costs more than three hours in a week and an early wake
# costs little.
UNCONFIRMED_LEG_NS: Final = 15 * 60 * 1_000_000_000
UNCONFIRMED_BOUND_PPM: Final = 50_000.0

# A board clock beyond 20 % is not a clock; such a slope is a fault in the samples.
_PLAUSIBLE_PPM: Final = 200_000.0

# Samples kept. 32 give 496 pairs, a fraction of a millisecond to judge.
SAMPLES_MAX: Final = 32

# Samples older than two of the longest legs say little about the next one.
_SAMPLE_AGE_MAX_NS: Final = 14 * 86_400 * 1_000_000_000

# The board cuts its uptime to whole milliseconds: half of one on either side of the middle.
_QUANTUM_NS: Final = _NS_PER_MS // 2

# Pairs at most this much vaguer than the best one take part in the median: the filter for short
# round trips over long spans.
_VAGUENESS: Final = 4.0


class RateEstimate(msgspec.Struct, frozen=True):
    """The board's clock against the host's: `ppm` above zero means that the board runs fast.

    The true rate lies within `ppm` ± `bound_ppm`. `confirmed` says that this was measured and is
    not only what the board claims.
    """

    ppm: float
    bound_ppm: float
    confirmed: bool

    def bound_for(self, host_ns: int) -> float:
        """Return the bound, in ppm, to allow for over a leg of `host_ns`."""
        if self.confirmed or host_ns <= UNCONFIRMED_LEG_NS:
            return self.bound_ppm
        return max(self.bound_ppm, UNCONFIRMED_BOUND_PPM)

    def board_ns(self, host_ns: int, offset_ppm: float = 0.0) -> int:
        """Return what the board's clock counts while the host's counts `host_ns`.

        `offset_ppm` moves the rate, within its bound for instance.
        """
        return host_ns + round(host_ns * (self.ppm + offset_ppm) / _PPM)

    def host_ns(self, board_ns: int, offset_ppm: float = 0.0) -> int:
        """Return what the host's clock counts while the board's counts `board_ns`."""
        return round(board_ns / (1 + (self.ppm + offset_ppm) / _PPM))


EXACT: Final = RateEstimate(ppm=0.0, bound_ppm=0.0, confirmed=True)
"""A board that keeps the host's time to the nanosecond; for tests and plain arithmetic."""


def claimed(clock_quality: int) -> RateEstimate:
    """Return what to believe of a board before anything was measured.

    `clock_quality` is the wire's code; one that this host does not know counts as unknown.
    """
    return RateEstimate(0.0, _CLAIMED_BOUND_PPM.get(clock_quality, _UNKNOWN_BOUND_PPM), False)


class _Sample(msgspec.Struct, frozen=True, gc=False):
    """The board's clock showed `board_ns` at `host_ns` ± `half_ns`."""

    host_ns: int
    half_ns: int
    board_ns: int


class _Slope(msgspec.Struct, frozen=True, gc=False):
    """The rate between two samples, in ppm, with the half width of what it can be."""

    ppm: float
    half_ppm: float


class BoardRate:
    """Learns the rate of one board during one boot of it.

    Memory is bounded by `SAMPLES_MAX`. Another boot id starts anew, because the uptime does.
    """

    def __init__(self, clock_quality: int = CLOCK_UNKNOWN) -> None:
        self._clock_quality = clock_quality
        self._boot_id = b""
        self._samples: list[_Sample] = []
        self._estimate: RateEstimate | None = None

    @property
    def sample_count(self) -> int:
        """How many samples the estimate rests on."""
        return len(self._samples)

    def start(self, boot_id: bytes, clock_quality: int) -> None:
        """Take what `hello` says. Known boot and quality: nothing is forgotten."""
        if boot_id != self._boot_id or clock_quality != self._clock_quality:
            self._boot_id = boot_id
            self._clock_quality = clock_quality
            self._samples.clear()
            self._estimate = None

    def observe(self, boot_id: bytes, sent_ns: int, received_ns: int, uptime_ms: int) -> None:
        """Take one answer: requested and received at these moments of the boot clock.

        A sample that contradicts the order of time restarts the measurement.
        """
        if boot_id != self._boot_id:
            self.start(boot_id, self._clock_quality)
        half_ns = max(received_ns - sent_ns, 0) // 2 + _QUANTUM_NS
        sample = _Sample((sent_ns + received_ns) // 2, half_ns, uptime_ms * _NS_PER_MS)
        self._estimate = None
        if self._samples:
            last = self._samples[-1]
            if sample.board_ns < last.board_ns or sample.host_ns < last.host_ns:
                self._samples.clear()
        self._samples.append(sample)
        self._forget()

    def _forget(self) -> None:
        """Drop what is old, then, of the two closest neighbours, the vaguer one."""
        samples = self._samples
        oldest_ns = samples[-1].host_ns - _SAMPLE_AGE_MAX_NS
        while len(samples) > 2 and samples[1].host_ns < oldest_ns:
            del samples[0]
        if len(samples) > SAMPLES_MAX:
            at = min(
                range(1, len(samples)),
                key=lambda index: samples[index].host_ns - samples[index - 1].host_ns,
            )
            del samples[at if samples[at].half_ns >= samples[at - 1].half_ns else at - 1]

    def estimate(self) -> RateEstimate:
        """Return the best knowledge now: what was measured, and what the board claims."""
        if self._estimate is None:
            self._estimate = self._judge()
        return self._estimate

    def _judge(self) -> RateEstimate:
        prior = claimed(self._clock_quality)
        wander_ppm = _WANDER_PPM.get(self._clock_quality, _UNKNOWN_WANDER_PPM)
        measured = _measure(self._samples, wander_ppm)
        if measured is None:
            return prior
        if measured.half_ppm <= prior.bound_ppm or abs(measured.ppm) > (
            measured.half_ppm + prior.bound_ppm
        ):
            # Sharper than the claim, or the claim is refuted.
            bound_ppm = measured.half_ppm + wander_ppm
            return RateEstimate(measured.ppm, bound_ppm, True)
        return msgspec.structs.replace(prior, confirmed=measured.half_ppm <= _CONFIRMED_PPM)


def _measure(samples: list[_Sample], wander_ppm: float) -> _Slope | None:
    """Return the rate that most pairs of samples agree on, or None when there is no such rate.

    The median of the slopes (Theil and Sen) withstands lying samples; the narrowest pair that
    agrees with it gives the bound.
    """
    slopes = [
        slope
        for first, second in itertools.combinations(samples, 2)
        if (slope := _slope(first, second)) is not None
    ]
    if not slopes:
        return None
    vaguest_ppm = _VAGUENESS * min(slope.half_ppm for slope in slopes)
    sharp = [slope for slope in slopes if slope.half_ppm <= vaguest_ppm]
    median_ppm = statistics.median(slope.ppm for slope in sharp)
    agreeing = [
        slope for slope in sharp if abs(slope.ppm - median_ppm) <= slope.half_ppm + 2 * wander_ppm
    ]
    if abs(median_ppm) > _PLAUSIBLE_PPM or 2 * len(agreeing) < len(sharp):
        return None
    best = min(agreeing, key=lambda slope: slope.half_ppm)
    return _Slope(median_ppm, best.half_ppm + abs(best.ppm - median_ppm))


def _slope(first: _Sample, second: _Sample) -> _Slope | None:
    """Return the rate between two samples, or None where they are too close to have one."""
    span_ns = second.host_ns - first.host_ns
    half_ns = first.half_ns + second.half_ns
    if span_ns <= half_ns:
        return None
    gained_ns = second.board_ns - first.board_ns - span_ns
    return _Slope(gained_ns / span_ns * _PPM, half_ns / span_ns * _PPM)
