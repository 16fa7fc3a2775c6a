"""What a connection to an MQTT broker is configured by."""

import ssl
from pathlib import Path
from typing import Final, Literal

import msgspec

from wakebridge.mqttbus.topics import check_base

SESSION_EXPIRY_S: Final = 604_800
"""How long the broker keeps what arrives for us while we are away: as long as a host can sleep on
one countdown of the board, seven days."""

KEEPALIVE_S: Final = 30
"""After 1.5 times this the broker publishes our will, so `offline` is true within a minute."""


class MqttConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach the broker and who we are there.

    The session is persistent. Once the broker has acknowledged a request it must not be lost
    because the bridge restarts or its host sleeps; a requester for whom a late answer is worthless
    says so with the message expiry of MQTT 5. It also makes the client id the same at every
    connection, and so a broker publishes the will of a dead connection before it accepts the next
    one, never after `online`.
    """

    host: str = "127.0.0.1"
    port: int = 1883
    base: str = "wakebridge"
    """The first topic levels of everything; separates several bridges on one broker."""
    client_id: str = "wakebridge"
    """Must be unique on the broker. Empty: a new one each time, and no persistent session."""
    username: str | None = None
    password_file: str | None = None
    """A file whose first line is the password. It is read at every connection."""
    tls: bool = False
    tls_ca_file: str | None = None
    """The authorities to trust; None: those of the system."""
    tls_cert_file: str | None = None
    """Our own certificate, where the broker asks for one."""
    tls_key_file: str | None = None
    protocol: Literal["5", "3.1.1"] = "5"
    """3.1.1 for a broker that speaks no MQTT 5, such as the embedded one of the demo."""
    keepalive_s: int = KEEPALIVE_S
    session_expiry_s: int = SESSION_EXPIRY_S

    def __post_init__(self) -> None:
        """Refuse values that no broker would take; raise ValueError naming the field."""
        if not self.host:
            raise ValueError("host must not be empty")
        if not 1 <= self.port <= 65_535:
            raise ValueError(f"port must be 1..65535, it is {self.port}")
        check_base("base", self.base)
        if not 5 <= self.keepalive_s <= 65_535:
            raise ValueError(f"keepalive_s must be 5..65535, it is {self.keepalive_s}")
        if not 0 <= self.session_expiry_s < 0xFFFF_FFFF:
            raise ValueError(
                f"session_expiry_s must be 0..4294967294, it is {self.session_expiry_s}"
            )
        if self.password_file is not None and self.username is None:
            raise ValueError("password_file needs a username")
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file come together")
        if not self.tls and (self.tls_ca_file is not None or self.tls_cert_file is not None):
            raise ValueError("tls_ca_file and tls_cert_file need tls = true")

    def read_password(self) -> str | None:
        """Return the password of `password_file`, None without one. Raise OSError."""
        if self.password_file is None:
            return None
        return Path(self.password_file).read_text(encoding="utf-8").split("\n", 1)[0].rstrip("\r")

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the context of TLS connections, None without TLS. Raise OSError.

        The broker's certificate and name are always verified.
        """
        if not self.tls:
            return None
        context = ssl.create_default_context(cafile=self.tls_ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.tls_cert_file is not None:
            context.load_cert_chain(self.tls_cert_file, self.tls_key_file)
        return context
