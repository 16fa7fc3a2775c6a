"""From what a caller says to the record of a request. Pure."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict, Unpack

from wakebridge.client.values import Local, encode_instant, encode_seconds


class Options(TypedDict, total=False):
    """When to fire and how, as keyword arguments of `SchedulerClient.schedule`.

    Exactly one of `at`, `in_`, `every` and `local`; the bridge refuses anything else.

    - `at`: one instant, an aware datetime.
    - `in_`: one delay from acceptance, which no change of the clock moves.
    - `every`: a period. `start` is its first instant, by default one period from acceptance.
    - `local`: a wall-clock time in a zone.
    - `id`: names the schedule; the same id replaces it. By default the event's name: an event that
      is renamed then leaves its old schedule behind.
    - `data`: handed back with each fire; at most 16384 bytes as JSON.
    - `until`, `count`: the last instant and the number of occurrences of `every` and `local`.
    - `misfire`: fire the latest of what was missed `late` (the default), or `skip` it.
    - `grace`: how late still counts as on time, by default a minute.
    - `ephemeral`: forget it when the bridge stops.
    """

    at: datetime
    in_: timedelta
    every: timedelta
    start: datetime
    local: Local
    id: str
    data: Mapping[str, object]
    until: datetime
    count: int
    misfire: Literal["late", "skip"]
    grace: timedelta
    ephemeral: bool


def build_record(skill_id: str, event: str, **options: Unpack[Options]) -> dict[str, Any]:
    """Return the record that asks for this.

    Raise ValueError for a naive datetime, a start without its period, and data with a number that
    is not finite, which would reach the bridge as null.
    """
    record: dict[str, Any] = {"id": options.get("id", event), "event": f"{skill_id}.{event}"}
    if "at" in options:
        record["at"] = encode_instant(options["at"])
    if "in_" in options:
        record["in"] = {"seconds": encode_seconds(options["in_"])}
    if "every" in options:
        record["every"] = {"seconds": encode_seconds(options["every"])}
        if "start" in options:
            record["every"]["start"] = encode_instant(options["start"])
    elif "start" in options:
        raise ValueError("start needs every")
    if "local" in options:
        record["local"] = options["local"].encode()
    if "until" in options:
        record["until"] = encode_instant(options["until"])
    if "grace" in options:
        record["grace_s"] = encode_seconds(options["grace"])
    for name in ("data", "count", "misfire", "ephemeral"):
        if name in options:
            record[name] = options[name]
    refuse_not_finite("data", record.get("data"))
    return record


def refuse_not_finite(name: str, value: object) -> None:
    """Raise ValueError when a number in `value` is one that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} holds {value}, and JSON has no such number")
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            refuse_not_finite(name, each)
