"""The desk's pure parts: what a bad cable does, what the REPL's output says, when input may go."""

from itertools import pairwise

import pytest

from wakebridge.simboard import limits
from wakebridge.simboard.input_gate import InputGate
from wakebridge.simboard.line_faults import LineFaults
from wakebridge.simboard.repl_text import Repl, ReplText

RAW_START = (
    b"\x1eDESK UP\x1eboot says hi\n\x1eDESK RAW\x1eMicroPython x on y; z\r\n"
    b'Type "help()" for more information.\r\n>>> \r\nraw REPL; CTRL-B to exit\r\n>'
)


def test_a_clean_line_changes_nothing() -> None:
    assert LineFaults().apply(b"abc") == b"abc"


def test_a_muted_line_carries_nothing() -> None:
    line = LineFaults()
    line.muted = True
    assert line.apply(b"abc") == b""


def test_cut_and_garble_hit_the_next_bytes_only_and_span_chunks() -> None:
    line = LineFaults()
    line.cut(2)
    line.garble(3)
    assert line.apply(b"a") == b""
    assert line.apply(b"bcd") == bytes([ord("c") ^ 1, ord("d") ^ 2])
    assert line.apply(b"ef") == bytes([ord("e") ^ 1]) + b"f"


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
def test_a_raw_start_shows_the_host_what_a_board_shows(step: int) -> None:
    text = ReplText(start_raw=True)
    shown, requests = b"", 0
    edges = [*range(0, len(RAW_START), step), len(RAW_START)]
    for start, end in pairwise(edges):
        shown += text.feed(RAW_START[start:end])
        requests += text.wants_raw
        text.wants_raw = False
    assert shown == b"boot says hi\nraw REPL; CTRL-B to exit\r\n>"
    assert requests == 1
    assert text.takes_input
    assert text.repl is Repl.RAW


@pytest.mark.parametrize(
    ("output", "repl"),
    [
        ([b"MicroPython\r\n>>> "], Repl.FRIENDLY),
        ([b"\r\nraw REPL; CTRL-", b"B to exit\r\n>"], Repl.RAW),
        ([b"\r\nraw REPL; CTRL-B to exit\r\n>", b"OK>>> of a program\n>>> \n"], Repl.RAW),
        ([b"raw REPL; CTRL-B to exit\r\n>", b"\r\nMicroPython\r\n>", b">> "], Repl.FRIENDLY),
    ],
)
def test_the_repl_is_told_from_its_banners(output: list[bytes], repl: Repl) -> None:
    text = ReplText(start_raw=False)
    text.feed(b"\x1eDESK UP\x1e")
    for part in output:
        assert text.feed(part) == part
    assert text.repl is repl


def test_nothing_may_be_typed_before_the_interpreter_is_up() -> None:
    text = ReplText(start_raw=False)
    assert text.feed(b"\x1eDESK") == b""
    assert not text.takes_input
    assert text.feed(b" UP\x1ehello") == b"hello"
    assert text.takes_input


def test_frames_pass_the_gate_at_once() -> None:
    gate = InputGate()
    gate.offer(b"~frame~")
    assert gate.take(0, in_program=True, raw=False) == b"~frame~"
    assert gate.next_s(0) is None


def test_input_behind_ctrl_c_waits_until_the_program_has_stopped() -> None:
    gate = InputGate()
    gate.offer(b"x\x03\x01")
    assert gate.take(0, in_program=True, raw=False) == b"x"
    assert gate.take(0, in_program=True, raw=False) == b"\x03"
    gate.output_seen(b"Traceback", 0.1)
    assert gate.take(0.1, in_program=False, raw=False) == b"", "there may be more"
    assert gate.take(0.2, in_program=True, raw=False) == b""
    assert gate.take(0.2, in_program=False, raw=False) == b"\x01"


def test_ctrl_c_waits_until_the_program_waits_too() -> None:
    gate = InputGate()
    gate.offer(b"\x03")
    assert gate.take(0, in_program=True, raw=False, busy=True) == b""
    assert gate.next_s(0) == limits.GATE_QUIET_S
    assert gate.take(0.1, in_program=True, raw=False, busy=False) == b"\x03"
    gate.offer(b"\x03")
    late_s = 0.1 + limits.GATE_INTERRUPT_S
    assert gate.take(late_s, in_program=True, raw=False, busy=True) == b""
    late_s += limits.GATE_BUSY_S
    assert gate.take(late_s, in_program=True, raw=False, busy=True) == b"\x03"


def test_a_prompt_opens_the_gate_at_once() -> None:
    gate = InputGate()
    gate.offer(b"\x02\x04")
    assert gate.take(0, in_program=False, raw=True) == b"\x02"
    assert gate.take(0, in_program=False, raw=True) == b""
    gate.output_seen(b"MicroPython\r\n>>> ", 0.001)
    assert gate.take(0.001, in_program=False, raw=False) == b"\x04"


def test_a_program_that_ignores_ctrl_c_does_not_stop_the_line() -> None:
    gate = InputGate()
    gate.offer(b"\x03rest")
    gate.take(0, in_program=True, raw=False)
    assert gate.next_s(0) == limits.GATE_INTERRUPT_S
    assert gate.take(limits.GATE_INTERRUPT_S, in_program=True, raw=False) == b"rest"


def test_the_raw_repl_may_be_silent_after_ctrl_c() -> None:
    gate = InputGate()
    gate.offer(b"\x03\x04")
    assert gate.take(0, in_program=False, raw=True) == b"\x03"
    assert gate.take(0.001, in_program=False, raw=True) == b""
    assert gate.take(limits.GATE_SILENT_S, in_program=False, raw=True) == b"\x04"


def test_a_ctrl_c_that_met_a_reset_is_given_to_the_next_boot() -> None:
    gate = InputGate()
    gate.offer(b"\x03\x01")
    assert gate.take(0, in_program=True, raw=False) == b"\x03"
    gate.restarted()
    assert gate.take(0, in_program=True, raw=False) == b"\x03"
    gate.clear()
    assert len(gate) == 0
