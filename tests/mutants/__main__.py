"""`python -m tests.mutants`: see `--help`."""

import argparse
import sys
import time

from . import catalogue, run, table


def main() -> int:
    """Hunt for all mutants, or some; 1 when one survives, or the tree itself breaks a promise."""
    args = _arguments()
    mutants = tuple(each for each in catalogue.MUTANTS if args.only in (None, each.id, each.area))
    if not mutants:
        print(f"there is no mutant and no area {args.only!r}")
        return 2
    began_s = time.monotonic()
    results = []
    for result in run.hunt_all(mutants, args.jobs):
        results.append(result)
        print(table.line(result), flush=True)
        if args.detail:
            print(f"    {result.detail}")
    caught = sum(result.caught_by is not None for result in results)
    sound = True
    if args.only is None:
        most = max(result.devices for result in results)
        for result in run.control(args.jobs, run.DEVICES[:most]):
            if result.caught_by is not None or result.problem:
                sound = False
                print(table.line(result), flush=True)
        verdict = "breaks no promise" if sound else "BREAKS A PROMISE"
        print(f"on the same {most} devices the tree as it is {verdict}")
    print(f"{caught} of {len(results)} mutants caught in {time.monotonic() - began_s:.0f} s")
    if args.page and sound and caught == len(catalogue.MUTANTS):
        table.write(results)
    return 0 if sound and caught == len(results) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Change the product wrongly, in one place at a time: does the simulation see?",
    )
    parser.add_argument("--jobs", type=int, default=2, help="hunts at the same time")
    parser.add_argument("--only", help="one mutant, or those of one area")
    parser.add_argument("--detail", action="store_true", help="print what the property saw")
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
