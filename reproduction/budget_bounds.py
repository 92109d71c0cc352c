"""Thesis, Table 5.1: the worked example of the three global bounds, next to the verified ones.

Spec: budget, sections 2 and 3. Three curators with four readings each, epsilon 1; then the third
leaves, the second stops adding noise, and is cleansed.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

from reproduction.experiment import Basis, Experiment, Outcome, Row, Run, Value, trend
from tacit.accounting.bounds import (
    CuratorFigures,
    Disclosed,
    Name,
    aggregate,
    local_figures,
    source_bounds,
)

READINGS: Final = ((1, 2, 3, 4), (5, 6, 7, 8), (1, 1, 1, 27))
_NAMES: Final[tuple[Name, ...]] = ("max_epsilon", "sum_epsilon", "unconditional")


def figures(readings: tuple[int, ...], epsilon: Fraction) -> CuratorFigures:
    """A curator that discloses its readings' figures and declares the same as its bounds."""
    most, total = Fraction(max(readings)), Fraction(sum(readings))
    return CuratorFigures(epsilon, most, total, Disclosed(most, total, len(readings)))


def _bound_rows(
    moment: str, active: list[CuratorFigures], expected: tuple[float | str, ...], applies: bool
) -> list[Row]:
    found = source_bounds(aggregate(active))
    rows = []
    for name, value in zip(_NAMES, expected, strict=True):
        bound = found.named(name)
        measured: Value = "infinite" if bound.infinite else _number(bound.value)
        rows.append(Row(f"{moment}: {name}", value, "recomputed", measured, _EXACT))
    condition = found.named("max_epsilon").applies
    rows.append(Row(f"{moment}: max_epsilon applies", applies, "trend", condition))
    return rows


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def table_5_1(_run: Run) -> Outcome:
    """Event by event, all exact."""
    curators = [figures(readings, Fraction(1)) for readings in READINGS]
    x_1, x_2, _ = curators
    everyone, two = aggregate(curators), aggregate([x_1, x_2])
    theorem = source_bounds(everyone).theorem_5_2
    assert theorem is not None
    disclosed = [each.disclosed for each in curators if each.disclosed is not None]
    printed: Basis = "printed"
    rows = [
        *(
            Row(f"f(x_{i})", expected, printed, float(each.total), _EXACT)
            for i, (each, expected) in enumerate(zip(disclosed, (10, 26, 30), strict=True), 1)
        ),
        *(
            Row(f"D_{i}", expected, printed, float(each.largest_reading), _EXACT)
            for i, (each, expected) in enumerate(zip(disclosed, (4, 8, 27), strict=True), 1)
        ),
        Row("sum of D_i", 39, printed, float(everyone.sum_of_largest), _EXACT),
        Row("D_X", 30, printed, float(everyone.largest_total), _EXACT),
        trend("Theorem 5.2: D_X <= max m_i * sum D_i", theorem.holds),
        *_bound_rows("all three", curators, (1, 3, 2.7), False),
        Row(
            "all three: what holds for a curator, were D_i and f(x_i) declared bounds",
            3.25,
            "recomputed",
            _number(local_figures(everyone).curator),
            _EXACT,
        ),
        *_bound_rows("x_3 left", [x_1, x_2], (1, 2, 0.8), True),
        Row(
            "x_3 left: what holds for one reading, were D_i declared bounds",
            1,
            "recomputed",
            _number(local_figures(two).record),
            _EXACT,
        ),
        *_bound_rows(
            "x_2 does not add noise", [x_1, replace(x_2, compliant=False)], ("infinite",) * 3, True
        ),
        *_bound_rows("x_2 is cleansed", [x_1, x_2], (1, 2, 0.8), True),
    ]
    notes = (
        "`unconditional` bounds the loss of neither a reading (0.8 reported, 1 true after x_3 "
        "left) nor a curator (2.7 reported, 3.25 true).",
    )
    return Outcome(tuple(rows), (), ("Table 5.1 of the thesis",), notes)


EXAMPLES: Final = {
    "a, like MovieLens": (((1, 2, 2, 4, 0, 4), (0, 1, 2, 1, 4, 5), (1, 1, 1, 1, 1, 5)), 14, 13),
    "b, like electricity": (
        ((51, 62, 61, 49, 70, 54), (14, 11, 22, 14, 0, 15), (100, 110, 105, 107, 120, 115)),
        212,
        657,
    ),
}
"""Readings by curator, the sum of the D_i and D_X, all as printed."""


def table_5_2(_run: Run) -> Outcome:
    """Two small data sets: only on the second does the condition of MaxEpsilon hold."""
    rows = []
    for name, (readings, most, total) in EXAMPLES.items():
        sums = aggregate([figures(each, Fraction(1)) for each in readings])
        applies = source_bounds(sums).named("max_epsilon").applies
        rows += [
            Row(f"{name}: sum of D_i", most, "printed", float(sums.sum_of_largest)),
            Row(f"{name}: D_X", total, "printed", float(sums.largest_total)),
            Row(f"{name}: max_epsilon applies", total >= most, "trend", applies),
        ]
    return Outcome(tuple(rows), (), ("Table 5.2 of the thesis",))


_EXACT: Final = 1e-12
EXPERIMENTS: Final = (
    Experiment(
        "table-5.1",
        "Lu's thesis, Table 5.1; Lu & Shen, Table I",
        "the three global bounds on the worked example, and what holds",
        1,
        table_5_1,
    ),
    Experiment(
        "table-5.2",
        "Lu's thesis, Table 5.2",
        "sensitivities of two small data sets, and where MaxEpsilon applies",
        1,
        table_5_2,
    ),
)
