"""The desk board's control commands: one line of words in, one line out."""

import math
from collections.abc import Awaitable, Callable

from wakebridge.simboard.board import DeskBoard

HELP = (
    "power-loss [SECONDS] | unplug | replug | soft-reset | hard-reset | stop-at-prompt | ppm N | "
    "mute on|off | garble BYTES | cut BYTES | status | watch | help"
)


class CommandError(Exception):
    """The command cannot be carried out as written; the text says what was expected."""


async def run(board: DeskBoard, line: str) -> str:
    """Carry out one command and return its answer, without the line end.

    `mute`, `garble` and `cut` act on what the board sends to the host. Raises CommandError.
    """
    name, *arguments = line.split() or [""]
    action = _ACTIONS.get(name)
    if action is None:
        raise CommandError(f"unknown command {name!r}; known: {HELP}")
    try:
        answer = await action(board, *arguments)
    except TypeError:
        raise CommandError(f"{name} takes other arguments; known: {HELP}") from None
    return f"ok {answer}" if answer else "ok"


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise CommandError(f"{text!r} is not a number")
    return number


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise CommandError(f"{text!r} is not a number of bytes")
    return int(text)


async def _power_loss(board: DeskBoard, off_s: str = "0") -> None:
    await board.power_loss(max(0.0, _number(off_s)))


async def _ppm(board: DeskBoard, ppm: str) -> None:
    board.set_clock_ppm(_number(ppm))


async def _mute(board: DeskBoard, switch: str) -> None:
    if switch not in ("on", "off"):
        raise CommandError("mute takes on or off")
    board.line("to_host").muted = switch == "on"


async def _garble(board: DeskBoard, count: str) -> None:
    board.line("to_host").garble(_count(count))


async def _cut(board: DeskBoard, count: str) -> None:
    board.line("to_host").cut(_count(count))


async def _status(board: DeskBoard) -> str:
    return board.status()


async def _help(board: DeskBoard) -> str:
    return HELP


_ACTIONS: dict[str, Callable[..., Awaitable[str | None]]] = {
    "power-loss": _power_loss,
    "unplug": DeskBoard.unplug,
    "replug": DeskBoard.replug,
    "soft-reset": DeskBoard.soft_reset,
    "hard-reset": DeskBoard.hard_reset,
    "stop-at-prompt": DeskBoard.stop_at_prompt,
    "ppm": _ppm,
    "mute": _mute,
    "garble": _garble,
    "cut": _cut,
    "status": _status,
    "help": _help,
}
