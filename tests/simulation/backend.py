"""The agent backend at its desk: it opens, revises and clears sessions, and calls the tool."""

import json
from typing import TYPE_CHECKING, Any, Final

from wakebridge.routine import envelope
from wakebridge.routine.change import Refusal
from wakebridge.routine.state import RunKind
from wakebridge.service.tool_desk import ToolDesk

from .kernel import NS, Violation
from .properties import TOOL_ANSWERED, TOOL_ANSWERS
from .schedule_model import text_of

if TYPE_CHECKING:
    from .world import World

_ANSWERED_NS: Final = 20 * NS
_EXPECTED: Final = {"mcu_unavailable", "mcu_taken", "no_session", "session_ended", "wrong_status"}


class Backend:
    """Conversations by slot. A slot's session is opened when it is needed."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._serial = 0
        self._newest: dict[int, str] = {}
        self._ids: list[str] = []
        self._called: dict[int, int] = {}
        """When each call that has no answer yet was made."""

    def _fresh(self, slot: int) -> str:
        self._serial += 1
        return f"s{slot}-{self._serial}"

    async def _session(self, slot: int) -> str:
        session = self._newest.get(slot)
        if session is None:
            session = self._newest[slot] = self._fresh(slot)
        await self._world.living().routines.open_session(session)
        return session

    async def converse(self, what: str, slot: int) -> None:
        """Do something to a conversation itself."""
        routines = self._world.living().routines
        session = await self._session(slot)
        if what == "revise":
            revised = self._fresh(slot)
            if not isinstance(await routines.revise_session(session, revised), Refusal):
                self._newest[slot] = revised
        elif what == "clear":
            if not isinstance(await routines.clear_session(session, "cleared"), Refusal):
                self._newest.pop(slot, None)
        elif what == "replace":
            root = self._fresh(slot)
            if not isinstance(await routines.replace_session(session, root, None), Refusal):
                self._newest[slot] = root

    async def submit(self, kind: str, slot: int, interrupts: bool) -> None:
        session = await self._session(slot)
        await self._world.living().routines.submit(
            RunKind(kind), "do it", session, interrupts=interrupts
        )

    async def tool(self, action: str, slot: int, which: int, when: dict[str, Any]) -> None:
        """Call the schedule tool as an agent does, through its envelope."""
        world = self._world
        body: dict[str, Any] = {"action": action}
        if action in ("create", "update"):
            body |= {"task": f"task {which}"} | {k: v for k, v in when.items() if k != "ahead_s"}
            if "ahead_s" in when:
                body["run_at"] = text_of(world.now().wall_ns + round(when["ahead_s"]) * NS)
        if action in ("update", "cancel"):
            if not self._ids:
                return
            body["id"] = self._ids[which % len(self._ids)]
        session = await self._session(slot)
        desk = ToolDesk(world.living().routines, world.clocks)
        began_ns = world.agenda.now_ns
        call = envelope.read_call(json.dumps({"input": body}).encode())
        self._serial += 1
        number = self._serial
        self._called[number] = began_ns
        try:
            answer = await desk.call(call, session_id=session)
        finally:
            self._called.pop(number, None)
        said = json.loads(answer.output)
        world.note("tool", f"{body} {answer.output}")
        if answer.is_error:
            self._refused(said["error"], began_ns)
        elif action == "create":
            self._ids.append(said["result"]["id"])
            world.routines.created(said["result"]["id"])
        elif action == "list":
            world.routines.listed(said["result"])

    def host_gone(self) -> None:
        """The process that was called is gone."""
        self._called.clear()

    def unanswered(self, calm_since_ns: int) -> None:
        """Raise when a call waits although everything was well long enough."""
        for began_ns in self._called.values():
            if self._world.agenda.now_ns > max(began_ns, calm_since_ns) + _ANSWERED_NS:
                raise Violation(TOOL_ANSWERED, "a call of the tool waits")

    def _refused(self, error: dict[str, Any], began_ns: int) -> None:
        if error["code"] in _EXPECTED:
            return
        disk = self._world.disk
        if error["code"] == "internal" and disk.refuses_until_ns >= began_ns:
            return
        raise Violation(TOOL_ANSWERS, f"the tool refused: {error}")
