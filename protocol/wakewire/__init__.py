"""The wire between bridge and board: frames, CBOR subset, messages, codes and limits.

Written in the subset of Python that CPython 3.11 and MicroPython 1.20 share. Nothing here reads a
clock, does IO or keeps state beyond one decoder. A board imports ``codes``, ``limits``, ``errors``,
``framing`` and ``cbor``; ``messages`` serves the host, the tests and simulators.
``protocol/README.md`` is the interface document.
"""
