"""The plan of k-means: the specification's examples, exact budgets, parameters in their ranges."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from algorithms.kmeans import ALGORITHM, Parameters
from algorithms.kmeans.parameters import (
    BoundsMissing,
    NoPlan,
    SizeHintMissing,
    grid_and_plan,
)
from algorithms.kmeans.plan import PlanImpossible, cells_per_side, make_plan
from algorithms.kmeans.report import planned_split
from tacit.noise import SCALE_LIMIT
from tacit.wire import parse_exact
from tests.property_examples import examples


@pytest.mark.parametrize(
    ("size", "dimension", "clusters", "epsilon", "mode", "per_side"),
    [
        (150, 4, 3, "1", "synopsis", 4),
        (5000, 2, 15, "0.1", "synopsis", 13),
        (5000, 2, 15, "1", "synopsis+zone", 29),
        (1837, 3, 3, "0.5", "synopsis+zone", 7),
        (10**6, 2, 15, "1", "synopsis+zone", 256),
    ],
)
def test_the_examples_of_the_specification(
    size: int, dimension: int, clusters: int, epsilon: str, mode: str, per_side: int
) -> None:
    plan = make_plan(size=size, dimension=dimension, clusters=clusters, epsilon=Fraction(epsilon))
    assert (plan.mode, plan.per_side) == (mode, per_side)
    assert plan.rounds == (1 if mode == "synopsis+zone" else 0)


def test_many_dimensions_take_a_projection() -> None:
    plan = make_plan(size=26_733, dimension=10, clusters=3, epsilon=Fraction(1))
    assert plan.mode == "projection+zone"
    epsilons = (
        plan.epsilon_marginals,
        plan.epsilon_histogram,
        plan.epsilon_lift,
        plan.rounds * plan.epsilon_round,
    )
    assert epsilons == (Fraction(6, 100), Fraction(34, 100), Fraction(3, 10), Fraction(3, 10))
    assert plan.rounds == 2
    assert plan.queries == 5


asked_plans = st.fixed_dictionaries(
    {
        "size": st.integers(1, 10**9),
        "dimension": st.integers(1, 256),
        "clusters": st.integers(1, 1024),
        "epsilon": st.fractions(Fraction(1, 1000), 50, max_denominator=10**6),
        "rounds": st.one_of(st.none(), st.integers(0, 20)),
        "mode": st.sampled_from(["auto", "synopsis", "synopsis+zone", "packing+zone"]),
        "noise_share": st.fractions(1, 5, max_denominator=4),
        "records": st.integers(1, 50),
    }
)


@examples(200)
@given(asked_plans)
def test_budgets_add_up_exactly_and_noise_can_be_drawn(asked: dict[str, Any]) -> None:
    try:
        plan = make_plan(**asked)
    except PlanImpossible:
        return
    split = planned_split(plan)
    assert len(split) == plan.queries
    assert sum(parse_exact(each["epsilon"]) for each in split) == asked["epsilon"]
    if asked["mode"] != "auto":
        assert plan.mode == asked["mode"]
    for each in split:
        if each["kind"] == "zone":
            parts = [parse_exact(each[name]) for name in ("e_s", "e_c", "e_v")]
            assert sum(parts) == parse_exact(each["epsilon"])
            widest = plan.dimension if plan.mode == "synopsis+zone" else plan.dimension * 0.4
            scales = (widest * plan.steps / parts[0], 1 / parts[1], plan.levels / parts[2])
            assert all(float(scale) * plan.records <= SCALE_LIMIT * 1.001 for scale in scales)


def test_a_small_budget_takes_a_coarser_grid() -> None:
    fine = make_plan(size=5000, dimension=50, clusters=8, epsilon=Fraction(1))
    coarse = make_plan(size=5000, dimension=50, clusters=8, epsilon=Fraction(1, 100))
    assert fine.steps == 1 << 16
    assert coarse.steps < fine.steps
    assert 0.4 * 50 * coarse.steps / float(coarse.epsilon_round * 3 / 4) <= SCALE_LIMIT


def test_more_noise_plans_as_a_smaller_budget_would() -> None:
    def side(**changes: Any) -> int | None:
        asked = {"size": 5000, "dimension": 2, "clusters": 15, "epsilon": Fraction(2)} | changes
        return make_plan(**asked).per_side

    assert side(noise_share=Fraction(4)) == side(epsilon=Fraction(1))
    assert side(records=2) == side(epsilon=Fraction(1))


def test_the_limits_of_a_grid() -> None:
    assert cells_per_side(1, 1e-3, 2, 15, 65_536) == 6  # 36 >= 2 k
    assert cells_per_side(10**9, 50, 2, 15, 65_536) == 256
    assert cells_per_side(10**9, 50, 5, 2, 1024) == 4
    assert cells_per_side(5000, 1.0, 2, 1024, 1000) == 31  # the upper limit wins
    with pytest.raises(PlanImpossible, match="max_cells"):
        cells_per_side(5000, 1.0, 5, 2, 16)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"mode": "synopsis", "rounds": 1}, "rounds"),
        ({"mode": "synopsis+zone", "rounds": 0}, "rounds"),
        ({"mode": "packing+zone", "rounds": 0}, "rounds"),
        ({"mode": "synopsis", "dimension": 30}, "max_cells"),
        ({"mode": "projection+zone", "dimension": 1}, "mode"),
        ({"records": 10**6, "epsilon": Fraction(1, 1000)}, "epsilon"),
    ],
)
def test_a_plan_that_cannot_be_says_why(changes: dict[str, Any], field: str) -> None:
    asked = {"size": 5000, "dimension": 2, "clusters": 15, "epsilon": Fraction(1)} | changes
    with pytest.raises(PlanImpossible) as caught:
        make_plan(**asked)
    assert caught.value.field == field


SMALL: dict[str, Any] = {"k": 3, "bounds": [[0, 10], [0, 10]], "n_hint": 100}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("k", 0),
        ("k", 1025),
        ("epsilon", "0.0009"),
        ("epsilon", "50.1"),
        ("bounds", [[1, 1]]),
        ("bounds", [[0, 1]] * 257),
        ("bounds", [[-1e308, 1e308]]),
        ("n_hint", 0),
        ("contribution_bound", 2),
        ("rounds", 21),
        ("max_cells", 1_048_577),
        ("move_tolerance", 0),
        ("final_epsilon", "51"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        Parameters.model_validate_json(json.dumps(SMALL | {field: value}))
    assert {error["loc"][0] for error in caught.value.errors()} == {field}


@pytest.mark.parametrize(
    ("changes", "problem", "pointer"),
    [
        ({"bounds": None}, BoundsMissing, "/params/bounds"),
        ({"n_hint": None}, SizeHintMissing, "/params/n_hint"),
        ({"rounds": 0, "mode": "packing+zone"}, NoPlan, "/params/rounds"),
    ],
)
def test_sound_asks_for_what_it_needs(
    changes: dict[str, Any], problem: type[Exception], pointer: str
) -> None:
    params = Parameters.model_validate_json(json.dumps(SMALL | changes))
    with pytest.raises(problem) as caught:
        grid_and_plan(params)
    assert getattr(caught.value, "pointer", None) == pointer
    with pytest.raises(problem):
        ALGORITHM.preview(params, "sound")


def test_federated_jobs_have_fewer_cells() -> None:
    params = Parameters(k=2, bounds=((0.0, 1.0), (0.0, 1.0)), n_hint=10**7, start="grid")
    assert grid_and_plan(params)[1].per_side == 256
    assert grid_and_plan(params, default_cells=4096)[1].per_side == 64
