"""`wakebridge state`: the routines' document, also while the bridge is stopped."""

import sys
from pathlib import Path

import click

from wakebridge.adapters.cli.bridge import CONFIG_META, BridgeError
from wakebridge.adapters.cli.render import show_json
from wakebridge.clock import SystemClock
from wakebridge.config import DEFAULT_PATH, Config, ConfigError, load_config
from wakebridge.store.errors import StateLocked, StateUnreadable, StoreError
from wakebridge.store.routines_json import FileReport, RoutinesJson
from wakebridge.store.state_lock import StateLock


@click.group()
def state() -> None:
    """Look at the routines' state, and put the previous one back."""


@state.command()
def check() -> None:
    """Say whether the state can be loaded; exit 1 when it cannot."""
    report = _store().check()
    for name, generation in (("current", report.current), ("previous", report.previous)):
        click.echo(f"{name:<9} {_described(generation)}")
    for warning in report.warnings:
        click.echo(f"warning   {warning}")
    if report.current.problem is not None:
        click.echo("The schedule tool is off until this is mended: wakebridge state restore")
        sys.exit(1)


@state.command()
@click.option("--previous", is_flag=True, help="the generation before")
def show(previous: bool) -> None:
    """Print the state as JSON."""
    try:
        show_json(_store().show(previous=previous))
    except StateUnreadable as error:
        raise BridgeError(str(error)) from None


@state.command()
def restore() -> None:
    """Put the previous generation in the place of one that cannot be loaded.

    The broken file is kept under another name. The bridge must be stopped.
    """
    config = _config()
    try:
        lock = StateLock(Path(config.state_dir))
        try:
            kept = _store().restore(SystemClock().now())
        finally:
            lock.release()
    except (StateLocked, StateUnreadable, StoreError) as error:
        raise BridgeError(str(error)) from None
    count = len(_store().show().routines)
    click.echo(f"Restored {count} routine(s). Start the bridge again.")
    if kept is not None:
        click.echo(f"The broken file is kept as {kept}")


def _described(generation: FileReport) -> str:
    if not generation.exists:
        return f"{generation.path}: there is none"
    if generation.problem is not None:
        return f"{generation.path}: {generation.problem}"
    assert generation.state is not None
    routines = len(generation.state.routines)
    return f"{generation.path}: {routines} routine(s), {generation.size_bytes} bytes, readable"


def _store() -> RoutinesJson:
    return RoutinesJson(Path(_config().config_dir))


def _config() -> Config:
    path: Path = click.get_current_context().meta.get(CONFIG_META) or DEFAULT_PATH
    try:
        return load_config(path)
    except ConfigError as error:
        raise BridgeError(str(error)) from None
