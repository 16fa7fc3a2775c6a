"""The one place that reads a clock, and the one timer that waits for a deadline.

Everything else takes `Now` as an argument. The wall clock decides when a schedule is due (E70);
CLOCK_BOOTTIME measures delays, because CLOCK_MONOTONIC stands still while the host is suspended
and this product exists to suspend its host (E5).
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import time
from collections.abc import Callable
from typing import Protocol

from wakebridge.schedule.instants import Now

_CLOCK_REALTIME = 0
_CLOCK_BOOTTIME = 7
_TFD_TIMER_ABSTIME = 1
_TFD_TIMER_CANCEL_ON_SET = 2
_NS = 1_000_000_000

# adjtimex(2): in `status`, the clock is not synchronized; the answer of a clock that is not.
_STA_UNSYNC = 0x40
_TIME_ERROR = 5

# A shorter suspend outlives no connection, and two clocks are never read at quite the same time.
_SLEPT_MIN_NS = 500_000_000

# The kernel refuses to cancel a disarmed timer, and a step must be noticed even when nothing is
# planned: with no wall deadline the timer is armed this far ahead.
_FAR_AHEAD_NS = 30 * 86_400 * _NS


class Clock(Protocol):
    """A source of `Now`. Tests and the simulation bring their own."""

    def now(self) -> Now:
        """Return the wall clock and the boot clock, read together."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> Now:
        """Return CLOCK_REALTIME and CLOCK_BOOTTIME in ns."""
        return Now(time.time_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME))


def slept_ns() -> int:
    """Return for how long the host has been suspended since its boot."""
    # In this order a pause between the two reads makes it less, which is no suspend.
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return boot_ns - time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class SuspendWatch:
    """Tells that the host was suspended since the last look. `slept` is `slept_ns` or a test's."""

    def __init__(self, slept: Callable[[], int] = slept_ns) -> None:
        self._slept = slept
        self._known_ns = slept()

    def look(self) -> int:
        """Return for how long the host slept since the last look in ns; 0: it did not."""
        slept_ns = self._slept()
        since_ns = slept_ns - self._known_ns
        self._known_ns = max(self._known_ns, slept_ns)
        return since_ns if since_ns >= _SLEPT_MIN_NS else 0


class _Timex(ctypes.Structure):
    """The beginning of struct timex; no field after `status` is looked at."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 512),
    )


def kernel_says_synchronized() -> bool:
    """Return whether somebody disciplines the wall clock, as NTP daemons tell the kernel.

    A clock that was only read from the battery-backed one at boot, or set by hand, is not.
    """
    timex = _Timex(modes=0)  # nothing is changed
    state: int = ctypes.CDLL(None).adjtimex(ctypes.byref(timex))
    return 0 <= state < _TIME_ERROR and not timex.status & _STA_UNSYNC


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class _TimerFd:
    """One absolute timer of the kernel. Python has its own wrapper only from 3.13 on."""

    def __init__(self, clock_id: int, flags: int) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._flags = flags
        self.fd = self._libc.timerfd_create(clock_id, os.O_CLOEXEC | os.O_NONBLOCK)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def arm(self, at_ns: int) -> None:
        spec = _Itimerspec(_Timespec(0, 0), _Timespec(*divmod(max(at_ns, 1), _NS)))
        if self._libc.timerfd_settime(self.fd, self._flags, ctypes.byref(spec), None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def drain(self) -> None:
        """Read the expiration so that the descriptor is no longer ready."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            pass
        except OSError as error:
            # ECANCELED is the message "the wall clock was stepped".
            if error.errno != errno.ECANCELED:
                raise


class DeadlineTimer:
    """Wakes its waiter at a wall or boot-clock deadline, or when the wall clock is stepped.

    No polling: two timerfds in the event loop. The wall one is armed with CANCEL_ON_SET, so a step
    of the clock, also the one that a resume brings, is an event like any other.
    """

    def __init__(self) -> None:
        self._wall = _TimerFd(_CLOCK_REALTIME, _TFD_TIMER_ABSTIME | _TFD_TIMER_CANCEL_ON_SET)
        self._boot = _TimerFd(_CLOCK_BOOTTIME, _TFD_TIMER_ABSTIME)
        self._ready = asyncio.Event()
        loop = asyncio.get_running_loop()
        for timer in (self._wall, self._boot):
            loop.add_reader(timer.fd, self._expired, timer)

    def _expired(self, timer: _TimerFd) -> None:
        timer.drain()
        self._ready.set()

    def wake(self) -> None:
        """End the current or the next wait at once."""
        self._ready.set()

    async def wait(self, now: Now, wall_ns: int | None, boot_ns: int | None) -> None:
        """Return at the earlier deadline, after a step of the wall clock, or after `wake`."""
        far_ns = now.wall_ns + _FAR_AHEAD_NS
        self._wall.arm(far_ns if wall_ns is None else min(wall_ns, far_ns))
        self._boot.arm(now.boot_ns + _FAR_AHEAD_NS if boot_ns is None else boot_ns)
        await self._ready.wait()
        self._ready.clear()

    def close(self) -> None:
        """Give both descriptors back."""
        loop = asyncio.get_running_loop()
        for timer in (self._wall, self._boot):
            loop.remove_reader(timer.fd)
            with contextlib.suppress(OSError):
                os.close(timer.fd)
