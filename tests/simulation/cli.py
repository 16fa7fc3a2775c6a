"""The command line of the simulation."""

import argparse
import time

from .history import PROFILES, draw
from .kernel import YEAR
from .world import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="storm")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--trace", action="store_true")
    args = parser.parse_args()
    for number in range(args.seed, args.seed + args.runs):
        history = draw(f"{args.profile}-{number}", PROFILES[args.profile])
        began = time.perf_counter()
        outcome = run(history, keep_trace=args.trace)
        took = time.perf_counter() - began
        print(
            number,
            f"{outcome.at_ns / YEAR:.4f} y {took:.2f} s",
            outcome.trace_hash[:12],
            outcome.figures,
        )
        if outcome.violation is not None:
            if args.trace:
                print("\n".join(outcome.trace[-60:]))
            print("  VIOLATION", outcome.violation)
    return 0
