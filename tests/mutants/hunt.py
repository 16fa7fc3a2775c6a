"""Run the simulation over a series of devices until one breaks a promise; a process of its own.

Started in a copy of the tree, it must import nothing of the tree that it was copied from. It prints
one line of JSON: what was found, where, and which files of the copy were in use.
"""

import json
import resource
import sys
import time
from collections.abc import Iterable
from pathlib import Path

OURS = ("wakebridge", "wakewire", "wakeboard", "simulation")


def main(root: Path, budget_s: float, devices: list[str]) -> None:
    """Hunt in `root`, for at most `budget_s` of processor time."""
    sys.path[:0] = [
        str(root / part) for part in ("host", "protocol", "firmware", "tests", "tests/fixtures")
    ]
    limit_s = round(budget_s) + 60
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))  # a mutant may never end
    from simulation.history import PROFILES, draw
    from simulation.world import run

    found: dict[str, object] = {"property": None, "devices": []}
    tried: list[str] = []
    world_ns = 0
    for device in devices:
        tried.append(device)
        outcome = run(draw(device, PROFILES[device.split("-")[0]]))
        world_ns += outcome.at_ns
        if outcome.violation is not None:
            found["property"] = outcome.violation.name
            found["detail"] = outcome.violation.detail
            break
        if time.process_time() > budget_s:
            break
    found |= {"devices": tried, "world_ns": world_ns, "cpu_s": time.process_time()}
    found["files"] = sorted(_files_in_use(root))
    print(json.dumps(found))


def _files_in_use(root: Path) -> Iterable[str]:
    """Yield the files of ours that were imported. Raises when one is not in the copy."""
    for name, module in list(sys.modules.items()):
        if not name.startswith(OURS) or getattr(module, "__file__", None) is None:
            continue
        path = Path(str(module.__file__))
        if not path.is_relative_to(root):
            raise ImportError(f"{name} is {path}, which is not in the copy")
        yield str(path.relative_to(root))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
