"""`wakebridge board`: the board through the running bridge, and the port for a technician."""

import time
from typing import Any, Final

import click
import msgspec

from wakebridge.adapters.cli import doctor
from wakebridge.adapters.cli.bridge import CONFIG_META, Bridge, BridgeError
from wakebridge.adapters.cli.human import Span, describe_span
from wakebridge.adapters.cli.render import show_fields, show_json, show_table, wrapped

_SOURCES: Final = {1: "boot", 2: "button", 3: "voice", 4: "rtc_timer", 5: "host"}
_RESETS: Final = ("unknown", "power on", "hard", "watchdog", "deep sleep", "soft", "brownout")
_CLOCKS: Final = ("unknown", "crystal", "RC oscillator", "RTC")
_NOT_SHOWN: Final = frozenset({"at_s", "level", "logger", "message"})
_NOTHING: Final = ("", None, f"{0:#010x}")
_WATCHED: Final = ("board", "countdown", "port", "resumed")

# Greeting a board that hangs takes the bridge this long at most, and lending waits for it.
_LEND_TIMEOUT_S: Final = 40.0

_as_json = click.option("--json", "as_json", is_flag=True, help="print JSON")


@click.group()
def board() -> None:
    """The wake board: who it is, what it counts, and lending its port."""


@board.command()
@_as_json
@click.pass_obj
def info(bridge: Bridge, as_json: bool) -> None:
    """Show who the board is, how its clock runs, how the link does."""
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
@click.option("--count", type=int, default=0, help="stop after so many events; 0: never")
@_as_json
@click.pass_obj
def watch(bridge: Bridge, count: int, as_json: bool) -> None:
    """Print how the board is, then what it does, until Ctrl-C."""
    shown = 0
    try:
        for line in bridge.follow("/api/timeline"):
            if line is None:
                _show_now(bridge.call("GET", "/api/health"), as_json=as_json)
                continue
            if not str(line["message"]).startswith(_WATCHED):
                continue
            click.echo(msgspec.json.encode(line).decode() if as_json else _told(line))
            shown += 1
            if shown == count:
                return
    except KeyboardInterrupt:
        return  # the way to end it
    raise BridgeError("the bridge has stopped")


@board.command()
@click.option("--for", "limit_s", type=Span(), default=1800, help="at most so long  [default: 30m]")
@click.option("--tcp-port", type=int, default=0, help="on this TCP port; 0: a free one")
@_as_json
@click.pass_obj
def lend(bridge: Bridge, limit_s: float, tcp_port: int, as_json: bool) -> None:
    """Lend the serial port to a technician; it comes back by itself."""
    body = {"limit_s": limit_s, "tcp_port": tcp_port}
    lent = bridge.call("POST", "/api/board/lend", body, _LEND_TIMEOUT_S)
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
    answer = bridge.call("DELETE", "/api/board/lend", timeout_s=_LEND_TIMEOUT_S)
    if as_json:
        show_json(answer)
    else:
        click.echo(f"The port is back; {answer['firmware']}.")


@board.command(name="doctor")
@_as_json
@click.pass_context
def doctor_(ctx: click.Context, as_json: bool) -> None:
    """Check host, port, broker, state, board, clock; say what to do.

    The exit code is 1 when something is BAD.
    """
    findings = doctor.examine(ctx.obj, ctx.meta[CONFIG_META])
    if as_json:
        show_json(findings)
    else:
        for finding in findings:
            click.echo(wrapped(f"{finding.verdict:<5} {finding.what}: {finding.text}", 6))
            if finding.remedy:
                click.echo(wrapped(f"      -> {finding.remedy}", 9))
    ctx.exit(1 if any(finding.verdict == "BAD" for finding in findings) else 0)


def _show_now(health: dict[str, Any], *, as_json: bool) -> None:
    """Show what the changes that follow begin with."""
    board, timer = health["board"], health["timer"]
    if as_json:
        now = {"message": "now", "board": board, "timer": timer}
        click.echo(msgspec.json.encode(now).decode())
        return
    name = board["board"] if board["connected"] else f"none: {board['problem']}"
    click.echo(wrapped(f"now       board: {name}", 10))
    countdown = timer["timer_error"] or timer["state"]
    target = f", for {timer['wakes_for']}" if timer["wakes_for"] else ""
    click.echo(wrapped(f"          countdown: {countdown}{target}", 10))


def _told(line: dict[str, Any]) -> str:
    """Return one line of the time line as a person reads it."""
    at = time.strftime("%H:%M:%S", time.localtime(line["at_s"]))
    told = ""
    for name, value in line.items():
        if name == "remaining_ms":
            told += f"  left: {describe_span(value // 1000)}" if value else ""
        elif name == "source":
            told += f"  source: {_source(value)}"
        elif name not in _NOT_SHOWN and value not in _NOTHING:
            told += f"  {name}: {value}"
    return wrapped(f"{at}  {line['message']}{told}", 10)


def _source(code: int) -> str:
    return f"{code} {_SOURCES.get(code, 'unknown')}"


def _row(event: dict[str, Any]) -> tuple[object, ...]:
    source = _source(event["source"])
    token = f"{event['token']:#010x}" if event["token"] else "-"
    return (event["seq"], source, describe_span(event["uptime_ms"] // 1000), token)


def _name(names: tuple[str, ...], code: int) -> str:
    return names[code] if code < len(names) else f"code {code}"
