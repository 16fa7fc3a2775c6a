"""One bridge per state directory and per port: the second one names the first and leaves it be."""

from pathlib import Path

import pytest

from bridges import BridgeProcess, Owner
from brokers import Mosquitto
from wakebridge.simboard import DeskBoard


@pytest.mark.parametrize("shared", ["state_dir", "config_dir", "board", "http", "everything"])
async def test_a_second_bridge_names_the_holder_and_leaves_the_first_undisturbed(
    shared: str,
    board: DeskBoard,
    bridge: BridgeProcess,
    broker: Mosquitto,
    owner: Owner,
    tmp_path: Path,
) -> None:
    await owner.schedule("a", **{"in": {"seconds": 3600}})
    await owner.until_timer(state="armed", timer_error="")
    before, mark = await bridge.at_rest(), bridge.mark()
    second = BridgeProcess(tmp_path / "second", port=str(tmp_path / "no-board"))
    if shared == "everything":
        second.config = dict(bridge.config)
    else:
        second.config["mqtt"] = {"port": broker.port}
        second.config[shared] = bridge.config[shared]
    ended = await second.run_to_end()
    assert ended.code == 1
    sentence = {
        "state_dir": f"another bridge, process {bridge.pid}, uses {bridge.state_dir}",
        "config_dir": f"another bridge, process {bridge.pid}, uses {bridge.config_dir}",
        "board": f"{board.port} is held by",
        "http": f"http: 127.0.0.1 port {bridge.http_port} is taken by",
        "everything": f"another bridge, process {bridge.pid}, uses {bridge.state_dir}",
    }[shared]
    assert ended.text.startswith(f"wakebridge: {sentence}")
    assert f"{bridge.pid}" in ended.text
    assert ended.text.count("\n") == 0

    assert bridge.lines[mark:] == []
    after = await bridge.health()
    assert after["board"] == before["board"]  # its link has seen nothing of it
    assert after["timer"] == before["timer"]
    assert owner.statuses == ["online"]  # nor did the broker: the client ids are the same
    assert bridge.state_file.exists()


async def test_a_killed_bridge_holds_nothing(bridge: BridgeProcess) -> None:
    """The kernel gives the locks and the ports back; what is left of the lock is only a number."""
    for _ in range(2):
        await bridge.kill()
        await bridge.start()
        await bridge.said("countdown", error="")
