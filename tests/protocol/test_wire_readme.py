"""protocol/README.md says what the code does: its tables, its limits, its example bytes."""

import re
from typing import Final

import pytest

from wakewire import codes, host_limits, limits
from wakewire.readings import Diag, Event, EventBatch, Hello, TimerState
from wire_vectors import MESSAGES, PROTOCOL

README: Final = (PROTOCOL / "README.md").read_text()

# Where the name of a code in the README stands in the row that begins with its number.
TABLES: Final = {
    "OP_": "| op | name |",
    "STATUS_": "| status | name |",
    "STATE_": "| state | name |",
    "SOURCE_": "| source | name |",
    "RESET_": "| reset_cause | |",
    "CLOCK_": "| reset_cause | |",
}


def rows(head: str) -> list[list[str]]:
    """The cells of the table with that head."""
    start = README.index("\n" + head)
    lines = README[start + 1 :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("prefix", TABLES)
def test_codes(prefix: str) -> None:
    column = 2 if prefix == "CLOCK_" else 0
    written = {
        row[column + 1].upper(): int(row[column]) for row in rows(TABLES[prefix]) if row[column]
    }
    names = [name for name in vars(codes) if name.startswith(prefix)]
    assert written == {name.removeprefix(prefix): getattr(codes, name) for name in names}


def test_counters_of_diag() -> None:
    names = [row[1] for row in rows("| place | counter |")]
    assert tuple(names) == Diag.__slots__


@pytest.mark.parametrize(
    "kind", [Hello, TimerState, EventBatch, Event], ids=lambda kind: kind.__name__
)
def test_fields_of_readings(kind: type[Hello | TimerState | EventBatch | Event]) -> None:
    """Each field of a reading stands in some list of fields or as the name of a part."""
    known = README.replace("boot id", "boot_id")
    for name in kind.__slots__:
        assert re.search(rf"\b{name}\b", known), name


def test_limits() -> None:
    written = {row[0]: row[1] for row in rows("| limit | value |")}
    assert written == {
        "payload": f"{limits.PAYLOAD_MAX} bytes",
        "request payload": f"{host_limits.REQUEST_MAX} bytes",
        "nested arrays": str(limits.DEPTH_MAX),
        "text": f"{host_limits.TEXT_MAX} bytes",
        "countdown": f"{limits.COUNTDOWN_MIN_MS}..{limits.COUNTDOWN_MAX_MS} ms",
        "id": f"0..{limits.ID_MAX}",
        "token, seq": "32 bits",
        "uptime and counters": "2^53-1",
        "console text kept by a host": f"{host_limits.CONSOLE_MAX} bytes",
    }
    assert limits.TOKEN_MAX == limits.SEQ_MAX == 2**32 - 1
    assert host_limits.UPTIME_MAX_MS == 2**53 - 1


def test_example_bytes_are_golden() -> None:
    payloads = re.findall(r"^payload  ([0-9a-f ]+)$", README, re.MULTILINE)
    frames = re.findall(r"^frame    ((?:[0-9a-f ]|\n  )+)$", README, re.MULTILINE)
    golden = {entry["payload"]: entry["frame"] for entry in MESSAGES}
    assert len(payloads) == len(frames) == 2
    for payload, frame in zip(payloads, frames, strict=True):
        assert golden["".join(payload.split())] == "".join(frame.split())


def test_longest_request_frame() -> None:
    every_byte_escaped = 2 * (host_limits.REQUEST_MAX + 4) + 2
    assert f"at most {every_byte_escaped} on the wire" in " ".join(README.split())


def test_versions() -> None:
    assert f"({limits.PROTOCOL_VERSION_MIN}..{limits.PROTOCOL_VERSION})" in README
    assert (PROTOCOL / f"vectors/v{limits.PROTOCOL_VERSION}.json").exists()
