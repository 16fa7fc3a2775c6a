"""Bad input: each a clear error that names the field, and the state untouched, byte for byte.

One running daemon with a scheduled and a running routine takes all of it, one row after another.
"""

import json
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from bridges import BridgeProcess, Journal
from wakebridge.simboard import DeskBoard

pytestmark = pytest.mark.asyncio(loop_scope="module")

TASK = {"action": "create", "task": "x"}
LATER = {"task": "x", "delay_s": 600}


@dataclass
class Victim:
    """A bridge with something to lose."""

    bridge: BridgeProcess
    scheduled: str
    running: str

    def state(self) -> tuple[bytes, int, int]:
        """Return what is in the file, and which file it is."""
        found = self.bridge.state_file.stat()
        return self.bridge.state_file.read_bytes(), found.st_ino, found.st_mtime_ns


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def victim(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Victim]:
    directory = tmp_path_factory.mktemp("bad-input")
    journal = Journal(directory / "journal")
    fifo = directory / "go"
    os.mkfifo(fifo)
    async with (
        DeskBoard(directory / "board") as board,
        BridgeProcess(directory / "bridge", port=board.port, agent=journal.runner) as bridge,
    ):
        await bridge.said("countdown")
        await bridge.open_session("chat")
        await bridge.open_session("gone")
        await bridge.http("POST", "/api/sessions/gone/clear", {})
        created = await bridge.tool("chat", **TASK, delay_s=1)
        running = created.result["id"]
        await bridge.tool(action="update", id=running, task=f"wait {fifo}", delay_s=1)
        scheduled = (await bridge.tool("chat", **TASK, delay_s=600)).result["id"]
        await bridge.said("routine", id=running, status="running")
        await until_said_half(bridge, running)
        yield Victim(bridge, scheduled, running)


async def until_said_half(bridge: BridgeProcess, routine_id: str) -> None:
    """Wait until the running routine has nothing to say any more, so that the state is at rest."""
    while (await bridge.routine(routine_id))["partial_result"] is None:
        pass


TOOL_ROWS: list[tuple[str, dict[str, Any], str, str, str]] = [
    # title, input, code, field, a part of the reason
    ("both", {**TASK, "delay_s": 1, "run_at": "2126-01-01T00:00:00Z"}, "invalid_input", "run_at",
     "exclude each other"),
    ("neither", TASK, "invalid_input", "delay_s", "exactly one"),
    ("delay 0", {**TASK, "delay_s": 0}, "invalid_input", "delay_s", "1 to 604800"),
    ("delay 604801", {**TASK, "delay_s": 604_801}, "invalid_input", "delay_s", "1 to 604800"),
    ("delay -1", {**TASK, "delay_s": -1}, "invalid_input", "delay_s", "1 to 604800"),
    ("delay 1.5", {**TASK, "delay_s": 1.5}, "invalid_input", "delay_s", "not float"),
    ("delay 600.0", {**TASK, "delay_s": 600.0}, "invalid_input", "delay_s", "not float"),
    ("delay true", {**TASK, "delay_s": True}, "invalid_input", "delay_s", "not bool"),
    ("delay text", {**TASK, "delay_s": "600"}, "invalid_input", "delay_s", "not str"),
    ("delay null", {**TASK, "delay_s": None}, "invalid_input", "delay_s", "not null"),
    ("delay 2^70", {**TASK, "delay_s": 2**70}, "invalid_input", "delay_s", "1 to 604800"),
    ("interval 604801", {**TASK, "delay_s": 1, "interval_s": 604_801}, "invalid_input",
     "interval_s", "1 to 604800"),
    ("interval -1", {**TASK, "delay_s": 1, "interval_s": -1}, "invalid_input", "interval_s",
     "or 0 for once"),
    ("interval 0.5", {**TASK, "delay_s": 1, "interval_s": 0.5}, "invalid_input", "interval_s",
     "not float"),
    ("interval false", {**TASK, "delay_s": 1, "interval_s": False}, "invalid_input",
     "interval_s", "not bool"),
    ("no zone", {**TASK, "run_at": "2126-01-01T09:00:00"}, "invalid_input", "run_at",
     "no UTC offset"),
    ("a date", {**TASK, "run_at": "2126-01-01"}, "invalid_input", "run_at", "without a time"),
    ("no T", {**TASK, "run_at": "2126-01-01 09:00:00Z"}, "invalid_input", "run_at", "space"),
    ("in words", {**TASK, "run_at": "tomorrow"}, "invalid_input", "run_at", "RFC 3339"),
    ("a number", {**TASK, "run_at": 4_923_000_000}, "invalid_input", "run_at", "not int"),
    ("no such day", {**TASK, "run_at": "2126-02-29T09:00:00Z"}, "invalid_input", "run_at",
     "does not exist"),
    ("the past", {**TASK, "run_at": "2020-01-01T09:00:00Z"}, "invalid_input", "run_at", "past"),
    ("too far", {**TASK, "run_at": "9999-01-01T09:00:00Z"}, "invalid_input", "run_at", "2262"),
    ("no task", {"action": "create", "delay_s": 1}, "invalid_input", "task", "missing"),
    ("empty task", {"action": "create", "task": "", "delay_s": 1}, "invalid_input", "task",
     "not blank"),
    ("blank task", {"action": "create", "task": " \n\u0085", "delay_s": 1}, "invalid_input",
     "task", "not blank"),
    ("task of a number", {"action": "create", "task": 5, "delay_s": 1}, "invalid_input", "task",
     "not int"),
    ("task of 16385", {"action": "create", "task": "x" * 16_385, "delay_s": 1}, "invalid_input",
     "task", "1 to 16384"),
    ("task of 1 MB", {"action": "create", "task": "x" * 1_000_000, "delay_s": 1},
     "invalid_input", "task", "1 to 16384"),
    ("no action", {"task": "x", "delay_s": 1}, "invalid_input", "action", "create, list"),
    ("unknown action", {"action": "run"}, "invalid_input", "action", "create, list"),
    ("action of a number", {"action": 1}, "invalid_input", "action", "create, list"),
    ("unknown field", {**TASK, "delay_s": 1, "when": "soon"}, "invalid_input", "when",
     "no field 'when'"),
    ("list with a field", {"action": "list", "id": "x"}, "invalid_input", "id", "no field"),
    ("update without id", {"action": "update", **LATER}, "invalid_input", "id", "missing"),
    ("update of nothing", {"action": "update", "id": "r-none", **LATER}, "unknown_id", "id",
     "no routine 'r-none'"),
    ("update of half", {"action": "update", "id": "SCHEDULED", "task": "x"}, "invalid_input",
     "delay_s", "exactly one"),
    ("update of a running one", {"action": "update", "id": "RUNNING", **LATER}, "wrong_status",
     "id", "is running"),
    ("cancel of nothing", {"action": "cancel", "id": "r-none"}, "unknown_id", "id",
     "no routine 'r-none'"),
    ("cancel without id", {"action": "cancel"}, "invalid_input", "id", "missing"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "code", "field", "reason"),
    [row[1:] for row in TOOL_ROWS],
    ids=[row[0] for row in TOOL_ROWS],
)
async def test_r1_r3_r4_bad_input_is_told_by_its_field_and_changes_nothing(
    given: dict[str, Any], code: str, field: str, reason: str, victim: Victim
) -> None:
    ids = {"SCHEDULED": victim.scheduled, "RUNNING": victim.running}
    before = victim.state()
    answer = await victim.bridge.tool("chat", **{**given, **_named(given, ids)})
    assert (answer.error["code"], answer.error["field"]) == (code, field), answer.error
    assert reason in answer.error["reason"]
    assert len(answer.error["reason"]) < 300
    assert victim.state() == before


def _named(given: dict[str, Any], ids: dict[str, str]) -> dict[str, str]:
    return {"id": ids[given["id"]]} if given.get("id") in ids else {}


@pytest.mark.parametrize(
    ("session", "code", "reason"),
    [
        (None, "no_session", "session_id is missing"),
        ("nobody", "no_session", "there is no session 'nobody'"),
        ("gone", "session_ended", "was cleared"),
    ],
)
async def test_r10_r22_without_a_session_that_goes_on_nothing_is_created(
    session: str | None, code: str, reason: str, victim: Victim
) -> None:
    before = victim.state()
    answer = await victim.bridge.tool(session, **TASK, delay_s=600)
    assert (answer.error["code"], answer.error["field"]) == (code, "session_id")
    assert reason in answer.error["reason"]
    assert victim.state() == before


BODY_ROWS: list[tuple[str, bytes, str | None, str]] = [
    # title, body, field, a part of the reason
    ("empty", b"", None, "not JSON"),
    ("no JSON", b"action=list", None, "not JSON"),
    ("cut JSON", b'{"input": {"action": "li', None, "not JSON"),
    ("an array", b"[]", None, "not a tool call"),
    ("invalid UTF-8", b'{"input": {"action": "create", "task": "\xff\xfe"}}', None,
     "not UTF-8 at byte 40"),
    ("UTF-16", '{"input": {"action": "list"}}'.encode("utf-16"), None, "not UTF-8 at byte 0"),
    ("half a surrogate pair", b'{"input": {"action": "create", "task": "\\ud800"}}', None,
     "not JSON"),
    ("no input", b"{}", "input", "neither"),
    ("two inputs", b'{"input": {}, "raw_input": "{}"}', "raw_input", "exclude"),
    ("input of text", b'{"input": "list"}', "input", "object"),
    ("a field too many", b'{"input": {}, "user": "me"}', None, "user"),
    ("a session of a number", b'{"input": {}, "session_id": 7}', None, "session_id"),
    ("a session with a line break", b'{"input": {}, "session_id": "a\\nb"}', "session_id",
     "visible"),
    ("deep", b'{"input": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001, None, "JSON"),
]  # fmt: skip


async def post(bridge: BridgeProcess, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{bridge.http_port}{path}"
    async with aiohttp.ClientSession() as session:  # noqa: SIM117 - one closes the other
        async with session.post(url, data=body, headers=headers) as response:
            return response.status, await response.json()


@pytest.mark.parametrize(
    ("body", "field", "reason"), [row[1:] for row in BODY_ROWS], ids=[row[0] for row in BODY_ROWS]
)
async def test_r7_what_is_no_call_of_a_tool_is_a_bad_request(
    body: bytes, field: str | None, reason: str, victim: Victim
) -> None:
    before = victim.state()
    status, answer = await post(victim.bridge, "/api/tools/schedule", body)
    assert status == 400
    assert answer["error"]["code"] == "invalid_input"
    assert reason in answer["error"]["reason"]
    if field is not None:
        assert answer["error"]["field"] == field
    assert victim.state() == before


async def test_r7_an_agents_text_that_is_no_json_is_answered_by_the_tool(victim: Victim) -> None:
    before = victim.state()
    body = json.dumps({"raw_input": "please list my schedules"}).encode()
    status, answer = await post(victim.bridge, "/api/tools/schedule", body)
    assert (status, answer["is_error"]) == (200, True)
    assert answer["raw_input"] == "please list my schedules"
    assert json.loads(answer["output"])["error"]["field"] == "raw_input"
    assert victim.state() == before


@pytest.mark.parametrize(
    ("header", "value"),
    [("X-Agent", "robot"), ("X-Session-Id", "x" * 201), ("X-Session-Id", "\udcff")],
)
async def test_r11_a_header_that_means_nothing_is_named(
    header: str, value: str, victim: Victim
) -> None:
    before = victim.state()
    body = json.dumps({"input": {**TASK, "delay_s": 600}, "session_id": "chat"}).encode()
    path = "/api/tools/schedule"
    status, answer = await post(victim.bridge, path, body, **{header: value})
    assert status == 400
    assert answer["error"]["field"] == header
    assert victim.state() == before


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/", 404, "Not Found"),
        ("GET", "/api", 404, "Not Found"),
        ("POST", "/api/tools/shell", 404, "no tool 'shell'"),
        ("GET", "/api/tools/schedule/", 404, "Not Found"),
        ("GET", "/api/tools/schedule", 405, "Method Not Allowed"),
        ("DELETE", "/api/sessions", 405, "Method Not Allowed"),
        ("PATCH", "/api/mcu/timer", 405, "Method Not Allowed"),
        ("POST", "/api/sessions/nobody/idle", 404, "no session 'nobody'"),
        ("GET", "/api/sessions/nobody/transcript", 404, "no session 'nobody'"),
        ("DELETE", "/api/sessions/chat/runs/r-none", 404, "no run 'r-none'"),
        ("POST", "/api/sessions/gone/idle", 409, "was cleared"),
        ("GET", "/api/sessions/%2e%2e%2f%2e%2e%2fstate/transcript", 404, "no session"),
    ],
)
async def test_methods_and_paths_that_do_not_exist(
    method: str, path: str, status: int, reason: str, victim: Victim
) -> None:
    before = victim.state()
    answer = await victim.bridge.http(method, path)
    assert answer.status == status
    assert reason in answer.body["error"]["reason"]
    assert victim.state() == before


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/api/sessions", {}, "session_id"),
        ("/api/sessions", {"session_id": ""}, "session_id"),
        ("/api/sessions", {"session_id": "x" * 201}, "session_id"),
        ("/api/sessions", {"session_id": "a\u202eb"}, "session_id"),
        ("/api/sessions", {"session_id": "."}, "session_id"),
        ("/api/sessions", {"session_id": ".."}, "session_id"),
        ("/api/sessions", {"session_id": "a", "root": True}, "root"),
        ("/api/sessions/chat/revise", {"new_session_id": 1}, "new_session_id"),
        ("/api/sessions/chat/clear", {"reason": "x" * 1001}, "reason"),
        ("/api/sessions/chat/busy", {"lease_s": 0}, "lease_s"),
        ("/api/sessions/chat/busy", {"lease_s": 3601}, "lease_s"),
        ("/api/sessions/chat/busy", {}, "lease_s"),
        ("/api/sessions/chat/runs", {"kind": "scheduled", "task": "x"}, "kind"),
        ("/api/sessions/chat/runs", {"kind": "background", "task": "\u3000"}, "task"),
        ("/api/sessions/chat/runs", {"kind": "background", "task": "x" * 16_385}, "task"),
        ("/api/scheduler/list", {"data": {}, "context": {}, "route": "carrier"}, "route"),
        ("/api/scheduler/list", {"data": [], "context": {}}, "data"),
        ("/api/board/lend", {"tcp_port": 1.5}, "tcp_port"),
    ],
)
async def test_bodies_of_the_other_operations_are_judged_field_by_field(
    path: str, body: dict[str, Any], field: str, victim: Victim
) -> None:
    before = victim.state()
    answer = await victim.bridge.http("POST", path, body)
    assert answer.status == 400
    assert answer.body["error"]["field"] == field, answer.body
    # A sentence about the field: no types of ours, no pattern, no path into a document.
    reason = answer.body["error"]["reason"]
    assert field in reason
    assert not re.search(r"Expected|regex|Object|`|\$", reason), reason
    assert victim.state() == before


async def test_the_timer_is_judged_as_well(victim: Victim) -> None:
    before = victim.state()
    for duration_s in (0, 0.5, 604_801, "60", None):
        answer = await victim.bridge.http("PUT", "/api/mcu/timer", {"duration_s": duration_s})
        assert (answer.status, answer.body["error"]["field"]) == (400, "duration_s")
        assert "a number of seconds from 1 to 604800" in answer.body["error"]["reason"]
    assert victim.state() == before


async def test_after_all_of_it_the_bridge_goes_on(victim: Victim, tmp_path: Path) -> None:
    """What waited all the time is as it was, and the next good request is taken."""
    shown = await victim.bridge.routine(victim.running)
    assert (shown["status"], shown["partial_result"]) == ("running", "half of it")
    created = await victim.bridge.tool("chat", **TASK, delay_s=600)
    assert created.result["status"] == "scheduled"
    assert victim.bridge.faults() == []
