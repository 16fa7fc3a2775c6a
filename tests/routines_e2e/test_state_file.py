"""The state file of a running bridge: private, whole, and never written when it is not understood.

Case A15, R30, R31, and `wakebridge state`.
"""

import json
import stat
from typing import Any

import pytest

from bridges import BridgeProcess
from command_line import CommandLine
from scenes import create, restart

CREATE = {"action": "create", "task": "x", "delay_s": 600}


@pytest.fixture
def wakebridge(bridge: BridgeProcess) -> CommandLine:
    """The command line for the bridge."""
    return CommandLine(bridge.directory / "bridge.toml")


def listed(bridge: BridgeProcess) -> dict[str, tuple[int, bytes]]:
    """Return every file of the routines with its inode and content."""
    folder = bridge.state_file.parent
    return {
        path.name: (path.stat().st_ino, path.read_bytes())
        for path in sorted(folder.iterdir())
        if path.is_file()
    }


async def serves_all_but_the_tool(bridge: BridgeProcess) -> None:
    """Check R31: no schedule tool, said in health and log; everything else is as ever."""
    await bridge.said("countdown")
    tools = await bridge.http("GET", "/api/tools")
    assert (tools.status, tools.body) == (200, [])
    health = await bridge.health()
    assert health["routines"]["available"] is False
    assert str(bridge.state_file) in health["routines"]["problem"]
    errors = [line for line in bridge.lines if line.get("level") == "error"]
    assert any(str(bridge.state_file) in line["message"] for line in errors)
    call = {"input": CREATE, "session_id": "chat"}
    refused = await bridge.http("POST", "/api/tools/schedule", call)
    assert (refused.status, refused.body["error"]["code"]) == (404, "internal")
    assert "the tool is off" in refused.body["error"]["reason"]
    for method, path, body in (
        ("POST", "/api/sessions", {"session_id": "new"}),
        ("GET", "/api/sessions", None),
        ("POST", "/api/sessions/chat/runs", {"kind": "background", "task": "x"}),
        ("POST", "/api/sessions/chat/busy", {"lease_s": 5}),
    ):
        refused = await bridge.http(method, path, body)
        assert (refused.status, refused.body["error"]["code"]) == (503, "internal")
    # Everything else: the board, its timer by hand, scheduled events.
    assert (await bridge.http("GET", "/api/board")).status == 200
    assert (await bridge.http("PUT", "/api/mcu/timer", {"duration_s": 60})).status == 200
    assert (await bridge.http("DELETE", "/api/mcu/timer")).status == 200
    asked = {"data": {}, "context": {"skill_id": "demo"}}
    assert (await bridge.http("POST", "/api/scheduler/list", asked)).body["ok"] is True


async def test_a15_r1_an_empty_file_is_left_and_the_previous_generation_is_restored(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    ids = [await create(bridge, "x", delay_s=600 + n) for n in range(3)]
    # The previous generation has two of them.
    assert await bridge.stop() == 0
    bridge.state_file.write_bytes(b"")
    before = listed(bridge)
    await bridge.start()
    await serves_all_but_the_tool(bridge)
    assert listed(bridge) == before

    running = await wakebridge("state", "restore", code=1)
    assert "stop it first" in running.reason
    assert await bridge.stop() == 0
    assert listed(bridge) == before
    checked = await wakebridge("state", "check", code=1)
    assert checked.lines[0] == "current   cannot be loaded: the file is empty (0 bytes)"
    assert checked.lines[2].startswith("previous  2 routine(s)")
    assert "wakebridge state restore" in checked.lines[-1]
    facts = await wakebridge("state", "check", "--json", code=1)
    assert json.loads(facts.out)["loads"] is False

    restored = await wakebridge("state", "restore")
    assert restored.lines[0] == "Restored 2 routine(s). Start the bridge again."
    assert restored.lines[2].endswith("/routines/state.json.broken-1")
    assert listed(bridge)["state.json.broken-1"] == before["state.json"]
    assert (await wakebridge("state", "check")).lines[0].startswith("current   2 routine(s)")
    await restart(bridge)
    assert [each["id"] for each in (await bridge.tool(action="list")).result] == ids[:2]
    again = await wakebridge("state", "restore", code=1)
    assert "stop it first" in again.reason


@pytest.mark.parametrize("how", ["cut in the middle", "an unknown kind"])
async def test_a15_r2_r3_what_is_not_understood_is_never_written_over(
    how: str, bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    for n in range(3):
        await create(bridge, "x", delay_s=600 + n)
    assert await bridge.stop() == 0
    whole = bridge.state_file.read_bytes()
    if how == "cut in the middle":
        bridge.state_file.write_bytes(whole[: len(whole) // 2])
        bridge.state_file.with_name("state.json.previous").unlink()
    else:
        document = json.loads(whole)
        document["routines"][1]["rule"]["kind"] = "lunar"
        bridge.state_file.write_text(json.dumps(document))
    before = listed(bridge)
    await bridge.start()
    await serves_all_but_the_tool(bridge)
    # Nobody knows which sessions there are, so none is said not to be.
    shown = await wakebridge("session", "show", "chat", code=1)
    assert "the ledger cannot be read" in " ".join(shown.reason.split())
    assert await bridge.stop() == 0
    # What people are told to do is what can be done.
    checked = " ".join((await wakebridge("state", "check", code=1)).out.split())
    if how == "cut in the middle":
        assert "move it away to start empty" in checked
        tried = " ".join((await wakebridge("state", "restore", code=1)).reason.split())
        assert "Nothing is left to restore from" in tried
    else:
        assert "mend it by: wakebridge state restore" in checked
    assert listed(bridge) == before


async def test_r31_the_tool_is_back_after_the_repair_and_a_restart(
    bridge: BridgeProcess,
) -> None:
    routine_id = await create(bridge, "x", delay_s=600)
    assert await bridge.stop() == 0
    whole = bridge.state_file.read_bytes()
    bridge.state_file.write_bytes(whole.replace(b'"version": 1', b'"version": 2'))
    await bridge.start()
    await serves_all_but_the_tool(bridge)
    assert await bridge.stop() == 0
    bridge.state_file.write_bytes(whole)
    await restart(bridge)
    assert (await bridge.http("GET", "/api/tools")).body[0]["name"] == "schedule"
    assert (await bridge.routine(routine_id))["status"] == "scheduled"


async def test_r31_a_missing_file_beside_a_previous_one_is_not_taken_for_a_first_start(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    await create(bridge, "x", delay_s=600)
    await create(bridge, "x", delay_s=601)
    assert await bridge.stop() == 0
    bridge.state_file.unlink()
    await bridge.start()
    assert (await bridge.http("GET", "/api/tools")).body == []
    assert await bridge.stop() == 0
    checked = await wakebridge("state", "check", code=1)
    assert checked.lines[0] == "current   there is none"
    assert "is missing, and the previous one is there" in " ".join(checked.lines)
    assert "Restored 1 routine(s)" in (await wakebridge("state", "restore")).out
    await restart(bridge)
    assert len((await bridge.tool(action="list")).result) == 1


async def test_r30_r31_the_file_is_private_and_loading_writes_nothing(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    await create(bridge, "x", delay_s=600)
    assert stat.S_IMODE(bridge.state_file.stat().st_mode) == 0o600
    assert bridge.state_file == bridge.config_dir / "routines" / "state.json"
    await bridge.kill()
    before = listed(bridge)
    for _ in range(2):
        await restart(bridge)
        assert (await bridge.tool(action="list")).timer_error == ""
        assert await bridge.stop() == 0
    assert listed(bridge) == before
    checked = await wakebridge("state", "check")
    assert checked.lines[0].startswith("current   1 routine(s)")
    bridge.state_file.chmod(0o644)
    warned = await wakebridge("state", "check")
    assert any("has mode 0644 instead of 0600" in line for line in warned.lines)
    document = json.loads((await wakebridge("state", "show")).out)
    assert [each["task"] for each in document["routines"]] == ["x"]
    previous = json.loads((await wakebridge("state", "show", "--previous")).out)
    assert previous["routines"] == []


async def test_r30_what_cannot_be_saved_has_not_happened(bridge: BridgeProcess) -> None:
    """With no place to write to, a request is refused and the tool stays; with it, all is well."""
    kept = await create(bridge, "x", delay_s=600)
    folder, aside = bridge.state_file.parent, bridge.config_dir / "aside"
    folder.rename(aside)
    folder.write_text("in the way")
    refused = await bridge.tool("chat", **CREATE)
    assert refused.error["code"] == "internal"
    assert "could not be saved" in refused.error["reason"]
    cancelled = await bridge.tool(action="cancel", id=kept)
    assert cancelled.error["code"] == "internal"
    session = await bridge.http("POST", "/api/sessions", {"session_id": "new"})
    assert session.status == 503
    assert [each["status"] for each in (await bridge.tool(action="list")).result] == ["scheduled"]
    folder.unlink()
    aside.rename(folder)
    assert (await bridge.tool("chat", **CREATE)).timer_error == ""
    assert len((await bridge.tool(action="list")).result) == 2
    await bridge.kill()
    await restart(bridge)
    shown: list[Any] = (await bridge.tool(action="list")).result
    assert [each["id"] for each in shown][:1] == [kept]
    assert len(shown) == 2
