"""A host that wakes up doubts its connections at once, and loses nothing by it (E31, R40)."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import pytest

from bridges import Journal, Owner
from brokers import MosquittoFactory, Relay, mosquitto
from wakebridge.clock import SuspendWatch
from wakebridge.config import Config, parse_config
from wakebridge.daemon import Bridge, open_bridge
from wakebridge.simboard import DeskBoard

__all__ = ["mosquitto"]

NS = 1_000_000_000


class Sleep:
    """How long the host is said to have slept; a real suspend would take this test along."""

    def __init__(self) -> None:
        self.slept_ns = 0

    def __call__(self) -> int:
        return self.slept_ns

    async def resume(self, bridge: Bridge) -> None:
        """Say that an hour of sleep is over. Then the kernel ends the service's wait; here it is a
        request that does.
        """
        self.slept_ns += 3600 * NS
        await bridge.events.request("list", {}, {"skill_id": "nobody"}, "http", None)


@contextlib.asynccontextmanager
async def running(config: Config, sleep: Sleep) -> AsyncIterator[Bridge]:
    """Run the whole bridge in this process."""
    async with open_bridge(config) as bridge:
        bridge.suspend = SuspendWatch(sleep)
        tasks = [asyncio.create_task(each) for each in (*bridge.core(), *bridge.buses())]
        try:
            await bridge.routines.resume()
            yield bridge
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


def config_of(directory: Path, port: str, *more: str) -> Config:
    lines = (
        f'config_dir = "{directory / "config"}"',
        f'state_dir = "{directory / "state"}"',
        f'board.port = "{port}"',
        *more,
    )
    return parse_config("\n".join(lines), "test")


@pytest.fixture
async def board(tmp_path: Path) -> AsyncIterator[DeskBoard]:
    async with DeskBoard(tmp_path / "board") as powered:
        yield powered


async def test_a_dead_connection_to_the_broker_is_replaced_before_anything_waits_for_it_e31(
    board: DeskBoard, mosquitto: MosquittoFactory, tmp_path: Path
) -> None:
    broker, sleep = mosquitto(), Sleep()
    async with Relay(broker.port) as relay, Owner(broker.port) as owner:
        config = config_of(tmp_path, board.port, f"mqtt.port = {relay.port}")
        async with running(config, sleep) as bridge:
            await owner.until(lambda: owner.state.get("status") == "online")
            await owner.schedule("alarm", **{"in": {"seconds": 1.5}})
            relay.lose()  # while it slept, the other end gave the connection up
            await asyncio.sleep(1.2)
            connections = relay.accepted
            await sleep.resume(bridge)
            await owner.until(lambda: len(owner.fired) == 1)
            heard_s = time.time() - wall_s(owner.fired[0].due)
            assert heard_s < 1  # waiting for the confirmation would have taken five
            assert relay.accepted == connections + 1
            await owner.until(lambda: owner.state.get("status") == "online")
            await asyncio.sleep(0.2)
    assert len(owner.fired) == 1
    assert owner.missed == []


async def test_a_hint_that_got_lost_in_the_sleep_is_made_up_for_by_reading_the_log_r40(
    board: DeskBoard, tmp_path: Path
) -> None:
    """USB sleeps as well: the board pushed its event into the void."""
    (board.flash / "board.json").write_text('{"pulse": "always"}')
    await board.hard_reset()
    sleep, journal = Sleep(), Journal(tmp_path / "journal")
    command = journal.runner["command"]["argv"]
    config = config_of(
        tmp_path, board.port, 'agent.runner = "command"', f"agent.command.argv = {command!r}"
    )
    async with running(config, sleep) as bridge:
        await bridge.routines.open_session("chat")
        while await bridge.timer.confirm():
            pass  # each look waits for the next reading: the board was reset a moment ago
        pulses = board.wake_pulses()
        created = await bridge.tools.call_decoded(
            {"session_id": "chat", "input": {"action": "create", "task": "x", "delay_s": 2}}
        )
        assert not created["is_error"], created
        board.line("to_host").muted = True
        await pulses.pulse(10)
        board.line("to_host").muted = False
        assert journal.runs() == []
        await sleep.resume(bridge)
        async with asyncio.timeout(1.5):  # the next look at the board would be seconds away
            while not journal.runs("end"):  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.02)
    assert len(journal.runs()) == 1


def wall_s(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()
