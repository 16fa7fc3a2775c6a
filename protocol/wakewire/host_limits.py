"""The limits that only a host checks, each with its unit and its reason; no board imports this."""

# Bytes of one request payload. Escaped at worst (106 bytes) it still fits the smallest receive
# ring of a supported board (128 bytes), even when the board is busy while all of it arrives.
REQUEST_MAX = 48

# Bytes of one text field, a refusal's reason included, so that one text never fills a payload.
TEXT_MAX = 64

# Milliseconds since boot, and any counter: the largest integer that JSON readers keep exactly.
UPTIME_MAX_MS = (1 << 53) - 1

# Bytes of console text a host decoder keeps until it is taken; the oldest go first.
CONSOLE_MAX = 4096
