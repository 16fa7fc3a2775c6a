"""Scheduled events in SQLite: WAL, synchronous=FULL, one transaction per commit (E50 to E52).

A commit touches the leaf page of each changed schedule and the watermark page. On a slow disk it
happens on a thread of its own, so that it delays the answer that waits for it and nothing else; on
a fast one the way to the thread and back would cost as much as the commit.
"""

import asyncio
import errno
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from wakebridge.schedule.book import Change
from wakebridge.schedule.errors import UnknownZone
from wakebridge.schedule.instants import MAX_NS, MIN_NS
from wakebridge.schedule.misfire import Schedule
from wakebridge.schedule.rules import Local
from wakebridge.schedule.stored import decode_stored, encode_stored
from wakebridge.schedule.zones import zone_rules_version
from wakebridge.store import private_files
from wakebridge.store.errors import StateUnreadable, StoreError

log = logging.getLogger(__name__)

SCHEMA_VERSION: Final = 1

# Sixteen bits of a countdown's token; 0 marks one that was set by hand.
LEASE_MAX: Final = 0xFFFF

# A commit that takes longer than this is worth a thread: as long as a frame on the serial line.
_SLOW_NS: Final = 2_000_000

# What the library raises for a file that is not what it should be: its own messages quote bytes of
# the file, and Python refuses those that are not UTF-8.
_FAULTS: Final = (sqlite3.Error, UnicodeError)

# So many fast commits on the thread, and the next ones are made without it.
_FAST_IN_A_ROW: Final = 16

# 4 MB of log before it is folded into the database: folding costs two fsyncs, so it is made rare.
_CHECKPOINT_PAGES: Final = 1000


class _Progress(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """The moving part of a schedule (see the schema). `provisional` is written when true only."""

    next_ns: int | None
    last_fired_ns: int | None
    consumed: Annotated[int, msgspec.Meta(ge=0)]
    missed: tuple[int, ...]
    provisional: bool = False


_PROGRESS = msgspec.json.Decoder(_Progress)

# SQLite keeps any type in any column: these are the types of what we wrote.
_SCHEDULE_ROWS: Final = frozenset(
    (str, str, bytes, context, str, legacy_event, bytes)
    for context in (bytes, type(None))
    for legacy_event in (str, type(None))
)
_BridgeRow = tuple[int, int, str, Annotated[int, msgspec.Meta(ge=1, le=LEASE_MAX)]]
_OBJECT = msgspec.json.Decoder(dict[str, object])

# The watermark columns are 64-bit integers; what lies beyond the year 2262, a fire or a clock that
# reads nonsense, counts as the last instant.
_WATERMARK_MAX_NS: Final = 2**63 - 1

_UPSERT: Final = (
    "INSERT OR REPLACE INTO schedules (skill_id, id, record, context, route, legacy_event,"
    " progress) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_DELETE: Final = "DELETE FROM schedules WHERE skill_id = ? AND id = ?"
_WATERMARK: Final = "UPDATE bridge SET written_ns = ?, fired_ns = max(fired_ns, ?), zone_rules = ?"


class Loaded(msgspec.Struct, frozen=True):
    """What the store held: the schedules, and the newest instant known to be past (E71).

    `lease` is this bridge's own number, 1 to 65535, made once: it marks countdowns as ours.
    `moved` is what new zone rules have changed in `schedules`: a commit says that the store follows
    the rules in use, so the first one holds all of it (E7c).
    """

    schedules: list[Schedule]
    newest_past_ns: int
    lease: int
    moved: tuple[Change, ...] = ()


class SchedulesSqlite:
    """The store of scheduled events. Opened once, written by the service alone.

    Raises `StateUnreadable` when the file is there but is not ours or not understood; it is then
    left as it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fast_in_a_row = 0
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="schedules")
        try:
            self._db = self._writer.submit(_open, path).result()
        except BaseException:
            self._writer.shutdown()
            raise

    def load(self, now_ns: int) -> Loaded:
        """Return everything stored. Raises `StateUnreadable` when a row is not understood.

        Occurrences of `local` schedules are computed again when the zone rules have changed since
        they were stored (E7c).
        """
        return self._writer.submit(_load, self._db, self.path, now_ns).result()

    async def commit(self, changes: Sequence[Change], now_ns: int) -> None:
        """Make the changes durable in one transaction, or raise `StoreError` and change nothing."""
        await self._write(lambda: _commit(self._db, changes, now_ns))

    async def reset_watermark(self, now_ns: int) -> None:
        """Forget a newest write that lay in the future, after a synchronization signal (E71)."""
        await self._write(lambda: _reset_watermark(self._db, now_ns))

    async def _write(self, write: Callable[[], None]) -> None:
        """Write where it costs least; the service has one write under way at a time."""
        if self._fast_in_a_row >= _FAST_IN_A_ROW:
            self._timed(write)
        else:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._timed, write)

    def _timed(self, write: Callable[[], None]) -> None:
        began_ns = time.perf_counter_ns()
        try:
            write()
        finally:
            slow = time.perf_counter_ns() - began_ns > _SLOW_NS
            self._fast_in_a_row = 0 if slow else self._fast_in_a_row + 1

    def close(self) -> None:
        """Close the database; what was committed stays."""
        self._writer.submit(self._db.close).result()
        self._writer.shutdown()


# What SQLite keeps beside a database.
_BESIDE: Final = ("-wal", "-shm", "-journal")


def _open(path: Path) -> sqlite3.Connection:
    # The file is made before SQLite sees it, so that its mode does not depend on the umask, and
    # the log files inherit the mode from it.
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, private_files.FILE_MODE)
        os.close(descriptor)
    except OSError as error:
        raise StateUnreadable(private_files.sentence(path, error)) from error
    for suffix in _BESIDE:  # SQLite would follow a link there
        beside = path.with_name(path.name + suffix)
        if beside.is_symlink():
            followed = OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            raise StateUnreadable(private_files.sentence(beside, followed))
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise StateUnreadable(f"{path} cannot be opened: {error}") from error
    try:
        # Before anything is set: what is not ours is left as it is.
        version = db.execute("PRAGMA user_version").fetchone()[0]
        (table_count,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if version == 0 and table_count:
            raise StateUnreadable(f"{path} is a database of another program")
        if version not in {0, SCHEMA_VERSION}:
            raise StateUnreadable(
                f"{path} has schema version {version}; this program reads {SCHEMA_VERSION}"
            )
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        if version == 0:
            _create(db)
    except _FAULTS as error:
        db.close()
        raise StateUnreadable(f"{path} is not a readable database: {error}") from error
    except StateUnreadable:
        db.close()
        raise
    return db


def _create(db: sqlite3.Connection) -> None:
    schema = resources.files("wakebridge.store").joinpath("schemas/schedules_v1.sql").read_text()
    lease = 1 + secrets.randbelow(LEASE_MAX)
    db.executescript(
        f"BEGIN;\n{schema}\nINSERT INTO bridge VALUES (1, 0, 0, '', {lease});\n"
        f"PRAGMA user_version = {SCHEMA_VERSION};\nCOMMIT;"
    )


def _load(db: sqlite3.Connection, path: Path, now_ns: int) -> Loaded:
    schedules: list[Schedule] = []
    append = schedules.append
    names: dict[str, str] = {}
    contexts: dict[bytes, bytes] = {}
    key: tuple[object, object] = ("", "")
    try:
        bridge = db.execute("SELECT written_ns, fired_ns, zone_rules, lease FROM bridge").fetchone()
        written_ns, fired_ns, zone_rules, lease = msgspec.convert(bridge, _BridgeRow)
        for row in db.execute(
            "SELECT skill_id, id, record, context, route, legacy_event, progress FROM schedules"
        ):
            key = row[:2]
            append(_schedule_of(row, names, contexts))
    except (sqlite3.Error, ValueError, msgspec.MsgspecError) as error:
        raise StateUnreadable(f"{path}: schedule {key}: {error}") from error
    newest_past_ns = max(written_ns, fired_ns)
    moved: tuple[Change, ...] = ()
    if zone_rules != zone_rules_version():
        # A clock that reads earlier than what has been is not to be believed (E71).
        after_ns = max(now_ns, newest_past_ns)
        before, schedules = schedules, [_with_new_zone_rules(each, after_ns) for each in schedules]
        moved = tuple(
            Change(new.key, new) for old, new in zip(before, schedules, strict=True) if new != old
        )
    return Loaded(schedules, newest_past_ns, lease, moved)


def _schedule_of(
    row: tuple[Any, ...], names: dict[str, str], contexts: dict[bytes, bytes]
) -> Schedule:
    """Return the schedule in a row. Raises `ValueError` when a part of it is not as written.

    `names` and `contexts` are those of the rows before: what several schedules have is kept once.
    """
    if tuple(map(type, row)) not in _SCHEDULE_ROWS:
        raise ValueError("a column holds something of another kind")
    skill_id, schedule_id, stored, context, route, legacy_event, progress = row
    moving = _PROGRESS.decode(progress)
    for instant_ns in (moving.next_ns, moving.last_fired_ns, *moving.missed):
        if instant_ns is not None and not MIN_NS <= instant_ns <= MAX_NS:
            raise ValueError(f"{instant_ns} ns is no instant")
    record = decode_stored(stored, names)
    # They are fired as they stand, and one that cannot be written would stop all the others.
    _OBJECT.decode(record.body)
    if context is not None:
        if context not in contexts:
            _OBJECT.decode(context)
        context = contexts.setdefault(context, context)
    route = names.setdefault(route, route)
    schedule = Schedule(record, context, route, legacy_event, *msgspec.structs.astuple(moving))
    if schedule.key != (skill_id, schedule_id):
        raise ValueError(f"the record names {schedule.key}")
    return schedule


def _with_new_zone_rules(schedule: Schedule, now_ns: int) -> Schedule:
    """Move a future occurrence of a `local` schedule to where today's rules put it (E7c).

    One whose zone the tz database had lost goes on once the zone is back; one whose zone is lost
    now keeps the occurrence it has.
    """
    record, next_ns = schedule.record, schedule.next_ns
    exhausted = record.count is not None and schedule.consumed >= record.count
    overdue = next_ns is not None and next_ns <= now_ns
    if not isinstance(record.rule, Local) or exhausted or overdue:
        return schedule
    after_ns = max(now_ns, schedule.last_fired_ns or now_ns)
    try:
        moved_ns = record.rule.next_after(after_ns)
    except UnknownZone as error:
        log.error("schedule %s stands still after its next occurrence: %s", schedule.key, error)
        return schedule
    if moved_ns is not None and record.until_ns is not None and moved_ns > record.until_ns:
        moved_ns = None
    return msgspec.structs.replace(schedule, next_ns=moved_ns)


def _commit(db: sqlite3.Connection, changes: Sequence[Change], now_ns: int) -> None:
    fired_ns = 0
    try:
        db.execute("BEGIN IMMEDIATE")
        for change in changes:
            if change.schedule is None:
                db.execute(_DELETE, change.key)
            else:
                db.execute(_UPSERT, _row(change.schedule))
                last_fired_ns = change.schedule.last_fired_ns or 0
                # One that lies ahead was recorded by a clock that has been set back since.
                fired_ns = max(fired_ns, last_fired_ns if last_fired_ns <= now_ns else 0)
        past_ns = (min(each, _WATERMARK_MAX_NS) for each in (now_ns, fired_ns))
        db.execute(_WATERMARK, (*past_ns, zone_rules_version()))
        db.execute("COMMIT")
    except _FAULTS as error:
        _roll_back(db)
        raise StoreError(f"schedules could not be stored: {error}") from error


def _reset_watermark(db: sqlite3.Connection, now_ns: int) -> None:
    try:
        past_ns = min(now_ns, _WATERMARK_MAX_NS)
        db.execute("UPDATE bridge SET written_ns = ?, fired_ns = min(fired_ns, ?)", (past_ns,) * 2)
    except _FAULTS as error:
        _roll_back(db)
        raise StoreError(f"the watermark could not be stored: {error}") from error


def _roll_back(db: sqlite3.Connection) -> None:
    if db.in_transaction:
        db.execute("ROLLBACK")


def _row(schedule: Schedule) -> tuple[object, ...]:
    return (
        *schedule.key,
        encode_stored(schedule.record),
        schedule.context_json,
        schedule.route,
        schedule.legacy_event,
        msgspec.json.encode(
            (schedule.next_ns, schedule.last_fired_ns, schedule.consumed, schedule.missed)
            + ((True,) if schedule.provisional else ())
        ),
    )
