"""Figures as tables for a terminal, and what each target says about them."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

OURS: Final = "wakebridge"
"""How our own rows begin: the first of them is what the others are compared with."""

Value = float | str | None
"""A figure; a text where there is none to give, such as `never`."""


@dataclass(frozen=True)
class Target:
    """One promise and the figure that keeps it or does not."""

    text: str
    value: float
    limit: float
    unit: str = ""

    @property
    def met(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        verdict = "met" if self.met else "MISSED"
        return f"{verdict}: {self.text} <= {self.limit:g} {self.unit}, is {number(self.value)}"


@dataclass(frozen=True)
class Row:
    """The figures of one system."""

    system: str
    values: Mapping[str, Value]


@dataclass(frozen=True)
class Table:
    """The figures of one measurement. `compared` is the column that ratios are made of."""

    title: str
    rows: Sequence[Row]
    compared: str | None = None
    targets: Sequence[Target] = ()
    notes: Sequence[str] = ()
    faults: Sequence[str] = field(default=())
    """What must not happen at any speed, such as a lost event."""

    def lines(self) -> list[str]:
        """Return the table as text."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row.values))
        heads = ["", *columns]
        cells = [
            [row.system, *(cell(row.values.get(name)) for name in columns)] for row in self.rows
        ]
        if self.compared is not None and len(self.rows) > 1:
            heads.append("ratio")
            ours = self.rows[0].values.get(self.compared)
            for row, line in zip(self.rows, cells, strict=True):
                line.append(ratio(row.values.get(self.compared), ours))
        widths = [max(len(line[n]) for line in [heads, *cells]) for n in range(len(heads))]
        lines = [f"## {self.title}", ""]
        for line in [heads, *cells]:
            name, *figures = line
            right = "  ".join(text.rjust(w) for text, w in zip(figures, widths[1:], strict=True))
            lines.append(f"  {name.ljust(widths[0])}  {right}".rstrip())
        lines += [f"  {target}" for target in self.targets]
        lines += [f"  FAULT: {fault}" for fault in self.faults]
        lines += [f"  ({note})" for note in self.notes]
        return [*lines, ""]

    def as_json(self) -> dict[str, Any]:
        """Return the table as plain values."""
        return {
            "title": self.title,
            "rows": {row.system: dict(row.values) for row in self.rows},
            "targets": [
                {"text": t.text, "value": t.value, "limit": t.limit, "unit": t.unit, "met": t.met}
                for t in self.targets
            ],
            "faults": list(self.faults),
        }


def number(value: float) -> str:
    """Return a figure with as many digits as mean something."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}"


def cell(value: Value) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else number(value)


def ratio(value: Value, ours: Value) -> str:
    if not isinstance(value, int | float) or not isinstance(ours, int | float) or not ours:
        return "-"
    return f"{number(value / ours)}x"


def quantile(values: Iterable[float], q: float) -> float:
    """Return the value below which a share `q` of them lies."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * q), len(ordered) - 1)]


def spread(values: Sequence[float]) -> dict[str, Value]:
    """Return p50, p99 and the maximum."""
    return {"p50": quantile(values, 0.5), "p99": quantile(values, 0.99), "max": max(values)}


def median_of(rounds: Sequence[Mapping[str, Value]]) -> dict[str, Value]:
    """Return the median of each figure over several rounds of one measurement."""
    merged: dict[str, Value] = {}
    for name in rounds[0]:
        values = [each[name] for each in rounds]
        numbers = [value for value in values if isinstance(value, int | float)]
        merged[name] = statistics.median(numbers) if numbers else values[0]
    return merged


def figure(row: Row, column: str) -> float:
    """Return a figure that is known to be a number."""
    value = row.values[column]
    assert isinstance(value, int | float), (row, column)
    return value
