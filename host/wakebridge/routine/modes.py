"""Which tools an agent has in which input mode, and who may create a schedule (R11)."""

from enum import StrEnum

from wakebridge.routine.change import Code, Refusal


class InputMode(StrEnum):
    """How people talk to the device."""

    TEXT = "text"
    VOICE = "voice"
    REALTIME = "realtime"


class Caller(StrEnum):
    """Which agent calls: the one that talks with the user, or the one that works behind it."""

    FOREGROUND = "foreground"
    BACKEND = "backend"


SCHEDULE = "schedule"
CREATE_AGENT_TASK = "create_agent_task"


def tools_of(mode: InputMode, backend_agent: bool, caller: Caller) -> tuple[str, ...]:
    """Return the names of the tools that `caller` has.

    `schedule` is installed in every mode. In realtime mode with a backend agent the foreground
    delegates scheduling through `create_agent_task`, like any other work on the device.
    """
    if mode is InputMode.REALTIME and backend_agent and caller is Caller.FOREGROUND:
        return (CREATE_AGENT_TASK, SCHEDULE)
    return (SCHEDULE,)


def refused_creation(
    mode: InputMode, backend_agent: bool, caller: Caller = Caller.BACKEND
) -> Refusal | None:
    """Return why a schedule cannot be created in this mode, or None when it can."""
    if mode is not InputMode.REALTIME:
        return None
    if not backend_agent:
        reason = "schedules run in the backend agent, which is disabled in this realtime mode"
        return Refusal(Code.MODE, reason, "action")
    if caller is Caller.FOREGROUND:
        reason = f"in realtime mode the foreground delegates scheduling with {CREATE_AGENT_TASK}"
        return Refusal(Code.MODE, reason, "action")
    return None


def refused_delegation(mode: InputMode, backend_agent: bool) -> Refusal | None:
    """Return why `create_agent_task` is not available in this mode, or None when it is."""
    if mode is InputMode.REALTIME and backend_agent:
        return None
    reason = f"{CREATE_AGENT_TASK} belongs to realtime mode with a backend agent"
    return Refusal(Code.MODE, reason)
