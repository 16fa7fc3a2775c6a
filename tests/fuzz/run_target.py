"""Fuzzes one target with atheris: `run_target.py NAME [libFuzzer options and corpora...]`.

Ends with a status other than 0 and leaves the input as a file when it finds a fault.
"""

import logging
import shlex
import sys
from pathlib import Path

import atheris  # type: ignore[import-untyped]  # it ships no types

_TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(_TESTS), str(_TESTS / "fixtures")]

from fuzz.targets import target  # noqa: E402 - found through the path that is set just above


def main() -> None:
    name, *options = sys.argv[1:]
    with atheris.instrument_imports(
        include=["wakewire", "wakebridge"], enable_loader_override=False
    ):
        run = target(name)
    # Warnings about what is refused are for people; here there would be thousands a second.
    logging.getLogger("wakebridge").setLevel(logging.CRITICAL)
    # To merge corpora libFuzzer starts what stands first here, as a command of a shell.
    itself = shlex.join((sys.executable, sys.argv[0], name))
    atheris.Setup([itself, *options], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
