"""Bodies that are too large, too slow or cut off, and bytes that are no HTTP at all.

Over bare sockets, because no client library sends any of it.
"""

import asyncio
import contextlib
import json
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bridges import BridgeProcess
from wakebridge.adapters.http.operation import BODY_MAX_BYTES, BODY_TIMEOUT_S

PATH = "/api/tools/schedule"
SLOW = 20


class Line:
    """One connection to the bridge's port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def head(self, *lines: str, path: str = PATH) -> None:
        head = [f"POST {path} HTTP/1.1", "Host: bridge", "Content-Type: application/json", *lines]
        self.writer.write("".join(f"{line}\r\n" for line in [*head, ""]).encode())

    async def answer(self) -> tuple[int, Any]:
        """Return status and body of the answer."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        lengths = [int(line[15:]) for line in head.split("\r\n") if line.startswith("Content-Len")]
        body = await self.reader.readexactly(lengths[0])
        return int(head.split()[1]), json.loads(body) if b"{" in body else body.decode()

    def cut(self) -> None:
        """Let go of the connection as a process that is killed does."""
        line = self.writer.get_extra_info("socket")
        linger = struct.pack("ii", 1, 0)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.close()


Dial = Callable[[], Awaitable[Line]]


@pytest.fixture
async def dial(bridge: BridgeProcess) -> AsyncIterator[Dial]:
    """Make connections, and let go of them at the end."""
    lines: list[Line] = []

    async def connect() -> Line:
        lines.append(Line(*await asyncio.open_connection("127.0.0.1", bridge.http_port)))
        return lines[-1]

    yield connect
    for line in lines:
        line.writer.close()
        with contextlib.suppress(OSError):
            await line.writer.wait_closed()


async def test_a_body_that_is_announced_as_too_large_is_refused_unread(
    bridge: BridgeProcess, dial: Dial
) -> None:
    before = bridge.state_file.read_bytes()
    line = await dial()
    line.head(f"Content-Length: {10**12}")
    status, answer = await line.answer()
    assert (status, answer["error"]["code"]) == (413, "body_too_large")
    assert str(BODY_MAX_BYTES) in answer["error"]["reason"]
    assert bridge.state_file.read_bytes() == before


async def test_a_body_that_grows_too_large_is_refused_when_it_does(
    bridge: BridgeProcess, dial: Dial
) -> None:
    before = bridge.state_file.read_bytes()
    line = await dial()
    line.head("Transfer-Encoding: chunked")
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    for _ in range(BODY_MAX_BYTES // 0x10000 + 1):
        line.writer.write(chunk)
    status, answer = await line.answer()
    assert (status, answer["error"]["code"]) == (413, "body_too_large")
    assert bridge.state_file.read_bytes() == before


async def test_slow_bodies_are_given_up_and_hold_up_nobody(
    bridge: BridgeProcess, dial: Dial
) -> None:
    """Also the reports of agents. Meanwhile everybody else is served as ever."""
    before = bridge.state_file.read_bytes()
    lines = [await dial() for _ in range(SLOW)]
    began_s = time.monotonic()
    for number, line in enumerate(lines):
        line.head("Content-Length: 100", path="/api/runs/r-1" if number % 2 else PATH)
        line.writer.write(b'{"input": ')
    asked_s = time.monotonic()
    assert (await bridge.tool(action="list")).timer_error == ""
    assert time.monotonic() - asked_s < 1
    for line in lines:
        status, answer = await line.answer()
        assert (status, answer["error"]["code"]) == (408, "body_too_slow")
        assert f"within {BODY_TIMEOUT_S:.0f} s" in answer["error"]["reason"]
        assert await line.reader.read() == b""  # what may still come is not read as a request
    assert BODY_TIMEOUT_S <= time.monotonic() - began_s < BODY_TIMEOUT_S + 3
    assert bridge.state_file.read_bytes() == before


async def test_bodies_that_are_cut_off_change_nothing_and_leave_no_trace(
    bridge: BridgeProcess, dial: Dial
) -> None:
    """The fixture finds no traceback in the log at the end."""
    before = bridge.state_file.read_bytes()
    whole = b'{"input": {"action": "create", "task": "x", "delay_s": 60}, "session_id": "chat"}'
    for size in (0, 1, len(whole) - 1):
        for encoding in (f"Content-Length: {len(whole)}", "Transfer-Encoding: chunked"):
            line = await dial()
            line.head(encoding)
            if encoding.startswith("Transfer"):
                line.writer.write(b"%x\r\n" % len(whole))
            line.writer.write(whole[:size])
            await line.writer.drain()
            line.cut()
    half_closed = await dial()
    half_closed.head(f"Content-Length: {len(whole)}")
    half_closed.writer.write(whole[:-1])
    half_closed.writer.write_eof()
    await half_closed.reader.read()
    assert (await bridge.tool(action="list")).result == []
    assert bridge.state_file.read_bytes() == before


async def test_what_is_no_http_is_refused_without_filling_the_log(
    bridge: BridgeProcess, dial: Dial
) -> None:
    mark = bridge.mark()
    garbage = (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,  # a TLS hello
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: bridge\r\nX: \x00\r\n\r\n",
        b"POST /api/sessions HTTP/1.1\r\nHost: b\r\nContent-Length: -1\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n",
    )
    for each in garbage:
        line = await dial()
        line.writer.write(each)
        status, _ = await line.answer()
        assert status == 400, each[:40]
    line = await dial()
    line.head("Transfer-Encoding: chunked")
    line.writer.write(b"5\r\n{}{}{\r\nnot a length\r\n")
    status, _ = await line.answer()
    # Found out with its head; or, should that have come by itself, when the body's time is over.
    assert status in {400, 408}
    assert (await bridge.tool(action="list")).result == []
    assert bridge.lines[mark:] == []
