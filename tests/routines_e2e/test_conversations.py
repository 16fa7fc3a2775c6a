"""Conversations: what runs where, in which order, and what stays of it (R10, R20 to R23)."""

import json
import stat
from typing import Any

from bridges import BridgeProcess
from noting_agent import Notes
from scenes import create, post, restart, submit, transcript, until, until_noted


def told(entries: list[Any]) -> list[tuple[str, str]]:
    return [(entry["type"], entry["text"]) for entry in entries]


async def test_r20_r23_runs_are_new_inputs_of_the_session_and_their_results_stay(
    bridge: BridgeProcess, notes: Notes
) -> None:
    """Also over a crash of the bridge; one JSON object a line, private."""
    gate = notes.gate()
    first = await create(bridge, f"wait {gate}")
    await until(bridge, first, partial_result="half of it")
    notes.open(gate)
    shown = await until(bridge, first, status="completed")
    assert shown["latest_result"] == f"done: wait {gate}"
    await bridge.kill()
    await restart(bridge)
    second = await create(bridge, "fail")
    shown = await until(bridge, second, status="failed")
    assert shown["latest_error"] == "no such shipment"
    entries = await transcript(bridge)
    assert told(entries) == [
        ("input", f"wait {gate}"),
        ("progress", "half of it"),
        ("result", f"done: wait {gate}"),
        ("input", "fail"),
        ("error", "no such shipment"),
    ]
    assert [entry["routine_id"] for entry in entries] == [first] * 3 + [second] * 2
    path = bridge.config_dir / "routines" / "sessions" / "chat.jsonl"
    assert [json.loads(line) for line in path.read_text().splitlines()] == entries
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {request["session_id"] for request in notes.all()} == {"chat"}


async def test_r22_a_schedule_follows_its_conversation_through_revisions_and_restarts(
    bridge: BridgeProcess, notes: Notes
) -> None:
    gate = notes.gate()
    routine_id = await create(bridge, "go on", delay_s=600)
    await post(bridge, "/api/sessions/chat/revise", new_session_id="chat-2")
    await bridge.kill()
    await restart(bridge)
    await post(bridge, "/api/sessions/chat-2/revise", new_session_id="chat-3")
    assert await bridge.stop() == 0
    await restart(bridge)
    await bridge.tool(action="update", id=routine_id, task=f"wait {gate}", delay_s=1)
    shown = await until(bridge, routine_id, partial_result="half of it")
    # A compaction in the middle of a run: the run ends where it began, the next one is elsewhere.
    await post(bridge, "/api/sessions/chat-3/revise", new_session_id="chat-4")
    notes.open(gate)
    shown = await until(bridge, routine_id, status="completed")
    assert shown["session_id"] == "chat"
    assert shown["latest_run"]["session_id"] == "chat-3"
    assert [request["session_id"] for request in notes.all()] == ["chat-3"]
    assert [entry["type"] for entry in await transcript(bridge, "chat-3")] == [
        "input",
        "progress",
        "result",
    ]
    assert await transcript(bridge) == []
    await until(bridge, await create(bridge, "again", "chat-2"), status="completed")
    assert notes.all()[-1]["session_id"] == "chat-4"


async def test_r22_clearing_makes_the_schedule_fail_and_brings_nothing_back(
    bridge: BridgeProcess, notes: Notes
) -> None:
    due_soon = await create(bridge, "x", delay_s=1)
    routine = await create(bridge, "y", delay_s=300, interval_s=300)
    await post(bridge, "/api/sessions/chat/clear", reason="the user asked for it")
    for routine_id in (due_soon, routine):
        shown = await bridge.routine(routine_id)
        assert (shown["status"], shown["next_run"]) == ("failed", None)
        assert "was cleared (the user asked for it)" in shown["latest_error"]
    assert (await bridge.timer())["state"] == "idle"
    update = await bridge.tool(action="update", id=routine, task="y", delay_s=1)
    assert update.error["code"] == "session_ended"
    again = await bridge.http("POST", "/api/sessions", {"session_id": "chat"})
    assert (again.status, again.body["error"]["code"]) == (409, "session_ended")
    await bridge.kill()
    await restart(bridge)
    # A wake comes by for another conversation, and still only that one runs.
    await bridge.open_session("other")
    other = await create(bridge, "z", "other")
    await until(bridge, other, status="completed")
    assert notes.tasks() == ["z"]
    assert (await bridge.routine(due_soon))["status"] == "failed"


async def test_r22_a_new_root_by_configuration_ends_the_old_conversation(
    bridge: BridgeProcess, notes: Notes
) -> None:
    gate = notes.gate()
    running = await create(bridge, f"wait {gate}")
    waiting = await create(bridge, "y", delay_s=300)
    await until(bridge, running, partial_result="half of it")
    await post(
        bridge,
        "/api/sessions/chat/replace",
        new_session_id="chat-new",
        reason="another model was configured",
    )
    shown = await until(bridge, running, status="failed")
    assert "replaced by a new root (another model was configured)" in shown["latest_error"]
    assert shown["latest_run"]["outcome"] == "interrupted"
    assert shown["partial_result"] == "half of it"
    assert (await bridge.routine(waiting))["status"] == "failed"
    assert notes.tasks("end") == []
    ledger = (await bridge.http("GET", "/api/sessions")).body
    assert [(each["root"], each["status"]) for each in ledger] == [
        ("chat", "replaced"),
        ("chat-new", "open"),
    ]
    assert await transcript(bridge, "chat-new") == []
    fresh = await create(bridge, "z", "chat-new")
    await until(bridge, fresh, status="completed")


async def test_r21_background_work_never_overtakes_a_scheduled_run(
    bridge: BridgeProcess, notes: Notes
) -> None:
    gate = notes.gate()
    await submit(bridge, "background", f"wait {gate}")
    await submit(bridge, "background", "second background")
    routine_id = await create(bridge, "scheduled")
    shown = await until(bridge, routine_id, status="running")
    assert shown["waiting"]
    await submit(bridge, "background", "third background")
    await submit(bridge, "interactive", "interactive")
    notes.open(gate)
    await until_noted(notes, 5)
    assert notes.tasks() == [
        f"wait {gate}",
        "interactive",
        "scheduled",
        "second background",
        "third background",
    ]
    assert notes.tasks("end") == notes.tasks()


async def test_r21_an_interactive_request_may_interrupt_a_scheduled_run(
    bridge: BridgeProcess, notes: Notes
) -> None:
    gate = notes.gate()
    routine_id = await create(bridge, f"wait {gate}", delay_s=1, interval_s=60)
    await until(bridge, routine_id, partial_result="half of it")
    patient = await submit(bridge, "interactive", "patient")
    assert notes.tasks() == [f"wait {gate}"]
    await submit(bridge, "interactive", "urgent", interrupts=True)
    shown = await until(bridge, routine_id, status="interrupted")
    assert "interrupted by an interactive request" in shown["latest_error"]
    assert (shown["partial_result"], shown["next_run"]) == ("half of it", None)
    await bridge.said("run ended", id=patient, outcome="completed")
    assert notes.tasks()[:2] == [f"wait {gate}", "patient"]


async def test_r21_work_can_be_taken_back(bridge: BridgeProcess, notes: Notes) -> None:
    gate = notes.gate()
    active = await submit(bridge, "background", f"wait {gate}")
    queued = await submit(bridge, "background", "never")
    await until_noted(notes, 1, "start")
    for run_id in (queued, active):
        path = f"/api/sessions/chat/runs/{run_id}"
        assert (await bridge.http("DELETE", path)).status == 200
        await bridge.said("run ended", id=run_id, outcome="cancelled")
    assert (await bridge.http("DELETE", path)).status == 404
    assert notes.tasks() == [f"wait {gate}"]
    assert [entry["type"] for entry in await transcript(bridge)][-1] == "cancelled"


async def test_r21_a_scheduled_run_waits_for_a_session_whose_backend_is_busy_on_its_own(
    bridge: BridgeProcess, notes: Notes
) -> None:
    held = await post(bridge, "/api/sessions/chat/busy", lease_s=600)
    assert held == {"active_run": None}
    routine_id = await create(bridge, "x")
    shown = await until(bridge, routine_id, status="running")
    assert shown["waiting"]
    # Other conversations go on meanwhile.
    await bridge.open_session("other")
    other = await create(bridge, "y", "other")
    await until(bridge, other, status="completed")
    assert notes.tasks() == ["y"]
    await post(bridge, "/api/sessions/chat/idle")
    await until(bridge, routine_id, status="completed")
    assert notes.tasks() == ["y", "x"]


async def test_r21_a_lease_that_is_not_renewed_ends_by_itself(
    bridge: BridgeProcess, notes: Notes
) -> None:
    await post(bridge, "/api/sessions/chat/busy", lease_s=600)
    routine_id = await create(bridge, "x")
    await until(bridge, routine_id, waiting=True)
    await post(bridge, "/api/sessions/chat/busy", lease_s=0.3)
    await bridge.said("routine", id=routine_id, status="completed")
    assert notes.tasks() == ["x"]


async def test_r21_r48_busy_is_known_with_the_run_that_is_active_and_may_interrupt_it(
    bridge: BridgeProcess, notes: Notes
) -> None:
    """It is not kept over a restart; what waited because of it is interrupted then (R48)."""
    gate = notes.gate()
    routine_id = await create(bridge, f"wait {gate}")
    await until(bridge, routine_id, partial_result="half of it")
    held = await post(bridge, "/api/sessions/chat/busy", lease_s=600, interrupts=True)
    assert held == {"active_run": f"{routine_id}.1"}
    await until(bridge, routine_id, status="interrupted")
    waiting = await create(bridge, "x")
    await until(bridge, waiting, waiting=True)
    await bridge.kill()
    await restart(bridge)
    assert (await bridge.routine(waiting))["status"] == "interrupted"
    after = await create(bridge, "y")
    await until(bridge, after, status="completed")
    assert notes.tasks() == [f"wait {gate}", "y"]
