"""Every limit of the routine domain: a name, a unit and a reason (design rule 7)."""

NS_PER_S = 1_000_000_000

DELAY_MAX_S = 604_800
"""Longest `delay_s`: seven days, one leg of the board's countdown (R1)."""

INTERVAL_MAX_S = 604_800
"""Longest `interval_s`: seven days (R1)."""

RUN_AT_PAST_MAX_S = 60
"""A `run_at` this far in the past still counts as "now": an agent needs seconds to write its
request. Older ones are refused, because running a task at once is never what a wrong year meant."""

INSTANT_MAX_NS = 2**63 - 1
"""Last instant a routine may name (in the year 2262): what a signed 64-bit count of ns holds."""

TASK_MAX_CHARS = 16_384
"""Longest task. The whole document is written at every transition, so its parts stay small;
the same size as the data of a scheduled event. Characters, because JSON Schema counts those."""

TASK_PATTERN = (
    "[^\\x00-\\x20\\x7f-\\xa0\\u1680\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u3000\\ufeff]"
)
"""What a task must hold at least once: a visible character. Written out, because JSON Schema and
Python do not mean the same by white space."""

RESULT_MAX_CHARS = 16_384
"""What `list` keeps of a result, a partial result or an error; the transcript has all of it."""

ROUTINES_LIVE_MAX = 512
"""Routines that are scheduled, queued or running. Bounds the document to a few megabytes."""

ROUTINES_STOPPED_MAX = 256
"""Stopped routines kept for `list`; the ones that stopped longest ago leave first."""

RUNS_MAX = 1_024
"""Queued and running work of all kinds, so that a flood of requests cannot grow the document."""

RUNS_ACTIVE_MAX = 4
"""Scheduled and background runs that work at the same time; interactive ones do not count."""

LINEAGES_MAX = 1_024
"""Conversations in the ledger. Ended ones that no routine belongs to leave first."""

REVISIONS_MAX = 32
"""Newest revisions remembered per conversation; a schedule holds the root, so none is lost."""

ID_MAX_CHARS = 200
"""Longest session id, so that a file name can be made of it."""

SESSION_ID_PATTERN = (
    "^(?!\\.{1,2}$)[^\\x00-\\x1f\\x7f-\\x9f\\u200b-\\u200f\\u2028-\\u202f\\u2060-\\u206f\\ufeff]+$"
)
"""What a session id is made of: no control characters, none that are invisible, none that change
the direction of writing, because ids are shown in logs and on terminals. And neither `.` nor `..`,
which leave every path that they are put into."""

SESSION_ID_RULE = f"text of 1 to {ID_MAX_CHARS} visible characters, and neither . nor .."
TASK_RULE = f"text of 1 to {TASK_MAX_CHARS} characters that is not blank"
"""The same for people."""

BUSY_LEASE_MAX_S = 3_600
"""Longest time a backend may hold a session at once: a backend that crashed meanwhile must not keep
a routine waiting for longer."""

RUN_AT_MAX_CHARS = 64
"""Longest `run_at`: an RFC 3339 instant with nanoseconds and an offset has 35."""
