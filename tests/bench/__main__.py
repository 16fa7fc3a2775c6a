"""`make bench`: measure, compare, print.

python -m bench [--size tiny|short|full] [--json FILE] [--page] [measurement ...]
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from bench import catalogue, machine, page
from bench.report import Table
from bench.sizes import SIZES


def main() -> int:
    """Run what was asked for; 1 when something was lost or repeated that must not be."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure the bridge and its peers.")
    parser.add_argument("measurement", nargs="*", help=", ".join(catalogue.MEASUREMENTS))
    parser.add_argument("--size", choices=SIZES, default="short")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    parser.add_argument("--page", action="store_true", help=f"write them to {page.PAGE.name}")
    given = parser.parse_args()
    names = given.measurement or list(catalogue.MEASUREMENTS)
    if unknown := set(names) - set(catalogue.MEASUREMENTS):
        parser.error(f"there is no measurement {', '.join(sorted(unknown))}")
    head = machine.describe(catalogue.peer_versions())
    print("\n".join(["# wakebridge bench", "", *head, ""]), flush=True)
    tables: list[Table] = []
    for name in names:
        began_s = time.monotonic()
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        # On the disk of the tree: a temporary directory may be in memory, where fsync is free.
        with tempfile.TemporaryDirectory(prefix="bench-", dir=catalogue.scratch()) as place:
            table = asyncio.run(catalogue.MEASUREMENTS[name](Path(place), SIZES[given.size]))
        print("\n".join(table.lines()), flush=True)
        print(f"{name}: {time.monotonic() - began_s:.0f} s", file=sys.stderr, flush=True)
        tables.append(table)
    if given.json is not None:
        report = {"head": head, "size": given.size, "tables": [each.as_json() for each in tables]}
        given.json.write_text(json.dumps(report, indent=1), encoding="utf-8")
    if given.page:
        page.write(head, tables)
    missed = [target for table in tables for target in table.targets if not target.met]
    faults = [fault for table in tables for fault in table.faults]
    print(f"{len(missed)} targets missed, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
