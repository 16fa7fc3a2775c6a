"""Answers to `list`, which are as large as what is stored.

The writer takes down what there is, which costs nothing. Describing it takes some ten microseconds
a schedule: what is more than a portion is described beside the writer, one list at a time, so that
no list delays another owner's fire, and only one is being made whatever its size (E35).
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Final

from wakebridge.engine import described
from wakebridge.schedule.misfire import Schedule

PORTION: Final = 256
"""Schedules that are described without a pause: a few milliseconds."""

ASKER_MAX: Final = 4
"""Lists that one owner may wait for at once; another one is told nothing new by a fifth."""

Asker = tuple[str, object]
"""The bus, and who asks there."""


class Lists:
    """The lists that are asked for and being made."""

    def __init__(self) -> None:
        self._asked: Counter[Asker] = Counter()
        self._one_at_a_time = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def admit(self, asker: Asker) -> bool:
        """Count one more list of an owner, unless there are enough; `leave` ends it."""
        if self._asked[asker] >= ASKER_MAX:
            return False
        self._asked[asker] += 1
        return True

    def leave(self, asker: Asker) -> None:
        """A list has been answered, or is not waited for any more."""
        self._asked[asker] -= 1
        if not self._asked[asker]:
            del self._asked[asker]

    def answer(
        self, schedules: Sequence[Schedule], answered: asyncio.Future[dict[str, object]]
    ) -> None:
        """Have the future set to the answer that describes these schedules, now or soon."""
        if len(schedules) <= PORTION:
            answered.set_result(_answer([described(each) for each in schedules]))
            return
        task = asyncio.create_task(self._describe(schedules, answered), name="list")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _describe(
        self, schedules: Sequence[Schedule], answered: asyncio.Future[dict[str, object]]
    ) -> None:
        async with self._one_at_a_time:
            pairs: list[dict[str, object]] = []
            for begin in range(0, len(schedules), PORTION):
                await asyncio.sleep(0)
                if answered.done():  # its adapter has stopped waiting
                    return
                pairs += map(described, schedules[begin : begin + PORTION])
            answered.set_result(_answer(pairs))


def _answer(pairs: list[dict[str, object]]) -> dict[str, object]:
    return {"ok": True, "schedules": pairs}
