"""Which countdown the board should run, and what to change so that it does. Pure."""
