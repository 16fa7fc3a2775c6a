"""`wakebridge board lend`: a technician with the real mpremote, and the bridge afterwards (A12)."""

import asyncio
import json
import time
from datetime import datetime
from pathlib import Path

import pytest

from bridges import BridgeProcess, Owner
from brokers import Mosquitto, free_port
from command_line import CommandLine
from desk_mpremote import mpremote
from wakebridge.simboard import DeskBoard

pytestmark = pytest.mark.timeout(90)


def left_s(due: str) -> float:
    return datetime.fromisoformat(due).timestamp() - time.time()


async def until_armed(bridge: BridgeProcess, after: int) -> float:
    line = await bridge.said("countdown", after=after, state="armed", error="")
    return float(line["remaining_ms"]) / 1000


async def test_a_technician_looks_and_leaves_and_the_countdown_was_never_touched(
    board: DeskBoard, bridge: BridgeProcess, broker: Mosquitto, wakebridge: CommandLine
) -> None:
    """R44: what runs is what was planned, so it is left alone."""
    async with Owner(broker.port, name="d") as owner:
        due = await owner.schedule("x", **{"in": {"seconds": 9}})
        await bridge.said("countdown", state="armed", error="")
        mark = bridge.mark()
        offered = await wakebridge("board", "lend", "--for", "30s")
        assert offered.lines[0] == "The port is yours for 30s:"
        # What is printed is what is typed.
        command = offered.lines[1].split("'")
        words = command[0].split()
        assert words[:2] == ["mpremote", "connect"]
        looked = await mpremote(words[2], *words[3:], command[1])
        assert looked.code == 0, looked.output
        assert "looks healthy" in looked.output
        assert all(len(line) <= 80 for line in looked.output.splitlines())
        back = await bridge.said("port back", after=mark)
        assert back["end"] == "the technician left"
        assert await until_armed(bridge, mark) == pytest.approx(left_s(due), abs=1)
        assert (
            bridge.all_said("board up", after=mark)[0]["boot_id"]
            == (bridge.all_said("board up")[0]["boot_id"])
        )
        link = (await bridge.health())["board"]["link"]
        assert link["requests"] == 3  # hello, timer_get, events_get: nothing was set
        await owner.until(lambda: len(owner.fired) == 1)
        assert owner.fired[0].due == due


async def test_a12_r2_a_port_that_was_not_borrowed_is_refused_and_the_doctor_names_its_holder(
    board: DeskBoard, bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    mark = bridge.mark()
    began_s = time.monotonic()
    refused = await mpremote(board.port, "resume", "exec", "import wakeboard.diag")
    assert time.monotonic() - began_s < 5
    assert refused.code != 0
    assert board.port in refused.output
    assert "in use by another program" in refused.output
    assert "Traceback" not in refused.output
    assert (await wakebridge("board", "info")).code == 0
    assert bridge.all_said("board down", after=mark) == []
    assert not board.at_prompt
    doctor = await wakebridge("board", "doctor", "--json")
    [port] = [each for each in json.loads(doctor.out) if each["what"] == "port"]
    assert board.port in port["text"]
    assert f"(pid {bridge.pid})" in port["text"]
    assert port["verdict"] == "good"


async def test_a_technician_who_stops_the_firmware_finds_it_started_again(
    board: DeskBoard, bridge: BridgeProcess, wakebridge: CommandLine, tmp_path: Path
) -> None:
    """mpremote without resume resets the board and leaves it at its prompt."""
    added = (await wakebridge("event", "add", "x", "--owner", "d", "--in", "5m", "--json")).json
    await bridge.said("countdown", state="armed", error="")
    mark = bridge.mark()
    lent = (await wakebridge("board", "lend", "--json")).json
    note = tmp_path / "note.txt"
    note.write_text("from a technician\n")
    copied = await mpremote(lent["url"], "fs", "cp", str(note), ":note.txt")
    assert copied.code == 0, copied.output
    assert board.at_prompt
    back = await bridge.said("port back", after=mark)
    assert back["firmware"] == "the firmware had been stopped and was restarted"
    assert not board.at_prompt
    assert await until_armed(bridge, mark) == pytest.approx(left_s(added["next"]), abs=1)
    assert (board.flash / "note.txt").read_text() == note.read_text()
    assert bridge.all_said("port back", after=mark) == [back]


async def test_the_port_comes_back_from_a_technician_who_stays_too_long(
    board: DeskBoard, bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    mark = bridge.mark()
    lent = (await wakebridge("board", "lend", "--for", "2s", "--json")).json
    assert lent["limit_s"] == 2
    staying = asyncio.create_task(
        mpremote(lent["url"], "resume", "exec", "import time; time.sleep(60)", timeout_s=60)
    )
    back = await bridge.said("port back", after=mark)
    assert back["end"] == "the time limit passed"
    assert back["firmware"] == "the firmware had been stopped and was restarted"
    assert (await staying).code != 0
    assert (await wakebridge("board", "info", "--json")).json["boot_id"]


async def test_the_port_is_lent_once_and_taken_back_when_asked(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    mark = bridge.mark()
    port = free_port()
    lent = (await wakebridge("board", "lend", "--tcp-port", str(port), "--json")).json
    assert lent == {
        "url": f"rfc2217://127.0.0.1:{port}",
        "tcp_port": port,
        "limit_s": 1800,
    }
    second = await wakebridge("board", "lend", code=1)
    assert "lent already" in second.reason
    for command in ("info", "timer", "events"):
        assert "lent to a technician" in (await wakebridge("board", command, code=1)).reason
    doctor = await wakebridge("board", "doctor", "--json")
    [finding] = [each for each in json.loads(doctor.out) if each["what"] == "board"]
    assert finding["verdict"] == "warn"
    assert "take-back" in finding["remedy"]
    taken = await wakebridge("board", "take-back")
    assert taken.out == "The port is back; the firmware runs.\n"
    assert (await bridge.said("port back", after=mark))["end"] == "the bridge took the port back"
    again = await wakebridge("board", "take-back", code=1)
    assert again.err == "Error: the port is not lent\n"


async def test_what_cannot_be_lent_is_refused_with_the_reason(
    board: DeskBoard, bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    taken = await wakebridge("board", "lend", "--tcp-port", str(bridge.http_port), code=1)
    assert "cannot be used" in taken.reason
    assert (await wakebridge("board", "info")).code == 0  # and the link is there again
    for words in (("--for", "0s"), ("--for", "2d"), ("--tcp-port", "70000")):
        assert (await wakebridge("board", "lend", *words, code=1)).reason.startswith("Error: ")
    assert (await wakebridge("board", "lend", "--for", "ever", code=2)).out == ""
    await board.unplug()
    await bridge.said("board down")
    gone = await wakebridge("board", "lend", code=1)
    assert "there is no port to lend" in gone.reason
