"""Real brokers for tests: mosquitto on a free loopback port, and a relay that can cut a link.

Import the fixture in a conftest: `from brokers import mosquitto`, and name it in `__all__`.
"""

import asyncio
import contextlib
import getpass
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

MOSQUITTO = "/usr/sbin/mosquitto"
START_TIMEOUT_S = 10.0


def free_port() -> int:
    """Return a TCP port on loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class Certificates:
    """An authority made for one test, and what it has signed."""

    directory: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    def certificate(self, name: str) -> Path:
        return self.directory / f"{name}.pem"

    def key(self, name: str) -> Path:
        return self.directory / f"{name}.key"

    def issue(self, name: str, *, host: str | None = None) -> None:
        """Sign a certificate for `name`; with `host`, one that a server shows for that address."""
        request = self.directory / f"{name}.csr"
        _openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", str(self.key(name)), "-out", str(request)),
        )
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName=IP:{host}\n" if host else "")
        _openssl(
            *("x509", "-req", "-in", str(request), "-days", "2"),
            *("-CA", str(self.ca), "-CAkey", str(self.key("ca")), "-CAcreateserial"),
            *("-extfile", str(extensions), "-out", str(self.certificate(name))),
        )

    @classmethod
    def make(cls, directory: Path) -> "Certificates":
        """Make an authority in a new directory."""
        directory.mkdir()
        made = cls(directory)
        _openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=test authority"),
            *("-keyout", str(made.key("ca")), "-out", str(made.ca), "-days", "2"),
        )
        return made


def _openssl(*arguments: str) -> None:
    subprocess.run(("openssl", *arguments), check=True, capture_output=True, timeout=60)


class Mosquitto:
    """One mosquitto process with its directory; it can be killed and started again."""

    def __init__(self, directory: Path, configuration: str, port: int) -> None:
        self.directory = directory
        self.port = port
        self.log: list[str] = []
        self._configuration = directory / "mosquitto.conf"
        self._configuration.write_text(configuration)
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        """Start; return when the broker says that it runs."""
        assert self._process is None
        process = subprocess.Popen(
            (MOSQUITTO, "-c", str(self._configuration)),
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.directory,
        )
        running = threading.Event()
        self._process = process
        self._reader = threading.Thread(target=self._read, args=(process, running), daemon=True)
        self._reader.start()
        running.wait(START_TIMEOUT_S)
        assert process.poll() is None, "mosquitto did not start:\n" + "\n".join(self.log)

    def _read(self, process: "subprocess.Popen[str]", running: threading.Event) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self.log.append(line.rstrip())
            if line.rstrip().endswith(" running"):
                running.set()
        running.set()

    def stop(self) -> None:
        """End it in order: what is persistent is written to disk."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def save(self) -> None:
        """Have it write what is persistent to disk."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGUSR1)

    def _end(self, how: signal.Signals) -> None:
        process, reader = self._process, self._reader
        self._process = None
        if process is None or reader is None:
            return
        while process.poll() is None:
            # mosquitto 2.0 forgets a SIGTERM that comes just as it says that it runs.
            process.send_signal(how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)
        reader.join(START_TIMEOUT_S)
        assert process.stderr is not None
        process.stderr.close()


class MosquittoFactory:
    """Makes brokers for one test and ends them after it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._brokers: list[Mosquitto] = []

    def __call__(
        self,
        *,
        acl: str | None = None,
        passwords: Mapping[str, str] | None = None,
        certificates: Certificates | None = None,
        persistence: bool = False,
        more: str = "",
    ) -> Mosquitto:
        """Start a broker.

        Args:
            acl: the text of its access rules.
            passwords: its users; without them anybody may connect.
            certificates: TLS with the certificate `broker`; clients must show one too, and its
                common name is their user name.
            persistence: whether retained messages and sessions outlive it.
            more: further lines of configuration.

        """
        directory = self._new_directory()
        port = free_port()
        lines = [f"listener {port} 127.0.0.1", "set_tcp_nodelay true", *_LOGGING]
        if acl is not None:
            (directory / "acl").write_text(acl)
            (directory / "acl").chmod(0o600)
            lines.append(f"acl_file {directory / 'acl'}")
        if passwords is not None:
            write_passwords(directory / "passwords", passwords)
            lines.append(f"password_file {directory / 'passwords'}")
        if certificates is not None:
            lines += [
                f"cafile {certificates.ca}",
                f"certfile {certificates.certificate('broker')}",
                f"keyfile {certificates.key('broker')}",
                "require_certificate true",
                "use_identity_as_username true",
            ]
        anonymous = passwords is None and certificates is None
        lines.append(f"allow_anonymous {str(anonymous).lower()}")
        if persistence:
            lines += ["persistence true", f"persistence_location {directory}/"]
        return self.run("\n".join((*lines, more, "")), port, directory)

    def run(self, configuration: str, port: int, directory: Path | None = None) -> Mosquitto:
        """Start a broker with a whole configuration file, which must have it listen on `port`."""
        broker = Mosquitto(directory or self._new_directory(), configuration, port)
        self._brokers.append(broker)
        broker.start()
        return broker

    def _new_directory(self) -> Path:
        directory = self._directory / f"mosquitto-{len(self._brokers)}"
        directory.mkdir()
        return directory

    def stop(self) -> None:
        """End every broker."""
        for broker in self._brokers:
            broker.stop()


# Started by root, mosquitto would become another user who cannot read a test's files.
_LOGGING = (
    f"user {getpass.getuser()}",
    "log_dest stderr",
    "log_type all",
    "connection_messages true",
)


def write_passwords(path: Path, passwords: Mapping[str, str]) -> None:
    """Write a password file with the broker's own tool."""
    path.touch(mode=0o600)
    for user, password in passwords.items():
        subprocess.run(
            ("mosquitto_passwd", "-b", str(path), user, password),
            check=True,
            capture_output=True,
            timeout=60,
        )


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[MosquittoFactory]:
    """Start brokers with `mosquitto(...)`; they end with the test."""
    factory = MosquittoFactory(tmp_path)
    try:
        yield factory
    finally:
        factory.stop()


class Relay:
    """A TCP relay before a server, so that a link can be cut or fall silent."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._dead: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self.accepted = 0

    async def __aenter__(self) -> "Relay":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset every connection, on both sides: no DISCONNECT is seen."""
        for pair in tuple(self._pairs):
            for writer in pair:
                raw = writer.get_extra_info("socket")
                with contextlib.suppress(OSError):
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()

    def hush(self) -> None:
        """Pass nothing on any more, and keep the connections open."""
        self._open.clear()

    def lose(self) -> None:
        """Lose all that comes on the connections there are, and keep them open; new ones work."""
        self._dead |= self._pairs

    def speak(self) -> None:
        """Pass everything on again."""
        self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        for end in (writer, far_writer):
            raw = end.get_extra_info("socket")
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = (writer, far_writer)
        self._pairs.add(pair)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pump(source, sink, pair))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        pair: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        try:
            while chunk := await source.read(65_536):
                await self._open.wait()
                if pair in self._dead:
                    continue
                sink.write(chunk)
                await sink.drain()
        except (ConnectionError, OSError):
            pass
        finally:
            self._pairs.discard(pair)
            sink.transport.abort()
