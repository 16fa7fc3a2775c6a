"""Whose word on the clock counts: the kernel's on synchronization (E71), two clocks' on suspend."""

import asyncio
import ctypes
import time
from pathlib import Path
from typing import Any

import pytest

from virtual_time import NS, VirtualClock, VirtualLoop, VirtualTimer, run_virtual
from wakebridge.bus import READY_TYPE, BusMessage
from wakebridge.clock import SuspendWatch, kernel_says_synchronized, slept_ns
from wakebridge.engine import EventEngine
from wakebridge.schedule.instants import parse_instant
from wakebridge.service.events import ASK_CLOCK_NS, EventService
from wakebridge.store.schedules_sqlite import SchedulesSqlite

LATER = parse_instant("2031-01-01T00:00:00+00:00")
NOW = parse_instant("2026-03-01T10:00:00+00:00")


class _Bus:
    name = "mqtt"

    def __init__(self) -> None:
        self.said: list[BusMessage] = []

    async def emit(self, message: BusMessage) -> None:
        self.said.append(message)

    @property
    def readies(self) -> list[bytes]:
        return [message.data for message in self.said if message.type == READY_TYPE]


class _Kernel:
    """What the kernel says of the clock, and how often it was asked."""

    def __init__(self, *, synchronized: bool) -> None:
        self.synchronized = synchronized
        self.asked = 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.synchronized


async def _serve(
    loop: VirtualLoop, path: Path, kernel: _Kernel | None, during: Any
) -> tuple[EventService, _Bus]:
    """Run a bridge whose store was last written in 2031, by a clock that reads 2026."""
    store = SchedulesSqlite(path)
    await store.commit([], LATER)
    await store.reset_watermark(LATER)
    wall = VirtualClock(loop, NOW)
    timer = VirtualTimer(wall)
    service = EventService(EventEngine(()), store, wall, timer, lambda: None, clock_vouched=kernel)
    bus = _Bus()
    service.attach(bus)
    service.start()
    task = asyncio.create_task(service.run())
    service.bus_up("mqtt")
    await asyncio.sleep(1)
    await during(service, bus, wall)
    task.cancel()
    await asyncio.wait([task])
    store.close()
    return service, bus


def test_at_the_start_a_clock_that_the_kernel_vouches_for_is_believed_e71(tmp_path: Path) -> None:
    kernel = _Kernel(synchronized=True)

    async def during(service: EventService, bus: _Bus, wall: VirtualClock) -> None:
        assert service.health()["clock"] == "synchronized"

    _, bus = run_virtual(lambda loop: _serve(loop, tmp_path / "db", kernel, during))
    assert len(bus.readies) == 1
    assert b'"clock":"synchronized"' in bus.readies[0]
    assert kernel.asked == 1  # once it is believed, nobody is asked any more


def test_a_step_has_the_kernel_asked_and_the_second_ready_said_e71(tmp_path: Path) -> None:
    kernel = _Kernel(synchronized=False)

    async def during(service: EventService, bus: _Bus, wall: VirtualClock) -> None:
        assert service.health()["clock"] == "unsynchronized"
        kernel.synchronized = True
        wall.step(3600 * NS)
        await asyncio.sleep(0.01)
        assert service.health()["clock"] == "synchronized"

    _, bus = run_virtual(lambda loop: _serve(loop, tmp_path / "db", kernel, during))
    assert [b'"clock":"synchronized"' in ready for ready in bus.readies] == [False, True]


def test_an_ntp_daemon_that_vouches_later_is_heard_without_a_step_e71(tmp_path: Path) -> None:
    kernel = _Kernel(synchronized=False)

    async def during(service: EventService, bus: _Bus, wall: VirtualClock) -> None:
        kernel.synchronized = True
        await asyncio.sleep(ASK_CLOCK_NS / NS + 1)
        assert service.health()["clock"] == "synchronized"

    run_virtual(lambda loop: _serve(loop, tmp_path / "db", kernel, during))


def test_without_the_kernel_only_the_deployments_signal_ends_the_doubt_e71(tmp_path: Path) -> None:
    async def during(service: EventService, bus: _Bus, wall: VirtualClock) -> None:
        await asyncio.sleep(3600)
        assert service.health()["clock"] == "unsynchronized"
        service.clock_synced()
        await asyncio.sleep(0.01)
        assert service.health()["clock"] == "synchronized"

    run_virtual(lambda loop: _serve(loop, tmp_path / "db", None, during))


def test_the_real_kernel_is_asked_as_its_own_tool_asks_it() -> None:
    """adjtimex(2) through another library: STA_UNSYNC is 0x40."""

    class Everything(ctypes.Structure):
        _fields_ = (("modes", ctypes.c_uint), ("rest", ctypes.c_byte * 1000))

    timex = Everything(modes=0)
    state = ctypes.CDLL("libc.so.6").adjtimex(ctypes.byref(timex))
    # Four longs after the modes, each aligned to its size.
    offset = 5 * ctypes.sizeof(ctypes.c_long) - ctypes.sizeof(ctypes.c_uint)
    status = int.from_bytes(bytes(timex.rest[offset : offset + 4]), "little")
    assert kernel_says_synchronized() == (state != 5 and not status & 0x40)


def test_a_suspend_is_what_one_clock_counts_and_the_other_does_not() -> None:
    """E5: CLOCK_BOOTTIME goes on in suspend, CLOCK_MONOTONIC does not."""
    slept = 10 * NS
    watch = SuspendWatch(lambda: slept)
    assert watch.look() == 0
    slept += 90 * NS
    assert watch.look() == 90 * NS
    assert watch.look() == 0
    slept += 100_000_000  # two reads that were a little apart
    assert watch.look() == 0


def test_a_pause_between_the_two_reads_is_no_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process may be stopped between the reads; it must not look as if the host had slept."""
    pause = 0

    def read(which: int) -> int:
        moments = {time.CLOCK_BOOTTIME: 500 * NS, time.CLOCK_MONOTONIC: 400 * NS}
        return moments[which] + (pause if which == time.CLOCK_MONOTONIC else 0)

    monkeypatch.setattr(time, "clock_gettime_ns", read)
    watch = SuspendWatch()
    pause = 5 * NS
    assert slept_ns() == 95 * NS
    assert watch.look() == 0
    pause = 0
    assert watch.look() == 0
