"""The routine state on disk (R30, R31, R41, case A15)."""

import json
import os
import random
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routine_world import World
from wakebridge.routine.state import Phase, RoutineState, RunKind, Status
from wakebridge.store.errors import StateUnreadable, StoreError
from wakebridge.store.routines_json import (
    CURRENT,
    PREVIOUS,
    RoutinesJson,
    read_state,
    write_state,
)

WORKER = Path(__file__).parents[1] / "fixtures" / "store_worker.py"
TESTS = Path(__file__).parents[1]
A15 = {
    row["row"]: row
    for case in json.loads((TESTS / "data" / "routine-cases.json").read_text())
    if case["id"] == "A15"
    for row in case["input"]
}


def full_world() -> World:
    """Return a state in which everything that can be stored is there."""
    world = World()
    world.create("r1", delay_s=10, interval_s=60)
    world.end(world.start("r1"))
    world.create("r2", delay_s=20)
    world.create("r3", run_at="2027-01-15T08:00:30Z", interval_s=86_400)
    world.submit(RunKind.INTERACTIVE, "i1", interrupts=True)
    world.submit(RunKind.BACKGROUND, "b1")
    world.at(40).wake()
    world.dispatch()
    return world


def two_schedules() -> RoutineState:
    world = World()
    world.create("r1", delay_s=10)
    world.create("r2", delay_s=20, interval_s=60)
    return world.state


def put(directory: Path, name: str, data: bytes) -> Path:
    folder = directory / "routines"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / name
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def snapshot(directory: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Return inode, mode, modification time and content of everything below a directory."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path)] = (status.st_ino, status.st_mode, status.st_mtime_ns, content)
    return found


def unreadable(store: RoutinesJson) -> str:
    with pytest.raises(StateUnreadable) as caught:
        store.load()
    return str(caught.value)


def test_r30_what_is_saved_is_loaded(tmp_path: Path) -> None:
    state = full_world().state
    store = RoutinesJson(tmp_path)
    assert store.load() == RoutineState()
    store.save(state)
    assert store.path == tmp_path / "routines" / "state.json"
    assert RoutinesJson(tmp_path).load() == state
    assert [path.name for path in store.path.parent.iterdir()] == ["state.json"]


def test_r31_a_first_start_writes_nothing(tmp_path: Path) -> None:
    RoutinesJson(tmp_path).load()
    assert list(tmp_path.iterdir()) == []


def test_r31_loading_unchanged_state_and_saving_it_writes_nothing(tmp_path: Path) -> None:
    first = RoutinesJson(tmp_path)
    first.load()
    first.save(full_world().state)
    before = snapshot(tmp_path)
    second = RoutinesJson(tmp_path)
    second.save(second.load())
    assert snapshot(tmp_path) == before


def test_r30_one_previous_generation_is_kept(tmp_path: Path) -> None:
    store, world = RoutinesJson(tmp_path), World()
    store.load()
    states = []
    for number in range(4):
        world.create(f"r{number}", delay_s=1)
        store.save(world.state)
        states.append(world.state)
    assert store.show() == states[-1]
    assert store.show(previous=True) == states[-2]
    names = sorted(path.name for path in store.path.parent.iterdir())
    assert names == [CURRENT, PREVIOUS]


@pytest.fixture(params=[0o000, 0o077, 0o777])
def hostile_umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_r30_modes_do_not_depend_on_the_umask(tmp_path: Path, hostile_umask: int) -> None:
    store = RoutinesJson(tmp_path / "config")
    store.load()
    store.save(two_schedules())
    store.save(full_world().state)
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    for name in (CURRENT, PREVIOUS):
        assert stat.S_IMODE(store.path.with_name(name).stat().st_mode) == 0o600
    assert hostile_umask == os.umask(hostile_umask)


def test_r30_looser_modes_are_reported_and_tightened_by_the_next_save(tmp_path: Path) -> None:
    path = put(tmp_path, CURRENT, write_state(two_schedules()))
    path.chmod(0o644)
    path.parent.chmod(0o755)
    store = RoutinesJson(tmp_path)
    assert len(store.check().warnings) == 2
    store.load()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644, "loading changes nothing"
    store.save(full_world().state)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def altered(change: Callable[[dict[str, object]], None]) -> bytes:
    document = json.loads(write_state(full_world().state))
    change(document)
    return json.dumps(document).encode()


def set_in(*path: str | int, value: object) -> bytes:
    def change(document: dict[str, object]) -> None:
        place: object = document
        for step in path[:-1]:
            place = place[step]  # type: ignore[index] # any JSON
        place[path[-1]] = value  # type: ignore[index] # any JSON

    return altered(change)


GOOD = write_state(full_world().state)
BROKEN = {
    "empty": (b"", "empty"),
    "blank": (b" \n", "empty"),
    "zeros": (b"\0" * 4096, "not JSON"),
    "cut": (GOOD[: len(GOOD) // 2], "not JSON"),
    "not UTF-8": (GOOD.replace(b"session-1", b"session-\xff", 1), "not UTF-8"),
    "trailing": (GOOD + b"{}", "not JSON"),
    "a list": (b"[]", "Expected `object`"),
    "deep": (b"[" * 100_000, ""),
    "no version": (b'{"routines": []}', "version"),
    "older version": (set_in("version", value=0), "$.version"),
    "newer version": (set_in("version", value=2), "version 2"),
    "unknown field": (set_in("mood", value="good"), "`mood`"),
    "unknown field within": (set_in("routines", 1, "mood", value=1), "$.routines[1]"),
    "unknown kind": (set_in("routines", 1, "rule", "kind", value="lunar"), "$.routines[1].rule"),
    "unknown status": (set_in("routines", 0, "status", value="tired"), "$.routines[0].status"),
    "a float": (set_in("routines", 0, "created_ns", value=1.5), "$.routines[0].created_ns"),
    "a negative instant": (set_in("routines", 0, "created_ns", value=-1), "$.routines[0]"),
    "beyond 64 bits": (set_in("routines", 0, "created_ns", value=2**70), "$.routines[0]"),
    "missing part": (altered(lambda d: d["routines"][0].pop("task")), "`task`"),  # type: ignore[index]
    "id twice": (set_in("routines", 1, "id", value="r1"), "twice"),
    "unknown lineage": (set_in("routines", 0, "lineage", value="nobody"), "not in the ledger"),
    "status without run": (set_in("routines", 0, "status", value="queued"), "$.routines[0]"),
    "run without routine": (set_in("runs", 0, "routine_id", value="r9"), "$.runs[0]"),
    "off the grid": (set_in("routines", 0, "next_due_ns", value=1), "occurrence of its rule"),
    "key twice": (GOOD.replace(b'"cursor"', b'"version": 1, "cursor"', 1), "'version' is given"),
    "bad boot id": (set_in("cursor", "boot_id", value="XY"), "$.cursor.boot_id"),
}


@pytest.mark.parametrize(("data", "said"), BROKEN.values(), ids=BROKEN.keys())
def test_a15_r31_what_is_not_understood_is_refused_whole_and_left_alone(
    tmp_path: Path, data: bytes, said: str
) -> None:
    """Case A15 r2, r3: refused to create, nothing written, the file byte for byte unchanged."""
    path = put(tmp_path, CURRENT, data)
    before = snapshot(tmp_path)
    store = RoutinesJson(tmp_path)
    reason = unreadable(store)
    assert str(path) in reason
    assert said in reason
    with pytest.raises(StoreError):
        store.save(two_schedules())
    report = store.check()
    assert report.current.problem is not None
    assert report.current.problem in reason
    with pytest.raises(StateUnreadable):
        store.show()
    assert snapshot(tmp_path) == before


def test_a15_r1_restoring_brings_back_two_schedules_and_keeps_the_broken_file(
    tmp_path: Path,
) -> None:
    """Case A15 r1."""
    assert A15["r1"]["files"] == {"current": "0 bytes", "previous": "valid, 2 schedules"}
    path = put(tmp_path, CURRENT, b"")
    put(tmp_path, PREVIOUS, write_state(two_schedules()))
    store = RoutinesJson(tmp_path)
    unreadable(store)
    assert path.read_bytes() == b""
    kept = store.restore(World().now)
    assert kept == path.with_name("state.json.broken-1")
    assert kept.read_bytes() == b""
    assert len(RoutinesJson(tmp_path).load().routines) == 2
    assert RoutinesJson(tmp_path).load() == two_schedules()
    path.write_bytes(b"{")
    assert store.restore(World().now) == path.with_name("state.json.broken-2")


def test_a15_r2_a_cut_file_without_a_previous_one_cannot_be_restored(tmp_path: Path) -> None:
    """Case A15 r2."""
    put(tmp_path, CURRENT, GOOD[: len(GOOD) // 2])
    before = snapshot(tmp_path)
    with pytest.raises(StateUnreadable, match="there is no such file"):
        RoutinesJson(tmp_path).restore(World().now)
    assert snapshot(tmp_path) == before


def test_a15_r3_three_records_the_second_of_an_unknown_kind(tmp_path: Path) -> None:
    """Case A15 r3: a record that is not understood is never dropped."""
    data = set_in("routines", 1, "rule", "kind", value="lunar")
    assert len(json.loads(data)["routines"]) == 3
    path = put(tmp_path, CURRENT, data)
    assert "'lunar'" in unreadable(RoutinesJson(tmp_path))
    assert path.read_bytes() == data


def test_a15_a_missing_file_beside_a_previous_one_is_no_first_start(tmp_path: Path) -> None:
    put(tmp_path, PREVIOUS, GOOD)
    store = RoutinesJson(tmp_path)
    assert "is missing" in unreadable(store)
    assert store.restore(World().now) is None
    store.load()


def test_restoring_does_not_touch_a_readable_state(tmp_path: Path) -> None:
    put(tmp_path, CURRENT, GOOD)
    put(tmp_path, PREVIOUS, write_state(two_schedules()))
    before = snapshot(tmp_path)
    with pytest.raises(StoreError, match="can be loaded"):
        RoutinesJson(tmp_path).restore(World().now)
    assert snapshot(tmp_path) == before


def test_r47_what_the_lost_state_may_have_started_is_not_repeated(tmp_path: Path) -> None:
    world = World()
    world.create("queued", delay_s=10)
    world.create("due when it was lost", delay_s=20)
    world.create("due since", delay_s=30)
    world.create("due later", delay_s=1000)
    world.at(10).wake()
    lost = put(tmp_path, CURRENT, b"{")
    world.at(25)
    os.utime(lost, ns=(world.at_ns, world.at_ns))
    put(tmp_path, PREVIOUS, write_state(world.state))
    store = RoutinesJson(tmp_path)
    world.at(500)
    store.restore(world.now)
    restored = store.load()
    assert {r.id: r.status for r in restored.routines} == {
        "queued": Status.INTERRUPTED,
        "due when it was lost": Status.INTERRUPTED,
        "due since": Status.SCHEDULED,
        "due later": Status.SCHEDULED,
    }
    assert not [run for run in restored.runs if run.phase is Phase.QUEUED]


def test_a_symbolic_link_is_refused_where_the_state_should_be(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_bytes(GOOD)
    path = put(tmp_path, CURRENT, b"")
    path.unlink()
    path.symlink_to(elsewhere)
    assert "symbolic link" in unreadable(RoutinesJson(tmp_path))
    assert elsewhere.read_bytes() == GOOD


def test_a_symbolic_link_that_appears_later_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_bytes(b"precious")
    store = RoutinesJson(tmp_path)
    store.load()
    store.save(two_schedules())
    store.path.unlink()
    store.path.symlink_to(elsewhere)
    with pytest.raises(StoreError, match="symbolic link"):
        store.save(full_world().state)
    (store.path.parent / f"{CURRENT}.tmp").symlink_to(elsewhere)
    store.path.unlink()
    store.save(full_world().state)
    assert elsewhere.read_bytes() == b"precious"


def test_a_symbolic_link_is_refused_where_the_directory_should_be(tmp_path: Path) -> None:
    real = tmp_path / "real"
    put(real.parent, CURRENT, GOOD).parent.rename(real)
    (tmp_path / "routines").symlink_to(real)
    store = RoutinesJson(tmp_path)
    assert "symbolic link" in unreadable(store)
    with pytest.raises(StoreError):
        store.save(two_schedules())


def test_the_configured_directory_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "config").symlink_to(tmp_path / "real")
    store = RoutinesJson(tmp_path / "config")
    store.load()
    store.save(two_schedules())
    assert (tmp_path / "real" / "routines" / CURRENT).is_file()


def test_neither_a_fifo_nor_a_directory_is_read(tmp_path: Path) -> None:
    path = put(tmp_path, CURRENT, b"")
    path.unlink()
    os.mkfifo(path)
    assert "not a regular file" in unreadable(RoutinesJson(tmp_path))
    path.unlink()
    path.mkdir()
    unreadable(RoutinesJson(tmp_path))


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "routines").write_bytes(b"")
    assert "is not a directory" in unreadable(RoutinesJson(tmp_path))


def test_saving_before_loading_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="was not loaded"):
        RoutinesJson(tmp_path).save(two_schedules())
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_would_not_load_again_is_never_written(tmp_path: Path) -> None:
    store = RoutinesJson(tmp_path)
    store.load()
    store.save(two_schedules())
    before = snapshot(tmp_path)
    broken = msgspec.structs.replace(two_schedules(), lineages=())
    surrogate = msgspec.structs.replace(
        two_schedules(),
        routines=tuple(msgspec.structs.replace(r, task="\ud800") for r in two_schedules().routines),
    )
    for state in (broken, surrogate):
        with pytest.raises(StoreError, match="loads again"):
            store.save(state)
    assert snapshot(tmp_path) == before


def test_leftovers_of_a_killed_save_are_no_obstacle(tmp_path: Path) -> None:
    put(tmp_path, CURRENT, GOOD)
    put(tmp_path, f"{CURRENT}.tmp", b"half")
    put(tmp_path, f"{PREVIOUS}.tmp", b"half")
    store = RoutinesJson(tmp_path)
    store.load()
    store.save(two_schedules())
    assert sorted(path.name for path in store.path.parent.iterdir()) == [CURRENT, PREVIOUS]
    assert store.show(previous=True) == full_world().state


def test_r30_a_save_interrupted_between_its_two_renames_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    """Both generations are one file then, and renaming one over the other does nothing."""
    path = put(tmp_path, CURRENT, GOOD)
    os.link(path, path.with_name(PREVIOUS))
    store = RoutinesJson(tmp_path)
    store.load()
    store.save(two_schedules())
    assert sorted(entry.name for entry in path.parent.iterdir()) == [CURRENT, PREVIOUS]


def test_r30_a_failing_fsync_of_the_directory_leaves_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No machine at hand has a disk that fails on demand, so the call itself is made to fail."""
    store = RoutinesJson(tmp_path)
    real_fsync = os.fsync

    def failing_fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(5, "Input/output error")
        real_fsync(descriptor)

    store.load()
    store.path.parent.mkdir(mode=0o700)
    monkeypatch.setattr(os, "fsync", failing_fsync)
    with pytest.raises(StoreError, match="Input/output error"):
        store.save(two_schedules())
    assert list(store.path.parent.iterdir()) == []
    monkeypatch.setattr(os, "fsync", real_fsync)
    store.save(two_schedules())
    monkeypatch.setattr(os, "fsync", failing_fsync)
    with pytest.raises(StoreError, match="Input/output error"):
        store.save(full_world().state)
    assert RoutinesJson(tmp_path).load() == two_schedules()
    monkeypatch.setattr(os, "fsync", real_fsync)
    store.save(full_world().state)
    assert RoutinesJson(tmp_path).load() == full_world().state


def test_r30_a_file_system_without_hard_links_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    store = RoutinesJson(tmp_path)
    store.load()
    store.save(two_schedules())
    store.save(full_world().state)
    assert store.show(previous=True) == two_schedules()
    assert store.show() == full_world().state


def run_worker(*arguments: str, prefix: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        (*prefix, sys.executable, str(WORKER), *arguments),
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(WORKER.parent)},
    )


def said_by_the_starved(output: str) -> list[str]:
    return [line for line in output.splitlines() if not line.startswith("full:")]


def check_starved(output: str, *reasons: str) -> None:
    saved, failed, intact, names, later, count = said_by_the_starved(output)
    assert saved == later == "saved"
    assert failed.startswith("StoreError")
    assert any(reason in failed for reason in reasons)
    assert intact == "intact"
    assert names == "['state.json']"
    assert int(count) >= 2


def test_r30_a_write_that_the_kernel_cuts_short_leaves_the_old_state(tmp_path: Path) -> None:
    """A real write error, from the limit on the size of a file."""
    result = run_worker("limit", str(tmp_path), "4096")
    assert result.returncode == 0, result.stderr
    check_starved(result.stdout, "File too large")


def test_r30_a_full_disk_leaves_the_old_state(tmp_path: Path) -> None:
    """A tmpfs of 64 KiB in a mount namespace of its own.

    Not every machine lets its users mount: there it is the limit on the size of a file once more.
    """
    mount = f'mount -t tmpfs -o size=64k tmpfs "{tmp_path}" && exec "$@"'
    prefix = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh")
    result = run_worker("disk", str(tmp_path), prefix=prefix)
    if result.returncode != 0 and "StoreError" not in result.stdout:
        result = run_worker("limit", str(tmp_path), "4096")
    assert result.returncode == 0, result.stderr
    check_starved(result.stdout, "No space left on device", "File too large")


def test_r30_killed_while_saving_at_random_moments_the_state_is_the_old_or_the_new(
    tmp_path: Path,
) -> None:
    chance = random.Random(20)
    acknowledged = 0
    for _ in range(12):
        process = subprocess.Popen(
            (sys.executable, str(WORKER), "count", str(tmp_path)),
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(WORKER.parent)},
        )
        assert process.stdout is not None
        for _ in range(chance.randrange(1, 12)):
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().split()
        process.wait(10)
        process.stdout.close()
        acknowledged = max([acknowledged, *map(int, lines)])
        stored = len(RoutinesJson(tmp_path).load().routines)
        assert stored in (acknowledged, acknowledged + 1)


@settings(max_examples=200, deadline=None)
@given(cut=st.integers(0, len(GOOD) - 2))
def test_r31_a_document_cut_anywhere_is_refused(cut: int) -> None:
    with pytest.raises(StateUnreadable):
        read_state(GOOD[:cut])


@settings(max_examples=200, deadline=None)
@given(at=st.integers(0, len(GOOD) - 1), byte=st.integers(0, 255))
def test_r31_a_document_with_one_wrong_byte_is_refused_or_sound(at: int, byte: int) -> None:
    data = bytearray(GOOD)
    data[at] = byte
    try:
        state = read_state(bytes(data))
    except StateUnreadable:
        return
    assert read_state(write_state(state)) == state


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=300))
def test_r31_no_bytes_whatever_raise_anything_else(data: bytes) -> None:
    with pytest.raises(StateUnreadable):
        read_state(data)


def test_r30_no_credentials_have_a_place_in_the_document() -> None:
    text = write_state(full_world().state).decode().lower()
    assert not [word for word in ("password", "secret", "api_key", "credential") if word in text]
