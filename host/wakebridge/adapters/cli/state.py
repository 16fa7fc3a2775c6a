"""`wakebridge state`: the routines' document, also while the bridge is stopped."""

import contextlib
import sys
from pathlib import Path

import click

from wakebridge.adapters.cli.bridge import CONFIG_META, BridgeError
from wakebridge.adapters.cli.render import show_json, wrapped
from wakebridge.clock import SystemClock
from wakebridge.config import DEFAULT_PATH, Config, ConfigError, load_config
from wakebridge.store.errors import StateLocked, StateUnreadable, StoreError
from wakebridge.store.routines_json import CheckReport, FileReport, RoutinesJson
from wakebridge.store.state_lock import RoutinesLock, StateLock


@click.group()
def state() -> None:
    """Look at the routines' state, and put the previous one back."""


@state.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def check(as_json: bool) -> None:
    """Say whether the state can be loaded; exit 1 when it cannot."""
    report = _store().check()
    problem = _problem(report)
    if as_json:
        show_json(
            {
                "loads": problem is None,
                "problem": problem,
                "current": _facts(report.current),
                "previous": _facts(report.previous),
                "warnings": report.warnings,
            }
        )
    else:
        for name, generation in (("current", report.current), ("previous", report.previous)):
            click.echo(wrapped(f"{name:<10}{_described(generation)}", 10))
            click.echo(f"          {generation.path}")
        for warning in report.warnings:
            click.echo(wrapped(f"warning   {warning}", 10))
    if problem is not None:
        if not as_json:
            click.echo(wrapped(f"The schedule tool is off: {problem}."))
            click.echo(wrapped(_remedy(report)))
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
        with contextlib.ExitStack() as stack:
            stack.callback(StateLock(Path(config.state_dir)).release)
            stack.callback(RoutinesLock(Path(config.config_dir)).release)
            kept = _store().restore(SystemClock().now())
    except (StateLocked, StateUnreadable, StoreError) as error:
        raise BridgeError(str(error)) from None
    count = len(_store().show().routines)
    click.echo(f"Restored {count} routine(s). Start the bridge again.")
    if kept is not None:
        click.echo(f"The broken file is kept as\n{kept}")


def _problem(report: CheckReport) -> str | None:
    """Return why a start would leave the schedule tool out, or None (R31)."""
    if report.current.exists:
        return report.current.problem
    if report.previous.exists:
        return "the current state is missing, and the previous one is there"
    return None


def _remedy(report: CheckReport) -> str:
    """Return what a person can do about a state that cannot be loaded."""
    if report.previous.state is not None:
        return "With the bridge stopped, mend it by: wakebridge state restore"
    return (
        "There is no previous state to put back. With the bridge stopped, mend the file by hand,"
        " or move it away to start empty."
    )


def _described(generation: FileReport) -> str:
    if not generation.exists:
        return "there is none"
    if generation.state is None:
        return f"cannot be loaded: {generation.problem}"
    routines = len(generation.state.routines)
    return f"{routines} routine(s), {generation.size_bytes} bytes, readable"


def _facts(generation: FileReport) -> dict[str, object]:
    routines = None if generation.state is None else len(generation.state.routines)
    return {
        "path": generation.path,
        "exists": generation.exists,
        "size_bytes": generation.size_bytes,
        "problem": generation.problem,
        "routines": routines,
    }


def _store() -> RoutinesJson:
    return RoutinesJson(Path(_config().config_dir))


def _config() -> Config:
    path: Path = click.get_current_context().meta.get(CONFIG_META) or DEFAULT_PATH
    try:
        return load_config(path)
    except ConfigError as error:
        raise BridgeError(str(error)) from None
