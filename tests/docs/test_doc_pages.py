"""What the documents say is what is so: links, keys, operations, commands, fragments."""

import enum
import json
import re
import shlex
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import click
import msgspec
import pytest

from cli_page import PAGE, render
from documents import DOCS, PAGES, ROOT, Block, blocks, commands, prose
from wakebridge.adapters.cli.main import main
from wakebridge.adapters.http.routes import OPERATIONS
from wakebridge.config import Config, parse_config

LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)(#[^)]*)?\)")


def named(page: Path) -> str:
    return str(page.relative_to(DOCS))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, _ in LINK.findall(prose(page)):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_page_is_in_the_index() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / target).resolve() for target, _ in LINK.findall(prose(index))}
    files = {path for path in DOCS.rglob("*") if path.is_file()}
    assert {named(path) for path in files - linked - {index}} == set()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_lines_fit_where_they_are_text(page: Path) -> None:
    for line in prose(page).splitlines():
        assert len(line) <= 100 or line.startswith("|"), line


# -- reference pages -------------------------------------------------------------------------------


def test_the_command_line_page_is_what_the_commands_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run: python tests/cli_page.py"


def test_the_http_page_has_every_operation() -> None:
    page = (DOCS / "reference" / "http.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| ([A-Z]+) \| `([^`]+)` \| (.+) \|$", page, re.MULTILINE))
    assert told == {(each.method, each.path, each.summary) for each in OPERATIONS}


def table_rows(page: Path) -> dict[tuple[str, str], tuple[str, str]]:
    """Return values and default by section and key."""
    section, rows = "", {}
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = "" if line == "## Top level" else line.strip("# `[]")
        elif line.startswith("| `"):
            key, values, default, _ = (cell.strip() for cell in line.strip("|").split(" | "))
            rows[section, key.strip("`")] = values, default.strip("`")
    return rows


def sections(kind: Any, path: str = "") -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    hints = typing.get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        bare = strip_none(hints[field.name])
        if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
            yield from sections(bare, f"{path}.{field.name}".strip("."))
        else:
            yield (path, field.name), (values_of(bare), default_of(field))


def strip_none(hint: Any) -> Any:
    if get_origin(hint) in (types.UnionType, typing.Union):
        [hint] = [each for each in get_args(hint) if each is not type(None)]
    return hint


def values_of(hint: Any) -> str:
    if get_origin(hint) is typing.Annotated:
        meta = get_args(hint)[1]
        return f"{meta.ge} to {meta.le}"
    if get_origin(hint) is typing.Literal:
        return ", ".join(f"`{each}`" for each in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return ", ".join(f"`{each.value}`" for each in hint)
    plain = {bool: "true or false", str: "text", int: "whole number", float: "number"}
    if get_origin(hint) is tuple:
        return "list of text"
    return plain.get(hint, "table of text")


def default_of(field: msgspec.structs.FieldInfo) -> str:
    if field.default is msgspec.NODEFAULT:
        if field.default_factory is msgspec.NODEFAULT:
            return "required"
        default = field.default_factory()
    else:
        default = field.default
    if default is None:
        return "none"
    if isinstance(default, float) and default == int(default):
        default = int(default)
    return json.dumps(default)


def test_the_configuration_page_has_every_key_with_its_default() -> None:
    assert table_rows(DOCS / "reference" / "configuration.md") == dict(sections(Config))


# -- fragments -------------------------------------------------------------------------------------


def all_blocks(language: str) -> list[Any]:
    return [
        pytest.param(block, id=f"{named(page)}-{number}")
        for page in PAGES
        for number, block in enumerate(blocks(page))
        if block.language == language
    ]


@pytest.mark.parametrize("block", all_blocks("toml"))
def test_every_configuration_in_a_document_is_one(block: Block) -> None:
    parse_config(block.text, "the document")


@pytest.mark.parametrize("block", all_blocks("json"))
def test_every_json_in_a_document_is_json(block: Block) -> None:
    json.loads(block.text)


def check_command(words: list[str]) -> None:
    """Parse a command as the command line would, and stop before it does anything."""
    command: click.Command = main
    context = main.make_context("wakebridge", words)
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, resolved, rest = command.resolve_command(context, rest)
        assert resolved is not None
        command = resolved
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("block", all_blocks("sh"))
def test_every_command_in_a_document_exists(block: Block) -> None:
    """Those of other programs are run where that can be; here it is about ours."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    flash_help = (ROOT / "flash.sh").read_text()
    for line in commands(block):
        words = shlex.split(line, comments=True) if line.count("'") % 2 == 0 else line.split()
        match words[0]:
            case "wakebridge":
                check_command(words[1:])
            case "make":
                assert words[1] in targets
            case "./flash.sh":
                assert all(word in flash_help for word in words if word.startswith("--"))
        for word in words:
            if word.startswith(("host/", "tests/", "./")):
                assert (ROOT / word).exists(), word
