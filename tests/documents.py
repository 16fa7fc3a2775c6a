"""The documents in `host/docs`, and the blocks of code in them.

What stands behind the language of a block says what tests do with it: a block that begins with
"sh run" or "python run" is run, and a block of text that follows it at once is what it prints.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "host" / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

_BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block; `printed` is the text block right after it, where there is one."""

    info: str
    text: str
    printed: str | None

    @property
    def language(self) -> str:
        return self.info.split(" ")[0]

    @property
    def runs(self) -> bool:
        return self.info in ("sh run", "python run")


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page."""
    text = page.read_text(encoding="utf-8")
    found = list(_BLOCK.finditer(text))
    made = []
    for number, each in enumerate(found):
        after = found[number + 1] if number + 1 < len(found) else None
        follows = after is not None and text[each.end() : after.start()].strip() == ""
        printed = after["text"] if after and follows and after["info"] == "text" else None
        made.append(Block(each["info"], each["text"], printed))
    return made


def commands(block: Block) -> Iterator[str]:
    """Return the command lines of a shell block, each in one line."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            yield line


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


_CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"), "<instant>"),
    (re.compile(r"0x[0-9a-f]{8}"), "<token>"),
    (re.compile(r"r-[0-9a-f]{12}(\.\d+)?"), "<routine>"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "<id>"),
    (re.compile(r"\d+(\.\d+)*"), "#"),
    (re.compile(r"(#[dhms])+\b"), "<span>"),
    (re.compile(r"[ \t]+"), " "),
)


def alike(text: str) -> str:
    """Return a text with everything that is different at every run made equal."""
    for pattern, name in _CHANGING:
        text = pattern.sub(name, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def fits(expected: str, printed: str) -> bool:
    """Say whether a print is what a document shows, where "..." stands for anything."""
    pattern = re.escape(alike(expected)).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, alike(printed), re.DOTALL) is not None
