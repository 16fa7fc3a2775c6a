"""How long a silent or absent agent is believed in: pure, time in seconds is an argument."""

from typing import Final

import msgspec

from wakebridge.runner.port import Failed, Interrupted, Outcome, Stopped

QUERIES_PER_LEASE: Final = 3
"""A query or its answer may be lost with a connection; three in a row are not."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one run, in seconds."""

    time_limit_s: float
    lease_s: float
    offline_grace_s: float
    cancel_limit_s: float


class Lease:
    """What is known about one agent and one run that it has taken.

    The agent is asked when a quarter of the lease has passed in silence, and given up after three
    questions without an answer. A question that could not be sent does not count: then it is our
    side that is cut off.
    """

    def __init__(self, patience: Patience, instance: str, now_s: float) -> None:
        self._patience = patience
        self._instance = instance
        self._late_s = now_s + patience.time_limit_s
        self._query_every_s = patience.lease_s / (QUERIES_PER_LEASE + 1)
        self._query_s = now_s + self._query_every_s
        self._unanswered = 0
        self._restarted = False
        self._offline_s: float | None = None
        self._stopping_s: float | None = None

    def heard(self, now_s: float) -> None:
        """Note that the agent has said something about the run."""
        self._unanswered = 0
        self._query_s = now_s + self._query_every_s

    def asked(self, now_s: float, *, sent: bool) -> None:
        """Note that the agent was asked, or that asking failed."""
        self._unanswered += sent
        self._query_s = now_s + self._query_every_s

    def present(self, instance: str | None, now_s: float) -> None:
        """Note which instance of the agent is online; None for offline."""
        if instance is None:
            if self._offline_s is None:
                self._offline_s = now_s
            return
        self._offline_s = None
        self._restarted = self._restarted or instance != self._instance

    def stopping(self, now_s: float) -> None:
        """Note that the agent is to stop."""
        if self._stopping_s is None:
            self._stopping_s = now_s

    def is_query_due(self, now_s: float) -> bool:
        """Tell whether it is time to ask the agent."""
        return now_s >= self._query_s

    def deadline_s(self) -> float:
        """Return the next moment at which `outcome` or `is_query_due` may change by itself."""
        deadlines = [self._late_s, self._query_s]
        if self._offline_s is not None:
            deadlines.append(self._offline_s + self._patience.offline_grace_s)
        if self._stopping_s is not None:
            deadlines.append(self._stopping_s + self._patience.cancel_limit_s)
        return min(deadlines)

    def outcome(self, now_s: float) -> Outcome | None:
        """Return how the run ends without a last word of the agent, or None to go on."""
        patience = self._patience
        if self._restarted:
            return Interrupted("the agent was started anew and has lost the run")
        if self._offline_s is not None and now_s >= self._offline_s + patience.offline_grace_s:
            return Interrupted("the agent has gone offline")
        if self._stopping_s is not None and now_s >= self._stopping_s + patience.cancel_limit_s:
            return Stopped(confirmed=False)
        if self._unanswered >= QUERIES_PER_LEASE and self.is_query_due(now_s):
            return Interrupted(f"the agent has been silent for {patience.lease_s:g} s")
        if now_s >= self._late_s:
            return Failed(f"the agent took longer than {patience.time_limit_s:g} s")
        return None
