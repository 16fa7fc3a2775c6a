"""The tool over HTTP and MQTT, in every input mode (R1 to R4, R7, R8, R11)."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridges import BridgeProcess, Owner, ToolAnswer
from brokers import Mosquitto, MosquittoFactory
from noting_agent import Notes
from scenes import now, transcript, until_noted
from wakebridge.simboard import DeskBoard

CREATE = {"action": "create", "task": "x", "delay_s": 600}


@pytest.fixture
def broker(mosquitto: MosquittoFactory) -> Mosquitto:
    return mosquitto()


@contextlib.asynccontextmanager
async def bridge_in(
    mode: str, backend: bool, board: DeskBoard, broker: Mosquitto, notes: Notes, directory: Path
) -> AsyncIterator[tuple[BridgeProcess, Owner]]:
    """Run a bridge in an input mode, with a client on each of its sides."""
    agent = {"mode": mode, "backend": backend, **notes.runner}
    bridge = BridgeProcess(
        directory / "bridge", port=board.port, mqtt_port=broker.port, agent=agent
    )
    async with Owner(broker.port, "agent-1") as owner, bridge:
        await owner.until(lambda: owner.state.get("status") == "online")
        await bridge.said("countdown")
        await bridge.open_session("chat")
        yield bridge, owner


async def over_mqtt(owner: Owner, given: Any, **more: Any) -> ToolAnswer:
    answer = await owner.ask("tool", {"input": given, "session_id": "chat", **more})
    return ToolAnswer(answer["is_error"], json.loads(answer["output"]))


async def over_http(
    bridge: BridgeProcess, given: Any, tool: str = "schedule", agent: str | None = None
) -> ToolAnswer:
    headers = {} if agent is None else {"X-Agent": agent}
    body = {"input": given, "session_id": "chat"}
    answer = await bridge.http("POST", f"/api/tools/{tool}", body, **headers)
    assert answer.status == 200, answer
    assert set(answer.body) == {
        *("tool", "raw_input", "output", "is_error", "duration_ms", "called_at")
    }
    return ToolAnswer(answer.body["is_error"], json.loads(answer.body["output"]))


async def test_r1_r2_r3_r4_r7_r8_the_tool_is_the_same_over_mqtt(
    board: DeskBoard, broker: Mosquitto, notes: Notes, tmp_path: Path
) -> None:
    async with bridge_in("text", True, board, broker, notes, tmp_path) as (bridge, owner):
        created = await over_mqtt(owner, {**CREATE, "interval_s": 3600})
        assert created.timer_error == ""
        routine = created.result
        assert (routine["status"], routine["interval_s"]) == ("scheduled", 3600)
        for listed in (
            await over_mqtt(owner, {"action": "list"}),
            await over_http(bridge, {"action": "list"}),
        ):
            assert listed.output == {"result": [routine], "timer_error": ""}
        update = {"action": "update", "id": routine["id"], "task": "y", "run_at": now()}
        updated = await over_mqtt(owner, update)
        assert (updated.result["task"], updated.timer_error) == ("y", "")
        await bridge.said("routine", id=routine["id"], status="completed")
        cancelled = await over_mqtt(owner, {"action": "cancel", "id": routine["id"]})
        assert cancelled.result["latest_result"] == "done: y"

        for given, field in (({**CREATE, "delay_s": 0}, "delay_s"), ({"action": "run"}, "action")):
            refused = await over_mqtt(owner, given)
            assert refused.error["field"] == field
            assert refused.output == (await over_http(bridge, given)).output
        nobody = await over_mqtt(owner, CREATE, session_id="nobody")
        assert nobody.error["code"] == "no_session"
        other = await over_mqtt(owner, {}, tool="shell")
        assert other.error["field"] == "tool"
        assert len((await bridge.tool(action="list")).result) == 1


@pytest.mark.parametrize("mode", ["text", "voice"])
async def test_r11_outside_realtime_whoever_calls_has_the_tool_and_creates(
    mode: str, board: DeskBoard, broker: Mosquitto, notes: Notes, tmp_path: Path
) -> None:
    async with bridge_in(mode, True, board, broker, notes, tmp_path) as (bridge, owner):
        for agent in (None, "backend", "foreground"):
            tools = await bridge.http(
                "GET", "/api/tools", **({} if agent is None else {"X-Agent": agent})
            )
            assert [tool["name"] for tool in tools.body] == ["schedule"]
            assert (await over_http(bridge, CREATE, agent=agent)).timer_error == ""
        assert (await over_mqtt(owner, CREATE, agent="foreground")).timer_error == ""
        refused = await over_http(bridge, {"task": "x"}, "create_agent_task", "foreground")
        assert refused.error["code"] == "mode"


async def test_r11_in_realtime_the_foreground_delegates_and_the_backend_schedules(
    board: DeskBoard, broker: Mosquitto, notes: Notes, tmp_path: Path
) -> None:
    """The delegated task reaches the backend agent in the conversation, and that one schedules."""
    async with bridge_in("realtime", True, board, broker, notes, tmp_path) as (bridge, owner):
        tools = await bridge.http("GET", "/api/tools", **{"X-Agent": "foreground"})
        assert [tool["name"] for tool in tools.body] == ["create_agent_task", "schedule"]
        for refused in (
            await over_http(bridge, CREATE, agent="foreground"),
            await over_mqtt(owner, CREATE, agent="foreground"),
        ):
            assert refused.error["code"] == "mode"
            assert "create_agent_task" in refused.error["reason"]
        listed = await over_http(bridge, {"action": "list"}, agent="foreground")
        assert listed.result == []

        over = f"schedule {bridge.http_port} check the shipment over HTTP"
        delegated = await over_http(bridge, {"task": over}, "create_agent_task", "foreground")
        assert delegated.timer_error == ""
        over_mqtt_task = over.replace("HTTP", "MQTT")
        again = await over_mqtt(
            owner, {"task": over_mqtt_task}, tool="create_agent_task", agent="foreground"
        )
        await until_noted(notes, 2)
        await bridge.said("run ended", id=again.result["run_id"], outcome="completed")
        assert [(r["kind"], r["session_id"]) for r in notes.all()] == [("interactive", "chat")] * 2
        created = (await bridge.tool(action="list")).result
        assert [each["task"] for each in created] == [
            "check the shipment over HTTP",
            "check the shipment over MQTT",
        ]
        assert {each["session_id"] for each in created} == {"chat"}
        entries = await transcript(bridge)
        assert delegated.result["run_id"] in {entry["run_id"] for entry in entries}
        empty = await over_http(bridge, {"task": " "}, "create_agent_task", "foreground")
        assert empty.error["field"] == "task"
        assert "that is not blank" in empty.error["reason"]


async def test_r11_in_realtime_without_a_backend_agent_creation_is_rejected(
    board: DeskBoard, broker: Mosquitto, notes: Notes, tmp_path: Path
) -> None:
    """The tool is installed all the same, and lists."""
    async with bridge_in("realtime", False, board, broker, notes, tmp_path) as (bridge, owner):
        before = bridge.state_file.read_bytes()
        tools = await bridge.http("GET", "/api/tools", **{"X-Agent": "foreground"})
        assert [tool["name"] for tool in tools.body] == ["schedule"]
        for refused in (
            await over_http(bridge, CREATE),
            await over_http(bridge, CREATE, agent="foreground"),
            await over_mqtt(owner, CREATE),
            await over_http(bridge, {"task": "x"}, "create_agent_task", "foreground"),
        ):
            assert refused.error["code"] == "mode"
            assert "backend agent" in refused.error["reason"]
        assert (await over_http(bridge, {"action": "list"})).result == []
        assert bridge.state_file.read_bytes() == before


async def test_r31_with_a_state_that_cannot_be_read_the_tool_is_off_over_mqtt_too(
    board: DeskBoard, broker: Mosquitto, notes: Notes, tmp_path: Path
) -> None:
    async with bridge_in("text", True, board, broker, notes, tmp_path) as (bridge, owner):
        assert await bridge.stop() == 0
        bridge.state_file.write_bytes(b"{")
        await bridge.start()
        await owner.until(lambda: owner.statuses[-1] == "online")
        for given in (CREATE, {"action": "list"}):
            refused = await over_mqtt(owner, given)
            assert refused.error["code"] == "internal"
            assert "the schedule tool is off" in refused.error["reason"]
        assert await owner.schedule("tea", every={"seconds": 600})  # events are served as ever
        assert bridge.state_file.read_bytes() == b"{"
