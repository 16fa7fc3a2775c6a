"""Judges routines: every document that is saved, every run an agent is given, every answer.

The document is the contract of R30, so it is read as it is; what may change in it from one save to
the next is said here once more, from the requirements and from what the world knows to be true.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from wakebridge.routine.limits import INSTANT_MAX_NS
from wakebridge.routine.state import (
    Every,
    LineageStatus,
    Phase,
    Routine,
    RoutineState,
    Run,
    RunKind,
    Status,
)
from wakebridge.runner.port import Outcome, RunRequest
from wakebridge.schedule.instants import Now

from .board import SOURCE_RTC_TIMER, Expiry
from .kernel import NS, Violation
from .properties import (
    ALONE,
    CADENCE,
    DUE_ROUTINE,
    ELIGIBLE,
    KEPT,
    LINEAGE,
    ONCE,
    RECORDED,
    ROUTINE_LOST,
    STARTED,
    TOGETHER,
)

_UNTIL_QUEUED_NS: Final = 20 * NS
_RUNS_ACTIVE_MAX: Final = 4
_STEP_NOTICED_NS: Final = NS // 2
_SETTLING_NS: Final = 20 * NS


class Surroundings(Protocol):
    """What the judge may ask the world."""

    def now(self) -> Now: ...
    def board_log(self, boot_id: bytes) -> list[Expiry]: ...
    def has_expired(self, token: int) -> bool: ...
    def clock_trusted(self) -> bool: ...
    def writes_fail_until_ns(self) -> int: ...


@dataclass
class RoutineStats:
    runs: int = 0
    saves: int = 0
    queued: int = 0
    interrupted: int = 0
    answers: int = 0
    late_s: list[float] = field(default_factory=list)


class RoutineOracle:
    """The judge of one device's routines."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world
        self.stats = RoutineStats()
        self.state = RoutineState()
        self._saving: RoutineState | None = None
        self._acknowledged: set[str] = set()
        self._run_ids: set[str] = set()
        self._last_ran_ns: dict[str, int] = {}
        """The newest occurrence that an agent was given, by routine, until that is replaced."""
        self._running: dict[str, str] = {}
        self._owed_ns: dict[str, int] = {}
        """By how much each routine must still move because the clock was stepped."""
        self._perhaps_ns: dict[str, int] = {}
        """What of it came so soon after the end of a doubt that it can be taken for that end."""
        self._settled_ns = -_SETTLING_NS
        self._moving_ns: dict[str, int] = {}
        self._living = False
        self._step_seen_ns = 0
        self._believed = self._past_reached = True
        self._past_ns = 0
        self._asked_in_doubt: set[str] = set()
        self._before_save: tuple[set[str], dict[str, int]] = (set(), {})
        self._ended: dict[str, tuple[RunRequest, Outcome]] = {}
        self.world_ns: Callable[[], int] = lambda: 0
        self.saved_ns = 0

    # -- the document -----------------------------------------------------------------------------

    def loaded(self, state: RoutineState) -> None:
        """A process has read the document."""
        known = [self.state] if self._saving is None else [self.state, self._saving]
        if state not in known:
            raise Violation(KEPT, f"loaded {state}, but it is one of {known}")
        if state != self.state:  # the save that was cut off has come to its end
            self._follow()
        elif self._saving is not None:
            self._take_back()
        self.state, self._saving = state, None
        self._all_there(state)
        self._living = True
        self._past_ns = state.written_ns
        self._believed = self._past_reached = False
        flagged = {each.id for each in state.routines if each.rule.doubtful}
        if not flagged <= self._asked_in_doubt:
            raise Violation(CADENCE, f"{flagged} were not all asked for under a wrong clock")
        self._asked_in_doubt = flagged
        self.settle_doubt()

    @property
    def _doubted(self) -> bool:
        return not (self._believed and self._past_reached)

    def settle_doubt(self) -> None:
        """A clock that was wrong at the start is right once it is believed and past the past."""
        doubted = self._doubted
        self._believed |= self._world.clock_trusted()
        self._past_reached |= self._world.now().wall_ns >= self._past_ns
        if doubted and not self._doubted:
            self._settled_ns = self.world_ns()

    def saving(self, state: RoutineState) -> None:
        self._saving = state
        self._before_save = set(self._asked_in_doubt), dict(self._last_ran_ns)
        now = self._world.now()
        if state.written_ns not in (now.wall_ns, max(now.wall_ns, self._past_ns)):
            raise Violation(KEPT, f"written at {now.wall_ns}, but it says {state.written_ns}")
        self._judge(self.state, state)

    def save_failed(self) -> None:
        self._saving = None
        self._take_back()

    def _take_back(self) -> None:
        """What was to be saved is not so."""
        self._asked_in_doubt, self._last_ran_ns = self._before_save
        self._moving_ns.clear()

    def saved(self, state: RoutineState) -> None:
        self.stats.saves += 1
        self.state, self._saving = state, None
        self.saved_ns = self.world_ns()
        self._owed_ns.clear()
        self._perhaps_ns.clear()
        self._follow()
        self.settle_doubt()
        self._all_there(state)

    def _follow(self) -> None:
        """What has run moves with its routine."""
        for routine_id, by_ns in self._moving_ns.items():
            if routine_id in self._last_ran_ns:
                self._last_ran_ns[routine_id] += by_ns
        self._moving_ns.clear()

    def _all_there(self, state: RoutineState) -> None:
        missing = self._acknowledged - {routine.id for routine in state.routines}
        if missing:
            raise Violation(ROUTINE_LOST, f"{sorted(missing)} are not in the document")

    def _judge(self, old: RoutineState, new: RoutineState) -> None:
        """Hold the step from one document to the next to the requirements."""
        now = self._world.now()
        before = {routine.id: routine for routine in old.routines}
        runs = {run.id: run for run in old.runs}
        self.settle_doubt()
        self._moving_ns.clear()
        for routine in new.routines:
            was = before.get(routine.id)
            if was is not None:
                self._judge_cadence(was, routine)
            elif self._doubted:
                self._asked_in_doubt.add(routine.id)
        queued = [run for run in new.runs if run.kind is RunKind.SCHEDULED and run.id not in runs]
        woken = self._wake_between(old, new)
        if queued and not woken:
            raise Violation(ELIGIBLE, f"{[run.id for run in queued]} were queued without a wake")
        for run in queued:
            self._judge_queued(run, now)
        if woken:
            self._judge_complete(new, now)

    def _judge_cadence(self, was: Routine, now_is: Routine) -> None:
        rule, old = now_is.rule, was.rule
        if was.updated_ns != now_is.updated_ns and was.run_count == now_is.run_count:  # noqa: SIM102 - what happened, then whether it may
            if now_is.last_due_ns is None and now_is.status is Status.SCHEDULED:
                self._replaced(was.id)
                return
        if type(rule) is not type(old) or rule.elapsed is not old.elapsed:
            raise Violation(CADENCE, f"the rule of {was.id} changed: {old} to {rule}")
        self._judge_shift(now_is, _first(rule) - _first(old))
        due_ns = now_is.next_due_ns
        if due_ns is not None and isinstance(rule, Every):  # noqa: SIM102 - what happened, then whether it may
            if due_ns < rule.anchor_ns or (due_ns - rule.anchor_ns) % (rule.interval_s * NS):
                raise Violation(CADENCE, f"{due_ns} is no occurrence of {rule}")
        if due_ns is not None and now_is.last_due_ns is not None and due_ns <= now_is.last_due_ns:
            raise Violation(ONCE, f"{now_is.id} is due again at or before what it has run")

    def _replaced(self, routine_id: str) -> None:
        """An update begins a routine anew (R3)."""
        self._last_ran_ns.pop(routine_id, None)
        self._asked_in_doubt.discard(routine_id)
        if self._doubted:
            self._asked_in_doubt.add(routine_id)

    def _judge_shift(self, routine: Routine, by_ns: int) -> None:
        """A step of the clock moves elapsed time along, and nothing else moves anything (R6)."""
        owed_ns = self._owed_ns.get(routine.id, 0) if routine.rule.elapsed else 0
        ends = (_first(routine.rule), routine.next_due_ns, routine.last_due_ns)
        cut = any(each in (0, INSTANT_MAX_NS) for each in ends)
        wrong_by_ns = abs(by_ns - owed_ns)
        if (perhaps_ns := self._perhaps_ns.get(routine.id)) is not None:
            wrong_by_ns = min(wrong_by_ns, abs(by_ns - owed_ns + perhaps_ns))
        if wrong_by_ns >= _STEP_NOTICED_NS and not cut:
            raise Violation(
                CADENCE, f"{routine.id} moved by {by_ns} ns; the clock was stepped by {owed_ns} ns"
            )
        self._moving_ns[routine.id] = by_ns

    def _wake_between(self, old: RoutineState, new: RoutineState) -> bool:
        """Whether the cursor moved over a wake of the countdown that truly happened."""
        cursor = new.cursor
        if cursor is None or cursor == old.cursor:
            return False
        boot_id = bytes.fromhex(cursor.boot_id)
        after = old.cursor.seq if old.cursor and old.cursor.boot_id == cursor.boot_id else 0
        events = self._world.board_log(boot_id)
        if cursor.seq > max((each.seq for each in events), default=0):
            raise Violation(TOGETHER, f"the cursor is past what the board logged: {cursor}")
        passed = [each for each in events if after < each.seq <= cursor.seq]
        if any(each.source == SOURCE_RTC_TIMER for each in passed):
            return True
        token_was = old.cursor.expired_token if old.cursor and after else 0
        if cursor.expired_token != token_was:
            return self._world.has_expired(cursor.expired_token)
        return False

    def _judge_queued(self, run: Run, now: Now) -> None:
        self.stats.queued += 1
        if run.due_ns is None or run.due_ns > now.wall_ns:
            raise Violation(ELIGIBLE, f"{run.id} was queued before it is due")
        if run.phase is not Phase.QUEUED:
            raise Violation(TOGETHER, f"{run.id} was started in the save that queued it")
        self.stats.late_s.append((now.wall_ns - run.due_ns) / NS)

    def _judge_complete(self, new: RoutineState, now: Now) -> None:
        for routine in new.routines:
            due_ns = routine.next_due_ns
            if due_ns is not None and due_ns <= now.wall_ns:
                raise Violation(ELIGIBLE, f"a wake left {routine.id} behind, which was due")

    # -- the agent --------------------------------------------------------------------------------

    def run_begins(self, request: RunRequest) -> None:
        self.stats.runs += 1
        run = next((run for run in self.state.runs if run.id == request.run_id), None)
        if run is None or run.phase is not Phase.ACTIVE:
            raise Violation(TOGETHER, f"{request.run_id} began before that was saved")
        if request.run_id in self._run_ids:
            raise Violation(ONCE, f"{request.run_id} was given to the agent twice")
        self._run_ids.add(request.run_id)
        lineage = next(each for each in self.state.lineages if each.root == run.lineage)
        if lineage.status is not LineageStatus.OPEN or lineage.revisions[-1] != request.session_id:
            raise Violation(LINEAGE, f"{request} although {lineage}")
        if run.lineage in self._running.values():
            raise Violation(ALONE, f"{request.run_id} in {run.lineage} beside {self._running}")
        self._running[request.run_id] = run.lineage
        if run.routine_id is not None:
            due_ns = run.due_ns or 0
            if due_ns <= self._last_ran_ns.get(run.routine_id, -1):
                raise Violation(ONCE, f"{run.id}: an occurrence at or after {due_ns} ran before")
            self._last_ran_ns[run.routine_id] = due_ns

    def run_ends(self, request: RunRequest, outcome: Outcome) -> None:
        self._running.pop(request.run_id, None)
        self._ended[request.run_id] = (request, outcome)

    # -- the process, the clock -------------------------------------------------------------------

    def host_gone(self) -> None:
        self.settle_doubt()
        self._running.clear()
        self._owed_ns.clear()
        self._perhaps_ns.clear()
        self._living = False
        self._ended.clear()

    def stepped(self, by_ns: int) -> None:
        """The wall clock is about to be stepped; a running bridge moves elapsed time along (R6).

        A step that puts a clock right which was known to be wrong moves only what was asked for
        under the wrong clock. Whether it does can be seen once the bridge has noticed, and saved,
        that the clock is right.
        """
        if not self._living:
            return
        self.settle_doubt()
        self._step_seen_ns = self.world_ns()
        known_ns = max(self._settled_ns + _SETTLING_NS, self._world.writes_fail_until_ns())
        settling = self.saved_ns <= self._settled_ns and self._step_seen_ns < known_ns
        for routine in self.state.routines:
            in_doubt = self._doubted and routine.id not in self._asked_in_doubt
            if routine.rule.elapsed and not in_doubt:
                self._owed_ns[routine.id] = self._owed_ns.get(routine.id, 0) + by_ns
                if settling:
                    self._perhaps_ns[routine.id] = self._perhaps_ns.get(routine.id, 0) + by_ns

    # -- requests ---------------------------------------------------------------------------------

    def created(self, routine_id: str) -> None:
        self.stats.answers += 1
        self._acknowledged.add(routine_id)
        self._all_there(self.state)

    def listed(self, views: list[dict[str, Any]]) -> None:
        self.stats.answers += 1
        shown = {view["id"] for view in views}
        missing = self._acknowledged - shown
        if missing:
            raise Violation(ROUTINE_LOST, f"list does not show {sorted(missing)}")

    # -- what must be -----------------------------------------------------------------------------

    def overdue(self, calm_since_ns: int, wall_to_world: Callable[[int], int], at_ns: int) -> None:
        """Raise when something did not happen although everything was well long enough."""
        since_ns = max(calm_since_ns, self.saved_ns)
        for routine in self.state.routines:
            if routine.next_due_ns is None:
                continue
            due_ns = wall_to_world(routine.next_due_ns)
            if at_ns > max(due_ns, since_ns) + _UNTIL_QUEUED_NS:
                raise Violation(
                    DUE_ROUTINE, f"{routine.id} is {(at_ns - due_ns) / NS:.0f} s overdue"
                )
        if at_ns > since_ns + _UNTIL_QUEUED_NS:
            self._started(self.state)
            for run_id, (_, outcome) in self._ended.items():
                if any(run.id == run_id for run in self.state.runs):
                    raise Violation(RECORDED, f"{run_id} ended as {outcome}, which is not saved")
            unfollowed = [
                each
                for each, by_ns in self._owed_ns.items()
                if abs(by_ns) >= _STEP_NOTICED_NS and each not in self._perhaps_ns
            ]
            if unfollowed and at_ns > self._step_seen_ns + _UNTIL_QUEUED_NS:
                raise Violation(CADENCE, f"{unfollowed} did not follow the clock")

    def _started(self, state: RoutineState) -> None:
        active = [run for run in state.runs if run.phase is Phase.ACTIVE]
        slots = sum(1 for run in active if run.kind is not RunKind.INTERACTIVE)
        for run in state.runs:
            if run.phase is Phase.ACTIVE or any(each.lineage == run.lineage for each in active):
                continue
            if run.kind is RunKind.INTERACTIVE or slots < _RUNS_ACTIVE_MAX:
                raise Violation(STARTED, f"{run.id} waits for nothing")

    @property
    def records(self) -> int:
        """How many things the document holds."""
        return len(self.state.routines) + len(self.state.lineages) + len(self.state.runs)

    def next_due(self) -> int | None:
        return min(
            (each.next_due_ns for each in self.state.routines if each.next_due_ns is not None),
            default=None,
        )


def _on_grid(rule: Any, due_ns: int) -> bool:
    if not isinstance(rule, Every):
        return True
    turns, rest_ns = divmod(due_ns - rule.anchor_ns, rule.interval_s * NS)
    return turns >= 0 and not rest_ns


def _first(rule: Any) -> int:
    first_ns: int = rule.anchor_ns if isinstance(rule, Every) else rule.due_ns
    return first_ns
