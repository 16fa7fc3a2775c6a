"""The client library: have events fired by the bridge, from asyncio code, typed (E80).

Over MQTT:

>>> import asyncio
>>> from datetime import UTC, datetime, timedelta
>>> from wakebridge.client import Fired, Local, ScheduleRefused, connect_mqtt

>>> async def main() -> None:
...     async with connect_mqtt("demo.skill", port=PORT) as client:
...
...         async def ring(fired: Fired) -> None:
...             print("due", fired.due, "with", fired.data)
...
...         tea = await client.schedule("tea", ring, in_=timedelta(minutes=4))
...         await client.schedule(
...             "wake-up",
...             ring,
...             local=Local("06:30", "Europe/Lisbon", ("mon", "tue", "wed", "thu", "fri")),
...             data={"song": "morning"},
...         )
...         print([entry.record["id"] for entry in await client.list()])
...         print(await client.cancel(tea.id))
...         try:
...             await client.schedule("tea", ring, every=timedelta(0))
...         except ScheduleRefused as refused:
...             print(refused.code)

>>> asyncio.run(main())
['tea', 'wake-up']
True
bad_recurrence

A handler is registered before its schedule is sent and goes with `cancel`. A process that starts
anew either schedules again with the same ids, which changes nothing that is the same, or has its
old schedules' fires handed to `client.listen(event, handler)`.
"""

from wakebridge.client.errors import ClientError, NoAnswer, NotConnected, ScheduleRefused
from wakebridge.client.mqtt import connect_mqtt
from wakebridge.client.ovos import connect_ovos
from wakebridge.client.record import Options
from wakebridge.client.scheduler import Handler, MissedHandler, SchedulerClient
from wakebridge.client.values import Entry, Fired, Local, Missed, Scheduled, State

__all__ = [
    "ClientError",
    "Entry",
    "Fired",
    "Handler",
    "Local",
    "Missed",
    "MissedHandler",
    "NoAnswer",
    "NotConnected",
    "Options",
    "ScheduleRefused",
    "Scheduled",
    "SchedulerClient",
    "State",
    "connect_mqtt",
    "connect_ovos",
]
