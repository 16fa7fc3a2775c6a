"""An agent as an HTTP server: does what the task of a request says. Prints its port.

The task is a JSON object `{"do": ...}`; `GET /seen` gives the requests and cancels it has had.
"""

import asyncio
import json

import aiohttp
from aiohttp import web

SEEN: list[dict[str, object]] = []
CANCELS: list[str] = []
CALLBACKS: set[asyncio.Task[None]] = set()


async def run(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    SEEN.append({"body": body, "authorization": request.headers.get("Authorization")})
    task = json.loads(body["task"])
    do = task["do"]
    if do == "answer":
        text = json.dumps({"type": "result", "text": "done"}, indent=task.get("indent"))
        return web.Response(text=text, content_type="application/json")
    if do == "text":
        return web.Response(text=task["text"])
    if do == "status":
        return web.Response(status=task["status"], headers={"Location": "http://127.0.0.1:1/"})
    if do == "callback":
        work = asyncio.create_task(call_back(body["callback"], task["messages"]))
        CALLBACKS.add(work)
        work.add_done_callback(CALLBACKS.discard)
        return web.Response(status=202)
    if do == "promise":
        return web.Response(status=202)
    if do == "flood":
        return web.Response(body=b"x" * 10_000_000)
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    await response.prepare(request)
    for line in task.get("lines", []):
        await response.write(json.dumps(line).encode() + b"\n")
    if do == "break":
        assert request.transport is not None
        request.transport.abort()
    if do == "hang":
        await asyncio.sleep(60)
    return response


async def call_back(callback: dict[str, str], messages: list[object]) -> None:
    headers = {"X-Run-Token": callback["token"]}
    async with aiohttp.ClientSession() as session:
        for message in messages:
            async with session.post(callback["url"], json=message, headers=headers):
                pass


async def cancel(request: web.Request) -> web.Response:
    CANCELS.append(request.match_info["run_id"])
    if request.match_info["run_id"].startswith("deaf"):
        return web.Response(status=404)
    return web.Response(status=204)


async def seen(_: web.Request) -> web.Response:
    return web.json_response({"requests": SEEN, "cancels": CANCELS})


async def main() -> None:
    app = web.Application()
    app.router.add_post("/runs", run)
    app.router.add_delete("/runs/{run_id}", cancel)
    app.router.add_get("/seen", seen)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    address = runner.addresses[0]
    print(address[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
