"""The limits that both ends of the wire keep, each with its unit and its reason."""

from wakewire import DEPTH_MAX, PAYLOAD_MAX

__all__ = [
    "BOOT_ID_BYTES",
    "CODE_MAX",
    "COUNTDOWN_MAX_MS",
    "COUNTDOWN_MIN_MS",
    "DEPTH_MAX",
    "ID_MAX",
    "PAYLOAD_MAX",
    "PROTOCOL_VERSION",
    "PROTOCOL_VERSION_MIN",
    "SEQ_MAX",
    "TOKEN_MAX",
]

# The versions this package speaks. A version is raised only when an old reader would misunderstand
# a new writer; appended fields, operations and codes do not raise it.
PROTOCOL_VERSION = 1
PROTOCOL_VERSION_MIN = 1

# Bytes of a boot id: random, so that two boots of one board collide once in 2^64.
BOOT_ID_BYTES = 8

# Milliseconds of one countdown: seven days, below 2^30, so a small int on a 32-bit board.
COUNTDOWN_MAX_MS = 604800000
COUNTDOWN_MIN_MS = 1

# A request id, an operation and a code.
ID_MAX = 0xFFFF
CODE_MAX = 0xFF

# A token and an event sequence number: 32 bits, as a checkpoint in backup registers keeps them.
TOKEN_MAX = 0xFFFFFFFF
SEQ_MAX = 0xFFFFFFFF
