"""The wire between bridge and board: frames, CBOR subset, messages, codes and limits.

Written in the subset of Python that CPython 3.11 and MicroPython 1.20 share. Nothing here reads a
clock, does IO or keeps state beyond one decoder. A board needs ``errors``, ``limits``, ``cbor`` and
``framing``, and ``codes`` where it has room for names; the rest serves hosts, tests and simulators.
``protocol/README.md`` is the interface document.
"""
