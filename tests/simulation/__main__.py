"""`python -m tests.simulation`: see `--help`."""

import sys

from .cli import main

if __name__ == "__main__":  # a process of several imports this too
    sys.exit(main())
