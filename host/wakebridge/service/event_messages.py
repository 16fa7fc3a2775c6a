"""The messages that scheduled events put on a bus (E30, E41)."""

import msgspec

from wakebridge.bus import MISSED_TYPE, BusMessage
from wakebridge.schedule.instants import format_instant
from wakebridge.schedule.misfire import Fire, Missed

_RAW_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def fire_message(fire: Fire, fired_ns: int) -> BusMessage:
    """Build the fired event: stored data and context, plus the `scheduler` key (E30)."""
    schedule = fire.schedule
    # Raw values: what the owner sent comes back byte for byte (E11).
    context: dict[str, object] = dict(_RAW_OBJECT.decode(schedule.context_json or b"{}"))
    context["scheduler"] = {
        "id": schedule.record.id,
        "skill_id": schedule.record.skill_id,
        "due": format_instant(fire.due_ns),
        "fired": format_instant(fired_ns),
        "remaining": fire.remaining,
    }
    return BusMessage(
        schedule.legacy_event or schedule.record.event,
        schedule.record.data_json,
        context,
        schedule.record.skill_id,
    )


def missed_message(missed: Missed) -> BusMessage:
    """Build `ovos.scheduler.missed` (E41). `missed_total` appears when the list is cut."""
    record = missed.schedule.record
    data: dict[str, object] = {
        "id": record.id,
        "skill_id": record.skill_id,
        "missed": [format_instant(due_ns) for due_ns in missed.due_ns],
        "fired_late": _instant(missed.fired_late_ns),
        "next": _instant(missed.next_ns),
    }
    if missed.total > len(missed.due_ns):
        data["missed_total"] = missed.total
    return BusMessage(MISSED_TYPE, msgspec.json.encode(data), {}, record.skill_id)


def _instant(instant_ns: int | None) -> str | None:
    return None if instant_ns is None else format_instant(instant_ns)
