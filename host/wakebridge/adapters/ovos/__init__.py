"""The OVOS message bus as a route: requests in, answers and fired events out (E20, E30, E90)."""

from wakebridge.adapters.ovos.adapter import OvosAdapter
from wakebridge.ovosbus.config import OvosConfig

__all__ = ["OvosAdapter", "OvosConfig"]
