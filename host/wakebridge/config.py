"""The bridge's configuration: one TOML file, checked whole before anything starts.

Every field has a default that suits a host with one board, so an empty file is a configuration.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from wakebridge.adapters.http.config import HttpConfig
from wakebridge.mqttbus.config import MqttConfig
from wakebridge.ovosbus.config import OvosConfig
from wakebridge.routine.modes import InputMode
from wakebridge.runner.command import CommandConfig
from wakebridge.runner.http import HttpConfig as HttpRunnerConfig
from wakebridge.runner.mqtt import MqttRunnerConfig

DEFAULT_PATH: Final = Path("/etc/wakebridge/wakebridge.toml")


class ConfigError(Exception):
    """The configuration is wrong; the message says where and what would be right."""


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the sections: an unknown key is an error, not a silent typing mistake."""


class BoardConfig(Section, frozen=True, kw_only=True):
    """Where the board is.

    `port` names a serial device; without it the only candidate that `glob` finds is taken.
    """

    port: str | None = None
    glob: str = "/dev/serial/by-id/*"

    def __post_init__(self) -> None:
        """Refuse names of nothing; raise ValueError naming the field."""
        if self.port == "":
            raise ValueError("port must not be empty: leave it out to have the board looked for")
        if not self.glob:
            raise ValueError("glob must not be empty")


class WakeConfig(Section, frozen=True, kw_only=True):
    """`lead_s`: how long the host needs from the wake line to running programs."""

    lead_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0


class EventsConfig(Section, frozen=True, kw_only=True):
    """Scheduled events: who administers them, and how long late fires wait after `ready`.

    `trust_kernel_sync`: a clock that the kernel calls synchronized is believed (E71).
    """

    administrators: tuple[str, ...] = ()
    replay_delay_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0
    trust_kernel_sync: bool = True


class AgentConfig(Section, frozen=True, kw_only=True):
    """How routines reach the agent. With `runner` absent, due routines stay queued."""

    mode: InputMode = InputMode.TEXT
    backend: bool = True
    runner: Literal["mqtt", "command", "http"] | None = None
    mqtt: MqttRunnerConfig | None = None
    command: CommandConfig | None = None
    http: HttpRunnerConfig | None = None


class Config(Section, frozen=True, kw_only=True):
    """The whole file: `config_dir` holds `routines/state.json`, `state_dir` `schedules.db`."""

    config_dir: str = "/userdata/agent"
    state_dir: str = "/var/lib/wakebridge"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    board: BoardConfig = BoardConfig()
    wake: WakeConfig = WakeConfig()
    events: EventsConfig = EventsConfig()
    agent: AgentConfig = AgentConfig()
    mqtt: MqttConfig | None = None
    http: HttpConfig | None = None
    ovos: OvosConfig | None = None

    def __post_init__(self) -> None:
        """Refuse what does not fit together; raise ValueError with what to add or to set."""
        for name in ("config_dir", "state_dir"):
            if not getattr(self, name):
                raise ValueError(f"{name} must not be empty: it is a directory")
        waits_for = None if self.ovos is None else self.ovos.replay_after
        if waits_for is not None and not self.events.replay_delay_s:
            raise ValueError(
                f"ovos.replay_after waits for {waits_for!r} at most as long as"
                " events.replay_delay_s says, which is 0: set it"
            )
        match self.agent.runner:
            case "command" if self.agent.command is None:
                raise ValueError("agent.runner is command: add the section [agent.command]")
            case "http" if self.agent.http is None:
                raise ValueError("agent.runner is http: add the section [agent.http]")
            case "mqtt" if self.agent.mqtt is None or self.mqtt is None:
                raise ValueError("agent.runner is mqtt: add the sections [mqtt] and [agent.mqtt]")


def parse_config(text: str, origin: str) -> Config:
    """Return the configuration in a TOML text. Raises `ConfigError` naming `origin` and place."""
    try:
        return msgspec.convert(tomllib.loads(text), Config, strict=True)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin} is not TOML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{origin} is not TOML: it is nested too deep") from error
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{origin}: {error}") from error


def load_config(path: Path) -> Config:
    """Read the configuration file. Raises `ConfigError`."""
    try:
        return parse_config(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from error
