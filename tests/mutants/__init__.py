"""Deliberately wrong changes to the product, each of which the simulation must catch.

`catalogue` lists them, `hunt` runs the simulation over one of them, `run` does that for all, and
`table` says which property caught which, and how soon.

    python -m tests.mutants
"""
