"""The firmware of a wake-timer board: one countdown, one wake line, one log of wake events."""

__version__ = "0.1.0"


def run() -> None:
    """Start the board, or go on with the one of this boot, and serve its host until Ctrl-C."""
    from wakeboard.start import start  # late: reading the version must not load the firmware

    start().serve()
