"""The tools of agents: who has which in which mode, and one answer to every call (R7, R8, R11)."""

from typing import Final

import msgspec

from wakebridge.clock import Clock
from wakebridge.routine import delegation, envelope, modes, tool, view
from wakebridge.routine.change import Code, Refusal
from wakebridge.routine.state import RunKind
from wakebridge.service.routines import RoutineService

TOOLS: Final = {
    modes.SCHEDULE: envelope.ToolInfo(modes.SCHEDULE, tool.DESCRIPTION, tool.ARGS_SCHEMA),
    modes.CREATE_AGENT_TASK: envelope.ToolInfo(
        modes.CREATE_AGENT_TASK, delegation.DESCRIPTION, delegation.ARGS_SCHEMA
    ),
}


class ToolDesk:
    """Takes calls of tools and has the writer of routines carry them out."""

    def __init__(
        self,
        routines: RoutineService,
        clock: Clock,
        *,
        mode: modes.InputMode = modes.InputMode.TEXT,
        backend_agent: bool = True,
    ) -> None:
        self._routines = routines
        self._clock = clock
        self._mode = mode
        self._backend_agent = backend_agent

    @property
    def unavailable(self) -> str | None:
        """Why there is no tool, None when there is one (R31)."""
        return self._routines.unavailable

    def tools(self, caller: modes.Caller) -> list[envelope.ToolInfo]:
        """Return the tools that `caller` has (R11); none while the state is unreadable (R31)."""
        if self._routines.unavailable is not None:
            return []
        return [TOOLS[name] for name in modes.tools_of(self._mode, self._backend_agent, caller)]

    async def call(
        self,
        call: envelope.Call | Refusal,
        *,
        tool_name: str = modes.SCHEDULE,
        session_id: str | None = None,
        caller: modes.Caller = modes.Caller.BACKEND,
    ) -> envelope.ToolAnswer:
        """Answer one call of a tool in the envelope that all tools share.

        `session_id` is the caller's session where the transport knows it; one in the envelope
        goes before. A call that could not be read is answered with the reason.
        """
        called = self._clock.now()
        output: str | Refusal
        if isinstance(call, Refusal):
            output = call
        elif isinstance(call.input, Refusal):
            output = call.input
        elif tool_name == modes.CREATE_AGENT_TASK:
            output = await self._delegate(call.input, call.session_id or session_id)
        else:
            output = await self._schedule(call.input, call.session_id or session_id, caller)
        return envelope.answer(
            TOOLS[tool_name],
            "" if isinstance(call, Refusal) else call.raw_input,
            envelope.error_output_of(output) if isinstance(output, Refusal) else output,
            is_error=isinstance(output, Refusal),
            duration_ms=(self._clock.now().boot_ns - called.boot_ns) // 1_000_000,
            called_ns=called.wall_ns,
        )

    async def call_decoded(self, payload: object) -> dict[str, object]:
        """Answer one call that a transport without paths and headers has decoded already.

        Beside the envelope the payload may name the `tool` and the `agent` that calls.
        """
        named = envelope.read_named_call(payload)
        if isinstance(named, Refusal):
            named = envelope.NamedCall(named)
        answered: dict[str, object] = msgspec.to_builtins(
            await self.call(named.call, tool_name=named.tool, caller=named.agent)
        )
        return answered

    async def _delegate(self, value: object, session_id: str | None) -> str | Refusal:
        """Hand a task of the foreground to the backend agent (R11)."""
        refusal = modes.refused_delegation(self._mode, self._backend_agent)
        if refusal is not None:
            return refusal
        asked = delegation.parse(value)
        if isinstance(asked, Refusal):
            return asked
        if session_id is None:
            return Refusal(Code.NO_SESSION, "session_id is missing", "session_id")
        run_id = await self._routines.submit(RunKind.INTERACTIVE, asked.task, session_id)
        if isinstance(run_id, Refusal):
            return run_id
        return envelope.output_of({"run_id": run_id}, await self._routines.timer_error())

    async def _schedule(
        self, value: object, session_id: str | None, caller: modes.Caller
    ) -> str | Refusal:
        """Carry out one request; return the output with its `timer_error` (R8), or why not."""
        if self._routines.unavailable is not None:
            reason = f"the schedule tool is off: {self._routines.unavailable}"
            return Refusal(Code.INTERNAL, reason)
        request = tool.parse(value)
        match request:
            case Refusal():
                return request
            case tool.List():
                timer_error = await self._routines.timer_error()
                return envelope.output_of(view.views_of(self._routines.state), timer_error)
            case tool.Create(definition=definition):
                refusal = modes.refused_creation(self._mode, self._backend_agent, caller)
                if refusal is not None:
                    return refusal
                if session_id is None:
                    reason = "session_id is missing: a schedule continues in a backend session"
                    return Refusal(Code.NO_SESSION, reason, "session_id")
                changed = await self._routines.create(definition, session_id)
            case tool.Update(id=routine_id, definition=definition):
                changed = await self._routines.update(routine_id, definition)
            case tool.Cancel(id=routine_id):
                changed = await self._routines.cancel(routine_id)
        if isinstance(changed, Refusal):
            return changed
        assert changed.routine is not None
        timer_error = await self._routines.timer_error()
        return envelope.output_of(view.view_of(self._routines.state, changed.routine), timer_error)
