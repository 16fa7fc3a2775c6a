"""`python -m wakebridge` is the command `wakebridge`."""

from wakebridge.adapters.cli.main import main

main()
