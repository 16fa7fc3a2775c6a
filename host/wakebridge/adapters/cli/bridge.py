"""How the commands reach the running bridge: its HTTP interface, over TCP or a Unix socket."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, Final

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


class Bridge:
    """One running bridge. Every call is one request; failures are `BridgeError`."""

    def __init__(self, url: str, token: str | None, unix_socket: str | None) -> None:
        self._url = url
        self._token = token
        self._unix_socket = unix_socket

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the decoded answer of one request."""
        return asyncio.run(self._call(method, path, body))

    def _session(self, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientSession:
        headers = {"Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        connector = None if self._unix_socket is None else aiohttp.UnixConnector(self._unix_socket)
        return aiohttp.ClientSession(
            self._url, connector=connector, timeout=timeout, headers=headers
        )

    def _away(self, error: Exception) -> BridgeError:
        where = self._unix_socket or self._url
        return BridgeError(
            f"the bridge does not answer at {where}: {error or 'timeout'}.\n"
            "Is it running? Name another address with --url, or its file with --config."
        )

    async def _call(self, method: str, path: str, body: object) -> Any:
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with (
                self._session(aiohttp.ClientTimeout(total=TIMEOUT_S)) as session,
                session.request(method, path, data=data) as response,
            ):
                answer = msgspec.json.decode(await response.read())
                if response.ok:
                    return answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._away(error) from None
        except msgspec.DecodeError as error:
            raise BridgeError(f"{self._url} is not a bridge: its answer is {error}") from None
        raise BridgeError(str(answer.get("error", {}).get("reason", answer)))

    def follow(self, path: str) -> Iterator[Any]:
        """Yield the decoded lines of an endless answer."""
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
                    async for line in response.content:
                        yield msgspec.json.decode(line)
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


def find_bridge(url: str | None, config: Path | None) -> Bridge:
    """Return the bridge that the options name; without any, the one of the configuration file."""
    if url is not None:
        return Bridge(url, None, None)
    http = HttpConfig()
    path = config or DEFAULT_PATH
    if config is not None or path.exists():
        try:
            http = load_config(path).http or http
        except ConfigError as error:
            raise BridgeError(str(error)) from None
    try:
        token = http.read_token()
    except (OSError, ValueError) as error:
        raise BridgeError(f"the token cannot be read: {error}") from None
    host = f"[{http.host}]" if ":" in http.host else http.host
    return Bridge(f"http://{host}:{http.port}", token, http.unix_socket)
