"""The rows of the crash table: what is on disk and what follows, for a kill at each commit.

The tests bring each of them about with a real process, and the reference page is generated from
here, so that neither can say anything the other does not.
"""

from dataclasses import dataclass

QUEUED_AGAIN = "it had not left the queue"
MAY_HAVE_WORKED = "the agent may have done its work, so nothing is repeated (R48)"
NOT_ANSWERED = "the request was not answered; it had no effect"
DONE = "what was committed stays"


@dataclass(frozen=True)
class Kill:
    """One kill. `disk` is how the routine stands on disk, `after` its status after the restart.

    `begun` is how many agents have begun with the task in all, `why` says it in words.
    """

    disk: str
    after: str
    begun: int
    why: str


@dataclass(frozen=True)
class Row:
    """One commit of the lifecycle (R32), and a kill on either side of it.

    `stood` and `stands` name the commit as `dying_bridge.standing` does, `scene` what leads to it.
    """

    arrow: str
    scene: str
    stood: str
    stands: str
    before: Kill
    after: Kill


ROWS = (
    Row(
        "created -> scheduled",
        "create",
        "absent",
        "scheduled",
        before=Kill("absent", "absent", 0, NOT_ANSWERED),
        after=Kill("scheduled", "scheduled", 0, "saved, and the countdown is armed for it"),
    ),
    Row(
        "scheduled -> queued",
        "run",
        "scheduled",
        "queued",
        before=Kill(
            "scheduled", "completed", 1, "the cursor is old too: the wake is read again (R41)"
        ),
        after=Kill("queued", "completed", 1, QUEUED_AGAIN),
    ),
    Row(
        "queued -> running",
        "run",
        "queued",
        "running, active",
        before=Kill("queued", "completed", 1, QUEUED_AGAIN),
        after=Kill(
            "running, active", "interrupted", 0, "it counts as begun, whatever the agent saw (R48)"
        ),
    ),
    Row(
        "queued -> running, waiting for its session",
        "run behind other work",
        "queued",
        "running, waiting",
        before=Kill("queued", "completed", 1, QUEUED_AGAIN),
        after=Kill(
            "running, waiting", "interrupted", 0, "so does one that waited for an idle session"
        ),
    ),
    Row(
        "waiting for its session -> at work",
        "run after other work",
        "running, waiting",
        "running, active",
        before=Kill("running, waiting", "interrupted", 0, "it had left the queue (R48)"),
        after=Kill("running, active", "interrupted", 0, "as above"),
    ),
    Row(
        "running, with a piece of its result",
        "run and stay",
        "running, active",
        "running, active, with a partial result",
        before=Kill("running, active", "interrupted", 1, MAY_HAVE_WORKED),
        after=Kill(
            "running, active, with a partial result",
            "interrupted",
            1,
            "as above, and the partial result is kept",
        ),
    ),
    Row(
        "running -> completed",
        "run",
        "running, active",
        "completed",
        before=Kill("running, active", "interrupted", 1, MAY_HAVE_WORKED),
        after=Kill("completed", "completed", 1, "the transcript's line is written at the start"),
    ),
    Row(
        "running -> scheduled (next repetition)",
        "repeat",
        "running, active",
        "scheduled",
        before=Kill("running, active", "interrupted", 1, "no repetition until it is updated (R48)"),
        after=Kill("scheduled", "scheduled", 1, "the next occurrence is on the old cadence (R47)"),
    ),
    Row(
        "running -> failed",
        "fail",
        "running, active",
        "failed",
        before=Kill("running, active", "interrupted", 1, MAY_HAVE_WORKED),
        after=Kill("failed", "failed", 1, DONE),
    ),
    Row(
        "scheduled -> cancelled",
        "cancel what is scheduled",
        "scheduled",
        "cancelled",
        before=Kill("scheduled", "scheduled", 0, NOT_ANSWERED),
        after=Kill("cancelled", "cancelled", 0, DONE),
    ),
    Row(
        "queued -> cancelled",
        "cancel what is queued",
        "queued",
        "cancelled",
        before=Kill("queued", "completed", 1, NOT_ANSWERED),
        after=Kill("cancelled", "cancelled", 0, DONE),
    ),
    Row(
        "running, asked to stop",
        "cancel what runs",
        "running, active, with a partial result",
        "running, active, with a partial result, cancellation requested",
        before=Kill("running, active, with a partial result", "interrupted", 1, NOT_ANSWERED),
        after=Kill(
            "running, active, with a partial result, cancellation requested",
            "cancelled",
            1,
            "the agent has not confirmed that it stopped, and `list` says so",
        ),
    ),
    Row(
        "running -> cancelled",
        "cancel what runs",
        "running, active, with a partial result, cancellation requested",
        "cancelled, cancellation confirmed",
        before=Kill(
            "running, active, with a partial result, cancellation requested",
            "cancelled",
            1,
            "that it was confirmed is lost, so it is `not_confirmed`",
        ),
        after=Kill("cancelled, cancellation confirmed", "cancelled", 1, DONE),
    ),
    Row(
        "running -> interrupted, by a request",
        "interrupt what runs",
        "running, active, with a partial result",
        "interrupted",
        before=Kill("running, active, with a partial result", "interrupted", 1, MAY_HAVE_WORKED),
        after=Kill("interrupted", "interrupted", 1, DONE),
    ),
    Row(
        "running -> interrupted, at a clean stop",
        "stop",
        "running, active, with a partial result",
        "interrupted",
        before=Kill("running, active, with a partial result", "interrupted", 1, MAY_HAVE_WORKED),
        after=Kill("interrupted", "interrupted", 1, DONE),
    ),
    Row(
        "running -> interrupted, at the start after a crash",
        "start again",
        "running, active, with a partial result",
        "interrupted",
        before=Kill(
            "running, active, with a partial result", "interrupted", 1, "the next start does it"
        ),
        after=Kill("interrupted", "interrupted", 1, DONE),
    ),
    Row(
        "stopped -> scheduled, by an update",
        "update",
        "failed",
        "scheduled",
        before=Kill("failed", "failed", 1, NOT_ANSWERED),
        after=Kill("scheduled", "scheduled", 1, "saved, and the countdown is armed for it"),
    ),
)


def page() -> str:
    """Return the page of the reference."""
    lines = [_HEAD, "| commit | killed | on disk | after the restart | agents begun | why |"]
    lines.append("|---|---|---|---|---|---|")
    for row in ROWS:
        for when, kill in (("before it", row.before), ("after it", row.after)):
            cells = (row.arrow.replace("->", "→"), when, kill.disk, f"**{kill.after}**")
            lines.append("| " + " | ".join((*cells, str(kill.begun), kill.why)) + " |")
    return "\n".join(lines) + "\n"


_HEAD = """\
# What a crash leaves

The bridge saves a routine's step first and takes it afterwards. So there are two moments to be
killed in: right before the commit, when the step has not happened, and right after it, when it has
happened and nobody knows. This table has both for every step of a routine's life. The restarted
bridge finds the state on disk and goes on as the specification prescribes (R32, R41, R42, R47,
R48): what is in the queue runs, what has left it does not run again.

Every line is a test: the real daemon with a board and an agent is ended with SIGKILL at that commit
and started again. This page is generated from the rows of those tests, in
`tests/crash_rows.py`.

`agents begun` is how many times an agent has begun with the task, before and after the crash
together. It is never more than one for one occurrence. The steps of a status have the phase of the
run beside it: `waiting` for the session, or `active` with the agent.
"""


if __name__ == "__main__":
    print(page(), end="")
