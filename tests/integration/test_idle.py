"""An idle bridge is quiet: it takes no processor, sends no frames and writes nothing."""

import asyncio
import time
from pathlib import Path
from typing import NamedTuple

from bridges import BridgeProcess, Owner
from wakebridge.simboard import DeskBoard

IDLE_S = 20.0


class Used(NamedTuple):
    """What a process has used since it began, and the files it keeps."""

    cpu_s: float
    written_bytes: int
    wakeups: int
    files: dict[str, tuple[int, int]]

    @classmethod
    def by(cls, bridge: BridgeProcess) -> "Used":
        process = Path(f"/proc/{bridge.pid}")
        io = dict(line.split(": ") for line in (process / "io").read_text().splitlines())
        switches = sum(
            int(line.split()[1])
            for task in (process / "task").iterdir()
            for line in (task / "status").read_text().splitlines()
            if line.startswith("voluntary_ctxt_switches")
        )
        return cls(
            time.clock_gettime(~bridge.pid << 3 | 2),  # the kernel's clock id of a process
            int(io["write_bytes"]),
            switches,
            {
                str(path): (path.stat().st_mtime_ns, path.stat().st_size)
                for directory in (bridge.state_dir, bridge.config_dir)
                for path in directory.rglob("*")
            },
        )


async def test_with_ten_schedules_and_a_healthy_board_it_rests(
    board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    for number in range(8):
        await owner.schedule(f"every{number}", every={"seconds": 3600 + number})
    await owner.schedule("daily", local={"time": "03:30", "zone": "Europe/Lisbon"})
    await owner.schedule("delay", **{"in": {"seconds": 3000}})
    await bridge.tool("chat", action="create", task="x", delay_s=3000, interval_s=3600)
    before = (await bridge.at_rest())["board"]["link"]
    mark, used = bridge.mark(), Used.by(bridge)
    heard = len(owner.fired), dict(owner.state)
    await asyncio.sleep(IDLE_S)  # this is what is measured
    now = Used.by(bridge)
    after = (await bridge.health())["board"]["link"]

    cpu = (now.cpu_s - used.cpu_s) / IDLE_S
    frames = after["requests"] - before["requests"] + after["frames"] - before["frames"]
    print(
        f"figures: {cpu:.3%} of a core, {frames} frames in {IDLE_S:.0f} s,"
        f" {now.written_bytes - used.written_bytes} bytes written,"
        f" {now.wakeups - used.wakeups} wake-ups"
    )
    assert cpu < 0.005
    assert frames <= IDLE_S / 10 + 4  # one read-back may fall into this time: two questions
    assert now.written_bytes == used.written_bytes
    assert now.files == used.files
    assert now.wakeups - used.wakeups < IDLE_S * 4
    assert bridge.lines[mark:] == []
    assert (len(owner.fired), owner.state) == heard
