"""The only writer of routines: transition, commit, then the effects.

Every transition of `wakebridge.routine` passes through `_transition`: it is computed from the state
in memory, followed by whatever may start now, saved, and only then carried out. What cannot be
saved has not happened.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from wakebridge.board.errors import LinkError
from wakebridge.clock import Clock
from wakebridge.routine import (
    clock_step,
    conversation,
    delegation,
    envelope,
    modes,
    occurrence,
    routine,
    run_queue,
    tool,
    view,
)
from wakebridge.routine import wake as wakes
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
from wakebridge.routine.occurrence import Interrupted, Outcome
from wakebridge.routine.state import RoutineState, RunKind, next_due
from wakebridge.runner.port import Runner, request_of
from wakebridge.schedule.instants import Now
from wakebridge.store.errors import StateUnreadable, StoreError
from wakebridge.store.transcripts import Transcript
from wakebridge.timeline import note
from wakebridge.wake.reconciler import TimerReading
from wakewire.messages import Event

log = logging.getLogger(__name__)

# Before the first event of any board: a boot id that no board draws.
_NO_CURSOR: Final = (bytes(8), 0)

# How soon the end of a run is saved again after the disk refused it.
SAVE_RETRY_S: Final = 1.0

TOOLS: Final = {
    modes.SCHEDULE: envelope.ToolInfo(modes.SCHEDULE, tool.DESCRIPTION, tool.ARGS_SCHEMA),
    modes.CREATE_AGENT_TASK: envelope.ToolInfo(
        modes.CREATE_AGENT_TASK, delegation.DESCRIPTION, delegation.ARGS_SCHEMA
    ),
}

Transition = Callable[[RoutineState, Now], Change | Refusal]


class RoutineStore(Protocol):
    """Where the state is kept (R30). Both calls block on the disk."""

    def load(self) -> RoutineState:
        """Return the stored state, an empty one at first. Raises `StateUnreadable`."""
        ...

    def save(self, state: RoutineState) -> None:
        """Replace the stored state atomically, or raise `StoreError` and change nothing."""
        ...


class Transcripts(Protocol):
    """Where a conversation's inputs and results are appended (R20, R23). Blocks on the disk."""

    def append(self, effect: Append) -> None:
        """Append one line durably, or raise `StoreError`."""
        ...

    def read(self, session_id: str) -> Transcript:
        """Return everything in a session's transcript, or raise `StoreError`."""
        ...


class Countdown(Protocol):
    """The board's countdown as the writer of routines needs it; `waking.Waking` is the one."""

    async def confirm(self) -> str:
        """Return the `timer_error`: empty when the live countdown agrees with the plan."""
        ...

    async def reading(self) -> TimerReading:
        """Read the live countdown. Raises `LinkError`."""
        ...

    def is_foreign(self, reading: TimerReading) -> bool:
        """Whether a countdown runs that this bridge did not arm."""
        ...

    def plan_changed(self) -> None:
        """The earliest due instant may have moved."""
        ...


class RoutineService:
    """Routines, their conversations and their runs.

    `lease` marks countdowns as this bridge's. `draw_id` returns a fresh id. When the state cannot
    be loaded, everything here answers that the tool is not available and nothing is written (R31).
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
        mode: modes.InputMode = modes.InputMode.TEXT,
        backend_agent: bool = True,
    ) -> None:
        self._store = store
        self._transcripts = transcripts
        self._clock = clock
        self._countdown = countdown
        self._runner = runner
        self._lease = lease
        self._draw_id = draw_id
        self.mode = mode
        self.backend_agent = backend_agent
        self._state = RoutineState()
        self._unavailable: str | None = "the routines have not been loaded"
        self._unread_cursor = _NO_CURSOR
        self._writing = asyncio.Lock()
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._stops: set[asyncio.Task[None]] = set()
        self._closing = False
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
        self._unavailable = None
        healed = occurrence.last_entries(self._state)
        recovered = await self._transition(
            lambda state, now: occurrence.interrupt_unfinished(state, "the bridge stopped", now),
            dispatch=False,
        )
        if isinstance(recovered, Refusal):
            self._unavailable = recovered.reason
            log.error("interrupted work could not be recorded: %s", recovered.reason)
            return
        for effect in healed:
            await self._append(effect)

    async def resume(self) -> None:
        """Start what was queued before the stop; to be called when the runner can take work."""
        if self._unavailable is None:
            await self._transition(lambda state, _now: Change(state))

    async def close(self) -> None:
        """Stop the runs and record them as interrupted, with what they had so far (R48)."""
        self._closing = True
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

    async def clock_stepped(self, step_ns: int) -> None:
        """Move what is elapsed time along with a step of the wall clock (R6)."""
        if self._unavailable is None:
            await self._transition(lambda state, now: clock_step.clock_stepped(state, step_ns, now))

    # -- the tool ---------------------------------------------------------------------------------

    def tools(self, caller: modes.Caller) -> list[envelope.ToolInfo]:
        """Return the tools that `caller` has (R11); none while the state is unreadable (R31)."""
        if self._unavailable is not None:
            return []
        return [TOOLS[name] for name in modes.tools_of(self.mode, self.backend_agent, caller)]

    async def call(
        self,
        body: bytes,
        *,
        tool_name: str = modes.SCHEDULE,
        session_id: str | None = None,
        caller: modes.Caller = modes.Caller.BACKEND,
    ) -> envelope.ToolAnswer:
        """Answer one call of a tool in the envelope that all tools share (R7, R8).

        `session_id` is the caller's session where the transport knows it; one in the envelope
        goes before.
        """
        called = self._clock.now()
        read = envelope.read_call(body)
        output: str | Refusal
        if isinstance(read, Refusal):
            output = read
        elif tool_name == modes.CREATE_AGENT_TASK:
            output = await self._delegate(read.input, read.session_id or session_id)
        else:
            output = await self._output(read.input, read.session_id or session_id, caller)
        return envelope.answer(
            TOOLS[tool_name],
            "" if isinstance(read, Refusal) else read.raw_input,
            envelope.error_output_of(output) if isinstance(output, Refusal) else output,
            is_error=isinstance(output, Refusal),
            duration_ms=(self._clock.now().boot_ns - called.boot_ns) // 1_000_000,
            called_ns=called.wall_ns,
        )

    async def call_decoded(self, payload: object) -> dict[str, object]:
        """Answer one call of the schedule tool that a transport has decoded already."""
        answered: dict[str, object] = msgspec.to_builtins(
            await self.call(msgspec.json.encode(payload))
        )
        return answered

    async def _delegate(self, value: object, session_id: str | None) -> str | Refusal:
        """Hand a task of the foreground to the backend agent (R11)."""
        refusal = modes.refused_delegation(self.mode, self.backend_agent)
        if refusal is not None:
            return refusal
        asked = delegation.parse(value)
        if isinstance(asked, Refusal):
            return asked
        if session_id is None:
            return Refusal(Code.NO_SESSION, "session_id is missing", "session_id")
        submitted = await self.submit(RunKind.INTERACTIVE, asked.task, session_id)
        if isinstance(submitted, Refusal):
            return submitted
        return envelope.output_of({"delegated": True}, "")

    async def _output(
        self, value: object, session_id: str | None, caller: modes.Caller
    ) -> str | Refusal:
        """Carry out one request; return the output with its `timer_error` (R8), or why not."""
        if self._unavailable is not None:
            return Refusal(Code.INTERNAL, f"the schedule tool is off: {self._unavailable}")
        request = tool.parse(value)
        match request:
            case Refusal():
                return request
            case tool.List():
                timer_error = await self._countdown().confirm()
                return envelope.output_of(view.views_of(self._state), timer_error)
            case tool.Create(definition=definition):
                changed = await self._create(definition, session_id, caller)
            case tool.Update(id=routine_id, definition=definition):
                changed = await self._transition(
                    lambda state, now: routine.update(state, routine_id, definition, now)
                )
            case tool.Cancel(id=routine_id):
                changed = await self._transition(
                    lambda state, now: routine.cancel(state, routine_id, now)
                )
        if isinstance(changed, Refusal):
            return changed
        assert changed.routine is not None
        timer_error = await self._countdown().confirm()
        return envelope.output_of(view.view_of(self._state, changed.routine), timer_error)

    async def _create(
        self, definition: routine.Definition, session_id: str | None, caller: modes.Caller
    ) -> Change | Refusal:
        """Create a routine, unless the board is away or its countdown is another's (R9, R10)."""
        refusal = modes.refused_creation(self.mode, self.backend_agent, caller)
        if refusal is not None:
            return refusal
        if session_id is None:
            reason = "session_id is missing: a schedule continues in a backend session"
            return Refusal(Code.NO_SESSION, reason, "session_id")
        routine_id, session = self._draw_id(), session_id

        def transition(state: RoutineState, now: Now) -> Change | Refusal:
            return routine.create(
                state, definition, routine_id=routine_id, session_id=session, now=now
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

    async def submit(
        self, kind: RunKind, task: str, session_id: str, *, interrupts: bool = False
    ) -> Change | Refusal:
        """Queue an interactive request or background work in a session (R21)."""
        run_id = self._draw_id()
        return await self._transition(
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

    async def transcript(self, session_id: str) -> Sequence[Entry]:
        """Return a session's transcript, oldest line first. Raises `StoreError`."""
        return (await asyncio.to_thread(self._transcripts.read, session_id)).entries

    # -- the writer -------------------------------------------------------------------------------

    async def _transition(self, make: Transition, *, dispatch: bool = True) -> Change | Refusal:
        """Compute, save, take over, carry out; a failed save leaves everything as it was."""
        if self._unavailable is not None:
            return Refusal(Code.INTERNAL, f"the schedule tool is off: {self._unavailable}")
        async with self._writing:
            now = self._clock.now()
            change = make(self._state, now)
            if isinstance(change, Refusal):
                return change
            if dispatch and self._runner is not None and not self._closing:
                started = run_queue.dispatch(change.state, now)
                change = Change(started.state, change.effects + started.effects, change.routine)
            if change.state is not self._state:
                try:
                    await asyncio.to_thread(self._store.save, change.state)
                except StoreError as error:
                    log.error("%s", error)
                    return Refusal(Code.INTERNAL, f"the state could not be saved: {error}")
                self._state = change.state
            await self._carry_out(change.effects)
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
            await self._transition(
                lambda state, now: occurrence.progress(state, start.run_id, text, now)
            )

        try:
            outcome = await self._runner.run(request_of(start), on_progress)
        except Exception:
            log.exception("run %s", start.run_id)
            outcome = Interrupted("internal fault of the bridge, see its log")
        await self._record_end(start.run_id, outcome)

    async def _record_end(self, run_id: str, outcome: Outcome) -> None:
        """Save the end of a run. It has happened, so a full disk only delays it."""
        while True:
            recorded = await self._transition(
                lambda state, now: occurrence.ended(state, run_id, outcome, now)
            )
            if not isinstance(recorded, Refusal) or recorded.code is not Code.INTERNAL:
                return
            await asyncio.sleep(SAVE_RETRY_S)

    async def _stop(self, effect: StopRun) -> None:
        """Ask the runner to stop; the end of the run is reported by `_run` all the same."""
        assert self._runner is not None
        confirmed = await self._runner.cancel(effect.run_id)
        log.info("run %s: stop %s", effect.run_id, "confirmed" if confirmed else "not confirmed")
