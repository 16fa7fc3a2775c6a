"""The serial line between a host and a board, and what goes wrong on it.

In order in each direction, as a serial line is: what is late holds up what follows.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from wakebridge.board.errors import LinkLost, PortMissing

from .kernel import MS, NS, Agenda

# What the kernel keeps of a port that nobody reads.
_KERNEL_MAX: Final = 4096

NOISES: Final = ("loss", "duplicate", "truncate", "flip", "delay", "garbage", "console")


@dataclass
class Noise:
    """One kind of trouble, with a chance for each write, until an instant."""

    kind: str
    chance: float
    until_ns: int


class HostPort:
    """The host's end: implements `wakebridge.board.client.Port`."""

    def __init__(self, line: "SerialLine") -> None:
        self._line = line
        self.on_data: Callable[[bytes], None] = lambda _data: None
        self.on_lost: Callable[[str], None] = lambda _reason: None
        self.open = True
        self.lost: str | None = None
        self.told = False
        self.held = bytearray()

    def attach(self, on_data: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        self.on_data, self.on_lost = on_data, on_lost
        self._line.host_wants()

    def write(self, data: bytes) -> None:
        if not self.open or self.lost is not None:
            raise LinkLost(self.lost or "the port is closed")
        self._line.host_writes(data)

    def close(self) -> None:
        self.open = False
        if self._line.port is self:
            self._line.port = None


class SerialLine:
    """A cable. `to_board` and `soon` are told what arrives; `host_reads` says who is awake."""

    def __init__(self, agenda: Agenda, seed: str, to_board: Callable[[bytes], None]) -> None:
        self._agenda = agenda
        self._random = random.Random(seed)
        self._to_board = to_board
        self.host_awake: Callable[[], bool] = lambda: False
        self.host_do: Callable[[Callable[[], None]], None] = lambda _call: None
        """Runs a call on the host's loop, as its selector would."""
        self.plugged = True
        self.muted_until_ns = 0
        self.noises: list[Noise] = []
        self.port: HostPort | None = None
        self.faults: dict[str, int] = dict.fromkeys(NOISES, 0)
        self._free_ns = {"host": 0, "board": 0}
        self.generation = 0

    # -- the host's end -------------------------------------------------------------------------

    def open(self) -> HostPort:
        """Open the port, or raise as `serial_port.SerialOpener` does."""
        if not self.plugged:
            raise PortMissing("there is no board")
        self.port = HostPort(self)
        return self.port

    def host_writes(self, data: bytes) -> None:
        if self.plugged:
            self._send("board", data)

    def host_wants(self) -> None:
        self._agenda.after(0, self.deliver_held)

    def deliver_held(self) -> None:
        """Hand over what the kernel kept while the host did not read."""
        port = self.port
        if port is None or not self.host_awake():
            return
        if port.held:
            data = bytes(port.held)
            port.held.clear()
            self.host_do(lambda: port.on_data(data))
        if port.lost is not None and not port.told:
            port.told = True
            reason = port.lost
            self.host_do(lambda: port.on_lost(reason))

    # -- the board's end ------------------------------------------------------------------------

    def board_can_write(self) -> bool:
        """Whether a USB port takes more; a UART always does."""
        return self.port is None or len(self.port.held) < _KERNEL_MAX // 2

    def board_writes(self, data: bytes) -> None:
        if self.plugged:
            self._send("host", data)

    # -- the cable ------------------------------------------------------------------------------

    def unplug(self) -> None:
        """Both ends notice; what was under way is lost."""
        self.plugged = False
        self.generation += 1
        if self.port is not None:
            self.port.lost = "the port is gone"
            self._agenda.after(0, self.deliver_held)

    def plug(self) -> None:
        self.plugged = True

    def _send(self, end: str, data: bytes) -> None:
        now = self._agenda.now_ns
        if now < self.muted_until_ns:
            return
        delay_ns = 200_000 + self._random.randrange(2 * MS) + len(data) * 87_000
        for noise in self._active():
            if self._random.random() < noise.chance:
                self.faults[noise.kind] += 1
                data, more_ns = self._spoil(noise.kind, end, data)
                delay_ns += more_ns
        if not data:
            return
        at_ns = max(now + delay_ns, self._free_ns[end])
        self._free_ns[end] = at_ns
        generation = self.generation
        self._agenda.at(at_ns, lambda: self._arrive(end, data, generation))

    def _active(self) -> list[Noise]:
        if self.noises:
            now = self._agenda.now_ns
            self.noises = [noise for noise in self.noises if noise.until_ns > now]
        return self.noises

    def _spoil(self, kind: str, end: str, data: bytes) -> tuple[bytes, int]:
        draw = self._random
        match kind:
            case "loss":
                return b"", 0
            case "duplicate":
                return data + data, 0
            case "truncate":
                return data[: draw.randrange(len(data) + 1)], 0
            case "flip":
                spoilt = bytearray(data)
                if spoilt:
                    spoilt[draw.randrange(len(spoilt))] ^= 1 << draw.randrange(8)
                return bytes(spoilt), 0
            case "delay":
                return data, draw.randrange(NS // 50, 4 * NS)
            case "garbage":
                junk = draw.randbytes(draw.randrange(1, 40))
                if end == "board":  # what a host would type by accident stops no firmware
                    junk = junk.replace(b"\x03", b"\x02")
                return (junk + data if draw.random() < 0.5 else data + junk), 0
            case _:
                if end == "board":
                    return data, 0
                return draw.choice(
                    (b"hello\r\n", b">>> ", b"\x7e\x7d\x7e", b"Traceback\r\n")
                ) + data, 0

    def _arrive(self, end: str, data: bytes, generation: int) -> None:
        if generation != self.generation or not self.plugged:
            return
        if end == "board":
            self._to_board(data)
            return
        port = self.port
        if port is None or port.lost is not None:
            return
        port.held += data
        del port.held[:-_KERNEL_MAX]
        self.deliver_held()
