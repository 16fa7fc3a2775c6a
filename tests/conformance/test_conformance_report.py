"""The page of the documentation says what is so: every requirement is proven, and by these."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import document
from conformance.ledger import (
    BLACK_BOX,
    Proof,
    UnknownNumber,
    files_of,
    named_over,
    numbers_in_name,
    numbers_in_text,
)
from conformance.requirements import BOTH, REQUIREMENTS

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def proofs() -> list[Proof]:
    """What all tests carry, whichever of them this run has."""
    said = subprocess.run(
        (sys.executable, "-m", "conformance", "--list"),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'tests/fixtures'}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return [Proof(**each) for each in json.loads(said.stdout)]


@pytest.fixture(scope="module")
def page() -> str:
    """The page as it is."""
    return document.PAGE.read_text(encoding="utf-8")


def test_every_requirement_has_a_test_that_carries_its_number(proofs: list[Proof]) -> None:
    proven = {proof.number for proof in proofs}
    assert [each.number for each in REQUIREMENTS if each.number not in proven] == []


@pytest.mark.parametrize("transport", BOTH)
def test_what_can_be_seen_from_outside_is_seen_over_each_transport(
    proofs: list[Proof], transport: str
) -> None:
    unseen = [
        each.number
        for each in REQUIREMENTS
        if transport in each.over and not named_over(proofs, each.number, transport)
    ]
    assert unseen == []


def test_what_is_not_seen_from_outside_says_why() -> None:
    assert [
        e.number for e in REQUIREMENTS if e.number[0] == "E" and e.over != BOTH and not e.why
    ] == []


def test_the_files_that_the_page_names_carry_the_requirement(
    proofs: list[Proof], page: str
) -> None:
    """A page may name fewer files than there are; `make conformance` names all."""
    wrong = [
        (number, file)
        for number, files in document.files_in(page).items()
        for file in files
        if file not in files_of(proofs, number)
    ]
    assert wrong == [], "make conformance writes the page anew"


def test_the_page_is_what_its_ledger_makes(proofs: list[Proof], page: str) -> None:
    files = document.files_in(page)
    assert list(files) == [each.number for each in REQUIREMENTS]
    assert all(files.values())
    for each in REQUIREMENTS:
        black_box = [file for file in files_of(proofs, each.number) if file.startswith(BLACK_BOX)]
        assert black_box == [file for file in files[each.number] if file.startswith(BLACK_BOX)]
    assert document.render(proofs, files) == page, "make conformance writes the page anew"


def test_numbers_are_read_from_names_and_docstrings() -> None:
    assert numbers_in_name("test_it_fires_e30_e34") == ["E30", "E34"]
    assert numbers_in_name("test_ownership_e60_to_e63") == ["E60", "E61", "E62", "E63"]
    assert numbers_in_name("test_r43_r49_without_power") == ["R43", "R49"]
    assert numbers_in_name("test_gaps_e7a_a01") == ["E7a"]
    assert numbers_in_name("test_anchors_e6_a05_r2") == ["E6"], "a row of a field case"
    assert numbers_in_name("test_a_renewed_e_mail_for_r2d2") == []
    assert numbers_in_text("The bound of E8, and R30 to R32; X9.") == ["E8", "R30", "R31", "R32"]
    with pytest.raises(UnknownNumber):
        numbers_in_name("test_something_e28")
