"""The log: one line per event, whatever those who are logged have said."""

import logging

from wakebridge.timeline import TextFormatter


def line(message: str, **fields: object) -> str:
    record = logging.LogRecord("wakebridge.timeline", logging.INFO, "", 0, message, (), None)
    record.fields = fields
    return TextFormatter().format(record)


def test_a_line_names_its_fields_and_quotes_text_with_spaces() -> None:
    assert line("fired", id="a", late_ms=1.5) == "info timeline: fired id=a late_ms=1.5"
    assert line("countdown", error="", leg=None) == "info timeline: countdown error='' leg=None"
    assert line("missed", id="a late_ms=0") == "info timeline: missed id='a late_ms=0'"


def test_nothing_that_was_said_outside_makes_a_line_or_a_colour_of_its_own() -> None:
    forged = "x\ninfo timeline: fired id=y\x1b[2J\u2028z\x9b"
    shown = line("accepted", id=forged)
    assert shown.isprintable()
    assert "\n" not in shown
    assert line("accepted", id="Käse") == "info timeline: accepted id=Käse"
