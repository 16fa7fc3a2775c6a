"""The MQTT runner over a real broker, with an agent in another process (R4, R20, R23, R48)."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiomqtt
import pytest

from brokers import Mosquitto, MosquittoFactory, Relay
from wakebridge.mqttbus.config import MqttConfig
from wakebridge.mqttbus.connection import MqttConnection
from wakebridge.routine.state import RunKind
from wakebridge.runner.mqtt import Broker, MqttRunner, MqttRunnerConfig
from wakebridge.runner.port import Completed, Failed, Interrupted, Outcome, RunRequest, Stopped

AGENT = Path(__file__).parents[1] / "fixtures" / "mqtt_agent.py"
RUN_ID = "r1.1"
QUICK = {
    "lease_s": 2.0,
    "offline_grace_s": 0.5,
    "cancel_limit_s": 1.0,
    "online_limit_s": 20.0,
}


class Agent:
    """The agent process."""

    def __init__(self, broker: Mosquitto, instance: str = "first") -> None:
        self._arguments = (sys.executable, str(AGENT), str(broker.port), instance)
        self._process = subprocess.Popen(self._arguments, stdout=subprocess.PIPE, text=True)
        assert self.line() == "ready"

    def line(self) -> str:
        """Return the next line it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    async def wait_for(self, line: str) -> None:
        async with asyncio.timeout(20):
            while (said := await asyncio.to_thread(self.line)) != line:
                assert said

    def rest(self) -> list[str]:
        """Kill it; return what it has printed and nobody has read."""
        self._process.kill()
        self._process.wait(10)
        assert self._process.stdout is not None
        if self._process.stdout.closed:
            return []
        lines = self._process.stdout.read().split("\n")
        self._process.stdout.close()
        return [line for line in lines if line]


class Bench:
    """One runner on one connection, with what it reports."""

    def __init__(self, connection: MqttConnection, **settings: float) -> None:
        broker: Broker = connection
        config = MqttRunnerConfig(agent="agent-1", **{**QUICK, **settings})  # type: ignore[arg-type] # floats all
        self.runner = MqttRunner(broker, config)
        self.connection = connection
        self.progress: list[str] = []
        self.moved = asyncio.Event()

    async def on_progress(self, text: str) -> None:
        self.progress.append(text)
        self.moved.set()

    async def run(self, do: str, *progress: str) -> Outcome:
        request = RunRequest(
            run_id=RUN_ID,
            kind=RunKind.SCHEDULED,
            session_id="s1",
            task=json.dumps({"do": do, "progress": progress}),
            routine_id="r1",
        )
        return await self.runner.run(request, self.on_progress)

    async def begun(self, do: str) -> "asyncio.Task[Outcome]":
        task = asyncio.create_task(self.run(do))
        await asyncio.wait_for(self.moved.wait(), 20)
        return task


@contextlib.asynccontextmanager
async def bench_on(port: int, **settings: float) -> AsyncIterator[Bench]:
    connection = MqttConnection(MqttConfig(host="127.0.0.1", port=port))
    serving = asyncio.create_task(connection.run())
    bench = Bench(connection, **settings)
    try:
        await bench.runner.start()
        await connection.wait_up()
        yield bench
    finally:
        await bench.runner.close()
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


@pytest.fixture
def broker(mosquitto: MosquittoFactory) -> Mosquitto:
    return mosquitto()


@pytest.fixture
async def agent(broker: Mosquitto) -> AsyncIterator[Agent]:
    agent = Agent(broker)
    yield agent
    agent.rest()


async def test_r20_r23_the_agent_takes_the_run_and_reports(broker: Mosquitto, agent: Agent) -> None:
    async with bench_on(broker.port) as bench:
        assert await bench.run("answer", "one", "two") == Completed("done")
        assert bench.progress == ["one", "two"], "and repeated deliveries count once"
    assert agent.rest() == [f"taken {RUN_ID}"]


async def test_r48_an_error_is_a_failure(broker: Mosquitto, agent: Agent) -> None:
    async with bench_on(broker.port) as bench:
        assert await bench.run("error") == Failed("no stock")


@pytest.mark.parametrize(
    ("do", "reason"),
    [
        ("die", "gone offline"),
        ("leave", "gone offline"),
        ("restart", "started anew"),
        ("silence", "silent for 2 s"),
        ("forget", "knows nothing of the run"),
    ],
)
async def test_r48_an_agent_that_disappears_leaves_its_run_interrupted_and_not_repeated(
    broker: Mosquitto, agent: Agent, do: str, reason: str
) -> None:
    async with bench_on(broker.port) as bench:
        outcome = await bench.run(do, "half")
        assert isinstance(outcome, Interrupted)
        assert reason in outcome.reason
        assert bench.progress == ["half"]
        # Whoever comes next finds nothing to take.
        successor = Agent(broker, "second")
        await bench.connection.publish(f"wakebridge/agents/agent-1/runs/{RUN_ID}/control", CANCEL)
        await successor.wait_for(f"cancel {RUN_ID}")
        assert not [line for line in successor.rest() if line.startswith("taken")]
    assert [line for line in agent.rest() if line.startswith(("taken", "again"))] == [
        f"taken {RUN_ID}"
    ]


CANCEL = b'{"type": "cancel"}'


async def test_a_connection_that_flaps_is_no_disappearance(broker: Mosquitto, agent: Agent) -> None:
    async with bench_on(broker.port) as bench:
        assert await bench.run("flap") == Completed("done")


async def test_a_last_word_that_got_lost_is_asked_for_again(
    broker: Mosquitto, agent: Agent
) -> None:
    async with bench_on(broker.port) as bench:
        assert await bench.run("lose") == Completed("said once more")


async def test_a_long_run_of_a_quiet_agent_that_answers_goes_on(
    broker: Mosquitto, agent: Agent
) -> None:
    async with bench_on(broker.port, lease_s=0.4) as bench:
        run = await bench.begun("sleep")
        finished, _ = await asyncio.wait((run,), timeout=1.5)
        assert not finished
        assert await bench.runner.cancel(RUN_ID) is True
        assert await run == Stopped(confirmed=True)


async def test_a_report_that_is_not_understood_fails_the_run_and_stops_the_agent(
    broker: Mosquitto, agent: Agent
) -> None:
    async with bench_on(broker.port) as bench:
        outcome = await bench.run("nonsense")
        assert isinstance(outcome, Failed)
        assert "not understood" in outcome.reason
        await agent.wait_for(f"cancel {RUN_ID}")


async def test_the_time_limit_fails_the_run_and_stops_the_agent(
    broker: Mosquitto, agent: Agent
) -> None:
    async with bench_on(broker.port, time_limit_s=0.7) as bench:
        assert await bench.run("sleep") == Failed("the agent took longer than 0.7 s")
        await agent.wait_for(f"cancel {RUN_ID}")


async def test_output_is_limited(broker: Mosquitto, agent: Agent) -> None:
    async with bench_on(broker.port) as bench:
        bench.runner._config = MqttRunnerConfig(agent="agent-1", output_limit_bytes=300)
        outcome = await bench.run("sleep", *["x" * 100] * 10)
        assert outcome == Failed("the agent wrote more than 300 bytes")


async def test_r4_cancelling_is_confirmed_by_the_agent(broker: Mosquitto, agent: Agent) -> None:
    async with bench_on(broker.port) as bench:
        run = await bench.begun("sleep")
        assert await bench.runner.cancel(RUN_ID) is True
        assert await run == Stopped(confirmed=True)
        assert await bench.runner.cancel(RUN_ID) is True


async def test_r4_an_agent_that_does_not_listen_is_not_confirmed(
    broker: Mosquitto, agent: Agent
) -> None:
    async with bench_on(broker.port) as bench:
        run = await bench.begun("deaf")
        assert await bench.runner.cancel(RUN_ID) is False
        assert await run == Stopped(confirmed=False)


async def test_r48_a_shutdown_of_the_bridge_tells_the_agent(
    broker: Mosquitto, agent: Agent
) -> None:
    async with bench_on(broker.port) as bench:
        run = await bench.begun("sleep")
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await agent.wait_for(f"cancel {RUN_ID}")


async def test_an_agent_that_is_still_starting_is_waited_for(broker: Mosquitto) -> None:
    async with bench_on(broker.port) as bench:
        run = asyncio.create_task(bench.run("answer"))
        finished, _ = await asyncio.wait((run,), timeout=0.3)
        assert not finished
        agent = Agent(broker)
        assert await run == Completed("done")
        assert agent.rest() == [f"taken {RUN_ID}"]


async def test_an_agent_that_never_comes_fails_the_run(broker: Mosquitto) -> None:
    async with bench_on(broker.port, online_limit_s=0.3) as bench:
        assert await bench.run("answer") == Failed("the agent 'agent-1' is not online")


async def test_a_status_that_outlived_its_agent_is_not_believed(broker: Mosquitto) -> None:
    """A retained "online" whose agent is gone: nothing is handed over, so nothing is repeated."""
    async with aiomqtt.Client("127.0.0.1", broker.port) as client:
        message = b'{"state": "online", "instance": "ghost"}'
        await client.publish("wakebridge/agents/agent-1/status", message, qos=1, retain=True)
    async with bench_on(broker.port, online_limit_s=0.5) as bench:
        assert await bench.run("answer") == Failed("the agent 'agent-1' does not answer")
        agent = Agent(broker)
        await bench.connection.publish(f"wakebridge/agents/agent-1/runs/{RUN_ID}/control", CANCEL)
        await agent.wait_for(f"cancel {RUN_ID}")
        assert agent.rest() == []


async def test_cancelling_before_the_agent_is_there_is_confirmed(broker: Mosquitto) -> None:
    async with bench_on(broker.port) as bench:
        run = asyncio.create_task(bench.run("answer"))
        await asyncio.sleep(0)
        assert await bench.runner.cancel(RUN_ID) is True
        assert await run == Stopped(confirmed=True)


async def test_a_run_outlives_a_cut_of_our_own_connection(broker: Mosquitto, agent: Agent) -> None:
    async with Relay(broker.port) as relay, bench_on(relay.port) as bench:
        run = await bench.begun("sleep")
        relay.cut()
        finished, _ = await asyncio.wait((run,), timeout=0.5)
        assert not finished
        await bench.connection.wait_up()
        assert await bench.runner.cancel(RUN_ID) is True
        assert await run == Stopped(confirmed=True)


async def test_a_run_outlives_a_broker_that_is_killed_and_started_again(
    broker: Mosquitto, agent: Agent
) -> None:
    async with bench_on(broker.port) as bench:
        run = await bench.begun("sleep")
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.start)
        await agent.wait_for("ready")
        await bench.connection.wait_up()
        assert not run.done()
        assert await bench.runner.cancel(RUN_ID) is True
        assert await run == Stopped(confirmed=True)


async def test_statuses_and_reports_from_nowhere_are_no_harm(
    broker: Mosquitto, agent: Agent
) -> None:
    base = "wakebridge/agents/agent-1"
    stranger = aiomqtt.Client("127.0.0.1", broker.port)
    async with stranger, bench_on(broker.port) as bench:
        for payload in (b"", b"online", b"[1]", b'{"state": "tired"}', b"\xff"):
            await stranger.publish(f"{base}/status", payload, qos=1)
        await stranger.publish(f"{base}/runs/other.1/reports", b'{"type": "result"}', qos=1)
        assert await bench.run("answer") == Completed("done")


async def test_a_run_is_active_once(broker: Mosquitto, agent: Agent) -> None:
    async with bench_on(broker.port) as bench:
        run = await bench.begun("sleep")
        assert isinstance(await bench.run("answer"), Failed)
        await bench.runner.close()
        assert await run == Stopped(confirmed=True)
