"""Every limit of the wire, with its unit and its reason; both ends read them from here."""

# The versions this package speaks. A version is raised only when an old reader would misunderstand
# a new writer; appended fields, operations and codes do not raise it.
PROTOCOL_VERSION = 1
PROTOCOL_VERSION_MIN = 1

# Bytes of one payload. UART receive rings hold 256 bytes and drop silently.
PAYLOAD_MAX = 192

# Bytes of one request payload. Escaped at worst (106 bytes) it still fits the smallest receive
# ring of a supported board (128 bytes), even when the board is busy while all of it arrives.
REQUEST_MAX = 48

# Arrays inside arrays, the outermost counted. Bounds the decoder's stack on a board.
DEPTH_MAX = 4

# Bytes of one text field, a refusal's reason included, so that one text never fills a payload.
TEXT_MAX = 64

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

# Milliseconds since boot, and any counter: the largest integer that JSON readers keep exactly.
UPTIME_MAX_MS = (1 << 53) - 1

# Bytes of console text a host decoder keeps until it is taken; the oldest go first.
CONSOLE_MAX = 4096
