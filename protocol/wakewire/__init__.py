"""The wire between bridge and board: frames, CBOR subset, messages, codes and limits.

Written in the subset of Python that CPython 3.11 and MicroPython 1.20 share. Nothing here reads a
clock, does IO or keeps state beyond one decoder. A board needs ``errors``, ``cbor`` and
``framing``, and ``codes`` and ``limits`` where it has room for names; the rest serves hosts, tests
and simulators.
``protocol/README.md`` is the interface document.
"""

# The two limits that the codec itself keeps. They stand here, where a board has them without
# loading the names of all the others; `limits` lists them with those.

# Bytes of one payload: seven events of any size fit. Below the 256 bytes of a UART receive ring,
# which drops silently what is too much.
PAYLOAD_MAX = 192

# Arrays inside arrays, the outermost counted. Bounds the decoder's stack on a board.
DEPTH_MAX = 4
