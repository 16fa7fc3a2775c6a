"""The OVOS message bus as a wire: its messages, and one websocket that stays connected.

The adapter of the bridge and the client library both stand on this package; it knows nothing of
schedules. A message is one JSON text frame `{"type", "data", "context"}` (OVOS-MSG-1 section 2),
and the bus hands every frame to every connection, also to the one it came from.
"""
