"""The control socket of a desk board: the commands of `commands.py` from another process."""

import asyncio
import contextlib
import os
from pathlib import Path

from wakebridge.simboard import commands, limits
from wakebridge.simboard.board import DeskBoard


class ControlSocket:
    """Serves `path` (mode 0600) while entered. `watch` answers with a line per wake-line change."""

    def __init__(self, board: DeskBoard, path: Path) -> None:
        self._board = board
        self._path = path
        self._clients: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> None:
        self._path.unlink(missing_ok=True)
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(
                self._serve, self._path, limit=limits.CONTROL_LINE_BYTES
            )
        finally:
            os.umask(mask)

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await self._converse(reader, writer)
        finally:
            self._clients.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                line = (await reader.readline()).decode("utf-8", "replace").strip()
            except ValueError:
                writer.write(
                    f"error a line has at most {limits.CONTROL_LINE_BYTES} bytes\n".encode()
                )
                await writer.drain()
                return
            if not line:
                if reader.at_eof():
                    return
                continue
            if line == "watch":
                await self._watch(reader, writer)
                return
            try:
                answer = await commands.run(self._board, line)
            except commands.CommandError as error:
                answer = f"error {error}"
            writer.write(answer.encode() + b"\n")
            await writer.drain()

    async def _watch(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = self._board.wake_pulses()
        writer.write(b"ok\n")

        async def report() -> None:
            async for change in stream:
                writer.write(f"wake {change.level} {change.wall_ns}\n".encode())
                await writer.drain()

        reporting = asyncio.ensure_future(report())
        try:
            await reader.read()  # until the watcher leaves
        finally:
            reporting.cancel()
