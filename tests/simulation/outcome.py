"""What comes of a history."""

from dataclasses import dataclass, field

from .history import History
from .kernel import Violation


@dataclass
class Outcome:
    """How a history went. Two runs of the same one have the same `trace_hash`."""

    history: History
    violation: Violation | None
    at_ns: int
    trace_hash: str
    trace: list[str]
    faults: dict[str, int]
    """How many of each kind were injected."""
    figures: dict[str, int] = field(default_factory=dict)
    late_ms: list[int] = field(default_factory=list)
    """How late each fire left that was in time."""
