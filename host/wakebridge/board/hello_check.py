"""Ask the board at a serial port who it is: `python -m wakebridge.board.hello_check PORT`.

Needs pyserial and wakewire only, so that `flash.sh` can run it from a bare checkout. Prints one
`name=value` per line; exit status 0 with an answer, 1 without one, 2 when used wrongly.
"""

import sys
import time

import serial

from wakewire import framing, messages, stream
from wakewire.codes import STATUS_OK
from wakewire.errors import MessageError

_BAUDRATE = 115_200
_ASK_EVERY_S = 1.0
_REOPEN_AFTER_S = 0.2
_REQUEST_ID = 0x4657
_NOT_ECHOED = 0x80  # MicroPython's prompt echoes ASCII only
_HEARD_BYTES = 4_096


def ask(port: str, wait_s: float) -> messages.Hello | str:
    """Return the board's hello, or why there is none after `wait_s` seconds.

    The port may appear late and go away in between, as it does around a board's reset.
    """
    deadline_s = time.monotonic() + wait_s
    reason = "the port did not appear"
    while (left_s := deadline_s - time.monotonic()) > 0:
        try:
            with serial.Serial(port, _BAUDRATE, timeout=0.1, exclusive=True) as line:
                answer = _converse(line, min(left_s, wait_s))
        except (serial.SerialException, OSError) as error:
            reason = str(error)
            time.sleep(_REOPEN_AFTER_S)
            continue
        if isinstance(answer, messages.Hello):
            return answer
        reason = answer
    return reason


def _converse(line: serial.Serial, wait_s: float) -> messages.Hello | str:
    decoder = stream.StreamDecoder()
    question = framing.encode(messages.hello(_REQUEST_ID))
    echo = bytes(byte for byte in question if byte < _NOT_ECHOED)
    heard = b""
    deadline_s = time.monotonic() + wait_s
    next_ask_s = 0.0
    while (now_s := time.monotonic()) < deadline_s:
        if now_s >= next_ask_s:
            line.write(question)
            next_ask_s = now_s + _ASK_EVERY_S
        data = line.read(line.in_waiting or 1)
        heard = (heard + data)[-_HEARD_BYTES:]
        for payload in decoder.feed(data):
            answer = _read(payload)
            if answer is not None:
                return answer
    return "the firmware is stopped at a prompt" if echo in heard else "no answer to hello"


def _read(payload: bytes) -> messages.Hello | str | None:
    """Return what the payload answers to our question; None when it does not."""
    try:
        message = messages.parse(payload)
        if not isinstance(message, messages.Answer) or message.id != _REQUEST_ID:
            return None
        if message.status != STATUS_OK:
            return f"the board refuses hello with status {message.status}"
        return messages.Hello.from_fields(message.fields)
    except MessageError:
        return None


def main(arguments: list[str]) -> int:
    """Run the command line; `arguments` are PORT and, optionally, how many seconds to wait."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m wakebridge.board.hello_check PORT [SECONDS]\n")
        return 2
    answer = ask(arguments[0], float(arguments[1]) if len(arguments) > 1 else 5.0)
    if isinstance(answer, str):
        sys.stderr.write(answer + "\n")
        return 1
    facts = {
        "version": answer.firmware_version,
        "protocol": answer.version,
        "port": answer.port,
        "board": answer.board,
        "unique_id": answer.unique_id.hex(),
        "boot_id": answer.boot_id.hex(),
        "uptime_ms": answer.uptime_ms,
        "config_faults": "; ".join(answer.config_faults),
    }
    sys.stdout.writelines(f"{name}={value}\n" for name, value in facts.items())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
