"""Thesis, Tables 5.3 and 5.4: every entry, the exact expectations, the bounds and the guarantee.

Spec: budget, sections 3 and 6.
"""

from __future__ import annotations

from typing import Final

from reproduction.budget_noise import (
    EPSILONS,
    NOTES,
    SCHEMES,
    Dataset,
    all_differences,
    all_injections,
    datasets,
    provenance,
)
from reproduction.experiment import Experiment, Outcome, Row, Run, marked

_THREE_DIGITS: Final = 5e-4
_DECLARED: Final = "over epsilon, were D_i and f(x_i) declared bounds"
_FACTOR_ELD: Final = 1e8
_FACTOR_ELD_5_4: Final = 1e4


def _columns(text: str) -> tuple[tuple[str, ...], ...]:
    """A printed table, a line for each epsilon, by columns."""
    return tuple(zip(*(line.split() for line in text.strip().splitlines()), strict=True))


_TABLE_5_3: Final = _columns(
    """
    191.8323 14.7879 70.6503 1.8854 5.265 35.914
    95.6142 7.3888 35.0246 0.9524 2.638 17.874
    63.7804 4.9304 23.2179 0.6325 1.756 11.972
    47.7364 3.6995 17.5044 0.4753 1.32 8.9504
    38.228 2.957 13.9977 0.3798 1.0592 7.154
    31.806 2.4607 11.6983 0.3159 0.8772 5.9543
    27.5308 2.1067 9.9931 0.2716 0.7494 5.1044
    23.9762 1.8447 8.8742 0.238 0.6534 4.4538
    21.2536 1.6375 7.7922 0.2113 0.5846 3.9683
    19.1398 1.4748 7.0025 0.1887 0.5267 3.5926
    """
)
TABLE_5_3: Final = (_TABLE_5_3[0:2], _TABLE_5_3[2:4], _TABLE_5_3[4:6])
_TABLE_5_4: Final = _columns(
    """
    29058 17 5870300 2.257
    14562 9 2928800 1.1306
    9655.5 5.7 1961600 0.7498
    7280 4.3 1475000 0.564
    5814.4 3.5 1177700 0.4516
    4866.1 2.9 976270 0.3756
    4147.6 2.5 833930 0.322
    3641.2 2.2 734320 0.2815
    3233 1.9 650930 0.2485
    2915.4 1.7 584560 0.2246
    """
)
TABLE_5_4: Final = (_TABLE_5_4[0:2], _TABLE_5_4[2:4])
EXPECTATIONS_5_3: Final = {
    "ML summation": {"MaxEpsilon": 191.43, "ThisWork": 14.792},
    "ML counting": {"MaxEpsilon": 70.24, "ThisWork": 1.9015},
}
BOUNDS: Final = ((False, 84.2, 417.0), (False, 47.15, 737.0), (True, 0.1466, None))
"""For each data set: whether MaxEpsilon applies, `unconditional`, and the verified curator figure
(spec: budget, section 3), over epsilon."""


def table_5_3(run: Run) -> Outcome:
    """Every entry of the table, the exact expectations, the bounds and the verified guarantee."""
    chosen = datasets(run)
    rows = []
    for place, data in enumerate(chosen):
        found = all_differences(run, data, place / 3, (place + 1) / 3)
        factor = _FACTOR_ELD if data is chosen[2] else 1.0
        for scheme, column in zip(SCHEMES, TABLE_5_3[place], strict=True):
            rows += [
                found[scheme][epsilon].row(
                    f"{data.name}, {scheme}: MAE at epsilon {epsilon}",
                    printed,
                    factor,
                    stand_in=data.stand_in,
                )
                for epsilon, printed in zip(EPSILONS, column, strict=True)
            ]
        rows += [
            Row(
                f"{data.name}, {scheme}: expectation at epsilon 10",
                expected,
                "recomputed",
                found[scheme][10].expected,
                _THREE_DIGITS,
                stand_in=data.stand_in,
            )
            for scheme, expected in EXPECTATIONS_5_3.get(data.name, {}).items()
        ]
    rows += _bounds_rows(chosen)
    return Outcome(tuple(rows), (), provenance(chosen), NOTES)


def _bounds_rows(chosen: tuple[Dataset, ...]) -> list[Row]:
    rows: list[Row] = []
    for data, (applies, bound, curator) in zip(chosen, BOUNDS, strict=True):
        name = data.name
        condition = data.bounds.named("max_epsilon").applies
        unconditional = data.bounds.named("unconditional").value
        of_data = [
            Row(f"{name}: D_X >= sum of D_i", applies, "trend", condition),
            Row(
                f"{name}: `unconditional` over epsilon",
                bound,
                "recomputed",
                float(unconditional or 0),
                1e-3,
            ),
            Row(
                f"{name}: what holds for one reading, {_DECLARED}",
                1.0,
                "recomputed",
                float(data.verified.record or 0),
            ),
        ]
        if curator is not None:
            of_data.append(
                Row(
                    f"{name}: what holds for a curator, {_DECLARED}",
                    curator,
                    "recomputed",
                    float(data.verified.curator or 0),
                    1.2e-3,
                )
            )
        rows += marked(of_data, stand_in=data.stand_in)
    rows.append(
        Row(
            "ML counting: D_X (the text prints 730, its table fits this)",
            737.0,
            "recomputed",
            float(chosen[1].marginals.largest_total),
            stand_in=chosen[1].stand_in,
        )
    )
    return rows


def table_5_4(run: Run) -> Outcome:
    """Every entry of the table, and the exact expectations."""
    summed, _, meters = datasets(run)
    rows = []
    for place, data in enumerate((summed, meters)):
        found = all_injections(run, data)
        run.progress((place + 1) / 2)
        factor = _FACTOR_ELD_5_4 if data is meters else 1.0
        for scheme, column in zip(found, TABLE_5_4[place], strict=True):
            rows += [
                found[scheme][epsilon].row(
                    f"{data.name}, {scheme}: mean absolute noise at epsilon {epsilon}",
                    printed,
                    factor,
                    stand_in=data.stand_in,
                )
                for epsilon, printed in zip(EPSILONS, column, strict=True)
            ]
        if data is summed:
            rows += [
                Row(
                    f"{data.name}, {scheme}: expectation at epsilon 10",
                    expected,
                    "recomputed",
                    found[scheme][10].expected,
                    _THREE_DIGITS,
                    stand_in=data.stand_in,
                )
                for scheme, expected in (("SumEpsilon", 29_137.0), ("ThisWork", 17.27))
            ]
    return Outcome(tuple(rows), (), provenance((summed, meters)), NOTES)


_SOURCE: Final = "Lu's thesis"
EXPERIMENTS: Final = (
    Experiment(
        "table-5.3",
        f"{_SOURCE}, Table 5.3",
        "noise of the global budgets against the curators' noise",
        5,
        table_5_3,
    ),
    Experiment(
        "table-5.4",
        f"{_SOURCE}, Table 5.4",
        "noise that curators inject, by sensitivity",
        5,
        table_5_4,
    ),
)
