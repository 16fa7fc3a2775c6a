"""Ways to talk to the bridge. Adapters translate and never decide, and do not know each other."""
