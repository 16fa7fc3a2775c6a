"""What was read of the countdown long ago is not acted on: somebody may have set it since (R9)."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from virtual_bridge import VirtualBoard, VirtualBridge
from virtual_time import NS, VirtualClock, VirtualLoop, run_virtual
from wakewire import framing, messages
from wakewire.messages import Event

START_NS = 1_800_000_000 * NS
FOREIGN = 0x1234


def test_r9_a_countdown_set_between_the_reading_and_the_change_is_left_alone(
    tmp_path: Path,
) -> None:
    """The disk takes its time between the two, or the host was suspended there."""

    async def live(loop: VirtualLoop) -> None:
        board = VirtualBoard(loop)
        bridge = VirtualBridge(loop, VirtualClock(loop, START_NS), board, tmp_path)
        await bridge.start()
        await bridge.create(START_NS + 10 * NS)
        await bridge.create(START_NS + 3600 * NS)
        woken = bridge.routines.woken

        async def slowly(boot_id: bytes, events: Sequence[Event], expired_token: int) -> None:
            if expired_token:
                await asyncio.sleep(5)
                board.receive(framing.encode(messages.timer_set(9, FOREIGN, 60_000)))
            await woken(boot_id, events, expired_token)

        bridge.routines.woken = slowly  # type: ignore[method-assign] # a test holds it up
        await asyncio.sleep(20)
        assert board.timer().token == FOREIGN
        assert "independently programmed" in bridge.waking.armed.error
        await bridge.stop()

    run_virtual(live)
