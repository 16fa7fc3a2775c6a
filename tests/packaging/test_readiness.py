"""The bridge under a service manager: ready, alive, stopping; and what a stop leaves behind."""

import asyncio
import itertools
import os
import signal
import socket
import sqlite3
import time
from datetime import datetime
from pathlib import Path

import pytest

from bridges import BridgeProcess, Owner
from brokers import Mosquitto
from notify_socket import NotifySocket
from supervised import Supervised
from wakebridge.board.client import Reading
from wakebridge.board.serial_port import SerialOpener
from wakebridge.readiness import Notifier
from wakebridge.simboard import DeskBoard
from wakewire.codes import STATE_ARMED
from wakewire.messages import TimerState

WATCHDOG_S = 0.6


@pytest.fixture
def bridge(board: DeskBoard, broker: Mosquitto, tmp_path: Path) -> BridgeProcess:
    return BridgeProcess(tmp_path / "bridge", port=board.port, mqtt_port=broker.port)


def start_under(manager: NotifySocket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in manager.environment.items():
        monkeypatch.setenv(name, value)


async def test_it_says_when_it_serves_that_it_lives_and_when_it_stops(
    bridge: BridgeProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with NotifySocket(tmp_path / "notify", WATCHDOG_S) as manager:
        start_under(manager, monkeypatch)
        async with bridge:
            await manager.until(lambda: len(manager.having("WATCHDOG")) >= 4)
            [ready] = manager.having("READY")
            assert ready.fields == {"READY": "1", "STATUS": "0 schedules loaded"}
            assert (await bridge.health())["events"]["schedules"] == 0  # it does serve
            beats = [notice.at_s for notice in manager.having("WATCHDOG")]
            gaps = [later - earlier for earlier, later in itertools.pairwise(beats)]
            assert max(gaps) < WATCHDOG_S
            assert min(gaps) > WATCHDOG_S / 4  # it is a sign of life, not a drum roll
            pid = bridge.pid
            assert await bridge.stop() == 0
            assert {notice.pid for notice in manager.notices} == {pid}
            await manager.until(lambda: bool(manager.having("STOPPING")))
    first, last = manager.notices[0], manager.having("STOPPING")[0]
    assert "READY" in first.fields
    assert [notice for notice in manager.notices if notice.at_s < last.at_s] != []


async def test_a_bridge_that_hangs_falls_silent(
    bridge: BridgeProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with NotifySocket(tmp_path / "notify", WATCHDOG_S) as manager:
        start_under(manager, monkeypatch)
        async with bridge:
            await manager.until(lambda: len(manager.having("WATCHDOG")) >= 2)
            os.kill(bridge.pid, signal.SIGSTOP)
            await asyncio.sleep(0.1)  # what was on its way
            heard = len(manager.notices)
            await asyncio.sleep(WATCHDOG_S)
            assert len(manager.notices) == heard
            os.kill(bridge.pid, signal.SIGCONT)
            await manager.until(lambda: len(manager.notices) > heard)


async def test_a_loop_that_hangs_falls_silent_although_the_process_lives(tmp_path: Path) -> None:
    with NotifySocket(tmp_path / "notify", 0.1) as listener:
        manager = Notifier.of(dict(listener.environment))
        beating = asyncio.create_task(manager.run())
        await listener.until(lambda: len(listener.notices) >= 2)
        before = len(listener.notices)
        time.sleep(0.4)  # noqa: ASYNC251 - the loop hangs: that is the test
        await listener.until(lambda: len(listener.notices) > before)
        assert len(listener.notices) == before + 1  # of the four that were due
        beating.cancel()
        manager.close()


async def test_a_stop_leaves_everything_durable_and_the_countdown_armed(
    bridge: BridgeProcess,
    board: DeskBoard,
    broker: Mosquitto,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host that is shutting down is still woken (issue 6)."""
    with NotifySocket(tmp_path / "notify", WATCHDOG_S) as manager:
        start_under(manager, monkeypatch)
        async with Owner(broker.port) as owner, bridge:
            await owner.until(lambda: owner.state.get("status") == "online")
            await bridge.open_session("chat")
            late = (await bridge.tool("chat", action="create", task="x", delay_s=3600)).result
            due = await owner.schedule("alarm", **{"in": {"seconds": 4}})
            await owner.until_timer(state="armed", timer_error="", wakes_for=due)
            token = owner.state["timer"]["token"]
            pulses = board.wake_pulses()
            assert await bridge.stop() == 0
            await manager.until(lambda: bool(manager.having("STOPPING")))
            await owner.until(lambda: owner.state["status"] == "offline")
            live = await live_countdown(board)
            assert (live.state, live.token) == (STATE_ARMED, token)
            check_stores(bridge)
            pulse = await pulses.pulse(10)
            due_s = datetime.fromisoformat(due).timestamp()
            assert pulse.wall_ns / 1e9 == pytest.approx(due_s, abs=1)
            assert owner.fired == []
            await bridge.start()  # the host woke up, and started its services
            await owner.until(lambda: len(owner.fired) == 1)
            assert owner.fired[0].due == due
            assert (await bridge.routine(late["id"]))["status"] == "scheduled"


async def live_countdown(board: DeskBoard) -> TimerState:
    """Ask the board itself, as the next bridge would; the link is given back."""
    asking = Supervised(SerialOpener(board.port))
    task = asyncio.create_task(asking.supervisor.run())
    try:
        answer = await (await asking.up()).timer_get()
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert isinstance(answer, Reading)
    return answer.value


def check_stores(bridge: BridgeProcess) -> None:
    with sqlite3.connect(bridge.state_dir / "schedules.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()
    assert bridge.state_file.exists()


async def test_without_a_manager_nothing_is_said_and_nobody_disturbed(tmp_path: Path) -> None:
    alone = Notifier.of({})
    alone.ready("serving")
    await alone.run()  # returns at once
    alone.close()
    nobody = Notifier.of({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    nobody.ready("serving")
    nobody.stopping()
    nobody.close()


@pytest.mark.parametrize(
    ("variables", "watched"),
    [
        ({"WATCHDOG_USEC": "200000"}, True),
        ({"WATCHDOG_USEC": "200000", "WATCHDOG_PID": str(os.getpid())}, True),
        ({"WATCHDOG_USEC": "200000", "WATCHDOG_PID": "1"}, False),
        ({"WATCHDOG_USEC": "0"}, False),
        ({"WATCHDOG_USEC": "soon"}, False),
        ({}, False),
    ],
)
async def test_the_watchdog_is_for_the_process_that_it_names(
    variables: dict[str, str], watched: bool, tmp_path: Path
) -> None:
    with NotifySocket(tmp_path / "notify") as listener:
        environment = {**listener.environment, **variables, "PATH": "/bin"}
        manager = Notifier.of(environment)
        assert environment == {"PATH": "/bin"}  # no child speaks in our name
        beating = asyncio.create_task(manager.run())
        if watched:
            await listener.until(lambda: bool(listener.having("WATCHDOG")))
        else:
            await beating
        manager.ready("serving")
        await listener.until(lambda: bool(listener.having("READY")))
        beating.cancel()
        manager.close()


async def test_an_abstract_address_is_understood() -> None:
    name = f"wakebridge-test-{os.getpid()}"
    listener = socket_named("\0" + name)
    manager = Notifier.of({"NOTIFY_SOCKET": f"@{name}"})
    manager.stopping()
    assert listener.recv(100).startswith(b"STOPPING=1\n")
    manager.close()
    listener.close()


def socket_named(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(address)
    return listener
