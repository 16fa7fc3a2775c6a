"""A real broker for the MQTT runner."""

from brokers import mosquitto

__all__ = ["mosquitto"]
