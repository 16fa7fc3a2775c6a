"""A history: what kind of device it is, and everything that happens to it, drawn from one seed.

A history is data: operations with their instants and arguments. Running the same history twice is
the same run, and leaving operations out is another history, which is how failures are shrunk.
"""

import dataclasses
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from .board import CLOCK_BOUND_PPM, BoardConfig
from .kernel import DAY, NS
from .schedule_model import instant, text_of

OWNERS: Final = ("alarm", "tea", "news")
IDS: Final = ("a", "b", "c")
BUSES: Final = ("mqtt", "ovos")
ZONES: Final = ("Europe/Lisbon", "America/New_York", "Australia/Lord_Howe", "America/Nuuk", "UTC")
_HOUR: Final = 3600 * NS
_MINUTE: Final = 60 * NS


@dataclass(frozen=True)
class Op:
    """One thing that happens. `kind` is the name of a method of `world.Actions`."""

    at_ns: int
    kind: str
    args: dict[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """Return the operation as one readable line."""
        days, rest_ns = divmod(self.at_ns, DAY)
        seconds = rest_ns / NS
        clock = f"{int(seconds // 3600):02d}:{int(seconds // 60 % 60):02d}:{seconds % 60:06.3f}"
        args = " ".join(f"{name}={json.dumps(value)}" for name, value in self.args.items())
        return f"{days:4d} d {clock}  {self.kind} {args}".rstrip()


@dataclass(frozen=True)
class Config:
    """The device."""

    seed: str
    days: float
    wall_start_ns: int
    board: BoardConfig
    lead_s: float = 0.0
    idle_suspend_s: float | None = None
    resume_s: float = 0.5
    restart_s: float = 2.0
    sleep_max_s: float = 3 * 86_400
    wake_line: bool = True
    wakes_from_off: bool = True


@dataclass(frozen=True)
class History:
    """A device and what happens to it, in order of time."""

    config: Config
    ops: tuple[Op, ...]

    def to_json(self) -> str:
        return json.dumps(
            {
                "config": dataclasses.asdict(self.config),
                "ops": [dataclasses.asdict(op) for op in self.ops],
            },
            indent=1,
        )

    @staticmethod
    def from_json(text: str) -> "History":
        read = json.loads(text)
        board = BoardConfig(**read["config"].pop("board"))
        config = Config(board=board, **read["config"])
        return History(config, tuple(Op(**op) for op in read["ops"]))


@dataclass(frozen=True)
class Profile:
    """How a device lives: how often what happens to it, in mean seconds between two of a kind."""

    name: str
    days: tuple[float, float]
    every_s: dict[str, float]
    idle_suspend_s: tuple[float, ...] | None
    step_max_ms: int
    horizon_s: float
    """How far ahead owners plan."""
    least_s: float
    """The shortest period."""


_DENSE: Final = {
    "burst": 900.0,
    "crash": 2400.0,
    "cut": 6000.0,
    "cut_file": 6000.0,
    "disk_error": 9000.0,
    "disk_full": 7000.0,
    "disk_slow": 5000.0,
    "noise": 1800.0,
    "unplug": 5000.0,
    "mute": 7000.0,
    "board_soft_reset": 9000.0,
    "board_hard_reset": 12000.0,
    "board_power_loss": 15000.0,
    "board_rate": 15000.0,
    "board_prompt": 20000.0,
    "press": 6000.0,
    "foreign_timer": 30000.0,
    "lost_hint": 3000.0,
    "bus_down": 4000.0,
    "bus_slow": 9000.0,
    "lost_ack": 9000.0,
    "suspend": 4000.0,
    "user_wake": 1500.0,
    "stop": 12000.0,
    "reboot": 15000.0,
    "step": 6000.0,
    "sync": 15000.0,
    "zones": 20000.0,
}


def _scaled(factor: float, **changes: float) -> dict[str, float]:
    return {kind: mean_s * factor for kind, mean_s in _DENSE.items()} | changes


PROFILES: Final = {
    "storm": Profile("storm", (0.1, 0.4), _scaled(0.25), (20.0, 120.0), 5_000, 1800.0, 20.0),
    "day": Profile("day", (1.0, 1.0), _DENSE, (60.0, 600.0), 5_000, 6 * 3600.0, 120.0),
    "month": Profile(
        "month",
        (20.0, 40.0),
        _scaled(20.0, burst=43_200.0),
        (30.0, 120.0),
        3_600_000,
        7 * 86_400.0,
        3600.0,
    ),
    "years": Profile(
        "years",
        (365.0, 5 * 365.0),
        _scaled(300.0, burst=6 * 86_400.0),
        (15.0, 60.0),
        6 * 3_600_000,
        60 * 86_400.0,
        86_400.0,
    ),
}


def profile_of(device: str) -> Profile:
    """Return the profile that the name of a device begins with."""
    return PROFILES[device.split("-", maxsplit=1)[0]]


def days_of(seed: str, profile: Profile) -> float:
    """Return for how long the device of that seed lives."""
    return random.Random(seed).uniform(*profile.days)


def draw(seed: str, profile: Profile) -> History:
    """Draw a device and its life."""
    rng = random.Random(seed)
    days = rng.uniform(*profile.days)
    config = _config(seed, days, rng, profile)
    ops: list[Op] = []
    for kind, mean_s in profile.every_s.items():
        rng = random.Random(f"{seed} {kind}")  # so that a new kind leaves the others as they were
        at_s = rng.expovariate(1 / mean_s)
        while at_s < days * 86_400:
            ops.extend(_expand(kind, round(at_s * NS), rng, config, profile))
            at_s += rng.expovariate(1 / mean_s)
    ops += _burst(NS, random.Random(f"{seed} first"), config, profile, 6)
    ops += list(_asked_again(ops, random.Random(f"{seed} again"), profile))
    ops += list(_delays_over_steps(ops, random.Random(f"{seed} delays")))
    ops.sort(key=lambda op: op.at_ns)
    return History(config, tuple(op for op in ops if op.at_ns < round(days * DAY)))


def _asked_again(ops: list[Op], rng: random.Random, profile: Profile) -> Iterator[Op]:
    """Components ask for the same again at every start of theirs, some with another end."""
    for op in ops:
        if op.kind != "ask" or op.args["verb"] != "schedule" or rng.random() < 0.6:
            continue
        body = dict(op.args["body"])
        every = body.get("every", {})
        if "start" in every and rng.random() < 0.5:
            period_ns = round(every["seconds"] * NS)
            body["until"] = text_of(instant(every["start"]) + rng.randrange(20) * period_ns)
        gap_ns = round(_span(rng, 1, profile.horizon_s) * NS)
        at_ns = op.at_ns + gap_ns
        if rng.random() < 0.1:  # together with its bus, which keeps what is due waiting
            away_s = round(gap_ns / NS * rng.random(), 3) + 1
            away = {"bus": op.args["bus"], "for_s": away_s + 5, "noticed_s": 0.0}
            yield Op(at_ns - round(away_s * NS), "bus_down", away)
        yield Op(at_ns - 3 * NS, "user_wake", {})
        yield Op(at_ns + NS, "ask", {**op.args, "body": body})


def _delays_over_steps(ops: list[Op], rng: random.Random) -> Iterator[Op]:
    """Somebody waits for a delay to end while the clock is set."""
    for op in ops:
        if op.kind == "step" and op.at_ns > 30 * NS:
            owner = rng.choice(OWNERS)
            seconds = _span(rng, 15, 900)
            body = {"id": "delay", "event": f"{owner}.ring", "in": {"seconds": seconds}}
            asked = {"verb": "schedule", "owner": owner, "bus": rng.choice(BUSES), "body": body}
            yield Op(op.at_ns - 20 * NS, "user_wake", {})
            yield Op(op.at_ns - 10 * NS, "ask", asked)


def _config(seed: str, days: float, rng: random.Random, profile: Profile) -> Config:
    quality = rng.choice((0, 1, 2, 3))
    bound_ppm = CLOCK_BOUND_PPM[quality]
    ppm = rng.randint(-bound_ppm, bound_ppm)
    if rng.random() < 0.1:  # a board that claims more of its clock than is true
        ppm = rng.randint(-50_000, 50_000)
    board = BoardConfig(
        ppm=ppm,
        clock_quality=quality,
        ticks_start_ms=rng.choice((0, rng.randrange(1 << 30), (1 << 30) - rng.randrange(100_000))),
        ticks_survive_soft_reset=rng.random() < 0.7,
        keeps_backup=rng.random() < 0.3,
        save_every_ms=rng.choice((2000, 60_000)),
        native_usb=rng.random() < 0.5,
        awake_ms=rng.choice((60_000, 60_000, 0, 5_000)),
        step_max_ms=profile.step_max_ms,
    )
    wall_ns = round(rng.uniform(1_767_225_600, 1_830_000_000)) * NS + rng.randrange(NS)
    never = profile.name in ("storm", "day") and rng.random() < 0.3
    assert profile.idle_suspend_s is not None
    return Config(
        seed=seed,
        days=days,
        wall_start_ns=wall_ns,
        board=board,
        lead_s=rng.choice((0.0, 0.0, 2.0, 20.0)),
        idle_suspend_s=None if never else rng.uniform(*profile.idle_suspend_s),
        resume_s=rng.uniform(0.05, 3.0),
        restart_s=rng.uniform(0.1, 10.0),
        sleep_max_s=rng.uniform(1, 20) * 86_400,
    )


def _expand(
    kind: str, at_ns: int, rng: random.Random, config: Config, profile: Profile
) -> Iterator[Op]:
    if kind == "burst":
        yield from _burst(at_ns, rng, config, profile, rng.randint(1, 5))
        return
    yield Op(at_ns, kind, _ARGS[kind](rng) if kind in _ARGS else {})


def _burst(
    at_ns: int, rng: random.Random, config: Config, profile: Profile, count: int
) -> Iterator[Op]:
    """A person or a component comes, which finds the host awake, and asks for several things."""
    yield Op(at_ns, "user_wake", {})
    at_ns += round((config.resume_s + 0.2) * NS)
    for _ in range(count):
        at_ns += round(rng.expovariate(1 / 3.0) * NS)
        wall_ns = config.wall_start_ns + at_ns
        if rng.random() < 0.35:
            yield _agent_asks(at_ns, rng, profile)
        else:
            yield Op(at_ns, "ask", _request(rng, wall_ns, profile))


def _agent_asks(at_ns: int, rng: random.Random, profile: Profile) -> Op:
    """Something that an agent's backend does."""
    slot = rng.randrange(3)
    kind = rng.choices(("tool", "submit", "session"), (10, 3, 2))[0]
    if kind == "session":
        what = rng.choices(("open", "revise", "clear", "replace"), (1, 4, 1, 1))[0]
        return Op(at_ns, "session", {"what": what, "slot": slot})
    if kind == "submit":
        work = rng.choice(("interactive", "background"))
        return Op(at_ns, "submit", {"kind": work, "slot": slot, "interrupts": rng.random() < 0.3})
    action = rng.choices(("create", "update", "cancel", "list"), (8, 3, 2, 1))[0]
    when: dict[str, Any] = {}
    if action in ("create", "update"):
        ahead_s = rng.choice((rng.randrange(1, 120), rng.randrange(1, round(profile.horizon_s))))
        if rng.random() < 0.5:
            when["delay_s"] = min(ahead_s, 604_800)
        else:
            when["ahead_s"] = ahead_s
        if rng.random() < 0.5:
            least_s = round(profile.least_s)
            when["interval_s"] = min(rng.randrange(least_s, 20 * least_s), 604_800)
    return Op(
        at_ns, "tool", {"action": action, "slot": slot, "which": rng.randrange(64), "when": when}
    )


def _request(rng: random.Random, wall_ns: int, profile: Profile) -> dict[str, Any]:
    owner = rng.choice(OWNERS)
    identity = rng.choice(IDS)
    verb = rng.choices(("schedule", "cancel", "get", "list"), (12, 2, 2, 1))[0]
    asked: dict[str, Any] = {"verb": verb, "owner": owner, "bus": rng.choice(BUSES)}
    if rng.random() < 0.06 and verb in ("cancel", "list"):
        asked["owner"] = "admin"
    if asked["owner"] == "admin" and verb == "cancel":
        asked["body"] = {"id": identity}
        if rng.random() < 0.5:
            asked["body"]["skill_id"] = owner
    elif verb == "schedule":
        asked["body"] = _body(rng, owner, identity, wall_ns, profile)
        asked["session"] = rng.randrange(1000)
    else:
        asked["body"] = {} if verb == "list" else {"id": identity}
    return asked


def _body(
    rng: random.Random, owner: str, identity: str, wall_ns: int, profile: Profile
) -> dict[str, Any]:
    body: dict[str, Any] = {"id": identity, "event": f"{owner}.{rng.choice(('ring', 'tick'))}"}
    ahead_s = rng.choice((rng.uniform(-60, 60), rng.uniform(1, profile.horizon_s)))
    kind = rng.choice(("at", "in", "every", "local"))
    least_s = profile.least_s
    if kind == "at":
        body["at"] = text_of(wall_ns + round(ahead_s * 1000) * 1_000_000)
    elif kind == "in":
        body["in"] = {"seconds": round(max(0.5, abs(ahead_s)), 3)}
    elif kind == "every":
        seconds = round(rng.uniform(least_s, least_s + profile.horizon_s), rng.choice((0, 0, 3)))
        body["every"] = {"seconds": seconds}
        if rng.random() < 0.4:
            body["every"]["start"] = text_of(wall_ns // NS * NS + rng.randrange(-90, 90) * NS)
    else:
        minutes = rng.choice((rng.randrange(1440), 90, 150, 135))
        body["local"] = {
            "time": f"{minutes // 60:02d}:{minutes % 60:02d}" + rng.choice(("", ":30")),
            "zone": rng.choice(ZONES),
        }
        if rng.random() < 0.5:
            body["local"]["days"] = rng.sample(("mon", "tue", "wed", "thu", "fri", "sat", "sun"), 3)
    if kind in ("every", "local"):
        if rng.random() < 0.3:
            body["count"] = rng.randint(1, 6)
        if rng.random() < 0.3:
            body["until"] = text_of(wall_ns + round(rng.uniform(0, 10) * profile.horizon_s) * NS)
    if rng.random() < 0.5:
        body["misfire"] = rng.choice(("late", "skip"))
    if rng.random() < 0.5:
        body["grace_s"] = rng.choice((0, 1, 60, 600, 86_400))
    if rng.random() < 0.15:
        body["ephemeral"] = True
    if rng.random() < 0.5:
        body["data"] = {"n": rng.randrange(100), "text": "ä" * rng.randrange(40)}
    return body


def _span(rng: random.Random, low_s: float, high_s: float) -> float:
    return round(low_s * math.exp(math.log(high_s / low_s) * rng.random()), 3)


_ARGS: Final[dict[str, Any]] = {
    "crash": lambda rng: {"steps": rng.choice((0, rng.randrange(1, 60)))},
    "cut": lambda rng: {"how": rng.choice(("before", "torn", "torn-checkpoint", "after"))},
    "cut_file": lambda rng: {"calls": rng.randrange(1, 14)},
    "disk_error": lambda rng: {
        "for_s": _span(rng, 1, 600),
        "chance": rng.choice((0.05, 0.3, 0.9)),
    },
    "disk_full": lambda rng: {"for_s": _span(rng, 1, 600)},
    "disk_slow": lambda rng: {"for_s": _span(rng, 10, 600), "each_s": _span(rng, 0.01, 2)},
    "noise": lambda rng: {
        "kinds": rng.sample(
            ("loss", "duplicate", "truncate", "flip", "delay", "garbage", "console"),
            rng.randint(1, 4),
        ),
        "chance": rng.choice((0.05, 0.2, 0.5)),
        "for_s": _span(rng, 10, 1200),
    },
    "unplug": lambda rng: {"for_s": _span(rng, 0.5, 900), "powers": rng.random() < 0.5},
    "mute": lambda rng: {"for_s": _span(rng, 1, 300)},
    "board_power_loss": lambda rng: {"for_s": _span(rng, 1, 3600)},
    "board_soft_reset": lambda rng: {"stale": rng.random()},
    "board_hard_reset": lambda rng: {"stale": rng.random()},
    "board_rate": lambda rng: {"part": round(rng.uniform(-1, 1), 3)},
    "board_prompt": lambda rng: {},
    "press": lambda rng: {"source": rng.choice((2, 3))},
    "lost_hint": lambda rng: {},
    "foreign_timer": lambda rng: {"for_s": _span(rng, 5, 3600)},
    "bus_down": lambda rng: {
        "bus": rng.choice(BUSES),
        "for_s": _span(rng, 1, 1800),
        "noticed_s": rng.choice((0.0, rng.uniform(0, 5))),
    },
    "bus_slow": lambda rng: {"bus": rng.choice(BUSES), "for_s": _span(rng, 10, 600)},
    "lost_ack": lambda rng: {"bus": rng.choice(BUSES), "count": rng.randint(1, 2)},
    "suspend": lambda rng: {},
    "user_wake": lambda rng: {},
    "stop": lambda rng: {"off_s": _span(rng, 0.5, 7200)},
    "reboot": lambda rng: {
        "off_s": _span(rng, 1, 7200),
        "wall": rng.choice(("right", "right", "1970", "stuck", "ahead")),
        "sync_s": _span(rng, 5, 3600),
        "signal": rng.random() < 0.5,
    },
    "step": lambda rng: {
        "by_s": rng.choice((-1, 1)) * _span(rng, 0.6, rng.choice((30, 7200, 86_400 * 4000))),
        "back_s": _span(rng, 60, 3600),
    },
    "sync": lambda rng: {},
    "zones": lambda rng: {},
}

OPERATIONS: Final = (*_ARGS, "ask", "session", "submit", "tool")
"""All kinds, each a method of `actions.Actions`."""
