"""`wakebridge event`: what people type, what they read, and what the bridge then does."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pytest

from bridges import BridgeProcess, Owner
from brokers import Mosquitto, free_port
from command_line import CommandLine, run
from wakebridge.adapters.cli.main import main

pytestmark = pytest.mark.timeout(60)


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from leaves(each, (*path, name))
    else:
        yield path


def command_at(path: tuple[str, ...]) -> click.Command:
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return command


@pytest.mark.parametrize(
    "path",
    [path for path in leaves(main) if path[0] in {"event", "board", "routine", "session"}],
    ids=" ".join,
)
def test_every_command_prints_json_when_asked(path: tuple[str, ...]) -> None:
    assert any("--json" in parameter.opts for parameter in command_at(path).params)


@pytest.mark.parametrize("path", list(leaves(main)), ids=" ".join)
def test_every_help_fits_the_width(path: tuple[str, ...]) -> None:
    command = command_at(path)
    context = click.Context(command, info_name=" ".join(("wakebridge", *path)), terminal_width=80)
    assert max(map(len, command.get_help(context).splitlines())) <= 80


async def test_an_event_is_shown_accepted_listed_fired_and_gone(
    bridge: BridgeProcess, broker: Mosquitto, wakebridge: CommandLine
) -> None:
    async with Owner(broker.port, name="demo") as owner:
        added = await wakebridge(
            *("event", "add", "tea", "--owner", "demo", "--in", "2s", "--data", '{"cup": 1}')
        )
        asked, due, accepted = added.lines
        assert asked == "demo.tea: once after 2s"
        assert accepted.startswith("Accepted: tea of demo, next 2")
        assert due.strip()[:19] == accepted.split()[-1][:19]
        listed = await wakebridge("event", "list", "--owner", "demo")
        assert listed.lines[0].split() == ["OWNER", "ID", "WHEN", "NEXT", "MISSED"]
        assert listed.lines[1].split()[:2] == ["demo", "tea"]
        await owner.until(lambda: len(owner.fired) == 1)
        assert owner.fired[0].data == {"cup": 1}
    gone = await wakebridge("event", "list", "--owner", "demo")
    assert gone.out == "demo has no schedules.\n"


FORMS = {
    "at": (("--at", "2031-03-29T07:30:00+01:00"), "at 2031-03-29T07:30:00+01:00"),
    "in": (("--in", "1h30m"), "once after 1h30m"),
    "every": (("--every", "24h", "--count", "3"), "every 1d"),
    "local": (
        ("--local", "07:30", "--days", "mon-wed,sat", "--zone", "Europe/Lisbon"),
        "07:30 mon,tue,wed,sat Europe/Lisbon",
    ),
    "weekly": (("--every", "1w", "--start", "2031-01-01T00:00:00Z"), "every 7d"),
    "daily": (("--local", "07:30", "--zone", "America/New_York"), "07:30 daily America/New_York"),
}


async def test_every_form_of_time_can_be_typed_listed_shown_replaced_and_cancelled(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    async def add(name: str, words: tuple[str, ...], when: str) -> None:
        added = await wakebridge("event", "add", name, "--owner", "skill", *words)
        assert added.lines[0] == f"skill.{name}: {when}"

    async def cancel(name: str) -> None:
        cancelled = await wakebridge("event", "cancel", name, "--owner", "skill")
        assert cancelled.out == f"Cancelled: {name}\n"

    await asyncio.gather(*(add(name, *form) for name, form in FORMS.items()))
    again = await wakebridge("event", "add", "in", "--owner", "skill", "--in", "2h", "--json")
    assert again.json["replaced"]
    listed = await wakebridge("event", "list", "--owner", "skill")
    assert len(listed.lines) == 1 + len(FORMS)
    as_json = (await wakebridge("event", "list", "--owner", "skill", "--json")).json
    assert {pair["record"]["id"] for pair in as_json} == set(FORMS)
    shown = await wakebridge("event", "show", "every", "--owner", "skill")
    fields = dict(line.split(maxsplit=1) for line in shown.lines)
    assert (fields["when"], fields["remaining"]) == ("every 1d", "3")
    record = (await wakebridge("event", "show", "local", "--owner", "skill", "--json")).json
    assert record["record"]["local"]["days"] == ["mon", "tue", "wed", "sat"]
    await asyncio.gather(*(cancel(name) for name in FORMS))
    nothing = await wakebridge("event", "cancel", "in", "--owner", "skill")
    assert nothing.out == "skill has no schedule 'in': nothing to cancel\n"
    assert not (await wakebridge("event", "cancel", "in", "--owner", "skill", "--json")).json[
        "existed"
    ]


async def test_a_dry_run_shows_what_would_be_and_needs_no_bridge(tmp_path: Path) -> None:
    nobody = CommandLine(tmp_path / "none.toml")
    when = ("--local", "02:30", "--zone", "Europe/Lisbon", "--until", "2031-01-01T00:00:00Z")
    dry = await nobody("event", "add", "x", "--owner", "demo", *when, "--dry-run")
    assert dry.lines[0] == "demo.x: 02:30 daily Europe/Lisbon"
    occurrences = [datetime.fromisoformat(line.strip()) for line in dry.lines[1:]]
    assert len(occurrences) == 5
    assert all(each > datetime.now(UTC) for each in occurrences)
    json_too = await nobody("event", "add", "x", "--owner", "demo", *when, "--dry-run", "--json")
    assert json_too.json["occurrences"] == [line.strip() for line in dry.lines[1:]]
    start = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    few = ("--every", "1h", "--start", start, "--count", "2")
    counted = await nobody("event", "add", "x", "--owner", "demo", *few, "--dry-run")
    assert len(counted.lines) == 3


MISTAKES = {
    "no form of time": (("event", "add", "x", "--owner", "d"), 1, "exactly one of at, in, every"),
    "two forms": (
        ("event", "add", "x", "--owner", "d", "--in", "1s", "--every", "1s"),
        1,
        "the request has in and every",
    ),
    "no zone": (("event", "add", "x", "--owner", "d", "--local", "07:30"), 1, "zone"),
    "an unknown zone": (
        ("event", "add", "x", "--owner", "d", "--local", "07:30", "--zone", "Moon/Base"),
        1,
        "Moon/Base",
    ),
    "no instant": (("event", "add", "x", "--owner", "d", "--at", "soon"), 1, "RFC 3339"),
    "no span": (("event", "add", "x", "--owner", "d", "--in", "soon"), 2, "length of time"),
    "a span that never ends": (
        ("event", "add", "x", "--owner", "d", "--in", "inf"),
        2,
        "length of",
    ),
    "a span beyond all numbers": (
        ("event", "add", "x", "--owner", "d", "--in", "9" * 400 + "w"),
        2,
        "length of time",
    ),
    "a zone for a span": (
        ("event", "add", "x", "--owner", "d", "--in", "1s", "--zone", "Europe/Lisbon"),
        2,
        "--zone: only with --local",
    ),
    "days for a period": (
        ("event", "add", "x", "--owner", "d", "--every", "1h", "--days", "mon", "--dry-run"),
        2,
        "--days: only with --local",
    ),
    "a start for a span": (
        ("event", "add", "x", "--owner", "d", "--in", "1s", "--start", "2126-01-01T00:00:00Z"),
        2,
        "--start: only with --every",
    ),
    "no day": (
        ("event", "add", "x", "--owner", "d", "--local", "07:30", "--days", "may"),
        2,
        "not a weekday",
    ),
    "no JSON": (
        ("event", "add", "x", "--owner", "d", "--in", "1s", "--data", "{cup"),
        2,
        "not JSON",
    ),
    "data that is no object": (
        ("event", "add", "x", "--owner", "d", "--in", "1s", "--data", "[1]"),
        1,
        "data",
    ),
    "no owner": (("event", "list"), 2, "--owner"),
    "an owner without a name": (
        ("event", "add", "x", "--owner", "", "--in", "1s", "--dry-run"),
        2,
        "an owner has a name",
    ),
    "an owner that is no text": (
        ("event", "show", "x", "--owner", "d\udcff"),
        2,
        "is not text in the encoding of the terminal",
    ),
    "an unknown bus": (
        ("event", "add", "x", "--owner", "d", "--in", "1s", "--route", "bus", "--dry-run"),
        2,
        "'bus' is not one of",
    ),
    "an unknown schedule": (("event", "show", "x", "--owner", "d"), 1, "no schedule 'x'"),
    "an unknown command": (("event", "wish"), 2, "wish"),
}


async def test_an_administrator_cancels_one_of_several_of_the_same_id(
    stopped: BridgeProcess, wakebridge: CommandLine
) -> None:
    stopped.config["events"] = {"administrators": ["admin"]}
    async with stopped:
        for owner in ("demo", "other"):
            await wakebridge("event", "add", "x", "--owner", owner, "--in", "1h")
        which = await wakebridge("event", "cancel", "x", "--owner", "admin", code=1)
        assert "several owners have a schedule 'x'" in which.reason
        refused = ("event", "cancel", "x", "--owner", "demo", "--of", "other")
        assert "not yours" in (await wakebridge(*refused, code=1)).reason
        done = await wakebridge("event", "cancel", "x", "--owner", "admin", "--of", "other")
        assert done.out == "Cancelled: x\n"
        left = (await wakebridge("event", "list", "--owner", "admin", "--json")).json
        assert [pair["record"]["skill_id"] for pair in left] == ["demo"]


async def test_a_mistake_is_told_in_a_sentence_and_changes_nothing(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    async def make(words: tuple[str, ...], code: int, expected: str) -> None:
        said = await wakebridge(*words, code=code)
        assert expected in said.reason
        assert said.out == ""

    await asyncio.gather(*(make(*mistake) for mistake in MISTAKES.values()))
    assert (await bridge.health())["events"]["schedules"] == 0


async def test_a_bridge_that_does_not_answer_is_said_to_and_where(tmp_path: Path) -> None:
    config = tmp_path / "bridge.toml"
    wakebridge = CommandLine(config)
    ask = ("event", "list", "--owner", "demo")
    assert "cannot be read" in (await wakebridge(*ask, code=1)).reason
    config.write_text("[http")
    assert "is not TOML" in (await wakebridge(*ask, code=1)).reason
    config.write_text("")
    assert "no section [http]" in (await wakebridge(*ask, code=1)).reason
    config.write_text(f"[http]\nport = {free_port()}\n")
    away = (await wakebridge(*ask, code=1)).reason
    assert "does not answer" in away
    assert "Connection refused" in away
    for url in ("nonsense", "ftp://127.0.0.1", "http://[::1", "http://127.0.0.1:99999", "http://"):
        said = (await run("--url", url, *ask)).check()
        assert said.code == 1
        assert "is no address: write http://127.0.0.1:8377" in said.reason
    config.write_text('[http]\ntoken_file = "nowhere"\n')
    assert "token cannot be read" in (await wakebridge(*ask, code=1)).reason


async def test_a_token_and_a_socket_are_used_when_the_configuration_has_them(
    stopped: BridgeProcess, wakebridge: CommandLine, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret-of-a-test\n")
    socket = tmp_path / "http.sock"
    stopped.config["http"] |= {"token_file": str(token), "unix_socket": str(socket)}
    stopped.config["events"] = {"administrators": ["admin"]}
    async with stopped:
        await wakebridge("event", "add", "x", "--owner", "demo", "--in", "1h")
        seen = (await wakebridge("event", "list", "--owner", "admin", "--json")).json
        assert [pair["record"]["skill_id"] for pair in seen] == ["demo"]
        url = f"http://127.0.0.1:{stopped.http_port}"
        ask = ("event", "list", "--owner", "demo", "--json")
        without = (await run("--url", url, *ask)).check()
        assert without.code == 1
        assert "Authorization: Bearer" in without.reason
        named = await run("--url", url, "--config", str(wakebridge.config), *ask)
        assert len(json.loads(named.out)) == 1
        watching = await run("--url", url, "board", "watch")
        assert (watching.code, watching.out) == (1, "")
        socket.unlink()
        assert len((await wakebridge(*ask)).json) == 1  # the port is still there
