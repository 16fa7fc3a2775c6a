"""The routine domain, pure: agents' schedules, the conversations they belong to, and their runs.

`state` is the persisted document, `change` what a transition returns. `routine` is what an agent
does (create, update, cancel), `wake` what the board makes eligible, `run_queue` whose turn it is,
`occurrence` how a run goes and ends, `conversation` what the backend reports about its sessions.
`tool` reads the agents' requests and `view` shows them their routines. Nothing here reads a clock,
draws a number or does IO; `now` and new ids are arguments.
"""
