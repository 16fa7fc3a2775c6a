"""Which tests carry which requirement: read from their names and docstrings.

A name carries numbers as `_e30_e34`, `_e60_to_e63` or `_r49`; a docstring as `E30`, `R49` or
`E60 to E63`. `_a05_r2` is a row of a field case, not R2.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

import pytest

from conformance.requirements import REQUIREMENTS

BLACK_BOX: Final = "tests/conformance/"

_ORDER: Final = {each.number: place for place, each in enumerate(REQUIREMENTS)}

_CASE: Final = re.compile(r"_a\d\d(?:_r\d+)*(?=_|$)")
_IN_NAME: Final = re.compile(r"_(?:(to)_)?([er])(\d+)([a-d]?)(?=_|$)")
_IN_TEXT: Final = re.compile(r"(?:(\bto |\.\.))?\b([ER])(\d+)([a-d]?)\b")


@dataclass(frozen=True)
class Proof:
    """One test case that carries a requirement. `transport` is set for those of the black box."""

    number: str
    file: str
    test: str
    node: str
    transport: str | None


class UnknownNumber(Exception):  # noqa: N818 - what the test carries
    """A test's name carries a number that no requirement has."""


def numbers_in_name(name: str) -> list[str]:
    """Return the numbers that a test's name carries. Raises `UnknownNumber`."""
    found = _read(_IN_NAME, _CASE.sub("", name))
    if unknown := [number for number in found if number not in _ORDER]:
        raise UnknownNumber(f"{name} carries {', '.join(unknown)}")
    return found


def numbers_in_text(text: str) -> list[str]:
    """Return the numbers that a docstring carries; other words that look like one are none."""
    return [number for number in _read(_IN_TEXT, text) if number in _ORDER]


def _read(pattern: re.Pattern[str], text: str) -> list[str]:
    found: list[str] = []
    for through, letter, digits, part in pattern.findall(text):
        number = f"{letter.upper()}{int(digits)}{part}"
        if through and found and found[-1] in _ORDER and number in _ORDER:
            # A range: all between the one before and this one.
            found += list(_ORDER)[_ORDER[found[-1]] + 1 : _ORDER[number]]
        found.append(number)
    return list(dict.fromkeys(found))


def proofs_of(items: Iterable[pytest.Item]) -> list[Proof]:
    """Return what the collected tests carry, in the order of the requirements."""
    proofs = []
    for item in items:
        assert isinstance(item, pytest.Function)
        file, test = item.nodeid.partition("::")[0], item.originalname
        numbers = numbers_in_name(test) + numbers_in_text(item.function.__doc__ or "")
        transport = _transport(item) if file.startswith(BLACK_BOX) else None
        proofs += [
            Proof(number, file, test, item.nodeid, transport) for number in dict.fromkeys(numbers)
        ]
    return sorted(proofs, key=lambda proof: _ORDER[proof.number])


def _transport(item: pytest.Function) -> str | None:
    """Return the transport that a case of the black box runs over: one of its parameters."""
    callspec = getattr(item, "callspec", None)
    values = {} if callspec is None else callspec.params
    return next((each for each in values.values() if each in {"mqtt", "ovos"}), None)


def files_of(proofs: Iterable[Proof], number: str) -> list[str]:
    """Return the files whose tests carry a requirement, the black box first."""
    files = {proof.file for proof in proofs if proof.number == number}
    return sorted(files, key=lambda file: (not file.startswith(BLACK_BOX), PurePosixPath(file)))


def named_over(proofs: Iterable[Proof], number: str, transport: str) -> list[str]:
    """Return the tests of the black box that carry a requirement over a transport."""
    found = [p.test for p in proofs if p.number == number and p.transport == transport]
    return list(dict.fromkeys(found))
