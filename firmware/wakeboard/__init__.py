"""The firmware of a wake-timer board: one countdown, one wake line, one log of wake events."""

__version__ = "0.1.0"


def run() -> None:
    """Start the board and serve its host until Ctrl-C."""
    from wakeboard.loop import run  # late: reading the version must not load the firmware

    run()
