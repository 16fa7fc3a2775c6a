"""The whole product on one desk: board, broker, bridge, agent, and the story of what they do.

`python -m wakebridge.demo` shows it once and checks it; with `--serve` it stays until Ctrl-C.
"""
