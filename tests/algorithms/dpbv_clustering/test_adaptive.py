"""`grid-core` of stored rows by the plan of k-means. Spec: dpbv-clustering, section 3.10."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import SequentialContext
from algorithms.datasets.tables import NumericTable
from algorithms.dpbv_clustering.adaptive import is_adaptive, plan_of
from algorithms.dpbv_clustering.parameters import Parameters
from algorithms.dpbv_clustering.problems import BadParameter
from algorithms.dpbv_clustering.run import check, preview, run
from algorithms.kmeans.baselines import cost
from algorithms.kmeans.evaluation import best_cost


def asked(**changes: Any) -> Parameters:
    values = {"bounds": ((0.0, 1.0),) * 2, "k": 4, "method": "grid-core", "epsilon": Fraction(1)}
    return Parameters(**(values | changes))


def table(seed: int = 1) -> NumericTable:
    """Two dense clusters and two light ones."""
    generator = np.random.default_rng(seed)
    middles = np.array([[0.12, 0.2], [0.15, 0.8], [0.83, 0.77], [0.9, 0.31]])
    points = np.repeat(middles, (2_500, 2_500, 250, 250), axis=0)
    points = points + generator.normal(0, 0.02, points.shape)
    return NumericTable(("a", "b"), np.clip(points, 0, 1))


def test_what_is_spent_is_half_of_epsilon_for_a_record_that_joins() -> None:
    """Acceptance: all queries together cost epsilon / 2, so that a replacement costs epsilon."""
    for epsilon in ("1/2", "3", "7/3"):
        plan = plan_of(asked(epsilon=Fraction(epsilon)), 5_500)
        assert plan.epsilon == Fraction(epsilon) / 2
        half = Fraction(epsilon) / 2
        outcome = run(
            table(), asked(epsilon=Fraction(epsilon)), "sound", SequentialContext(bytes(32))
        )
        report = outcome.report
        (line,) = report.verified
        assert (line.model, line.neighbouring) == ("pure-dp", "replace")
        assert Fraction(line.epsilon or 0) >= Fraction(epsilon)
        split = outcome.result["plan"]["split"]
        assert sum(Fraction(each["epsilon"]) for each in split) == half


@pytest.mark.slow
def test_centres_are_better_than_those_of_the_fixed_grid() -> None:
    """Mean inertia over ten runs on the same rows."""
    points = table().values
    best = best_cost(points, 4)
    mean = {}
    for grid in ("fixed", "adaptive"):
        found = [
            run(table(), asked(grid=grid), "sound", SequentialContext(test_seed=seed)).result
            for seed in range(10)
        ]
        mean[grid] = np.mean([cost(points, np.array(each["centres"])) for each in found]) / best
    assert mean["adaptive"] < mean["fixed"]
    assert mean["adaptive"] < 1.2


@pytest.mark.parametrize(
    ("changes", "adaptive"),
    [
        ({}, True),
        ({"grid": "fixed"}, False),
        ({"cells_per_axis": 8}, False),
        ({"rescale_global": True}, False),
        ({"clusterer": "dbscan", "k": None}, False),
    ],
)
def test_when_it_runs(changes: dict[str, Any], adaptive: bool) -> None:
    """From parameters alone; the preview says so."""
    assert is_adaptive(asked(**changes)) is adaptive
    if changes.get("clusterer") != "dbscan":
        chosen = preview(asked(**changes), "sound").details.get("method", {}).get("chosen")
        assert (chosen == "adaptive") is adaptive


def test_what_is_refused() -> None:
    with pytest.raises(BadParameter) as wrong:
        preview(asked(grid="adaptive", cells_per_axis=8), "sound")
    assert wrong.value.pointer == "/params/grid"
    with pytest.raises(BadParameter) as small:
        check(table(), asked(epsilon=Fraction(1, 10**9)), "sound")
    assert small.value.pointer == "/params/epsilon"


def test_an_evaluation_and_odd_tables() -> None:
    outcome = run(table(), asked(evaluate=True), "sound", SequentialContext(bytes(32)))
    assert outcome.evaluation is not None
    assert sum(outcome.evaluation["rows"].values()) == 5_500
    assert outcome.files[0].name == "centres.csv"
    for rows in (0, 1, 3):
        small = NumericTable(("a", "b"), np.full((rows, 2), 0.5))
        found = run(small, asked(), "sound", SequentialContext(bytes(32)))
        assert np.isfinite(found.result["centres"]).all()
