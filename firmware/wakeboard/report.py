"""What a technician with `mpremote` gets to see. Loaded only when asked for.

`mpremote` stops the firmware before it runs a command. So each command here ends by telling
`mpremote` that it has finished, with the bytes a raw REPL ends a command with, and then goes on
serving the host; the next Ctrl-C stops the firmware as ever.
"""

import gc
import sys
import time

from wakeboard import __version__, config, loop
from wakeboard.countdown import Countdown
from wakewire.codes import STATE_ARMED, STATE_EXPIRED

_SOURCES = ("?", "boot", "button", "voice", "rtc_timer", "host")
_CAUSES = ("unknown", "power on", "reset", "watchdog", "deep sleep", "soft reset", "brownout")
_CLOCKS = ("unknown", "crystal", "RC oscillator (may be off by percents)", "RTC")
_LAST_WAKES = 5
_SELFTEST_MS = 2000
_SELFTEST_ERROR_MS = 20  # more than any port's loop needs to notice a deadline
_HEAP_LOW = 4096


def show():
    """Print the report, then run on."""
    firmware = _firmware()
    for name, text in _lines(firmware):
        _line(name, text)
    advice = list(_advice(firmware))
    for text in advice:
        _line("to do", text)
    if not advice:
        print("looks healthy")
    _run_on(firmware)


def selftest():
    """Pulse the wake line, measure a countdown of two seconds, then run on."""
    firmware = _firmware()
    board, line = firmware.board, firmware.wake_line
    _line("wake line", "one pulse of %d ms: watch the host" % firmware.config.pulse_ms)
    line.begin()
    trial = Countdown(board.clock)
    firmware.tick()
    started_us = time.ticks_us()
    trial.arm(1, _SELFTEST_MS)
    while not trial.expire():
        time.sleep_ms(1)
        firmware.tick()
    error_ms = time.ticks_diff(time.ticks_us(), started_us) / 1000 - _SELFTEST_MS
    _line("countdown", "%d ms took %+.1f ms more" % (_SELFTEST_MS, error_ms))
    _line("", "the host's own countdown: " + _countdown(board.countdown))
    passed = -1 <= error_ms <= _SELFTEST_ERROR_MS
    print("selftest passed" if passed else "selftest FAILED: this board's clock is not usable")
    _run_on(firmware)


def _firmware():
    """The firmware of this boot; a new one when the command reset the board on its way."""
    if loop.live is None:
        print("The firmware was not running: this command reset the board, or main.py is missing.")
        print("It starts now. To look without a reset: mpremote resume exec ...")
        loop.start()
    loop.live.tick()
    return loop.live


def _run_on(firmware):
    print("the firmware runs on")
    sys.stdout.write("\x04\x04>")  # ends the command for mpremote
    firmware.port.break_in(True)
    firmware.serve()
    firmware.port.break_in(False)


def _lines(firmware):
    board, settings, link = firmware.board, firmware.config, firmware.link
    decoder = link.decoder
    version = ".".join([str(part) for part in sys.implementation.version[:3]])
    yield "firmware", "wakeboard %s, MicroPython %s (%s)" % (__version__, version, board.port)
    yield "board", "%s, id %s" % (board.model, board.unique_id.hex())
    yield (
        "boot",
        "%s, up %s, cause: %s"
        % (board.boot_id.hex(), _span(board.clock.uptime_ms()), _word(_CAUSES, board.reset_cause)),
    )
    yield "countdown", _countdown(board.countdown)
    for text in _wakes(board.log):
        yield "wake", text
    yield (
        "wake line",
        "pin %s, active %s, %d ms, pulse %s; %d pulses; host %s"
        % (
            settings.wake_pin,
            settings.wake_active,
            settings.pulse_ms,
            settings.pulse,
            firmware.wake_line.pulses,
            "awake" if firmware.wake_line.host_awake() else "not heard lately",
        ),
    )
    yield (
        "link",
        "in %d frames, %d CRC errors, %d overruns, %d malformed, %d no request"
        % (
            decoder.frames,
            decoder.crc_errors,
            decoder.overlong,
            decoder.malformed,
            firmware.dispatcher.bad_payloads,
        ),
    )
    yield "", "out %d frames, %d not taken by the host" % (link.frames_out, link.frames_dropped)
    yield (
        "clock",
        "%s; longest pass of the loop %d ms"
        % (_word(_CLOCKS, board.clock_quality), firmware.loop_max_ms),
    )
    yield (
        "checkpoint",
        "%s; %d written, %d failed"
        % (type(firmware.store).__name__, firmware.checkpoints, firmware.checkpoint_errors),
    )
    gc.collect()
    yield "heap", "%d bytes used, %d free" % (gc.mem_alloc(), gc.mem_free())
    for fault in board.config_faults:
        yield "config", fault


def _advice(firmware):
    """What to do, one sentence each; empty when the board looks healthy."""
    link = firmware.link
    decoder = link.decoder
    if firmware.board.config_faults:
        yield "correct %s: what is named above is at its default" % config.FILE
    broken = decoder.crc_errors + decoder.overlong + decoder.malformed
    if broken > 10 and broken * 100 > decoder.frames:
        yield "check cable, ground and baud rate: %d broken frames" % broken
    if link.frames_dropped > link.frames_out // 10 + 10:
        yield "check that the bridge runs: the host does not take what the board sends"
    if firmware.checkpoint_errors:
        yield "free some flash: checkpoints fail, a soft reset would lose the countdown"
    if firmware.last_fault:
        yield "report this fault: %r" % firmware.last_fault
    if gc.mem_free() < _HEAP_LOW:
        yield "remove other programs: less than %d bytes of heap are free" % _HEAP_LOW


def _countdown(countdown):
    token = "token 0x%08x" % countdown.token
    lease = countdown.token >> 16
    owner = "of bridge %04x" % lease if lease else "set by hand"
    roughly = "about " if countdown.approximate else ""
    if countdown.state == STATE_ARMED:
        left = _span(countdown.remaining_ms())
        total = _span(countdown.duration_ms)
        return "armed, %s%s left of %s, %s %s" % (roughly, left, total, token, owner)
    if countdown.state == STATE_EXPIRED:
        return "expired, %s %s" % (token, owner)
    return "idle"


def _wakes(log):
    for seq in range(log.last_seq, max(log.oldest_seq(), log.last_seq - _LAST_WAKES + 1) - 1, -1):
        _, source, uptime_ms, token, _ = log.read(seq)
        text = "#%d %s at %s" % (seq, _word(_SOURCES, source), _span(uptime_ms))
        yield text + (", token 0x%08x" % token if token else "")


def _line(name, text):
    """One entry in at most 80 columns, its further lines indented."""
    head = "%-11s " % name
    while text:
        part = text[:68]
        if len(text) > 68 and " " in part:
            part = part[: part.rindex(" ")]
        print(head + part)
        head = " " * 12
        text = text[len(part) :].lstrip()


def _span(ms):
    s = ms // 1000
    days = "%d d " % (s // 86400) if s >= 86400 else ""
    return days + "%d:%02d:%02d.%03d" % (s // 3600 % 24, s // 60 % 60, s % 60, ms % 1000)


def _word(words, code):
    return words[code] if code < len(words) else str(code)
