"""`python -m tests.simulation`: see `--help`."""

import sys

from .cli import main

sys.exit(main())
