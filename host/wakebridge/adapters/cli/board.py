"""`wakebridge board`: the board through the running bridge, and the port for a technician."""

import time
from typing import Any, Final

import click

from wakebridge.adapters.cli import doctor
from wakebridge.adapters.cli.bridge import CONFIG_META, Bridge
from wakebridge.adapters.cli.human import Span, describe_span
from wakebridge.adapters.cli.render import show_fields, show_json, show_table

_SOURCES: Final = {1: "boot", 2: "button", 3: "voice", 4: "rtc_timer", 5: "host"}
_RESETS: Final = ("unknown", "power on", "hard", "watchdog", "deep sleep", "soft", "brownout")
_CLOCKS: Final = ("unknown", "crystal", "RC oscillator", "RTC")
_NOT_SHOWN: Final = frozenset({"at_s", "level", "logger", "message"})

_as_json = click.option("--json", "as_json", is_flag=True, help="print JSON")


@click.group()
def board() -> None:
    """The wake board: who it is, what it counts, and lending its port."""


@board.command()
@_as_json
@click.pass_obj
def info(bridge: Bridge, as_json: bool) -> None:
    """Show who the board is, how its clock runs, and how the link does."""
    answer = bridge.call("GET", "/api/board")
    if as_json:
        show_json(answer)
        return
    counters, link, clock = answer["counters"], answer["link"], answer["clock"]
    measured = "measured" if clock["measured"] else "as the board claims"
    faults = counters["crc_errors"] or 0
    show_fields(
        [
            ("board", f"{answer['board']} ({answer['port']})"),
            ("firmware", answer["firmware"]),
            ("unique id", answer["unique_id"]),
            ("boot id", f"{answer['boot_id']}, reset: {_name(_RESETS, answer['reset_cause'])}"),
            ("up", describe_span((counters["uptime_ms"] or 0) // 1000)),
            ("clock", f"{_name(_CLOCKS, answer['clock_quality'])}, runs {clock['rate_ppm']:+g} ppm"
                      f" ± {clock['bound_ppm']:g} ({measured})"),
            ("heap free", f"{counters['heap_free']} bytes"),
            ("wakes", f"{counters['wake_pulses']} pulses of the wake line"),
            ("link", f"{link['requests']} requests, {link['retries']} retried,"
                     f" {link['crc_errors']} bad frames here, {faults} there"),
            ("config", "; ".join(answer["config_faults"]) or "no faults"),
        ]
    )  # fmt: skip


@board.command()
@_as_json
@click.pass_obj
def timer(bridge: Bridge, as_json: bool) -> None:
    """Show the live countdown and what it is for."""
    live, health = bridge.call("GET", "/api/mcu/timer"), bridge.call("GET", "/api/health")
    if as_json:
        show_json({"live": live, "plan": health["timer"]})
        return
    plan = health["timer"]
    left = None if live["remaining_s"] is None else describe_span(round(live["remaining_s"]))
    approximate = ", approximate: restored from a checkpoint" if live["approximate"] else ""
    show_fields(
        [
            ("countdown", live["state"] + approximate),
            ("left", left),
            ("token", None if live["token"] is None else f"{live['token']:#010x}"),
            ("wakes for", plan["wakes_for"] or "nothing is planned"),
            ("leg", plan["leg"]),
            ("problem", plan["timer_error"] or "none"),
        ]
    )


@board.command()
@_as_json
@click.pass_obj
def events(bridge: Bridge, as_json: bool) -> None:
    """Show the events the board still remembers."""
    answer = bridge.call("GET", "/api/board/events")
    if as_json:
        show_json(answer)
        return
    if answer["lost"]:
        click.echo(f"{answer['lost']} older events were overwritten.")
    show_table(("SEQ", "SOURCE", "UP", "TOKEN"), map(_row, answer["events"]), "No events.")


@board.command()
@click.option("--count", type=int, default=0, help="stop after so many lines; 0: never")
@click.pass_obj
def watch(bridge: Bridge, count: int) -> None:
    """Print what the board and its countdown do, as it happens, until Ctrl-C."""
    shown = 0
    for line in bridge.follow("/api/timeline"):
        message = str(line["message"])
        if not message.startswith(("board", "countdown", "port")):
            continue
        rest = {name: line[name] for name in line if name not in _NOT_SHOWN and line[name] != ""}
        fields = " ".join(f"{name}={value}" for name, value in rest.items())
        click.echo(f"{time.strftime('%H:%M:%S', time.localtime(line['at_s']))} {message} {fields}")
        shown += 1
        if shown == count:
            return


@board.command()
@click.option("--for", "limit_s", type=Span(), default=1800, help="at most so long  [default: 30m]")
@click.option("--tcp-port", type=int, default=0, help="on this TCP port; 0: a free one")
@_as_json
@click.pass_obj
def lend(bridge: Bridge, limit_s: float, tcp_port: int, as_json: bool) -> None:
    """Lend the serial port to a technician; it comes back by itself."""
    lent = bridge.call("POST", "/api/board/lend", {"limit_s": limit_s, "tcp_port": tcp_port})
    if as_json:
        show_json(lent)
        return
    click.echo(f"The port is yours for {describe_span(limit_s)}:")
    click.echo(f"  mpremote connect {lent['url']} resume exec 'import wakeboard.diag'")
    click.echo("From another machine, first: ssh -L "
               f"{lent['tcp_port']}:localhost:{lent['tcp_port']} THIS-HOST")  # fmt: skip
    click.echo("It is taken back when you leave, or with: wakebridge board take-back")


@board.command(name="take-back")
@_as_json
@click.pass_obj
def take_back(bridge: Bridge, as_json: bool) -> None:
    """Take the lent port back now."""
    answer = bridge.call("DELETE", "/api/board/lend")
    if as_json:
        show_json(answer)
    else:
        click.echo(f"The port is back; {answer['firmware']}.")


@board.command(name="doctor")
@click.pass_context
def doctor_(ctx: click.Context) -> None:
    """Check host, port, broker, store, board and clock; say what to do."""
    findings = doctor.examine(ctx.obj, ctx.meta[CONFIG_META])
    for finding in findings:
        click.echo(f"{finding.verdict:<5} {finding.what}: {finding.text}")
        if finding.remedy:
            click.echo(f"      -> {finding.remedy}")
    ctx.exit(1 if any(finding.verdict == "BAD" for finding in findings) else 0)


def _row(event: dict[str, Any]) -> tuple[object, ...]:
    source = f"{event['source']} {_SOURCES.get(event['source'], 'unknown')}"
    token = f"{event['token']:#010x}" if event["token"] else "-"
    return (event["seq"], source, describe_span(event["uptime_ms"] // 1000), token)


def _name(names: tuple[str, ...], code: int) -> str:
    return names[code] if code < len(names) else f"code {code}"
