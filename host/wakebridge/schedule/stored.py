"""How a record is kept: one line of parsed fields, then the body as it is answered.

`[1,<skill_id>,<id>,<event>,<rule>,<until_ns>,<count>,<misfire>,<grace_ns>,<data_from>,<body_len>]`,
a newline, and the body's compact JSON, which holds no newline itself. The first line saves parsing
100 000 bodies at a start; the body carries the record of E24 unchanged, for whoever reads the store
next. A version, a field or a kind of rule that is not known is an error: nothing is ever dropped.
"""

from typing import Annotated, Final, Literal

import msgspec

from wakebridge.schedule.errors import CorruptRecord
from wakebridge.schedule.record import GRACE_DEFAULT_NS, Misfire, Record
from wakebridge.schedule.rules import Local, Rule, shared_local

FORMAT_VERSION: Final = 1


class _Line(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    version: Literal[1]
    skill_id: str
    id: str
    event: str
    rule: Rule
    until_ns: int | None
    count: int | None
    misfire: Misfire
    grace_ns: Annotated[int, msgspec.Meta(ge=0)]
    data_from: Annotated[int, msgspec.Meta(ge=0)]
    body_len: Annotated[int, msgspec.Meta(ge=2)]


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Line)


def encode_stored(record: Record) -> bytes:
    """Return the bytes to store for a record, which must not be ephemeral (E50).

    The boot clock's deadline of an `in` is left out: after a restart it is an `at` (E5).
    """
    if record.ephemeral:
        raise ValueError("an ephemeral schedule is never written (E50)")
    line = _Line(
        FORMAT_VERSION,
        record.skill_id,
        record.id,
        record.event,
        record.rule,
        record.until_ns,
        record.count,
        record.misfire,
        record.grace_ns,
        record.data_from,
        len(record.body),
    )
    return b"%b\n%b" % (_ENCODER.encode(line), record.body)


def decode_stored(stored: bytes, names: dict[str, str] | None = None) -> Record:
    """Return the record that `encode_stored` wrote; raises `CorruptRecord`.

    `names` holds the owners and events of the records before: one name is in memory once, however
    many schedules have it.
    """
    if names is None:
        names = {}
    head, _, body = stored.partition(b"\n")
    try:
        line = _DECODER.decode(head)
    except msgspec.MsgspecError as problem:
        raise CorruptRecord(f"a stored schedule cannot be read: {problem}") from None
    if len(body) != line.body_len or line.data_from >= line.body_len:
        raise CorruptRecord("a stored schedule is cut short")
    rule = line.rule
    return Record(
        id=line.id,
        skill_id=names.setdefault(line.skill_id, line.skill_id),
        event=names.setdefault(line.event, line.event),
        rule=shared_local(rule.time_s, rule.days, rule.zone) if type(rule) is Local else rule,
        in_boot_due_ns=None,
        until_ns=line.until_ns,
        count=line.count,
        misfire="late" if line.misfire == "late" else "skip",
        grace_ns=GRACE_DEFAULT_NS if line.grace_ns == GRACE_DEFAULT_NS else line.grace_ns,
        ephemeral=False,
        body=body,
        data_from=line.data_from,
    )
