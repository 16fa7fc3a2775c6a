"""The scheduler that an OVOS installation runs, in a process of its vintage's venv.

Argument: the port of the bus. The same class in both vintages: the stock scheduler in the stable
one, the reference of OVOS-SCHEDULER-1 in the pre-release.
"""

import sys
import threading

from ovos_bus_client import Message, MessageBusClient  # type: ignore[import-not-found] # not here
from ovos_bus_client.util.scheduler import (  # type: ignore[import-not-found] # not in this venv
    EventScheduler,
)

UP = "bench.scheduler.up"


def main() -> None:
    """Serve until killed."""
    bus = MessageBusClient(host="127.0.0.1", port=int(sys.argv[1]), route="/core", ssl=False)
    bus.run_in_thread()
    bus.connected_event.wait(30)
    EventScheduler(bus)
    bus.emit(Message(UP))
    threading.Event().wait()


if __name__ == "__main__":
    main()
