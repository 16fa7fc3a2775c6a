"""Judges the answers that owners get: each must be true of a state that the schedule can be in."""

from typing import Any

from wakebridge.schedule.instants import Now

from . import schedule_model as model
from .event_states import Asked, EventStates, State, distinct
from .kernel import Violation
from .properties import ANSWERS, LOST, OWNERS, PHASE
from .schedule_model import Key


class EventAnswers(EventStates):
    """The judge of answers."""

    def answered(self, asked: Asked, answer: dict[str, Any]) -> None:
        self.asked.remove(asked)
        self.stats.answers += 1
        if not answer["ok"]:
            self.stats.refusals += 1
            self._refused(asked, answer)
            return
        self._unit = None
        self._begin(self._now())
        getattr(self, f"_answered_{asked.verb}")(asked, answer)

    def _refused(self, asked: Asked, answer: dict[str, Any]) -> None:
        error = answer["error"]
        if error == "internal":
            if not asked.disk_trouble:
                raise Violation(ANSWERS, f"internal without a reason: {answer['reason']}")
            return
        self._unit = None
        key = (asked.owner, str(asked.body.get("id")))
        if error == "skill_id_mismatch":
            others = [k for k in self.states if k[1] == key[1] and k[0] != asked.owner]
            if not any(state is not None for k in others for state in self.states[k]):
                raise Violation(ANSWERS, f"skill_id_mismatch, but nobody has {key[1]!r}")
            self._keep(key, lambda state: state is None, ANSWERS, "it is the asker's own")
            return
        if error == "invalid_record" and asked.owner == "admin" and "skill_id" not in asked.body:
            owners = [k for k in self.states if k[1] == key[1] and self.states[k] != [None]]
            if len(owners) < 2:
                raise Violation(ANSWERS, f"the administrator was refused: {answer}")
            return
        if asked.verb == "schedule" and error == "bad_recurrence":
            self._keep(
                key,
                lambda state: (
                    self._accept(asked, state, asked.sent) is None
                    or self._accept(asked, state, self._now()) is None
                ),
                ANSWERS,
                f"refused although it has an occurrence: {asked.body}",
            )
            return
        raise Violation(ANSWERS, f"{asked.verb} {asked.body} was refused: {answer}")

    def _decisions(self, asked: Asked) -> list[Now]:
        """Return when the request can have been decided: with a commit, or when it is answered."""
        return [
            # A request shares the moment of decision with all that are committed beside it.
            *(now for now in self._commits if now.boot_ns >= asked.sent.boot_ns),
            asked.sent,
            self._now(),
        ]

    def _answered_schedule(self, asked: Asked, answer: dict[str, Any]) -> None:
        key = (asked.owner, asked.body["id"])
        self._keep(
            key,
            lambda state: (state is not None) == answer["replaced"],
            ANSWERS,
            f"replaced is {answer['replaced']}",
        )
        accepted = [
            each
            for state in self._of(key)
            for now in self._decisions(asked)
            if (each := self._accept(asked, state, now)) is not None
        ]
        next_ns = None if answer["next"] is None else model.instant(answer["next"])
        fitting = [each for each in accepted if each.next_ns == next_ns]
        if not fitting:
            expected = [_text(each.next_ns) for each in accepted]
            raise Violation(
                PHASE, f"{asked.body} was answered next {answer['next']}, not {expected}"
            )
        self.states[key] = distinct(fitting)
        self.repeats.accepted(key)
        self._accepted_ns[key] = self.world_ns()

    def _answered_cancel(self, asked: Asked, answer: dict[str, Any]) -> None:
        key = (answer["skill_id"], asked.body["id"])
        if key[0] != asked.owner and asked.owner != "admin":
            raise Violation(OWNERS, f"{asked.owner} cancelled {key}")
        self._keep(
            key,
            lambda state: (state is not None) == answer["existed"],
            ANSWERS,
            f"existed is {answer['existed']}",
        )
        self.states[key] = [None]

    def _answered_get(self, asked: Asked, answer: dict[str, Any]) -> None:
        key = (asked.owner, asked.body["id"])
        if not answer["existed"]:
            self._keep(key, lambda state: state is None, LOST, "get says it exists nowhere")
            return
        self._compare(key, answer)

    def _answered_list(self, asked: Asked, answer: dict[str, Any]) -> None:
        everybody = asked.owner == "admin"
        listed = {}
        for pair in answer["schedules"]:
            key = (pair["record"]["skill_id"], pair["record"]["id"])
            if key[0] != asked.owner and not everybody:
                raise Violation(OWNERS, f"{asked.owner} is shown {key}")
            listed[key] = pair
        for key in list(self.states):
            if key[0] != asked.owner and not everybody:
                continue
            if key in listed:
                self._compare(key, listed[key])
            else:
                self._keep(key, lambda state: state is None, LOST, "list does not show it")
        unknown = set(listed) - set(self.states)
        if unknown:
            raise Violation(ANSWERS, f"list shows what nobody asked for: {sorted(unknown)}")

    def _compare(self, key: Key, pair: dict[str, Any]) -> None:
        shown = pair["state"]
        record = pair["record"]

        def fits(state: State) -> bool:
            return (
                state is not None
                and _text(state.next_ns) == _again(shown["next"])
                and _text(state.last_fired_ns) == _again(shown["last_fired"])
                and [model.text_of(each) for each in state.missed]
                == [_again(each) for each in shown["missed"]]
                and state.remaining() == shown["remaining"]
                and state.data == record["data"]
                and state.event == record["event"]
            )

        self._keep(key, fits, ANSWERS, f"it is shown as {shown}")


def _text(instant_ns: int | None) -> str | None:
    return None if instant_ns is None else model.text_of(instant_ns)


def _again(text: str | None) -> str | None:
    return None if text is None else model.text_of(model.instant(text))
