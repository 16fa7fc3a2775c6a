"""The page of the documentation that shows what a run has printed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.report import Table

PAGE: Final = Path(__file__).parents[2] / "host/docs/explanation/performance.md"

_BEGIN: Final = "<!-- what make bench printed -->\n"
_END: Final = "<!-- end -->\n"


def write(head: Sequence[str], tables: Sequence[Table]) -> None:
    """Put a run's figures into the page, in place of those of the run before."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    printed = "\n".join([*head, "", *(line for table in tables for line in table.lines())])
    figures = f"```text\n{printed.rstrip()}\n```\n"
    PAGE.write_text(f"{before}{_BEGIN}\n{figures}\n{_END}{after}", encoding="utf-8")


def shown() -> str:
    """Return the figures that the page shows."""
    return PAGE.read_text(encoding="utf-8").partition(_BEGIN)[2].partition(_END)[0]
