"""The command line of the simulation."""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from . import report
from .history import PROFILES, History, draw
from .shrink import shrink
from .world import Outcome, run

_ROUND: Final = ("years", "storm", "day", "storm", "month", "storm")
"""One device that lives for years, and some whose trouble is denser, again and again."""


def main() -> int:
    """Run what was asked for; 1 when a property was violated."""
    args = _arguments()
    if args.history is not None:
        return _one("from a file", History.from_json(args.history.read_text()), args)
    if args.device is not None:
        profile = PROFILES[args.device.split("-")[0]]
        return _one(args.device, draw(args.device, profile), args)
    totals = report.Totals()
    began = time.monotonic()
    for device in _devices(args.seed, args.profile):
        outcome = run(draw(device, PROFILES[device.split("-")[0]]))
        totals.add(outcome)
        if outcome.violation is not None:
            return _failed(device, outcome, args)
        if args.verbose:
            print(device, f"{totals.years:.2f} years", flush=True)
        if totals.years >= args.years or totals.devices >= args.devices:
            break
    print("\n".join(totals.lines(time.monotonic() - began)))
    print("no violation")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description="Run whole devices in virtual time and hold them to their promises.",
    )
    parser.add_argument("--seed", type=int, default=1, help="draws everything")
    parser.add_argument("--years", type=float, default=1.0, help="device-years, over all devices")
    parser.add_argument("--devices", type=int, default=10**9, help="devices at most")
    parser.add_argument("--profile", choices=sorted(PROFILES), help="one kind of device only")
    parser.add_argument("--device", help="one device again, as a failure names it")
    parser.add_argument("--history", type=Path, help="a history that was written to a file")
    parser.add_argument("--trace", action="store_true", help="print all that happened")
    parser.add_argument("--shrink-s", type=float, default=120.0, help="time to shorten a failure")
    parser.add_argument("--verbose", action="store_true", help="print each device")
    return parser.parse_args()


def _devices(seed: int, profile: str | None) -> Iterator[str]:
    number = 0
    while True:
        for name in _ROUND if profile is None else (profile,):
            number += 1
            yield f"{name}-{seed}-{number}"


def _one(device: str, history: History, args: argparse.Namespace) -> int:
    outcome = run(history, keep_trace=args.trace)
    if args.trace:
        print("\n".join(outcome.trace))
    print(f"trace {outcome.trace_hash}")
    if outcome.violation is not None:
        return _failed(device, outcome, args)
    print("no violation")
    return 0


def _failed(device: str, outcome: Outcome, args: argparse.Namespace) -> int:
    print("\n".join(report.failure(device, outcome)), flush=True)
    if args.shrink_s > 0:
        shortest = shrink(outcome, args.shrink_s)
        path = Path(f"simulation-{device}.json")
        path.write_text(shortest.history.to_json())
        print(f"shrunk to {len(shortest.history.ops)} operations, in {path}:")
        print("\n".join(report.story(shortest.history)))
        print(f"  {shortest.violation}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
