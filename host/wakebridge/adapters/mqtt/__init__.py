"""The MQTT bus of the bridge: requests, answers, fired events, and what is retained about us."""

from wakebridge.adapters.mqtt.adapter import MqttBus
from wakebridge.adapters.mqtt.requests import Tool

__all__ = ["MqttBus", "Tool"]
