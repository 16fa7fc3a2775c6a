"""The real bridge, killed with SIGKILL right before or right after one commit of its routines.

Started as `python dying_bridge.py serve ...` in the place of `python -m wakebridge`. Which commit
is in the environment: DIE_WHEN is `before` or `after`, DIE_FROM and DIE_TO are how a routine stands
before and after it, and DIE_TASK is a part of that routine's task. How a routine stands is its
status, the phase of its run and what became of a cancellation, as `standing` writes it.

Nothing of the product knows of this: the store's `save` is wrapped here, from outside.
"""

import os
import signal

from wakebridge.adapters.cli.main import main
from wakebridge.routine.state import RoutineState, Status, run_of_routine
from wakebridge.store.routines_json import RoutinesJson

ABSENT = "absent"


def standing(state: RoutineState, task: str) -> str:
    """Say how the routine stands that has this in its task."""
    for routine in state.routines:
        if task not in routine.task:
            continue
        words = [routine.status.value]
        run = run_of_routine(state, routine.id)
        if run is not None and routine.status is Status.RUNNING:
            words.append(run.phase.value)
        if run is not None and run.partial is not None:
            words.append("with a partial result")
        if routine.cancellation is not None:
            words.append(f"cancellation {routine.cancellation.value}")
        return ", ".join(words)
    return ABSENT


class Killer:
    """Wraps `load` and `save` to know how the routine stood, and ends the process at one commit."""

    def __init__(self) -> None:
        self.when = os.environ["DIE_WHEN"]
        self.step = (os.environ["DIE_FROM"], os.environ["DIE_TO"])
        self.task = os.environ["DIE_TASK"]
        self.stood = ABSENT
        self.load = RoutinesJson.load
        self.save = RoutinesJson.save

    def install(self) -> None:
        killer = self

        def load(store: RoutinesJson) -> RoutineState:
            state = killer.load(store)
            killer.stood = standing(state, killer.task)
            return state

        def save(store: RoutinesJson, state: RoutineState) -> None:
            stands = standing(state, killer.task)
            here = (killer.stood, stands) == killer.step
            if here and killer.when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            killer.save(store, state)
            if here and killer.when == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            killer.stood = stands

        # That is what this file is for.
        RoutinesJson.load = load  # type: ignore[method-assign, assignment]
        RoutinesJson.save = save  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    if "DIE_WHEN" in os.environ:
        Killer().install()
    main()
