"""`wakebridge event`: scheduled events."""

import json
from typing import Any, Final

import click

from wakebridge.adapters.cli.bridge import Bridge, BridgeError
from wakebridge.adapters.cli.human import Days, Span, describe_timing
from wakebridge.adapters.cli.render import short_instant, show_fields, show_json, show_table
from wakebridge.clock import SystemClock
from wakebridge.schedule.errors import RequestError
from wakebridge.schedule.instants import format_instant
from wakebridge.schedule.record import Record, first_occurrence, parse_record

SHOWN_OCCURRENCES: Final = 5

# What says more about one form of time, and nothing without it.
_PARTS_OF: Final = {"every": ("start",), "local": ("days", "zone")}


def _named(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if not value:
        raise click.BadParameter("an owner has a name")
    return value


_owner = click.option(
    "--owner",
    required=True,
    callback=_named,
    metavar="SKILL_ID",
    help="in whose name; owners see only their own",
)
_as_json = click.option("--json", "as_json", is_flag=True, help="print JSON")


@click.group()
def event() -> None:
    """Scheduled events: a message on the bus at the right moment."""


@event.command()
@click.argument("name")
@_owner
@click.option("--id", "schedule_id", help="the schedule's id  [default: NAME]")
@click.option("--at", metavar="INSTANT", help="an RFC 3339 instant: 2031-03-29T07:30:00+01:00")
@click.option("--in", "in_", type=Span(), metavar="SPAN", help="after a while: 90s, 10m, 1h30m")
@click.option("--every", type=Span(), metavar="SPAN", help="again and again: 1h")
@click.option("--start", metavar="INSTANT", help="the first occurrence of --every")
@click.option("--local", metavar="HH:MM", help="by the clock on the wall of --zone")
@click.option("--days", type=Days(), help="for --local: mon-fri, or sat,sun")
@click.option("--zone", help="for --local: Europe/Lisbon")
@click.option("--until", metavar="INSTANT", help="no occurrence after it")
@click.option("--count", type=int, help="at most so many occurrences")
@click.option("--data", metavar="JSON", help="the fired event's data, a JSON object")
@click.option("--misfire", type=click.Choice(["late", "skip"]), help="what to do when too late")
@click.option("--grace", "grace_s", type=Span(), metavar="SPAN", help="what still is on time")
@click.option("--ephemeral", is_flag=True, help="forget it when the bridge stops")
@click.option(
    "--route",
    type=click.Choice(["mqtt", "ovos"]),
    default="mqtt",
    show_default=True,
    help="the bus that hears the fires",
)
@click.option("--dry-run", is_flag=True, help="check it and show its occurrences, change nothing")
@_as_json
@click.pass_obj
def add(
    bridge: Bridge, /, name: str, owner: str, route: str, dry_run: bool, as_json: bool, **given: Any
) -> None:
    """Ask for the event OWNER.NAME, once or again and again."""
    body = _body(name, owner, given)
    record, occurrences = _check(owner, body)
    if not as_json:
        _show_occurrences(record, occurrences)
    if dry_run:
        if as_json:
            show_json({"ok": True, "occurrences": occurrences})
        return
    answer = bridge.ask_scheduler("schedule", owner, body, route)
    if as_json:
        show_json(answer)
    else:
        done = "Replaced" if answer["replaced"] else "Accepted"
        click.echo(f"{done}: {answer['id']} of {owner}, next {answer['next']}")


def _body(name: str, owner: str, given: dict[str, Any]) -> dict[str, object]:
    """Return the request body; options that were not given are left out."""
    for form, parts in _PARTS_OF.items():
        stray = [f"--{part}" for part in parts if given[part] is not None]
        if stray and given[form] is None:
            raise click.UsageError(f"{' and '.join(stray)}: only with --{form}, which is missing")
    body: dict[str, object] = {
        "id": given["schedule_id"] or name,
        "event": f"{owner}.{name}",
    }
    if given["in_"] is not None:
        body["in"] = {"seconds": given["in_"]}
    if given["every"] is not None:
        every = {"seconds": given["every"], "start": given["start"]}
        body["every"] = {key: value for key, value in every.items() if value is not None}
    if given["local"] is not None:
        local = {"time": given["local"], "days": given["days"], "zone": given["zone"]}
        body["local"] = {key: value for key, value in local.items() if value is not None}
    for field in ("at", "until", "count", "misfire", "grace_s"):
        if given[field] is not None:
            body[field] = given[field]
    if given["ephemeral"]:
        body["ephemeral"] = True
    if given["data"] is not None:
        try:
            body["data"] = json.loads(given["data"])
        except ValueError as error:
            raise click.BadParameter(f"--data is not JSON: {error}") from None
    return body


def _check(owner: str, body: dict[str, object]) -> tuple[Record, list[str]]:
    """Return the record and its next occurrences, or refuse as the bridge would."""
    now = SystemClock().now()
    try:
        record = parse_record(owner, body, now, None)
    except RequestError as error:
        raise BridgeError(f"{error.code}: {error.reason}") from None
    due_ns = first_occurrence(record, now)
    occurrences: list[str] = []
    limit = min(SHOWN_OCCURRENCES, record.count or SHOWN_OCCURRENCES)
    while due_ns is not None and len(occurrences) < limit:
        if record.until_ns is not None and due_ns > record.until_ns:
            break
        occurrences.append(format_instant(due_ns))
        due_ns = record.rule.next_after(due_ns)
    return record, occurrences


def _show_occurrences(record: Record, occurrences: list[str]) -> None:
    click.echo(f"{record.event}: {describe_timing(record.to_wire())}")
    for due in occurrences:
        click.echo(f"  {due}")


@event.command(name="list")
@_owner
@_as_json
@click.pass_obj
def list_(bridge: Bridge, owner: str, as_json: bool) -> None:
    """Show the schedules of OWNER; an administrator sees everybody's."""
    schedules = bridge.ask_scheduler("list", owner, {})["schedules"]
    if as_json:
        show_json(schedules)
        return
    show_table(
        ("OWNER", "ID", "WHEN", "NEXT", "MISSED"),
        (
            (
                pair["record"]["skill_id"],
                pair["record"]["id"],
                describe_timing(pair["record"]),
                short_instant(pair["state"]["next"]),
                len(pair["state"]["missed"]),
            )
            for pair in schedules
        ),
        f"{owner} has no schedules.",
    )


@event.command()
@click.argument("schedule_id", metavar="ID")
@_owner
@_as_json
@click.pass_obj
def show(bridge: Bridge, schedule_id: str, owner: str, as_json: bool) -> None:
    """Show one schedule with what has become of it."""
    answer = bridge.ask_scheduler("get", owner, {"id": schedule_id})
    if not answer["existed"]:
        raise BridgeError(f"{owner} has no schedule {schedule_id!r}")
    if as_json:
        show_json(answer)
        return
    record, state = answer["record"], answer["state"]
    show_fields(
        [
            ("id", record["id"]),
            ("event", record["event"]),
            ("when", describe_timing(record)),
            ("next", state["next"] or "never again"),
            ("last fired", state["last_fired"] or "never"),
            ("remaining", state["remaining"]),
            ("missed", ", ".join(state["missed"]) or "nothing since the last fire"),
            ("misfire", record.get("misfire", "late")),
            ("data", json.dumps(record.get("data", {}))),
        ]
    )


@event.command()
@click.argument("schedule_id", metavar="ID")
@_owner
@click.option("--of", metavar="SKILL_ID", help="whose schedule, for an administrator")
@_as_json
@click.pass_obj
def cancel(bridge: Bridge, schedule_id: str, owner: str, of: str | None, as_json: bool) -> None:
    """Delete one schedule."""
    whose = {} if of is None else {"skill_id": of}
    answer = bridge.ask_scheduler("cancel", owner, {"id": schedule_id, **whose})
    if as_json:
        show_json(answer)
    elif answer["existed"]:
        click.echo(f"Cancelled: {schedule_id}")
    else:
        click.echo(f"{of or owner} has no schedule {schedule_id!r}: nothing to cancel")
