"""Names of the older OVOS scheduler protocol, whose only identity is the event's name (E90).

A legacy event is named `<skill_id>:<name>` and is fired under exactly that type. The rule of E2
forbids the colon, so such a schedule carries a stand-in as its `event`, and the type beside it.
"""

from typing import Final

ID_PREFIX: Final = "legacy:"
"""Begins the id of every legacy schedule, so that none meets an id of the same owner's."""
NAMELESS_OWNER: Final = "legacy"
"""Owner of the events whose name tells none."""
EVERY_EVENT: Final = "*"
"""In a list: the legacy schedules of all owners, which the older scheduler told everybody."""


def owner_of(event: str) -> str:
    """Return the owner that a legacy event's name tells: what stands before its first colon."""
    skill_id, colon, _ = event.partition(":")
    return skill_id if colon and skill_id else NAMELESS_OWNER


def id_of(event: str) -> str:
    """Return the id of the one schedule that a legacy event can have."""
    return ID_PREFIX + event


def event_of(schedule_id: str) -> str:
    """Return the legacy event's name for an id made by `id_of`."""
    return schedule_id.removeprefix(ID_PREFIX)


def stand_in(event: str) -> str:
    """Return the `event` of the schedule's record, in the form that E2 asks for."""
    owner = owner_of(event)
    name = event.removeprefix(f"{owner}:").replace(":", ".")
    return f"{owner}.{name or 'unnamed'}"
