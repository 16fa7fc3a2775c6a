"""Every operation of the interface, in the order in which the document lists them."""

from typing import Final

from wakebridge.adapters.http import events, mcu, sessions, tools

OPERATIONS: Final = (
    *events.OPERATIONS,
    *tools.OPERATIONS,
    *sessions.OPERATIONS,
    *mcu.OPERATIONS,
)
