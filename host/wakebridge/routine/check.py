"""The invariants of the document: what must hold between its records.

A transition keeps them; a file that breaks them is not understood and is refused whole (R31).
"""

from collections import Counter
from collections.abc import Iterator

from wakebridge.routine.state import Every, Phase, RoutineState, RunKind, Status


def faults(state: RoutineState) -> list[str]:
    """Return what is wrong, each with its place as in `$.routines[2]`; empty when all is well."""
    return [*_in_lineages(state), *_in_routines(state), *_in_runs(state)]


def _in_lineages(state: RoutineState) -> Iterator[str]:
    owner: dict[str, int] = {}
    for index, lineage in enumerate(state.lineages):
        for session_id in {lineage.root, *lineage.revisions}:
            if session_id in owner:
                yield f"session {session_id!r} is in two lineages - at `$.lineages[{index}]`"
            owner[session_id] = index


def _in_routines(state: RoutineState) -> Iterator[str]:
    roots = {lineage.root for lineage in state.lineages}
    ids = Counter(routine.id for routine in state.routines)
    phases = {run.routine_id: run.phase for run in state.runs}
    expected = {Status.QUEUED: {Phase.QUEUED}, Status.RUNNING: {Phase.WAITING, Phase.ACTIVE}}
    for index, routine in enumerate(state.routines):
        place = f" - at `$.routines[{index}]`"
        phase = phases.get(routine.id)
        if ids[routine.id] > 1:
            yield f"the id {routine.id!r} is there twice{place}"
        if routine.lineage not in roots:
            yield f"lineage {routine.lineage!r} is not in the ledger{place}"
        if (routine.status is Status.SCHEDULED) != (routine.next_due_ns is not None):
            yield f"next_due_ns does not go with status {routine.status.value!r}{place}"
        if phase not in expected.get(routine.status, {None}):
            yield f"status {routine.status.value!r} does not go with its run{place}"
        if not _on_grid(routine.rule, routine.next_due_ns):
            yield f"next_due_ns is not an occurrence of its rule{place}"
        if (
            routine.next_due_ns is not None
            and routine.last_due_ns is not None
            and routine.next_due_ns <= routine.last_due_ns
        ):
            yield f"next_due_ns is not later than the newest occurrence{place}"


def _on_grid(rule: object, due_ns: int | None) -> bool:
    if due_ns is None:
        return True
    if isinstance(rule, Every):
        offset_ns = due_ns - rule.anchor_ns
        return offset_ns >= 0 and offset_ns % (rule.interval_s * 1_000_000_000) == 0
    return due_ns == getattr(rule, "due_ns", None)


def _in_runs(state: RoutineState) -> Iterator[str]:
    routines = {routine.id: routine for routine in state.routines}
    roots = {lineage.root for lineage in state.lineages}
    ids = Counter(run.id for run in state.runs)
    per_routine = Counter(run.routine_id for run in state.runs if run.routine_id is not None)
    active = Counter(run.lineage for run in state.runs if run.phase is Phase.ACTIVE)
    for index, run in enumerate(state.runs):
        place = f" - at `$.runs[{index}]`"
        if ids[run.id] > 1:
            yield f"the id {run.id!r} is there twice{place}"
        if run.lineage not in roots:
            yield f"lineage {run.lineage!r} is not in the ledger{place}"
        if run.phase is Phase.ACTIVE and active[run.lineage] > 1:
            yield f"two runs are active in conversation {run.lineage!r}{place}"
        if run.phase is Phase.ACTIVE and (run.session_id is None or run.started_ns is None):
            yield f"an active run has a session_id and started_ns{place}"
        if run.kind is not RunKind.SCHEDULED:
            if run.routine_id is not None or run.task is None or run.phase is Phase.WAITING:
                yield f"a run of kind {run.kind.value!r} has a task and no routine{place}"
            continue
        routine = routines.get(run.routine_id or "")
        if routine is None or run.task is not None:
            yield f"a scheduled run names a routine and has no task of its own{place}"
        elif per_routine[routine.id] > 1:
            yield f"routine {routine.id!r} has two runs{place}"
        elif run.due_ns is None or run.due_ns != routine.last_due_ns:
            yield f"the run is not the newest occurrence of its routine{place}"
        elif run.lineage != routine.lineage:
            yield f"the run is not in the conversation of its routine{place}"
