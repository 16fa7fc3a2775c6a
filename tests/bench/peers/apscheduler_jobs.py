"""APScheduler 3 with a SQLite job store, in a process of its own venv.

Arguments: the database, `default` or `wal`, a measurement, and its numbers. One line of JSON on
stdout for each result. The jobs run in its default pool of threads, as in its documentation.
"""

import json
import os
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.jobstores.sqlalchemy import (  # type: ignore[import-not-found] # not in this venv
    SQLAlchemyJobStore,
)
from apscheduler.schedulers.background import (  # type: ignore[import-not-found] # not in this venv
    BackgroundScheduler,
)
from sqlalchemy import (  # type: ignore[import-not-found] # not in this venv
    create_engine,
    event,
)

ran: list[tuple[str, float]] = []
"""Name and wall time in s of each job that has run."""
_enough = threading.Event()
_wanted = 0
_journal = -1


def tick(name: str) -> None:
    """What every job does."""
    ran.append((name, time.time()))
    if _journal >= 0:
        os.write(_journal, f"{name}\n".encode())
    if len(ran) >= _wanted:
        _enough.set()


def started(database: str, mode: str) -> Any:
    """Return a running scheduler that runs a job however late; its default drops late ones."""
    engine = create_engine(f"sqlite:///{database}")
    if mode == "wal":

        @event.listens_for(engine, "connect")  # type: ignore[untyped-decorator] # of that venv
        def _set_up(connection: Any, _record: object) -> None:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")

    scheduler = BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(engine=engine)},
        job_defaults={"misfire_grace_time": None},
        timezone=UTC,
    )
    scheduler.start()
    return scheduler


def add(scheduler: Any, name: str, due: datetime) -> None:
    scheduler.add_job(tick, "date", run_date=due, args=[name], id=name, replace_existing=True)


def in_s(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def wait(count: int, timeout_s: float) -> None:
    global _wanted  # noqa: PLW0603 - jobs are found by their import name, so they share a module
    _wanted = count
    if len(ran) < count:
        _enough.wait(timeout_s)


def requests(scheduler: Any, count: int) -> dict[str, object]:
    """Time so many durable `add_job`, in ms each."""
    times = []
    for number in range(count):
        began = time.perf_counter()
        add(scheduler, f"r{number}", in_s(86_400))
        times.append((time.perf_counter() - began) * 1000)
    return {"ms": times}


def lateness(scheduler: Any, count: int, spacing_s: float) -> dict[str, object]:
    """Run so many jobs one after the other; how late each ran, in ms."""
    begin = in_s(1 + count * 0.01)
    dues = {f"l{n}": begin + timedelta(seconds=n * spacing_s) for n in range(count)}
    for name, due in dues.items():
        add(scheduler, name, due)
    wait(count, 120)
    return {"ms": [(at - dues[name].timestamp()) * 1000 for name, at in ran]}


def plan(scheduler: Any, count: int, lead_factor: float) -> tuple[datetime, bool]:
    """Plan so many jobs for one instant; return it, and whether it was still ahead afterwards."""
    trial = max(count // 20, 5)
    began = time.perf_counter()
    for number in range(trial):
        add(scheduler, f"s{number}", in_s(864_000))
    each_s = (time.perf_counter() - began) / trial
    due = in_s(1.0 + lead_factor * each_s * count)
    for number in range(count):
        add(scheduler, f"s{number}", due)
    return due, in_s(0) < due


def storm(scheduler: Any, count: int, lead_factor: float) -> dict[str, object]:
    """Run so many jobs that are due at once; when the last of them ran, in s after it was due."""
    due, in_time = plan(scheduler, count, lead_factor)
    wait(count, 600)
    last_s = max(at for _, at in ran) - due.timestamp()
    return {"last_s": last_s, "ran": len(ran), "in_time": in_time}


def crash(scheduler: Any, count: int, lead_factor: float, journal: str) -> dict[str, object]:
    """Plan so many jobs for one instant, each to leave a line in a journal, and run until killed.

    With count 0 nothing is planned: it runs what is stored, for as long as there is some.
    """
    global _journal  # noqa: PLW0603 - as above
    _journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if count:
        _, in_time = plan(scheduler, count, lead_factor)
        print(json.dumps({"planned": count, "in_time": in_time}), flush=True)
        threading.Event().wait()
    while scheduler.get_jobs():
        time.sleep(0.2)
    scheduler.shutdown(wait=True)
    return {"ran": len(ran)}


def main() -> None:
    """Run one measurement."""
    _, database, mode, what, *numbers = sys.argv
    scheduler = started(database, mode)
    match what:
        case "requests":
            result = requests(scheduler, int(numbers[0]))
        case "lateness":
            result = lateness(scheduler, int(numbers[0]), float(numbers[1]))
        case "storm":
            result = storm(scheduler, int(numbers[0]), float(numbers[1]))
        case _:
            result = crash(scheduler, int(numbers[0]), float(numbers[1]), numbers[2])
    print(json.dumps(result), flush=True)
    os._exit(0)  # whatever its threads still do


if __name__ == "__main__":
    main()
