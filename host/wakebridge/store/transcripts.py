"""The transcripts of sessions: `<config_dir>/routines/sessions/<session>.jsonl` (R20, R23).

One JSON object per line, appended and durable before `append` returns. Nothing is ever rewritten:
a line that a crash cut off stays, is ended by the next append, and is counted by the reader.
"""

import hashlib
import string
from pathlib import Path
from typing import Final

import msgspec

from wakebridge.routine.change import Append, Entry
from wakebridge.store import private_files
from wakebridge.store.errors import StoreError
from wakebridge.store.routines_json import DIRECTORY

SESSIONS: Final = "sessions"

TRANSCRIPT_MAX_BYTES: Final = 256 * 1024 * 1024
"""Largest transcript that is read as a whole, in bytes."""

NAME_MAX_CHARS: Final = 120
"""Longest stem of a file name: file systems hold 255 bytes, and the eye less."""

_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "-_")
_DECODER: Final = msgspec.json.Decoder(Entry)


class Transcript(msgspec.Struct, frozen=True):
    """What a transcript holds. `unread` counts lines that are cut off or not understood."""

    entries: list[Entry]
    unread: int


def file_name(session_id: str) -> str:
    """Return the file name of a session: its id, with everything but letters and digits encoded.

    Different ids have different names; a long id is cut and told apart by its SHA-256.
    """
    stem = "".join(
        char if char in _PLAIN else "".join(f"%{byte:02X}" for byte in char.encode())
        for char in session_id
    )
    if len(stem) > NAME_MAX_CHARS:
        digest = hashlib.sha256(session_id.encode()).hexdigest()[:32]
        stem = f"{stem[: NAME_MAX_CHARS - len(digest) - 1]}~{digest}"
    return f"{stem}.jsonl"


class Transcripts:
    """The transcripts of all sessions of one bridge. All calls block on the disk."""

    def __init__(self, config_dir: Path) -> None:
        self._base = config_dir

    def append(self, effect: Append) -> None:
        """Carry out an append, durably. Raises `StoreError` with the transcript as it was.

        With `once`, an entry whose run has a line of that type already is not written again.
        """
        entry = effect.entry
        if effect.once and self._has(entry):
            return
        try:
            line = msgspec.json.encode(entry) + b"\n"
            with private_files.directory(self._base, DIRECTORY, SESSIONS, create=True) as folder:
                private_files.append(folder, file_name(entry.session_id), line)
        except (OSError, UnicodeError) as error:
            raise StoreError(f"transcript of {entry.session_id!r}: {error}") from error

    def read(self, session_id: str) -> Transcript:
        """Return everything in a session's transcript, oldest first; empty when there is none.

        Raises `StoreError` when the file cannot be read.
        """
        try:
            with private_files.directory(self._base, DIRECTORY, SESSIONS) as folder:
                data = private_files.read(folder, file_name(session_id), TRANSCRIPT_MAX_BYTES)
        except FileNotFoundError:
            data = None
        except OSError as error:
            raise StoreError(f"transcript of {session_id!r}: {error}") from error
        entries, unread = [], 0
        for line in (data or b"").split(b"\n"):
            if not line:
                continue
            try:
                entries.append(_DECODER.decode(line))
            except (msgspec.DecodeError, RecursionError):
                unread += 1
        return Transcript(entries, unread)

    def _has(self, entry: Entry) -> bool:
        return any(
            known.run_id == entry.run_id and known.type is entry.type
            for known in self.read(entry.session_id).entries
        )
