"""An MQTT broker as a wire: how to connect, a connection that comes back, and the topics.

The adapter of the bridge and the client library both stand on this package; it knows nothing of
schedules.
"""
