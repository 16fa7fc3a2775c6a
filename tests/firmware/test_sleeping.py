"""Light sleep between two looks at the stream, under a real MicroPython with a stubbed board."""

from typing import Final

from micropython_runner import FIRMWARE, PROTOCOL, TESTS, WASM, run

SCRIPT: Final = """
import machine
from wakeboard.sleeping import SleepyLink
from wakeboard.wake_line import WakeLine

slept = []

class Port:
    sleep_max_ms = 2000
    ticks = 0

    def ticks_ms(self):
        return self.ticks

    def sleep(self, ms):
        slept.append(ms)
        return ms  # as where the ticks stand still meanwhile

port = Port()
line = WakeLine(None, 200, 60000)
link = SleepyLink(port, (None, None), line)

def wait(timeout_ms):
    slept.clear()
    link.receive(timeout_ms)
    return sum(slept)

def pass_by(ms):
    for _ in range(ms // 5000):
        line.count(5000)

print("just started", wait(5000))
pass_by(10000)
print("asleep", wait(1500), wait(5000), link.ticks_ms())
print("too short to sleep", wait(400))
line.heard()
print("host awake", wait(5000))
pass_by(60000)
print("host silent", wait(5000))
line.set(1)
print("amid a pulse", wait(5000))
port.ticks = 0x3fffffff
print("ticks wrap", link.ticks_ms())
"""


def test_sleeps_only_while_nobody_needs_it() -> None:
    machine = (TESTS / "firmware/stub_machine.py").read_text()
    output = run(WASM, machine, SCRIPT, path=[FIRMWARE, PROTOCOL])
    assert output.splitlines() == [
        "just started 0",
        "asleep 1000 2000 3000",
        "too short to sleep 0",
        "host awake 0",
        "host silent 2000",
        "amid a pulse 0",
        "ticks wrap 4999",
    ]
