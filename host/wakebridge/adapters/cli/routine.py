"""`wakebridge routine` and `wakebridge session`: an agent's schedules and conversations."""

from typing import Any
from urllib.parse import quote

import click

from wakebridge.adapters.cli.bridge import Bridge, BridgeError
from wakebridge.adapters.cli.human import Span, describe_span
from wakebridge.adapters.cli.render import (
    one_line,
    short_instant,
    show_fields,
    show_json,
    show_table,
    wrapped,
)

_as_json = click.option("--json", "as_json", is_flag=True, help="print JSON")
_in = click.option("--in", "delay_s", type=Span(), metavar="SPAN", help="after a while: 10m")
_at = click.option("--at", "run_at", metavar="INSTANT", help="an RFC 3339 instant with a zone")
_every = click.option("--every", "interval_s", type=Span(), metavar="SPAN", help="then again: 24h")


@click.group()
def routine() -> None:
    """Routines: a task that goes on in a conversation later."""


@routine.command()
@click.argument("task")
@click.option("--session", "session_id", required=True, help="the backend session to go on in")
@_in
@_at
@_every
@_as_json
@click.pass_obj
def add(bridge: Bridge, /, task: str, session_id: str, as_json: bool, **when: Any) -> None:
    """Save TASK in a session, for later or again and again."""
    _mutate(bridge, session_id, {"action": "create", "task": task, **_given(when)}, as_json)


@routine.command()
@click.argument("routine_id", metavar="ID")
@click.argument("task")
@_in
@_at
@_every
@_as_json
@click.pass_obj
def update(bridge: Bridge, /, routine_id: str, task: str, as_json: bool, **when: Any) -> None:
    """Replace a stopped or pending routine; it keeps its session."""
    body = {"action": "update", "id": routine_id, "task": task, **_given(when)}
    _mutate(bridge, None, body, as_json)


@routine.command()
@click.argument("routine_id", metavar="ID")
@_as_json
@click.pass_obj
def cancel(bridge: Bridge, routine_id: str, as_json: bool) -> None:
    """Cancel future runs, and ask a running one to stop."""
    _mutate(bridge, None, {"action": "cancel", "id": routine_id}, as_json)


@routine.command(name="list")
@_as_json
@click.pass_obj
def list_(bridge: Bridge, as_json: bool) -> None:
    """Show every routine."""
    routines, timer_error = bridge.call_tool(None, {"action": "list"})
    if as_json:
        show_json({"result": routines, "timer_error": timer_error})
        return
    show_table(
        ("ID", "STATUS", "NEXT RUN", "EVERY", "TASK"),
        (
            (
                each["id"],
                _status(each),
                short_instant(each["next_run"]),
                describe_span(each["interval_s"]) if each["interval_s"] else "once",
                one_line(each["task"]),
            )
            for each in routines
        ),
        "There are no routines.",
    )
    _warn(timer_error)


@routine.command()
@click.argument("routine_id", metavar="ID")
@_as_json
@click.pass_obj
def show(bridge: Bridge, routine_id: str, as_json: bool) -> None:
    """Show one routine and how its newest run ended."""
    routines, timer_error = bridge.call_tool(None, {"action": "list"})
    found = next((each for each in routines if each["id"] == routine_id), None)
    if found is None:
        raise BridgeError(f"there is no routine {routine_id!r}")
    if as_json:
        show_json(found)
        return
    _show(found)
    _warn(timer_error)


@click.group()
def session() -> None:
    """Sessions: the conversations that routines go on in."""


@session.command(name="open")
@click.argument("session_id", metavar="ID")
@_as_json
@click.pass_obj
def open_session(bridge: Bridge, session_id: str, as_json: bool) -> None:
    """Enter a new conversation in the ledger, as its backend would."""
    answer = bridge.call("POST", "/api/sessions", {"session_id": session_id})
    if as_json:
        show_json(answer)
    else:
        click.echo(f"Opened: {session_id}")


@session.command(name="list")
@_as_json
@click.pass_obj
def list_sessions(bridge: Bridge, as_json: bool) -> None:
    """Show the ledger of conversations."""
    lineages = bridge.call("GET", "/api/sessions")
    if as_json:
        show_json(lineages)
        return
    show_table(
        ("ROOT", "NEWEST REVISION", "STATUS", "REASON"),
        ((e["root"], e["revisions"][-1], e["status"], e["reason"]) for e in lineages),
        "There are no sessions.",
    )


@session.command(name="show")
@click.argument("session_id", metavar="ID")
@_as_json
@click.pass_obj
def show_session(bridge: Bridge, session_id: str, as_json: bool) -> None:
    """Show what routines and requests left in a session's transcript."""
    entries = bridge.call("GET", f"/api/sessions/{quote(session_id, safe='')}/transcript")
    if as_json:
        show_json(entries)
        return
    show_table(
        ("AT", "TYPE", "RUN", "TEXT"),
        ((short_instant(e["at"]), e["type"], e["run_id"], e["text"]) for e in entries),
        f"Nothing was recorded in session {session_id!r}.",
    )


def _given(when: dict[str, Any]) -> dict[str, Any]:
    if (when["delay_s"] is None) == (when["run_at"] is None):
        raise click.UsageError("say when: give exactly one of --in and --at")
    return {name: value for name, value in when.items() if value is not None}


def _status(each: dict[str, Any]) -> str:
    """Return the status, with what people want to know besides while it runs."""
    if each["cancellation"] == "requested":
        return "cancelling"
    return "waiting" if each["waiting"] else str(each["status"])


def _mutate(bridge: Bridge, session_id: str | None, body: dict[str, Any], as_json: bool) -> None:
    changed, timer_error = bridge.call_tool(session_id, body)
    if as_json:
        show_json({"result": changed, "timer_error": timer_error})
        return
    _show(changed)
    _warn(timer_error)


def _show(each: dict[str, Any]) -> None:
    show_fields(
        [
            ("id", each["id"]),
            ("session", each["session_id"]),
            ("task", each["task"]),
            ("status", _status(each)),
            ("next run", each["next_run"]),
            ("every", describe_span(each["interval_s"]) if each["interval_s"] else None),
            ("runs", each["run_count"]),
            ("result", each["latest_result"]),
            ("error", each["latest_error"]),
            ("partial", each["partial_result"]),
            ("cancellation", each["cancellation"]),
        ]
    )


def _warn(timer_error: str) -> None:
    if timer_error:
        click.echo(wrapped(f"The wake-up is not confirmed: {timer_error}"), err=True)
