"""`make crash ROUNDS=200`: hit everything, again and again, and judge from the outside.

`crash_rounds.py --rounds N [--seed S] [--runner command|mqtt] [--only 3,4,7]`. A failure prints the
seed and the history of faults. `--only` strikes in these rounds alone, which makes a history short.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

_TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS / "fixtures")]

from crash.faults import Fault, carry_out, draw  # noqa: E402 - found through the path set above
from crash.load import Load, stopped  # noqa: E402
from crash.verdict import STOPPED, Figures, Struck, Verdict  # noqa: E402
from crash.world import World  # noqa: E402

SETTLE_S = 45.0


class Violated(Exception):  # noqa: N818 - says what happened to the promise
    """A property does not hold; the text has the seed, the history and what was seen."""


async def crash_rounds(
    directory: Path, *, seed: int, rounds: int, runner: str, only: frozenset[int] | None = None
) -> Figures:
    """Run that many rounds; return the figures. Raises `Violated`."""
    strikes: list[Struck] = []

    def struck(fault: Fault) -> None:
        strikes.append(Struck(fault, time.time(), time.monotonic()))

    async with World(directory, runner=runner) as world:
        history = draw(seed, rounds, has_disk=world.disk.is_real)
        load = Load(world, seed)
        loading = asyncio.create_task(load.run())
        try:
            for faults in history:
                if only is None or faults[0].round in only:
                    async with asyncio.TaskGroup() as group:
                        for fault in faults:
                            group.create_task(carry_out(world, fault, struck))
                await asyncio.sleep(random.Random(seed + faults[0].round).uniform(0.3, 1.0))
        finally:
            await stopped(loading)
        await load.finish()
        wall_offset_s = time.time() - time.monotonic()
        verdict = Verdict(world, load.book, strikes, wall_offset_s)
        listed = await settle(world, verdict)
        violations = verdict.violations(listed)
    if violations:
        told = [f"seed {seed}, {rounds} rounds, runner {runner}", "history:"]
        told += [f"  {each}" for faults in history for each in faults]
        told += ["violations:", *(f"  {each}" for each in violations)]
        raise Violated("\n".join(told))
    return verdict.figures


async def settle(world: World, verdict: Verdict) -> list[dict[str, object]]:
    """Wait for what is still to come; return the routines as they are listed then."""
    listed: list[dict[str, object]] = []
    give_up_s = time.monotonic() + SETTLE_S
    while time.monotonic() < give_up_s:
        await asyncio.sleep(0.3)
        listed = (await world.bridge.tool(action="list")).result
        owed = {each for each in verdict.outstanding() if not verdict.swallowed(each[0])}
        if not owed and all(each["status"] in STOPPED for each in listed):
            break
    await world.owner.ask("list", {})  # whatever else would come has come by now
    return listed


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runner", choices=("command", "mqtt"))
    parser.add_argument("--only", type=lambda text: frozenset(map(int, text.split(","))))
    asked = parser.parse_args()
    runners = [asked.runner] if asked.runner else ["command", "mqtt"]
    for runner in runners:
        rounds = asked.rounds // len(runners)
        print(f"{rounds} rounds with the {runner} runner, seed {asked.seed}", flush=True)
        began_s = time.monotonic()
        with tempfile.TemporaryDirectory() as directory:
            try:
                figures = asyncio.run(
                    crash_rounds(
                        Path(directory),
                        seed=asked.seed,
                        rounds=rounds,
                        runner=runner,
                        only=asked.only,
                    )
                )
            except Violated as violated:
                print(violated, file=sys.stderr)
                return 1
        took_s = time.monotonic() - began_s
        drawn = Counter(
            each.name for faults in draw(asked.seed, rounds, has_disk=True) for each in faults
        )
        print(f"  passed in {took_s:.0f} s")
        print(f"  faults: {dict(drawn)}")
        print(figures, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
