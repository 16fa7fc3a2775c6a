"""What a disk can hold after a crash, a bad sector or a stranger's hand."""

import asyncio
import contextlib
import json
import shutil
import tempfile
from pathlib import Path

import msgspec

from wakebridge.engine import EventEngine, Request, described
from wakebridge.routine.change import Append, Entry, EntryType
from wakebridge.routine.state import RunKind
from wakebridge.schedule.book import Change
from wakebridge.schedule.instants import Now
from wakebridge.service.event_messages import fire_message, missed_message
from wakebridge.store.errors import StateUnreadable, StoreError
from wakebridge.store.routines_json import read_state, write_state
from wakebridge.store.schedules_sqlite import Loaded, SchedulesSqlite
from wakebridge.store.transcripts import Transcripts, file_name

NOW_NS = 1_800_000_000_000_000_000

_MEMORY = Path("/dev/shm")  # fsync costs nothing there


def state_json(data: bytes) -> None:
    """A document is a state that is written and read unchanged, or is refused with a reason."""
    try:
        state = read_state(data)
    except StateUnreadable as error:
        refused = str(error)
    else:
        assert read_state(write_state(state)) == state
        return
    assert refused


def schedules_db(data: bytes) -> None:
    """A database loads, or is refused and left as it is, byte for byte.

    One that loads takes a commit, or refuses it as a store does.
    """
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory:
        path = Path(directory) / "schedules.db"
        path.write_bytes(data)
        try:
            store = SchedulesSqlite(path)
        except StateUnreadable:
            assert path.read_bytes() == data
            return
        try:
            loaded = store.load(NOW_NS)
            assert 1 <= loaded.lease <= 0xFFFF
            assert isinstance(loaded.newest_past_ns, int)
            _live_with(loaded)
            changes = [Change(schedule.key, schedule) for schedule in loaded.schedules]
            with contextlib.suppress(StoreError):
                asyncio.run(store.commit(changes, NOW_NS))
        except StateUnreadable:
            store.close()
            assert path.read_bytes() == data
        else:
            store.close()


def _live_with(loaded: Loaded) -> None:
    """Do what a bridge does with what it has loaded: plan, list, fire, report."""
    engine = EventEngine(("admin",))
    engine.load(loaded.schedules, loaded.newest_past_ns, Now(NOW_NS, 1))
    engine.deadlines()
    everybody = Request("list", {}, {"skill_id": "admin"}, None, "mqtt")
    decision = engine.decide(everybody, Now(NOW_NS, 1))
    msgspec.json.encode([described(each) for each in decision.listed or ()])
    for after_s in (0, 86_400, 400_000_000):
        now = Now(NOW_NS + after_s * 10**9, 1 + after_s * 10**9)
        engine.observe(now, sync_signal=True)
        for schedule in engine.due(now):
            evaluation = engine.evaluate(schedule, now)
            if evaluation is None:
                continue
            if evaluation.fire is not None:
                json.loads(fire_message(evaluation.fire, now.wall_ns).encode())
            if evaluation.missed is not None:
                json.loads(missed_message(evaluation.missed).encode())
            engine.apply(Change(schedule.key, evaluation.successor))


def transcript(data: bytes) -> None:
    """A transcript of any bytes is read, and takes one more line without losing any.

    Up to the first NUL the input is the session's id, whose file never leaves its directory.
    """
    name, _, content = data.partition(b"\0")
    session_id = name.decode("utf-8", "replace")[:200] or "s"
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as directory:
        base = Path(directory)
        folder = base / "routines" / "sessions"
        folder.mkdir(parents=True, mode=0o700)
        path = folder / file_name(session_id)
        path.write_bytes(content)
        transcripts = Transcripts(base)
        before = transcripts.read(session_id)
        transcripts.append(
            Append(
                Entry(
                    at="2027-01-15T08:00:00+00:00",
                    session_id=session_id,
                    run_id="r",
                    kind=RunKind.SCHEDULED,
                    type=EntryType.INPUT,
                    text="x",
                )
            )
        )
        after = transcripts.read(session_id)
        assert after.entries[:-1] == before.entries
        assert after.entries[-1].text == "x"
        assert path.read_bytes().startswith(content)
        assert list(folder.iterdir()) == [path]
        assert len(list(base.rglob("*"))) == 3
        shutil.rmtree(base / "routines")
