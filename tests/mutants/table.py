"""The table of the mutants: on the terminal, and on the page that explains them."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from .run import ROOT, Result

PAGE: Final = ROOT / "host/docs/explanation/mutants.md"

_BEGINS: Final = "<!-- the table is written by `make mutants PAGE=--page` -->"
_ENDS: Final = "<!-- the table ends here -->"
_HEAD: Final = (
    "| mutant | area | what is wrong | caught by | after | on |",
    "|---|---|---|---|---|---|",
)
_SPANS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def line(result: Result) -> str:
    """Return one mutant for the terminal."""
    mutant = result.mutant
    name = "no mutant" if mutant is None else mutant.id
    verdict = result.problem or result.caught_by or ("clean" if mutant is None else "SURVIVED")
    return (
        f"{name:28} {verdict:58} {span(result.world_ns):>8}  {result.device}"
        f"  ({result.took_s:.0f} s)"
    )


def span(world_ns: int) -> str:
    """Return a time for a person: two digits are enough."""
    seconds = world_ns / 1e9
    size_s, unit = next((each for each in _SPANS if seconds >= each[0]), _SPANS[-1])
    count = seconds / size_s
    return f"{count:.1f} {unit}" if count < 10 else f"{count:.0f} {unit}"


def rows(results: Iterable[Result]) -> Iterable[str]:
    """Yield the table of the page."""
    yield from _HEAD
    for result in results:
        mutant = result.mutant
        assert mutant is not None
        yield (
            f"| `{mutant.id}` | {mutant.area} | {mutant.wrong} | {result.caught_by} |"
            f" {span(result.world_ns)} | `{result.device}` |"
        )


def write(results: Sequence[Result], page: Path = PAGE) -> None:
    """Put the table on the page."""
    before, rest = page.read_text().split(_BEGINS)
    after = rest.split(_ENDS)[1]
    table = "\n".join(rows(results))
    page.write_text(f"{before}{_BEGINS}\n\n{table}\n\n{_ENDS}{after}")


def written(page: Path = PAGE) -> dict[str, tuple[str, str, str]]:
    """Return what the page says: for each mutant its area, what is wrong and the property."""
    table = page.read_text().split(_BEGINS)[1].split(_ENDS)[0].strip().splitlines()
    found = {}
    for row in table[len(_HEAD) :]:
        name, area, wrong, caught_by, *_ = (cell.strip() for cell in row.strip("|").split("|"))
        found[name.strip("`")] = (area, wrong, caught_by)
    return found
