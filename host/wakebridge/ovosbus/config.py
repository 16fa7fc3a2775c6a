"""How to reach the OVOS message bus."""

import msgspec


class OvosConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `websocket` section of `mycroft.conf`, under the same names.

    `verify_tls` false accepts the self-signed certificate that the bus makes for itself.
    `replay_after` is a message type that says that the skills are loaded, such as `mycroft.ready`:
    it ends the wait of `events.replay_delay_s` early (E53).
    """

    enabled: bool = False
    host: str = "127.0.0.1"
    port: int = 8181
    route: str = "/core"
    ssl: bool = False
    verify_tls: bool = True
    replay_after: str | None = None

    def __post_init__(self) -> None:
        """Refuse what is no address; raise ValueError naming the field."""
        if not self.host:
            raise ValueError("host must not be empty")
        if not 1 <= self.port <= 65_535:
            raise ValueError(f"port must be 1..65535, it is {self.port}")

    @property
    def url(self) -> str:
        """The websocket's address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'wss' if self.ssl else 'ws'}://{host}:{self.port}/{self.route.lstrip('/')}"
