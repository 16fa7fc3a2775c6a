"""Puts the firmware of this boot together. Its code is needed once: `start` lets go of it.

Nothing here may keep the board from answering: what cannot be had is reported and done without.
"""

import gc
import sys
from errno import ENOENT

from micropython import const

import wakeboard
from wakeboard import config, loop, ports
from wakeboard.backup import restore
from wakeboard.dispatcher import Dispatcher
from wakeboard.event_log import RING_LEN, EventLog
from wakeboard.link import Link
from wakeboard.loop import Firmware
from wakeboard.wake_line import WakeLine
from wakewire import PAYLOAD_MAX, cbor
from wakewire.framing import Decoder

_COUNTDOWN_MAX_MS = const(604800000)
_ONLY_FOR_STARTING = const(("backup", "config", "ports", "start"))


def start() -> Firmware:
    """The firmware of this boot, brought up on the first call."""
    if Firmware.live is None:
        Firmware.live = _assemble(ports.find())
        # One of each is made. None instead of a deletion, which would keep the method's code.
        for once in (Firmware, Dispatcher, EventLog, Link, WakeLine, Decoder):
            once.__init__ = None
        Dispatcher.counters = None  # it is overridden
        del loop.in_registers
    # Nothing needs these modules any more; their code can be collected.
    for name in _ONLY_FOR_STARTING:
        delattr(wakeboard, name)
    for name in list(sys.modules):
        if name.startswith("wakeboard.") and not hasattr(wakeboard, name.split(".")[1]):
            del sys.modules[name]
    gc.collect()
    return Firmware.live


def _assemble(port):
    settings, faults = config.parse(_configuration())
    try:
        streams = port.streams(settings)
    except Exception:
        faults.append("stream: not on this board")
        streams = port.streams({"stream": "repl"})
    try:
        level = port.wake_line(settings)
    except Exception:
        faults.append("wake_pin: not on this board")
        level = None
    awake_ms = settings["awake_window_s"] * 1000 if settings["pulse"] == "asleep" else 0
    save, record, wears = port.store()
    # Flash blocks are levelled: one write a minute is years of them.
    interval_s = settings["backup_interval_s"] or (60 if wears else 2)
    line = WakeLine(level, settings["pulse_ms"], awake_ms)
    ticks_ms = port.ticks_ms
    if settings["sleep"] == "light" and hasattr(port, "sleep_max_ms"):
        from wakeboard.sleeping import SleepyLink  # late: only a board that sleeps has room for it

        link = SleepyLink(port, streams, line)
        ticks_ms = link.ticks_ms
    else:
        link = Link(*streams)
        if settings["sleep"] != "off":
            faults.append("sleep: not on this board")
    boot_id = port.boot_id()
    live = Firmware(
        boot_id,
        _identity(port, boot_id, faults),
        ticks_ms,
        link,
        line,
        save,
        interval_s * 1000,
        port.restart(),
    )
    live.faults = faults
    restore(live.countdown, record)
    live.save()
    return live


def _configuration():
    """The text of board.json; one that cannot be read is empty, which is a fault, unlike none."""
    try:
        with open("board.json") as file:
            return file.read()
    except Exception as error:  # not UTF-8, longer than the heap, a directory
        return "{}" if error.args[:1] == (ENOENT,) else ""


def _identity(port, boot_id, faults):
    """What hello tells, with as many faults as it has room for; the diagnostics tell them all."""
    identity = [
        wakeboard.__version__,
        port.name,
        port.model(),
        port.unique_id(),
        boot_id,
        port.reset_cause(),
        [PAYLOAD_MAX, _COUNTDOWN_MAX_MS, RING_LEN],
        port.clock_quality,
        faults,
    ]
    while True:
        try:
            cbor.encode([1, 0xFFFF, 0, 1] + identity + [1 << 52])
            return identity
        except ValueError:
            identity[-1] = identity[-1][:-1]
