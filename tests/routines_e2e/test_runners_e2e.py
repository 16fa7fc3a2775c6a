"""Runs through the running bridge, over every way to an agent (R4, R20, R23, R48)."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent_processes import HERE, TOKEN, AgentProcess, command_agent, http_agent, mqtt_agent, task
from bridges import BridgeProcess, Owner
from brokers import MosquittoFactory
from scenes import ANY_TEXT, create, restart, transcript, until
from wakebridge.simboard import DeskBoard


@contextlib.asynccontextmanager
async def ready(bridge: BridgeProcess) -> AsyncIterator[BridgeProcess]:
    async with bridge:
        await bridge.said("countdown")
        await bridge.open_session("chat")
        yield bridge


async def cancel(bridge: BridgeProcess, routine_id: str) -> Any:
    """Cancel a running routine; return how it is shown at the end."""
    asked = await bridge.tool(action="cancel", id=routine_id)
    assert (asked.result["status"], asked.result["cancellation"]) == ("running", "requested")
    return await until(bridge, routine_id, status="cancelled")


def is_there(pid: str) -> bool:
    return Path("/proc", pid).exists()


# -- a program -------------------------------------------------------------------------------------


@pytest.fixture
async def with_programs(board: DeskBoard, tmp_path: Path) -> AsyncIterator[BridgeProcess]:
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port, agent=command_agent())
    bridge.config["agent"]["command"]["time_limit_s"] = 1.5
    async with ready(bridge):
        yield bridge


async def test_r20_r23_r48_programs_that_answer_fail_hang_and_die(
    with_programs: BridgeProcess,
) -> None:
    """Each kind of end is the routine's status, with the reason of it, and only once."""
    bridge = with_programs
    ids = {}
    for do in ("echo", "error", "leave", "sleep"):
        session = f"chat-{do}"
        await bridge.open_session(session)
        ids[do] = await create(bridge, task(do), session)
    shown = await until(bridge, ids["echo"], status="completed")
    assert '"session_id": "chat-echo", "task": "{\\"do\\": \\"echo\\"}"' in shown["latest_result"]
    assert ids["echo"] in shown["latest_result"]
    assert [
        e["text"] for e in await transcript(bridge, "chat-echo") if e["type"] == "progress"
    ] == [
        "one",
        "two",
    ]
    for do, reason in (
        ("error", "no such shipment"),
        ("leave", "ended with status 1 and without a result: Traceback: something broke"),
        ("sleep", "took longer than 1.5 s"),
    ):
        shown = await until(bridge, ids[do], status="failed")
        assert reason in shown["latest_error"]
        assert shown["run_count"] == 1


async def test_r4_cancelling_ends_the_program_and_all_it_started(
    with_programs: BridgeProcess,
) -> None:
    bridge = with_programs
    routine_id = await create(bridge, task("stubborn"))
    await until(bridge, routine_id, partial_result=ANY_TEXT)
    shown = await cancel(bridge, routine_id)
    assert shown["cancellation"] == "confirmed"
    assert not any(is_there(pid) for pid in shown["partial_result"].split())


# -- a server --------------------------------------------------------------------------------------


@pytest.fixture
async def server() -> AsyncIterator[AgentProcess]:
    process = AgentProcess(str(HERE / "http_agent.py"))
    yield process
    await process.kill()


@pytest.fixture
async def with_server(
    board: DeskBoard, server: AgentProcess, tmp_path: Path
) -> AsyncIterator[BridgeProcess]:
    port = int(await server.start())
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port)
    bridge.config["agent"] = http_agent(port, bridge.http_port, tmp_path / "token")
    async with ready(bridge):
        yield bridge


async def test_r20_r30_a_server_answers_or_calls_back(with_server: BridgeProcess) -> None:
    """The agent's token comes from a file, and is nowhere else: not in state, log or answers."""
    bridge = with_server
    answered = await create(bridge, task("answer"))
    await until(bridge, answered, status="completed", latest_result="done")
    messages = [
        {"type": "progress", "text": "looking", "seq": 1},
        {"type": "progress", "text": "looking", "seq": 1},
        {"type": "result", "text": "it left Lisbon"},
    ]
    called_back = await create(bridge, task("callback", messages=messages))
    await until(bridge, called_back, status="completed", latest_result="it left Lisbon")
    refused = await create(bridge, task("status", status=500))
    shown = await until(bridge, refused, status="failed")
    assert shown["latest_error"] == "the agent answered with status 500"
    assert [e["type"] for e in await transcript(bridge)] == [
        *("input", "result"),
        *("input", "progress", "result"),
        *("input", "error"),
    ]
    url = bridge.config["agent"]["http"]["url"].replace("/runs", "/seen")
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        seen = (await response.json())["requests"]
    assert {each["authorization"] for each in seen} == {f"Bearer {TOKEN}"}
    assert TOKEN not in bridge.state_file.read_text() + str(bridge.lines)
    # The run is over: what is said about it now is not taken.
    late = await bridge.http("POST", f"/api/runs/{called_back}.1", {"type": "result", "text": "x"})
    assert late.status == 404


async def test_r4_r48_a_server_that_stops_hangs_or_dies(
    with_server: BridgeProcess, server: AgentProcess
) -> None:
    bridge = with_server
    lines = [{"type": "progress", "text": "working"}]
    confirmed = await create(bridge, task("hang", lines=lines))
    await until(bridge, confirmed, partial_result="working")
    shown = await cancel(bridge, confirmed)
    assert (shown["cancellation"], shown["latest_error"]) == ("confirmed", "cancelled")

    deaf = await create(bridge, task("hang", lines=lines))
    await until(bridge, deaf, partial_result="working")
    server.pause()
    shown = await cancel(bridge, deaf)
    assert shown["cancellation"] == "not_confirmed"
    assert "did not confirm that it stopped" in shown["latest_error"]
    await server.kill()

    port = int(await server.start())
    bridge.config["agent"]["http"]["url"] = f"http://127.0.0.1:{port}/runs"
    assert await bridge.stop() == 0
    await restart(bridge)
    dying = await create(bridge, task("hang", lines=lines))
    await until(bridge, dying, partial_result="working")
    await server.kill()
    shown = await until(bridge, dying, status="interrupted")
    assert "the link to the agent broke" in shown["latest_error"]
    assert (shown["partial_result"], shown["run_count"]) == ("working", 1)


# -- a client of the broker ------------------------------------------------------------------------


@pytest.fixture
async def with_client(
    board: DeskBoard, mosquitto: MosquittoFactory, tmp_path: Path
) -> AsyncIterator[tuple[BridgeProcess, AgentProcess]]:
    broker = mosquitto()
    agent = AgentProcess(str(HERE / "mqtt_agent.py"), str(broker.port))
    bridge = BridgeProcess(
        tmp_path / "bridge", port=board.port, mqtt_port=broker.port, agent=mqtt_agent()
    )
    async with Owner(broker.port) as owner, ready(bridge):
        await owner.until(lambda: owner.state.get("status") == "online")
        yield bridge, agent
    await agent.kill()


async def test_r20_r48_a_client_takes_the_run_when_it_comes_and_never_twice(
    with_client: tuple[BridgeProcess, AgentProcess],
) -> None:
    """Without an agent the run waits; if the agent disappears it is interrupted, not repeated."""
    bridge, agent = with_client
    answered = await create(bridge, task("answer", progress=["one", "two"]))
    await until(bridge, answered, status="running")
    assert await agent.start() == "ready"
    assert await agent.until("taken") == f"taken {answered}.1"
    shown = await until(bridge, answered, status="completed")
    assert shown["latest_result"] == "done"
    assert [e["text"] for e in await transcript(bridge) if e["type"] == "progress"] == [
        "one",
        "two",
    ]

    dies = await create(bridge, task("die"))
    shown = await until(bridge, dies, status="interrupted")
    assert "gone offline" in shown["latest_error"]
    await agent.kill()
    assert await agent.start() == "ready"
    after = await create(bridge, task("answer"))
    assert await agent.until("taken") == f"taken {after}.1"  # and not the one that died
    await until(bridge, after, status="completed")
    assert (await bridge.routine(dies))["run_count"] == 1

    silent = await create(bridge, task("silence"))
    shown = await until(bridge, silent, status="interrupted")
    assert "has been silent for 1 s" in shown["latest_error"]


async def test_r4_r48_a_client_confirms_that_it_stopped_or_does_not(
    with_client: tuple[BridgeProcess, AgentProcess],
) -> None:
    bridge, agent = with_client
    await agent.start()
    obedient = await create(bridge, task("work"))
    await until(bridge, obedient, partial_result="working")
    shown = await cancel(bridge, obedient)
    assert (shown["cancellation"], shown["latest_error"]) == ("confirmed", "cancelled")
    deaf = await create(bridge, task("deaf"))
    await until(bridge, deaf, partial_result="working")
    shown = await cancel(bridge, deaf)
    assert shown["cancellation"] == "not_confirmed"
    assert "did not confirm" in shown["latest_error"]


async def test_r48_a_bridge_that_crashes_has_the_client_begin_nothing_anew(
    with_client: tuple[BridgeProcess, AgentProcess],
) -> None:
    bridge, agent = with_client
    await agent.start()
    working = await create(bridge, task("work"))
    await until(bridge, working, partial_result="working")
    await bridge.kill()
    await restart(bridge)
    shown = await bridge.routine(working)
    assert (shown["status"], shown["partial_result"]) == ("interrupted", "working")
    after = await create(bridge, task("answer"))
    await until(bridge, after, status="completed")
    assert await agent.until("taken") == f"taken {working}.1"
    assert await agent.until("taken") == f"taken {after}.1"
