"""A process that saves routine states, to be killed or starved of disk by its test.

`store_worker.py count DIR`: save ever larger states; print each number once it is durable.
`store_worker.py disk DIR`: fill the small file system that DIR is on, and save on it.
`store_worker.py limit DIR BYTES`: save under a file size limit, where no disk can be had.
"""

import resource
import signal
import sys
from pathlib import Path

from routine_world import World
from wakebridge.store.errors import StoreError
from wakebridge.store.routines_json import RoutinesJson


def count(directory: Path) -> None:
    store, world = RoutinesJson(directory), World(session_id="session-1")
    world.state = store.load() if store.path.exists() else world.state
    if not store.path.exists():
        store.load()
    number = len(world.state.routines)
    while number < 200:
        number += 1
        world.create(f"r{number}", delay_s=number, interval_s=60)
        store.save(world.state)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


def try_to_save(store: RoutinesJson, world: World) -> str:
    try:
        store.save(world.state)
    except StoreError as error:
        return f"StoreError {error}"
    return "saved"


def starve(directory: Path) -> None:
    """Save once, then once more without room, then again with room."""
    store, world = RoutinesJson(directory), World()
    store.load()
    world.create("r1", delay_s=1)
    print(try_to_save(store, world))
    before = store.path.read_bytes()
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 1024):
                pass
        except OSError as error:
            print(f"full: {error.strerror}")
    world.create("r2", delay_s=1)
    world.create("r3", delay_s=1, task="x" * 8000)
    print(try_to_save(store, world))
    print("intact" if store.path.read_bytes() == before else "changed")
    print(sorted(path.name for path in store.path.parent.iterdir()))
    filler.unlink()
    print(try_to_save(store, world))
    print(len(RoutinesJson(directory).load().routines))


def limited(directory: Path, limit_bytes: int) -> None:
    store, world = RoutinesJson(directory), World()
    store.load()
    world.create("r1", delay_s=1)
    print(try_to_save(store, world))
    before = store.path.read_bytes()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, resource.RLIM_INFINITY))
    world.create("r2", delay_s=1, task="x" * limit_bytes)
    print(try_to_save(store, world))
    print("intact" if store.path.read_bytes() == before else "changed")
    print(sorted(path.name for path in store.path.parent.iterdir()))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(try_to_save(store, world))
    print(len(RoutinesJson(directory).load().routines))


if __name__ == "__main__":
    how, where = sys.argv[1], Path(sys.argv[2])
    if how == "count":
        count(where)
    elif how == "disk":
        starve(where)
    else:
        limited(where, int(sys.argv[3]))
