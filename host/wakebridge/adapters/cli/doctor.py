"""What `wakebridge board doctor` looks at: one finding per thing, with the remedy."""

import grp
import os
import platform
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from wakebridge.adapters.cli.bridge import Bridge, BridgeAwayError, BridgeError
from wakebridge.board.errors import PortAmbiguous, PortUnavailable
from wakebridge.board.port_search import find_port, holders_of
from wakebridge.clock import SystemClock, kernel_says_synchronized
from wakebridge.config import DEFAULT_PATH, Config, ConfigError, load_config
from wakebridge.schedule.instants import format_instant
from wakebridge.store.errors import StateUnreadable
from wakebridge.store.routines_json import RoutinesJson
from wakebridge.store.schedules_sqlite import SchedulesSqlite

UDEV_RULE: Final = "70-wakebridge.rules"
UDEV_DIRECTORIES: Final = ("/etc/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d")

_FREE_MIN_BYTES: Final = 16 * 1024 * 1024
_CLOCK_FLOOR_NS: Final = 1_735_689_600 * 1_000_000_000  # 2025: this program is younger

# A board clock beyond this was measured to be no crystal. Wakes stay precise, by waking more often.
_RATE_NOTICED_PPM: Final = 1000.0

# One bad frame among so many is a disturbance on the line; more are a bad line.
_FRAMES_PER_BAD_ONE: Final = 100

# What is said of a board or a bridge that is away, by some of its words, and what helps.
_REMEDIES: Final = (
    ("lent to a technician", "it comes back by itself, or: wakebridge board take-back"),
    ("no serial port", "plug the board in, or name it: [board] port"),
    ("it hung up", "plug the board in again, with another cable if it keeps happening"),
    ("several serial ports", "name one: [board] port"),
    ("wakebridge serve", "that is a bridge: is this its configuration?"),
    ("is held by", "end that program: the bridge needs the port for itself"),
    ("may not be opened", "let the bridge's user into the port's group (see port rights)"),
    ("token cannot be read", "run the doctor as root or as the bridge's user"),
    ("no section [http]", "add it and restart the bridge"),
    ("firmware does not start", "wakebridge board lend, and look: firmware/README.md"),
    ("protocol version", "bring the firmware up to date: ./flash.sh"),
)
_START: Final = "start it: systemctl start wakebridge, or wakebridge serve"
_REMEDY_ELSE: Final = "unplug it and plug it in; then firmware/README.md, Diagnostics"


class Finding(msgspec.Struct, frozen=True):
    """What was looked at, what was found, and what to do when it is not good."""

    verdict: Literal["good", "warn", "BAD"]
    what: str
    text: str
    remedy: str = ""


def examine(bridge: Bridge, config_path: Path | None) -> list[Finding]:
    """Look at everything that can be looked at from here; never raises."""
    findings = [_host()]
    path = config_path or DEFAULT_PATH
    try:
        config = load_config(path)
    except ConfigError as error:
        # The rest would be about a host that is not meant.
        remedy = "correct it, or name another with --config; then ask again"
        return [*findings, *_clock(None), Finding("BAD", "configuration", str(error), remedy)]
    findings.append(Finding("good", "configuration", str(path)))
    health: dict[str, Any] | None = None
    problem: BridgeError | None = None
    try:
        health = bridge.call("GET", "/api/health")
    except BridgeError as error:
        problem = error
    running = not isinstance(problem, BridgeAwayError)  # one that refuses us runs
    findings += _clock(health)
    findings += port_findings(config, running=running)
    findings += _udev()
    findings += _broker(config, health)
    findings += _state(config, running=running)
    if problem is not None:
        text = problem.message.splitlines()[0]
        findings.append(Finding("BAD", "bridge", text, _remedy(text, _START)))
    elif health is not None:
        findings += _bridge(health)
        findings += _board(bridge, health)
    return findings


def _host() -> Finding:
    versions = f"wakebridge {metadata.version('wakebridge')}, Python {platform.python_version()}"
    return Finding("good", "host", f"{versions}, {platform.system()} {platform.release()}")


def _clock(health: dict[str, Any] | None) -> Iterator[Finding]:
    wall_ns = SystemClock().now().wall_ns
    shows = format_instant(wall_ns // 1_000_000_000 * 1_000_000_000)
    if wall_ns < _CLOCK_FLOOR_NS:
        yield Finding(
            "BAD", "clock", f"it shows {shows}", "set it, or have it set over the network"
        )
    elif health is not None and health["events"]["clock"] != "synchronized":
        yield Finding("BAD", "clock", f"it shows {shows}, earlier than what has happened already",
                      "set it; if it is right, say so: POST /api/clock/synced")  # fmt: skip
    elif not kernel_says_synchronized():
        yield Finding("warn", "clock", f"it shows {shows}, and nothing keeps it right",
                      "enable systemd-timesyncd or chrony")  # fmt: skip
    else:
        yield Finding("good", "clock", shows)


def port_findings(config: Config, *, running: bool) -> Iterator[Finding]:
    """Look at the port; a bridge that runs may hold it."""
    try:
        port = find_port(config.board.port, config.board.glob)
    except PortAmbiguous as error:
        yield Finding("BAD", "port", str(error), "in the configuration: [board] port")
        return
    except PortUnavailable as error:
        yield Finding("BAD", "port", str(error), _remedy(str(error)))
        return
    holders = ", ".join(holders_of(port))
    if holders and not running:
        problem = f"{port} is held by {holders}"
        yield Finding("BAD", "port", problem, _remedy(problem))
    else:
        yield Finding("good", "port", f"{port}, held by {holders}" if holders else port)
    if not _may(port, os.R_OK | os.W_OK):
        group = _group_of(port)
        yield Finding("BAD", "port rights", f"you may not open it; it belongs to the group {group}",
                      f"usermod --append --groups {group} USER, and log in again")  # fmt: skip


def _may(path: str | Path, mode: int) -> bool:
    """Say whether this process may, as whoever it acts for now."""
    return os.access(path, mode, effective_ids=True)


def _group_of(path: str) -> str:
    number = Path(path).stat().st_gid
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _udev() -> Iterator[Finding]:
    for directory in UDEV_DIRECTORIES:
        rule = Path(directory) / UDEV_RULE
        if rule.exists():
            yield Finding("good", "udev", str(rule))
            return
    yield Finding("warn", "udev", "no rule keeps ModemManager off the port",
                  f"copy host/packaging/udev/{UDEV_RULE} to {UDEV_DIRECTORIES[0]}")  # fmt: skip


def _broker(config: Config, health: dict[str, Any] | None) -> Iterator[Finding]:
    if config.mqtt is None:
        yield Finding("warn", "broker", "no section [mqtt]: nobody can ask over MQTT")
        return
    where = f"{config.mqtt.host}:{config.mqtt.port}"
    known = None if health is None else health["broker"]
    if known is not None and known["connected"]:
        yield Finding("good", "broker", where)
        return
    try:
        socket.create_connection((config.mqtt.host, config.mqtt.port), timeout=3).close()
    except OSError as error:
        yield Finding("BAD", "broker", f"{where}: {error.strerror or error}",
                      "start the broker, or correct host and port in [mqtt]")  # fmt: skip
        return
    if known is None:
        yield Finding("good", "broker", f"something listens at {where}")
    else:
        yield Finding("BAD", "broker", f"{where}: {known['problem'] or 'no connection yet'}",
                      "correct user, password or certificates in [mqtt]")  # fmt: skip


def _state(config: Config, *, running: bool) -> Iterator[Finding]:
    for name, directory in (("state", config.state_dir), ("routines", config.config_dir)):
        path = Path(directory)
        if not os.path.lexists(path):
            yield Finding("warn", name, f"{directory} does not exist yet",
                          "the bridge makes it, where its user may")  # fmt: skip
        elif not _may(path, os.R_OK | os.X_OK):
            yield Finding("warn", name, f"{directory} is not for you to see",
                          "run the doctor as root or as the bridge's user")  # fmt: skip
        elif not _may(path, os.W_OK):
            yield Finding("BAD", name, f"{directory} cannot be written",
                          "correct its owner and mode, or mount its disk writable")  # fmt: skip
        elif shutil.disk_usage(path).free < _FREE_MIN_BYTES:
            yield Finding("BAD", name, f"the disk of {directory} is full", "free some space")
        else:
            yield from _content(name, path, running=running)


def _content(name: str, directory: Path, *, running: bool) -> Iterator[Finding]:
    """Look into what is stored, where that does not disturb a bridge that runs."""
    if name == "routines":
        current = RoutinesJson(directory).check().current
        problem = None if current.problem is None else f"{current.path}: {current.problem}"
        remedy = "stop the bridge, wakebridge state restore, start it"
    else:
        # A bridge that runs has read it, and is the only one to write it.
        problem = None if running else _problem_of(directory / "schedules.db")
        remedy = "put a copy in its place, or move it away: the schedules in it are lost then"
    if problem is None:
        yield Finding("good", name, str(directory))
    else:
        yield Finding("BAD", name, problem, remedy)


def _problem_of(database: Path) -> str | None:
    """Return why the schedules cannot be loaded; a copy is tried, so nothing is touched."""
    if not database.exists():
        return None
    with tempfile.TemporaryDirectory(prefix="wakebridge-doctor-") as scratch:
        for suffix in ("", "-wal"):
            part = database.with_name(database.name + suffix)
            if part.exists():
                shutil.copyfile(part, Path(scratch) / part.name)
        copy = Path(scratch) / database.name
        try:
            store = SchedulesSqlite(copy)
            try:
                store.load(SystemClock().now().wall_ns)
            finally:
                store.close()
        except (StateUnreadable, sqlite3.Error, OSError) as error:
            return str(error).replace(str(copy), str(database))
    return None


def _bridge(health: dict[str, Any]) -> Iterator[Finding]:
    events, routines = health["events"], health["routines"]
    yield Finding("good", "bridge", f"{events['schedules']} scheduled events,"
                                    f" {routines['count']} routines")  # fmt: skip
    if not routines["available"]:
        yield Finding("BAD", "schedule tool", f"it is off: {routines['problem']}",
                      "mend what is said, then restart the bridge")  # fmt: skip
    for name, up in events["buses"].items():
        if not up and name != "mqtt":
            yield Finding("BAD", "bus", f"{name} is not connected: its events wait",
                          f"start it, or correct the section [{name}]")  # fmt: skip


def _board(bridge: Bridge, health: dict[str, Any]) -> Iterator[Finding]:
    board, timer = health["board"], health["timer"]
    if not board["connected"]:
        problem = board["problem"]
        lent = "lent to a technician" in problem
        yield Finding("warn" if lent else "BAD", "board", problem, _remedy(problem))
        return
    if board["config_faults"]:
        yield Finding("warn", "board", "; ".join(board["config_faults"]),
                      "correct board.json on the board: firmware/README.md")  # fmt: skip
    else:
        yield Finding("good", "board", f"{board['board']}, firmware {board['firmware']}")
    try:
        info = bridge.call("GET", "/api/board")
    except BridgeError as error:
        yield Finding("BAD", "board", error.message, _remedy(error.message))
    else:
        yield from _link(info)
    if timer["timer_error"]:
        yield Finding("BAD", "countdown", timer["timer_error"],
                      "wakebridge board timer shows it; the bridge keeps trying")  # fmt: skip
    else:
        yield Finding("good", "countdown", timer["wakes_for"] or "nothing is planned")


def _link(info: dict[str, Any]) -> Iterator[Finding]:
    clock, link, counters = info["clock"], info["link"], info["counters"]
    rate = f"{clock['rate_ppm']:+g} ppm ± {clock['bound_ppm']:g}"
    if clock["measured"] and abs(clock["rate_ppm"]) > _RATE_NOTICED_PPM:
        yield Finding("warn", "board clock", f"it is far off: {rate}",
                      "it is allowed for, at the price of a few more wakes")  # fmt: skip
    else:
        yield Finding("good", "board clock", rate if clock["measured"] else f"not measured: {rate}")
    bad = link["crc_errors"] + link["malformed"] + (counters["crc_errors"] or 0)
    if bad * _FRAMES_PER_BAD_ONE > link["frames"] or link["timeouts"]:
        yield Finding("warn", "link", f"{bad} bad frames, {link['timeouts']} requests unanswered",
                      "look at cable and plug; on a UART, at what else uses it")  # fmt: skip
    if counters["checkpoint_errors"]:
        yield Finding("warn", "checkpoint", f"{counters['checkpoint_errors']} could not be written",
                      "is the board's file system full?")  # fmt: skip


def _remedy(problem: str, otherwise: str = _REMEDY_ELSE) -> str:
    return next((helps for words, helps in _REMEDIES if words in problem), otherwise)
