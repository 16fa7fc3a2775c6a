"""What every test shares: a skip that nobody allowed is a failure in CI."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

ALLOWED_SKIPS = Path(__file__).with_name("allowed_skips.txt")


# Tests that flood, crash and measure how soon others are served need the machine to themselves.
ALONE = ("crash", "doors")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that `make doors` runs, one at a time."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in ALONE:
            item.add_marker("alone")


def _allowed_reasons() -> list[str]:
    lines = ALLOWED_SKIPS.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip whose reason is not listed into a failure, in CI only."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(allowed in reason for allowed in _allowed_reasons()):
            report.outcome = "failed"
            report.longrepr = f"skipped without permission in {ALLOWED_SKIPS.name}: {reason}"
    return report
