"""The whole system in virtual time, drawn from one seed, and held to its promises.

The host's services, stores, board client and supervisor and the board's firmware are the real ones.
Simulated is only what they stand on: time, power, the serial line, the disk's moods, the buses, the
agent and the people. `history` draws what happens, `world` makes it happen, the oracles say what
may come of it, `shrink` makes a failure short enough to read.

    python -m tests.simulation --seed 1 --years 10
"""
