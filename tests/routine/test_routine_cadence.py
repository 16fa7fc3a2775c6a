"""The phase of a repeating routine never drifts, and no occurrence runs twice (R6, R41, R47).

Also the whole domain under random histories: whatever happens in whatever order, the invariants
of the document hold and every occurrence starts at most once.
"""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from routine_world import BOOT, LEASE, NS, SESSION, START_NS, World
from wakebridge.routine import cadence, check, conversation, lineage, occurrence, run_queue, wake
from wakebridge.routine.change import Change, Refusal, StartRun
from wakebridge.routine.clock_step import clock_stepped
from wakebridge.routine.occurrence import Completed, Failed, Interrupted, Outcome, Stopped
from wakebridge.routine.state import (
    STOPPED,
    Every,
    Once,
    Phase,
    RoutineState,
    RunKind,
    Status,
    next_due,
)
from wakebridge.store.routines_json import read_state, write_state

DAY_S = 86_400
INSTANTS = st.integers(0, 4_000_000_000 * NS)


@given(INSTANTS, st.integers(1, 604_800), INSTANTS)
def test_r6_the_next_occurrence_is_the_first_later_one_on_the_grid(
    anchor_ns: int, interval_s: int, after_ns: int
) -> None:
    rule_ = Every(anchor_ns=anchor_ns, interval_s=interval_s)
    due_ns = cadence.next_after(rule_, after_ns)
    assert due_ns is not None
    assert due_ns > after_ns
    assert (due_ns - anchor_ns) % (interval_s * NS) == 0
    assert due_ns == anchor_ns or due_ns - interval_s * NS <= after_ns


@given(INSTANTS, INSTANTS)
def test_a_one_off_has_one_occurrence(due_ns: int, after_ns: int) -> None:
    expected = due_ns if due_ns > after_ns else None
    assert cadence.next_after(Once(due_ns=due_ns), after_ns) == expected


@settings(max_examples=30, deadline=None)
@given(
    outages=st.lists(
        st.tuples(st.integers(0, 182 * DAY_S), st.integers(1, 9 * DAY_S)), max_size=12
    ),
    offset_ns=st.integers(0, NS - 1),
    slow_s=st.integers(0, 3 * DAY_S),
)
def test_r47_six_months_of_a_daily_routine_with_the_bridge_down_at_random(
    outages: list[tuple[int, int]], offset_ns: int, slow_s: int
) -> None:
    """The first run takes `slow_s`, to have a run that outlasts several intervals."""
    world = World()
    world.at_ns += offset_ns
    world.create(delay_s=3600, interval_s=DAY_S)
    anchor_ns = world.at_ns + 3600 * NS
    down = sorted((START_NS + at_s * NS, START_NS + (at_s + for_s) * NS) for at_s, for_s in outages)
    end_ns, ran = START_NS + 182 * DAY_S * NS, []
    while (due_ns := world.routine().next_due_ns) is not None and due_ns < end_ns:
        up_ns = max(due_ns, world.at_ns)
        for start_ns, stop_ns in down:
            if start_ns <= up_ns < stop_ns:
                up_ns = stop_ns
        world.at_ns = up_ns
        world.wake()
        [start] = world.dispatch()
        assert start.due_ns == due_ns
        ran.append(due_ns)
        world.at_ns += (1 if ran[1:] else slow_s + 1) * NS
        world.end(start.run_id)
        # Another wake before the next occurrence, and the same one delivered again.
        world.apply(wake.wake(world.state, BOOT, [wake.WakeEvent(world.seq, 4, 1)], world.now))
        assert world.dispatch() == []
    assert len(ran) == len(set(ran))
    assert all((due_ns - anchor_ns) % (DAY_S * NS) == 0 for due_ns in ran)
    assert ran == sorted(ran)


OUTCOMES: list[Outcome] = [
    Completed("done"),
    Failed("broken"),
    Interrupted("gone"),
    Stopped(confirmed=True),
    Stopped(confirmed=False),
]
SESSIONS = [SESSION, "session-2"]


class AnyHistory(RuleBasedStateMachine):
    """Every transition in any order, with a crash (reload from bytes) between any two."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.count = 0
        self.started: set[tuple[str, int]] = set()

    @initialize()
    def second_session(self) -> None:
        self.take(conversation.open_session(self.world.state, SESSIONS[1], self.world.now))

    def take(self, change: Change | Refusal) -> None:
        if isinstance(change, Refusal):
            return
        before = self.world.state
        self.world.apply(change)
        if change.state is before:
            assert change.effects == ()

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    @rule(
        delay_s=st.integers(1, 100),
        interval_s=st.sampled_from([0, 0, 7, 60]),
        session_id=st.sampled_from(SESSIONS),
    )
    def create(self, delay_s: int, interval_s: int, session_id: str) -> None:
        known = lineage.resolve(self.world.state.lineages, session_id)
        if not isinstance(known, Refusal):
            self.world.create(
                self.fresh("r"), session_id=session_id, delay_s=delay_s, interval_s=interval_s
            )

    @rule(data=st.data(), delay_s=st.integers(1, 100))
    def update(self, data: st.DataObject, delay_s: int) -> None:
        if self.world.state.routines:
            routine = data.draw(st.sampled_from(self.world.state.routines))
            change = self.world.update(routine.id, delay_s=delay_s)
            if isinstance(change, Change):
                assert routine.status is not Status.RUNNING
                # An update is a new plan: it may ask for an instant that ran before.
                self.started = {key for key in self.started if key[0] != routine.id}
            self.take(change)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.world.state.routines:
            self.world.cancel(data.draw(st.sampled_from(self.world.state.routines)).id)

    @rule(seconds=st.sampled_from([0, 1, 5, 30, 100]))
    def pass_time(self, seconds: int) -> None:
        self.world.at_ns += seconds * NS

    @rule(step_s=st.integers(-300, 300))
    def step_clock(self, step_s: int) -> None:
        self.world.at_ns += step_s * NS
        self.take(clock_stepped(self.world.state, step_s * NS, self.world.now))
        # All of these were asked for as delays, so their occurrences move with the clock.
        self.started = {(routine_id, due + step_s * NS) for routine_id, due in self.started}

    @rule(source=st.sampled_from([1, 2, 3, 4, 4, 4, 5]))
    def wake(self, source: int) -> None:
        queued = len(self.world.state.runs)
        self.world.wake(source)
        if source != 4:
            assert len(self.world.state.runs) == queued

    @rule()
    def recover_expiry(self) -> None:
        token = LEASE << 16 | self.world.seq & 0xFFFF
        change = wake.recovered_expiry(self.world.state, BOOT, token, self.world.now, lease=LEASE)
        self.take(change)

    @rule(busy=st.sets(st.sampled_from(SESSIONS), max_size=1))
    def dispatch(self, busy: set[str]) -> None:
        change = run_queue.dispatch(self.world.state, self.world.now, frozenset(busy))
        self.take(change)
        for effect in change.effects:
            if isinstance(effect, StartRun) and effect.routine_id and effect.due_ns:
                assert (effect.routine_id, effect.due_ns) not in self.started
                self.started.add((effect.routine_id, effect.due_ns))

    @rule(
        kind=st.sampled_from([RunKind.INTERACTIVE, RunKind.BACKGROUND]),
        session_id=st.sampled_from(SESSIONS),
        interrupts=st.booleans(),
    )
    def submit(self, kind: RunKind, session_id: str, interrupts: bool) -> None:
        change = run_queue.submit(
            self.world.state,
            kind,
            "x",
            run_id=self.fresh("w"),
            session_id=session_id,
            now=self.world.now,
            interrupts=interrupts,
        )
        self.take(change)

    def with_any_run(self, data: st.DataObject, use: Callable[[str], Change | Refusal]) -> None:
        if self.world.state.runs:
            self.take(use(data.draw(st.sampled_from(self.world.state.runs)).id))

    @rule(data=st.data(), outcome=st.sampled_from(OUTCOMES))
    def end(self, data: st.DataObject, outcome: Outcome) -> None:
        state, now = self.world.state, self.world.now
        self.with_any_run(data, lambda run_id: occurrence.ended(state, run_id, outcome, now))

    @rule(data=st.data())
    def report_progress(self, data: st.DataObject) -> None:
        state, now = self.world.state, self.world.now
        self.with_any_run(data, lambda run_id: occurrence.progress(state, run_id, "piece", now))

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        state = self.world.state
        roots = {run.id: run.lineage for run in state.runs}
        self.with_any_run(data, lambda run_id: run_queue.withdraw(state, run_id, roots[run_id]))

    @rule(session_id=st.sampled_from(SESSIONS))
    def revise(self, session_id: str) -> None:
        state, now = self.world.state, self.world.now
        known = lineage.resolve(state.lineages, session_id)
        if not isinstance(known, Refusal):
            newest = lineage.newest(known)
            self.take(conversation.revise_session(state, newest, self.fresh("s"), now))

    @rule(session_id=st.just(SESSIONS[1]), replaced=st.booleans())
    def end_session(self, session_id: str, replaced: bool) -> None:
        state, now = self.world.state, self.world.now
        if replaced:
            new_id = self.fresh("s")
            self.take(conversation.replace_session(state, session_id, new_id, "why", now))
        else:
            self.take(conversation.clear_session(state, session_id, None, now))

    @rule()
    def crash_and_restart(self) -> None:
        queued = [run.id for run in self.world.state.runs if run.phase is Phase.QUEUED]
        self.world.state = read_state(write_state(self.world.state))
        change = occurrence.interrupt_unfinished(self.world.state, "restart", self.world.now)
        self.take(change)
        assert [run.id for run in self.world.state.runs] == queued

    @invariant()
    def the_document_is_sound(self) -> None:
        assert check.faults(self.world.state) == []

    @invariant()
    def what_is_armed_is_what_is_scheduled(self) -> None:
        scheduled = [r for r in self.world.state.routines if r.status is Status.SCHEDULED]
        assert (next_due(self.world.state) is None) == (not scheduled)
        assert all(r.next_due_ns is None for r in self.world.state.routines if r.status in STOPPED)


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_first_start_is_an_empty_document() -> None:
    assert check.faults(RoutineState()) == []
