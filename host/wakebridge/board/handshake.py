"""Finding out who is at the other end of a port, and starting a firmware that was left stopped.

A board whose firmware was interrupted, by `mpremote` for instance, sits at MicroPython's prompt and
echoes what is typed. Only that echo, which our firmware never sends, permits the keystrokes that
restart it.
"""

import asyncio
from typing import Final, Protocol

import msgspec

from wakebridge.board.client import BoardClient, Reading
from wakebridge.board.connection import Refusal
from wakebridge.board.errors import (
    BoardFault,
    FirmwareStopped,
    RequestTimeout,
    VersionMismatch,
)
from wakewire import codes
from wakewire.limits import PROTOCOL_VERSION, PROTOCOL_VERSION_MIN
from wakewire.messages import Hello

RESTART_KEYS: Final = b"\r\x03\x02\x04"
"""End the typed line, drop what is left of it, leave a raw prompt, and reboot softly, which runs
main.py."""

PROBE_KEYS: Final = b"\r\x02"
"""Leave a raw prompt, which echoes nothing, for the friendly one, which does. Our firmware passes
over both bytes."""

# MicroPython prints prompts while it works off the keystrokes; what comes this soon after them is
# no news.
_SETTLE_S: Final = 0.5

# How often the firmware is restarted before it counts as broken.
_RESTARTS_MAX: Final = 2


class EchoWatch(Protocol):
    """Says when our own frames come back."""

    echo: asyncio.Event


class Greeting(msgspec.Struct, frozen=True):
    """The board's hello, and whether its firmware had to be started first."""

    reading: Reading[Hello]
    restarted: bool


async def greet(client: BoardClient, watch: EchoWatch, *, broken_into: bool = False) -> Greeting:
    """Get the board to say hello, restarting its firmware where the echo shows a prompt.

    `broken_into` says that Ctrl-C is known to have gone to the board: one that then stays silent is
    restarted without an echo. Raises `LinkError`: `RequestTimeout` for silence, `FirmwareStopped`
    when the prompt comes back, `VersionMismatch`.
    """
    restarts = 0
    probed = False
    while True:
        reading = await _hello_or_echo(client, watch)
        if reading is not None:
            return Greeting(_checked(reading), restarts > 0)
        echoed = watch.echo.is_set()
        if echoed and restarts == _RESTARTS_MAX:
            raise FirmwareStopped("the board is at its prompt and its firmware does not start")
        if echoed or (probed and broken_into and not restarts):
            restarts += 1
            await _type(client, watch, RESTART_KEYS)
        elif not probed:
            probed = True
            await _type(client, watch, PROBE_KEYS)
        else:
            raise RequestTimeout("the board does not answer")


async def _hello_or_echo(client: BoardClient, watch: EchoWatch) -> Reading[Hello] | Refusal | None:
    """Return the answer to hello, or None after silence or as soon as there is an echo."""
    hello = asyncio.ensure_future(client.hello())
    echo = asyncio.ensure_future(watch.echo.wait())
    try:
        await asyncio.wait((hello, echo), return_when=asyncio.FIRST_COMPLETED)
        return await hello if hello.done() else None
    except RequestTimeout:
        return None
    finally:
        hello.cancel()
        echo.cancel()


async def _type(client: BoardClient, watch: EchoWatch, keys: bytes) -> None:
    client.type_at_prompt(keys)
    await asyncio.sleep(_SETTLE_S)
    client.forget_prompt()
    watch.echo.clear()


def _checked(answer: Reading[Hello] | Refusal) -> Reading[Hello]:
    ours = f"{PROTOCOL_VERSION_MIN} to {PROTOCOL_VERSION}"
    if isinstance(answer, Refusal):
        if answer.status == codes.STATUS_UNSUPPORTED_VERSION:
            raise VersionMismatch(f"the board's firmware speaks no protocol version {ours}")
        raise BoardFault(f"the board refused hello: {answer.reason or answer.status}")
    if not PROTOCOL_VERSION_MIN <= answer.value.version <= PROTOCOL_VERSION:
        raise VersionMismatch(
            f"the board's firmware speaks protocol version {answer.value.version}, not {ours}"
        )
    return answer
