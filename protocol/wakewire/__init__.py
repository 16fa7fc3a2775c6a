"""The wire between bridge and board: frames, CBOR subset, messages, codes and limits.

Written in the subset of Python that CPython 3.11 and MicroPython 1.20 share. Nothing here reads a
clock, does IO or keeps state beyond one decoder. A board needs ``cbor`` and ``framing``,
and ``codes``, ``limits`` and ``errors`` where it has room for names; the rest serves hosts, tests
and simulators.
``protocol/README.md`` is the interface document.
"""

# What the codec itself needs stands here, so that a board has it without loading the names of all
# the other limits and errors; `limits` and `errors` list it with those.

# Bytes of one payload: seven events of any size fit. Below the 256 bytes of a UART receive ring,
# which drops silently what is too much.
PAYLOAD_MAX = 192

# Arrays inside arrays, the outermost counted. Bounds the decoder's stack on a board.
DEPTH_MAX = 4


class WireError(ValueError):
    """What was to be sent or was received does not fit the wire contract."""


class CborError(WireError):
    """A value or a byte string lies outside the CBOR subset of the wire."""
