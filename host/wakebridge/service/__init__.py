"""The only writers: input, decision, commit, then the answer, the countdown and the fire.

`events` owns scheduled events, `routines` owns routines, `waking` keeps the board's countdown equal
to what the two of them plan.
"""
