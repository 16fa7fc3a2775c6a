"""What `wakebridge board doctor` looks at: one finding per thing, with the remedy."""

import grp
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from wakebridge.adapters.cli.bridge import Bridge, BridgeError
from wakebridge.config import DEFAULT_PATH, Config, ConfigError, load_config
from wakebridge.store.routines_json import RoutinesJson

UDEV_RULE: Final = Path("/etc/udev/rules.d/70-wakebridge.rules")
_FREE_MIN_BYTES: Final = 16 * 1024 * 1024
_CLOCK_FLOOR_S: Final = 1_735_689_600  # 2025-01-01: no host of ours has an earlier date to show


class Finding(msgspec.Struct, frozen=True):
    """What was looked at, what was found, and what to do when it is not good."""

    verdict: Literal["good", "warn", "BAD"]
    what: str
    text: str
    remedy: str = ""


def examine(bridge: Bridge, config_path: Path | None) -> list[Finding]:
    """Look at everything that can be looked at from here; never raises."""
    findings: list[Finding] = []
    path = config_path or DEFAULT_PATH
    config = Config()
    try:
        config = load_config(path)
        findings.append(Finding("good", "configuration", str(path)))
    except ConfigError as error:
        findings.append(Finding("BAD", "configuration", str(error), "correct the file"))
    findings += _clock()
    findings += _port(config)
    findings += _broker(config)
    findings += _store(config)
    findings += _bridge(bridge)
    return findings


def _clock() -> Iterator[Finding]:
    if time.time() < _CLOCK_FLOOR_S:
        date = time.strftime("%Y-%m-%d", time.gmtime())
        yield Finding("BAD", "clock", f"it shows {date}", "set it, or start time synchronization")
    else:
        yield Finding("good", "clock", time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime()))


def _port(config: Config) -> Iterator[Finding]:
    named = config.board.port
    ports = (
        [named]
        if named is not None
        else sorted(map(str, Path("/").glob(config.board.glob.lstrip("/"))))
    )
    if not ports or not Path(ports[0]).exists():
        yield Finding("BAD", "port", f"there is no {named or config.board.glob}",
                      "plug the board in, or name it: [board] port")  # fmt: skip
        return
    if len(ports) > 1:
        yield Finding("BAD", "port", f"several could be the board: {', '.join(ports)}",
                      "name one: [board] port")  # fmt: skip
        return
    if not os.access(ports[0], os.R_OK | os.W_OK):
        group = grp.getgrgid(Path(ports[0]).stat().st_gid).gr_name
        yield Finding("BAD", "port rights", f"{ports[0]} belongs to the group {group}",
                      f"usermod --append --groups {group} USER, and log in again")  # fmt: skip
    else:
        yield Finding("good", "port", ports[0])
    if not UDEV_RULE.exists():
        yield Finding("warn", "udev", f"{UDEV_RULE} is not installed",
                      "copy host/packaging/udev/70-wakebridge.rules there")  # fmt: skip


def _broker(config: Config) -> Iterator[Finding]:
    if config.mqtt is None:
        yield Finding("warn", "broker", "no [mqtt] section: nobody can ask over MQTT")
        return
    where = f"{config.mqtt.host}:{config.mqtt.port}"
    try:
        socket.create_connection((config.mqtt.host, config.mqtt.port), timeout=3).close()
        yield Finding("good", "broker", where)
    except OSError as error:
        yield Finding("BAD", "broker", f"{where}: {error}", "start it, or correct [mqtt]")


def _store(config: Config) -> Iterator[Finding]:
    for name, directory in (("state", config.state_dir), ("routines", config.config_dir)):
        path = Path(directory)
        if not path.is_dir():
            yield Finding("warn", name, f"{directory} does not exist yet")
        elif not os.access(path, os.W_OK):
            yield Finding("BAD", name, f"{directory} cannot be written", "correct its owner")
        elif shutil.disk_usage(path).free < _FREE_MIN_BYTES:
            yield Finding("BAD", name, f"the disk of {directory} is full", "free some space")
        else:
            yield Finding("good", name, directory)
    current = RoutinesJson(Path(config.config_dir)).check().current
    if current.problem is not None:
        yield Finding("BAD", "routines", current.problem, "wakebridge state restore")


def _bridge(bridge: Bridge) -> Iterator[Finding]:
    try:
        health: dict[str, Any] = bridge.call("GET", "/api/health")
    except BridgeError as error:
        yield Finding("BAD", "bridge", error.message.splitlines()[0], "start it: wakebridge serve")
        return
    yield Finding("good", "bridge", f"{health['events']['schedules']} schedules,"
                                    f" {health['routines']['count']} routines")  # fmt: skip
    board, timer = health["board"], health["timer"]
    if not board["connected"]:
        yield Finding("BAD", "board", board["problem"], "see firmware/README.md, Diagnostics")
    elif board["config_faults"]:
        faults = "; ".join(board["config_faults"])
        yield Finding("warn", "board", faults, "correct the board's configuration file")
    else:
        yield Finding("good", "board", f"{board['board']}, firmware {board['firmware']}")
    if timer["timer_error"]:
        yield Finding("BAD", "countdown", timer["timer_error"], "the bridge keeps trying")
    else:
        yield Finding("good", "countdown", timer["wakes_for"] or "nothing is planned")
    if health["events"]["clock"] != "synchronized":
        yield Finding("BAD", "clock", "it reads earlier than what is already past",
                      "set it, then say so: POST /api/clock/synced")  # fmt: skip
    for name, up in health["events"]["buses"].items():
        if not up:
            yield Finding("BAD", "bus", f"{name} is not connected: its events wait")
