"""Parameters: what is refused, and which choices are made; budgets and what they cost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from pydantic import ValidationError

from algorithms.crowd_tasking.task import BadTask
from tests.algorithms.crowd_tasking.tasks import HEART, params, sensor, task

HIST = {"aggregate": "HIST", "epsilon": "1", "buckets": {"width": 10}}
CLS = {"aggregate": "CLS", "epsilon": "1", "classes": [0, 1]}


def one_coordinate(**changes: Any) -> dict[str, Any]:
    return {**HEART, "coordinates": [{"name": "rate", "lower": 50, "upper": 150, **changes}]}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({}, "epsilon"),
        ({"epsilon": "64.001"}, "epsilon"),
        ({"epsilon": 1.0}, "epsilon"),
        ({"max_error": 0}, "max_error"),
        ({"epsilon": "1", "delta": "0.2"}, "delta"),
        (
            {"epsilon": "1", "privacy_unit": "user", "sensitivity": "per-coordinate"},
            "sensitivity",
        ),
        ({"epsilon": "1", "sensor": one_coordinate(upper=50)}, "upper"),
        ({"epsilon": "1", "sensor": one_coordinate(upper=50 + 1e-12)}, "bounds"),
        ({"epsilon": "1", "sensor": {**HEART, "steps": (1 << 24) + 1}}, "steps"),
        (
            {"epsilon": "1", "sensor": {**HEART, "coordinates": HEART["coordinates"] * 2}},
            "coordinates",
        ),
        ({**HIST, "buckets": None}, "buckets"),
        ({**HIST, "buckets": {"width": 10, "edges": [50, 100, 150]}}, "buckets"),
        ({**HIST, "buckets": {"width": 100}}, "buckets.width"),
        ({**HIST, "buckets": {"edges": [60, 100, 150]}}, "buckets.edges"),
        ({**HIST, "buckets": {"width": 10, "coordinate": "other"}}, "buckets.coordinate"),
        ({**HIST, "reference": [0.2] * 10}, "reference"),
        ({"aggregate": "HIST", "buckets": {"width": 10}, "max_error": 1}, "max_error"),
        ({"epsilon": "1", "buckets": {"width": 10}}, "buckets"),
        ({**CLS, "classes": None}, "classes"),
        ({**CLS, "label_epsilon": "1", "labels_are_public": True}, "label_epsilon"),
        ({**CLS, "label_epsilon": "1", "privacy_unit": "user"}, "label_epsilon"),
        ({"aggregate": "CLS", "classes": [0, 1], "max_error": 0.5}, "d_avg"),
    ],
)
def test_what_is_refused_names_its_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        params(**changes)
    assert field in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({**CLS}, "labels_are_public"),
        ({"epsilon": "0.001"}, "epsilon"),
        ({"max_error": 0.001}, "max_error"),
        ({"epsilon": "1", "report": "subset"}, "report"),
        ({"epsilon": "1", "report": "window", "components": ["Y", "G"]}, "report"),
        ({"epsilon": "1", "report": "window", "privacy_unit": "level"}, "report"),
        (
            {"epsilon": "1", "T": 2, "privacy_unit": "user", "components": ["G"]},
            "components",
        ),
    ],
)
def test_what_a_sound_task_refuses(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(BadTask) as refused:
        task(**changes)
    assert refused.value.field == field


def test_defaults_follow_the_stance() -> None:
    sound, paper = task(epsilon="1"), task("paper", epsilon="1")
    assert (sound.components, sound.per_coordinate) == (("Y",), False)
    assert (paper.components, paper.per_coordinate) == (("Y", "G", "L"), True)
    assert task(epsilon="1", privacy_unit="level").components == ("Y", "G")


@pytest.mark.parametrize(
    ("stance", "observed", "expected"),
    [("paper", 100.0, 14.567), ("sound", 100.0, 8.410), ("paper", 34.323, 5.0)],
)
def test_the_budget_of_a_tolerated_error(stance: Any, observed: float, expected: float) -> None:
    found = task(stance, max_error=3, sensor=sensor(1, observed), report="laplace")
    assert float(found.epsilon) == pytest.approx(expected, abs=6e-4)
    assert found.predicted(20).mean <= 3


def test_the_budget_of_one_round_for_a_user() -> None:
    found = task(epsilon="5", T=100, privacy_unit="user")
    assert float(found.epsilon) == pytest.approx(0.10436, rel=1e-4)
    assert found.user.delta == Fraction(1, 10**6)
    assert found.user.epsilon is not None
    assert found.user.epsilon <= 5
    pure = task(epsilon="5", T=100, privacy_unit="user", delta="0")
    assert (pure.epsilon, pure.user.epsilon, pure.user.delta) == (Fraction(1, 20), 5, 0)


@pytest.mark.parametrize("rounds", [1, 5, 40])
@pytest.mark.parametrize("total", ["1/10", "20"])
def test_a_user_never_pays_more_than_asked(rounds: int, total: str) -> None:
    found = task(epsilon=total, T=rounds, privacy_unit="user").cost
    assert found.epsilon is not None
    assert Fraction(total) * Fraction(98, 100) < found.epsilon <= Fraction(total)


@pytest.mark.parametrize(
    ("components", "p", "rounds", "reading", "level", "user"),
    [
        (["Y"], "0.5", 10, 2, 20, 20),
        (["Y", "G"], "0.5", 10, 2, 2, 20),
        (["Y", "G", "L"], "0.5", 10, 2, 2, 20),
        (["Y", "L"], "1", 10, 2, 2, 20),
        (["L"], "0", 10, 2, 20, 20),
        (["L"], "1", 10, None, 2, None),
        (["G"], "0.5", 10, None, 2, None),
        (["L"], "0.5", 10, None, None, None),
        (["G"], "0.5", 1, 2, 2, 2),
    ],
)
def test_what_each_unit_costs(
    components: list[str],
    p: str,
    rounds: int,
    reading: int | None,
    level: int | None,
    user: int | None,
) -> None:
    found = task(epsilon="2", components=components, p=p, T=rounds)
    costs = (found.reading.epsilon, found.level.epsilon, found.user_pure.epsilon)
    assert costs == (reading, level, user)


def test_perturbed_labels_are_part_of_a_reading() -> None:
    found = task(**{**CLS, "label_epsilon": "0.5", "T": 3})
    assert (found.reading.epsilon, found.user_pure.epsilon) == (Fraction(3, 2), Fraction(9, 2))
    assert task(**{**CLS, "labels_are_public": True}).reading.epsilon == 1


def test_descriptors_of_different_tasks_differ() -> None:
    first = task(epsilon="1").digest
    assert first == task(epsilon="1", evaluate=True).digest
    assert len({first, task(epsilon="2").digest, task("paper", epsilon="1").digest}) == 3
