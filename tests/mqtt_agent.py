"""An agent on an MQTT broker: takes runs from its topic and does what their task says.

`mqtt_agent.py PORT [INSTANCE]`; the task is a JSON object `{"do": ...}`. Prints `ready`, then one
line per run it has taken.
"""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys

import aiomqtt

BASE = "wakebridge/agents/agent-1"


class Agent:
    """What the protocol asks of an agent, in full."""

    def __init__(self, client: aiomqtt.Client, instance: str) -> None:
        self.client = client
        self.instance = instance
        self.runs: dict[str, asyncio.Task[None]] = {}
        self.last_words: dict[str, dict[str, object]] = {}
        self.silent = False
        self.deaf = False

    async def say(self, run_id: str, **message: object) -> None:
        if message["type"] in ("result", "error", "cancelled"):
            self.last_words[run_id] = message
        if not self.silent:
            topic = f"{BASE}/runs/{run_id}/reports"
            await self.client.publish(topic, json.dumps(message), qos=1)

    async def status(self, state: str) -> None:
        message = json.dumps({"state": state, "instance": self.instance})
        await self.client.publish(f"{BASE}/status", message, qos=1, retain=True)

    async def take(self, run_id: str, request: dict[str, str]) -> None:
        if run_id in self.last_words or run_id in self.runs:
            print(f"again {run_id}", flush=True)
            return
        print(f"taken {run_id}", flush=True)
        task = json.loads(request["task"])
        await self.say(run_id, type="accepted")
        self.runs[run_id] = asyncio.create_task(self.work(run_id, task))

    async def work(self, run_id: str, task: dict[str, str]) -> None:
        do = task["do"]
        for seq, text in enumerate(task.get("progress", []), 1):
            await self.say(run_id, type="progress", text=text, seq=seq)
            await self.say(run_id, type="progress", text=text, seq=seq)
        if do == "answer":
            await self.say(run_id, type="result", text="done")
        elif do == "error":
            await self.say(run_id, type="error", reason="no stock")
        elif do == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif do == "leave":
            await self.status("offline")
            await asyncio.sleep(60)
        elif do == "flap":
            await self.status("offline")
            await self.status("online")
            await self.say(run_id, type="result", text="done")
        elif do == "restart":
            self.instance = secrets.token_hex(4)
            await self.status("online")
            await asyncio.sleep(60)
        elif do == "lose":
            self.silent = True
            await self.say(run_id, type="result", text="said once more")
            self.silent = False
        elif do == "silence":
            self.silent = True
            await asyncio.sleep(60)
        elif do == "nonsense":
            await self.client.publish(f"{BASE}/runs/{run_id}/reports", b"\xff", qos=1)
            await asyncio.sleep(60)
        elif do == "forget":
            del self.runs[run_id]
        elif do == "deaf":
            self.deaf = True
            await self.say(run_id, type="progress", text="working")
            await asyncio.sleep(60)
        else:
            await self.say(run_id, type="progress", text="working")
            await asyncio.sleep(60)

    async def control(self, run_id: str, message: dict[str, object]) -> None:
        if message["type"] == "cancel":
            if not self.deaf:
                run = self.runs.pop(run_id, None)
                if run is not None:
                    run.cancel()
                await self.say(run_id, type="cancelled")
            print(f"cancel {run_id}", flush=True)
            return
        query = message["query"]
        if run_id in self.last_words:
            await self.say(run_id, **self.last_words[run_id])
        elif run_id in self.runs:
            await self.say(run_id, type="alive", query=query)
        else:
            await self.say(run_id, type="unknown", query=query)


async def main() -> None:
    port, instance = int(sys.argv[1]), (sys.argv[2:] or [secrets.token_hex(4)])[0]
    agent: Agent | None = None
    while True:
        with contextlib.suppress(aiomqtt.MqttError):
            will = aiomqtt.Will(f"{BASE}/status", b'{"state": "offline"}', qos=1, retain=True)
            async with aiomqtt.Client("127.0.0.1", port, will=will) as client:
                if agent is None:
                    agent = Agent(client, instance)
                agent.client = client
                await client.subscribe(f"{BASE}/runs/+", qos=1)
                await client.subscribe(f"{BASE}/runs/+/control", qos=1)
                await agent.status("online")
                print("ready", flush=True)
                async for message in client.messages:
                    words = message.topic.value.split("/")
                    assert isinstance(message.payload, bytes)
                    body = json.loads(message.payload)
                    if words[-1] == "control":
                        await agent.control(words[-2], body)
                    else:
                        await agent.take(words[-1], body)
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main())
