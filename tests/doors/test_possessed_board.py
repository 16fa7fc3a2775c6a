"""A possessed board cannot stall, grow or crash the bridge, nor run a routine (R40, A13)."""

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridges import BridgeProcess, Journal, Owner
from brokers import Mosquitto, MosquittoFactory
from doors.possessed_board import SPELLS, NeverExpires, PossessedFirmware, Spell
from doors.vital_signs import cpu_s, end, rss_bytes, watched
from firmware_board import PtyBoard

MIB = 1 << 20
SPELL_S = 0.8

# What one spell may cost: an answer over HTTP and over MQTT, growth, and lines of log a second. We
# change the plan 20 times a second and read the countdown 50 times; each change may print what it
# is and two states, and each reading a state, if the board says another one every time.
HTTP_S = 0.5
MQTT_S = 1.0
GROWTH_BYTES = 12 * MIB
LINES_PER_S = 250


@pytest.fixture
async def firmware(tmp_path: Path) -> AsyncIterator[PossessedFirmware]:
    possessed = PossessedFirmware()
    board = PtyBoard(tmp_path / "port", possessed)
    yield possessed
    board.vanish()


@pytest.fixture
def broker(mosquitto: MosquittoFactory) -> Mosquitto:
    return mosquitto()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def bridge(broker: Mosquitto, journal: Journal, tmp_path: Path) -> BridgeProcess:
    return BridgeProcess(
        tmp_path / "bridge",
        port=str(tmp_path / "port"),
        mqtt_port=broker.port,
        agent=journal.runner,
    )


async def test_no_spell_stalls_grows_or_crashes_the_bridge_or_has_it_run_a_routine(
    firmware: PossessedFirmware, bridge: BridgeProcess, broker: Mosquitto, journal: Journal
) -> None:
    async with Owner(broker.port) as owner, bridge:
        await owner.until_timer(timer_error="")
        await bridge.open_session("chat")
        routine = (await bridge.tool("chat", action="create", task="x", delay_s=3600)).result
        for number, kind in enumerate(SPELLS):
            await suffer(bridge, owner, firmware, kind(random.Random(number)))
            await believed_again(bridge)
            assert journal.runs() == [], kind.__name__
        assert (await bridge.routine(routine["id"]))["status"] == "scheduled"
        due = await owner.schedule("after", **{"in": {"seconds": 1}})
        await owner.until(lambda: len(owner.fired) == 1)
        assert owner.fired[0].key == ("after", due)


async def test_r40_r43_a_due_routine_does_not_run_for_buttons_voices_or_boots(
    firmware: PossessedFirmware, bridge: BridgeProcess, broker: Mosquitto, journal: Journal
) -> None:
    """The board says everything but source 4, and that its countdown still runs."""
    async with Owner(broker.port) as owner, bridge:
        await owner.until_timer(timer_error="")
        await bridge.open_session("chat")
        firmware.spell = NeverExpires(random.Random(1))
        routine = (await bridge.tool("chat", action="create", task="x", delay_s=1)).result
        async with watched(bridge, owner):
            await asyncio.sleep(3)
        assert (await bridge.routine(routine["id"]))["status"] == "scheduled"
        assert journal.runs() == []
        firmware.spell = None
        await bridge.said("routine", id=routine["id"], status="completed")
        assert journal.runs() == [routine["id"]]


async def suffer(
    bridge: BridgeProcess, owner: Owner, firmware: PossessedFirmware, spell: Spell
) -> None:
    name = type(spell).__name__
    before, cpu_before_s, mark = rss_bytes(bridge.pid), cpu_s(bridge.pid), bridge.mark()
    firmware.spell = spell
    async with watched(bridge, owner) as signs, poked(bridge, owner):
        await asyncio.sleep(SPELL_S)
    firmware.spell = None
    lines = len(bridge.lines) - mark
    grown = rss_bytes(bridge.pid) - before
    used_s = cpu_s(bridge.pid) - cpu_before_s
    print(f"{name}: {signs}, {grown / MIB:+.1f} MiB, {used_s:.2f} s CPU, {lines} lines")
    assert max(signs.http_s) < HTTP_S, name
    assert max(signs.mqtt_s) < MQTT_S, name
    assert grown < GROWTH_BYTES, name
    assert lines < LINES_PER_S * SPELL_S, (name, bridge.lines[-5:])


@contextlib.asynccontextmanager
async def poked(bridge: BridgeProcess, owner: Owner) -> AsyncIterator[None]:
    """Give the bridge reasons to talk with its board: a plan that changes, and a tool that asks."""

    async def change() -> None:
        for number in itertools.count():
            await owner.schedule("plan", **{"in": {"seconds": 100 + number}})
            await asyncio.sleep(0.05)

    async def ask() -> None:
        while True:
            await bridge.tool(action="list")
            await asyncio.sleep(0.02)

    poking = [asyncio.create_task(change()), asyncio.create_task(ask())]
    try:
        yield
    finally:
        await end(poking)


async def believed_again(bridge: BridgeProcess) -> None:
    """Wait until the honest board is believed again."""
    began_s = time.monotonic()
    async with asyncio.timeout(20):
        while (await bridge.tool(action="list")).timer_error:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.1)
    print(f"    believed again after {time.monotonic() - began_s:.1f} s")
