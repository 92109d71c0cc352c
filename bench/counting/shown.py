"""Rows of a table as text, and which figures differ from the plan's by more than noise does.

The plan's figures are means of 2 or 3 runs with noise of other seeds. The spread of a column is the
standard deviation of a run relative to its mean, pooled over the rows of a table with one epsilon.
A mean is *beyond* the plan's if they differ by more than three standard errors of the difference of
two such means, and by more than half a unit of the plan's last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.counting.quality import Quality

PLANNED_RUNS: Final = 2
STANDARD_ERRORS: Final = 3.0
FORMATS: Final[Mapping[str, tuple[str, str]]] = {
    "words": ("words", ",.0f"),
    "TP": ("TP %", ".1f"),
    "loss": ("loss", ".3f"),
    "error": ("error %", ".1f"),
    "errors": ("errors", ".3f"),
    "itemsets": ("FIM", ".2f"),
    "nodes": ("nodes", ",.0f"),
    "rows": ("rows", ",.0f"),
    "rates": ("rates", ".2f"),
    "total": ("words in total", ",.0f"),
    "longest": ("longest", ",.0f"),
    "rounds": ("questions", ".0f"),
    "kB": ("kB a curator", ",.0f"),
    "spent": ("largest spend / epsilon", ".3g"),
    "dropped": ("dropped", ".0f"),
    "TP20": ("TP % at 20", ".0f"),
    "TP100": ("TP % at 100", ".1f"),
    "unequal": ("unequal counts", ".0f"),
}
UNCOMPARED: Final = frozenset({"kB", "spent", "dropped"})
UNITS: Final[Mapping[str, float]] = {
    "words": 1,
    "TP": 0.1,
    "loss": 0.001,
    "error": 0.1,
    "errors": 0.001,
    "itemsets": 0.01,
    "rates": 0.01,
    "total": 1,
    "longest": 1,
    "rounds": 1,
    "nodes": 1,
    "rows": 1,
    "TP20": 1,
    "TP100": 0.5,
    "unequal": 1,
}


@dataclass(frozen=True, eq=False)
class Row:
    """run(seed) -> figures; plan: those of the plan, of which some may be missing; spread: rows of
    one table with the same name have one spread."""

    name: str
    run: Callable[[int], Quality]
    plan: Mapping[str, Sequence[float]] = field(default_factory=dict)
    spread: str = ""


@dataclass(frozen=True, eq=False)
class Table:
    """columns: names of figures, in order; once: one run says all."""

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    once: bool = False


def with_totals(quality: Quality) -> Quality:
    """Sums of the words, too, and single figures of the patterns."""
    more: Quality = {}
    if words := quality.get("words"):
        more |= {
            "total": (sum(words),),
            "longest": (max(words),),
            "rounds": (float(len(words)),),
        }
    if patterns := quality.get("TP"):
        more |= {"TP20": patterns[:1], "TP100": patterns[-1:]}
    return {**quality, **more}


def figures(runs: Sequence[Quality], column: str) -> NDArray[np.float64]:
    """(runs, figures) of a column, 0 where a run has fewer."""
    return np.array(list(zip_longest(*(each[column] for each in runs), fillvalue=0.0))).T


def relative_spread(found: Sequence[NDArray[np.float64]]) -> float:
    """Of a run, pooled over rows and figures; 0 with a single run."""
    variances = [
        (each.std(axis=0, ddof=1) / mean)[mean > 0] ** 2
        for each in found
        if len(each) > 1 and (mean := np.abs(each.mean(axis=0))).any()
    ]
    return float(np.sqrt(np.mean(np.concatenate(variances)))) if variances else 0.0


def beyond(mean: float, planned: float, spread: float, runs: int, unit: float) -> bool:
    """Whether a mean is not the plan's."""
    error = spread * max(abs(mean), abs(planned)) * np.sqrt(1 / runs + 1 / PLANNED_RUNS)
    return bool(abs(mean - planned) > STANDARD_ERRORS * error + unit / 2 + 1e-9)


def printed(table: Table, runs: int, say: Callable[[str], None]) -> int:
    """The table; how many figures are beyond the plan's."""
    say(f"\n{table.title}")
    runs = 1 if table.once else runs
    found = []
    for row in table.rows:
        found.append([with_totals(row.run(seed)) for seed in range(runs)])
        say(f"  {row.name}")
        for column in table.columns:
            if column in found[-1][0]:
                own = figures(found[-1], column)
                say(f"      {FORMATS[column][0]:<24} {_joined(own.mean(axis=0), column)}")
    return sum(
        _compared(table, column, spread, found, runs, say)
        for column in table.columns
        if column not in UNCOMPARED
        for spread in dict.fromkeys(row.spread for row in table.rows)
    )


def _joined(values: NDArray[np.float64] | Sequence[float], column: str) -> str:
    return " ".join(format(value, FORMATS[column][1]) for value in values)


def _compared(
    table: Table,
    column: str,
    group: str,
    found: Sequence[Sequence[Quality]],
    runs: int,
    say: Callable[[str], None],
) -> int:
    rows = [
        (row, figures(own, column))
        for row, own in zip(table.rows, found, strict=True)
        if row.spread == group and column in own[0]
    ]
    if not any(column in row.plan for row, _ in rows):
        return 0
    spread = relative_spread([own for _, own in rows])
    wrong, compared = [], 0
    for row, own in rows:
        planned = row.plan.get(column, ())
        means = own.mean(axis=0)[: len(planned)]
        compared += len(planned)
        if len(means) < len(planned) or any(
            beyond(mean, plan, spread, runs, UNITS[column])
            for mean, plan in zip(means, planned, strict=True)
        ):
            wrong.append((row, means, planned))
    text = f"{compared} figures beside the plan's, spread of a run {100 * spread:.2g} %"
    say(f"  {FORMATS[column][0]}{f', {group}' if group else ''}: {text}, rows beyond: {len(wrong)}")
    for row, means, planned in wrong:
        say(f"      {row.name}: {_joined(means, column)}, plan {_joined(planned, column)}")
    return len(wrong)
