"""`make demo` and `make run`."""

import asyncio
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

import click

from wakebridge.demo.stage import Line, Stage, StageError, set_up
from wakebridge.demo.story import Timeline, play
from wakebridge.simboard import DeskError

# Relative, because the path of a unix socket has at most 107 bytes.
_CONTROL: Final = Path(".run/board.sock")


@click.command(name="demo")
@click.option("--serve", is_flag=True, help="Run until Ctrl-C instead of telling the story.")
@click.option("--port", help="A real board's serial port; without it, a board on the desk.")
def main(serve: bool, port: str | None) -> None:
    """Show the product's main job from end to end; exit 0 when all of it happened."""
    directory = Path(".run").resolve() if serve else Path(tempfile.mkdtemp(prefix="wakebridge-"))
    directory.mkdir(exist_ok=True)
    try:
        complete = asyncio.run(_serve(directory, port) if serve else _tell(directory, port))
    except (StageError, DeskError, OSError) as error:
        click.echo(f"The demo cannot run: {error}", err=True)
        sys.exit(1)
    finally:
        if not serve:
            shutil.rmtree(directory, ignore_errors=True)
    sys.exit(0 if complete else 1)


async def _tell(directory: Path, port: str | None) -> bool:
    """Play the story once; say plainly what did not happen."""
    timeline = Timeline(click.echo)
    timeline.tell("starting a board, a broker and the bridge")
    async with set_up(directory, port, timeline.bridge_said) as stage:
        timeline.tell(f"the bridge is ready, the board is at {stage.serial_port}")
        await play(stage, timeline)
    if timeline.missing:
        click.echo(f"It did not all happen. Missing: {', '.join(timeline.missing)}.", err=True)
        return False
    click.echo("All of it happened.")
    return True


async def _serve(directory: Path, port: str | None) -> bool:
    """Keep everything running until Ctrl-C; the state stays in `.run`."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with set_up(directory, port, _show_line, _CONTROL) as stage:
        _explain(stage)
        ended = asyncio.create_task(stage.bridge.wait())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            raise StageError("the bridge has ended, its last words are above")
        ended.cancel()
    return True


def _show_line(line: Line) -> None:
    rest = {k: v for k, v in line.items() if k not in {"at_s", "level", "logger", "message"}}
    fields = " ".join(f"{name}={value}" for name, value in rest.items())
    click.echo(f"{line.get('message', '')} {fields}".rstrip())


def _explain(stage: Stage) -> None:
    click.echo(f"MQTT    127.0.0.1:{stage.mqtt_port} (topics under wakebridge/)")
    click.echo(f"HTTP    http://127.0.0.1:{stage.http_port}/api/health")
    click.echo(f"board   {stage.serial_port}")
    if stage.board is not None:
        click.echo(f"        python -m wakebridge.simboard.tell {_CONTROL} help")
    click.echo("Ctrl-C stops it; the state stays in .run/")


if __name__ == "__main__":
    main()
