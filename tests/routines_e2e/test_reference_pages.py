"""What the pages about agents and routines show is what the code reads and does."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from wakebridge.adapters.http.operation import BODY_MAX_BYTES, BODY_TIMEOUT_S
from wakebridge.config import parse_config
from wakebridge.routine import envelope, limits, tool
from wakebridge.routine.change import Code
from wakebridge.routine.state import Status
from wakebridge.runner import command, http, messages, mqtt
from wakebridge.runner.port import RunRequest

PAGES = Path(__file__).parents[2] / "host" / "docs" / "reference"
AGENTS = (PAGES / "agents.md").read_text(encoding="utf-8")
ROUTINES = (PAGES / "routines.md").read_text(encoding="utf-8")


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def flat(page: str) -> str:
    return " ".join(page.split())


def test_every_message_that_is_shown_is_understood() -> None:
    shown = [messages.read_report(block) for block in blocks(AGENTS, "json report")]
    assert not [each for each in shown if isinstance(each, str)]
    assert {type(each) for each in shown} == set(messages.Report.__args__)


@pytest.mark.parametrize("block", blocks(AGENTS, "json run"))
def test_every_run_that_is_shown_has_the_fields_of_one(block: str) -> None:
    shown: dict[str, Any] = json.loads(block)
    assert set(shown) - {"callback"} == set(RunRequest.__struct_fields__)
    msgspec.convert(shown, RunRequest)


@pytest.mark.parametrize("block", blocks(AGENTS, "toml"))
def test_every_configuration_that_is_shown_is_one(block: str) -> None:
    agent = parse_config(block, "the page").agent
    [(runner, shown)] = [
        (name, section)
        for name, section in tomllib.loads(block)["agent"].items()
        if isinstance(section, dict)
    ]
    assert agent.runner == runner
    defaults = {
        "command": command.CommandConfig(argv=("x",)),
        "http": http.HttpConfig(url="http://x"),
        "mqtt": mqtt.MqttRunnerConfig(agent="x"),
    }[runner]
    for name, value in shown.items():
        if name.endswith(("_s", "_bytes")):
            assert getattr(defaults, name) == value, name


@pytest.mark.parametrize("block", blocks(ROUTINES, "json call"))
def test_every_call_that_is_shown_is_accepted(block: str) -> None:
    call = envelope.read_call(block.encode())
    assert isinstance(call, envelope.Call)
    assert isinstance(tool.parse(call.input), tool.Create)


def test_the_limits_on_the_pages_are_those_of_the_code() -> None:
    assert f"1 to {limits.TASK_MAX_CHARS} characters" in ROUTINES
    assert ROUTINES.count(f"1 to {limits.DELAY_MAX_S}") >= 2
    assert f"there are {limits.ROUTINES_LIVE_MAX} live routines" in ROUTINES
    assert f"at most {BODY_MAX_BYTES // 2**20} MiB and {BODY_TIMEOUT_S:.0f} s" in flat(ROUTINES)
    assert f"at most {messages.LINE_MAX_BYTES // 2**20} MiB" in flat(AGENTS)
    assert f"{command.OUTPUT_LIMIT_BYTES // 2**20} MiB (`output_limit_bytes`)" in flat(AGENTS)
    assert f"the last {command.STDERR_KEPT_BYTES // 1024} kB" in flat(AGENTS)
    assert limits.RUNS_ACTIVE_MAX == 4
    assert "four scheduled and background runs" in flat(AGENTS)


def test_every_status_and_every_refusal_is_explained() -> None:
    assert [each.value for each in Status if f"| `{each.value}` |" not in ROUTINES] == []
    said_by_the_tool = set(Code) - {Code.SESSION_EXISTS}
    assert [each.value for each in said_by_the_tool if f"| `{each.value}` |" not in ROUTINES] == []


def test_every_operation_that_the_pages_name_is_served() -> None:
    served = json.loads((PAGES / "openapi.json").read_text(encoding="utf-8"))["paths"]
    named = re.findall(r"`(GET|POST|PUT|DELETE) (/api/[^` ]*)", AGENTS + ROUTINES)
    assert len(named) > 10
    for method, path in named:
        known = path.replace("{id}", "{session_id}").replace("tools/schedule", "tools/{name}")
        assert method.lower() in served[known], path
