"""What an agent says about a run: one JSON object with a `type`, the same over every runner.

`progress` is a finished piece of the answer, not a stream of characters: each is made durable.
Fields that are not known are ignored, so that agents may say more; types that are not known are
errors, because what they mean could matter.
"""

from typing import Final

import msgspec

LINE_MAX_BYTES: Final = 1024 * 1024
"""Longest single message, in bytes: what a transcript line may reasonably hold."""


class Progress(msgspec.Struct, frozen=True, tag_field="type", tag="progress"):
    """One piece of the partial result. A `seq` that does not grow marks a repeated delivery."""

    text: str
    seq: int | None = None


class Result(msgspec.Struct, frozen=True, tag_field="type", tag="result"):
    """The task is done; this is the answer. The last message of a run."""

    text: str


class Error(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """The task could not be done. The last message of a run."""

    reason: str


class Cancelled(msgspec.Struct, frozen=True, tag_field="type", tag="cancelled"):
    """The agent has stopped as it was asked to. The last message of a run."""


class Accepted(msgspec.Struct, frozen=True, tag_field="type", tag="accepted"):
    """The agent has taken the run and works on it, or will when its session is idle."""


class Alive(msgspec.Struct, frozen=True, tag_field="type", tag="alive"):
    """The agent still works on the run. `query` repeats the number of the query it answers."""

    query: int | None = None


class Unknown(msgspec.Struct, frozen=True, tag_field="type", tag="unknown"):
    """The agent knows nothing of the run it was asked about in the query of that number."""

    query: int | None = None


Report = Progress | Result | Error | Cancelled | Accepted | Alive | Unknown

_DECODER: Final = msgspec.json.Decoder(Report)


def read_report(data: bytes | str) -> Report | str:
    """Return the message in one line or body, or the reason why it is not understood."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        return str(error)
