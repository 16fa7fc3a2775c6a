"""The mutants: what is changed where, and what a person would have had in mind.

Each is a mistake that reads well and could be made in earnest. `old` occurs once in its file.
"""

from dataclasses import dataclass
from typing import Final

AREAS: Final = (
    "engine",
    "firing",
    "misfires",
    "recurrence",
    "planner",
    "reconciler",
    "board clock",
    "countdown",
    "wake line",
    "board requests",
    "event log",
    "link",
    "framing",
    "cbor",
    "stores",
    "routines",
)

ISSUE_AREAS: Final = {
    "engine": ("engine", "firing", "misfires", "recurrence"),
    "planner": ("planner",),
    "reconciler": ("reconciler",),
    "countdown": ("countdown",),
    "stores": ("stores",),
    "framing": ("framing",),
}
"""What must be covered at least three times each."""


@dataclass(frozen=True)
class Mutant:
    """One wrong change. `wrong` says it in words, as the table shows it."""

    id: str
    area: str
    path: str
    old: str
    new: str
    wrong: str

    def applied(self, text: str) -> str:
        """Return the mutated text of the file."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.id}: its text is {text.count(self.old)} times in {self.path}")
        return text.replace(self.old, self.new)


_ENGINE: Final = "host/wakebridge/engine.py"
_EVENTS: Final = "host/wakebridge/service/events.py"
_MISFIRE: Final = "host/wakebridge/schedule/misfire.py"
_RULES: Final = "host/wakebridge/schedule/rules.py"
_PLANNER: Final = "host/wakebridge/wake/planner.py"
_RECONCILER: Final = "host/wakebridge/wake/reconciler.py"
_RATE: Final = "host/wakebridge/wake/board_rate.py"
_WAKING: Final = "host/wakebridge/service/waking.py"
_CONNECTION: Final = "host/wakebridge/board/connection.py"
_ROUTINES: Final = "host/wakebridge/service/routines.py"
_SQLITE: Final = "host/wakebridge/store/schedules_sqlite.py"
_FILES: Final = "host/wakebridge/store/private_files.py"
_FRAMING: Final = "protocol/wakewire/framing.py"
_STREAM: Final = "protocol/wakewire/stream.py"
_CBOR: Final = "protocol/wakewire/cbor.py"
_COUNTDOWN: Final = "firmware/wakeboard/countdown.py"
_LOOP: Final = "firmware/wakeboard/loop.py"
_WAKE_LINE: Final = "firmware/wakeboard/wake_line.py"
_DISPATCHER: Final = "firmware/wakeboard/dispatcher.py"
_EVENT_LOG: Final = "firmware/wakeboard/event_log.py"

_EVENT_MUTANTS: Final = (
    Mutant(
        "past-taken-back",
        "engine",
        _ENGINE,
        "            return max(now.wall_ns, self._trusted_after_ns)\n",
        "            return now.wall_ns\n",
        "A write under a clock that is not believed records that clock's time as the newest past.",
    ),
    Mutant(
        "delay-not-planned",
        "engine",
        _ENGINE,
        "wall_ns = delay_ns if wall_ns is None else min(wall_ns, delay_ns)",
        "wall_ns = delay_ns if wall_ns is None else wall_ns",
        "The earliest due instant forgets a delay that ends before the next alarm.",
    ),
    Mutant(
        "delay-at-estimate",
        "engine",
        _ENGINE,
        "return estimate_ns if abs(on_wall_ns - estimate_ns) <= CLOCKS_JITTER_NS else on_wall_ns",
        "return estimate_ns",
        "The board is armed for where a delay would have ended, had nobody set the clock.",
    ),
    Mutant(
        "commit-first",
        "firing",
        _EVENTS,
        "        try:\n            await self._emit(schedule.route, evaluation)\n",
        "        if not schedule.record.ephemeral:\n"
        "            done = Change(schedule.key, evaluation.successor)\n"
        "            await self._durable(lambda: self._commit([done], self._clock.now()))\n"
        "        try:\n            await self._emit(schedule.route, evaluation)\n",
        "A fire is stored before it is emitted, so that a crash in between loses it.",
    ),
    Mutant(
        "answer-first",
        "firing",
        _EVENTS,
        "                await self._commit(durable, now)\n            except",
        "                storing = asyncio.ensure_future(self._commit(durable, now))\n"
        "                storing.add_done_callback(lambda done: done.exception())\n"
        "            except",
        "The answer to a request does not wait until the change is durable.",
    ),
    Mutant(
        "no-way-back",
        "firing",
        _EVENTS,
        "                for inverse in reversed(inverses):\n"
        "                    self._engine.apply(inverse)\n"
        "                raise\n",
        "                raise\n",
        "What could not be stored is refused, but stays in memory.",
    ),
    Mutant(
        "not-held",
        "firing",
        _EVENTS,
        "            self._lost(schedule.route)\n            self._engine.hold(schedule)\n",
        "            self._lost(schedule.route)\n",
        "A fire that its bus did not take is not kept for when the bus is back.",
    ),
    Mutant(
        "ready-told-to-one",
        "firing",
        _EVENTS,
        "        greeted = name in self._announced\n",
        "        greeted = bool(self._announced)\n",
        "Once one bus was told that the bridge is ready, the others count as told.",
    ),
    Mutant(
        "fire-before-report",
        "firing",
        _EVENTS,
        "            if evaluation.missed is not None:\n"
        "                await bus.emit(missed_message(evaluation.missed))\n"
        "            if evaluation.fire is not None:\n"
        "                fired_ns = self._clock.now().wall_ns\n"
        "                await bus.emit(fire_message(evaluation.fire, fired_ns))\n",
        "            if evaluation.fire is not None:\n"
        "                fired_ns = self._clock.now().wall_ns\n"
        "                await bus.emit(fire_message(evaluation.fire, fired_ns))\n"
        "            if evaluation.missed is not None:\n"
        "                await bus.emit(missed_message(evaluation.missed))\n",
        "The report of what was missed comes after the late fire.",
    ),
    Mutant(
        "plan-only-earlier",
        "firing",
        _EVENTS,
        "        if earliest_ns != self._planned_ns:\n",
        "        if self._planned_ns is None or (earliest_ns or 0) < self._planned_ns:\n",
        "The board hears of an earlier instant, but not of the next one after a fire.",
    ),
    Mutant(
        "grace-counts-as-missed",
        "misfires",
        _MISFIRE,
        "    through_ns = now.wall_ns - grace_ns(record) - 1\n",
        "    through_ns = now.wall_ns - 1\n",
        "Occurrences that are still within their grace are counted among the missed ones.",
    ),
    Mutant(
        "one-too-many",
        "misfires",
        _MISFIRE,
        "record.count is not None and consumed >= record.count\n",
        "record.count is not None and consumed > record.count\n",
        "`count` ends a series one occurrence late.",
    ),
    Mutant(
        "missed-count-as-one",
        "misfires",
        _MISFIRE,
        "    after = _consume(schedule, last_ns, count=total)\n",
        "    after = _consume(schedule, last_ns, count=1)\n",
        "However many occurrences were missed, one of `count` is used up.",
    ),
    Mutant(
        "until-ignored-by-misfires",
        "misfires",
        _MISFIRE,
        "        through_ns = min(through_ns, record.until_ns)\n",
        "        pass\n",
        "A device that was off reports occurrences after `until` as missed.",
    ),
    Mutant(
        "last-fire-again",
        "misfires",
        _MISFIRE,
        "    elif fired_ns is not None and next_ns is not None and next_ns <= fired_ns:\n",
        "    elif fired_ns is not None and next_ns is not None and next_ns < fired_ns:\n",
        "A series that is asked for again after the clock was set back repeats its last fire.",
    ),
    Mutant(
        "owed-and-forgotten",
        "misfires",
        _MISFIRE,
        "        and (doubted or owed_ns < now.wall_ns)\n",
        "        and doubted\n",
        "A series that is asked for again loses the occurrence that is due and waits for its bus.",
    ),
    Mutant(
        "delay-by-wall-clock",
        "misfires",
        _MISFIRE,
        "        return now.boot_ns - boot_due_ns\n",
        "        return now.wall_ns - schedule.next_ns\n",
        "How late a delay is, is measured on the wall clock, which somebody may set.",
    ),
    Mutant(
        "anchored-anew",
        "recurrence",
        _MISFIRE,
        "        return _on_time(schedule, schedule.next_ns)\n",
        "        told = _on_time(schedule, schedule.next_ns)\n"
        "        after = told.successor\n"
        "        period_ns = getattr(schedule.record.rule, 'period_ns', None)\n"
        "        if period_ns is None or after is None or after.next_ns is None:\n"
        "            return told\n"
        "        after = msgspec.structs.replace(after, next_ns=now.wall_ns + period_ns)\n"
        "        return msgspec.structs.replace(told, successor=after)\n",
        "A period is counted from when the last fire left, not from the anchor.",
    ),
    Mutant(
        "hour-that-comes-twice",
        "recurrence",
        "host/wakebridge/schedule/zones.py",
        "            if index == len(starts) or instant < starts[index]:\n",
        "            if index == len(starts) or (\n"
        "                instant < starts[index] and local_s - offsets[index] < starts[index]\n"
        "            ):\n",
        "An alarm in the hour that is repeated in autumn rings in the second one.",
    ),
    Mutant(
        "start-is-no-occurrence",
        "recurrence",
        _RULES,
        "        if through_ns < self.start_ns:\n",
        "        if through_ns <= self.start_ns:\n",
        "The start itself does not count as an occurrence that has been.",
    ),
)

_WAKE_MUTANTS: Final = (
    Mutant(
        "lead-on-the-wrong-side",
        "planner",
        _PLANNER,
        "    early_ns = due_ns - round(lead_s * _NS_PER_S)\n",
        "    early_ns = due_ns + round(lead_s * _NS_PER_S)\n",
        "The lead is added to the due instant.",
    ),
    Mutant(
        "leg-too-long",
        "planner",
        _PLANNER,
        "        return Leg.FULL, COUNTDOWN_MAX_MS\n",
        "        return Leg.FULL, early_ms\n",
        "A far target is armed in one go instead of in legs of seven days.",
    ),
    Mutant(
        "early-leg-too-late",
        "planner",
        _PLANNER,
        "    early_ms = rate.board_ns(ahead_ns, -bound_ppm) // _NS_PER_MS\n",
        "    early_ms = rate.board_ns(ahead_ns, bound_ppm) // _NS_PER_MS\n",
        "The leg that should end early allows for a fast clock where a slow one is to be feared.",
    ),
    Mutant(
        "always-final",
        "planner",
        _PLANNER,
        "    if ahead_ns * bound_ppm <= PRECISION_NS * 1_000_000:\n",
        "    if ahead_ns <= COUNTDOWN_MAX_MS * _NS_PER_MS:\n",
        "Whatever fits into one countdown is one, however vague the board's clock is.",
    ),
    Mutant(
        "only-by-hand-is-foreign",
        "reconciler",
        _RECONCILER,
        "    if live and lease_of(reading.token) != lease:\n",
        "    if live and not lease_of(reading.token):\n",
        "The countdown of another bridge is taken over.",
    ),
    Mutant(
        "agrees-with-anything-near",
        "reconciler",
        _RECONCILER,
        "AGREE_NS: Final = 2_000_000_000\n",
        "AGREE_NS: Final = 60_000_000_000\n",
        "Countdowns agree when they end within a minute of each other.",
    ),
    Mutant(
        "left-armed",
        "reconciler",
        _RECONCILER,
        "        return Disarm(reading.token) if live else Keep()\n",
        "        return Keep()\n",
        "When nothing is planned any more, the countdown is left to run.",
    ),
    Mutant(
        "step-of-the-clock-unseen",
        "reconciler",
        _RECONCILER,
        "    return abs(end_ns - desired.leg_end_ns) <= AGREE_NS\n",
        "    return reading.duration_ms >= desired.duration_ms\n",
        "A countdown to the same target agrees when it was set for at least as long.",
    ),
    Mutant(
        "no-pass-when-up",
        "reconciler",
        _WAKING,
        "        self._readbacks = 0\n        self._poke.set()\n",
        "        self._readbacks = 0\n",
        "A board that comes back is not looked at.",
    ),
    Mutant(
        "waits-for-the-hint",
        "reconciler",
        _WAKING,
        "            delay_s = min(delay_s, self.armed.remaining_ms / 1000 + HINT_LATE_S)\n",
        "            pass\n",
        "That a countdown has run out is learnt from the pushed event alone, which can be lost.",
    ),
    Mutant(
        "rate-upside-down",
        "board clock",
        _RATE,
        "        return host_ns + round(host_ns * (self.ppm + offset_ppm) / _PPM)\n",
        "        return host_ns - round(host_ns * (self.ppm + offset_ppm) / _PPM)\n",
        "A fast board is given shorter countdowns instead of longer ones.",
    ),
    Mutant(
        "measured-by-the-wall-clock",
        "board clock",
        "host/wakebridge/board/client.py",
        "                self.boot_id, answer.sent.boot_ns, answer.received.boot_ns, uptime_ms\n",
        "                self.boot_id, answer.sent.wall_ns, answer.received.wall_ns, uptime_ms\n",
        "The board's clock is compared with the wall clock, which somebody may set.",
    ),
)

_BOARD_MUTANTS: Final = (
    Mutant(
        "ticks-not-wrapped",
        "countdown",
        _COUNTDOWN,
        "        step_ms = (ticks_ms - self.ticks_ms) & _TICKS_MASK\n",
        "        step_ms = ticks_ms - self.ticks_ms\n",
        "A step of the ticks is a plain difference, also when they begin again after 12 days.",
    ),
    Mutant(
        "carry-dropped",
        "countdown",
        _COUNTDOWN,
        "        self.s += ms // 1000\n",
        "        self.s += step_ms // 1000\n",
        "The clock's seconds do not get what the milliseconds carry over.",
    ),
    Mutant(
        "deadline-not-waited-for",
        "countdown",
        _LOOP,
        "            wait_ms = min(wait_ms, countdown.left_ms, self.save_left_ms)\n",
        "            wait_ms = min(wait_ms, self.save_left_ms)\n",
        "The board sleeps over the end of its countdown, until it next wakes for something else.",
    ),
    Mutant(
        "age-of-the-checkpoint",
        "countdown",
        "firmware/wakeboard/backup.py",
        "    if passed > 0:\n",
        "    if passed < 0:\n",
        "A countdown that survives a reset gets back the time since its checkpoint.",
    ),
    Mutant(
        "believes-in-a-live-host",
        "wake line",
        _WAKE_LINE,
        "            self.left_ms = _CONFIRM_MS\n",
        "            self.left_ms = -1\n",
        "A host that was heard lately is not woken, even when it has gone to sleep since.",
    ),
    Mutant(
        "expired-is-still-the-same",
        "board requests",
        _DISPATCHER,
        "            if same and timer.armed and not timer.flags:\n",
        "            if same and not timer.flags:\n",
        "A countdown that has run out is not started again under the same token and duration.",
    ),
    Mutant(
        "cursor-of-another-boot",
        "board requests",
        _DISPATCHER,
        "        if message[3] != self.boot_id:\n            after_seq = 0\n",
        "",
        "A cursor of an earlier boot is taken for one of this boot.",
    ),
    Mutant(
        "event-sent-again",
        "board requests",
        _DISPATCHER,
        "        first = max(after_seq + 1, oldest)\n",
        "        first = max(after_seq, oldest)\n",
        "The log is sent from the cursor on instead of after it.",
    ),
    Mutant(
        "ring-read-beside",
        "event log",
        _EVENT_LOG,
        "        return max(1, self.last_seq - RING_LEN + 1)\n",
        "        return max(1, self.last_seq - RING_LEN)\n",
        "The event that was overwritten last counts as still there.",
    ),
)

_LINK_MUTANTS: Final = (
    Mutant(
        "any-answer-will-do",
        "link",
        _CONNECTION,
        "        if request is None or request.attempts == 0 or answer.id != request.request_id:\n",
        "        if request is None or request.attempts == 0:\n",
        "An answer is taken for the one that is waited for, whatever its number.",
    ),
    Mutant(
        "no-checksum",
        "framing",
        _FRAMING,
        "        elif crc32(run[:size]) != _RESIDUE:\n",
        "        elif size < 5:\n",
        "The checksum of a frame is not looked at.",
    ),
    Mutant(
        "del-not-escaped",
        "framing",
        _FRAMING,
        "            if byte < 0x20 or 0x7D <= byte <= 0x7F:\n",
        "            if byte < 0x20 or 0x7D <= byte <= 0x7E:\n",
        "The byte 7F is sent as it is, and passed over at the other end.",
    ),
    Mutant(
        "room-without-escapes",
        "framing",
        _STREAM,
        "        room = 2 * self._limit + 2 - len(self._run)\n",
        "        room = self._limit + 1 - len(self._run)\n",
        "The host keeps as many bytes of a frame as it may have before escaping.",
    ),
    Mutant(
        "shortest-form-misjudged",
        "cbor",
        _CBOR,
        "not number >> 4 * width",
        "not number >> 8 * (width - 1)",
        "A number counts as too long when its highest byte is zero, not its upper half.",
    ),
)

_STORE_MUTANTS: Final = (
    Mutant(
        "watermark-falls",
        "stores",
        _SQLITE,
        "fired_ns = max(fired_ns, ?)",
        "fired_ns = ?",
        "The newest fire on record is that of the newest commit.",
    ),
    Mutant(
        "watermark-apart",
        "stores",
        _SQLITE,
        "        db.execute(_WATERMARK, (*past_ns,",
        '        db.execute("COMMIT")\n        db.execute("BEGIN IMMEDIATE")\n'
        "        db.execute(_WATERMARK, (*past_ns,",
        "A commit's changes and its time are two transactions.",
    ),
    Mutant(
        "journal-in-memory",
        "stores",
        _SQLITE,
        '        db.execute("PRAGMA journal_mode=WAL")\n',
        '        db.execute("PRAGMA journal_mode=MEMORY")\n',
        "The database's journal is kept in memory.",
    ),
    Mutant(
        "written-in-place",
        "stores",
        _FILES,
        "        _write_new(folder, temporary, data)\n"
        "        kept = previous is not None and keep(folder, name, previous)\n"
        "        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)\n",
        "        kept = previous is not None and keep(folder, name, previous)\n"
        "        _write_new(folder, name, data)\n",
        "The routines' document is written over itself instead of beside itself.",
    ),
    Mutant(
        "content-not-synced",
        "stores",
        _FILES,
        "        os.fchmod(descriptor, FILE_MODE)\n"
        "        _write_all(descriptor, data)\n"
        "        os.fsync(descriptor)\n",
        "        os.fchmod(descriptor, FILE_MODE)\n        _write_all(descriptor, data)\n",
        "A new file gets its name before its content is on the disk.",
    ),
    Mutant(
        "name-not-synced",
        "stores",
        _FILES,
        "    try:\n        os.fsync(folder)\n    except OSError:\n",
        "    try:\n        pass\n    except OSError:\n",
        "That the new file has taken the old one's name is not waited for.",
    ),
)

_ROUTINE_MUTANTS: Final = (
    Mutant(
        "queued-and-started-at-once",
        "routines",
        _ROUTINES,
        "        outcome = await self._transition(transition, dispatch=False)\n",
        "        outcome = await self._transition(transition)\n",
        "A wake starts its work in the same save that queues it.",
    ),
    Mutant(
        "run-before-saved",
        "routines",
        _ROUTINES,
        "                state = msgspec.structs.replace(change.state, written_ns=written_ns)\n"
        "                try:\n",
        "                state = msgspec.structs.replace(change.state, written_ns=written_ns)\n"
        "                starts = [each for each in change.effects if isinstance(each, StartRun)]\n"
        "                rest = [each for each in change.effects if each not in starts]\n"
        "                change = Change(change.state, tuple(rest), change.routine)\n"
        "                await self._carry_out(starts)\n"
        "                try:\n",
        "A run is handed to the agent before that is saved.",
    ),
    Mutant(
        "a-voice-is-a-wake",
        "routines",
        "host/wakebridge/routine/wake.py",
        "        if event.source == SOURCE_RTC_TIMER:\n",
        "        if event.source >= SOURCE_RTC_TIMER - 1:\n",
        "A wake by voice makes routines eligible as one by the countdown does.",
    ),
    Mutant(
        "expired-again-and-again",
        "routines",
        "host/wakebridge/routine/wake.py",
        "    if cursor.expired_token == token:\n        return Change(state)\n",
        "",
        "A countdown that still reads expired counts as another wake at each look.",
    ),
    Mutant(
        "tried-again-after-a-crash",
        "routines",
        "host/wakebridge/routine/occurrence.py",
        "        if run.phase is Phase.QUEUED:\n"
        "            continue\n"
        "        change = _closed(state, run, Interrupted(reason), now)\n"
        "        state = change.state\n"
        "        effects.extend(change.effects)\n",
        "        if run.phase is Phase.QUEUED:\n"
        "            continue\n"
        "        again = msgspec.structs.replace(\n"
        "            run, phase=Phase.QUEUED, session_id=None, started_ns=None, partial=None\n"
        "        )\n"
        "        state = with_run(state, again)\n"
        "        routine = routine_of(state, run.routine_id or '')\n"
        "        if routine is not None:\n"
        "            queued = msgspec.structs.replace(routine, status=Status.QUEUED)\n"
        "            state = with_routine(state, queued)\n",
        "What a crash interrupted goes back into the queue.",
    ),
    Mutant(
        "oldest-revision",
        "routines",
        "host/wakebridge/routine/lineage.py",
        "    return lineage.revisions[-1]\n",
        "    return lineage.revisions[0]\n",
        "Work goes to the session that a schedule was made in, not to what it has become.",
    ),
    Mutant(
        "as-good-as-stopped",
        "routines",
        "host/wakebridge/routine/run_queue.py",
        "    if active is None and not busy:\n",
        "    if (active is None or active.stop is not None) and not busy:\n",
        "A run that was asked to stop counts as stopped.",
    ),
    Mutant(
        "back-to-what-has-run",
        "routines",
        "host/wakebridge/routine/occurrence.py",
        "        next_due_ns = cadence.next_after(routine.rule, max(now.wall_ns, due_ns))\n",
        "        next_due_ns = cadence.next_after(routine.rule, now.wall_ns)\n",
        "The next occurrence is the first one from now, also when the clock was set back.",
    ),
    Mutant(
        "every-step-moves-delays",
        "routines",
        "host/wakebridge/routine/clock_step.py",
        "        moves = routine.rule.elapsed and (routine.rule.doubtful or not doubted)\n",
        "        moves = routine.rule.elapsed\n",
        "A step that puts a wrong clock right moves what was asked for under a right one, too.",
    ),
)

MUTANTS: Final = (
    _EVENT_MUTANTS
    + _WAKE_MUTANTS
    + _BOARD_MUTANTS
    + _LINK_MUTANTS
    + _STORE_MUTANTS
    + _ROUTINE_MUTANTS
)


def mutant(mutant_id: str) -> Mutant:
    """Return the mutant of that id. Raises `KeyError`."""
    return {each.id: each for each in MUTANTS}[mutant_id]
