"""The routine domain's state: `<config_dir>/routines/state.json` (R30, R31, case A15).

One document, replaced as a whole, with the generation before it beside it. A file that is not
understood in every part is refused whole and left as it is, byte for byte: a record is never
dropped, and starting never turns an unreadable file into an empty one. All calls block on the
disk; the service runs them outside its loop, one at a time.
"""

import json
import os
import stat
from pathlib import Path
from typing import Any, Final

import msgspec

from wakebridge.routine import check as invariants
from wakebridge.routine.occurrence import interrupt_uncertain
from wakebridge.routine.state import VERSION, RoutineState
from wakebridge.schedule.instants import Now
from wakebridge.store import private_files
from wakebridge.store.errors import StateUnreadable, StoreError

DIRECTORY: Final = "routines"
CURRENT: Final = "state.json"
PREVIOUS: Final = "state.json.previous"

STATE_MAX_BYTES: Final = 256 * 1024 * 1024
"""Largest document, in bytes: far above what the limits of the routine domain add up to in
practice, far below what would exhaust a small host."""

_DECODER: Final = msgspec.json.Decoder(RoutineState)


class _Head(msgspec.Struct):
    version: int


class FileReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one generation holds. `problem` is why it cannot be loaded, None when it can."""

    path: str
    exists: bool
    size_bytes: int = 0
    mode: int | None = None
    problem: str | None = None
    state: RoutineState | None = None


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """Both generations, and what is amiss but does not keep the state from loading."""

    current: FileReport
    previous: FileReport
    warnings: tuple[str, ...] = ()


def read_state(data: bytes) -> RoutineState:
    """Return the state in the bytes of a document. Raises `StateUnreadable` with reason and place.

    Strict in every part: version, kinds, fields, values, keys given twice, and the invariants
    between records.
    """
    try:
        head = msgspec.json.decode(data, type=_Head)
        if head.version != VERSION:
            raise StateUnreadable(
                f"it is version {head.version}, and this program reads version {VERSION}"
                " - at `$.version`"
            )
        state = _DECODER.decode(data)
        json.loads(data, object_pairs_hook=_no_key_twice)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise StateUnreadable(_reason(data, error)) from None
    faults = invariants.faults(state)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise StateUnreadable(faults[0] + more)
    return state


def write_state(state: RoutineState) -> bytes:
    """Return the bytes of a document that `read_state` reads back.

    Raises `StoreError` for a state that would not load again, so that a fault of ours is found
    before it is on disk.
    """
    try:
        data = msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n"
        if len(data) > STATE_MAX_BYTES:
            raise StoreError(f"the state has more than {STATE_MAX_BYTES} bytes")
        again = _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise StoreError(f"the state cannot be written so that it loads again: {error}") from None
    faults = invariants.faults(state)
    if faults or again != state:
        detail = faults[0] if faults else "it does not read back as it was"
        raise StoreError(f"the state cannot be written so that it loads again: {detail}")
    return data


class RoutinesJson:
    """The store of routines. Loaded once, then written by the service alone."""

    def __init__(self, config_dir: Path) -> None:
        self._base = config_dir
        self._written: bytes | None = None
        self._may_write = False

    @property
    def path(self) -> Path:
        """Where the document is."""
        return self._base / DIRECTORY / CURRENT

    def load(self) -> RoutineState:
        """Return the stored state, or an empty one on a first start. Writes nothing.

        Raises `StateUnreadable`; after that, `save` refuses to write (R31).
        """
        self._may_write = False
        report, data = self._generation(CURRENT)
        if not report.exists:
            previous, _ = self._generation(PREVIOUS)
            if previous.exists:
                raise StateUnreadable(
                    f"{report.path} is missing, but {previous.path} is there: "
                    "restore it, or move it away to start empty"
                )
        elif report.state is None:
            raise StateUnreadable(f"{report.path}: {report.problem}")
        self._written = data
        self._may_write = True
        return RoutineState() if report.state is None else report.state

    def save(self, state: RoutineState) -> None:
        """Make the state durable. One that is on disk already is not written again.

        Raises `StoreError` with the old state intact.
        """
        if not self._may_write:
            raise StoreError(f"{self.path} was not loaded, so it is not written")
        data = write_state(state)
        if data == self._written:
            return
        try:
            with private_files.directory(self._base, DIRECTORY, create=True) as folder:
                private_files.replace(folder, CURRENT, data, previous=PREVIOUS)
        except OSError as error:
            self._written = None  # what is on disk is known to be sound, not which of the two
            raise StoreError(f"{self.path}: {_text(error)}") from error
        self._written = data

    def check(self) -> CheckReport:
        """Report on both generations and on the modes of files and directory. Writes nothing."""
        reports = (self._generation(CURRENT)[0], self._generation(PREVIOUS)[0])
        warnings = [
            f"{report.path} has mode {report.mode:04o} instead of {private_files.FILE_MODE:04o}"
            for report in reports
            if report.mode is not None and report.mode != private_files.FILE_MODE
        ]
        folder = self.path.parent
        if folder.is_dir():
            mode = stat.S_IMODE(folder.stat().st_mode)
            if mode != private_files.DIRECTORY_MODE:
                wanted = private_files.DIRECTORY_MODE
                warnings.append(f"{folder} has mode {mode:04o} instead of {wanted:04o}")
        return CheckReport(current=reports[0], previous=reports[1], warnings=tuple(warnings))

    def show(self, *, previous: bool = False) -> RoutineState:
        """Return one generation for people to look at.

        Raises `StateUnreadable`, also when there is no such file.
        """
        report, _ = self._generation(PREVIOUS if previous else CURRENT)
        if report.state is None:
            raise StateUnreadable(f"{report.path}: {report.problem or 'there is no such file'}")
        return report.state

    def restore(self, now: Now) -> Path | None:
        """Put the previous generation in place of a current one that cannot be loaded.

        The broken file is kept under the returned name (None when there was no file). What it may
        have started, judged by the time it was written, becomes interrupted. Raises
        `StateUnreadable` when there is nothing to restore from, and `StoreError` when the current
        state is readable or writing fails. The bridge must not be running.
        """
        current, _ = self._generation(CURRENT)
        previous, data = self._generation(PREVIOUS)
        if current.state is not None:
            raise StoreError(f"{current.path} can be loaded, so nothing is restored")
        if previous.state is None:
            problem = previous.problem or "there is no such file"
            raise StateUnreadable(
                f"{previous.path}: {problem}. Nothing is left to restore from: "
                f"mend {current.path} by hand, or move it away to start empty"
            )
        reason = "restored from the previous state: whether this occurrence ran is not known"
        lost_ns = now.wall_ns
        if current.exists:
            lost_ns = min(lost_ns, self.path.lstat().st_mtime_ns)
        restored = interrupt_uncertain(previous.state, lost_ns, reason, now).state
        if data is None or restored is not previous.state:
            data = write_state(restored)
        try:
            with private_files.directory(self._base, DIRECTORY, create=True) as folder:
                kept = _keep_broken(folder)
                private_files.replace(folder, CURRENT, data)
        except OSError as error:
            raise StoreError(f"{self.path}: {_text(error)}") from error
        return None if kept is None else self.path.with_name(kept)

    def _generation(self, name: str) -> tuple[FileReport, bytes | None]:
        path = self.path.with_name(name)
        report = FileReport(path=str(path), exists=True)
        try:
            with private_files.directory(self._base, DIRECTORY) as folder:
                data = private_files.read(folder, name, STATE_MAX_BYTES)
        except FileNotFoundError:
            data = None
        except OSError as error:
            return msgspec.structs.replace(report, problem=_text(error)), None
        if data is None:
            return msgspec.structs.replace(report, exists=False), None
        mode = stat.S_IMODE(path.stat().st_mode)
        report = msgspec.structs.replace(report, size_bytes=len(data), mode=mode)
        try:
            return msgspec.structs.replace(report, state=read_state(data)), data
        except StateUnreadable as error:
            return msgspec.structs.replace(report, problem=str(error)), data


def _keep_broken(folder: int) -> str | None:
    """Give the current file a second name that was not taken, before it is replaced."""
    taken = set(os.listdir(folder))
    if CURRENT not in taken:
        return None
    number = next(n for n in range(1, len(taken) + 2) if f"{CURRENT}.broken-{n}" not in taken)
    name = f"{CURRENT}.broken-{number}"
    # A rename and not a link: what is broken may be a symbolic link or a FIFO. Until the restored
    # file is in place there is only the previous generation, which `load` does not take for empty.
    os.rename(CURRENT, name, src_dir_fd=folder, dst_dir_fd=folder)
    return name


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen = dict(pairs)
    if len(seen) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise StateUnreadable(f"the key {twice!r} is given twice in one object")
    return seen


def _reason(data: bytes, error: Exception) -> str:
    """Say what is wrong and where; a syntax error gets the position that msgspec leaves out."""
    if not data.strip():
        return f"the file is empty ({len(data)} bytes)"
    if isinstance(error, msgspec.ValidationError):
        return str(error)
    try:
        json.loads(data)
    except UnicodeDecodeError as utf8:
        return f"it is not UTF-8 - at byte {utf8.start}"
    except json.JSONDecodeError as syntax:
        return f"it is not JSON: {syntax}"
    except (ValueError, RecursionError) as other:
        return f"it is not JSON: {other}"
    return f"it is not JSON: {error}"


def _text(error: OSError) -> str:
    what = error.strerror or str(error)
    return what if error.filename is None else f"{error.filename} {what}"
