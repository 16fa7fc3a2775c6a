"""The payloads of case A13, noise and lies on the line of the running pair: counted, survived."""

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest

from bridges import BridgeProcess, Journal, Owner, asking
from reference_wire import frame
from wakebridge.board.client import Reading
from wakebridge.simboard import DeskBoard
from wakewire import codes, framing
from wakewire.messages import Event

CASE: dict[str, Any] = next(
    case
    for case in json.loads((Path(__file__).parents[1] / "data/wire-cases.json").read_text())
    if case["id"] == "A13"
)
VALID = bytes.fromhex(CASE["input"]["then_valid_hex"])


def payload_of(written: str) -> bytes:
    """Return the bytes of `81 x5000 then 00`: a piece, how often, and what follows."""
    match = re.fullmatch(r"([0-9a-f]+)(?: x(\d+))?(?: then ([0-9a-f]+))?", written)
    assert match is not None
    piece, times, tail = match.groups(default="")
    return bytes.fromhex(piece) * int(times or 1) + bytes.fromhex(tail)


PAYLOADS = [payload_of(written) for written in CASE["input"]["payloads_hex"]]
TOO_LONG = sum(len(payload) > 192 for payload in PAYLOADS)
REFUSED = len(PAYLOADS) - TOO_LONG

# What a REPL acts upon is left out: a Ctrl-C is a technician's and no noise.
NOISE = bytes(each for each in random.Random(13).randbytes(4096) if each > 0x04)


def resident_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) * 1024


async def answer_s(bridge: BridgeProcess) -> float:
    """Return how long a question to the board takes; it must be answered."""
    began_s = time.monotonic()
    assert (await bridge.timer())["state"] == "armed"
    return time.monotonic() - began_s


async def test_a13_the_board_counts_and_drops_it_and_answers_the_next_request(
    board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    await owner.schedule("a", **{"in": {"seconds": 3600}})
    await owner.until_timer(state="armed", timer_error="")
    before, mark = await bridge.at_rest(), bridge.mark()
    slowest_s = 0.0
    for payload in PAYLOADS:
        board.inject("to_board", frame(payload) + frame(VALID))
        slowest_s = max(slowest_s, await answer_s(bridge))
    board.inject("to_board", NOISE)
    await answer_s(bridge)
    after = await bridge.health()
    assert after["board"]["boot_id"] == before["board"]["boot_id"]
    assert after["timer"] == before["timer"]
    assert bridge.lines[mark:] == []
    assert slowest_s < 0.5
    assert await bridge.stop() == 0
    async with asking(board.port) as client:
        read = await client.diag()
    assert isinstance(read, Reading)
    diag = read.value
    assert (diag.overlong or 0) >= TOO_LONG
    assert diag.bad_payloads == REFUSED + len(PAYLOADS)  # a map is a frame, but no request
    assert board.boots == 1
    print(f"slowest answer after a hostile payload: {slowest_s * 1000:.0f} ms")


async def test_a13_the_host_counts_and_drops_it_and_takes_the_next_answer(
    board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    await owner.schedule("a", **{"in": {"seconds": 3600}})
    await owner.until_timer(state="armed", timer_error="")
    before, mark = await bridge.at_rest(), bridge.mark()
    resident = resident_bytes(bridge.pid)
    for payload in PAYLOADS:
        board.inject("to_host", frame(payload) + frame(VALID))
        assert await answer_s(bridge) < 0.5
    after = await bridge.at_rest()
    counted = {
        name: count - before["board"]["link"][name]
        for name, count in after["board"]["link"].items()
    }
    assert counted["overlong"] == TOO_LONG
    assert counted["bad_messages"] == REFUSED + len(PAYLOADS)
    assert counted["answers"] == counted["requests"] == len(PAYLOADS)
    assert counted["retries"] == counted["crc_errors"] == counted["malformed"] == 0
    assert after["timer"] == before["timer"]

    board.inject("to_host", NOISE * 8)
    await answer_s(bridge)
    # What is no frame counts as console text, of which the log shows a part.
    assert {line["message"] for line in bridge.lines[mark:]} <= {"board console"}
    assert resident_bytes(bridge.pid) - resident < 8 * 2**20


def event_frame(boot_id: bytes, seq: int, source: int = codes.SOURCE_RTC_TIMER) -> bytes:
    return framing.encode(Event(boot_id, seq, source, 1000, 1, 0).encode())


async def test_r40_events_that_the_log_does_not_confirm_run_nothing_however_many_they_are(
    board: DeskBoard, bridge: BridgeProcess, journal: Journal
) -> None:
    """A pushed event is a hint: only what is read from the board's log counts."""
    created = (await bridge.tool("chat", action="create", task="x", delay_s=600)).result
    before, mark = await bridge.at_rest(), bridge.mark()
    boot_id = bytes.fromhex(before["board"]["boot_id"])
    for seq in range(100, 600):
        board.inject("to_host", event_frame(boot_id, seq))
    after = await bridge.at_rest()
    assert bridge.all_said("board event", after=mark) == []
    assert (await bridge.routine(created["id"]))["status"] == "scheduled"
    assert journal.runs() == []
    requests = after["board"]["link"]["requests"] - before["board"]["link"]["requests"]
    assert requests <= 40  # a flood of hints is one question, not five hundred


async def test_a_board_that_lies_about_its_boot_is_greeted_again_and_keeps_its_countdown(
    board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    await owner.schedule("a", **{"in": {"seconds": 3600}})
    await owner.until_timer(state="armed", timer_error="")
    before, mark = await bridge.at_rest(), bridge.mark()
    for number in range(20):
        board.inject("to_host", event_frame(number.to_bytes(8, "big"), 1))
    await bridge.said("board up", after=mark)
    after = await bridge.at_rest()
    assert after["timer"]["timer_error"] == ""
    assert after["timer"]["token"] == before["timer"]["token"]
    assert len(bridge.all_said("board up", after=mark)) <= 20
    assert await answer_s(bridge) < 0.5


@pytest.mark.parametrize("direction", ["to_host", "to_board"])
async def test_a_frame_that_is_garbled_or_lost_is_asked_for_again_and_nobody_notices(
    direction: Any, board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    await bridge.at_rest()
    mark = bridge.mark()
    board.line(direction).garble(4)
    await owner.schedule("a", **{"in": {"seconds": 3600}})
    await bridge.said("countdown", state="armed", error="", after=mark)
    board.line(direction).cut(6)
    await owner.schedule("b", **{"in": {"seconds": 1800}})
    armed = await owner.until_timer(
        wakes_for=(await owner.ask("get", {"id": "b"}))["state"]["next"]
    )
    assert armed["timer_error"] == ""
    assert bridge.all_said("board down", after=mark) == []
    assert (await bridge.health())["board"]["link"]["retries"] >= 2
