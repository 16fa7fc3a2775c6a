"""The routine domain on a table: one state, one clock, every effect kept.

Each step checks what must hold after every transition: the invariants of the document, and that
it reads back from its own bytes.
"""

from typing import TypeVar

from wakebridge.routine import (
    check,
    conversation,
    occurrence,
    routine,
    run_queue,
    tool,
    wake,
)
from wakebridge.routine.change import Change, Effect, Refusal, StartRun, StopRun
from wakebridge.routine.occurrence import Completed, Outcome
from wakebridge.routine.state import (
    Routine,
    RoutineState,
    Run,
    RunKind,
    routine_of,
    run_of_routine,
)
from wakebridge.schedule.instants import Now
from wakebridge.store.routines_json import read_state, write_state

NS = 1_000_000_000
START_NS = 1_800_000_000 * NS
BOOT = "00112233445566ff"
LEASE = 0x1234
SESSION = "session-1"

E = TypeVar("E")


class World:
    """A state that moves on by calls, with the time in seconds since its start."""

    def __init__(self, session_id: str | None = SESSION) -> None:
        self.state = RoutineState()
        self.effects: list[Effect] = []
        self.at_ns = START_NS
        self.seq = 0
        if session_id is not None:
            self.apply(conversation.open_session(self.state, session_id, self.now))

    @property
    def now(self) -> Now:
        return Now(self.at_ns, self.at_ns - START_NS + NS)

    def at(self, second: float) -> "World":
        """Set the clock to this many seconds after the start."""
        self.at_ns = START_NS + round(second * NS)
        return self

    def apply(self, change: Change | Refusal) -> Change:
        """Take a change over; fail on a refusal and on a state that breaks a rule."""
        assert isinstance(change, Change), change
        if change.state is not self.state:
            assert check.faults(change.state) == []
            assert read_state(write_state(change.state)) == change.state
        self.state = change.state
        self.effects.extend(change.effects)
        return change

    def take(self, kind: type[E]) -> list[E]:
        """Return the effects of a kind since the last call, and forget all effects."""
        found: list[E] = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects.clear()
        return found

    def create(
        self, routine_id: str = "r1", *, session_id: str = SESSION, **fields: object
    ) -> Routine:
        """Create a routine as an agent would."""
        request = tool.parse({"action": "create", "task": f"task of {routine_id}", **fields})
        assert isinstance(request, tool.Create), request
        change = self.apply(
            routine.create(
                self.state,
                request.definition,
                routine_id=routine_id,
                session_id=session_id,
                now=self.now,
            )
        )
        assert change.routine is not None
        return change.routine

    def update(self, routine_id: str = "r1", **fields: object) -> Change | Refusal:
        """Ask for a replacement."""
        request = tool.parse(
            {"action": "update", "id": routine_id, "task": "another task", **fields}
        )
        assert isinstance(request, tool.Update), request
        return routine.update(self.state, request.id, request.definition, self.now)

    def cancel(self, routine_id: str = "r1") -> None:
        self.apply(routine.cancel(self.state, routine_id, self.now))

    def wake(self, source: int = wake.SOURCE_RTC_TIMER, token: int = LEASE << 16 | 1) -> None:
        """Have the board report one more event."""
        self.seq += 1
        event = wake.WakeEvent(self.seq, source, token)
        self.apply(wake.wake(self.state, BOOT, [event], self.now))

    def dispatch(self, busy: frozenset[str] = frozenset()) -> list[StartRun]:
        """Let whoever's turn it is begin; return what was started."""
        self.effects.clear()
        self.apply(run_queue.dispatch(self.state, self.now, busy))
        return [effect for effect in self.effects if isinstance(effect, StartRun)]

    def stops(self) -> list[StopRun]:
        return [effect for effect in self.effects if isinstance(effect, StopRun)]

    def start(self, routine_id: str = "r1") -> str:
        """Bring a scheduled routine to its agent; return the run's id."""
        due_ns = self.routine(routine_id).next_due_ns
        assert due_ns is not None
        self.at_ns = max(self.at_ns, due_ns)
        self.wake()
        started = [run.run_id for run in self.dispatch() if run.routine_id == routine_id]
        assert len(started) == 1
        return started[0]

    def end(self, run_id: str, outcome: Outcome | None = None) -> None:
        result = Completed("done") if outcome is None else outcome
        self.apply(occurrence.ended(self.state, run_id, result, self.now))

    def submit(
        self,
        kind: RunKind,
        run_id: str,
        *,
        session_id: str = SESSION,
        interrupts: bool = False,
    ) -> None:
        self.apply(
            run_queue.submit(
                self.state,
                kind,
                f"input {run_id}",
                run_id=run_id,
                session_id=session_id,
                now=self.now,
                interrupts=interrupts,
            )
        )

    def routine(self, routine_id: str = "r1") -> Routine:
        found = routine_of(self.state, routine_id)
        assert found is not None
        return found

    def run_of(self, routine_id: str = "r1") -> Run | None:
        return run_of_routine(self.state, routine_id)

    def next_s(self, routine_id: str = "r1") -> float | None:
        """Return the next due instant in seconds since the start."""
        due_ns = self.routine(routine_id).next_due_ns
        return None if due_ns is None else (due_ns - START_NS) / NS
