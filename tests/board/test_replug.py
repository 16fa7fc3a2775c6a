"""Case A11: the port dies in the middle of a frame and another one appears behind its name."""

import asyncio
import json
import time
from pathlib import Path

import pytest

from firmware_board import FirmwareBoard, PtyBoard
from supervised import S, Supervised
from wakebridge.board.serial_port import SerialOpener
from wakewire import codes

CASE = json.loads((Path(__file__).parents[1] / "data" / "board-cases.json").read_text())["A11"]


@pytest.mark.parametrize(("outage_s", "drift_ms", "arms_after"), [(10, 0, 0), (1, 10_000, 1)])
async def test_the_case_as_it_was_in_the_field(
    link: Path, outage_s: int, drift_ms: int, arms_after: int
) -> None:
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
    await supervised.bring_to(due_ns)
    assert firmware.asked.count(codes.OP_TIMER_SET) == 1
    supervised.clock.skew_ns += 10 * S
    before.skew_ms += 10_000

    # t10: half a frame, then EIO. No device until t20.
    before.send(b"\x7e" + bytes.fromhex("a2626964"))
    await asyncio.sleep(0.1)
    attempts, cpu_s = supervised.supervisor.open_attempts, time.process_time()
    before.vanish()
    await asyncio.sleep(outage_s)
    assert supervised.supervisor.open_attempts - attempts <= 20
    assert time.process_time() - cpu_s < 1
    assert len(supervised.downs) == 1

    # t20: another device behind the same name, the same boot, 100 s remaining.
    after = PtyBoard(link, firmware)
    supervised.clock.skew_ns += (10 - outage_s) * S
    after.skew_ms = before.skew_ms + (10 - outage_s) * 1000 + drift_ms
    assert after.device != before.device or after.link.exists()
    client = await supervised.up(2, within_s=3)
    assert supervised.ups[1][1].unique_id == supervised.ups[0][1].unique_id
    firmware.asked.clear()
    await supervised.bring_to(due_ns)
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
