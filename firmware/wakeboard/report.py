"""What a technician with `mpremote` gets to see. Loaded only when asked for.

`mpremote` stops the firmware before it runs a command. So each command here ends by telling
`mpremote` that it has finished, with the bytes a raw REPL ends a command with, and then goes on
serving the host, inside that command. The next Ctrl-C stops the firmware as ever.
"""

import gc
import sys
import time

from micropython import const

from wakeboard import __version__, ports
from wakeboard.countdown import Countdown
from wakeboard.loop import Firmware

_SOURCES = const(("?", "boot", "button", "voice", "rtc_timer", "host"))
_CAUSES = const(
    ("unknown", "power on", "reset", "watchdog", "deep sleep", "soft reset", "brownout")
)
_CLOCKS = const(("unknown", "crystal", "RC oscillator, may be off by percents", "RTC"))
_COLUMN = const(12)
_WIDTH = const(67)  # of the text beside the first column, for 80 columns in all
_LAST_WAKES = const(5)
_SELFTEST_MS = const(2000)
_SELFTEST_ERROR_MS = const(20)  # more than any port's loop needs to notice a deadline
_HEAP_LOW = const(4096)
_QUIET_S = const(60)  # a bridge that runs greets a board within seconds
_NO_LINE = const("none: wake_pin is not set or not usable")


def show():
    """Print the report, then run on."""
    firmware = _firmware()
    gc.collect()
    for name, text in _lines(firmware):
        _line(name, text)
    healthy = True
    for text in _advice(firmware):
        _line("to do", text)
        healthy = False
    if healthy:
        print("looks healthy")
    _run_on(firmware)


def selftest():
    """Pulse the wake line, measure a countdown of two seconds, then run on."""
    firmware = _firmware()
    line = firmware.line
    if line.level:
        _line("wake line", "one pulse of %d ms: watch the host" % line.pulse_ms)
        line.set(1)
    else:
        _line("wake line", _NO_LINE)
    trial = Countdown(firmware.ticks_ms())
    trial.set(1, _SELFTEST_MS, 0)
    began_us = time.ticks_us()
    while not trial.advance(firmware.ticks_ms()):
        firmware.tick()
        time.sleep_ms(1)
    error_ms = time.ticks_diff(time.ticks_us(), began_us) / 1000 - _SELFTEST_MS
    _line("countdown", "%d ms took %+.1f ms more" % (_SELFTEST_MS, error_ms))
    _line("", "the host's own goes on: " + _countdown(firmware.countdown))
    if not -2 <= error_ms <= _SELFTEST_ERROR_MS:
        print("selftest FAILED: this board's clock is not usable")
    elif not line.level:
        print("selftest FAILED: there is no wake line")
    else:
        print("selftest passed")
    _run_on(firmware)


def _firmware():
    """The firmware of this boot; a new one when the command reset the board on its way."""
    if Firmware.live is None:
        print("The firmware was not running: this command reset the board, or there is no")
        print("main.py. It starts now. To look without a reset: mpremote resume exec ...")
        from wakeboard.start import start

        start()
    firmware = Firmware.live
    firmware.push = _keep_quiet
    firmware.tick()
    return firmware


def _keep_quiet():
    """In place of a frame amid a text for people; there will be one when the firmware runs on."""


def _run_on(firmware):
    print("the firmware runs on")
    sys.stdout.write("\x04\x04>")  # ends the command for mpremote
    del firmware.push
    port = ports.find()
    port.break_in(True)
    try:
        firmware.serve()
    finally:
        port.break_in(False)


def _lines(firmware):
    _, port, model, unique_id, boot_id, cause, _, clock, _ = firmware.identity
    countdown, log, line, link = firmware.countdown, firmware.log, firmware.line, firmware.link
    decoder = link.decoder
    python = ".".join([str(part) for part in sys.implementation.version[:3]])
    yield "firmware", "wakeboard %s, MicroPython %s (%s)" % (__version__, python, port)
    yield "board", "%s, id %s" % (model, unique_id.hex())
    up = _span(countdown.s, countdown.ms)
    yield "boot", "%s, up %s, started by: %s" % (boot_id.hex(), up, _word(_CAUSES, cause))
    yield "countdown", _countdown(countdown)
    for seq in range(log.last_seq, max(log.oldest_seq(), log.last_seq - _LAST_WAKES + 1) - 1, -1):
        yield "wake", _wake(log.read(seq))
    host = "host counts as awake" if line.awake_left_ms else "host not heard lately"
    if not line.awake_ms:
        host = "pulsed whether the host is awake or not"
    pulses = "%d ms, pulses so far: %d; %s" % (line.pulse_ms, line.pulses, host)
    yield "wake line", pulses if line.level else _NO_LINE
    yield (
        "link in",
        "%d frames, %d CRC errors, %d overruns, %d malformed, %d no request"
        % (
            decoder.frames,
            decoder.crc_errors,
            decoder.overlong,
            decoder.malformed,
            firmware.bad_payloads,
        ),
    )
    yield "link out", "%d frames, %d not taken by the host" % (link.frames_out, link.frames_dropped)
    slowest = "slowest answer %d ms" % firmware.loop_max_ms
    yield "clock", "%s; %s" % (_word(_CLOCKS, clock), slowest)
    yield (
        "checkpoint",
        "every %d s while armed; %d written, %d failed"
        % (firmware.save_every_ms // 1000, firmware.saves, firmware.save_errors),
    )
    yield "heap", "%d bytes used, %d free" % (gc.mem_alloc(), gc.mem_free())
    for fault in firmware.faults:
        yield "config", fault


def _advice(firmware):
    """What to do, one sentence each; nothing when the board looks healthy."""
    link = firmware.link
    decoder = link.decoder
    if firmware.faults:
        yield "correct board.json: what is named above stands at its default"
    if not firmware.line.level:
        yield "set wake_pin in board.json: without a wake line nothing wakes the host"
    if firmware.line.unanswered:
        yield (
            "if the host should be up by now, check wire, pin and polarity: it did not answer"
            " the last %d of the pulses" % firmware.line.unanswered
        )
    if not decoder.frames and firmware.countdown.s > _QUIET_S:
        yield "check that the bridge runs, and its cable: it was not heard since this boot"
    broken = decoder.crc_errors + decoder.overlong + decoder.malformed
    if broken > 10 and broken * 100 > decoder.frames:
        yield "check cable, ground and baud rate: %d broken frames" % broken
    if link.frames_dropped > 10 + link.frames_out // 10:
        yield "check that the bridge runs: nobody takes what the board sends"
    if firmware.save_errors:
        yield "free some flash: checkpoints fail, a soft reset would lose the countdown"
    if firmware.fault:
        yield "report this fault of the firmware: %r" % firmware.fault
    if gc.mem_free() < _HEAP_LOW:
        yield "remove other programs: less than %d bytes of heap are free" % _HEAP_LOW


def _countdown(countdown):
    if not countdown.token:
        return "idle"
    lease = countdown.token >> 16
    owner = "token 0x%08x " % countdown.token
    owner += "of bridge %04x" % lease if lease else "set by hand"
    if not countdown.armed:
        return "expired, " + owner
    left = _span(countdown.left_ms // 1000, countdown.left_ms % 1000)
    return "armed, %s%s left, %s" % ("about " if countdown.flags else "", left, owner)


def _wake(event):
    seq, source, uptime_ms, token, _ = event
    when = _span(uptime_ms // 1000, uptime_ms % 1000)
    text = "#%d %s at %s" % (seq, _word(_SOURCES, source), when)
    return text + ", token 0x%08x" % token if token else text


def _line(name, text):
    """One entry in at most 80 columns, its further lines indented."""
    while text:
        part = text[:_WIDTH]
        if len(text) > _WIDTH and " " in part:
            part = part[: part.rindex(" ")]
        print(name + " " * (_COLUMN - len(name)) + part)
        name = ""
        text = text[len(part) :].lstrip()


def _span(s, ms):
    days = "%d d " % (s // 86400) if s >= 86400 else ""
    return days + "%d:%02d:%02d.%03d" % (s // 3600 % 24, s // 60 % 60, s % 60, ms)


def _word(words, code):
    return words[code] if code < len(words) else str(code)
