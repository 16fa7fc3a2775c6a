"""The running firmware: one loop that sleeps until its host or its next deadline wakes it.

KeyboardInterrupt passes through everything here: a technician can always break in.
"""

import gc
import struct
import time

from micropython import const

from wakeboard.dispatcher import Dispatcher

_TICKS_MASK = const(0x3FFFFFFF)

_SAVE = const(1)
_RESTART = const(2)

# The longest wait: ticks must be read now and then.
_WAIT_MAX_MS = const(5000)

# After a fault of our own in the loop: long enough not to spin, short enough to answer a retry.
_FAULT_PAUSE_MS = const(100)


class Firmware(Dispatcher):
    """The board of this boot with its hardware around it; `wakeboard.start` puts it together."""

    live = None  # the firmware of this boot, for the diagnostics

    def __init__(self, boot_id, identity, ticks_ms, link, line, store, save_every_ms, restart):
        super().__init__(boot_id, identity, ticks_ms())
        self.ticks_ms = ticks_ms
        self.link = link
        self.line = line
        self.store = store
        self.save_every_ms = save_every_ms
        self.restart = restart
        self.saves = self.save_errors = self.loop_max_ms = self.save_left_ms = 0
        self.fault = None

    def counters(self):
        """The counters of the diag answer."""
        link, log = self.link, self.log
        decoder = link.decoder
        return [
            gc.mem_free(),
            self.loop_max_ms,
            decoder.frames,
            decoder.crc_errors,
            decoder.overlong,
            decoder.malformed,
            self.bad_payloads,
            decoder.frames - self.bad_payloads,  # requests
            self.refusals,
            link.frames_out,
            link.frames_dropped,
            log.last_seq,
            log.oldest_seq() - 1,
            self.line.pulses,
            self.saves,
            self.save_errors,
        ]

    def serve(self) -> None:
        """Run until Ctrl-C or the end of the stream; then the wake line is released."""
        try:
            self.push()
            while True:
                try:
                    self.step()
                except Exception as error:  # a fault of ours must not stop the countdown
                    self.fault = error
                    time.sleep_ms(_FAULT_PAUSE_MS)
        finally:
            self.line.set(0)

    def step(self):
        """Wait for a request or for the next deadline, and do what is to be done."""
        payload = self.link.receive(self.tick())
        if payload is None:
            return
        self.tick()
        answer = self.answer(payload)
        if answer is None:
            return
        self.line.heard()
        todo = self.todo
        self.todo = 0
        if todo == _SAVE:
            self.save()
        self.link.send(answer)
        if todo == _RESTART:
            self.line.set(0)
            self.restart()
        self.tick()
        self.loop_max_ms = max(self.loop_max_ms, self.countdown.step_ms)

    def tick(self):
        """Move the clock on and do what has fallen due; the milliseconds to wait for more."""
        expired = self.advance(self.ticks_ms())
        countdown, line = self.countdown, self.line
        line.count(countdown.step_ms)
        self.save_left_ms -= countdown.step_ms
        if expired:
            line.wake()
            self.save()
            self.push()
        wait_ms = line.left_ms if line.left_ms >= 0 else _WAIT_MAX_MS
        if countdown.armed:
            if self.save_left_ms <= 0:
                self.save()
            wait_ms = min(wait_ms, countdown.left_ms, self.save_left_ms)
        # Short of the deadline first: the clock that times the wait need not be the ticks' own.
        return wait_ms - wait_ms // 16

    def save(self):
        """Write the checkpoint."""
        self.save_left_ms = self.save_every_ms
        try:
            self.store(self.countdown.checkpoint())
            self.saves += 1
        except OSError:
            self.save_errors += 1

    def push(self):
        """Hint at the newest event; the host asks for the log, so that a loss costs nothing."""
        self.link.send(self.latest_event())


def in_registers(region, items):
    """A function that stores a checkpoint in backup registers or RAM, which do not wear.

    `region` is a memoryview as long as a checkpoint, `items` the `struct` format of its items:
    registers take whole words only.
    """

    def save(record):
        at = 0
        for item in struct.unpack(items, record):
            region[at] = item
            at += 1

    return save
