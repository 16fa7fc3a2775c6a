"""The firmware of a wake-timer board: one countdown, one wake line, one log of wake events."""

__version__ = "0.1.0"


def run() -> None:
    """Start the board and serve its host until Ctrl-C."""
    from wakeboard import loop  # late: reading the version must not load the firmware

    loop.start()
    loop.live.serve()


class diag:  # noqa: N801 - stands for the module until that is imported, which prints the report
    """`wakeboard.diag.selftest()` without the report."""

    @staticmethod
    def selftest() -> None:
        """Pulse the wake line, measure a countdown of two seconds, then run on."""
        from wakeboard import report

        report.selftest()
