"""How much of everything a run measures."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """Counts and times of one kind of run; those ending in `peer` are for peers."""

    rounds: int
    rounds_peer: int
    """Each measurement is taken so often, and its median shown."""
    peers: bool
    """Whether the others are measured, too."""
    fires: int
    """Fires whose lateness is measured, and how far they are apart."""
    fires_peer: int
    spacing_s: float
    requests: int
    requests_peer: int
    storm: int
    """Schedules due in one instant."""
    storm_peer: int
    crowd: int
    """The larger of two store sizes that requests are compared at; `few` is the smaller."""
    few: int
    stored: int
    """Schedules in the store of a start."""
    load_rate: int
    """Requests per second, for so many seconds."""
    load_s: float
    rush: int
    """Schedules due in one second under load."""
    idle_s: float
    days: int
    """Simulated days."""


TINY = Size(
    rounds=1,
    peers=False,
    rounds_peer=1,
    fires=4,
    fires_peer=2,
    spacing_s=0.02,
    requests=10,
    requests_peer=3,
    storm=20,
    storm_peer=5,
    few=5,
    crowd=20,
    stored=200,
    load_rate=100,
    load_s=0.3,
    rush=30,
    idle_s=0.5,
    days=1,
)
"""To see that every benchmark runs. Its figures mean nothing."""

SHORT = Size(
    rounds=3,
    peers=True,
    rounds_peer=1,
    fires=300,
    fires_peer=24,
    spacing_s=0.02,
    requests=500,
    requests_peer=50,
    storm=5_000,
    storm_peer=100,
    few=100,
    crowd=10_000,
    stored=100_000,
    load_rate=1_000,
    load_s=10.0,
    rush=10_000,
    idle_s=60.0,
    days=3,
)
"""The figures of the promises in some minutes."""

FULL = Size(
    rounds=5,
    peers=True,
    rounds_peer=3,
    fires=1_000,
    fires_peer=60,
    spacing_s=0.02,
    requests=2_000,
    requests_peer=100,
    storm=5_000,
    storm_peer=200,
    few=100,
    crowd=10_000,
    stored=100_000,
    load_rate=1_000,
    load_s=60.0,
    rush=10_000,
    idle_s=60.0,
    days=5,
)
"""The same with more of everything, and the whole minute of load."""

SIZES = {"tiny": TINY, "short": SHORT, "full": FULL}
