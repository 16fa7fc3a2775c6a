"""Case A11: the port dies in the middle of a frame and another one appears behind its name."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from supervised import Supervised

from firmware_board import FirmwareBoard, PtyBoard
from wakebridge.board.client import BoardClient, Reading, timer_reading
from wakebridge.board.serial_port import SerialOpener
from wakebridge.wake.planner import plan
from wakebridge.wake.reconciler import Arm, reconcile
from wakewire import codes

S = 1_000_000_000
LEASE = 0x51AB
CASE = json.loads((Path(__file__).parents[1] / "data" / "board-cases.json").read_text())["A11"]


async def bring_to(supervised: Supervised, client: BoardClient, due_ns: int) -> None:
    """Do what the bridge does after `on_up`: read, plan, compare, change at most one thing."""
    answer = await client.timer_get()
    assert isinstance(answer, Reading)
    now = supervised.clock.now()
    rate = supervised.supervisor.rate.estimate()
    desired = plan(now, due_ns, lease=LEASE, lead_s=0, rate=rate)
    action = reconcile(desired, timer_reading(answer), now, lease=LEASE, rate=rate)
    if isinstance(action, Arm):
        await client.timer_set(action.token, action.duration_ms)


@pytest.mark.parametrize(("drift_ms", "arms_after"), [(0, 0), (10_000, 1)])
async def test_the_case_as_it_was_in_the_field(link: Path, drift_ms: int, arms_after: int) -> None:
    """A11; with `drift_ms` the board's remaining time does not agree any more."""
    expected = CASE["expected"]
    assert expected["disconnect_notices"] == 1
    firmware = FirmwareBoard()
    before = PtyBoard(link, firmware)
    supervised = Supervised(SerialOpener(str(link)))
    task = asyncio.create_task(supervised.supervisor.run())

    # t0: arm 120 s, and t10 without waiting for it.
    client = await supervised.up()
    due_ns = supervised.clock.now().wall_ns + 120 * S
    await bring_to(supervised, client, due_ns)
    assert firmware.asked.count(codes.OP_TIMER_SET) == 1
    supervised.clock.skew_ns += 10 * S
    before.skew_ms += 10_000

    # t10: half a frame, then EIO. No device until t20.
    before.send(b"\x7e" + bytes.fromhex("a2626964"))
    await asyncio.sleep(0.1)
    attempts, cpu_s = supervised.supervisor.open_attempts, time.process_time()
    before.vanish()
    await asyncio.sleep(10)
    assert supervised.supervisor.open_attempts - attempts <= 20
    assert time.process_time() - cpu_s < 1
    assert len(supervised.downs) == 1

    # t20: another device behind the same name, the same boot, 100 s remaining.
    after = PtyBoard(link, firmware)
    after.skew_ms = before.skew_ms + drift_ms
    assert after.device != before.device or after.link.exists()
    client = await supervised.up(2, within_s=3)
    assert supervised.ups[1][1].unique_id == supervised.ups[0][1].unique_id
    firmware.asked.clear()
    await bring_to(supervised, client, due_ns)
    assert firmware.asked.count(codes.OP_TIMER_SET) == arms_after
    assert client.counters().crc_errors == 0

    # t120: it fires, once.
    supervised.clock.skew_ns += 100 * S
    after.skew_ms += 100_000
    await supervised.until(lambda told: len(told.hints) == 1)
    assert supervised.hints[0].source == codes.SOURCE_RTC_TIMER
    await asyncio.sleep(0.2)
    assert len(supervised.hints) == 1
    assert len(supervised.downs) == expected["disconnect_notices"]
    task.cancel()
    await asyncio.wait((task,))
    after.vanish()
