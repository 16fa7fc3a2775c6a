"""The command runner against real programs (R4, R20, R23, R48)."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wakebridge.routine.state import RunKind
from wakebridge.runner.command import CommandConfig, CommandRunner
from wakebridge.runner.port import Completed, Failed, Interrupted, Outcome, RunRequest, Stopped

FIXTURES = Path(__file__).parents[1] / "fixtures"
AGENT = str(FIXTURES / "command_agent.py")
RUN_ID = "r1.1"


class Bench:
    """One runner with what it reports."""

    def __init__(self, **settings: object) -> None:
        argv = settings.pop("argv", (sys.executable, AGENT, "--quiet"))
        self.runner = CommandRunner(CommandConfig(argv=argv, **settings))  # type: ignore[arg-type] # varied by tests
        self.progress: list[str] = []
        self.moved = asyncio.Event()

    async def on_progress(self, text: str) -> None:
        self.progress.append(text)
        self.moved.set()

    async def run(self, do: str, **more: object) -> Outcome:
        task = json.dumps({"do": do, **more})
        request = RunRequest(
            run_id=RUN_ID,
            kind=RunKind.SCHEDULED,
            session_id="s1",
            task=task,
            routine_id="r1",
            due="2027-01-15T08:00:00+00:00",
        )
        return await self.runner.run(request, self.on_progress)

    async def begun(self, do: str, **more: object) -> "asyncio.Task[Outcome]":
        """Start a run; return it when the program has said something."""
        task = asyncio.create_task(self.run(do, **more))
        await asyncio.wait_for(self.moved.wait(), 20)
        return task

    @property
    def pids(self) -> list[int]:
        return [int(word) for word in self.progress[0].split()]


def is_gone(pid: int, within_s: float = 0) -> bool:
    """Tell whether a process has ended, waiting for it if need be. Zombies have ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], within_s)[0])
    finally:
        os.close(descriptor)


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


async def test_r20_r23_the_task_goes_in_as_json_and_progress_and_result_come_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEBRIDGE_TOKEN", "secret")
    bench = Bench(environment={"AGENT_MODE": "quiet"}, working_directory=str(tmp_path))
    outcome = await bench.run("echo", note="$(touch owned); `touch owned` && rm -rf \"'\n")
    assert isinstance(outcome, Completed)
    assert bench.progress == ["one", "two"]
    request, arguments, environment, directory = json.loads(outcome.result)
    task = json.loads(request.pop("task"))
    assert task["note"].startswith("$(touch owned)")
    assert request == {
        "run_id": RUN_ID,
        "kind": "scheduled",
        "session_id": "s1",
        "routine_id": "r1",
        "due": "2027-01-15T08:00:00+00:00",
    }
    assert arguments == ["--quiet"], "the command line is the configuration's, whatever the task"
    assert environment["AGENT_MODE"] == "quiet"
    assert "WAKEBRIDGE_TOKEN" not in environment
    assert directory == str(tmp_path)
    assert names_in(tmp_path) == []


async def test_r48_an_error_of_the_program_is_a_failure_with_its_reason() -> None:
    assert await Bench().run("error") == Failed("no such shipment")


async def test_a_program_that_ends_without_a_word_fails_with_the_end_of_its_error_output() -> None:
    outcome = await Bench().run("leave")
    assert isinstance(outcome, Failed)
    assert "status 1" in outcome.reason
    assert "Traceback: something broke" in outcome.reason


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "{}",
        '{"type": "result"}',
        '{"type": "shout", "text": "x"}',
        '{"type": "alive"}',
        "[",
    ],
)
async def test_what_is_not_understood_ends_the_run_and_the_program(text: str) -> None:
    started_s = time.monotonic()
    outcome = await Bench().run("write", text=text)
    assert isinstance(outcome, Failed)
    assert "line 1 of the output" in outcome.reason
    assert time.monotonic() - started_s < 20


async def test_the_time_limit_ends_the_run_and_the_program() -> None:
    bench = Bench(time_limit_s=1.0)
    assert await bench.run("sleep") == Failed("the program took longer than 1 s")
    assert is_gone(bench.pids[0])


@pytest.mark.parametrize("do", ["flood", "one_line"])
async def test_output_is_limited(do: str) -> None:
    outcome = await Bench(output_limit_bytes=100_000).run(do)
    assert outcome == Failed("the program wrote more than 100000 bytes")


async def test_a_single_line_is_limited_too() -> None:
    outcome = await Bench(output_limit_bytes=10**9).run("one_line")
    assert outcome == Failed("a line of the output has more than 1048576 bytes")


async def test_r4_cancelling_lets_a_program_tidy_up_and_is_confirmed(tmp_path: Path) -> None:
    bench = Bench()
    run = await bench.begun("tidy", mark=str(tmp_path / "saved"))
    assert await bench.runner.cancel(RUN_ID) is True
    assert await run == Stopped(confirmed=True)
    assert (tmp_path / "saved").exists()


async def test_r4_cancelling_ends_everything_the_program_started() -> None:
    """A child, one in another session, and a daemon, all of which ignore being asked."""
    bench = Bench(stop_grace_s=0.3)
    run = await bench.begun("stubborn")
    assert len(bench.pids) == 4
    assert await bench.runner.cancel(RUN_ID) is True
    assert await run == Stopped(confirmed=True)
    assert [pid for pid in bench.pids if not is_gone(pid)] == []


async def test_a_program_that_finishes_while_being_cancelled_has_finished() -> None:
    bench = Bench()
    run = await bench.begun("late_result")
    assert await bench.runner.cancel(RUN_ID) is True
    assert await run == Completed("finished all the same")


async def test_cancelling_before_the_program_runs_and_after_it_is_confirmed() -> None:
    bench = Bench()
    run = asyncio.create_task(bench.run("sleep"))
    await asyncio.sleep(0)
    assert await bench.runner.cancel(RUN_ID) is True
    assert await run == Stopped(confirmed=True)
    assert await bench.runner.cancel(RUN_ID) is True


async def test_what_a_finished_program_leaves_running_is_ended() -> None:
    bench = Bench(stop_grace_s=0.3)
    assert await bench.run("stubborn", then="result") == Completed("done")
    assert [pid for pid in bench.pids if not is_gone(pid)] == []


async def test_a_program_that_lingers_after_its_result_is_ended() -> None:
    started_s = time.monotonic()
    assert await Bench(stop_grace_s=0.3).run("linger") == Completed("done")
    assert time.monotonic() - started_s < 20


async def test_r48_a_shutdown_of_the_bridge_ends_the_program() -> None:
    bench = Bench(stop_grace_s=0.3)
    run = await bench.begun("stubborn")
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert [pid for pid in bench.pids if not is_gone(pid)] == []


async def test_closing_the_runner_ends_every_program() -> None:
    bench = Bench(stop_grace_s=0.3)
    run = await bench.begun("stubborn")
    await bench.runner.close()
    assert await run == Stopped(confirmed=True)
    assert [pid for pid in bench.pids if not is_gone(pid)] == []


def test_no_orphan_after_the_bridge_is_killed() -> None:
    program = (sys.executable, AGENT)
    bridge = subprocess.Popen(
        (sys.executable, str(FIXTURES / "command_bridge.py"), '{"do": "stubborn"}', *program),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert bridge.stdout is not None
    pids = [int(word) for word in bridge.stdout.readline().split()]
    bridge.send_signal(signal.SIGKILL)
    bridge.wait(10)
    bridge.stdout.close()
    assert len(pids) == 4
    assert [pid for pid in pids if not is_gone(pid, within_s=20)] == []


async def test_a_killed_keeper_takes_the_program_with_it_and_the_run_is_interrupted() -> None:
    bench = Bench()
    run = await bench.begun("sleep")
    program = bench.pids[0]
    os.kill(parent_of(program), signal.SIGKILL)
    outcome = await run
    assert isinstance(outcome, Interrupted)
    assert is_gone(program, within_s=20)


@pytest.mark.parametrize(
    "settings",
    [
        {"argv": ("/nonexistent/program",)},
        {"argv": (AGENT + "-missing",)},
        {"argv": (sys.executable, AGENT), "working_directory": "/nonexistent"},
        {"argv": ("/etc/hostname",)},
    ],
)
async def test_a_program_that_cannot_be_started_is_a_failure(settings: dict[str, object]) -> None:
    outcome = await Bench(**settings).run("echo")
    assert isinstance(outcome, Failed)


async def test_a_program_that_never_reads_its_task_is_no_obstacle() -> None:
    script = "import json; print(json.dumps({'type': 'result', 'text': 'ok'}))"
    bench = Bench(argv=(sys.executable, "-c", script))
    assert await bench.run("echo", filler="x" * 1_000_000) == Completed("ok")


async def test_progress_is_taken_piece_by_piece_and_a_commit_is_never_cut() -> None:
    bench = Bench()
    finished = []
    entered = asyncio.Event()

    async def slow(text: str) -> None:
        entered.set()
        await asyncio.sleep(0.05)
        finished.append(text)

    task = json.dumps({"do": "flood"})
    request = RunRequest(run_id=RUN_ID, kind=RunKind.BACKGROUND, session_id="s1", task=task)
    run = asyncio.create_task(bench.runner.run(request, slow))
    await entered.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(finished) == 1, "what was begun was ended, and nothing after it was begun"


async def test_a_run_id_is_active_once() -> None:
    bench = Bench()
    run = await bench.begun("sleep")
    assert isinstance(await bench.run("echo"), Failed)
    await bench.runner.cancel(RUN_ID)
    await run


@pytest.mark.parametrize(
    "settings",
    [
        {"argv": ()},
        {"argv": ("",)},
        {"argv": ("x",), "time_limit_s": 0},
        {"argv": ("x",), "output_limit_bytes": 0},
        {"argv": ("x",), "stop_grace_s": -1},
        {"argv": ("x",), "environment": {"A=B": "c"}},
        {"argv": ("x",), "environment": {"": "c"}},
    ],
)
def test_a_configuration_that_cannot_work_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="|".join((*settings, "argv"))):
        CommandConfig(**settings)  # type: ignore[arg-type] # varied by the test
