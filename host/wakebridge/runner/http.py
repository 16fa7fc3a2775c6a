"""The `http` runner: posts the request to an agent; the result comes as the answer or by callback.

The agent answers the POST with

- 200 and one message of `messages` (result or error), or lines of them (`application/x-ndjson`);
- 202, and posts its messages to the callback that came with the request, one at a time, with the
  callback's token in the header `X-Run-Token`;
- anything else, which fails the run.

A request is sent again only if it never left: as long as the connection cannot be made. After
that a broken link means `Interrupted`, because the agent may have done the work.
"""

import asyncio
import contextlib
import hmac
import secrets
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Final
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec

from wakebridge.runner.limits import check_limits
from wakebridge.runner.messages import (
    LINE_MAX_BYTES,
    Accepted,
    Alive,
    Cancelled,
    Error,
    Progress,
    Report,
    Result,
    read_report,
)
from wakebridge.runner.port import (
    Completed,
    Failed,
    Interrupted,
    OnProgress,
    Outcome,
    RunRequest,
    Stopped,
    undisturbed,
)
from wakebridge.secret_file import read_secret

TIME_LIMIT_S: Final = 3600.0
"""Default longest run, in seconds, as for programs."""

CONNECT_LIMIT_S: Final = 60.0
"""How long to try to reach the agent: after a wake the network needs a while to come up."""

CONNECT_RETRY_S: Final = 1.0
"""Pause between two attempts to connect."""

CONNECT_ATTEMPT_S: Final = 10.0
"""Longest single attempt to connect."""

CANCEL_LIMIT_S: Final = 10.0
"""How long an agent may take to confirm that it has stopped."""

OUTPUT_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""Most bytes of one run's messages, as for programs."""

LINES_TYPE: Final = "application/x-ndjson"
"""Content type of an answer that has one message per line."""

CALLBACKS_QUEUED_MAX: Final = 64
"""Callback messages of one run that wait to be made durable; more are answered `busy`."""


class HttpConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the agent is.

    `callback_url` is the base under which the bridge takes results (the run id is added to it), or
    None when the agent only answers directly. The first line of `token_file` goes into
    `Authorization: Bearer`; it is read once, at the start.
    """

    url: str
    callback_url: str | None = None
    token_file: str | None = None
    time_limit_s: float = TIME_LIMIT_S
    connect_limit_s: float = CONNECT_LIMIT_S
    cancel_limit_s: float = CANCEL_LIMIT_S
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES

    def __post_init__(self) -> None:
        """Refuse what no request can be sent to; raise ValueError naming the field."""
        for name in ("url", "callback_url"):
            value = getattr(self, name)
            if value is not None and not value.startswith(("http://", "https://")):
                raise ValueError(f"{name} begins with http:// or https://, it is {value!r}")
            if value is not None and not _names_a_host(value):
                raise ValueError(f"{name} names no host that a request can go to: {value!r}")
        limits_s = ["time_limit_s", "connect_limit_s", "cancel_limit_s"]
        check_limits(self, limits_s, [], "output_limit_bytes")


class Delivery(StrEnum):
    """What became of a callback; the adapter turns it into a status code."""

    TAKEN = "taken"
    UNKNOWN_RUN = "unknown_run"
    WRONG_TOKEN = "wrong_token"  # noqa: S105 - the name of an outcome
    NOT_UNDERSTOOD = "not_understood"
    BUSY = "busy"


class _Active:
    """One run that is with the agent, as `run`, `cancel` and `deliver` share it."""

    def __init__(self) -> None:
        self.secret = secrets.token_urlsafe(32)
        self.reports: asyncio.Queue[Report] = asyncio.Queue(CALLBACKS_QUEUED_MAX)
        self.received_bytes = 0
        self.stop: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()


class _AgentError(Exception):
    """The agent's side broke a rule; the text says which."""


class HttpRunner:
    """Gives runs to one agent over HTTP. Raises OSError or ValueError for a useless token file."""

    def __init__(self, config: HttpConfig) -> None:
        self._config = config
        self._token = None if config.token_file is None else read_secret(config.token_file)
        self._active: dict[str, _Active] = {}
        self._session: aiohttp.ClientSession | None = None

    async def run(self, request: RunRequest, on_progress: OnProgress) -> Outcome:
        """Post the request, follow the answer or the callbacks, and return the outcome."""
        if request.run_id in self._active:
            return Failed(f"run {request.run_id!r} is active already")
        active = self._active[request.run_id] = _Active()
        work = asyncio.create_task(
            self._work(active, request, on_progress), name=f"http run {request.run_id}"
        )
        try:
            await asyncio.wait((work, active.stop), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            return Stopped(confirmed=active.stop.result())
        except asyncio.CancelledError:
            await self._ask_to_stop(request.run_id)
            raise
        finally:
            work.cancel()
            await asyncio.wait((work,))
            del self._active[request.run_id]
            active.ended.set()

    async def cancel(self, run_id: str) -> bool:
        """Ask the agent to stop: `DELETE url/run_id`; a 2xx answer confirms."""
        active = self._active.get(run_id)
        if active is None:
            return True
        confirmed = await self._ask_to_stop(run_id)
        if not active.stop.done():
            active.stop.set_result(confirmed)
        await active.ended.wait()
        return confirmed

    def deliver(self, run_id: str, secret: str, body: bytes) -> Delivery:
        """Take one callback message of the agent for an active run."""
        active = self._active.get(run_id)
        if active is None:
            return Delivery.UNKNOWN_RUN
        if not hmac.compare_digest(secret.encode(errors="replace"), active.secret.encode()):
            return Delivery.WRONG_TOKEN
        active.received_bytes += len(body)
        report = read_report(body)
        if isinstance(report, str) or active.received_bytes > self._config.output_limit_bytes:
            return Delivery.NOT_UNDERSTOOD
        try:
            active.reports.put_nowait(report)
        except asyncio.QueueFull:
            return Delivery.BUSY
        return Delivery.TAKEN

    async def close(self) -> None:
        """Stop every run and give the connections back."""
        await asyncio.gather(*(self.cancel(run_id) for run_id in tuple(self._active)))
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _work(self, active: _Active, request: RunRequest, on_progress: OnProgress) -> Outcome:
        deadline_s = asyncio.get_running_loop().time() + self._config.time_limit_s
        try:
            async with self._posted(active, request) as response:
                if response.status == 202:
                    reports = self._called_back(active, deadline_s)
                elif response.status == 200:
                    reports = self._answered(response, deadline_s)
                else:
                    return Failed(f"the agent answered with status {response.status}")
                outcome = await _followed(reports, on_progress)
        except TimeoutError:
            await self._ask_to_stop(request.run_id)
            return Failed(f"the agent took longer than {self._config.time_limit_s:g} s")
        except _AgentError as error:
            return Failed(str(error))
        except aiohttp.ClientError as error:
            return Interrupted(f"the link to the agent broke: {_text(error)}")
        return outcome or Interrupted("the agent's answer ended without a result")

    @contextlib.asynccontextmanager
    async def _posted(
        self, active: _Active, request: RunRequest
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send the request once and give the response, whose body is still to be read."""
        body = msgspec.to_builtins(request)
        if self._config.callback_url is not None:
            url = f"{self._config.callback_url.rstrip('/')}/{quote(request.run_id, safe='')}"
            body["callback"] = {"url": url, "token": active.secret}
        response = await self._reached(msgspec.json.encode(body))
        try:
            yield response
        finally:
            response.close()

    async def _reached(self, body: bytes) -> aiohttp.ClientResponse:
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + self._config.connect_limit_s
        while True:
            try:
                async with asyncio.timeout(self._config.time_limit_s):
                    return await self._client().post(
                        self._config.url,
                        data=body,
                        headers={**self._headers(), "Content-Type": "application/json"},
                        allow_redirects=False,
                    )
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                if loop.time() + CONNECT_RETRY_S > give_up_s:
                    raise _AgentError(f"the agent cannot be reached: {_text(error)}") from None
            await asyncio.sleep(CONNECT_RETRY_S)

    async def _answered(
        self, response: aiohttp.ClientResponse, deadline_s: float
    ) -> AsyncIterator[Report]:
        """Give the messages in the answer's body: one, or one per line as they come."""
        by_line = response.content_type == LINES_TYPE
        pending, total = b"", 0
        while True:
            async with asyncio.timeout_at(deadline_s):
                chunk = await response.content.readany()
            total += len(chunk)
            if total > self._config.output_limit_bytes or len(pending) > LINE_MAX_BYTES:
                raise _AgentError("the agent's answer is too long")
            pending += chunk
            lines: list[bytes] = []
            if not chunk:
                lines, pending = [pending], b""
            elif by_line:
                *lines, pending = pending.split(b"\n")
            for line in filter(bytes.strip, lines):
                report = read_report(line)
                if isinstance(report, str):
                    raise _AgentError(f"the agent's answer is not understood: {report}")
                yield report
            if not chunk:
                return

    async def _called_back(self, active: _Active, deadline_s: float) -> AsyncIterator[Report]:
        if self._config.callback_url is None:
            raise _AgentError("the agent wants to call back, and no callback is configured")
        while True:
            async with asyncio.timeout_at(deadline_s):
                report = await active.reports.get()
            yield report

    async def _ask_to_stop(self, run_id: str) -> bool:
        url = f"{self._config.url.rstrip('/')}/{quote(run_id, safe='')}"
        try:
            async with asyncio.timeout(self._config.cancel_limit_s):
                answer = self._client().delete(url, headers=self._headers(), allow_redirects=False)
                async with answer as response:
                    return 200 <= response.status < 300
        except (aiohttp.ClientError, TimeoutError):
            return False

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Never a kept connection: one that went stale would break after the request was sent.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_ATTEMPT_S),
                trust_env=False,
            )
        return self._session

    def _headers(self) -> dict[str, str]:
        return {} if self._token is None else {"Authorization": f"Bearer {self._token}"}


async def _followed(reports: AsyncIterator[Report], on_progress: OnProgress) -> Outcome | None:
    """Return the outcome in a sequence of messages, or None when it ends without one."""
    seen = 0
    async for report in reports:
        match report:
            case Progress(text=text, seq=seq):
                if seq is not None and seq <= seen:
                    continue
                seen = seen if seq is None else seq
                await undisturbed(on_progress(text))
            case Result(text=text):
                return Completed(text)
            case Error(reason=reason):
                return Failed(reason)
            case Cancelled():
                return Stopped(confirmed=True)
            case Accepted() | Alive():
                pass
            case _:
                return Interrupted("the agent knows nothing of the run")
    return None


def _names_a_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and url.isprintable() and " " not in url
    except ValueError:  # a port that is none
        return False


def _text(error: Exception) -> str:
    return str(error) or type(error).__name__
