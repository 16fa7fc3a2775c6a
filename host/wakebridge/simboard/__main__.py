"""`python -m wakebridge.simboard`: a desk board in the foreground, until Ctrl-C or SIGTERM."""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import click

from wakebridge.simboard import DeskBoard, DeskError, limits
from wakebridge.simboard.control import ControlSocket


@click.command(name="simboard")
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Where the board lives; its flash is flash/ in there, made from the firmware when empty.",
)
@click.option("--ppm", type=float, default=0.0, help="How fast its clock runs; negative: slow.")
@click.option(
    "--heap", default=limits.HEAP_DEFAULT, show_default=True, help="MicroPython's heapsize."
)
@click.option(
    "--firmware",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Fill an empty flash from this directory.",
)
@click.option(
    "--control",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Take commands on this unix socket, as wakebridge.simboard.tell sends them.",
)
def main(
    directory: Path, ppm: float, heap: str, firmware: Path | None, control: Path | None
) -> None:
    """Run a board on the desk; the first line printed is the path of its serial port."""
    board = DeskBoard(directory, ppm=ppm, heap=heap, firmware=firmware)
    try:
        asyncio.run(_serve(board, control))
    except (DeskError, OSError) as error:
        click.echo(f"The desk board cannot start: {error}", err=True)
        sys.exit(1)


async def _serve(board: DeskBoard, control: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(board)
        if control is not None:
            await stack.enter_async_context(ControlSocket(board, control))
        click.echo(board.port)
        sys.stdout.flush()
        await stop.wait()


if __name__ == "__main__":
    main()
