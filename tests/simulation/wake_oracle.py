"""Judges the countdown: that it is the right one, that it wakes the host in time."""

from typing import TYPE_CHECKING, Final

from .kernel import NS, Violation
from .properties import ARMED, LIMIT, LINKED, TAKEN, WOKEN

if TYPE_CHECKING:
    from .world import World

COUNTDOWN_MAX_MS: Final = 604_800_000

AGREE_S: Final = 10.0
"""How long after the last trouble plan and countdown agree (case A10: 5 s after the hello)."""

FOREIGN_TOKENS: Final = (0x00001234, 0xFFFF0001)
"""What other programs put on the board: set by hand, and by another bridge."""

_LINK_NS: Final = 30 * NS
"""How long it takes at most to find a board, with all that is tried when it is at a prompt."""

# A reading may be so old when the countdown is changed by it, and the request be late on the line.
_KNOWN_NS: Final = 15 * NS

_READBACK_NS: Final = 65 * NS


class WakeOracle:
    """The judge of one device's countdown."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._trouble_until_ns = 0
        self._board_trouble_ns = 0
        self._foreign_until_ns = 0
        self._foreign_since_ns = 0
        self._stepped_ns = 0
        self._sets_seen = 0
        self._must_wake_by_ns: int | None = None
        self._pulses = 0
        self._apart_since_ns: int | None = None
        self.checks = 0
        self.sleeps = 0
        self.sleeps_judged = 0

    # -- what happens -----------------------------------------------------------------------------

    def link_trouble(self, until_ns: int) -> None:
        self._trouble_until_ns = max(self._trouble_until_ns, until_ns)

    def board_trouble(self) -> None:
        self._board_trouble_ns = self._world.agenda.now_ns
        self._must_wake_by_ns = None

    def foreign(self, until_ns: int) -> None:
        self._foreign_since_ns = self._world.agenda.now_ns
        self._foreign_until_ns = max(self._foreign_until_ns, until_ns)
        self.board_trouble()

    def stepped(self) -> None:
        self._stepped_ns = self._world.agenda.now_ns

    def pulsed(self) -> None:
        self._pulses += 1

    def host_gone(self) -> None:
        self._must_wake_by_ns = None

    def resumed(self) -> None:
        self._must_wake_by_ns = None

    def suspended(self) -> None:
        """The host goes to sleep: by when must it be woken?"""
        world = self._world
        self.sleeps += 1
        self._must_wake_by_ns = None
        target_ns = self._target_ns()
        if not self._calm() or target_ns is None or not world.config.wake_line:
            return
        self.sleeps_judged += 1
        # The board asks a host that it heard lately for a sign of life first.
        confirm_ns = 0
        if world.agenda.now_ns - world.board.heard_ns < world.config.board.awake_ms * 1_100_000:
            confirm_ns = 3 * NS
        self._must_wake_by_ns = (
            max(target_ns, world.agenda.now_ns)
            + round(2.5 * NS)  # countdowns that end two seconds apart agree (case A11)
            + confirm_ns
            + round((world.config.resume_s) * NS)
            + self._lie_ns(target_ns)
        )

    # -- what must be -----------------------------------------------------------------------------

    def _target_ns(self) -> int | None:
        """Return when the host must be awake, in world time."""
        world = self._world
        due = []
        for states in world.events.states.values():
            for state in states:
                if state is None or state.next_ns is None:
                    continue
                if state.boot_due_ns is not None:
                    due.append(world.clocks.world_of_boot(state.boot_due_ns))
                elif world.events.trusted_now():
                    due.append(world.clocks.world_of_wall(state.next_ns))
        if (routine_ns := world.routines.next_due()) is not None:
            due.append(world.clocks.world_of_wall(routine_ns))
        return min(due, default=None)

    def calm_since_ns(self) -> int | None:
        """Return since when everything has been well, None when something is not."""
        world = self._world
        since_ns = [world.healthy_since.get(bus.name) for bus in world.buses]
        known_ns = [each for each in since_ns if each is not None]
        live = world.board.live()
        if (
            world.link_since_ns is None
            or len(known_ns) < len(since_ns)
            or world.board.firmware is None
            or (live is not None and live[0] in FOREIGN_TOKENS)
        ):
            return None
        up_ns = world.board.up_since_ns
        if world.link_since_ns < up_ns <= self._trouble_until_ns:
            up_ns += _READBACK_NS  # the board's word that it has started was lost
        foreign_ns = self._foreign_until_ns
        if self._foreign_since_ns <= world.board.hint_lost_ns:
            foreign_ns += _READBACK_NS  # its word that another program's has run out was lost
        return max(
            *known_ns,
            world.link_since_ns,
            up_ns,
            self._trouble_until_ns,
            foreign_ns,
            self._board_trouble_ns,
            self._stepped_ns,
        )

    def _calm(self) -> bool:
        """Whether everything has been well, and quiet, for long enough to agree."""
        world = self._world
        now_ns = world.agenda.now_ns
        since_ns = self.calm_since_ns()
        return (
            since_ns is not None
            and since_ns <= now_ns - round(AGREE_S * NS)
            and max(world.active_ns, world.routines.saved_ns) <= now_ns - 4 * NS
            and world.board.logged_ns <= now_ns - 4 * NS
            and world.events.certain
        )

    def check(self) -> None:
        world = self._world
        world.events.trusted_now()  # what follows from it has the time of a recovery
        for at_ns, token, duration_ms, before in world.board.sets[self._sets_seen :]:
            # The host reads before it arms; what somebody sets in between it cannot know.
            if before in FOREIGN_TOKENS and at_ns > self._foreign_since_ns + _KNOWN_NS:
                raise Violation(TAKEN, f"{token:#x} was armed over {before:#x}")
            if duration_ms > COUNTDOWN_MAX_MS:
                raise Violation(LIMIT, f"token {token:#x}: {duration_ms} ms")
        self._sets_seen = len(world.board.sets)
        now_ns = world.agenda.now_ns
        if self._must_wake_by_ns is not None and now_ns > self._must_wake_by_ns and world.suspended:
            late_s = (now_ns - self._must_wake_by_ns) / NS
            raise Violation(WOKEN, f"the host still sleeps {late_s:.1f} s after the latest moment")
        if world.awake and self._calm():
            self._agree()
        self._look_for_link()

    def link_lost(self) -> None:
        """The bridge gives a link up: is anything the matter with it?"""
        world = self._world
        quiet_since_ns = max(
            self._trouble_until_ns,
            self._board_trouble_ns,
            world.board.up_since_ns,
            world.resumed_ns,
        )
        # A board whose word that it has started was lost is found out when it is asked next.
        known = world.link_since_ns is not None and world.link_since_ns >= world.board.up_since_ns
        if (
            world.awake
            and world.bridge is not None
            and world.bridge.serving
            and not world.bridge.loop.dead
            and world.line.plugged
            and world.board.firmware is not None
            and known
            and world.agenda.now_ns > quiet_since_ns + _LINK_NS
        ):
            raise Violation(LINKED, "the link is given up, although nothing is wrong with it")

    def _look_for_link(self) -> None:
        """Hold the bridge to a link with a board that is there, on a line that is in order."""
        world = self._world
        bridge = world.bridge
        apart = (
            world.link_since_ns is None
            and world.awake
            and bridge is not None
            and bridge.serving
            and world.board.powered
            and world.line.plugged
        )
        now_ns = world.agenda.now_ns
        if not apart:
            self._apart_since_ns = None
            return
        if self._apart_since_ns is None:
            self._apart_since_ns = now_ns
        since_ns = max(
            self._apart_since_ns,
            self._trouble_until_ns,
            self._board_trouble_ns,
            world.board.up_since_ns,
        )
        if now_ns > since_ns + _LINK_NS:
            raise Violation(LINKED, f"no link for {(now_ns - since_ns) / NS:.0f} s")

    def _agree(self) -> None:
        world = self._world
        bridge = world.bridge
        assert bridge is not None
        self.checks += 1
        target_ns = self._target_ns()
        live = world.board.live()
        now_ns = world.agenda.now_ns
        if target_ns is None:
            if live is not None and live[0] >> 16 == bridge.lease:
                raise Violation(ARMED, f"nothing is due, but {live[0]:#x} is armed")
            return
        lead_ns = round(world.config.lead_s * NS)
        if abs(target_ns - lead_ns - now_ns) < 5 * NS:
            return  # the countdown to the lead has run out, the one to the instant is next
        aim_ns = target_ns - lead_ns if now_ns < target_ns - lead_ns else target_ns
        if aim_ns <= now_ns + 4 * NS:
            return  # it is about to fire
        if live is None or live[0] >> 16 != bridge.lease:
            raise Violation(ARMED, f"due in {(target_ns - now_ns) / NS:.1f} s, armed: {live}")
        lie_ns = self._lie_ns(aim_ns)
        if live[1] > aim_ns + 4 * NS + lie_ns:
            raise Violation(
                ARMED,
                f"due in {(target_ns - now_ns) / NS:.1f} s, but the countdown ends"
                f" {(live[1] - aim_ns) / NS:.1f} s after that",
            )

    def _lie_ns(self, aim_ns: int) -> int:
        """What a board claims of its clock is believed for short legs until it was measured."""
        world = self._world
        return 0 if world.config.board.honest else max(0, aim_ns - world.agenda.now_ns) // 18

    def final(self) -> None:
        """At the end everything is well and has been for an hour."""

    def figures(self) -> dict[str, int]:
        return {
            "countdown checks": self.checks,
            "sleeps": self.sleeps,
            "sleeps held to their wake": self.sleeps_judged,
            "wake pulses": self._pulses,
        }
