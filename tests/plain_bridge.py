"""`wakebridge serve` as a process with its log in a file, and nothing around it.

Without a board unless the configuration names one. Who wants to read what it says while it runs
uses `bridges.BridgeProcess`.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bridges import toml_of

END_TIMEOUT_S: Final = 60.0


@dataclass
class PlainBridge:
    """The daemon in a directory of its own; it can be killed, hung and started again."""

    directory: Path
    sections: Mapping[str, Any]
    """Its configuration, but for where its state is."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What is different from our own environment."""
    under: tuple[str, ...] = ()
    """A program and its options that run the daemon in place of themselves."""
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it serves when it says so on its buses."""
        assert self._process is None
        self.directory.mkdir(parents=True, exist_ok=True)
        config = {
            "config_dir": str(self.directory / "config"),
            "state_dir": str(self.state_dir),
            "board": {"glob": str(self.directory / "no-board")},
            **self.sections,
        }
        path = self.directory / "wakebridge.toml"
        path.write_text(toml_of(config), encoding="utf-8")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                (*self.under, sys.executable, "-m", "wakebridge", "serve", "--config", str(path)),
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stderr=log,
            )

    @property
    def state_dir(self) -> Path:
        """Where `schedules.db` is."""
        return self.directory / "state"

    @property
    def log(self) -> Path:
        """What it has said, in all of its lives."""
        return self.directory / "log"

    @property
    def pid(self) -> int:
        """The daemon's process id."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(END_TIMEOUT_S)
            self._process = None

    def hang(self) -> None:
        """Let it stand still, as under a load that leaves it no time."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)  # the signal alone is on its way for a moment

    def go_on(self) -> None:
        """Let it run again."""
        os.kill(self.pid, signal.SIGCONT)

    def faults(self) -> list[str]:
        """Return the lines that only a defect can have written."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line for line in lines if line.startswith("Traceback")]
