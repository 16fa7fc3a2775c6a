"""The `command` runner: a program from the configuration, and nothing else, does the task.

The program gets the request as one line of JSON on its standard input and answers with lines of
JSON on its standard output (`messages`: progress, then result or error). There is no shell and
nothing of a request reaches the command line or the environment. The program lives in a process
group of its own under `keeper`, which ends it and everything it started when the run is cancelled
and when the bridge dies.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from wakebridge.runner import keeper
from wakebridge.runner.limits import check_limits
from wakebridge.runner.messages import LINE_MAX_BYTES, Error, Progress, Result, read_report
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

TIME_LIMIT_S: Final = 3600.0
"""Default longest run, in seconds. A task is a turn of an agent, not a service."""

OUTPUT_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""Default most output of one run, in bytes, so that a program gone mad cannot fill the disk."""

STOP_GRACE_S: Final = 5.0
"""Default time between TERM and KILL, in seconds: enough to save a file, not to hang a cancel."""

KEEPER_MARGIN_S: Final = 10.0
"""How much longer than the grace period the keeper may take before it is killed itself."""

STDERR_KEPT_BYTES: Final = 2048
"""How much of the end of the program's error output goes into the reason of a failure."""

_INHERITED: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME")
_CHUNK_BYTES: Final = 65_536

_log = logging.getLogger(__name__)


class CommandConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to run. `argv` is used as it stands; `environment` is added to a plain one.

    The bridge's own environment is not passed on: it may hold passwords.
    """

    argv: tuple[str, ...]
    time_limit_s: float = TIME_LIMIT_S
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES
    stop_grace_s: float = STOP_GRACE_S
    working_directory: str | None = None
    environment: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises `ValueError`."""
        if not self.argv or not self.argv[0]:
            raise ValueError("argv names no program")
        check_limits(self, ["time_limit_s"], ["stop_grace_s"], "output_limit_bytes")
        words = (*self.argv, *self.environment, *self.environment.values())
        if any("\0" in word for word in (*words, self.working_directory or "")):
            raise ValueError("a zero byte ends a word for every program: leave it out")
        for name in self.environment:
            if not name or "=" in name:
                raise ValueError(f"environment: {name!r} is no name of a variable")


class _Active:
    """One program that runs, as `run` and `cancel` share it."""

    def __init__(self) -> None:
        self.control: int | None = None
        self.stop_asked = False
        self.ended = asyncio.Event()
        self.confirmed = False

    def stop(self) -> None:
        """Have the keeper end the program; also before there is a keeper."""
        self.stop_asked = True
        self.release()

    def release(self) -> None:
        """Let go of the control pipe: the keeper ends what is still there, then itself."""
        control, self.control = self.control, None
        if control is not None:
            os.close(control)


class _OutputError(Exception):
    """The program's output breaks a rule; the text says which."""


class CommandRunner:
    """Runs the configured program once per run."""

    def __init__(self, config: CommandConfig) -> None:
        self._config = config
        self._active: dict[str, _Active] = {}

    async def run(self, request: RunRequest, on_progress: OnProgress) -> Outcome:
        """Start the program, follow it to its end and return what it said."""
        if request.run_id in self._active:
            return Failed(f"run {request.run_id!r} is active already")
        active = self._active[request.run_id] = _Active()
        try:
            return await self._run(active, request, on_progress)
        finally:
            del self._active[request.run_id]
            active.ended.set()

    async def cancel(self, run_id: str) -> bool:
        """Ask the program to end, then make it; return whether all of it is gone."""
        active = self._active.get(run_id)
        if active is None:
            return True
        active.stop()
        await active.ended.wait()
        return active.confirmed

    async def close(self) -> None:
        """Stop every program."""
        await asyncio.gather(*(self.cancel(run_id) for run_id in tuple(self._active)))

    async def _run(self, active: _Active, request: RunRequest, on_progress: OnProgress) -> Outcome:
        try:
            process = await self._start(active)
        except OSError as error:
            return Failed(f"the program cannot be started: {error.strerror}")
        stderr = _Tail(process.stderr)
        try:
            outcome = await self._follow(process, request, on_progress)
            await _ended_within(process, self._config.stop_grace_s)
        except _OutputError as error:
            outcome = Failed(str(error))
        finally:
            # Also when the bridge shuts down and this task is cancelled: nothing is left behind.
            await self._end(active, process)
            await stderr.close()
        if active.stop_asked and not isinstance(outcome, Completed):
            return Stopped(confirmed=active.confirmed)
        return outcome or _ended_without_result(process, stderr.text)

    async def _start(self, active: _Active) -> asyncio.subprocess.Process:
        config = self._config
        control_read, control_write = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-I", "-S", str(Path(keeper.__file__))),
                *(str(control_read), str(config.stop_grace_s), *config.argv),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(control_read,),
                start_new_session=True,
                cwd=config.working_directory,
                env=_environment(config.environment),
            )
        except BaseException:
            os.close(control_write)
            raise
        finally:
            os.close(control_read)
        active.control = control_write
        if active.stop_asked:
            active.release()
        return process

    async def _follow(
        self, process: asyncio.subprocess.Process, request: RunRequest, on_progress: OnProgress
    ) -> Completed | Failed | None:
        """Return the final message, or None when the output ends without one."""
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the pipes were asked for")
        process.stdin.write(msgspec.json.encode(request) + b"\n")
        process.stdin.close()
        number = 0
        async for line in self._lines(process.stdout):
            number += 1
            match read_report(line):
                case Progress(text=text):
                    await undisturbed(on_progress(text))
                case Result(text=text):
                    return Completed(text)
                case Error(reason=reason):
                    return Failed(reason)
                case str() as fault:
                    raise _OutputError(f"line {number} of the output is not understood: {fault}")
                case other:
                    name = type(other).__name__.lower()
                    raise _OutputError(f"line {number} of the output: {name!r} means nothing here")
        return None

    async def _lines(self, output: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """Give the output line by line; only the waiting counts against the time limit."""
        deadline_s = asyncio.get_running_loop().time() + self._config.time_limit_s
        pending, total = bytearray(), 0
        while True:
            try:
                async with asyncio.timeout_at(deadline_s):
                    chunk = await output.read(_CHUNK_BYTES)
            except TimeoutError:
                limit_s = self._config.time_limit_s
                raise _OutputError(f"the program took longer than {limit_s:g} s") from None
            total += len(chunk)
            if total > self._config.output_limit_bytes:
                limit = self._config.output_limit_bytes
                raise _OutputError(f"the program wrote more than {limit} bytes")
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                pending += line
                if pending.strip():
                    yield bytes(pending)
                pending.clear()
            pending += rest
            if len(pending) > LINE_MAX_BYTES:
                raise _OutputError(f"a line of the output has more than {LINE_MAX_BYTES} bytes")
            if not chunk:
                if pending.strip():
                    yield bytes(pending)
                return

    async def _end(self, active: _Active, process: asyncio.subprocess.Process) -> None:
        active.release()
        # asyncio reports the end of a process only after the end of its output has been read.
        rest = asyncio.create_task(_discard(process.stdout))
        if not await _ended_within(process, self._config.stop_grace_s + KEEPER_MARGIN_S):
            _log.error("the keeper of process group %d hangs and is killed", process.pid)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await _ended_within(process, KEEPER_MARGIN_S)
        rest.cancel()
        # The keeper ends by itself only after it has found nothing left.
        active.confirmed = process.returncode is not None and process.returncode >= 0
        # Something that outlived a killed keeper may still hold the pipes; let go of our ends.
        process._transport.close()  # type: ignore[attr-defined] # Process has no close of its own


async def _discard(stream: asyncio.StreamReader | None) -> None:
    while stream is not None and await stream.read(_CHUNK_BYTES):
        pass


class _Tail:
    """The end of the program's error output, read as it comes."""

    def __init__(self, stream: asyncio.StreamReader | None) -> None:
        self._kept = b""
        self._task = asyncio.create_task(self._read(stream))

    async def _read(self, stream: asyncio.StreamReader | None) -> None:
        while stream is not None and (chunk := await stream.read(_CHUNK_BYTES)):
            self._kept = (self._kept + chunk)[-STDERR_KEPT_BYTES:]

    async def close(self) -> None:
        """Read the rest. What still holds the pipe after the program is gone is not waited for."""
        await asyncio.wait((self._task,), timeout=1.0)
        self._task.cancel()

    @property
    def text(self) -> str:
        """The last lines, for people."""
        return self._kept.decode(errors="replace").strip()


async def _ended_within(process: asyncio.subprocess.Process, limit_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await process.wait()
    return process.returncode is not None


def _ended_without_result(process: asyncio.subprocess.Process, stderr: str) -> Outcome:
    detail = f": {stderr}" if stderr else ""
    if process.returncode is not None and process.returncode < 0:
        return Interrupted(f"the program was killed together with its keeper{detail}")
    return Failed(
        f"the program ended with status {process.returncode} and without a result{detail}"
    )


def _environment(added: Mapping[str, str]) -> dict[str, str]:
    plain = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**plain, **added}
