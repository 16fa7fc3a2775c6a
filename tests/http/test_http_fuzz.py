"""schemathesis against the running bridge: what the document says is what happens, and no 500.

Bounded in examples and with a fixed seed, so that it takes seconds and finds the same each time.
"""

import asyncio
import sys
from pathlib import Path

from bridges import BridgeProcess
from wakebridge.simboard import DeskBoard

TOKEN = "a-token-for-the-fuzzer"
AUTHORIZATION = f"Bearer {TOKEN}"
LEND = "/api/board/lend"

# Sessions are opened by the fuzzer under random names; these operations get past the first check
# more often in one that is there.
CONFIG = """
[[operations]]
include-path = [
    "/api/sessions/{session_id}/busy",
    "/api/sessions/{session_id}/idle",
    "/api/sessions/{session_id}/runs",
    "/api/sessions/{session_id}/runs/{run_id}",
    "/api/sessions/{session_id}/transcript",
]
parameters = { "path.session_id" = "conversation-1" }
"""


async def schemathesis(bridge: BridgeProcess, *options: str) -> tuple[int, str]:
    """Run it in the bridge's directory; return its exit code and what it said."""
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("st")), "run"),
        f"http://127.0.0.1:{bridge.http_port}/api/openapi.json",
        *("--header", f"Authorization: {AUTHORIZATION}", "--no-color"),
        # It never ends, as it should; `test_http_timeline` looks at it.
        *("--exclude-path", "/api/timeline"),
        *("--seed", "4", "--generation-database", "none", *options),
        cwd=bridge.directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def test_schemathesis_finds_nothing(board: DeskBoard, tmp_path: Path) -> None:
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port)
    (bridge.directory / "schemathesis.toml").write_text(CONFIG)
    token_file = tmp_path / "token"
    token_file.write_text(TOKEN)
    bridge.config["http"]["token_file"] = str(token_file)
    async with bridge:
        await bridge.said("countdown")
        opened = {"session_id": "conversation-1"}
        await bridge.http("POST", "/api/sessions", opened, Authorization=AUTHORIZATION)
        code, said = await schemathesis(bridge, "--max-examples", "12", "--exclude-path", LEND)
        assert code == 0, said
        # With the port lent the board is away, and a 503 is what the document promises then.
        code, said = await schemathesis(
            bridge,
            *("--max-examples", "3", "--include-path", LEND),
            *("--exclude-checks", "not_a_server_error", "--phases", "coverage,fuzzing"),
        )
        assert code == 0, said
        # Leaving the context checks that nothing it sent has put a traceback into the log.
