"""The command line of the simulation."""

import argparse
import time
from pathlib import Path

from . import report
from .fleet import devices, outcomes
from .history import PROFILES, History, draw, profile_of
from .outcome import Outcome
from .shrink import shrink
from .world import run


def main() -> int:
    """Run what was asked for; 1 when a property was violated."""
    args = _arguments()
    if args.history is not None:
        return _one(args.history.stem, History.from_json(args.history.read_text()), args)
    if args.device is not None:
        return _one(args.device, draw(args.device, profile_of(args.device)), args)
    names = devices(args.seed, args.years, args.profile)[: args.devices]
    print(f"seed {args.seed}, commit {report.commit()}, {len(names)} devices", flush=True)
    return _many(names, args)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description="Run whole devices in virtual time and hold them to their promises.",
    )
    parser.add_argument("--seed", type=int, default=1, help="draws everything")
    parser.add_argument("--years", type=float, default=1.0, help="device-years, over all devices")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--devices", type=int, default=10**9, help="devices at most")
    parser.add_argument("--profile", choices=sorted(PROFILES), help="one kind of device only")
    parser.add_argument("--device", help="one device again, as a failure names it")
    parser.add_argument("--history", type=Path, help="a history that was written to a file")
    parser.add_argument("--trace", action="store_true", help="print all that happened")
    parser.add_argument("--shrink-s", type=float, default=120.0, help="time to shorten a failure")
    parser.add_argument("--verbose", action="store_true", help="print each device")
    return parser.parse_args()


def _many(names: list[str], args: argparse.Namespace) -> int:
    totals = report.Totals()
    began = time.monotonic()
    with outcomes(names, args.jobs) as coming:
        for name, outcome in zip(names, coming, strict=True):
            totals.add(outcome)
            if args.verbose:
                print(f"{name}  {outcome.trace_hash[:16]}  {totals.years:.2f} years", flush=True)
            if outcome.violation is not None:
                break
    if outcome.violation is not None:
        return _failed(name, outcome, args)
    print("\n".join(totals.lines(time.monotonic() - began, args.jobs)))
    print("no violation")
    return 0


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
    again = f"--history {args.history}" if args.history is not None else f"--device {device}"
    print("\n".join(report.failure(device, outcome, again)), flush=True)
    if args.shrink_s > 0:
        shortest = shrink(outcome, args.shrink_s)
        path = Path(f"simulation-{device}.json")
        path.write_text(shortest.history.to_json())
        print(f"shrunk to {len(shortest.history.ops)} operations, in {path}:")
        print("\n".join(report.story(shortest.history)))
        print(f"  {shortest.violation}")
        print(f"  again: python -m tests.simulation --history {path}")
    return 1
