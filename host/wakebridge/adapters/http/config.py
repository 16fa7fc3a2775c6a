"""Where the HTTP interface listens, and who may use it."""

import ipaddress
from typing import Annotated

import msgspec

from wakebridge.secret_file import read_secret


class HttpConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`token_file` holds the bearer token in its first line; it is read once, at the start.

    A loopback address may go without a token: whoever can connect to it is on this host already.
    Any other address needs one. `unix_socket` is for local programs, mode 0600.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 8377
    token_file: str | None = None
    unix_socket: str | None = None

    def __post_init__(self) -> None:
        """Refuse to be reachable from other hosts without a token; raise ValueError."""
        if self.unix_socket == "":
            raise ValueError("unix_socket must not be empty: leave it out")
        if not self.is_loopback and self.token_file is None:
            raise ValueError(
                f"host {self.host or repr('')} can be reached from other machines: set token_file, "
                "or use 127.0.0.1"
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this host can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def read_token(self) -> str | None:
        """Return the token, None without one. Raises OSError, or ValueError for an empty file."""
        return None if self.token_file is None else read_secret(self.token_file)
