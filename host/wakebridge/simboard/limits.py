"""Every limit of the desk board, with its unit and its reason."""

HEAP_DEFAULT = "256k"
"""MicroPython heap: what an RP2040 has left after its start, rounded up."""

READ_BYTES = 4096
"""One read of a pseudo-terminal: the size of the kernel's line buffer."""

TO_HOST_PENDING_BYTES = 64 * 1024
"""Board output kept while a host has the port open but does not read."""

TO_HOST_STALL_S = 0.5
"""How long such output waits before it is dropped, as a board's USB stack does."""

TO_BOARD_PENDING_BYTES = 4096
"""Host output kept while the board does not read; more is held back in the host's own buffer."""

GATE_QUIET_S = 0.003
"""Output has to be quiet for this long after a control byte before more input goes to the REPL."""

GATE_SILENT_S = 0.03
"""A control byte that the REPL answers with nothing holds the input back for this long."""

GATE_INTERRUPT_S = 0.5
"""A running program gets this long to stop for Ctrl-C before input flows on to it."""

GATE_BUSY_S = 0.3
"""A program that does not wait for anything in this time is interrupted all the same."""

EXIT_GRACE_S = 2.0
"""How long a killed interpreter may take to disappear before the desk reports it."""

SOFT_RESET_S = 3.0
"""A soft reset through the REPL that takes longer is done by force."""

RESTART_PAUSE_S = 0.25
"""Pause before an interpreter that died by itself starts again: a crash is no hot loop."""

WAKE_HISTORY = 1000
"""Wake-line changes kept for whoever asks late."""

CONTROL_LINE_BYTES = 256
"""Longest command on the control socket; every command is a few words."""
