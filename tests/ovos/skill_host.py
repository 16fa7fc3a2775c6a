"""A real OVOSSkill in a process of its own, run by the interpreter of an OVOS environment.

Arguments: the port of the bus, the skill id, the descriptor to tell on. Lines of JSON on stdin say
what to call on the skill; lines of JSON on the descriptor tell what came of it and what fired.
"""

import json
import os
import sys
import threading
from datetime import UTC, datetime, timedelta

from ovos_bus_client import MessageBusClient  # type: ignore[import-not-found] # not in this venv
from ovos_workshop.skills.ovos import OVOSSkill  # type: ignore[import-not-found] # not in this venv

_telling = threading.Lock()
_told = os.fdopen(int(sys.argv[3]), "w")


def tell(**what: object) -> None:
    with _telling:
        _told.write(json.dumps(what) + "\n")
        _told.flush()


class DemoSkill(OVOSSkill):  # type: ignore[misc] # its base is unknown in this venv
    def ring(self, message: object) -> None:
        self._fired("ring", message)

    def tick(self, message: object) -> None:
        self._fired("tick", message)

    @staticmethod
    def _fired(handler: str, message: object) -> None:
        tell(
            fired=handler,
            type=getattr(message, "msg_type", None),
            data=getattr(message, "data", None),
            context=getattr(message, "context", None),
        )


def call(skill: DemoSkill, order: dict[str, object]) -> object:
    """Call the method that the order names: `handler` by name, `in_s` as an aware datetime."""
    arguments = dict(order.get("arguments", {}))  # type: ignore[call-overload] # JSON of a test
    if "handler" in arguments:
        arguments["handler"] = getattr(skill, str(arguments["handler"]))
    if "in_s" in arguments:
        ahead = timedelta(seconds=float(arguments.pop("in_s")))
        arguments["when"] = datetime.now(UTC) + ahead
    return getattr(skill, str(order["call"]))(**arguments)


def main() -> None:
    bus = MessageBusClient(host="127.0.0.1", port=int(sys.argv[1]), route="/core", ssl=False)
    bus.run_in_thread()
    bus.connected_event.wait()
    skill = DemoSkill(bus=bus, skill_id=sys.argv[2])
    tell(ready=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            tell(returned=call(skill, order))
        except Exception as error:  # whatever the skill raises is what the test wants to know
            tell(raised=f"{type(error).__name__}: {error}")
    os._exit(0)  # a skill's threads do not end by themselves


main()
