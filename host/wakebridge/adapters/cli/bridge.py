"""How the commands reach the running bridge: its HTTP interface, over TCP or a Unix socket."""

import asyncio
import functools
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import click
import msgspec

from wakebridge.adapters.http.config import HttpConfig
from wakebridge.config import DEFAULT_PATH, ConfigError, load_config

TIMEOUT_S: Final = 15.0

# Under this name the path of the configuration file is handed from the main command to the others.
CONFIG_META: Final = "wakebridge.config"


class BridgeError(click.ClickException):
    """The bridge cannot be reached or refuses; the message is for a person."""


class BridgeAwayError(BridgeError):
    """Nobody answers where the bridge should be."""


class Address(msgspec.Struct, frozen=True):
    """Where a bridge answers, and the token that it asks for, if any."""

    url: str
    token: str | None = None
    unix_socket: str | None = None

    def __str__(self) -> str:
        """Return what a person can look for."""
        return self.unix_socket or self.url


class Bridge:
    """One running bridge. Every call is one request; failures are `BridgeError`.

    `find` is called when the first request is made: some commands can do without.
    """

    def __init__(self, find: Callable[[], Address]) -> None:
        self._find = find

    @functools.cached_property
    def _address(self) -> Address:
        return self._find()

    def call(
        self, method: str, path: str, body: object = None, timeout_s: float = TIMEOUT_S
    ) -> Any:
        """Return the decoded answer of one request."""
        return asyncio.run(self._call(method, path, body, timeout_s))

    def _session(self, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientSession:
        address = self._address
        headers = {"Content-Type": "application/json"}
        if address.token is not None:
            headers["Authorization"] = f"Bearer {address.token}"
        path = address.unix_socket
        return aiohttp.ClientSession(
            address.url,
            connector=None if path is None else aiohttp.UnixConnector(path),
            timeout=timeout,
            headers=headers,
        )

    def _away(self, error: Exception) -> BridgeAwayError:
        return BridgeAwayError(
            f"the bridge does not answer at {self._address}: {_reason(error)}.\n"
            "Is it running? Name another address with --url, or its file with --config."
        )

    async def _call(self, method: str, path: str, body: object, timeout_s: float) -> Any:
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with (
                self._session(aiohttp.ClientTimeout(total=timeout_s)) as session,
                session.request(method, path, data=data) as response,
            ):
                return _answer(response.ok, await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._away(error) from None
        except msgspec.DecodeError as error:
            raise BridgeError(f"{self._address} is no bridge: its answer is {error}") from None

    def follow(self, path: str) -> Iterator[Any]:
        """Yield the decoded lines of an endless answer; first None, when it has begun."""
        with asyncio.Runner() as runner:
            lines = self._follow(path)
            try:
                while True:
                    yield runner.run(anext(lines))
            except StopAsyncIteration:
                return
            finally:
                runner.run(lines.aclose())

    async def _follow(self, path: str) -> AsyncGenerator[Any, None]:
        async with self._session(aiohttp.ClientTimeout(connect=TIMEOUT_S)) as session:
            try:
                async with session.get(path) as response:
                    if not response.ok:
                        _answer(response.ok, await response.read())
                    yield None
                    async for line in response.content:
                        yield msgspec.json.decode(line)
            except aiohttp.ClientPayloadError:
                return  # the bridge has ended in the middle of the answer
            except (aiohttp.ClientError, OSError) as error:
                raise self._away(error) from None

    def ask_scheduler(self, verb: str, owner: str, data: object, route: str = "mqtt") -> Any:
        """Return the answer of one request of OVOS-SCHEDULER-1 in the name of `owner`."""
        answer = self.call(
            "POST",
            f"/api/scheduler/{verb}",
            {"data": data, "context": {"skill_id": owner, "source": "cli"}, "route": route},
        )
        if not answer["ok"]:
            raise BridgeError(f"{answer['error']}: {answer['reason']}")
        return answer

    def call_tool(self, session_id: str | None, tool_input: object) -> tuple[Any, str]:
        """Return result and timer error of one call of the schedule tool."""
        body: dict[str, object] = {"input": tool_input}
        if session_id is not None:
            body["session_id"] = session_id
        answer = self.call("POST", "/api/tools/schedule", body)
        output = msgspec.json.decode(answer["output"])
        if answer["is_error"]:
            error = output["error"]
            raise BridgeError(f"{error['code']}: {error['reason']}")
        return output["result"], output["timer_error"]


def _answer(ok: bool, body: bytes) -> Any:
    """Return a decoded answer; raise `BridgeError` with the reason of a refusal."""
    answer = msgspec.json.decode(body)
    if ok:
        return answer
    error = answer.get("error", {}) if isinstance(answer, dict) else {}
    raise BridgeError(str(error.get("reason", answer)))


def _reason(error: Exception) -> str:
    """Return why there was no answer, without the address that aiohttp repeats."""
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(error.os_error.errno)
    return str(error) or "no answer in time"


def find_bridge(url: str | None, config: Path | None) -> Bridge:
    """Return the bridge that the options name; without any, the one of the configuration file."""
    return Bridge(lambda: _find(url, config))


def _find(url: str | None, config: Path | None) -> Address:
    if url is not None and not _is_address(url):
        raise BridgeError(f"--url is {url!r}, which is no address: write http://127.0.0.1:8377")
    if url is not None and config is None:
        return Address(url)
    http = HttpConfig()
    path = config or DEFAULT_PATH
    if config is not None or path.exists():
        try:
            found = load_config(path).http
        except ConfigError as error:
            raise BridgeError(str(error)) from None
        if found is None:
            raise BridgeError(f"{path} has no section [http], and commands reach a bridge by HTTP")
        http = found
    try:
        token = http.read_token()
    except (OSError, ValueError) as error:
        raise BridgeError(f"the token cannot be read: {error}") from None
    if url is not None:
        return Address(url, token)
    host = f"[{http.host}]" if ":" in http.host else http.host
    # The socket is for the bridge's own user; others may still use the port.
    own = http.unix_socket is not None and os.access(http.unix_socket, os.W_OK)
    return Address(f"http://{host}:{http.port}", token, http.unix_socket if own else None)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is none
        return False
