"""What people ask of the board through the bridge: who it is, how it is, and the port itself."""

import asyncio
from typing import Any, Final

import msgspec

from wakebridge.board.client import BoardClient, Reading
from wakebridge.board.connection import Refusal
from wakebridge.board.errors import LinkError
from wakebridge.board.lending import Lending
from wakebridge.board.supervisor import Supervisor
from wakebridge.timeline import note
from wakewire.messages import Hello

# A cursor before everything: the whole log that the board still has.
_WHOLE_LOG: Final = (bytes(8), 0)


class Lent(msgspec.Struct, frozen=True):
    """A port that is lent: `url` is what the technician connects `mpremote` to."""

    url: str
    tcp_port: int
    limit_s: float


class BoardDesk:
    """Answers questions about the board. All may raise `LinkError` while it is away."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._lending: Lending | None = None
        self._after: asyncio.Task[None] | None = None

    async def info(self, hello: Hello | None) -> dict[str, Any]:
        """Return who the board is, its counters, the link's, and how its clock runs."""
        client = self._client()
        if hello is None:
            raise LinkError(self._supervisor.problem or "the board is being greeted")
        diag = _value(await client.diag())
        rate = self._supervisor.rate.estimate()
        return {
            "firmware": hello.firmware_version,
            "port": hello.port,
            "board": hello.board,
            "unique_id": hello.unique_id.hex(),
            "boot_id": hello.boot_id.hex(),
            "reset_cause": hello.reset_cause,
            "clock_quality": hello.clock_quality,
            "config_faults": list(hello.config_faults),
            "counters": {name: getattr(diag, name) for name in type(diag).__slots__},
            "link": msgspec.to_builtins(client.counters()),
            "clock": {
                "rate_ppm": round(rate.ppm, 2),
                "bound_ppm": round(rate.bound_ppm, 2),
                "measured": rate.confirmed,
                "samples": self._supervisor.rate.sample_count,
            },
        }

    async def events(self) -> dict[str, Any]:
        """Return every event that the board still has, oldest first."""
        log = await self._client().events_get(*_WHOLE_LOG)
        if isinstance(log, Refusal):
            raise LinkError(f"the board refuses: {log.reason or log.status}")
        return {
            "boot_id": log.boot_id.hex(),
            "lost": log.lost,
            "events": [
                {
                    "seq": event.seq,
                    "source": event.source,
                    "uptime_ms": event.uptime_ms,
                    "token": event.token,
                }
                for event in log.events
            ],
        }

    async def lend(self, limit_s: float, tcp_port: int) -> Lent:
        """Lend the port to a technician over RFC 2217 on loopback, for at most `limit_s`."""
        self._lending = await self._supervisor.lend(limit_s, tcp_port)
        note("port lent", url=self._lending.url, limit_s=limit_s)
        self._after = asyncio.create_task(self._report(self._lending), name="lending")
        return Lent(self._lending.url, self._lending.tcp_port, limit_s)

    async def take_back(self) -> dict[str, Any]:
        """End the lending now; return what happened meanwhile. Raises `LinkError`: not lent."""
        if self._lending is None or self._after is None or self._after.done():
            raise LinkError("the port is not lent")
        self._lending.take_back()
        outcome = await self._lending.outcome()
        return {"firmware": outcome.firmware.value, "report": msgspec.to_builtins(outcome.report)}

    async def _report(self, lending: Lending) -> None:
        outcome = await lending.outcome()
        note("port back", end=outcome.report.end.value, firmware=outcome.firmware.value)

    def _client(self) -> BoardClient:
        client = self._supervisor.client
        if client is None:
            raise LinkError(self._supervisor.problem)
        return client


def _value(answer: "Reading[Any] | Refusal") -> Any:
    if isinstance(answer, Refusal):
        raise LinkError(f"the board refuses: {answer.reason or answer.status}")
    return answer.value
