"""The MQTT bus of the bridge.

`MqttBus` is the adapter, `MqttConfig` its configuration, `MqttConnection` the connection that also
serves the client library and the agents' runner.
"""

from wakebridge.adapters.mqtt.adapter import MqttBus
from wakebridge.adapters.mqtt.config import MqttConfig
from wakebridge.adapters.mqtt.connection import MqttConnection, Received

__all__ = ["MqttBus", "MqttConfig", "MqttConnection", "Received"]
