"""A process that runs one task through the command runner, to be killed by its test.

`command_bridge.py TASK PROGRAM [ARGUMENT...]`; prints each piece of progress.
"""

import asyncio
import sys

from wakebridge.routine.state import RunKind
from wakebridge.runner.command import CommandConfig, CommandRunner
from wakebridge.runner.port import RunRequest


async def main() -> None:
    async def show(text: str) -> None:
        print(text, flush=True)

    runner = CommandRunner(CommandConfig(argv=tuple(sys.argv[2:]), stop_grace_s=0.5))
    request = RunRequest(run_id="r1.1", kind=RunKind.SCHEDULED, session_id="s", task=sys.argv[1])
    print(await runner.run(request, show), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
