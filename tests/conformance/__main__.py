"""`make conformance`: run every test that carries a requirement, say what came of it.

    python -m conformance [--black-box | --list]

`--black-box` runs the tests over both transports only; `--list` runs nothing and prints which test
carries what, as JSON. Without either the page of the documentation is written.
"""

import contextlib
import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Final

import pytest

from conformance import document
from conformance.ledger import Proof, named_over, proofs_of
from conformance.requirements import REQUIREMENTS, Requirement

_MARKS: Final = {"passed": "ok", "failed": "FAILED", "error": "ERROR", "skipped": "skipped"}


class Collector:
    """A plugin that keeps the tests that carry a requirement, and their results."""

    def __init__(self) -> None:
        self.proofs: list[Proof] = []
        self.results: dict[str, str] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Drop what carries nothing."""
        self.proofs = proofs_of(items)
        wanted = {proof.node for proof in self.proofs}
        config.hook.pytest_deselected(items=[each for each in items if each.nodeid not in wanted])
        items[:] = [each for each in items if each.nodeid in wanted]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst that happened to a test."""
        if report.when == "call" or report.outcome != "passed":
            worse = "error" if report.when != "call" and report.failed else report.outcome
            self.results[report.nodeid] = worse


def collect() -> list[Proof]:
    """Return what all tests carry, running none."""
    found = Collector()
    with contextlib.redirect_stdout(sys.stderr):
        code = pytest.main(["--collect-only", "-qqq", "tests"], plugins=[found])
    # A file that cannot be imported fails by itself; it leaves the others what they are.
    assert code in {pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED}, code
    return found.proofs


def run(place: str) -> Collector:
    """Run the tests of a place that carry a requirement."""
    found = Collector()
    pytest.main(["-q", "--no-header", place], plugins=[found])
    return found


def results_of(found: Collector, proofs: Sequence[Proof]) -> str:
    """Return one word for several cases of a test."""
    outcomes = {found.results.get(proof.node, "error") for proof in proofs}
    worst = next(each for each in ("error", "failed", "skipped", "passed") if each in outcomes)
    cases = f" ({len(proofs)} cases)" if len(proofs) > 1 else ""
    return _MARKS[worst] + cases


def lines(each: Requirement, found: Collector) -> list[str]:
    """Return what there is to say about a requirement."""
    proofs = [proof for proof in found.proofs if proof.number == each.number]
    said = [f"{each.number:4} {each.title}"]
    for transport in ("mqtt", "ovos"):
        for test in named_over(proofs, each.number, transport):
            cases = [p for p in proofs if p.test == test and p.transport == transport]
            said.append(f"       {transport}  {results_of(found, cases)}  {test}")
    inside = [proof for proof in proofs if proof.transport is None]
    for file, test in dict.fromkeys((proof.file, proof.test) for proof in inside):
        cases = [proof for proof in inside if (proof.file, proof.test) == (file, test)]
        said.append(f"       {results_of(found, cases)}  {file}::{test}")
    if not proofs:
        said.append("       NO TEST")
    return said


def main() -> int:
    """Return 1 when a requirement has no test, or one that did not pass."""
    if "--list" in sys.argv:
        print(json.dumps([dataclasses.asdict(proof) for proof in collect()]))
        return 0
    black_box = "--black-box" in sys.argv
    found = run("tests/conformance" if black_box else "tests")
    wanted = [each for each in REQUIREMENTS if not black_box or each.over]
    print("\n".join(line for each in wanted for line in [*lines(each, found), ""]))
    proven = {proof.number for proof in found.proofs}
    without = [each.number for each in wanted if each.number not in proven]
    bad = sorted({node for node, outcome in found.results.items() if outcome != "passed"})
    print(f"{len(wanted)} requirements, {len(found.results)} test cases, {len(bad)} not passed")
    if without:
        print(f"without a test: {', '.join(without)}")
    if not black_box and not without:
        document.PAGE.write_text(document.render_all(found.proofs), encoding="utf-8")
        print(f"written: {document.PAGE.name}")
    return 1 if bad or without else 0


if __name__ == "__main__":
    sys.exit(main())
