"""Style is a test: lengths, names, and one title for each document."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path
    for room in ("host", "protocol", "firmware", "tests")
    for path in (ROOT / room).rglob("*.py")
    if "node_modules" not in path.parts
)
DOCUMENTS = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not {"node_modules", ".venv", ".cache", ".run"} & set(path.relative_to(ROOT).parts)
)
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 520
BANNED_NAMES = {"utils", "common", "helpers", "manager", "misc", "util", "helper"}


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the length without the docstring."""
    first = function.body[0]
    docstring = 0
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        docstring = (first.end_lineno or first.lineno) - first.lineno + 1
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_fit_a_screen_and_modules_a_sitting(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    long = [f.name for f in _functions(tree) if _code_lines(f) > FUNCTION_LINES_MAX]
    assert long == []
    if "tests" not in path.parts:
        assert len(text.splitlines()) <= MODULE_LINES_MAX


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_named_after_nothing_in_particular(path: Path) -> None:
    # A service manager is what starts and watches services: systemd's own term.
    name = str(path.relative_to(ROOT)).replace("service_manager", "")
    assert not BANNED_NAMES & set(re.split(r"[_/.]", name))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_has_one_title(path: Path) -> None:
    body = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(re.findall(r"^# ", body, flags=re.MULTILINE)) == 1


def test_no_leftovers() -> None:
    marks = re.compile(r"\b(?:TODO|FIX" + r"ME|XX" + r"X)\b")
    found = [str(path) for path in SOURCES if marks.search(path.read_text(encoding="utf-8"))]
    assert [path for path in found if not path.endswith("test_style.py")] == []
