"""`wakebridge`: the entry point and the service itself."""

import asyncio
import sys
from pathlib import Path
from typing import Literal

import click

from wakebridge import timeline
from wakebridge.config import DEFAULT_PATH, ConfigError, load_config


@click.group()
def main() -> None:
    """Wakes a sleeping host at the right moment, then does what was planned for it."""


@main.command()
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    default=DEFAULT_PATH,
    show_default=True,
    help="the configuration file",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", help="one line per event"
)
def serve(path: Path, log_format: Literal["text", "json"]) -> None:
    """Run the bridge in the foreground until SIGTERM or Ctrl-C."""
    # The daemon pulls in the servers; the other commands start faster without them.
    from wakebridge import daemon
    from wakebridge.board.errors import LinkError
    from wakebridge.store.errors import StateLocked, StateUnreadable

    try:
        config = load_config(path)
        timeline.set_up(config.log_level, log_format)
        asyncio.run(daemon.serve(config))
    except* (ConfigError, StateLocked, StateUnreadable, LinkError, OSError, ValueError) as group:
        for error in group.exceptions:
            click.echo(f"wakebridge: {error}", err=True)
        sys.exit(1)
