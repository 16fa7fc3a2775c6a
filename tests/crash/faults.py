"""One fault each: strike, hold for a while, mend. Drawn from a seed, so that a history replays."""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from crash.world import World, children_of


@dataclass(frozen=True)
class Fault:
    """One line of a history. `after_s` is from the start of its round."""

    round: int
    name: str
    after_s: float
    hold_s: float

    def __str__(self) -> str:
        return (
            f"round {self.round}: {self.name} after {self.after_s:.2f} s, for {self.hold_s:.2f} s"
        )


Act = Callable[[World], Awaitable[None]]


async def _nothing(_: World) -> None: ...


async def _kill_broker(world: World) -> None:
    await asyncio.to_thread(world.broker.kill)


async def _start_broker(world: World) -> None:
    await asyncio.to_thread(world.broker.start)


async def _stop_bridge(world: World) -> None:
    assert await world.bridge.stop() == 0, world.bridge.transcript()


async def _kill_agent(world: World) -> None:
    """Kill the agent of the MQTT runner, or the program that the command runner runs just now."""
    if world.runner == "mqtt":
        await world.agent.kill()
    elif world.bridge.running:
        for keeper in children_of(world.bridge.pid):
            for program in children_of(keeper):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(program, signal.SIGKILL)


async def _start_agent(world: World) -> None:
    if world.runner == "mqtt":
        await world.agent.start()


async def _fill(world: World) -> None:
    await asyncio.to_thread(world.disk.fill)


async def _empty(world: World) -> None:
    world.disk.empty()


async def _read_only(world: World) -> None:
    """Nothing can be remounted that is written to: the daemon is dead, and tries to start then."""
    await world.kill_bridge()
    assert world.disk.read_only()
    await world.try_start_bridge()


async def _writable(world: World) -> None:
    world.disk.writable()
    await world.start_bridge()


async def _cut(world: World) -> None:
    world.relay.cut()


async def _hush(world: World) -> None:
    world.relay.hush()


async def _speak(world: World) -> None:
    world.relay.speak()


def _board(line: str) -> Act:
    async def act(world: World) -> None:
        await world.board.command(line)

    return act


async def _kill_bridge(world: World) -> None:
    await world.kill_bridge()


async def _start_bridge(world: World) -> None:
    await world.start_bridge()


async def _kill_board(world: World) -> None:
    await world.board.kill()


async def _start_board(world: World) -> None:
    await world.board.start()


async def _kill_firmware(world: World) -> None:
    await world.board.kill_firmware()


# name -> how often it is drawn, what strikes, what mends.
FAULTS: dict[str, tuple[int, Act, Act]] = {
    "kill the bridge": (6, _kill_bridge, _start_bridge),
    "stop the bridge": (1, _stop_bridge, _start_bridge),
    "kill the broker": (3, _kill_broker, _start_broker),
    "kill the board": (2, _kill_board, _start_board),
    "kill the firmware": (1, _kill_firmware, _nothing),
    "kill the agent": (2, _kill_agent, _start_agent),
    "fill the disk": (2, _fill, _empty),
    "make the disk read-only": (2, _read_only, _writable),
    "unplug the board": (2, _board("unplug"), _board("replug")),
    "cut the board's power": (1, _board("power-loss 0.3"), _nothing),
    "reset the board softly": (1, _board("soft-reset"), _nothing),
    "leave the board at its prompt": (1, _board("stop-at-prompt"), _nothing),
    "mute the board": (1, _board("mute on"), _board("mute off")),
    "garble the board": (1, _board("garble 40"), _nothing),
    "cut the broker's link": (2, _cut, _nothing),
    "hush the broker's link": (1, _hush, _speak),
}
DISK_FAULTS = {"fill the disk", "make the disk read-only"}
BRIDGE_FAULTS = {"kill the bridge", "stop the bridge", "make the disk read-only"}
BOARD_FAULTS = {name for name in FAULTS if "board" in name or "firmware" in name}

# After one of these a fire whose confirmation or commit was under way may come once more (E51).
REPEATING_FAULTS = {
    *("kill the bridge", "make the disk read-only", "kill the broker"),
    *("cut the broker's link", "hush the broker's link"),
}


def draw(seed: int, rounds: int, *, has_disk: bool) -> list[list[Fault]]:
    """Return the faults of each round: one, and in every third round a second one on top."""
    chance = random.Random(seed)
    names = [name for name in FAULTS if has_disk or name not in DISK_FAULTS]
    weights = [FAULTS[name][0] for name in names]
    history = []
    for number in range(rounds):
        drawn = dict.fromkeys(chance.choices(names, weights, k=1 + (number % 3 == 2)))
        faults = [
            Fault(number, name, chance.uniform(0, 1.2), chance.uniform(0.05, 1.2)) for name in drawn
        ]
        if len(BRIDGE_FAULTS & set(drawn)) > 1 or set(drawn) >= DISK_FAULTS:  # they would clash
            del faults[1:]
        history.append(faults)
    return history


async def carry_out(world: World, fault: Fault, struck: Callable[[Fault], None]) -> None:
    """Strike and mend; `struck` is told when it strikes and when it is mended."""
    _, strike, mend = FAULTS[fault.name]
    await asyncio.sleep(fault.after_s)
    struck(fault)
    await strike(world)
    await asyncio.sleep(fault.hold_s)
    await mend(world)
    struck(fault)
