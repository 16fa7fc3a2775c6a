"""The HTTP runner against a real server in another process (R4, R20, R23, R48)."""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from brokers import free_port
from wakebridge.routine.state import RunKind
from wakebridge.runner import http as http_runner
from wakebridge.runner.http import Delivery, HttpConfig, HttpRunner
from wakebridge.runner.port import Completed, Failed, Interrupted, Outcome, RunRequest, Stopped

AGENT = Path(__file__).parents[1] / "fixtures" / "http_agent.py"
RUN_ID = "r1.1"
STATUS_OF = {
    Delivery.TAKEN: 204,
    Delivery.UNKNOWN_RUN: 404,
    Delivery.WRONG_TOKEN: 403,
    Delivery.NOT_UNDERSTOOD: 400,
    Delivery.BUSY: 503,
}


class Agent:
    """The server process, and what it has seen."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            (sys.executable, str(AGENT)), stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/runs"

    async def seen(self) -> dict[str, Any]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.port}/seen") as response,
        ):
            found: dict[str, Any] = await response.json()
            return found

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module")
def shared_agent() -> Iterator[Agent]:
    agent = Agent()
    yield agent
    agent.stop()


class Bench:
    """One runner, with the endpoint of a bridge that takes its callbacks."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.runner = HttpRunner(HttpConfig(url=url, **settings))
        self.progress: list[str] = []
        self.moved = asyncio.Event()
        self.deliveries: list[Delivery] = []

    async def on_progress(self, text: str) -> None:
        self.progress.append(text)
        self.moved.set()

    async def run(self, do: str, run_id: str = RUN_ID, **more: object) -> Outcome:
        request = RunRequest(
            run_id=run_id,
            kind=RunKind.SCHEDULED,
            session_id="s1",
            task=json.dumps({"do": do, **more}),
            routine_id="r1",
        )
        return await self.runner.run(request, self.on_progress)

    async def begun(self, do: str, run_id: str = RUN_ID) -> "asyncio.Task[Outcome]":
        lines = [{"type": "progress", "text": "started"}]
        task = asyncio.create_task(self.run(do, run_id, lines=lines))
        await asyncio.wait_for(self.moved.wait(), 20)
        return task

    async def take_callback(self, request: web.Request) -> web.Response:
        secret = request.headers["X-Run-Token"]
        body = await request.read()
        delivery = self.runner.deliver(request.match_info["run_id"], secret, body)
        self.deliveries.append(delivery)
        return web.Response(status=STATUS_OF[delivery])


@contextlib.asynccontextmanager
async def bench_at(url: str, *, callbacks: bool = False, **settings: Any) -> AsyncIterator[Bench]:
    port = free_port()
    if callbacks:
        settings["callback_url"] = f"http://127.0.0.1:{port}/api/runs"
    bench = Bench(url, **settings)
    app = web.Application()
    app.router.add_post("/api/runs/{run_id}", bench.take_callback)
    server = web.AppRunner(app, shutdown_timeout=0.1)
    await server.setup()
    await web.TCPSite(server, "127.0.0.1", port).start()
    try:
        yield bench
    finally:
        await bench.runner.close()
        await server.cleanup()


async def test_r20_r30_the_request_is_one_json_object_with_the_token_of_a_file(
    shared_agent: Agent, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("agent-token\nanything else\n")
    async with bench_at(shared_agent.url, token_file=str(token_file)) as bench:
        assert await bench.run("answer", "named.1") == Completed("done")
    [request] = [
        r for r in (await shared_agent.seen())["requests"] if r["body"]["run_id"] == "named.1"
    ]
    assert request["authorization"] == "Bearer agent-token"
    assert request["body"] == {
        "run_id": "named.1",
        "kind": "scheduled",
        "session_id": "s1",
        "task": '{"do": "answer"}',
        "routine_id": "r1",
        "due": None,
    }


async def test_r23_a_result_in_the_answer_may_be_spread_over_lines(shared_agent: Agent) -> None:
    async with bench_at(shared_agent.url) as bench:
        assert await bench.run("answer", indent=2) == Completed("done")


async def test_r23_progress_and_result_come_line_by_line(shared_agent: Agent) -> None:
    lines = [
        {"type": "accepted"},
        {"type": "progress", "text": "one", "seq": 1},
        {"type": "progress", "text": "one", "seq": 1},
        {"type": "progress", "text": "two"},
        {"type": "result", "text": "done"},
    ]
    async with bench_at(shared_agent.url) as bench:
        assert await bench.run("stream", lines=lines) == Completed("done")
        assert bench.progress == ["one", "two"]


async def test_r23_the_result_comes_by_callback(shared_agent: Agent) -> None:
    messages = [
        {"type": "progress", "text": "one"},
        {"type": "result", "text": "done"},
        {"type": "result", "text": "again"},
    ]
    async with bench_at(shared_agent.url, callbacks=True) as bench:
        assert await bench.run("callback", messages=messages) == Completed("done")
        assert bench.progress == ["one"]
        assert bench.deliveries[:2] == [Delivery.TAKEN, Delivery.TAKEN]


async def test_r48_an_error_by_callback_is_a_failure(shared_agent: Agent) -> None:
    async with bench_at(shared_agent.url, callbacks=True) as bench:
        messages = [{"type": "error", "reason": "no stock"}]
        assert await bench.run("callback", messages=messages) == Failed("no stock")


async def test_callbacks_are_checked() -> None:
    """Wrong run, wrong token, nonsense, too many: each is told so, and the run is unharmed."""
    async with bench_at("http://127.0.0.1:1/runs", connect_limit_s=30.0) as bench:
        deliver = bench.runner.deliver
        assert deliver(RUN_ID, "x", b"{}") is Delivery.UNKNOWN_RUN
        run = asyncio.create_task(bench.run("answer"))
        await asyncio.sleep(0)
        secret = bench.runner._active[RUN_ID].secret
        assert deliver(RUN_ID, "wrong", b"{}") is Delivery.WRONG_TOKEN
        assert deliver(RUN_ID, "\ud800", b"{}") is Delivery.WRONG_TOKEN
        assert deliver(RUN_ID, secret, b"{}") is Delivery.NOT_UNDERSTOOD
        assert deliver(RUN_ID, secret, b'{"type":"shout"}') is Delivery.NOT_UNDERSTOOD
        for _ in range(http_runner.CALLBACKS_QUEUED_MAX):
            assert deliver(RUN_ID, secret, b'{"type":"alive"}') is Delivery.TAKEN
        assert deliver(RUN_ID, secret, b'{"type":"alive"}') is Delivery.BUSY
        big = b'{"type":"progress","text":"' + b"x" * http_runner.OUTPUT_LIMIT_BYTES + b'"}'
        assert deliver(RUN_ID, secret, big) is Delivery.NOT_UNDERSTOOD
        assert not run.done()
        await bench.runner.cancel(RUN_ID)
        assert await run == Stopped(confirmed=False)


@pytest.mark.parametrize("status", [204, 302, 400, 401, 404, 409, 500, 503])
async def test_r48_any_other_answer_fails_the_run(shared_agent: Agent, status: int) -> None:
    async with bench_at(shared_agent.url) as bench:
        expected = Failed(f"the agent answered with status {status}")
        assert await bench.run("status", status=status) == expected


async def test_an_answer_that_is_not_understood_fails_the_run(shared_agent: Agent) -> None:
    async with bench_at(shared_agent.url) as bench:
        outcome = await bench.run("text", text="OK")
        assert isinstance(outcome, Failed)
        assert "not understood" in outcome.reason


async def test_an_answer_that_is_too_long_fails_the_run(shared_agent: Agent) -> None:
    async with bench_at(shared_agent.url) as bench:
        assert await bench.run("flood") == Failed("the agent's answer is too long")


async def test_a_promise_without_a_callback_configured_fails_the_run(shared_agent: Agent) -> None:
    async with bench_at(shared_agent.url) as bench:
        outcome = await bench.run("promise")
        assert isinstance(outcome, Failed)
        assert "no callback is configured" in outcome.reason


@pytest.mark.parametrize("do", ["stream", "break"])
async def test_r48_a_link_that_breaks_after_the_request_leaves_it_interrupted(
    shared_agent: Agent, do: str
) -> None:
    """The work may have been done: it is neither lost nor repeated."""
    async with bench_at(shared_agent.url) as bench:
        lines = [{"type": "progress", "text": "half"}]
        outcome = await bench.run(do, f"{do}.1", lines=lines)
        assert isinstance(outcome, Interrupted)
        assert bench.progress in (["half"], [])
    requests = (await shared_agent.seen())["requests"]
    assert len([r for r in requests if r["body"]["run_id"] == f"{do}.1"]) == 1


async def test_r48_an_agent_that_dies_leaves_its_run_interrupted() -> None:
    agent = Agent()
    async with bench_at(agent.url) as bench:
        run = await bench.begun("hang")
        agent.stop()
        assert isinstance(await run, Interrupted)


async def test_an_agent_that_is_not_there_yet_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_runner, "CONNECT_RETRY_S", 0.05)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    async with bench_at(f"http://127.0.0.1:{port}/runs") as bench:
        run = asyncio.create_task(bench.run("answer"))
        app, started = web.Application(), []

        async def answer(request: web.Request) -> web.Response:
            started.append(await request.json())
            return web.json_response({"type": "result", "text": "late but there"})

        app.router.add_post("/runs", answer)
        server = web.AppRunner(app, shutdown_timeout=0.1)
        await server.setup()
        await asyncio.sleep(0.2)
        assert not run.done()
        await web.TCPSite(server, "127.0.0.1", port).start()
        assert await run == Completed("late but there")
        assert len(started) == 1
        await server.cleanup()


async def test_an_agent_that_never_comes_fails_the_run() -> None:
    async with bench_at(f"http://127.0.0.1:{free_port()}/runs", connect_limit_s=0.1) as bench:
        outcome = await bench.run("answer")
        assert isinstance(outcome, Failed)
        assert "cannot be reached" in outcome.reason


@pytest.mark.parametrize("callbacks", [False, True])
async def test_the_time_limit_fails_the_run_and_tells_the_agent(
    shared_agent: Agent, callbacks: bool
) -> None:
    settings: dict[str, object] = {"time_limit_s": 0.5, "callbacks": callbacks}
    async with bench_at(shared_agent.url, **settings) as bench:  # type: ignore[arg-type] # as above
        run_id = f"slow.{callbacks}"
        outcome = await bench.run("promise" if callbacks else "hang", run_id)
        assert outcome == Failed("the agent took longer than 0.5 s")
    assert run_id in (await shared_agent.seen())["cancels"]


async def test_r4_cancelling_reaches_the_agent_and_is_confirmed(shared_agent: Agent) -> None:
    async with bench_at(shared_agent.url) as bench:
        run = await bench.begun("hang", "cancelled.1")
        assert await bench.runner.cancel("cancelled.1") is True
        assert await run == Stopped(confirmed=True)
        assert await bench.runner.cancel("cancelled.1") is True, "nothing is active any more"
    assert "cancelled.1" in (await shared_agent.seen())["cancels"]


async def test_r4_an_agent_that_does_not_know_how_to_stop_is_not_confirmed(
    shared_agent: Agent,
) -> None:
    async with bench_at(shared_agent.url) as bench:
        run = await bench.begun("hang", "deaf.1")
        assert await bench.runner.cancel("deaf.1") is False
        assert await run == Stopped(confirmed=False)


async def test_r48_a_shutdown_of_the_bridge_tells_the_agent(shared_agent: Agent) -> None:
    async with bench_at(shared_agent.url) as bench:
        run = await bench.begun("hang", "shutdown.1")
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert "shutdown.1" in (await shared_agent.seen())["cancels"]


async def test_a_run_is_active_once(shared_agent: Agent) -> None:
    async with bench_at(shared_agent.url) as bench:
        run = await bench.begun("hang")
        assert isinstance(await bench.run("answer"), Failed)
        await bench.runner.close()
        assert await run == Stopped(confirmed=True)


@pytest.mark.parametrize("content", [b"", b"  \nnot here\n", b"\xff\n", b"a\x00b\n"])
def test_r30_a_token_file_without_a_token_is_refused_before_anything_starts(
    content: bytes, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.write_bytes(content)
    with pytest.raises(ValueError, match=str(token_file)):
        HttpRunner(HttpConfig(url="http://127.0.0.1:1/", token_file=str(token_file)))


@pytest.mark.parametrize("field", ["url", "callback_url"])
def test_an_address_that_no_request_can_go_to_is_refused(field: str) -> None:
    settings: dict[str, Any] = {"url": "http://127.0.0.1:1/", field: "127.0.0.1:9000/runs"}
    with pytest.raises(ValueError, match=f"^{field} begins with http"):
        HttpConfig(**settings)
