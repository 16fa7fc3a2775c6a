"""What `wakebridge serve` cannot do, it says in one sentence, with exit 1 and no traceback."""

import asyncio
import os
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridges import BridgeProcess, Ended, toml_of
from wakebridge.config import ConfigError, parse_config
from wakebridge.routine.change import Code
from wakebridge.simboard import DeskBoard

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a section that does not exist": ({"mqt": {"port": 1883}}, "unknown field `mqt`"),
    "a misspelt key": ({"board": {"prot": "/dev/x"}}, "unknown field `prot` - at `$.board`"),
    "text for a number": ({"wake": {"lead_s": "5"}}, "at `$.wake.lead_s`"),
    "a number out of range": ({"wake": {"lead_s": -1}}, "at `$.wake.lead_s`"),
    "a port that is none": ({"http": {"port": 70_000}}, "at `$.http.port`"),
    "an MQTT port that is none": ({"mqtt": {"port": 0}}, "port must be 1..65535, it is 0"),
    "a table for a text": ({"state_dir": {}}, "at `$.state_dir`"),
    "a runner that is unknown": ({"agent": {"runner": "ssh"}}, "at `$.agent.runner`"),
    "a program without a name": (
        {"agent": {"runner": "command", "command": {"argv": []}}},
        "argv names no program",
    ),
    "an address that others can reach": (
        {"http": {"host": "0.0.0.0", "port": 0}},
        "host 0.0.0.0 can be reached from other machines: set token_file",
    ),
    "a runner without its section": (
        {"agent": {"runner": "command"}},
        "agent.runner is command: add the section [agent.command]",
    ),
    "an agent over MQTT without a broker": (
        {"agent": {"runner": "mqtt", "mqtt": {"agent": "a"}}},
        "agent.runner is mqtt: add the sections [mqtt] and [agent.mqtt]",
    ),
    "a wait that is over at once": (
        {"ovos": {"replay_after": "mycroft.ready"}},
        "ovos.replay_after waits for 'mycroft.ready' at most as long as events.replay_delay_s",
    ),
    "a directory without a name": ({"state_dir": ""}, "state_dir must not be empty"),
    "a board without a name": ({"board": {"port": ""}}, "port must not be empty"),
    "all addresses": ({"http": {"host": ""}}, "host '' can be reached from other machines"),
    "a socket without a name": ({"http": {"unix_socket": ""}}, "unix_socket must not be empty"),
    "an OVOS port that is none": ({"ovos": {"port": 0}}, "port must be 1..65535, it is 0"),
    "an agent without a name": ({"agent": {"mqtt": {"agent": ""}}}, "agent must not be empty"),
    "a topic that is a filter": (
        {"agent": {"mqtt": {"agent": "a", "prefix": "#"}}},
        "prefix must be topic levels without wildcards, it is '#'",
    ),
    "a topic that no broker takes": ({"mqtt": {"base": "a\nb"}}, "base holds a character"),
    "a URL without a host": (
        {"agent": {"http": {"url": "http://"}}},
        "url names no host that a request can go to",
    ),
}
"""What is wrong in the file itself."""

_RUNNERS: dict[str, dict[str, Any]] = {
    "mqtt": {"agent": "a"},
    "http": {"url": "http://127.0.0.1:9000/"},
    "command": {"argv": ["x"]},
}
_LIMITS = (
    *("mqtt.time_limit_s", "mqtt.online_limit_s", "mqtt.lease_s", "mqtt.cancel_limit_s"),
    *("mqtt.offline_grace_s", "mqtt.output_limit_bytes"),
    *("http.time_limit_s", "http.connect_limit_s", "http.cancel_limit_s"),
    *("http.output_limit_bytes", "command.time_limit_s", "command.stop_grace_s"),
    "command.output_limit_bytes",
)

IMPOSSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "anything that is wrong": WRONG["a misspelt key"],
    "several boards": (
        {"board": {"glob": "TOKEN*"}},
        "several serial ports could be the board; name one of: TOKEN, TOKEN-2",
    ),
    "a token that is not there": (
        {"http": {"port": 0, "token_file": "/nowhere/token"}},
        "/nowhere/token cannot be used: No such file or directory",
    ),
    "an address of another machine": (
        {"http": {"port": 0, "host": "192.0.2.1", "token_file": "TOKEN"}},
        "http: 192.0.2.1 port 0: this machine has no such address",
    ),
    "a host that is unknown": (
        {"http": {"port": 0, "host": "no-such-host.invalid", "token_file": "TOKEN"}},
        "http: no-such-host.invalid port 0: no address is known for this name",
    ),
    "a socket in a directory that is not there": (
        {"http": {"port": 0, "unix_socket": "/nowhere/socket"}},
        "http: /nowhere/socket cannot be made: No such file or directory",
    ),
    "a socket with too long a name": (
        {"http": {"port": 0, "unix_socket": f"/tmp/{'x' * 200}"}},
        "cannot be made: AF_UNIX path too long",
    ),
    "a state directory below a file": (
        {"state_dir": "TOKEN/state"},
        "TOKEN cannot be used: is not a directory",
    ),
}
"""What only the start finds out. TOKEN stands for a file that is there, and TOKEN-2 for another."""


@pytest.mark.parametrize("name", WRONG)
def test_a_configuration_that_is_wrong_is_refused_with_the_place(name: str) -> None:
    sections, said = WRONG[name]
    with pytest.raises(ConfigError, match=re.escape(said)) as refused:
        parse_config(toml_of(sections), "bridge.toml")
    assert str(refused.value).startswith("bridge.toml: ")


@pytest.mark.parametrize("limit", _LIMITS)
def test_a_limit_that_cannot_work_is_refused_by_name(limit: str) -> None:
    """Neither a busy loop nor a wait without end can be configured."""
    runner, name = limit.split(".")
    section = toml_of({"agent": {runner: _RUNNERS[runner]}})
    for value in ["-1", *([] if name.endswith("_bytes") else ["nan", "inf"])]:
        with pytest.raises(ConfigError, match=rf"{name} must be .* - at `\$.agent.{runner}`"):
            parse_config(f"{section}{name} = {value}\n", "bridge.toml")


async def test_a_start_that_cannot_be_is_refused_with_the_remedy(tmp_path: Path) -> None:
    found: dict[str, Ended] = {}
    token = tmp_path / "token"
    for path in (token, tmp_path / "token-2"):
        path.write_text("secret\n")

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(each) for key, each in value.items()}
        return value.replace("TOKEN", str(token)) if isinstance(value, str) else value

    few = asyncio.Semaphore(3)

    async def start(name: str) -> None:
        bridge = BridgeProcess(tmp_path / name, port=str(tmp_path / "no-board"))
        bridge.config |= filled(IMPOSSIBLE[name][0])
        async with few:
            found[name] = await bridge.run_to_end()

    async with asyncio.TaskGroup() as group:
        for name in IMPOSSIBLE:
            group.create_task(start(name))
    wrong = {
        name: (ended, said)
        for name, ended in found.items()
        if not is_plain(ended) or (said := filled(IMPOSSIBLE[name][1])) not in ended.text
    }
    assert not wrong, "\n".join(f"{name}: {each}" for name, each in wrong.items())


def is_plain(ended: Ended) -> bool:
    """Whether a daemon ended with exit 1 and one sentence for a person."""
    return (
        ended.code == 1
        and ended.text.startswith("wakebridge: ")
        and ended.text.count("\n") == 0
        and "Traceback" not in ended.text
        and "[Errno" not in ended.text
    )


def _not_utf8(path: Path) -> None:
    path.write_bytes(b'state_dir = "\xff"')


FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda _: None, "cannot be read: No such file or directory"),
    "no toml": (lambda path: path.write_text("[board\n"), "is not TOML: "),
    "not utf-8": (_not_utf8, "is not UTF-8: "),
    "given twice": (lambda path: path.write_text("a = 1\na = 2\n"), "is not TOML: "),
    "nested too deep": (lambda path: path.write_text("a = " + "[" * 9999), "is not TOML: "),
}


@pytest.mark.parametrize("name", FILES)
async def test_a_file_that_cannot_be_read_is_named(name: str, tmp_path: Path) -> None:
    make, said = FILES[name]
    path = tmp_path / "bridge.toml"
    make(path)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "wakebridge", "serve", "--config", str(path)),
        stderr=asyncio.subprocess.PIPE,
    )
    _, text = await process.communicate()
    ended = Ended(process.returncode or 0, text.decode().rstrip("\n"))
    assert is_plain(ended), ended
    assert ended.text.startswith(f"wakebridge: {path} {said}")


async def test_a_taken_unix_socket_is_left_to_its_listener_and_a_stale_one_is_replaced(
    board: DeskBoard, tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port)
    bridge.config["http"]["unix_socket"] = str(path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        ended = await bridge.run_to_end()
        assert is_plain(ended), ended
        assert ended.text.endswith(f"{path} cannot be made: another program listens on it")
        assert path.is_socket()
    async with bridge:  # nobody listens any more, as after a kill -9
        assert path.stat().st_mode & 0o777 == 0o600
        assert await bridge.stop() == 0
    assert not path.exists()


@pytest.mark.parametrize("what", ["/dev/null", "file", "directory", "nothing"])
async def test_a_port_that_is_no_board_is_described_and_the_rest_serves(
    what: str, tmp_path: Path
) -> None:
    """A board may be plugged in at any time, so this is no reason not to start."""
    port = tmp_path / "port"
    match what:
        case "file":
            port.write_bytes(b"")
        case "directory":
            port.mkdir()
        case "/dev/null":
            port.symlink_to(os.devnull)
    async with BridgeProcess(tmp_path / "bridge", port=str(port)) as bridge:
        await bridge.open_session("chat")
        refused = await bridge.tool("chat", action="create", task="x", delay_s=60)
        assert refused.error["code"] == Code.MCU_UNAVAILABLE
        health = await bridge.health()
        assert str(port) in health["board"]["problem"]
        assert await bridge.stop() == 0
