"""Numbers on the wire. Append-only: a number is never reused and never changes its meaning."""

# First element of every message.
TYPE_REQUEST = 0
TYPE_ANSWER = 1
TYPE_EVENT = 2

# Operations of a request.
OP_HELLO = 0
OP_PING = 1
OP_TIMER_GET = 2
OP_TIMER_SET = 3
OP_TIMER_CANCEL = 4
OP_EVENTS_GET = 5
OP_DIAG = 6
OP_RESTART = 7

# Status of an answer.
STATUS_OK = 0
STATUS_BAD_REQUEST = 1
STATUS_UNKNOWN_OP = 2
STATUS_UNSUPPORTED_VERSION = 3
STATUS_OUT_OF_RANGE = 4
STATUS_TOKEN_MISMATCH = 5
STATUS_BUSY = 6
STATUS_INTERNAL = 7

# What caused an event. Only SOURCE_RTC_TIMER makes routines eligible (R40).
SOURCE_BOOT = 1
SOURCE_BUTTON = 2
SOURCE_VOICE = 3
SOURCE_RTC_TIMER = 4
SOURCE_HOST = 5

# Why the board started. Ours: the numbers of MicroPython's ports differ from each other.
RESET_UNKNOWN = 0
RESET_POWER_ON = 1
RESET_HARD = 2
RESET_WATCHDOG = 3
RESET_DEEP_SLEEP = 4
RESET_SOFT = 5
RESET_BROWNOUT = 6

# State of the one countdown.
STATE_IDLE = 0
STATE_ARMED = 1
STATE_EXPIRED = 2

# Flag bits of a timer reading and of an event.
FLAG_APPROXIMATE = 1

# What drives the board's clock.
CLOCK_UNKNOWN = 0
CLOCK_CRYSTAL = 1
CLOCK_RC = 2
CLOCK_RTC = 3
