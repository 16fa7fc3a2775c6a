"""The page `reference/cli.md`, made from the commands' own help.

`python tests/cli_page.py` writes it anew.
"""

from collections.abc import Iterator
from pathlib import Path

import click

from wakebridge.adapters.cli.main import main

PAGE = Path(__file__).parents[1] / "host" / "docs" / "reference" / "cli.md"

_BEGINNING = """\
# Command line

`wakebridge` talks with the running bridge over HTTP; `serve` is the bridge itself, and `state`
works on its files. It finds the bridge by the configuration file: `--config`, else
`WAKEBRIDGE_CONFIG`, else `/etc/wakebridge/wakebridge.toml`.

What is printed for people fits 80 columns, `--json` prints the same for programs. A command that
fails says why in one sentence on standard error. Exit codes: 0 done, 1 refused or not possible,
2 wrong usage. Lengths of time are written `90s`, `10m`, `1h30m`, `2d`; instants as in RFC 3339.
"""


def _leaves(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from _leaves(each, (*path, name))
    else:
        yield " ".join(path), command


def render() -> str:
    """Return the page as it should be."""
    text = _BEGINNING
    for name, command in _leaves(main, ("wakebridge",)):
        context = click.Context(command, info_name=name, terminal_width=80, max_content_width=80)
        text += f"\n## {name}\n\n```text\n{command.get_help(context)}\n```\n"
    return text


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
