"""What the tests of closed doors share: a real broker, and how a process is doing."""

from brokers import mosquitto

__all__ = ["mosquitto"]
