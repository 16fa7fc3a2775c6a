"""One device and its surroundings, run through a history under the eyes of the oracles."""

import hashlib
import logging
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from wakebridge.bus import BusMessage
from wakebridge.runner.port import Outcome as RunOutcome
from wakebridge.runner.port import RunRequest
from wakebridge.schedule import zones as product_zones
from wakebridge.schedule.book import Change
from wakebridge.schedule.instants import Now

from . import bounds
from .actions import Actions
from .agent import SimAgent
from .backend import Backend
from .board import Expiry, SimBoard
from .buses import SimBus
from .disk import Disk, installed
from .event_oracle import EventOracle
from .event_states import Asked
from .history import BUSES, History
from .host import Bridge, Clocks, HostLog
from .kernel import DAY, MS, NS, Agenda, Planned, Violation, kept_going
from .line import SerialLine
from .occurrences import Zones
from .outcome import Outcome
from .properties import ALIVE, DISK, FAULTLESS
from .routine_oracle import RoutineOracle
from .schedule_model import Sched
from .wake_oracle import WakeOracle
from .zone_releases import zone_releases, zone_version

_CALM: Final = 3600 * NS
"""After the last operation everything is in order for this long, and what is due must happen."""

_BUS_CONNECTS_NS: Final = (10 * MS, 200 * MS)
"""How long the client of a bus takes to connect. One comes up amid what the other is told."""


class World:
    """Everything there is. `run` returns how it went."""

    def __init__(self, history: History, folder: Path, *, keep_trace: bool = False) -> None:
        self.history = history
        config = self.config = history.config
        self.agenda = Agenda()
        self.draw = random.Random(f"{config.seed} world")
        self.clocks = Clocks(self.agenda, config.wall_start_ns)
        self.faults: dict[str, int] = {}
        self._hash = hashlib.sha256()
        self.trace: list[str] | None = [] if keep_trace else None
        self.zone_releases = zone_releases(folder)
        self.zone_release = 0
        self._zone_rules = zone_version(self.zone_releases[0])
        self.events = EventOracle(self.clocks.now, Zones(self.zone_releases[0]))
        self.disk = Disk(self.agenda, folder / "disk", f"{config.seed} disk")
        self.disk.set_lease(self.draw.randrange(1, 0x10000))
        self.buses = [SimBus(name, self.agenda, f"{config.seed} {name}", self) for name in BUSES]
        for bus in self.buses:
            bus.failed = lambda name=bus.name: self.bus_failed(name)  # type: ignore[misc]
        self.board = SimBoard(self.agenda, config.board, f"{config.seed} board", self.wake_line)
        self.line = SerialLine(self.agenda, f"{config.seed} line", self.board.receive)
        self.board.line = self.line
        self.board.armed = lambda token, ms: self.note("board", f"armed {token:#x} {ms}")
        self.line.host_awake = lambda: self.awake
        self.line.host_do = self.host_do
        self.routines = RoutineOracle(self)
        self.routines.world_ns = lambda: self.agenda.now_ns
        self.agent = SimAgent(config.seed)
        self.agent.began = self._run_begins
        self.agent.ended = self._run_ends
        self.backend = Backend(self)
        self.bridge: Bridge | None = None
        self.suspended = False
        self.resuming = False
        self.powered = True
        self.off_until_ns = 0
        self._somebody: Planned | None = None
        """Who wakes the host when nothing else has."""
        self._idling: Planned | None = None
        self._up_at_resume: set[str] = set()
        self.resumed_ns = self.suspended_ns = 0
        self.active_ns = 0
        self.healthy_since: dict[str, int] = {}
        self.link_since_ns: int | None = None
        self.wakes = WakeOracle(self)
        self.events.on_trust = self.disturb
        self.events.world_ns = lambda: self.agenda.now_ns
        self.events.awake = lambda: self.awake
        self.log = HostLog()
        self.answers = 0
        self._checked_ns = 0
        self._in_host = False
        self.actions = Actions(self)

    # -- running ----------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run the history and what follows it."""
        violation: Violation | None = None
        product_zones.refresh_zone_rules(self.zone_releases[0])
        logger = logging.getLogger("wakebridge")
        before = logger.level, logger.propagate, logger.handlers[:]
        logger.handlers[:], logger.propagate = [self.log], False
        logger.setLevel(logging.ERROR)
        try:
            with installed(self.disk), kept_going(self.agenda):
                self._live()
        except Violation as found:
            violation = found
        finally:
            bridge, self.bridge = self.bridge, None
            if bridge is not None:
                bridge.loop.abandon()
                bridge.store.close()
            logger.level, logger.propagate, logger.handlers[:] = before
            product_zones.refresh_zone_rules()
        return self._outcome(violation)

    def _live(self) -> None:
        self.board.power_on()
        self.boot()
        end_ns = round(self.config.days * DAY)
        for op in self.history.ops:
            self._until(op.at_ns)
            self.note("op", op.kind)
            getattr(self.actions, op.kind)(**op.args)
            self.run_host()
        self._until(end_ns)
        self._end_well()

    def _end_well(self) -> None:
        """Let everything be in order, wait, and look at what is left."""
        self.actions.all_well()
        self._until(self.agenda.now_ns + _CALM)
        self.actions.ask("list", "admin", "mqtt", {}, 0)
        self._until(self.agenda.now_ns + 60 * NS)
        if self.bridge is None or not self.bridge.serving:
            raise Violation(ALIVE, "it does not serve although all is well")
        self._check_held(self.bridge)
        self.wakes.final()

    def _until(self, end_ns: int) -> None:
        agenda = self.agenda
        while True:
            due = [end_ns]
            if (planned_ns := agenda.next_ns()) is not None:
                due.append(planned_ns)
            if self.awake and self.bridge is not None:
                host_ns = self.bridge.next_ns(agenda.now_ns)
                if host_ns is not None:
                    due.append(host_ns)
            when_ns = min(due)
            if when_ns > agenda.now_ns:
                agenda.now_ns = when_ns
                if when_ns - self._checked_ns >= NS // 4:
                    self._checked_ns = when_ns
                    self.check()
            if planned_ns is not None and planned_ns <= when_ns:
                agenda.run_next()
            elif when_ns >= end_ns:
                return
            self.run_host()

    @property
    def awake(self) -> bool:
        """Whether the host's processor runs."""
        return self.bridge is not None and not self.suspended

    def host_do(self, call: Callable[[], None]) -> None:
        """Have the host's loop make a call from outside."""
        if self.bridge is not None:
            self.bridge.loop.call_soon(call)
            self.run_host()

    def run_host(self) -> None:
        """Let the host do what there is to do at this instant."""
        bridge = self.bridge
        if bridge is None or self.suspended or self._in_host:
            return
        self._in_host = True
        try:
            bridge.run()
        finally:
            self._in_host = False
        if bridge.loop.dead:
            self.host_dies()
        elif bridge.closed:
            self.host_ends()
        else:
            bridge.check()
            if self.log.faults:
                raise Violation(FAULTLESS, self.log.faults[0])

    # -- the host's power -------------------------------------------------------------------------

    def boot(self) -> None:
        """Start a bridge process."""
        if self.bridge is not None or not self.powered:
            return
        try:
            self.bridge = Bridge(
                self.agenda,
                self.clocks,
                self.disk,
                self.line,
                self.buses,
                self.agent,
                self,
                self.draw,
                self.config.lead_s,
            )
        except Violation:
            raise
        except Exception as error:
            raise Violation(DISK, repr(error)) from error
        self.events.host_loads(self.disk.stored(), self._zone_rules)
        self.bridge.tasks.append(self.bridge.spawn(self.bridge.start()))
        self.active()
        self.disturb()
        self.run_host()

    def host_dies(self) -> None:
        """The process is gone, whatever it was doing."""
        bridge = self.bridge
        if bridge is None:
            return
        self.note("host", "dies")
        self._check_held(bridge)
        for bus in self.buses:
            bus.client_gone()
        self.bridge = None
        self.suspended = False
        self.clocks.thaw()
        self.agent.host_gone()
        self.backend.host_gone()
        self.routines.host_gone()
        self.events.host_ended(crash=True)
        bridge.kill()
        self._host_gone()
        self.agenda.after(round(self.config.restart_s * NS), self.boot)

    def host_ends(self) -> None:
        """The process has ended by itself, as it was asked to."""
        bridge = self.bridge
        assert bridge is not None
        self.note("host", "ends")
        self._check_held(bridge)
        self.bridge = None
        self.agent.host_gone()
        self.backend.host_gone()
        self.routines.host_gone()
        # A fire that could not be stored in the time that a stop has may come again.
        self.events.host_ended(crash=self.agenda.now_ns < self.disk.trouble_until_ns + 10 * NS)
        bridge.loop.abandon()
        bridge.store.close()
        self._host_gone()
        self.agenda.at(self.off_until_ns, self.power_button)

    def _host_gone(self) -> None:
        if self.line.port is not None:
            self.line.port.close()
        self.link_since_ns = None
        self.disturb()
        self.wakes.host_gone()

    def power_button(self) -> None:
        """Somebody wants the host up."""
        self.powered = True
        self.resume()
        self.boot()

    def wake_line(self) -> None:
        """The board pulses the host's wake line."""
        self.note("board", "wake line")
        self.wakes.pulsed()
        if self.config.wake_line:
            self.resume()
            if self.bridge is None and self.powered and self.config.wakes_from_off:
                self.agenda.after(NS, self.boot)

    def suspend(self) -> None:
        bridge = self.bridge
        if bridge is None or self.suspended or self._in_host:
            return
        self.note("host", "suspends")
        self.suspended = True
        self.suspended_ns = self.agenda.now_ns
        self.clocks.freeze()
        self.wakes.suspended()
        self.disturb()
        if self._somebody is not None:
            self._somebody.cancel()
        self._somebody = self.agenda.after(round(self.config.sleep_max_s * NS), self.resume)

    def resume(self) -> None:
        if not self.suspended or self.resuming:
            return
        self.resuming = True
        self.agenda.after(round(self.config.resume_s * NS), self._resumed)

    def _resumed(self) -> None:
        self.resuming = False
        if not self.suspended or self.bridge is None:
            return
        self.note("host", "resumes")
        self.suspended = False
        self.resumed_ns = self.agenda.now_ns
        self.clocks.thaw()
        self.wakes.resumed()
        self.active()
        self.disturb()
        self.line.deliver_held()
        for name in sorted(self._up_at_resume):
            self.agenda.after(NS // 5, lambda name=name: self.bus_up(name))  # type: ignore[misc]
        self._up_at_resume.clear()
        if self.bridge is not None:  # a resume ends every wait for the wall clock
            self.host_do(self.bridge.timer.wake)

    def active(self) -> None:
        """Something happens on the host: it does not go to sleep for a while."""
        self.active_ns = self.agenda.now_ns
        if self.config.idle_suspend_s is not None:
            if self._idling is not None:
                self._idling.cancel()
            self._idling = self.agenda.after(round(self.config.idle_suspend_s * NS), self._idle)

    def _idle(self) -> None:
        assert self.config.idle_suspend_s is not None
        idle_ns = self.agenda.now_ns - self.active_ns
        if idle_ns >= round(self.config.idle_suspend_s * NS) and not self.agent.busy:
            self.suspend()

    # -- health -----------------------------------------------------------------------------------

    def disturb(self) -> None:
        """Something changed: what is due now has the time of a recovery."""
        self.healthy_since = {}
        bridge = self.bridge
        if (
            bridge is None
            or not bridge.serving
            or self.suspended
            or self.agenda.now_ns < self.disk.trouble_until_ns
            or self.disk.cut_next is not None
            or self.disk.cut_after_calls is not None
        ):
            return
        for bus in self.buses:
            if bus.up and not bus.acks_to_lose and self.agenda.now_ns >= bus.slow_until_ns:
                self.healthy_since[bus.name] = self.agenda.now_ns

    def trouble_until(self, end_ns: int) -> None:
        """A trouble has begun that ends by itself."""
        self.disturb()
        self.agenda.at(end_ns, self.disturb)

    def check(self) -> None:
        """Look whether everything that must have happened has."""
        self.events.trusted_now()  # if it changes, what is due has the time of a recovery
        self.events.overdue(self.healthy_since, self._world_of, self.agenda.now_ns)
        if len(self.healthy_since) == len(self.buses):
            self.events.unanswered(max(self.healthy_since.values()), self.agenda.now_ns)
        self.wakes.check()
        if self.bridge is not None:
            self.routines.settle_doubt()
        calm_ns = self.wakes.calm_since_ns()
        if calm_ns is not None and self.awake:
            self.routines.overdue(calm_ns, self.clocks.world_of_wall, self.agenda.now_ns)
            self.backend.unanswered(calm_ns)
        if self.bridge is not None and not self.suspended:
            bounds.check_loop(self.bridge.loop, self.bridge.loop.timers)

    def _world_of(self, state: Sched) -> int:
        if state.boot_due_ns is not None:
            return self.clocks.world_of_boot(state.boot_due_ns)
        assert state.next_ns is not None
        return self.clocks.world_of_wall(state.next_ns)

    def _check_held(self, bridge: Bridge) -> None:
        """Look at what a process holds at its end, and at what it leaves on the disk."""
        records = len(self.events.states) + self.routines.records
        bounds.check_memory((*bridge.parts, self.board.firmware), records)
        bounds.check_files(self.disk.folder)

    def use_zones(self, directory: Path, zones: Zones) -> None:
        """The next process finds this release of the zone rules."""
        product_zones.refresh_zone_rules(directory)
        self.events.zones = zones
        self._zone_rules = zone_version(directory)

    # -- what the parts report --------------------------------------------------------------------

    def now(self) -> Now:
        return self.clocks.now()

    def committing(self, changes: Sequence[Change], now_ns: int) -> None:
        """A commit is handed to the store."""
        del now_ns
        self.events.commit_begins([change.key for change in changes], self.clocks.now())

    def committed(self, changes: Sequence[Change], now_ns: int) -> None:
        del now_ns
        self.events.commit_holds([change.key for change in changes])

    def watermark_reset(self, now_ns: int) -> None:
        self.events.newest_past.reset(now_ns)

    def ready_to_serve(self) -> None:
        self.note("host", "serves")
        self.disturb()
        for bus in self.buses:
            if bus.up:
                delay_ns = self.draw.randrange(*_BUS_CONNECTS_NS)
                self.agenda.after(delay_ns, lambda name=bus.name: self.bus_up(name))  # type: ignore[misc]

    def bus_up(self, name: str) -> None:
        """The client of a bus has connected."""
        bus = next(bus for bus in self.buses if bus.name == name)
        if self.bridge is not None and self.bridge.serving and bus.up:
            if self.suspended:
                self._up_at_resume.add(name)
                return
            events = self.bridge.events
            self.disturb()
            self.host_do(bus.give_up)
            self.host_do(lambda: events.bus_up(name))

    def bus_down(self, name: str) -> None:
        if self.bridge is not None and self.bridge.serving:
            events = self.bridge.events
            self.host_do(next(bus for bus in self.buses if bus.name == name).give_up)
            self.host_do(lambda: events.bus_down(name))

    def _run_begins(self, request: RunRequest) -> None:
        self.note("agent", f"begins {request.run_id} in {request.session_id} due {request.due}")
        self.active()
        self.routines.run_begins(request)

    def _run_ends(self, request: RunRequest, outcome: RunOutcome) -> None:
        self.note("agent", f"ends {request.run_id}: {outcome}")
        self.active()
        self.routines.run_ends(request, outcome)

    def clock_trusted(self) -> bool:
        return self.events.trusted

    def writes_fail_until_ns(self) -> int:
        return self.disk.refuses_until_ns

    def board_log(self, boot_id: bytes) -> list[Expiry]:
        return self.board.log.get(boot_id, [])

    def has_expired(self, token: int) -> bool:
        return token in self.board.expired_tokens

    def living(self) -> Bridge:
        """Return the bridge that a task of the host runs in."""
        assert self.bridge is not None
        return self.bridge

    def bus_failed(self, name: str) -> None:
        """The client of a bus could not hand a message over: it connects anew."""
        self.disturb()
        self.agenda.after(0, lambda: self.bus_down(name))
        self.agenda.after(NS, lambda: self.bus_up(name))

    def link_up(self) -> None:
        self.note("link", "up")
        self.link_since_ns = self.agenda.now_ns

    def link_down(self) -> None:
        self.note("link", "down")
        self.wakes.link_lost()
        self.link_since_ns = None

    def emission_begins(self, bus: str, message: BusMessage) -> None:
        self.events.emission_begins(bus, message)

    def delivered(self, bus: str, message: BusMessage, *, acknowledged: bool) -> None:
        self.note(f"bus {bus}", message.encode().decode())
        self.active()
        self.events.delivered(bus, message, acknowledged=acknowledged)
        if not acknowledged:
            self.disturb()

    def undelivered(self, bus: str, message: BusMessage) -> None:
        self.events.undelivered(bus, message)

    # -- the record -------------------------------------------------------------------------------

    def fault(self, kind: str) -> None:
        self.faults[kind] = self.faults.get(kind, 0) + 1

    def note(self, who: str, what: str) -> None:
        """Put one line into the trace: two runs of one history have the same."""
        line = f"{self.agenda.now_ns} {who} {what}".replace(str(self.disk.folder), "")
        self._hash.update(line.encode())
        if self.trace is not None:
            self.trace.append(line)

    def asked(self, asked: Asked, answer: dict[str, Any]) -> None:
        self.note("answer", f"{asked.verb} {msgspec.json.encode(answer).decode()}")
        self.answers += 1

    def _outcome(self, violation: Violation | None) -> Outcome:
        faults = dict(self.faults)
        sources = [self.line.faults, self.disk.faults, self.agent.faults]
        for more in (*sources, *(bus.faults for bus in self.buses)):
            for kind, count in more.items():
                faults[kind] = faults.get(kind, 0) + count
        stats = self.events.stats
        figures = {
            "fires": stats.fires,
            "repeats after a crash": self.events.repeats.count,
            "late fires": stats.late_fires,
            "misfire reports": stats.missed,
            "occurrences checked": stats.occurrences,
            "answers checked": stats.answers,
            "commits": self.disk.commits,
            "countdowns armed": len(self.board.sets),
            "board events": sum(len(each) for each in self.board.log.values()),
            "board boots": len(self.board.boot_ids),
            "runs": self.routines.stats.runs,
            "documents judged": self.routines.stats.saves,
            "routine occurrences": self.routines.stats.queued,
            **self.wakes.figures(),
        }
        return Outcome(
            self.history,
            violation,
            self.agenda.now_ns,
            self._hash.hexdigest(),
            self.trace or [],
            faults,
            figures,
            stats.late_ms,
        )


def run(history: History, *, keep_trace: bool = False) -> Outcome:
    """Run a history in a world of its own."""
    base = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=base if base.is_dir() else None) as folder:
        return World(history, Path(folder), keep_trace=keep_trace).run()
