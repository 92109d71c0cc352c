"""Rows of reproductions, the registry, written files; that every id comes out and can fail:
`test_reproductions`."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reproduction import (
    budget_figures,
)
from reproduction.experiment import (
    FULL,
    QUICK,
    Basis,
    Effort,
    Outcome,
    Row,
    Run,
    Value,
    marked,
    over_runs,
    quoted,
    sampled,
    trend,
)
from reproduction.registry import experiment
from reproduction.results import result_document, write
from simulation.plots import Line, Panel, Plot
from tests.simulation.runs import wrong_rows


@pytest.mark.parametrize(
    ("expected", "measured", "tolerance", "ok"),
    [
        (100.0, 102.9, 0.03, True),
        (100.0, 103.1, 0.03, False),
        (-100.0, -103.1, 0.03, False),
        (0.0, 1e-11, 1e-12, False),
        (1.0, float("nan"), 0.03, False),
        (1.0, None, 0.03, False),
        (True, False, 0.0, False),
        (True, 1.0, 0.0, False),
        (1.0, True, 0.0, False),
        ("infinite", 3.0, 0.0, False),
    ],
)
def test_when_a_row_is_ok(expected: Any, measured: Any, tolerance: float, ok: bool) -> None:
    basis: Basis = "trend" if isinstance(expected, bool) else "printed"
    assert Row("x", expected, basis, measured, tolerance).ok is ok


def test_each_kind_of_row_expects_its_own_and_quotations_nothing() -> None:
    assert not quoted("seconds", 3.0).checked
    assert not trend("it rises", False).ok
    wrong: list[tuple[Value, Basis, str]] = [
        (None, "printed", "expects something"),
        (None, "trend", "expects something"),
        (1.0, "quoted", "expects something"),
        (1.0, "trend", "a trend holds"),
        (True, "recomputed", "a trend holds"),
    ]
    for expected, basis, words in wrong:
        with pytest.raises(ValueError, match=words):
            Row("x", expected, basis, 1.0)


def test_stand_in_data_are_never_compared_with_what_is_printed() -> None:
    with pytest.raises(ValueError, match="stand-in"):
        Row("x", 1.0, "printed", 1.0, stand_in=True)
    with pytest.raises(ValueError, match="stand-in"):
        marked([Row("x", 1.0, "printed", 1.0)], stand_in=True)
    assert marked([Row("x", 1.0, "recomputed", 1.0)], stand_in=True)[0].stand_in


def test_a_tolerance_is_four_standard_errors_and_never_half_of_the_figure() -> None:
    row = sampled("x", 10.0, "printed", 11.0, 0.2, rounding=0.05)
    assert (row.tolerance, row.rule, row.ok) == (
        pytest.approx(0.085),
        "4 standard errors and rounding",
        False,
    )
    doubled = sampled("x", 10.0, "recomputed", 20.0, 10.0)
    assert (doubled.tolerance, doubled.ok) == (0.5, False)
    assert "at most 50% of the figure" in doubled.rule
    runs = over_runs("x", 2.0, [1.9, 2.1, 2.0, 2.2], reference=4)
    spread = float(np.std([1.9, 2.1, 2.0, 2.2], ddof=1))
    assert runs.tolerance == pytest.approx(4 * spread * (1 / 2) ** 0.5 / 2)


def test_an_outcome_that_checks_nothing_is_not_ok() -> None:
    assert not Outcome((quoted("q", 1.0),)).ok
    assert Outcome((quoted("q", 1.0), trend("t", True))).ok


def test_sources_of_measurements_are_independent_and_repeatable() -> None:
    run = Run(seed=1)
    words = [
        source.words(4).tolist()
        for source in (
            run.source("a", 1),
            run.source("a", 2),
            run.source("b", 1),
            Run(seed=2).source("a", 1),
        )
    ]
    assert words[0] == run.source("a", 1).words(4).tolist()
    assert len({tuple(each) for each in words}) == 4


@pytest.mark.parametrize(
    "name",
    [
        *("prop-4.1", "fig-4.2", "table-5.1", "fig-5.4"),
        *("book-fig-12.3", "book-fig-12.8", "book-fig-12.11"),
    ],
)
def test_an_experiment_comes_out(name: str) -> None:
    told: list[float] = []
    outcome = experiment(name).run(Run(QUICK, None, progress=told.append))
    assert outcome.rows
    assert wrong_rows(outcome) == []
    assert told == sorted(told)
    assert all(0 < share <= 1 for share in told)
    assert not outcome.plots if name.startswith("table") else outcome.plots


LINES = (
    Line("theirs", (1.0, 10.0), (5.0, 0.5), (5.1, 0.51)),
    Line("ours", (1.0, 10.0), (4.0, 0.4), kind="ours"),
)
OUTCOME = Outcome(
    (
        Row("a, with a comma", 1.0, "printed", 1.01, 0.03),
        Row("b", True, "trend", False),
        Row("c", None, "quoted", 7.0),
    ),
    (Plot("fig-0.1", "A figure", (Panel("(a)", "x (1)", "y (kWh)", LINES),)),),
    ("made up",),
    ("a note",),
)


ROW = ("name", "expected", "basis", "measured", "tolerance", "rule", "stand_in", "ok")


def test_a_result_has_the_shape_of_the_specification(tmp_path: Path) -> None:
    shown = replace(experiment("table-5.1"), id="fig-0.1", source="a test")
    paths = write(shown, OUTCOME, QUICK, tmp_path / "deep" / "fig-0.1")
    names = ["result.json", "rows.csv", "lines.csv", "fig-0.1.svg", "fig-0.1.png"]
    assert [path.name for path in paths] == names
    document = json.loads(paths[0].read_text())
    assert document == {
        "format": "tacit.reproduction/1",
        "id": "fig-0.1",
        "source": "a test",
        "checked": {"printed": [1, 1], "recomputed": [0, 0], "trend": [0, 1], "quoted": [0, 1]},
        "rows": [
            dict(zip(ROW, each, strict=True))
            for each in (
                ("a, with a comma", 1.0, "printed", 1.01, 0.03, "rounding", False, True),
                ("b", True, "trend", False, 0.0, "exact", False, False),
                ("c", None, "quoted", 7.0, None, None, False, None),
            )
        ],
        "effort": "quick",
        "data": ["made up"],
        "notes": ["a note"],
    }
    rows = list(csv.DictReader(paths[1].open()))
    assert [row["name"] for row in rows] == ["a, with a comma", "b", "c"]
    lines = list(csv.DictReader(paths[2].open()))
    assert lines[0] == {
        "plot": "fig-0.1",
        "panel": "(a)",
        "line": "theirs",
        "kind": "source",
        "x": "1.0",
        "y": "5.0",
        "expected": "5.1",
    }
    assert len(lines) == 4
    assert lines[2]["expected"] == ""


def test_no_result_holds_a_number_that_json_has_not() -> None:
    infinite = Outcome((Row("x", 1.0, "printed", float("inf")),))
    with pytest.raises(ValueError, match="JSON"):
        json.dumps(result_document(experiment("table-5.1"), infinite, FULL), allow_nan=False)


def test_a_seed_fixes_everything() -> None:
    effort = Effort("tiny", 500)
    one, again, other = (budget_figures.figure_5_2(Run(effort, seed=seed)) for seed in (1, 1, 2))
    assert one == again
    assert np.any([a.measured != b.measured for a, b in zip(one.rows, other.rows, strict=True)])


def test_a_printed_figure_that_a_wrong_result_would_meet_is_shown_and_not_claimed() -> None:
    """Lloyd's iterations on S1: 17.64 is printed, and runs spread by a sixth of that."""
    coarse = sampled("iterations", 17.64, "printed", 20.4, 1.9)
    assert (coarse.basis, coarse.expected, coarse.checked) == ("quoted", None, False)
    assert "17.64" in coarse.name
    fine = sampled("iterations", 17.64, "printed", 18.0, 0.5)
    assert (fine.basis, fine.ok) == ("printed", True)
    assert not sampled("iterations", 17.64, "printed", 20.4, 0.5).ok
