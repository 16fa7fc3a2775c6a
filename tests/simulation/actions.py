"""What can happen to a device: one method for each kind of operation in a history."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from .backend import Backend
from .board import CLOCK_BOUND_PPM
from .event_states import Asked
from .kernel import NS, Violation
from .line import Noise
from .occurrences import Zones
from .wake_oracle import FOREIGN_TOKENS

if TYPE_CHECKING:
    from .world import World

_YEAR_1970_NS: Final = 5 * NS


class Actions:
    """The operations of a history, on one world."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._wrong_by_ns = 0

    # -- owners -----------------------------------------------------------------------------------

    def ask(self, verb: str, owner: str, bus: str, body: dict[str, Any], session: int = 0) -> None:
        world = self._world
        bridge = world.bridge
        if bridge is None or not bridge.serving or not world.awake:
            return
        context = {"skill_id": owner, "session": {"session_id": f"s{session}"}}
        began_ns = world.agenda.now_ns
        asked = Asked(verb, owner, body, context, bus, world.now(), began_ns)
        world.active()
        world.events.ask(asked)

        async def request() -> None:
            answer = await bridge.events.request(verb, body, context, bus, None)
            # What came while a failed write waited to be tried again is refused with it.
            since_ns = began_ns - 3 * NS
            if since_ns < world.resumed_ns:
                since_ns = world.suspended_ns - 3 * NS
            asked.disk_trouble = world.disk.refuses_until_ns >= since_ns
            world.asked(asked, answer)
            world.events.answered(asked, answer)

        task = bridge.spawn(request())
        bridge.requests.add(task)
        task.add_done_callback(bridge.request_done)

    # -- agents -----------------------------------------------------------------------------------

    def tool(self, action: str, slot: int, which: int, when: dict[str, Any]) -> None:
        self._on_host(lambda backend: backend.tool(action, slot, which, when))

    def session(self, what: str, slot: int) -> None:
        self._on_host(lambda backend: backend.converse(what, slot))

    def submit(self, kind: str, slot: int, interrupts: bool) -> None:
        self._on_host(lambda backend: backend.submit(kind, slot, interrupts))

    def _on_host(self, work: Callable[[Backend], Coroutine[Any, Any, None]]) -> None:
        world = self._world
        bridge = world.bridge
        if bridge is None or not bridge.serving or not world.awake:
            return
        world.active()
        task = bridge.spawn(work(world.backend))
        bridge.requests.add(task)
        task.add_done_callback(bridge.request_done)

    # -- the host ---------------------------------------------------------------------------------

    def crash(self, steps: int) -> None:
        """Kill the process after so many more callbacks: between any two awaits."""
        world = self._world
        world.fault("host crash")
        if not steps or not world.awake or world.bridge is None:
            world.host_dies()
            return
        loop = world.bridge.loop
        loop.crash_at_step = loop.steps + steps

    def cut(self, how: str) -> None:
        """Take the power away in the middle of the next commit."""
        world = self._world
        if world.bridge is None:
            return
        world.disk.cut_next = how
        world.disturb()

    def cut_file(self, calls: int) -> None:
        """Take the power away in the middle of a write of the routine state."""
        if self._world.bridge is not None:
            self._world.disk.cut_after_calls = calls
            self._world.disturb()

    def suspend(self) -> None:
        self._world.fault("suspend at any moment")
        self._world.suspend()

    def user_wake(self) -> None:
        self._world.resume()
        self._world.boot()

    def stop(self, off_s: float) -> None:
        """Stop the bridge as systemd does, and start it again later."""
        world = self._world
        bridge = world.bridge
        if bridge is None or not bridge.serving or not world.awake:
            return
        world.fault("clean stop")
        bridge.serving = False
        world.off_until_ns = world.agenda.now_ns + round(off_s * NS)
        world.disturb()
        bridge.spawn(bridge.stop())

    def reboot(self, off_s: float, wall: str, sync_s: float, signal: bool) -> None:
        """The host loses power and comes back, perhaps with a wrong clock."""
        world = self._world
        world.fault(f"power loss of the host, clock {wall}")
        world.host_dies()
        world.powered = False
        wall_ns = world.clocks.wall_ns
        world.agenda.after(
            round(off_s * NS), lambda: self._power_back(wall, wall_ns, sync_s, signal)
        )

    def _power_back(self, wall: str, wall_ns: int, sync_s: float, signal: bool) -> None:
        world = self._world
        clocks = world.clocks
        world.powered = True
        if world.bridge is None:
            clocks.reboot()
            aim_ns = {
                "right": self._true_wall_ns(),
                "1970": _YEAR_1970_NS,
                "stuck": wall_ns,
                "ahead": self._true_wall_ns() + 40 * 86_400 * NS,
            }[wall]
            clocks.step(aim_ns - clocks.wall_ns)
            self._wrong_by_ns = clocks.wall_ns - self._true_wall_ns()
        world.boot()
        if wall != "right":
            world.agenda.after(round(sync_s * NS), lambda: self._synchronize(signal))

    def _true_wall_ns(self) -> int:
        return self._world.config.wall_start_ns + self._world.agenda.now_ns

    def _synchronize(self, signal: bool) -> None:
        """The time service sets the clock; the deployment may say so."""
        if not self._world.awake:
            self._world.agenda.after(60 * NS, lambda: self._synchronize(signal))
            return
        self._step_by(self._true_wall_ns() - self._world.clocks.wall_ns)
        if signal:
            self.sync()

    def step(self, by_s: float, back_s: float) -> None:
        """Set the wall clock wrong, and right again later."""
        world = self._world
        if world.awake and world.clocks.wall_ns + round(by_s * NS) > 0:
            world.fault("clock step")
            self._step_by(round(by_s * NS))
            world.agenda.after(round(back_s * NS), lambda: self._synchronize(signal=False))

    def _step_by(self, by_ns: int) -> None:
        world = self._world
        if not by_ns:
            return
        world.routines.stepped(by_ns)
        world.clocks.step(by_ns)
        world.note("clock", f"stepped by {by_ns}")
        world.wakes.stepped()
        world.events.trusted_now()
        if world.bridge is not None:
            world.host_do(world.bridge.timer.wake)
        world.disturb()

    def sync(self) -> None:
        """The deployment says that the clock is right."""
        world = self._world
        bridge = world.bridge
        if bridge is None or not bridge.serving or not world.awake:
            return
        world.fault("sync signal")
        if not world.events.trusted:
            world.events.clock_trusted()
        world.host_do(bridge.events.clock_synced)
        world.disturb()

    def zones(self) -> None:
        """Install another release of the zone rules, and start the bridge anew."""
        world = self._world
        world.fault("zone rules change")
        world.host_dies()
        world.zone_release = 1 - world.zone_release
        directory = world.zone_releases[world.zone_release]
        world.use_zones(directory, Zones(directory))

    # -- the disk ---------------------------------------------------------------------------------

    def disk_full(self, for_s: float) -> None:
        disk = self._world.disk
        disk.full_until_ns = self._world.agenda.now_ns + round(for_s * NS)
        self._world.trouble_until(disk.full_until_ns)

    def disk_error(self, for_s: float, chance: float) -> None:
        disk = self._world.disk
        disk.fail_chance = chance
        disk.failing_until_ns = self._world.agenda.now_ns + round(for_s * NS)
        self._world.trouble_until(disk.failing_until_ns)

    def disk_slow(self, for_s: float, each_s: float) -> None:
        disk = self._world.disk
        disk.slow_ns = round(each_s * NS)
        disk.slow_until_ns = self._world.agenda.now_ns + round(for_s * NS)
        self._world.trouble_until(disk.slow_until_ns)

    # -- the line ---------------------------------------------------------------------------------

    def noise(self, kinds: list[str], chance: float, for_s: float) -> None:
        world = self._world
        until_ns = world.agenda.now_ns + round(for_s * NS)
        for kind in kinds:
            world.line.noises.append(Noise(kind, chance, until_ns))
        world.wakes.link_trouble(until_ns)

    def unplug(self, for_s: float, powers: bool) -> None:
        world = self._world
        if not world.line.plugged:
            return
        world.fault("unplugged")
        world.line.unplug()
        if powers:
            world.board.power_off()
        until_ns = world.agenda.now_ns + round(for_s * NS)
        world.wakes.link_trouble(until_ns)
        if powers:
            world.wakes.board_trouble()

        def back() -> None:
            world.line.plug()
            world.board.power_on()

        world.agenda.at(until_ns, back)

    def mute(self, for_s: float) -> None:
        """The cable has a bad contact: nothing passes, and nobody is told."""
        world = self._world
        world.fault("mute line")
        world.line.muted_until_ns = world.agenda.now_ns + round(for_s * NS)
        world.wakes.link_trouble(world.line.muted_until_ns)

    # -- the board --------------------------------------------------------------------------------

    def board_soft_reset(self, stale: float) -> None:
        world = self._world
        world.fault("board soft reset")
        world.board.checkpoint()
        world.wakes.board_trouble()
        age_ns = round(stale * world.config.board.save_every_ms * 1e6)
        world.agenda.after(age_ns, lambda: self._reset(world.board.soft_reset))

    def board_hard_reset(self, stale: float) -> None:
        world = self._world
        world.fault("board hard reset")
        world.board.checkpoint()
        world.wakes.board_trouble()
        age_ns = round(stale * world.config.board.save_every_ms * 1e6)
        world.agenda.after(age_ns, lambda: self._reset(world.board.hard_reset))

    def _reset(self, reset: Callable[[], None]) -> None:
        self._world.wakes.board_trouble()
        reset()

    def board_power_loss(self, for_s: float) -> None:
        world = self._world
        world.fault("board power loss")
        world.wakes.board_trouble()
        world.board.power_off()
        world.agenda.after(round(for_s * NS), world.board.power_on)

    def board_rate(self, part: float) -> None:
        """The board is off for a second and comes back warmer or colder."""
        world = self._world
        world.fault("board clock drifts")
        world.wakes.board_trouble()
        world.board.power_off()
        world.board.set_rate(round(part * CLOCK_BOUND_PPM[world.config.board.clock_quality]))
        world.agenda.after(NS, world.board.power_on)

    def board_prompt(self) -> None:
        world = self._world
        world.fault("board stopped at its prompt")
        world.wakes.board_trouble()
        world.board.break_in()

    def press(self, source: int) -> None:
        self._world.fault("button or voice wake")
        self._world.board.press(source)

    def lost_hint(self) -> None:
        """The board's word that the countdown has run out gets lost, on a line in order."""
        world = self._world
        world.fault("lost hint")
        world.board.hints_to_lose = 1

    def foreign_timer(self, for_s: float) -> None:
        world = self._world
        world.fault("countdown of another program")
        token = world.draw.choice(FOREIGN_TOKENS)
        world.wakes.foreign(world.agenda.now_ns + world.board.world_ns(round(for_s * 1000)))
        world.board.set_by_other(token, round(for_s * 1000))

    # -- the buses --------------------------------------------------------------------------------

    def bus_down(self, bus: str, for_s: float, noticed_s: float) -> None:
        world = self._world
        sim = next(each for each in world.buses if each.name == bus)
        sim.faults["bus outage"] += 1
        until_ns = world.agenda.now_ns + round(for_s * NS)
        sim.down_until_ns = max(sim.down_until_ns, until_ns)
        world.disturb()
        if noticed_s < for_s:
            world.agenda.after(round(noticed_s * NS), lambda: world.bus_down(bus))
        world.agenda.at(until_ns + NS // 10, lambda: world.bus_up(bus))

    def bus_slow(self, bus: str, for_s: float) -> None:
        world = self._world
        sim = next(each for each in world.buses if each.name == bus)
        sim.slow_until_ns = world.agenda.now_ns + round(for_s * NS)
        world.trouble_until(sim.slow_until_ns)

    def lost_ack(self, bus: str, count: int) -> None:
        """The next messages arrive, but the bridge does not hear of it and reconnects."""
        world = self._world
        sim = next(each for each in world.buses if each.name == bus)
        sim.acks_to_lose = count
        world.disturb()
        world.agenda.after(600 * NS, lambda: self._acks_again(bus))

    def _acks_again(self, bus: str) -> None:
        world = self._world
        next(each for each in world.buses if each.name == bus).acks_to_lose = 0
        world.bus_up(bus)
        world.disturb()

    # -- the end ----------------------------------------------------------------------------------

    def all_well(self) -> None:
        """Mend everything, so that whatever is due must happen."""
        world = self._world
        now_ns = world.agenda.now_ns
        world.disk.full_until_ns = world.disk.failing_until_ns = now_ns
        world.disk.slow_until_ns = now_ns
        world.disk.cut_next = None
        world.disk.cut_after_calls = None
        world.line.noises.clear()
        world.line.muted_until_ns = now_ns
        world.line.plug()
        world.board.power_on()
        world.power_button()
        for bus in world.buses:
            bus.down_until_ns = bus.slow_until_ns = now_ns
            bus.acks_to_lose = 0
            world.agenda.after(2 * NS, lambda name=bus.name: world.bus_up(name))  # type: ignore[misc]
        self._step_by(self._true_wall_ns() - world.clocks.wall_ns)
        self.sync()
        world.agenda.after(20 * NS, self.sync)
        world.disturb()


__all__ = ["Actions", "Violation"]
