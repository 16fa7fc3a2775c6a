"""Every target by name. A target takes bytes and raises only for what is a fault of ours.

They are imported on demand, so that a fuzzer instruments no more than its target runs through.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

CORPUS: Final = Path(__file__).parent / "corpus"

TARGETS: Final = {
    "frames": "fuzz.wire_targets:frames",
    "cbor": "fuzz.wire_targets:cbor_payload",
    "message": "fuzz.wire_targets:message",
    "connection": "fuzz.wire_targets:connection",
    "instant": "fuzz.text_targets:instant",
    "request": "fuzz.text_targets:request",
    "topic_level": "fuzz.text_targets:topic_level",
    "ovos_message": "fuzz.text_targets:ovos_message",
    "report": "fuzz.text_targets:report",
    "config": "fuzz.text_targets:config",
    "http": "fuzz.http_target:http",
    "state_json": "fuzz.store_targets:state_json",
    "schedules_db": "fuzz.store_targets:schedules_db",
    "transcript": "fuzz.store_targets:transcript",
}


def target(name: str) -> Callable[[bytes], None]:
    """Return a target, importing what it needs."""
    module, _, function = TARGETS[name].partition(":")
    return cast("Callable[[bytes], None]", getattr(importlib.import_module(module), function))


def corpus_of(name: str) -> list[Path]:
    """Return the kept inputs of a target, in the order of their names."""
    return sorted((CORPUS / name).iterdir())
