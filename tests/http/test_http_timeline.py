"""The time line as an endless answer."""

import asyncio
import json

import aiohttp

from bridges import BridgeProcess, Line


async def test_what_happens_is_sent_as_it_happens_a_line_at_a_time(bridge: BridgeProcess) -> None:
    url = f"http://127.0.0.1:{bridge.http_port}/api/timeline"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert (answer.status, answer.content_type) == (200, "application/x-ndjson")
        created = (await bridge.tool("chat", action="create", task="x", delay_s=60)).result
        async with asyncio.timeout(10):
            seen: list[Line] = []
            while {"routine", "countdown"} - {line["message"] for line in seen}:
                seen.append(json.loads(await answer.content.readline()))
    assert created["id"] in [line.get("id") for line in seen]
    assert (await bridge.tool(action="list")).timer_error == ""  # it goes on without its reader
