"""Keeps one program of the command runner, and leaves nothing of it behind.

Run as a program of its own: `keeper.py CONTROL_FD GRACE_S PROGRAM [ARGUMENT...]`. It is the leader
of a new process group, starts the program in it and ends with its exit status. When the other end
of the control pipe closes, because the run is cancelled or because the bridge is dead, `kill -9`
included, it asks the group to end (TERM), and after the grace period makes it (KILL). What the
program leaves running is killed as well, whatever group or session it has put itself into: the
kernel hands orphans of a subreaper to it.

Only the standard library, and not a thread: between fork and exec nothing may hold a lock.
"""

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_NOT_STARTED = 127
_KILLED_BY = 128
_SWEEP_MAX_S = 5.0
_REAP_INTERVAL_S = 0.02


def main() -> int:
    """Keep the program named on the command line; return the exit status."""
    control, grace_s, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    libc = ctypes.CDLL(None)
    _prctl(libc, _PR_SET_CHILD_SUBREAPER, 1)
    wakeup, wakeup_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wakeup_end)
    # Handlers and not SIG_IGN: what is ignored stays ignored in the program, handlers do not.
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    os.set_inheritable(control, False)
    child = os.fork()
    if child == 0:
        _become(command, libc)
    _let_go_of_pipes()
    status = _wait(child, control, wakeup)
    if status is None:
        os.killpg(0, signal.SIGTERM)
        status = _wait(child, None, wakeup, time.monotonic() + grace_s)
    swept = _sweep(child)
    return swept if status is None else status


def _prctl(libc: ctypes.CDLL, option: int, value: int) -> None:
    libc.prctl(option, *(ctypes.c_ulong(argument) for argument in (value, 0, 0, 0)))


def _become(command: list[str], libc: ctypes.CDLL) -> None:
    """Turn this process into the program; die with the keeper."""
    try:
        _prctl(libc, _PR_SET_PDEATHSIG, signal.SIGKILL)
        os.execvp(command[0], command)  # noqa: S606 - no shell is the point; argv is configuration
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}".encode())
    finally:
        os._exit(_NOT_STARTED)


def _let_go_of_pipes() -> None:
    """Drop our copies, so that the bridge sees the end of the output when the program ends."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def _wait(child: int, control: int | None, wakeup: int, until_s: float | None = None) -> int | None:
    """Return the program's status, or None when the control pipe closes or time is up."""
    while True:
        status = _reap(child)
        if status is not None:
            return status
        left_s = None if until_s is None else until_s - time.monotonic()
        if left_s is not None and left_s <= 0:
            return None
        watched = [wakeup] if control is None else [wakeup, control]
        ready, _, _ = select.select(watched, [], [], left_s)
        if wakeup in ready:
            with suppress(BlockingIOError):
                os.read(wakeup, 512)
        elif control in ready:
            return None


def _reap(child: int) -> int | None:
    """Collect what has ended; return the program's exit status if it is among it."""
    found = None
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if process == 0:
            return found
        if process == child:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else _KILLED_BY - code


def _sweep(child: int) -> int:
    """Kill every process that is below this one until there is none; return the program's status.

    Where that does not succeed, this process ends by a signal, so that nobody takes it for success.
    """
    status = _KILLED_BY + signal.SIGKILL
    until_s = time.monotonic() + _SWEEP_MAX_S
    while children := _children():
        for process in children:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > until_s:
            os.killpg(0, signal.SIGKILL)
        time.sleep(_REAP_INTERVAL_S)
        reaped = _reap(child)
        status = status if reaped is None else reaped
    return status


def _children() -> list[int]:
    own = os.getpid()
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - a fresh interpreter per run imports little
        if name.isdecimal():
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
                    fields = file.read().rpartition(b")")[2].split()
                if int(fields[1]) == own and fields[0] != b"Z":
                    found.append(int(name))
    return found


if __name__ == "__main__":
    sys.exit(main())
