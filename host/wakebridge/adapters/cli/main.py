"""`wakebridge`: the entry point, and the service itself."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import click

from wakebridge import timeline
from wakebridge.adapters.cli.board import board
from wakebridge.adapters.cli.bridge import CONFIG_META, find_bridge
from wakebridge.adapters.cli.event import event
from wakebridge.adapters.cli.render import Commands
from wakebridge.adapters.cli.routine import routine, session
from wakebridge.adapters.cli.state import state
from wakebridge.config import DEFAULT_PATH, ConfigError, load_config

_TALKING: Final = frozenset({"event", "routine", "session", "board"})
"""The commands that talk with the running bridge."""

_config = click.option(
    "--config",
    envvar="WAKEBRIDGE_CONFIG",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"the configuration file  [default: $WAKEBRIDGE_CONFIG, else {DEFAULT_PATH}]",
)


@click.group(cls=Commands)
@_config
@click.option("--url", help="where the bridge answers, instead of what the file says")
@click.version_option(package_name="wakebridge")
@click.pass_context
def main(ctx: click.Context, config: Path | None, url: str | None) -> None:
    """Wakes a sleeping host at the right moment, then does what was planned for it."""
    ctx.meta[CONFIG_META] = config
    if ctx.invoked_subcommand in _TALKING:
        ctx.obj = find_bridge(url, config)


@main.command()
@_config
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="one line per event"
)
@click.pass_context
def serve(ctx: click.Context, config: Path | None, log_format: Literal["text", "json"]) -> None:
    """Run the bridge in the foreground until SIGTERM or Ctrl-C."""
    # The daemon pulls in the servers; the other commands start faster without them.
    from wakebridge import daemon
    from wakebridge.board.errors import LinkError
    from wakebridge.store.errors import StateLocked, StateUnreadable

    try:
        settings = load_config(config or ctx.meta[CONFIG_META] or DEFAULT_PATH)
        timeline.set_up(settings.log_level, log_format)
        asyncio.run(daemon.serve(settings))
    except* (ConfigError, StateLocked, StateUnreadable, LinkError, OSError, ValueError) as group:
        for error in _flat(group):
            click.echo(f"wakebridge: {_sentence(error)}", err=True)
        sys.exit(1)


def _flat(error: Exception) -> Iterator[Exception]:
    """Give the errors of a group, of the groups in it and so on."""
    if isinstance(error, ExceptionGroup):
        for each in error.exceptions:
            yield from _flat(each)
    else:
        yield error


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{error.filename} cannot be used: "
        return where + error.strerror
    return str(error)


for command in (event, routine, session, board, state):
    main.add_command(command)
