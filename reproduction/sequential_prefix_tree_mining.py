"""Chen's thesis, Tables 6.6 to 6.8: frequent sequential patterns of the release.

Spec: sequential-prefix-tree, section 5. On stand-ins; the printed figures are quoted, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from reproduction.experiment import Experiment, Outcome, Row, Run, marked, over_runs
from reproduction.sequential_prefix_tree import SANE, STAND_IN, drawn
from reproduction.sequential_prefix_tree_printed import (
    TABLE_6_6,
    TABLE_6_7,
    TABLE_6_8,
    Printed,
)
from reproduction.sequential_prefix_tree_study import (
    FORMS,
    HEIGHT,
    MOST_PATTERNS,
    Form,
    Study,
    studies,
)
from simulation.plots import Line, Panel, Plot

RUNS: Final = 5
TOPS: Final = tuple(TABLE_6_6["simple"])

RECOMPUTED: Final[dict[tuple[str, Form], tuple[float, ...]]] = {
    ("Metro-like", "hybrid"): (84.5, 130.5, 168.5, 212.5, 264),
    ("Metro-like", "simple"): (91.5, 140.5, 184, 230, 281),
    ("Bus-like", "hybrid"): (86.5, 124.5, 158.5, 190, 236),
    ("Bus-like", "simple"): (92, 138, 175.5, 227.5, 265.5),
}
"""By k, at epsilon 1 and height 12; the spec's recomputation, the mean of two runs on one
drawing."""

Hits = dict[tuple[str, Form], tuple[float, ...]]
"""True positives by data set and form, one for each line of the table."""


def _mean(study: Study, form: Form, epsilon: str, height: int, runs: int) -> np.ndarray:
    hits = [study.hits(study.release(form, epsilon, height, seed), TOPS) for seed in range(runs)]
    found: np.ndarray = np.mean(hits, axis=0)
    return found


def _measured(run: Run, measure: Callable[[Study, Form], tuple[float, ...]]) -> Hits:
    found: Hits = {}
    for study in studies():
        for form in FORMS:
            found[study.stand_in.name, form] = measure(study, form)
            run.progress(len(found) / (2 * len(FORMS)))
    return found


def table_6_6(run: Run) -> Outcome:
    """True positives by k."""
    runs = run.effort.repetitions(RUNS)
    found = _measured(
        run, lambda study, form: tuple(_mean(study, form, "1", HEIGHT, runs).tolist())
    )
    hits = drawn(lambda study, form: study.hits(study.release(form, "1", HEIGHT, 0), TOPS))
    rows = [
        over_runs(
            f"{name}, {form}, k = {k}: true positives",
            expected,
            of_form[:, place].tolist(),
            reference=1,
            rounding=0.25,
        )
        for name, forms in hits.items()
        for form, of_form in forms.items()
        for place, (k, expected) in enumerate(zip(TOPS, RECOMPUTED[name, form], strict=True))
    ]
    return _outcome("chen-table-6.6", "k", TABLE_6_6, found, rows, lambda k: float(k))


def table_6_7(run: Run) -> Outcome:
    """True positives of the top 300 by epsilon."""
    runs, epsilons = run.effort.repetitions(RUNS), tuple(TABLE_6_7["simple"])
    found = _measured(
        run,
        lambda study, form: tuple(
            float(_mean(study, form, epsilon, HEIGHT, runs)[-1]) for epsilon in epsilons
        ),
    )
    rows = [
        Row(
            f"{name}, {form}: more of them at epsilon 1.5 than at 0.5",
            True,
            "trend",
            measured[-1] > measured[0],
        )
        for (name, form), measured in found.items()
    ]
    return _outcome("chen-table-6.7", "epsilon", TABLE_6_7, found, rows, lambda _k: MOST_PATTERNS)


def table_6_8(run: Run) -> Outcome:
    """True positives of the top 300 by height."""
    runs, heights = run.effort.repetitions(RUNS), tuple(TABLE_6_8["simple"])
    found = _measured(
        run,
        lambda study, form: tuple(
            float(_mean(study, form, "1", height, runs)[-1]) for height in heights
        ),
    )
    rows = [
        Row(
            f"{name}, {form}: heights 10 to 16 have at least 0.9 of the most",
            True,
            "trend",
            min(measured[2:6]) >= 0.9 * max(measured),
        )
        for (name, form), measured in found.items()
    ]
    return _outcome("chen-table-6.8", "height", TABLE_6_8, found, rows, lambda _k: MOST_PATTERNS)


def _outcome(
    name: str,
    axis: str,
    table: Mapping[str, Mapping[Any, Printed]],
    found: Hits,
    rows: list[Row],
    top: Callable[[Any], float],
) -> Outcome:
    """Measured figures with the printed ones in their names, and both in one picture."""
    rows = [_whole(name, table, top), *marked(rows, stand_in=True)]
    panels = []
    for place, which in enumerate(("Metro-like", "Bus-like")):
        lines = []
        for form in FORMS:
            entries = table[form]
            places = tuple(float(key) for key in entries)
            printed = tuple(float(both[place][0]) for both in entries.values())
            measured = found[which, form]
            rows += [
                Row(
                    f"{which}, {form}, {axis} {key}: true positives (printed, of the source's "
                    f"{which.partition('-')[0]}: {there:.0f})",
                    None,
                    "quoted",
                    here,
                )
                for key, there, here in zip(entries, printed, measured, strict=True)
            ]
            lines.append(Line(f"{form}, quoted", places, printed))
            lines.append(Line(f"{form}, on the stand-in", places, measured, kind="ours"))
        panels.append(Panel(which, axis, "true positives", tuple(lines), y_scale="linear"))
    plot = Plot(name, f"Frequent patterns of the release, by {axis}", tuple(panels))
    notes = (
        STAND_IN,
        SANE,
        "Patterns of two or more items, gaps allowed. False positives and false drops: k less the "
        "true positives. That groups find more patterns does not come out on the stand-ins.",
    )
    return Outcome(
        tuple(rows), (plot,), tuple(each.stand_in.provenance for each in studies()), notes
    )


def _whole(
    which: str, table: Mapping[str, Mapping[Any, Printed]], top: Callable[[Any], float]
) -> Row:
    """How many printed entries do not add up: one, 241 + 58 for 300."""
    wrong = sum(
        true + false != top(key)
        for entries in table.values()
        for key, both in entries.items()
        for true, false in both
    )
    text = "printed entries whose true and false positives are not k together"
    return Row(text, 1 if which == "chen-table-6.8" else 0, "recomputed", wrong)


EXPERIMENTS: Final = (
    Experiment(
        "chen-table-6.6",
        "Chen's thesis, Table 6.6",
        "frequent patterns of the release by k",
        25,
        table_6_6,
    ),
    Experiment(
        "chen-table-6.7",
        "Chen's thesis, Table 6.7",
        "frequent patterns of the release by epsilon",
        50,
        table_6_7,
    ),
    Experiment(
        "chen-table-6.8",
        "Chen's thesis, Table 6.8",
        "frequent patterns of the release by height",
        90,
        table_6_8,
    ),
)
