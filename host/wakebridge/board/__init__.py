"""The board: the link to it, from the bytes of the port to calls with answers."""
