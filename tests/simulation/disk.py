"""The disk of one device: the real stores on real files, with the moods of a disk around them.

Schedules are in SQLite on a memory file system. A crash leaves the files as they were at that
moment; a power cut amid a commit leaves a mixture of old and new sectors. The routine state goes
through `store.private_files`, whose calls to the operating system pass through here, where any of
them can fail or be the last.
"""

import asyncio
import errno
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from wakebridge.routine.state import RoutineState
from wakebridge.schedule.book import Change
from wakebridge.store import private_files, schedules_sqlite
from wakebridge.store.errors import StoreError
from wakebridge.store.routines_json import RoutinesJson
from wakebridge.store.schedules_sqlite import Loaded, SchedulesSqlite

from .kernel import NS, Agenda, HostLoop, PowerCut

_SECTOR: Final = 512
_DB: Final = "schedules.db"
_WAL: Final = "schedules.db-wal"

CUTS: Final = ("before", "torn", "torn-checkpoint", "after")
"""Where in a commit the power can go."""


class Stored(NamedTuple):
    """What the database holds: of every schedule how far it has come, and what it goes by."""

    progress: dict[tuple[str, str], list[Any]]
    newest_past_ns: int
    zone_rules: str


class Disk:
    """Files that outlive hosts, and what is wrong with the disk at the moment."""

    def __init__(self, agenda: Agenda, folder: Path, seed: str) -> None:
        self._agenda = agenda
        self._random = random.Random(seed)
        self.seed = seed
        self.folder = folder
        self.generation = 0
        self.full_until_ns = 0
        self.failing_until_ns = 0
        self.fail_chance = 0.0
        self.slow_until_ns = 0
        self.slow_ns = 0
        self.cut_next: str | None = None
        """How the next commit of schedules ends the host."""
        self.cut_after_calls: int | None = None
        """How many more calls of the operating system the routine state gets."""
        self.faults: dict[str, int] = {
            "disk full": 0,
            "write error": 0,
            "slow write": 0,
            "power cut in a commit": 0,
            "power cut in a file": 0,
        }
        self.commits = 0
        self.last_write_wall_ns = 0
        (folder / "g0").mkdir(parents=True)
        (folder / "config").mkdir()

    @property
    def schedules_path(self) -> Path:
        return self.folder / f"g{self.generation}" / _DB

    @property
    def config_dir(self) -> Path:
        return self.folder / "config"

    @property
    def full(self) -> bool:
        return self._agenda.now_ns < self.full_until_ns

    @property
    def refuses_until_ns(self) -> int:
        """Until when a write may fail."""
        return max(self.full_until_ns, self.failing_until_ns)

    @property
    def trouble_until_ns(self) -> int:
        return max(self.refuses_until_ns, self.slow_until_ns)

    def fault(self) -> int:
        """Return the number of the error that the next write meets, 0 for none."""
        if self.full:
            self.faults["disk full"] += 1
            return errno.ENOSPC
        if self._agenda.now_ns < self.failing_until_ns and self._random.random() < self.fail_chance:
            self.faults["write error"] += 1
            return errno.EIO
        return 0

    def draw(self, below: int) -> int:
        return self._random.randrange(below)

    def delay_ns(self) -> int:
        if self._agenda.now_ns >= self.slow_until_ns:
            return 0
        self.faults["slow write"] += 1
        return self._random.randrange(self.slow_ns)

    def set_lease(self, lease: int) -> None:
        """Create the database and give it a lease that the seed draws."""
        SchedulesSqlite(self.schedules_path).close()
        db = sqlite3.connect(self.schedules_path)
        db.execute("UPDATE bridge SET lease = ?", (lease,))
        db.commit()
        db.close()

    def stored(self) -> Stored:
        """Return what the database holds.

        Read as the schema says, beside the process that has it open.
        """
        db = sqlite3.connect(self.schedules_path)
        try:
            rows = db.execute("SELECT skill_id, id, progress FROM schedules").fetchall()
            written_ns, fired_ns, zone_rules = db.execute(
                "SELECT written_ns, fired_ns, zone_rules FROM bridge"
            ).fetchone()
        finally:
            db.close()
        progress = {(owner, name): json.loads(text) for owner, name, text in rows}
        return Stored(progress, max(written_ns, fired_ns), zone_rules)

    def _images(self) -> tuple[bytes, bytes]:
        old = self.schedules_path.parent
        wal = old / _WAL
        return (old / _DB).read_bytes(), wal.read_bytes() if wal.exists() else b""

    def _keep(self, images: tuple[bytes, bytes]) -> None:
        old = self.schedules_path.parent
        self.generation += 1
        new = self.schedules_path.parent
        new.mkdir()
        (new / _DB).write_bytes(images[0])
        if images[1]:
            (new / _WAL).write_bytes(images[1])
        shutil.rmtree(old)

    def mixed(
        self, before: tuple[bytes, bytes], after: tuple[bytes, bytes], how: str
    ) -> tuple[bytes, bytes]:
        """Return what a power cut amid a commit leaves: any sectors of what was being written."""
        match how:
            case "before":
                return before
            case "after":
                return after
            case "torn-checkpoint":  # the log is whole, the database is being brought up to it
                return self._sectors(before[0], after[0]), after[1]
            case _:
                return before[0], self._sectors(before[1], after[1])

    def _sectors(self, old: bytes, new: bytes) -> bytes:
        mixed = bytearray()
        length = max(len(old), len(new))
        starts = range(0, length, _SECTOR)
        changed = [at for at in starts if old[at : at + _SECTOR] != new[at : at + _SECTOR]]
        # Half of the time they are written in order, up to somewhere.
        in_order = self._random.choice(changed) if changed and self._random.random() < 0.5 else 0
        for at in starts:
            pick_new = at < in_order or (not in_order and self._random.random() < 0.5)
            piece = (new if pick_new else old)[at : at + _SECTOR]
            other = (old if pick_new else new)[at : at + _SECTOR]
            mixed += piece or bytes(len(other))
        return bytes(mixed)


_SQLITE_SAYS: Final = {
    errno.ENOSPC: "database or disk is full",
    errno.EIO: "disk I/O error",
}
_WRITES: Final = ("BEGIN", "INSERT", "DELETE", "UPDATE")


class _FaultyDatabase:
    """The connection of the real store: any statement of a transaction can meet the disk's mood."""

    def __init__(self, real: sqlite3.Connection, disk: Disk) -> None:
        self._real = real
        self._disk = disk
        self._error = 0
        self._fails_at = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, statement: str, *args: Any) -> sqlite3.Cursor:
        verb = statement.split(None, 1)[0]
        if not self._real.in_transaction and verb in _WRITES:
            self._error = self._disk.fault()
            self._fails_at = self._disk.draw(4) if self._error else 0
        if self._error and (verb == "COMMIT" or verb in _WRITES):
            if not self._fails_at or verb == "COMMIT" or verb == "UPDATE":
                error, self._error = self._error, 0
                raise sqlite3.OperationalError(_SQLITE_SAYS[error])
            self._fails_at -= 1
        return self._real.execute(statement, *args)


class CommitWatcher(Protocol):
    """Who is told of commits."""

    def committing(self, changes: Sequence[Change], now_ns: int) -> None: ...
    def committed(self, changes: Sequence[Change], now_ns: int) -> None: ...
    def watermark_reset(self, now_ns: int) -> None: ...


class FaultySchedules:
    """The real store of schedules on a disk with moods: the `EventStore` of one host."""

    def __init__(
        self,
        disk: Disk,
        loop: HostLoop,
        agenda: Agenda,
        watcher: "CommitWatcher",
    ) -> None:
        self._disk = disk
        self._loop = loop
        self._agenda = agenda
        self._watcher = watcher
        self.real = SchedulesSqlite(disk.schedules_path)
        setattr(self.real, "_db", _FaultyDatabase(self.real._db, disk))  # noqa: B010 - no such type
        self._image: tuple[bytes, bytes] | None = None

    def load(self, now_ns: int) -> Loaded:
        return self.real.load(now_ns)

    async def commit(self, changes: Sequence[Change], now_ns: int) -> None:
        await self._write(lambda: self.real.commit(changes, now_ns), changes, now_ns)

    async def reset_watermark(self, now_ns: int) -> None:
        await self.real.reset_watermark(now_ns)
        self._watcher.watermark_reset(now_ns)

    async def _write(
        self, write: Callable[[], Awaitable[None]], changes: Sequence[Change], now_ns: int
    ) -> None:
        self._watcher.committing(changes, now_ns)
        # As on the writer's thread: once begun it goes on whether anybody waits for it or not.
        task = asyncio.ensure_future(self._on_thread(write, changes, now_ns))
        await asyncio.shield(task)

    async def _on_thread(
        self, write: Callable[[], Awaitable[None]], changes: Sequence[Change], now_ns: int
    ) -> None:
        disk = self._disk
        delay_ns = disk.delay_ns()
        if delay_ns:
            await asyncio.sleep(delay_ns / NS)
        cut, disk.cut_next = disk.cut_next, None
        if cut is None:
            await write()
            disk.commits += 1
            self._watcher.committed(changes, now_ns)
            return
        before = disk._images()
        await write()
        disk.faults["power cut in a commit"] += 1
        self._image = disk.mixed(before, disk._images(), cut)
        self._loop.dead = True
        await asyncio.Event().wait()

    def die(self) -> None:
        """The process is gone; what is on the disk stays."""
        image = self._image
        if image is None:
            image = self._disk._images()
        self.real.close()
        self._disk._keep(image)

    def close(self) -> None:
        self.real.close()


# A call that fails is undone by the next ones. A disk that fails those too leaves either state.
_UNDONE_IN: Final = 6


class _Unsynced:
    """What a power cut can take back: contents and names that nobody has waited for."""

    def __init__(self, folder: Path, seed: str) -> None:
        self._folder = folder
        self._random = random.Random(seed)
        self._contents: set[int] = set()
        self._names: dict[int, list[tuple[Path, bytes | None]]] = {}

    def written(self, file: int) -> None:
        self._contents.add(os.fstat(file).st_ino)

    def synced(self, file: int) -> None:
        status = os.fstat(file)
        self._contents.discard(status.st_ino)
        self._names.pop(status.st_ino, None)

    def renaming(self, folder: int, name: str) -> None:
        """A file is about to take a name; what has it now comes back if that is not waited for."""
        path = Path(f"/proc/self/fd/{folder}").readlink() / name
        content = path.read_bytes() if path.exists() else None
        self._names.setdefault(os.fstat(folder).st_ino, []).append((path, content))

    def power_lost(self) -> None:
        """Of contents some is missing; of names the newest ones are as they were."""
        for path in sorted(self._folder.rglob("*")):
            if path.is_file() and path.stat().st_ino in self._contents:
                os.truncate(path, self._random.randrange(path.stat().st_size + 1))
        for names in self._names.values():
            kept = self._random.randrange(len(names) + 1)
            for path, content in reversed(names[kept:]):
                path.unlink(missing_ok=True)
                if content is not None:
                    path.write_bytes(content)
                    path.chmod(private_files.FILE_MODE)
        self._contents.clear()
        self._names.clear()


class _FaultyOs:
    """The `os` module of `store.private_files`, on a disk with moods."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._unsynced = _Unsynced(disk.config_dir, disk.seed)
        self._spared = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in ("write", "fsync", "rename", "link", "unlink", "ftruncate"):
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(name, real, args, kwargs)

        return call

    def _call(self, name: str, real: Any, args: Any, kwargs: Any) -> Any:
        disk = self._disk
        self._spared = max(0, self._spared - 1)
        meets_it = name == "write" if disk.full else not self._spared
        error = disk.fault() if meets_it else 0
        if error:
            self._spared = _UNDONE_IN
            if name == "fsync":  # what is undone now is the last that was seen of it
                self._unsynced.synced(args[0])
            raise OSError(error, os.strerror(error))
        if disk.cut_after_calls is not None:
            disk.cut_after_calls -= 1
            if disk.cut_after_calls <= 0:
                disk.cut_after_calls = None
                disk.faults["power cut in a file"] += 1
                if name == "write":
                    part = memoryview(args[1])
                    self._unsynced.written(args[0])
                    os.write(args[0], part[: len(part) // 2])
                elif disk._random.random() < 0.5:
                    self._done(name, real, args, kwargs)
                self._unsynced.power_lost()
                raise PowerCut
        return self._done(name, real, args, kwargs)

    def _done(self, name: str, real: Any, args: Any, kwargs: Any) -> Any:
        """Make the call, and keep in mind what would not outlast a power cut."""
        if name == "fsync":
            return self._unsynced.synced(args[0])
        if name == "write":
            self._unsynced.written(args[0])
        elif name == "rename" and not self._spared:
            self._unsynced.renaming(kwargs["dst_dir_fd"], args[1])
        return real(*args, **kwargs)


class _NoThread:
    """The executor of the store of schedules: it has no thread, as nothing here has."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take what a pool of threads is told."""

    def submit(self, func: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self) -> None:
        """Nothing runs."""


class installed:  # noqa: N801 - used as `with installed(disk)`
    """While it is entered, the files of both stores are on this disk."""

    def __init__(self, disk: Disk) -> None:
        self._faulty = _FaultyOs(disk)

    def __enter__(self) -> None:
        setattr(private_files, "os", self._faulty)  # noqa: B010 - it is no export of theirs
        self._pool = getattr(schedules_sqlite, "ThreadPoolExecutor")  # noqa: B009 - as above
        setattr(schedules_sqlite, "ThreadPoolExecutor", _NoThread)  # noqa: B010 - as above

    def __exit__(self, *_: object) -> None:
        setattr(private_files, "os", os)  # noqa: B010 - as above
        setattr(schedules_sqlite, "ThreadPoolExecutor", self._pool)  # noqa: B010 - as above


class DocumentWatcher(Protocol):
    """Who is told of the routine state's document."""

    def loaded(self, state: RoutineState) -> None: ...
    def saving(self, state: RoutineState) -> None: ...
    def saved(self, state: RoutineState) -> None: ...
    def save_failed(self) -> None: ...


class WatchedRoutines:
    """The real store of the routine state, under the eyes of a judge."""

    def __init__(self, disk: Disk, watcher: DocumentWatcher) -> None:
        self._real = RoutinesJson(disk.config_dir)
        self._watcher = watcher

    def load(self) -> RoutineState:
        state = self._real.load()
        self._watcher.loaded(state)
        return state

    def save(self, state: RoutineState) -> None:
        self._watcher.saving(state)
        try:
            self._real.save(state)
        except StoreError:
            self._watcher.save_failed()
            raise
        self._watcher.saved(state)
