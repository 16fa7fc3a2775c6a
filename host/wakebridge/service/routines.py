"""The only writer of routines: transition, commit, then the effects.

Every transition of `wakebridge.routine` passes through `_transition`: it is computed from the state
in memory, followed by whatever may start now, saved, and only then carried out. What cannot be
saved has not happened.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from wakebridge.board.errors import LinkError
from wakebridge.clock import Clock
from wakebridge.routine import (
    conversation,
    lineage,
    occurrence,
    routine,
    run_queue,
)
from wakebridge.routine import wake as wakes
from wakebridge.routine.busy import BusySessions
from wakebridge.routine.change import (
    Append,
    Change,
    Changed,
    Code,
    Effect,
    Entry,
    Refusal,
    RunEnded,
    StartRun,
    StopRun,
)
from wakebridge.routine.limits import NS_PER_S
from wakebridge.routine.occurrence import Interrupted
from wakebridge.routine.state import RoutineState, RunKind, next_due
from wakebridge.runner.port import Runner, request_of, undisturbed
from wakebridge.schedule.instants import Now
from wakebridge.service.clock_sense import ClockSense
from wakebridge.service.routine_ports import Countdown, RoutineStore, Transcripts
from wakebridge.store.errors import StateUnreadable, StoreError
from wakebridge.timeline import note
from wakewire.messages import Event

log = logging.getLogger(__name__)

# Before the first event of any board: a boot id that no board draws.
_NO_CURSOR: Final = (bytes(8), 0)

# How soon a disk that refused what has happened already is tried again.
SAVE_RETRY_S: Final = 1.0

Transition = Callable[[RoutineState, Now], Change | Refusal]


class Held(NamedTuple):
    """A session in which nothing starts. `run_id` is the run that works in it already, or None."""

    run_id: str | None


class RoutineService:
    """Routines, their conversations and their runs.

    `lease` marks countdowns as this bridge's. `draw_id` returns a fresh id. When the state cannot
    be loaded, everything here answers that the tool is not available and nothing is written (R31).
    `clock_doubted` says whether others know that the wall clock is wrong (E71).
    """

    def __init__(
        self,
        store: RoutineStore,
        transcripts: Transcripts,
        clock: Clock,
        countdown: Callable[[], Countdown],
        runner: Runner | None,
        *,
        lease: int,
        draw_id: Callable[[], str],
        clock_doubted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._transcripts = transcripts
        self._clock = clock
        self._countdown = countdown
        self._runner = runner
        self._lease = lease
        self._draw_id = draw_id
        self._clock_sense = ClockSense(clock_doubted)
        self._state = RoutineState()
        self._unavailable: str | None = "the routines have not been loaded"
        self._unrecorded = False
        self._unread_cursor = _NO_CURSOR
        self._writing = asyncio.Lock()
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._stops: set[asyncio.Task[None]] = set()
        self._closing = False
        self._busy = BusySessions()
        self._resuming: asyncio.TimerHandle | None = None
        self.observers: list[Callable[[Effect], None]] = []

    # -- start and stop ---------------------------------------------------------------------------

    async def start(self) -> None:
        """Load the state and record what a crash interrupted (R31, R48).

        Never raises: what is wrong with the state is logged and shown in `unavailable`.
        """
        try:
            self._state = await asyncio.to_thread(self._store.load)
        except StateUnreadable as error:
            self._unavailable = str(error)
            log.error("%s; serving without the schedule tool, the file is left as it is", error)
            return
        self._clock_sense.begin(self._state, self._clock.now())
        self._unrecorded = True
        await self._recover()

    async def _recover(self) -> None:
        """Record what a crash interrupted. Until the disk takes it there is no tool."""
        healed = occurrence.last_entries(self._state)
        recovered = await self._transition(
            lambda state, now: occurrence.interrupt_unfinished(state, "the bridge stopped", now),
            dispatch=False,
            recovering=True,
        )
        if isinstance(recovered, Refusal):
            self._unavailable = recovered.reason
            log.error("interrupted work could not be recorded: %s", recovered.reason)
            self._resume_in(SAVE_RETRY_S)
            return
        self._unrecorded, self._unavailable = False, None
        for effect in healed:
            await self._append(effect)

    async def resume(self) -> None:
        """Start whatever may start; to be called when the runner can take work.

        If the disk refuses, it is tried again by itself: nobody else may ask for a long time.
        """
        if self._unrecorded:
            await self._recover()
        if self._unavailable is not None:
            return
        resumed = await self._transition(lambda state, _now: Change(state))
        if isinstance(resumed, Refusal):
            self._resume_in(SAVE_RETRY_S)

    async def close(self) -> None:
        """Stop the runs and record them as interrupted, with what they had so far (R48)."""
        self._closing = True
        if self._resuming is not None:
            self._resuming.cancel()
        for task in [*self._runs.values(), *self._stops]:
            task.cancel()
        await asyncio.gather(*self._runs.values(), *self._stops, return_exceptions=True)
        if self._unavailable is None:
            await self._transition(
                lambda state, now: occurrence.interrupt_unfinished(
                    state, "the bridge was shut down", now
                ),
                dispatch=False,
            )
        if self._runner is not None:
            await self._runner.close()

    @property
    def unavailable(self) -> str | None:
        """Why there is no schedule tool, None when there is one (R31)."""
        return self._unavailable

    @property
    def state(self) -> RoutineState:
        """The committed state."""
        return self._state

    def earliest_ns(self) -> int | None:
        """Return the earliest due instant in wall ns: the board is armed for it (R44)."""
        return next_due(self._state)

    # -- the WakeSink port ------------------------------------------------------------------------

    def cursor(self) -> tuple[bytes, int]:
        """Return boot id and sequence number of the newest wake event dealt with."""
        if self._unavailable is not None:
            return self._unread_cursor
        cursor = self._state.cursor
        return _NO_CURSOR if cursor is None else (bytes.fromhex(cursor.boot_id), cursor.seq)

    async def woken(self, boot_id: bytes, events: Sequence[Event], expired_token: int) -> None:
        """Commit the cursor and what became due, together, then start it (R40, R41, R42).

        Raises `StoreError`; the events are then read again by the next pass.
        """
        if self._unavailable is not None:
            if events:
                self._unread_cursor = (boot_id, events[-1].seq)
            return
        confirmed = [wakes.WakeEvent(each.seq, each.source, each.token) for each in events]

        def transition(state: RoutineState, now: Now) -> Change:
            woken = wakes.wake(state, boot_id.hex(), confirmed, now)
            if not expired_token:
                return woken
            recovered = wakes.recovered_expiry(
                woken.state, boot_id.hex(), expired_token, now, lease=self._lease
            )
            return Change(recovered.state, woken.effects + recovered.effects)

        # Cursor and queue first, by themselves: what is queued survives a crash, what has been
        # handed to the agent does not run again (R48).
        outcome = await self._transition(transition, dispatch=False)
        if isinstance(outcome, Refusal):
            raise StoreError(outcome.reason)
        await self.resume()

    async def clock_changed(self) -> None:
        """The wall clock was stepped, or is believed from now on: follow it (R6).

        Whatever is saved next does that in any case; this is for when nothing else is.
        """
        await self.resume()

    # -- asked for by agents ----------------------------------------------------------------------

    async def create(self, definition: routine.Definition, session_id: str) -> Change | Refusal:
        """Create a routine, unless the board is away or its countdown is another's (R9, R10)."""
        if self._unavailable is not None:
            return _off(self._unavailable)
        routine_id = self._draw_id()

        def transition(state: RoutineState, now: Now) -> Change | Refusal:
            return routine.create(
                state,
                definition,
                routine_id=routine_id,
                session_id=session_id,
                now=now,
                doubted=self._clock_sense.doubted(now),
            )

        # A request that is wrong in itself is told so without asking the board.
        tried = transition(self._state, self._clock.now())
        if isinstance(tried, Refusal):
            return tried
        countdown = self._countdown()
        try:
            reading = await countdown.reading()
        except LinkError as error:
            return Refusal(Code.MCU_UNAVAILABLE, f"the MCU cannot be reached: {error}")
        if countdown.is_foreign(reading):
            return Refusal(
                Code.MCU_TAKEN,
                "an independently programmed MCU timer is active"
                f" ({reading.remaining_ms / 1000:.0f} s left): cancel it or wait for it",
            )
        return await self._transition(transition)

    async def update(self, routine_id: str, definition: routine.Definition) -> Change | Refusal:
        """Replace a routine that is stopped or pending (R3)."""
        return await self._transition(
            lambda state, now: routine.update(
                state, routine_id, definition, now, doubted=self._clock_sense.doubted(now)
            )
        )

    async def cancel(self, routine_id: str) -> Change | Refusal:
        """Cancel future runs, and ask a running one to stop (R4)."""
        return await self._transition(lambda state, now: routine.cancel(state, routine_id, now))

    async def timer_error(self) -> str:
        """Return what keeps the countdown from being confirmed, empty for nothing (R8)."""
        return await self._countdown().confirm()

    # -- conversations ----------------------------------------------------------------------------

    async def open_session(self, session_id: str) -> Change | Refusal:
        """Enter a new backend session (R10)."""
        return await self._transition(
            lambda state, now: conversation.open_session(state, session_id, now)
        )

    async def revise_session(self, session_id: str, new_session_id: str) -> Change | Refusal:
        """Enter the revision that compaction made of a session (R22)."""
        return await self._transition(
            lambda state, now: conversation.revise_session(state, session_id, new_session_id, now)
        )

    async def clear_session(self, session_id: str, reason: str | None) -> Change | Refusal:
        """End a session whose history was cleared; its routines fail explicitly (R22)."""
        return await self._transition(
            lambda state, now: conversation.clear_session(state, session_id, reason, now)
        )

    async def replace_session(
        self, session_id: str, new_session_id: str, reason: str | None
    ) -> Change | Refusal:
        """End a session that a configuration change replaced by a new root (R22)."""
        return await self._transition(
            lambda state, now: conversation.replace_session(
                state, session_id, new_session_id, reason, now
            )
        )

    # -- work in conversations --------------------------------------------------------------------

    async def submit(
        self, kind: RunKind, task: str, session_id: str, *, interrupts: bool = False
    ) -> str | Refusal:
        """Queue an interactive request or background work in a session; return its run id (R21)."""
        run_id = self._draw_id()
        queued = await self._transition(
            lambda state, now: run_queue.submit(
                state,
                kind,
                task,
                run_id=run_id,
                session_id=session_id,
                now=now,
                interrupts=interrupts,
            )
        )
        return queued if isinstance(queued, Refusal) else run_id

    async def withdraw(self, session_id: str, run_id: str) -> Change | Refusal:
        """Take such work back: out of the queue, or a request to stop it."""
        return await self._transition(
            lambda state, _now: run_queue.withdraw(state, run_id, session_id)
        )

    async def session_busy(
        self, session_id: str, lease_s: float, *, interrupts: bool = False
    ) -> Held | Refusal:
        """Start nothing in a session for so long, or until `session_idle` (R21).

        For a backend that works in it without the bridge; not kept over a restart. The answer
        names the run that the bridge has in the session already. With `interrupts` that run is
        asked to stop, as by an interactive request.
        """
        root = self._root_of(session_id)
        if isinstance(root, Refusal):
            return root
        until_ns = self._clock.now().boot_ns + round(lease_s * NS_PER_S)
        self._busy.hold(root, until_ns)
        self._await_lease_end()
        # Behind a transition that may be starting a run there right now.
        seen = await self._transition(
            lambda state, _now: run_queue.preempt(state, root) if interrupts else Change(state)
        )
        return seen if isinstance(seen, Refusal) else Held(run_queue.active_in(self._state, root))

    async def session_idle(self, session_id: str) -> Change | Refusal:
        """End what `session_busy` began: what waits in the session may start."""
        root = self._root_of(session_id)
        if isinstance(root, Refusal):
            return root
        self._busy.release(root)
        return await self._transition(lambda state, _now: Change(state))

    def _root_of(self, session_id: str) -> str | Refusal:
        """Return the root of an open conversation; a session stands for all of its revisions."""
        if self._unavailable is not None:
            return _off(self._unavailable)
        found = lineage.resolve(self._state.lineages, session_id)
        return found if isinstance(found, Refusal) else found.root

    def _await_lease_end(self) -> None:
        """See to it that what waits is started when the next lease ends."""
        now_ns = self._clock.now().boot_ns
        end_ns = self._busy.next_end_ns(now_ns)
        if end_ns is not None:
            # A little more, so that the lease has ended on the other clock as well.
            self._resume_in((end_ns - now_ns) / NS_PER_S + 1e-3)

    def _resume_in(self, delay_s: float) -> None:
        """Start whatever may start after so long, or earlier if that is planned already."""
        loop = asyncio.get_running_loop()
        if self._resuming is not None and self._resuming.when() > loop.time() + delay_s:
            self._resuming.cancel()
            self._resuming = None
        if self._resuming is None and not self._closing:
            self._resuming = loop.call_later(delay_s, self._resume_now)

    def _resume_now(self) -> None:
        self._resuming = None
        self._await_lease_end()
        resumed = asyncio.create_task(self.resume(), name="resume")
        self._stops.add(resumed)
        resumed.add_done_callback(self._stops.discard)

    async def transcript(self, session_id: str) -> Sequence[Entry] | Refusal:
        """Return a session's transcript, oldest line first. Raises `StoreError`."""
        entries = (await asyncio.to_thread(self._transcripts.read, session_id)).entries
        if entries or lineage.lineage_of(self._state.lineages, session_id):
            return entries
        if self._unavailable is not None:  # then nobody knows whether there is such a session
            return Refusal(Code.INTERNAL, f"the ledger cannot be read: {self._unavailable}")
        return lineage.unknown(session_id)

    # -- the writer -------------------------------------------------------------------------------

    async def _transition(
        self, make: Transition, *, dispatch: bool = True, recovering: bool = False
    ) -> Change | Refusal:
        """Compute, save, take over, carry out; a failed save leaves everything as it was.

        It comes to its end also when whoever asked is cancelled: what is on disk and what is in
        memory must never part.
        """
        return await undisturbed(self._carry_through(make, dispatch, recovering))

    async def _carry_through(
        self, make: Transition, dispatch: bool, recovering: bool
    ) -> Change | Refusal:
        if self._unavailable is not None and not recovering:
            return _off(self._unavailable)
        async with self._writing:
            now = self._clock.now()
            change = make(self._clock_sense.followed(self._state, now), now)
            if isinstance(change, Refusal):
                return change
            if dispatch and self._runner is not None and not self._closing:
                started = run_queue.dispatch(change.state, now, self._busy.roots(now.boot_ns))
                change = Change(started.state, change.effects + started.effects, change.routine)
            moved = change.state is not self._state
            if moved:
                written_ns = self._clock_sense.written_ns(now)
                state = msgspec.structs.replace(change.state, written_ns=written_ns)
                try:
                    await asyncio.to_thread(self._store.save, state)
                except StoreError as error:
                    log.error("%s", error)
                    return Refusal(Code.INTERNAL, f"the state could not be saved: {error}")
                self._state = state
            self._clock_sense.settle(now)
            await self._carry_out(change.effects)
        if moved:
            self._countdown().plan_changed()
        return change

    async def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Append():
                    await self._append(effect)
                case StartRun():
                    run = asyncio.create_task(self._run(effect), name=f"run {effect.run_id}")
                    self._runs[effect.run_id] = run
                    run.add_done_callback(functools.partial(self._forget, effect.run_id))
                case StopRun():
                    stop = asyncio.create_task(self._stop(effect), name=f"stop {effect.run_id}")
                    self._stops.add(stop)
                    stop.add_done_callback(self._stops.discard)
                case Changed(routine=changed):
                    note("routine", id=changed.id, status=changed.status.value)
                case RunEnded():
                    note("run ended", id=effect.run_id, outcome=effect.outcome.value)
            for observer in self.observers:
                observer(effect)

    def _forget(self, run_id: str, _run: asyncio.Task[None]) -> None:
        del self._runs[run_id]

    async def _append(self, effect: Append) -> None:
        try:
            await asyncio.to_thread(self._transcripts.append, effect)
        except StoreError as error:
            # The state has the result as well; the line is appended at the next start if it fits.
            log.error("%s", error)

    async def _run(self, start: StartRun) -> None:
        """Have the agent do one run and record how it ended."""
        assert self._runner is not None

        async def on_progress(text: str) -> None:
            await self._record(
                lambda state, now: occurrence.progress(state, start.run_id, text, now)
            )

        try:
            outcome = await self._runner.run(request_of(start), on_progress)
        except Exception:
            log.exception("run %s", start.run_id)
            outcome = Interrupted("internal fault of the bridge, see its log")
        await self._record(lambda state, now: occurrence.ended(state, start.run_id, outcome, now))

    async def _record(self, made: Transition) -> None:
        """Save what an agent has done. It has happened, so a full disk only delays it."""
        while not self._closing:
            recorded = await self._transition(made)
            if not isinstance(recorded, Refusal) or recorded.code is not Code.INTERNAL:
                return
            await asyncio.sleep(SAVE_RETRY_S)

    async def _stop(self, effect: StopRun) -> None:
        """Ask the runner to stop; the end of the run is reported by `_run` all the same."""
        assert self._runner is not None
        confirmed = await self._runner.cancel(effect.run_id)
        log.info("run %s: stop %s", effect.run_id, "confirmed" if confirmed else "not confirmed")


def _off(problem: str) -> Refusal:
    return Refusal(Code.INTERNAL, f"the schedule tool is off: {problem}")
