"""HTTP for agents and people on this host: the schedule tool, sessions, the MCU timer, health."""
