"""The conformance page of the documentation, made of the ledger."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance.ledger import Proof, files_of, named_over
from conformance.requirements import BOTH, REQUIREMENTS, Requirement

PAGE: Final = Path(__file__).parent.parent.parent / "host/docs/reference/conformance.md"

_HEAD: Final = """\
# Conformance

Which tests prove which requirement. `make conformance` runs them all, prints each requirement with
its tests and their results, and writes this page; a test fails when a requirement has no test, or
when this page says what is not so.

- **E1 to E90** restate OVOS-SCHEDULER-1, the specification of scheduled events.
- **R1 to R49** restate the rules of schedules and routines, the agent's `schedule` tool.

## Scheduled events

The columns *MQTT* and *OVOS bus* count tests of the black box in `tests/conformance`: the real
daemon on a real mosquitto and a real `ovos-messagebus` at the same time, asked and heard from
outside. A dash is explained below the table.

| | requirement | MQTT | OVOS bus | tests |
|---|---|---:|---:|---|
"""

_BETWEEN: Final = """
## Schedules and routines

| | requirement | tests |
|---|---|---|
"""

_ROW: Final = re.compile(r"^\| ([ER]\d+[a-d]?) \|.*\| ([^|]*) \|$", re.MULTILINE)


def files_in(page: str) -> dict[str, list[str]]:
    """Return the files that a page names for each requirement."""
    return {
        number: [f"tests/{name}" for name in re.findall(r"`([^`]+)`", cell)]
        for number, cell in _ROW.findall(page)
    }


def render(proofs: Sequence[Proof], files: Mapping[str, Sequence[str]]) -> str:
    """Return the page; `files` are named for each requirement."""
    events = [each for each in REQUIREMENTS if each.number.startswith("E")]
    routines = [each for each in REQUIREMENTS if each.number.startswith("R")]
    rows = [_event_row(each, proofs, files[each.number]) for each in events]
    text = _HEAD + "\n".join(rows) + "\n\n"
    text += "\n".join(_footnotes(events)) + "\n"
    text += _BETWEEN
    for each in routines:
        text += f"| {each.number} | {each.title} | {_cell(files[each.number])} |\n"
    return text


def render_all(proofs: Sequence[Proof]) -> str:
    """Return the page with every file that carries a requirement."""
    return render(proofs, {each.number: files_of(proofs, each.number) for each in REQUIREMENTS})


def _event_row(each: Requirement, proofs: Sequence[Proof], files: Sequence[str]) -> str:
    counts = []
    for transport in BOTH:
        seen = transport in each.over
        counts.append(str(len(named_over(proofs, each.number, transport))) if seen else "—")
    return f"| {each.number} | {each.title} | {' | '.join(counts)} | {_cell(files)} |"


def _cell(files: Sequence[str]) -> str:
    return " ".join(f"`{file.removeprefix('tests/')}`" for file in files)


def _footnotes(events: Sequence[Requirement]) -> list[str]:
    """Return why some are not seen over both transports, one line for each reason."""
    reasons: dict[str, list[str]] = {}
    for each in events:
        if each.over != BOTH:
            reasons.setdefault(each.why, []).append(each.number)
    return [f"- {', '.join(numbers)}: {why}." for why, numbers in reasons.items()]
