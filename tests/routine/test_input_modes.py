"""Input modes and the realtime rules (R11)."""

import pytest

from wakebridge.routine.change import Code
from wakebridge.routine.modes import (
    CREATE_AGENT_TASK,
    SCHEDULE,
    Caller,
    InputMode,
    refused_creation,
    refused_delegation,
    tools_of,
)


@pytest.mark.parametrize("mode", InputMode)
@pytest.mark.parametrize("backend_agent", [False, True])
@pytest.mark.parametrize("caller", Caller)
def test_r11_the_tool_is_installed_in_every_mode(
    mode: InputMode, backend_agent: bool, caller: Caller
) -> None:
    assert SCHEDULE in tools_of(mode, backend_agent, caller)


@pytest.mark.parametrize("mode", [InputMode.TEXT, InputMode.VOICE])
@pytest.mark.parametrize("caller", Caller)
def test_r11_outside_realtime_everybody_creates(mode: InputMode, caller: Caller) -> None:
    assert refused_creation(mode, True, caller) is None
    assert refused_creation(mode, False, caller) is None
    refusal = refused_delegation(mode, True)
    assert refusal is not None
    assert refusal.code is Code.MODE


def test_r11_realtime_without_a_backend_agent_rejects_creation() -> None:
    for caller in Caller:
        refusal = refused_creation(InputMode.REALTIME, False, caller)
        assert refusal is not None
        assert refusal.code is Code.MODE
        assert "backend agent" in refusal.reason
    assert refused_delegation(InputMode.REALTIME, False) is not None


def test_r11_realtime_with_a_backend_agent_delegates() -> None:
    assert refused_creation(InputMode.REALTIME, True, Caller.BACKEND) is None
    refusal = refused_creation(InputMode.REALTIME, True, Caller.FOREGROUND)
    assert refusal is not None
    assert CREATE_AGENT_TASK in refusal.reason
    assert refused_delegation(InputMode.REALTIME, True) is None
    foreground = tools_of(InputMode.REALTIME, True, Caller.FOREGROUND)
    assert CREATE_AGENT_TASK in foreground
    assert CREATE_AGENT_TASK not in tools_of(InputMode.REALTIME, True, Caller.BACKEND)
