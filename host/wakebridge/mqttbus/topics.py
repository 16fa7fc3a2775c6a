"""The topics of the bridge: how names become topic levels and back.

Pure. An owner's id is one topic level, so that a broker's own access rule can enforce it (`%u` in
mosquitto); `host/packaging/mosquitto/` has that rule. `host/docs/reference/asyncapi.yaml` describes
every topic, and a test holds the two together.
"""

from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

TOPIC_BYTES_MAX: Final = 65_535
"""UTF-8 length of a topic; MQTT counts it in 16 bits (MQTT 5 section 1.5.4)."""

ONLINE: Final = b"online"
OFFLINE: Final = b"offline"
"""The two payloads of the status topic."""


class BadLevel(ValueError):  # noqa: N818 - says what the level is
    """A topic level is not the encoding of any name."""


def _must_be_encoded(char: str) -> bool:
    """Tell whether a character may not stand in a topic level as it is."""
    code = ord(char)
    return (
        char in "%/+#"
        or code < 0x20
        or 0x7F <= code < 0xA0
        or 0xD800 <= code < 0xE000
        or 0xFDD0 <= code < 0xFDF0
        or code & 0xFFFE == 0xFFFE
    )


def encode_level(name: str) -> str:
    """Return the one topic level that stands for a name.

    Percent-encoded are `%`, the separator and wildcards `/ + #`, and what MQTT forbids or
    discourages in a string (section 1.5.4: control characters, surrogates, non-characters).
    Everything else stays, so that a usual name is its own level.
    """
    if name.isascii() and name.isprintable() and not any(char in name for char in "%/+#"):
        return name
    return "".join(
        "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
        if _must_be_encoded(char)
        else char
        for char in name
    )


def decode_level(level: str) -> str:
    """Return the name that a topic level stands for.

    Only the exact encoding of a name is accepted: were `a%62` another way to write `ab`, a client
    that the broker knows as `a%62` could act for the owner `ab`.

    Raises:
        BadLevel: `level` is empty or is not what `encode_level` makes of any name.

    """
    if not level:
        raise BadLevel("an empty topic level names nobody")
    if "%" not in level:
        name = level
    else:
        try:
            name = unquote_to_bytes(level).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise BadLevel("a topic level is not UTF-8 once decoded") from None
    if encode_level(name) != level:
        raise BadLevel("a topic level is not percent-encoded as documented")
    return name


def check_base(field: str, base: str) -> None:
    """Raise ValueError, naming the field, for what cannot be the first levels of all topics."""
    if "" in base.split("/") or base.startswith("$") or set("+#") & set(base):
        raise ValueError(f"{field} must be topic levels without wildcards, it is {base!r}")
    if any(_must_be_encoded(char) for char in base if char not in "%/"):
        raise ValueError(f"{field} holds a character that MQTT forbids in a topic: {base!r}")


def matches(topic_filter: str, topic: str) -> bool:
    """Tell whether a topic filter covers a topic (MQTT 5 section 4.7)."""
    filter_levels = topic_filter.split("/")
    levels = topic.split("/")
    if topic.startswith("$") and filter_levels[0] in {"+", "#"}:
        return False
    for position, wanted in enumerate(filter_levels):
        if wanted == "#":
            return True
        if position == len(levels) or wanted not in {"+", levels[position]}:
            return False
    return len(filter_levels) == len(levels)


class RequestAddress(msgspec.Struct, frozen=True):
    """Where a request came in: the owner's topic level as the broker saw it, and the verb."""

    level: str
    verb: str


class Topics(msgspec.Struct, frozen=True):
    """The topics under one base, which separates several bridges on one broker."""

    base: str

    def status(self) -> str:
        """Return the retained topic that says `online` or `offline`."""
        return f"{self.base}/status"

    def state(self, name: str) -> str:
        """Return the retained topic of one piece of state, `timer` or `board`."""
        return f"{self.base}/{name}"

    def ready(self) -> str:
        """Return the topic of `ovos.scheduler.ready`."""
        return f"{self.base}/ready"

    def requests(self) -> str:
        """Return the filter of every owner's requests."""
        return f"{self.base}/owners/+/request/+"

    def request(self, owner: str, verb: str) -> str:
        """Return the topic on which an owner asks."""
        return f"{self.owner(owner)}/request/{verb}"

    def owner(self, owner: str) -> str:
        """Return the topic above everything that belongs to one owner."""
        return f"{self.base}/owners/{encode_level(owner)}"

    def answer(self, level: str, name: str) -> str:
        """Return the topic of an owner's answers; `level` is the encoded owner."""
        return f"{self.base}/owners/{level}/answer/{name}"

    def missed(self, owner: str) -> str:
        """Return the topic of an owner's `ovos.scheduler.missed`."""
        return f"{self.owner(owner)}/missed"

    def event(self, owner: str, message_type: str) -> str:
        """Return the topic of an owner's fired event.

        Its last level is the event's name without the owner's prefix (E2). A type outside of the
        namespace, as the legacy protocol of the OVOS bus has them (E90), keeps its whole name.
        """
        name = message_type.removeprefix(f"{owner}.")
        return f"{self.owner(owner)}/event/{encode_level(name)}"

    def parse_request(self, topic: str) -> RequestAddress:
        """Return who asks what; `topic` must be covered by `requests()`."""
        level, _, verb = topic[len(self.base) + len("/owners/") :].split("/")
        return RequestAddress(level, verb)

    def may_answer_to(self, level: str, topic: str) -> bool:
        """Tell whether an owner may have its answer sent to this topic.

        Inside the owner's own branch only, or the bridge would write for an owner where the broker
        lets the bridge write and the owner not. Never to a request topic: that would be a request.
        """
        branch = f"{self.base}/owners/{level}/"
        return (
            topic.startswith(branch)
            and not topic.startswith(f"{branch}request/")
            and "+" not in topic
            and "#" not in topic
        )
