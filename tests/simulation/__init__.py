"""The whole system in virtual time, drawn from one seed, and held to its promises.

The host's services, stores, board client and supervisor and the board's firmware are the real ones.
Simulated is only what they stand on: time, power, the serial line, the disk's moods, the buses, the
agent and the people.

    python -m tests.simulation --seed 1 --years 10

To read it, follow one operation: `history` draws what happens, `actions` makes it happen, `world`
joins everything and runs it, `kernel` is the time it runs on. Around the product stand `host` (the
real parts, joined as the daemon joins them), `board` (the real firmware), `line`, `disk`, `buses`,
`agent` and `backend`.

Who judges: `properties` names all that must hold. `event_states`, `event_answers` and
`event_oracle` know what a schedule may do, by `schedule_model` and `occurrences`, which compute it
another way than the product; `newest_past` and `repeats` each watch one thing more.
`routine_oracle` judges the document of the routines and their runs, `wake_oracle` the countdown and
the host's sleep, `bounds` what is held in memory and on the disk.

A failure goes to `report` and to `shrink`, which leaves out what it fails without; `fleet` runs
many devices, and `seeds` lists those that are run at every test. The page for people is
host/docs/explanation/simulation.md.
"""
