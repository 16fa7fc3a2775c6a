"""What the commands print: tables for people in 80 columns, JSON for programs."""

import io
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

import click
import msgspec
from rich.console import Console
from rich.table import Table

WIDTH: Final = 80

_NAME_WIDTH: Final = 14

# A task may be as long as a page; in a table its beginning is enough.
_BEGINNING: Final = 60


def wrapped(text: str, indent: int = 0) -> str:
    """Return text in lines of at most `WIDTH`; those after the first are indented.

    A word that is longer, such as the path of a port, has a line to itself and stays whole.
    """
    wrapper = textwrap.TextWrapper(
        WIDTH, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(
        line if len(line) <= WIDTH else wrapper.fill(line) for line in text.splitlines()
    )


class Commands(click.Group):
    """A group of commands whose errors fit the width, too."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command and exit with its code."""
        code: object = 1
        try:
            _refuse_no_text(sys.argv[1:])
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.ClickException as error:
            told = io.StringIO()
            error.show(told)
            click.echo(wrapped(told.getvalue()), err=True)
            code = error.exit_code
        except click.Abort:
            click.echo("Stopped.", err=True)
        sys.exit(code if isinstance(code, int) else 0)


def _refuse_no_text(words: Iterable[str]) -> None:
    """Raise a usage error for a word that is not text, as nothing else could say so."""
    for word in words:
        if not word.isascii() and any("\udc80" <= char <= "\udcff" for char in word):
            raise click.UsageError(f"{word!a} is not text in the encoding of the terminal")


def show_json(value: object) -> None:
    """Print a value as one JSON document."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str) -> None:
    """Print rows under a heading; `empty` is the sentence for no rows at all."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    count = 0
    for row in rows:
        table.add_row(*(_text(cell) for cell in row))
        count += 1
    if count == 0:
        click.echo(empty)
        return
    console = Console(width=WIDTH, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def show_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print one `name  value` line per field that has a value."""
    for name, value in fields:
        if value is not None:
            click.echo(wrapped(f"{name:<12}  {_text(value)}", _NAME_WIDTH))


def short_instant(text: str | None) -> str:
    """Return an instant to the second, without the offset that is always UTC here."""
    return "-" if text is None else text[:19].replace("T", " ") + "Z"


def one_line(text: str) -> str:
    """Return the beginning of a text, as much as says what it is."""
    line = " ".join(text.split())
    return line if len(line) <= _BEGINNING else f"{line[: _BEGINNING - 1]}…"


def _text(value: object) -> str:
    """Return a value as text that does nothing to a terminal but be read."""
    text = "-" if value is None else str(value)
    return "".join(char if char.isprintable() or char == "\n" else _seen(char) for char in text)


def _seen(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
