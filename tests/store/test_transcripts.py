"""The transcripts of sessions (R20, R23)."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebridge.routine.change import Append, Entry, EntryType
from wakebridge.routine.state import RunKind
from wakebridge.store.errors import StoreError
from wakebridge.store.transcripts import Transcripts, file_name


def entry(text: str = "hello", session_id: str = "s1", type_: EntryType = EntryType.INPUT) -> Entry:
    return Entry(
        type=type_,
        at="2027-01-15T08:00:00+00:00",
        session_id=session_id,
        run_id="r1.1",
        kind=RunKind.SCHEDULED,
        text=text,
        routine_id="r1",
        due="2027-01-15T08:00:00+00:00",
    )


def path_of(directory: Path, session_id: str = "s1") -> Path:
    return directory / "routines" / "sessions" / file_name(session_id)


def test_r23_inputs_partial_and_final_results_are_one_json_line_each(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path)
    entries = [
        entry("do it\nnow", type_=EntryType.INPUT),
        entry("half", type_=EntryType.PROGRESS),
        entry("whole", type_=EntryType.RESULT),
    ]
    for each in entries:
        transcripts.append(Append(each))
    lines = path_of(tmp_path).read_text().splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["input", "progress", "result"]
    assert json.loads(lines[0]) == {
        "type": "input",
        "at": "2027-01-15T08:00:00+00:00",
        "session_id": "s1",
        "run_id": "r1.1",
        "kind": "scheduled",
        "text": "do it\nnow",
        "routine_id": "r1",
        "due": "2027-01-15T08:00:00+00:00",
    }
    assert transcripts.read("s1").entries == entries
    assert transcripts.read("nobody").entries == []


def test_r30_transcripts_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        Transcripts(tmp_path / "config").append(Append(entry()))
    finally:
        os.umask(before)
    path = path_of(tmp_path / "config")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


def test_a_healing_append_is_made_once(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path)
    result = entry("whole", type_=EntryType.RESULT)
    transcripts.append(Append(entry()))
    for _ in range(3):
        transcripts.append(Append(result, once=True))
    assert transcripts.read("s1").entries == [entry(), result]


def test_a_line_that_a_crash_cut_off_spoils_nobody_but_itself(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path)
    transcripts.append(Append(entry("first")))
    with path_of(tmp_path).open("ab") as file:
        file.write(b'{"type": "resu')
    transcripts.append(Append(entry("second")))
    read = transcripts.read("s1")
    assert [e.text for e in read.entries] == ["first", "second"]
    assert read.unread == 1
    assert b'{"type": "resu\n' in path_of(tmp_path).read_bytes()


def test_a_line_that_does_not_fit_is_taken_back(tmp_path: Path) -> None:
    """A real write error, from the limit on the size of a file."""
    script = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from test_transcripts import Append, Transcripts, entry\n"
        "transcripts = Transcripts(Path(sys.argv[1]))\n"
        "transcripts.append(Append(entry('first')))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "transcripts.append(Append(entry('x' * 2000)))\n"
    )
    result = subprocess.run(
        (sys.executable, "-c", script, str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parent,
    )
    assert result.returncode == 1
    assert "StoreError" in result.stderr
    read = Transcripts(tmp_path).read("s1")
    assert ([e.text for e in read.entries], read.unread) == (["first"], 0)


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    transcripts = Transcripts(tmp_path)
    transcripts.append(Append(entry()))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"precious")
    path_of(tmp_path).unlink()
    path_of(tmp_path).symlink_to(elsewhere)
    with pytest.raises(StoreError):
        transcripts.append(Append(entry()))
    with pytest.raises(StoreError):
        transcripts.read("s1")
    assert elsewhere.read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("session_id", "name"),
    [
        ("2026-10-23_a", "2026-10-23_a.jsonl"),
        ("..", "%2E%2E.jsonl"),
        ("../../etc/passwd", "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd.jsonl"),
        ("a b", "a%20b.jsonl"),
        ("é", "%C3%A9.jsonl"),
        ("a%20b", "a%2520b.jsonl"),
    ],
)
def test_file_names_are_safe_and_readable(session_id: str, name: str) -> None:
    assert file_name(session_id) == name


@given(st.sets(st.text(min_size=1, max_size=200).filter(str.isprintable), min_size=2, max_size=2))
def test_different_sessions_have_different_files_below_the_directory(ids: set[str]) -> None:
    names = {file_name(session_id) for session_id in ids}
    assert len(names) == 2
    for name in names:
        assert len(name.encode()) <= 255
        assert "/" not in name
        assert not name.startswith(".")


def test_long_ids_are_told_apart_by_more_than_their_start() -> None:
    assert file_name("x" * 199 + "a") != file_name("x" * 199 + "b")
