"""Who can reach the HTTP interface: loopback, a private Unix socket, others only with a token."""

import hmac
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from bridges import BridgeProcess
from wakebridge.adapters.http import app as app_module
from wakebridge.adapters.http.app import make_app
from wakebridge.adapters.http.config import HttpConfig
from wakebridge.adapters.http.ports import Services
from wakebridge.simboard import DeskBoard

TOKEN = "correct-horse-battery"
LIST = {"input": {"action": "list"}}


def listening(port: int) -> set[str]:
    """Return the addresses, in the kernel's hexadecimal, on which this TCP port is listened to."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            address, number = line.split()[1].split(":")
            if int(number, 16) == port and line.split()[3] == "0A":
                found.add(address)
    return found


async def test_without_a_word_about_it_only_loopback_is_listened_to(bridge: BridgeProcess) -> None:
    assert listening(bridge.http_port) == {"0100007F"}


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.0.2.7", "bridge.example", "127.1"])
async def test_an_address_that_others_reach_needs_a_token_and_the_reason_is_said(
    host: str, board: DeskBoard, tmp_path: Path
) -> None:
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port)
    bridge.config["http"]["host"] = host
    ended = await bridge.run_to_end()
    assert ended.code == 1
    assert "can be reached from other machines: set token_file" in ended.text
    assert "Traceback" not in ended.text


@pytest.mark.parametrize("content", [None, b"", b"\n\n", b"  \nsecond line\n", b"\xff\xfe"])
async def test_a_token_file_without_a_token_is_refused_at_the_start(
    content: bytes | None, board: DeskBoard, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    if content is not None:
        token_file.write_bytes(content)
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port)
    bridge.config["http"] |= {"host": "0.0.0.0", "token_file": str(token_file)}
    ended = await bridge.run_to_end()
    assert ended.code == 1
    assert str(token_file) in ended.text
    assert "Traceback" not in ended.text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_loopback_needs_no_token(host: str) -> None:
    assert HttpConfig(host=host).read_token() is None


async def test_with_a_token_everything_asks_for_it_and_only_it_opens(
    board: DeskBoard, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(f"{TOKEN}\nonly the first line counts\n")
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port)
    bridge.config["http"] |= {"host": "0.0.0.0", "token_file": str(token_file)}
    async with bridge:
        assert listening(bridge.http_port) == {"00000000"}
        wrong = [
            {},
            {"Authorization": TOKEN},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": f"Bearer {TOKEN[:-1]}"},
            {"Authorization": f"Bearer {TOKEN}x"},
            {"Authorization": f"Bearer {TOKEN.upper()}"},
            {"Authorization": "Bearer \udcff"},
            {"X-Run-Token": TOKEN},
        ]
        for headers in wrong:
            for method, path in (
                ("POST", "/api/tools/schedule"),
                ("GET", "/api/health"),
                ("GET", "/api/openapi.json"),
                ("PUT", "/api/mcu/timer"),
                ("GET", "/nothing/here"),
            ):
                refused = await bridge.http(method, path, LIST, **headers)
                assert refused.status == 401, (headers, path)
                assert refused.body["error"]["code"] == "unauthorized"
                assert TOKEN not in str(refused.body)
        answer = await bridge.http(
            "POST", "/api/tools/schedule", LIST, Authorization=f"Bearer {TOKEN}"
        )
        assert (answer.status, answer.body["is_error"]) == (200, False)
        # An agent that was called over HTTP has its run's token and not this one.
        report = await bridge.http(
            "POST", "/api/runs/r-1", {"type": "alive"}, **{"X-Run-Token": "x"}
        )
        assert report.status == 404
        tricky = await bridge.http("POST", "/api/runs/..%2Ftools%2Fschedule", LIST)
        assert tricky.status == 404
        assert TOKEN not in str(bridge.lines)


async def test_the_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer, right or wrong, long or short, comes out of `hmac.compare_digest`."""
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, expected: bytes) -> bool:
        compared.append((given, expected))
        return hmac.compare_digest(given, expected)

    monkeypatch.setattr(app_module, "hmac", _Hmac(compare))
    app = make_app(cast(Services, None), TOKEN)
    async with TestClient(TestServer(app)) as client:
        for given in ("", "Bearer", "Bearer wrong", f"Bearer {TOKEN}"):
            answer = await client.get("/nothing/here", headers={"Authorization": given})
            assert answer.status == (404 if given.endswith(TOKEN) else 401)
    assert len(compared) == 4
    assert {expected for _, expected in compared} == {f"Bearer {TOKEN}".encode()}


class _Hmac:
    def __init__(self, compare: Callable[[bytes, bytes], bool]) -> None:
        self.compare_digest = compare


async def test_a_web_page_cannot_have_work_scheduled_behind_a_persons_back(
    bridge: BridgeProcess,
) -> None:
    """A page of any origin may post plain text to loopback, and its origin comes with it."""
    url = f"http://127.0.0.1:{bridge.http_port}/api/tools/schedule"
    async with aiohttp.ClientSession() as session:
        for origin in ("http://evil.example", f"http://127.0.0.1:{bridge.http_port}", "null"):
            headers = {"Origin": origin, "Content-Type": "text/plain"}
            body = b'{"input": {"action": "create", "task": "x", "delay_s": 1}}'
            async with session.post(url, data=body, headers=headers) as answer:
                assert answer.status == 403
                assert "Access-Control-Allow-Origin" not in answer.headers
    assert (await bridge.tool(action="list")).result == []


async def over_socket(path: Path, method: str = "GET", url: str = "/api/health") -> Any:
    connector = aiohttp.UnixConnector(str(path))
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.request(method, f"http://bridge{url}") as answer,
    ):
        assert answer.status == 200
        return await answer.json()


async def test_the_unix_socket_is_private_and_serves_what_the_port_serves(
    board: DeskBoard, tmp_path: Path
) -> None:
    path = tmp_path / "bridge.sock"
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port)
    bridge.config["http"]["unix_socket"] = str(path)
    async with bridge:
        await bridge.kill()
        bridge.umask = 0
        # Whatever the umask is, and also over the socket that a crash has left behind.
        await bridge.start()
        found = path.stat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
        assert (await over_socket(path))["routines"]["available"] is True
        tools = await over_socket(path, url="/api/tools")
        assert [tool["name"] for tool in tools] == ["schedule"]
        assert await bridge.stop() == 0
        assert not path.exists()


async def test_with_a_token_the_unix_socket_asks_for_it_too(
    board: DeskBoard, tmp_path: Path
) -> None:
    path, token_file = tmp_path / "bridge.sock", tmp_path / "token"
    token_file.write_text(TOKEN)
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port)
    bridge.config["http"] |= {"unix_socket": str(path), "token_file": str(token_file)}
    async with bridge:
        connector = aiohttp.UnixConnector(str(path))
        async with aiohttp.ClientSession(connector=connector) as session:
            async with session.get("http://bridge/api/health") as refused:
                assert refused.status == 401
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with session.get("http://bridge/api/health", headers=headers) as answer:
                assert answer.status == 200


async def test_a_file_in_the_place_of_the_socket_is_left_alone(
    board: DeskBoard, tmp_path: Path
) -> None:
    path = tmp_path / "precious"
    path.write_text("not a socket")
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port)
    bridge.config["http"]["unix_socket"] = str(path)
    ended = await bridge.run_to_end()
    assert ended.code == 1
    assert str(path) in ended.text
    assert "Traceback" not in ended.text
    assert path.read_text() == "not a socket"
