"""The running firmware: one loop that waits for its host and for its deadlines, and never polls.

KeyboardInterrupt is never caught where it would be swallowed: a technician can always break in.
"""

import gc
import time

from wakeboard import backup, config, ports
from wakeboard.board import Board
from wakeboard.countdown import Deadline
from wakeboard.dispatcher import Counters, Dispatcher
from wakeboard.link import Link
from wakeboard.wake_line import WakeLine
from wakewire import cbor
from wakewire.codes import STATE_ARMED

# The longest wait in ms: ticks must be read now and then, and a clock that is being watched from
# outside (a desk board that is told to run fast) is never far behind.
_WAIT_MAX_MS = 5000

# Seconds between checkpoints: in storage that wears (about a year of flash at one write a minute,
# levelled over a few blocks), and in storage that does not.
_CHECKPOINT_WEARING_S = 60
_CHECKPOINT_S = 2

# After a fault of our own in the loop: long enough not to spin, short enough to answer a retry.
_FAULT_PAUSE_MS = 100

live = None  # the firmware of this boot, for the diagnostics


class Firmware(Counters):
    """The board of this boot with its hardware around it."""

    def __init__(self, port):
        self.port = port
        self.config = config.Config(_read(config.FILE))
        self.board = board = Board(port.boot_id(), port.ticks_ms())
        board.port = port.name
        board.model = port.model()
        board.unique_id = port.unique_id()
        board.reset_cause = port.reset_cause()
        board.clock_quality = port.clock_quality
        board.config_faults = self.config.faults
        self.dispatcher = Dispatcher(board, self)
        self.link = Link(*self._streams())
        self.wake_line = WakeLine(
            board.clock,
            self._level(),
            self.config.pulse_ms,
            0 if self.config.pulse == "always" else self.config.awake_window_s * 1000,
        )
        self.store = port.backup()
        self.checkpoints = 0
        self.checkpoint_errors = 0
        self.loop_max_ms = 0
        self.last_fault = None
        self._checkpoint = Deadline(board.clock)
        interval_s = _CHECKPOINT_WEARING_S if self.store.wears else _CHECKPOINT_S
        self._checkpoint_ms = (self.config.backup_interval_s or interval_s) * 1000
        backup.restore(board.countdown, self.store.load(), port.ticks_ms())
        self._save()
        self.push()

    def _streams(self):
        try:
            return self.port.streams(self.config)
        except (ValueError, TypeError, AttributeError):
            self.config.fault("stream: not on this board")
            self.config.uart = ()
            return self.port.streams(self.config)

    def _level(self):
        try:
            return self.port.wake_line(self.config)
        except (ValueError, TypeError, AttributeError):
            self.config.fault("wake_pin: not on this board")
            return ports.no_line

    def read(self):
        """The counters of the diag answer, in the wire's order."""
        link, dispatcher, log = self.link, self.dispatcher, self.board.log
        decoder = link.decoder
        return [
            gc.mem_free(),
            self.loop_max_ms,
            decoder.frames,
            decoder.crc_errors,
            decoder.overlong,
            decoder.malformed,
            dispatcher.bad_payloads,
            dispatcher.requests,
            dispatcher.refusals,
            link.frames_out,
            link.frames_dropped,
            log.last_seq,
            log.oldest_seq() - 1,
            self.wake_line.pulses,
            self.checkpoints,
            self.checkpoint_errors,
        ]

    def serve(self):
        """Run until Ctrl-C or until the stream ends; then the wake line is released."""
        try:
            while True:
                try:
                    self.step()
                except EOFError:
                    return
                except Exception as error:  # a fault of ours must not stop the countdown
                    self.last_fault = error
                    gc.collect()
                    time.sleep_ms(_FAULT_PAUSE_MS)
        except KeyboardInterrupt:
            print("wakeboard stands still: Ctrl-D starts it again")
        finally:
            self.wake_line.release()

    def step(self):
        """Wait for input or for the next deadline, and do what is due."""
        payload = self.link.receive(self._wait_ms())
        started = self.port.ticks_ms()
        self.tick()
        if payload is not None:
            self.take(payload)
        self.loop_max_ms = max(self.loop_max_ms, (self.port.ticks_ms() - started) & 0x3FFFFFFF)

    def tick(self):
        """Move the clock on and do what has fallen due."""
        if self.board.advance(self.port.ticks_ms()):
            self._save()
            self.wake_line.wake()
            self.push()
        self.wake_line.step()
        if not self._checkpoint.left_ms():
            self._save()

    def take(self, payload):
        """Answer a request."""
        answer = self.dispatcher.answer(payload)
        if answer is None:
            return
        self.wake_line.heard()
        if self.dispatcher.timer_changed:
            self.dispatcher.timer_changed = False
            self._save()
        self.link.send(answer)
        if self.dispatcher.restart_asked:
            self.wake_line.release()
            self.port.restart()

    def push(self):
        """Tell the host of the newest event; it asks for the log, so that a loss costs nothing."""
        self.link.send(cbor.encode(self.board.latest_event()))

    def _wait_ms(self):
        self.tick()
        wait_ms = min(
            _WAIT_MAX_MS,
            self.board.countdown.left_ms(),
            self.wake_line.left_ms(),
            self._checkpoint.left_ms(),
        )
        # Short of the deadline first: the clock that times the wait need not be the ticks' own.
        return wait_ms - wait_ms // 16

    def _save(self):
        countdown = self.board.countdown
        try:
            self.store.save(backup.pack(countdown, self.port.ticks_ms()))
            self.checkpoints += 1
        except OSError:
            self.checkpoint_errors += 1
        if countdown.state == STATE_ARMED:
            self._checkpoint.start(self._checkpoint_ms)
        else:
            self._checkpoint.stop()


def _read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None


def start():
    """Bring the firmware of this boot up."""
    global live
    live = Firmware(ports.find())
