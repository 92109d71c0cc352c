"""Crowd tasking over curators: labels beside readings, and the stance `paper` on devices."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import Collected, SequentialContext, Stance
from algorithms.crowd_tasking.federated import REPORTS
from algorithms.crowd_tasking.parameters import Parameters
from algorithms.crowd_tasking.task import BadTask
from tacit.encoders.crowd_tasking import Perturbation
from tacit.encoders.crowd_tasking_reports import Encoding
from tacit.encoders.sums import Cost, EncodingRefused, read_encoding
from tacit.protocol.federation import Report
from tacit.randomness import SeededRandom

SENSOR: dict[str, Any] = {
    "name": "motion",
    "coordinates": [{"name": name, "lower": 0, "upper": 10} for name in "ab"],
    "steps": 1000,
}
CLASSES = [7, -2, 30]
CENTRES = {7: (1.0, 1.0), -2: (9.0, 1.0), 30: (5.0, 9.0)}


def params(**changes: Any) -> Parameters:
    """A task of two coordinates."""
    body = {"sensor": SENSOR, "n": 50, "epsilon": "2", "T": 30, **changes}
    return Parameters.model_validate_json(json.dumps(body))


def classifying(**changes: Any) -> Parameters:
    """A classifier of three public classes."""
    return params(aggregate="CLS", classes=CLASSES, labels_are_public=True, **changes)


def encoder(task: Parameters, stance: Stance = "sound") -> Encoding:
    """What a curator reads in the task's document."""
    found = read_encoding("crowd-tasking", REPORTS.encoding(task, stance))
    assert isinstance(found, Encoding)
    return found


def rows(label: int, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Readings at the centre of a class, labelled."""
    return np.array([[*CENTRES[label], label]] * count, np.float64)


@pytest.mark.parametrize("unit", ["reading", "level"])
def test_both_units_are_paid(unit: str) -> None:
    """Of 30 rounds: what protects one reading costs the curator all of them; what protects all of
    them costs a reading one."""
    found = encoder(params(privacy_unit=unit))
    one, every = (Cost(count * found.reading_epsilon, Fraction(0)) for count in (1, 30))
    expected = (one, every) if unit == "reading" else (every, one)
    assert (found.cost, found.other_cost) == expected
    assert encoder(params(privacy_unit=unit), "paper").other_cost is None


def test_a_label_is_sent_as_its_place_and_rows_of_no_class_as_the_first() -> None:
    found = encoder(classifying())
    assert (found.columns, found.classes) == (3, (7, -2, 30))
    table = np.concatenate([rows(-2, 1), [[5, 5, 8]], rows(30, 1), [[5, 5, 7.5]], rows(7, 1)])
    reports = found.perturbed({"x": table, "y": np.array([[1.0, 1, 99]])}, SeededRandom(1))
    assert [(each.curator, each.round, each.label) for each in reports] == [
        ("x", 1, 1),
        ("x", 2, 0),
        ("x", 3, 2),
        ("x", 4, 0),
        ("x", 5, 0),
        ("y", 1, 0),
    ]
    assert all(len(each.values) == 2 for each in reports)
    assert all(found.refusal(each) is None for each in reports)


def test_the_coordinator_takes_labels_where_there_are_classes_and_only_there() -> None:
    report = Report(curator="x", values=(1, 1), label=2)
    assert encoder(classifying()).refusal(report) is None
    assert encoder(classifying()).refusal(report.model_copy(update={"label": 3})) is not None
    assert encoder(classifying()).refusal(report.model_copy(update={"label": None})) is not None
    assert encoder(params()).refusal(report) == "the task takes no labels"


def test_a_label_costs_nothing_and_protects_nothing() -> None:
    task = classifying()
    assert encoder(task).cost == Cost(Fraction(2), Fraction(0))
    report = REPORTS.preview(task, "sound")
    assert "Class labels are sent as they are." in report.not_protected
    assert any("its owner declared public" in line for line in report.assumptions)
    for line in report.verified:
        assert any("class labels are the same on both sides" in each for each in line.conditions)
    assert report.charged is not None
    assert report.charged.epsilon == "2"


def test_a_classifier_learns_from_what_curators_send() -> None:
    """At epsilon 64 in one coordinate of three parts the classes lie far apart; at 0.01 they cannot
    be told: one guess in three is right, give or take 6 standard deviations (900 tests)."""

    def accuracy(task: Parameters, stance: Stance) -> float:
        tables = {f"c{number}": rows(CLASSES[number % 3], 30) for number in range(30)}
        sent = encoder(task, stance).perturbed(tables, SeededRandom(3))
        users = {name: number for number, name in enumerate(tables)}
        collected = Collected([(users[each.curator], each) for each in sent], 40, ("a", "b"))
        outcome = REPORTS.aggregate(task, stance, collected, SequentialContext())
        assert outcome.result["users"] == {"offered": 40, "joined": 30}
        assert outcome.result["classifier"]["classes"] == CLASSES
        training = next(file for file in outcome.files if file.name == "training.csv")
        assert {int(line.split(b",")[0]) for line in training.content.splitlines()[1:]} == set(
            CLASSES
        )
        return float(outcome.result["classifier"]["accuracy_on_noisy_reports"])

    assert accuracy(classifying(epsilon="64"), "sound") > 0.98
    assert accuracy(classifying(epsilon="64"), "paper") > 0.98
    assert abs(accuracy(classifying(epsilon="0.01"), "sound") - 1 / 3) < 6 * (2 / 9 / 900) ** 0.5


@pytest.mark.parametrize(
    ("task", "stance", "field"),
    [
        (params(aggregate="CLS", classes=CLASSES), "sound", "labels_are_public"),
        (params(aggregate="CLS", classes=CLASSES), "paper", "labels_are_public"),
        (params(aggregate="CLS", classes=CLASSES, label_epsilon="1"), "sound", "label_epsilon"),
        (params(components=["G"]), "sound", "components"),
        (params(components=["G", "L"]), "paper", "components"),
        (params(epsilon_limits={"1": "2"}), "sound", "epsilon_limits"),
    ],
)
def test_what_no_device_does(task: Parameters, stance: Stance, field: str) -> None:
    with pytest.raises(BadTask) as refused:
        REPORTS.encoding(task, stance)
    assert refused.value.pointer == f"/params/{field}"


def test_paper_is_the_sources_three_parts_at_its_own_scale_and_without_a_figure() -> None:
    found = encoder(params(p="1/4"), "paper")
    plan = found.mechanism
    assert isinstance(plan, Perturbation)
    assert plan.components == ("Y", "G", "L")
    assert (plan.scale, plan.persistence) == (Fraction(500), Fraction(1, 4))  # range / eps_a
    assert found.cost is None
    assert read_encoding("crowd-tasking", found.document()) == found
    report = REPORTS.preview(params(p="1/4"), "paper")
    assert report.charged is not None
    assert report.charged.ledger == "curators"
    assert report.charged.outside_budget
    assert report.charged.epsilon is None
    assert {statement.sampler for statement in report.noise} == {"exact-integer"}
    # What the mechanism is worth all the same: two coordinates of epsilon 2 each.
    lines = {line.privacy_unit: line for line in report.verified}
    assert (lines["reading"].epsilon, lines["level"].epsilon) == ("4", "4")
    assert lines["reading"].scenario == "coordinator and all other curators"
    assert any("The stance paper debits no figure" in each for each in report.caveats)
    assert report.details["sensitivity"]["clamped"] is True


def test_the_three_parts_have_the_sources_law() -> None:
    """Z of section 3.2: variance 6 b^2, covariance of two rounds 2 b^2 (1 + p^h), readings clamped.

    20,000 devices, 3 rounds; tolerances of 6 standard errors (kurtosis of Z is 4, so that the
    standard error of the variance is about b^2 6 sqrt(3 / n)): false alarms below 1e-8 a figure.
    """
    task = params(T=3, p="1/2", epsilon="2")
    far = np.array([[-5.0, 99.0]] * 3)  # clamped to 0 and 10, the steps 0 and 1000
    names = {f"c{number}": far for number in range(20_000)}
    sent = encoder(task, "paper").perturbed(names, SeededRandom(4))
    numbers = np.array([each.values for each in sent], np.float64).reshape(-1, 3, 2)
    noise = (numbers - [0, 1000])[:, :, 0] / 500
    error = 6 * 6 * (3 / 20_000) ** 0.5
    assert abs(float((noise[:, 0] ** 2).mean()) - 6) < error
    assert abs(float((noise[:, 0] * noise[:, 1]).mean()) - 3) < error
    assert abs(float((noise[:, 0] * noise[:, 2]).mean()) - 2.5) < error
    assert abs(float((numbers[:, 0, 1] - 1000).mean()) / 500) < 6 * (6 / 20_000) ** 0.5


@pytest.mark.parametrize(
    "change",
    [
        {"stance": "other"},
        {"classes": [1, 1]},
        {"classes": [1, 2**60]},
        {"classes": 5},
        {"labels": [1, 2]},
    ],
)
def test_a_document_that_says_something_else_is_refused(change: dict[str, Any]) -> None:
    document = REPORTS.encoding(classifying(), "sound")
    assert read_encoding("crowd-tasking", document)
    with pytest.raises(EncodingRefused):
        read_encoding("crowd-tasking", {**document, **change})
