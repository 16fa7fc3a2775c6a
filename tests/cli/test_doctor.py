"""`wakebridge board doctor`: things broken one by one, each found and each with its remedy."""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridges import BridgeProcess, toml_of
from brokers import MosquittoFactory
from command_line import CommandLine
from wakebridge.adapters.cli import doctor
from wakebridge.config import load_config
from wakebridge.schedule.instants import parse_instant
from wakebridge.simboard import DeskBoard
from wakebridge.store.schedules_sqlite import SchedulesSqlite

pytestmark = pytest.mark.timeout(60)

LATER = parse_instant("2036-01-01T00:00:00+00:00")
NOBODY = 65_534


class Diagnosis:
    """The findings of one examination."""

    def __init__(self, findings: list[dict[str, Any]], code: int) -> None:
        self.findings = findings
        self.code = code

    def about(self, what: str) -> dict[str, Any]:
        found = [each for each in self.findings if each["what"] == what]
        assert len(found) == 1, (what, self.findings)
        return found[0]

    def found(self, what: str, text: str, remedy: str, verdict: str = "BAD") -> None:
        """Assert that this was found, and that this helps."""
        finding = self.about(what)
        assert finding["verdict"] == verdict, finding
        assert text in finding["text"], finding
        assert remedy in finding["remedy"], finding
        assert self.code == (1 if self.bad else 0)

    @property
    def bad(self) -> list[str]:
        return [each["what"] for each in self.findings if each["verdict"] == "BAD"]


async def examine(wakebridge: CommandLine) -> Diagnosis:
    process = await wakebridge.start("board", "doctor", "--json")
    out, err = await process.communicate()
    assert err == b""
    assert process.returncode is not None
    return Diagnosis(json.loads(out), process.returncode)


def write_config(bridge: BridgeProcess) -> None:
    """Have the configuration there although the bridge does not run."""
    (bridge.directory / "bridge.toml").write_text(toml_of(bridge.config))


async def test_a_healthy_host_has_nothing_bad_and_every_line_fits(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    said = await wakebridge("board", "doctor")
    assert "\nBAD" not in said.out
    healthy = await examine(wakebridge)
    assert healthy.bad == []
    assert [each["what"] for each in healthy.findings] == [
        *("host", "configuration", "clock", "port", "udev", "broker", "state", "routines"),
        *("bridge", "board", "board clock", "countdown"),
    ]
    assert all(each["verdict"] == "good" or each["remedy"] for each in healthy.findings)


async def test_a_configuration_that_cannot_be_read_is_the_only_thing_to_speak_of(
    tmp_path: Path,
) -> None:
    config = tmp_path / "bridge.toml"
    missing = await examine(CommandLine(config))
    missing.found("configuration", "No such file", "--config")
    config.write_text("[board]\nprot = 1\n")
    wrong = await examine(CommandLine(config))
    wrong.found("configuration", "prot", "correct it")
    assert wrong.bad == ["configuration"]


async def test_without_a_bridge_it_says_how_to_start_one(
    stopped: BridgeProcess, wakebridge: CommandLine
) -> None:
    write_config(stopped)
    away = await examine(wakebridge)
    away.found("bridge", "Connection refused", "systemctl start wakebridge")
    assert away.bad == ["bridge"]


async def test_a_bridge_that_runs_but_cannot_be_asked_is_not_told_to_start(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    unreadable = toml_of({**bridge.config, "http": {"token_file": "/nowhere"}})
    wakebridge.config.write_text(unreadable)
    secret = await examine(wakebridge)
    secret.found("bridge", "token cannot be read", "as the bridge's user")
    assert secret.bad == ["bridge"]  # above all not the port, which the bridge holds
    wakebridge.config.write_text(toml_of({**bridge.config, "http": None}))
    (await examine(wakebridge)).found("bridge", "no section [http]", "add it")


async def test_no_port_several_ports_and_a_port_that_somebody_holds(
    stopped: BridgeProcess, board: DeskBoard, wakebridge: CommandLine, tmp_path: Path
) -> None:
    stopped.config["board"] = {"port": "/dev/ttyACM77"}
    write_config(stopped)
    (await examine(wakebridge)).found("port", "no serial port /dev/ttyACM77", "plug the board in")
    stopped.config["board"] = {"glob": str(tmp_path / "by-id" / "*")}
    write_config(stopped)
    (await examine(wakebridge)).found("port", "no serial port matches", "[board] port")
    (tmp_path / "by-id").mkdir()
    for name in ("usb-one", "usb-two"):
        (tmp_path / "by-id" / name).symlink_to(board.port)
    several = await examine(wakebridge)
    several.found("port", "several serial ports could be the board", "[board] port")
    assert "usb-one" in several.about("port")["text"]
    stopped.config["board"] = {"port": board.port}
    write_config(stopped)
    held = os.open(board.port, os.O_RDWR | os.O_NOCTTY)
    fcntl.flock(held, fcntl.LOCK_EX)
    taken = await examine(wakebridge)
    os.close(held)
    taken.found("port", f"(pid {os.getpid()})", "end that program")


def test_a_user_without_rights_is_told_the_group_and_who_has_the_port(
    board_port: Path, tmp_path: Path
) -> None:
    config = tmp_path / "bridge.toml"
    config.write_text(toml_of({"board": {"port": str(board_port)}, "state_dir": str(tmp_path)}))
    loaded = load_config(config)
    with held_by_another(board_port) as pid:
        board_port.chmod(0)
        with acting_as_nobody():
            findings = {each.what: each for each in doctor.port_findings(loaded, running=False)}
    assert findings["port rights"].verdict == findings["port"].verdict == "BAD"
    assert f"(pid {pid})" in findings["port"].text
    assert "belongs to the group" in findings["port rights"].text
    assert "usermod --append --groups" in findings["port rights"].remedy


HOLD = """\
import fcntl, os, sys
port = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
fcntl.flock(port, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def held_by_another(port: Path) -> Iterator[int]:
    """Have a process hold a port as mpremote does; yield its id."""
    command = (sys.executable, "-c", HOLD, str(port))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield holder.pid


@contextlib.contextmanager
def acting_as_nobody() -> Iterator[None]:
    """Give up root's rights for a while; where the tests have none, the mode alone keeps out."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.fixture
def board_port() -> Iterator[Path]:
    """A serial device of our own, whose mode can be changed."""
    master, slave = os.openpty()
    port = Path(os.ttyname(slave))
    yield port
    os.close(master)
    os.close(slave)


async def test_a_broker_that_is_down_or_refuses_is_told_apart(
    stopped: BridgeProcess, mosquitto: MosquittoFactory, wakebridge: CommandLine, tmp_path: Path
) -> None:
    strict = mosquitto(passwords={"wakebridge": "right"})
    password = tmp_path / "password"
    password.write_text("wrong\n")
    stopped.config["mqtt"] = {
        "port": strict.port,
        "username": "wakebridge",
        "password_file": str(password),
    }
    async with stopped:
        refused = await examine(wakebridge)
        refused.found("broker", "uthori", "correct user, password")
        strict.stop()
        down = await examine(wakebridge)
        down.found("broker", "Connection refused", "start the broker")


async def test_no_broker_at_all_is_worth_a_word(
    stopped: BridgeProcess, wakebridge: CommandLine
) -> None:
    stopped.config["mqtt"] = None
    async with stopped:
        (await examine(wakebridge)).found("broker", "no section [mqtt]", "", "warn")


async def test_state_that_cannot_be_read_r31(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    await bridge.open_session("chat")
    await bridge.stop()
    bridge.state_file.write_text("{")
    await bridge.start()
    broken = await examine(wakebridge)
    broken.found("routines", str(bridge.state_file), "wakebridge state restore")
    broken.found("schedule tool", "it is off", "restart the bridge")
    await bridge.stop()
    (bridge.state_dir / "schedules.db").write_bytes(b"no database" * 1000)
    lost = await examine(wakebridge)
    lost.found("state", str(bridge.state_dir / "schedules.db"), "put a copy in its place")


async def test_a_state_directory_that_is_not_there_yet_or_not_a_directory_to_write_in(
    stopped: BridgeProcess, wakebridge: CommandLine
) -> None:
    write_config(stopped)
    fresh = await examine(wakebridge)
    fresh.found("state", "does not exist yet", "the bridge makes it", "warn")
    stopped.config["state_dir"] = "/proc/self"  # as good as a disk that is mounted read-only
    write_config(stopped)
    fixed = await examine(wakebridge)
    assert fixed.about("state")["verdict"] == "BAD"


async def test_a_board_that_is_away_and_one_that_hangs(
    board: DeskBoard, bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    await board.unplug()
    await bridge.said("board down")
    just_lost = await examine(wakebridge)
    assert "plug the board in" in just_lost.about("board")["remedy"]
    away = just_lost
    while "hung up" in away.about("board")["text"]:  # the bridge looks for it again within seconds
        away = await examine(wakebridge)
    away.found("board", "no serial port", "plug the board in")
    assert "port" in away.bad
    board.line("to_host").muted = True
    await board.replug()
    silent = await examine(wakebridge)
    assert silent.about("port")["verdict"] == "good"
    assert silent.about("board")["verdict"] == "BAD"
    assert silent.about("board")["remedy"] != ""


async def test_a_faulty_board_configuration_and_a_countdown_of_somebody_else_r9(
    board: DeskBoard, bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    assert (await bridge.http("PUT", "/api/mcu/timer", {"duration_s": 600})).status == 200
    await wakebridge("event", "add", "x", "--owner", "d", "--in", "1h")
    (board.flash / "board.json").write_text('{"pulse_ms": "long"}')
    mark = bridge.mark()
    await board.soft_reset()
    await bridge.said("board up", after=mark)
    await bridge.said("countdown", after=mark)
    odd = await examine(wakebridge)
    odd.found("board", "pulse_ms: must be 10 to 3000", "board.json", "warn")
    odd.found("countdown", "independently programmed", "wakebridge board timer")


async def test_a_clock_that_reads_earlier_than_the_past_e71(
    stopped: BridgeProcess, wakebridge: CommandLine
) -> None:
    stopped.state_dir.mkdir(mode=0o700)
    store = SchedulesSqlite(stopped.state_dir / "schedules.db")
    await store.commit([], LATER)
    await store.reset_watermark(LATER)
    store.close()
    stopped.config["events"] = {"trust_kernel_sync": False}
    async with stopped:
        early = await examine(wakebridge)
        early.found("clock", "earlier than what has happened", "POST /api/clock/synced")
        assert (await stopped.http("POST", "/api/clock/synced")).status == 200
        assert (await examine(wakebridge)).about("clock")["verdict"] != "BAD"
