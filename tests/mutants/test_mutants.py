"""The list of mutants is true of the tree, and the page is true of the list."""

import re
from pathlib import Path

import pytest

from mutants import table
from mutants.catalogue import AREAS, ISSUE_AREAS, MUTANTS, Mutant, mutant
from mutants.run import ROOT, tree


@pytest.mark.parametrize("each", MUTANTS, ids=lambda each: each.id)
def test_a_mutant_changes_one_place_of_the_tree(each: Mutant) -> None:
    text = (ROOT / each.path).read_text()
    mutated = each.applied(text)
    assert mutated != text
    compile(mutated, each.path, "exec")


def test_mutants_have_names_of_their_own_and_areas_that_exist() -> None:
    ids = [each.id for each in MUTANTS]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", each) for each in ids)
    assert {each.area for each in MUTANTS} == set(AREAS)


@pytest.mark.parametrize("part", ISSUE_AREAS)
def test_every_part_that_must_be_covered_has_three_mutants(part: str) -> None:
    assert sum(each.area in ISSUE_AREAS[part] for each in MUTANTS) >= 3


def test_the_page_shows_exactly_the_mutants_that_there_are() -> None:
    shown = table.written()
    assert list(shown) == [each.id for each in MUTANTS]
    assert {key: (area, wrong) for key, (area, wrong, _) in shown.items()} == {
        each.id: (each.area, each.wrong) for each in MUTANTS
    }


QUICK = ("commit-first", "only-by-hand-is-foreign", "event-sent-again")


@pytest.mark.parametrize("mutant_id", QUICK)
def test_a_mutant_is_caught_by_the_property_that_the_page_names(mutant_id: str) -> None:
    with tree() as copy:
        result = copy.hunt(mutant(mutant_id))
    assert (result.problem, result.caught_by) == ("", table.written()[mutant_id][2]), result.detail


def test_a_hunt_in_a_copy_uses_the_mutated_file_and_nothing_of_the_tree(tmp_path: Path) -> None:
    """A module that is not the copy's own would make every mutant a survivor."""
    broken = Mutant("broken", "x", "firmware/wakeboard/loop.py", "import gc\n", "import gone\n", "")
    with tree() as copy:
        result = copy.hunt(broken)
    assert result.caught_by is None
    assert "No module named 'gone'" in result.problem
