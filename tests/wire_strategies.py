"""Hypothesis strategies for what travels on the wire."""

from typing import cast

from hypothesis import strategies as st

from wakewire.limits import COUNTDOWN_MAX_MS, ID_MAX, SEQ_MAX, TOKEN_MAX
from wakewire.messages import Event, EventBatch, Hello, TimerState

BOUNDARIES = [0, 1, 23, 24, 255, 256, 65535, 65536, 2**30, 2**31, 2**32 - 1, 2**32, 2**63]


def numbers(most: int, least: int = 0) -> st.SearchStrategy[int]:
    """Integers of a range, the places where their encoding changes more often than by chance."""
    edges = [edge for edge in [*BOUNDARIES, least, most] if least <= edge <= most]
    return st.integers(least, most) | st.sampled_from(edges)


def texts(most_bytes: int) -> st.SearchStrategy[str]:
    """Texts of at most that many bytes."""
    return st.text(max_size=most_bytes).filter(lambda text: len(text.encode()) <= most_bytes)


SCALARS: st.SearchStrategy[object] = cast(
    "st.SearchStrategy[object]",
    st.none()
    | st.booleans()
    | numbers(2**64 - 1)
    | numbers(2**64, 1).map(lambda number: -number)
    | st.binary(max_size=30)
    | st.text(max_size=30)
    | numbers(260).map(bytes),
)

VALUES: st.SearchStrategy[object] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=8), max_leaves=10
)

APPENDED = st.lists(st.none() | st.booleans() | numbers(2**32) | st.binary(max_size=4), max_size=3)
BOOT_IDS = st.binary(min_size=8, max_size=8)
CODES = numbers(255)
UPTIMES = numbers(2**53 - 1)

ENTRIES = st.tuples(numbers(SEQ_MAX, 1), CODES, UPTIMES, numbers(TOKEN_MAX), CODES)
EVENTS = st.builds(lambda boot_id, entry: Event(boot_id, *entry), BOOT_IDS, ENTRIES)

TIMER_STATES = st.builds(
    TimerState,
    BOOT_IDS,
    CODES,
    numbers(TOKEN_MAX),
    numbers(COUNTDOWN_MAX_MS),
    numbers(COUNTDOWN_MAX_MS),
    CODES,
    UPTIMES,
)

HELLOS = st.builds(
    Hello,
    numbers(255, 1),
    texts(12),
    texts(10),
    texts(32),
    st.binary(max_size=16),
    BOOT_IDS,
    CODES,
    numbers(65535, 1),
    numbers(2**53 - 1, 1),
    numbers(65535, 1),
    CODES,
    st.lists(texts(12), max_size=3),
    UPTIMES,
)


@st.composite
def event_batches(draw: st.DrawFn) -> EventBatch:
    """Pages of up to four consecutive events."""
    boot_id = draw(BOOT_IDS)
    entries = draw(st.lists(ENTRIES, max_size=4))
    first = draw(numbers(SEQ_MAX - 4, 1))
    events = [Event(boot_id, first + at, *entry[1:]) for at, entry in enumerate(entries)]
    return EventBatch(
        boot_id,
        draw(numbers(SEQ_MAX)),
        draw(numbers(SEQ_MAX)),
        draw(numbers(SEQ_MAX)),
        events,
    )


_COUNTERS = st.lists(numbers(2**32), max_size=17)
_ARGUMENTS: list[st.SearchStrategy[list[object]]] = [
    st.tuples(CODES, CODES).map(list),
    st.just([]),
    st.just([]),
    st.tuples(numbers(TOKEN_MAX, 1), numbers(COUNTDOWN_MAX_MS, 1)).map(list),
    numbers(TOKEN_MAX).map(lambda token: [token]),
    st.tuples(BOOT_IDS, numbers(SEQ_MAX)).map(list),
    st.just([]),
    st.just([]),
]

REQUESTS = st.integers(0, 7).flatmap(
    lambda op: st.builds(
        lambda request_id, args, appended: [0, request_id, op, *args, *appended],
        numbers(ID_MAX),
        _ARGUMENTS[op],
        APPENDED,
    )
)

# The rule of wire.cddl for each kind of answer, and the fields such an answer carries.
ANSWER_FIELDS: dict[str, st.SearchStrategy[list[object]]] = {
    "hello-answer": HELLOS.map(Hello.fields),
    "ping-answer": UPTIMES.map(lambda uptime_ms: [uptime_ms]),
    "timer-answer": TIMER_STATES.map(TimerState.fields),
    "events-answer": event_batches().map(EventBatch.fields),
    "diag-answer": _COUNTERS.map(list),
    "restart-answer": st.just([]),
}

ANSWERS: st.SearchStrategy[tuple[str, list[object]]] = st.sampled_from(
    sorted(ANSWER_FIELDS)
).flatmap(
    lambda rule: st.builds(
        lambda request_id, fields, appended: (rule, [1, request_id, 0, *fields, *appended]),
        numbers(ID_MAX),
        ANSWER_FIELDS[rule],
        st.just([]) if rule == "diag-answer" else APPENDED,
    )
)

REFUSALS = st.builds(
    lambda request_id, status, reason, appended: [1, request_id, status, reason, *appended],
    numbers(ID_MAX),
    numbers(255, 1),
    texts(64),
    APPENDED,
)

PUSHED = st.builds(
    lambda event, appended: [2, event.boot_id, *event.fields(), *appended], EVENTS, APPENDED
)

MESSAGES: st.SearchStrategy[list[object]] = (
    REQUESTS | ANSWERS.map(lambda answer: answer[1]) | REFUSALS | PUSHED
)
