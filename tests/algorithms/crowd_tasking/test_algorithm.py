"""The central form from data set to outcome, and reports that devices sent themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from algorithms.contract import SequentialContext
from algorithms.crowd_tasking.algorithm import BadRows, preview, run
from algorithms.crowd_tasking.task import Task
from algorithms.datasets.tables import Texts, UserSeries
from tacit.encoders.crowd_tasking import FARTHEST
from tacit.encoders.crowd_tasking_reports import Encoding
from tacit.protocol.federation import Report
from tacit.randomness import SeededRandom
from tacit.report.model import PrivacyReport
from tacit.report.text import plain_words
from tests.algorithms.crowd_tasking.tasks import params, sensor, series, task
from tests.algorithms.outcomes import names_drawn, names_in, published

SECRET = bytes(range(32))
HIST = {"aggregate": "HIST", "buckets": {"width": 10}}
CLS = {
    "aggregate": "CLS",
    "classes": [3, 7],
    "labels_are_public": True,
    "sensor": sensor(2, 10),
    "n": 60,
}
STANCES = ("sound", "paper")


def context(seed: bytes | None = SECRET) -> SequentialContext:
    return SequentialContext(seed=seed)


def chosen(whole: UserSeries, rows: np.ndarray) -> UserSeries:
    users = Texts(whole.users.values, whole.users.codes[rows])
    return replace(whole, users=users, rounds=whole.rounds[rows], values=whole.values[rows])


def rates(users: int = 20, rounds: int = 30) -> np.ndarray:
    generator = SeededRandom(11).generator
    level = generator.normal(72, 6, (users, 1, 1))
    return level + generator.normal(0, 3, (users, rounds, 1))


def labelled(users: int = 60) -> tuple[np.ndarray, np.ndarray]:
    labels = np.where(np.arange(users) % 3 == 0, 7, 3)[:, None]
    points = SeededRandom(12).generator.normal(0, 0.5, (users, 1, 2))
    return points + np.where(labels == 7, 2, 8)[..., None], labels


def test_an_average() -> None:
    truth = rates()
    given = params(epsilon="5", T=30)
    outcome = run(series(truth), given, "sound", context())
    assert outcome.evaluation is None
    assert outcome.result["users"] == {"offered": 20, "joined": 20}
    assert outcome.result["reports"] == 600
    found = outcome.result["average"]["rate"]
    low, high = found["interval_95"]
    assert low < found["estimate"] < high
    assert abs(found["estimate"] - truth.mean()) < 5 * found["standard_error"]
    assert names_drawn("crowd-tasking", outcome.plots) == ["risk", "error", "uploaded"]
    (rounds,) = outcome.files
    table = np.genfromtxt(rounds.content.decode().splitlines(), delimiter=",", names=True)
    assert table.size == 30
    assert (table["reports"] == 20).all()
    assert table["rate"].mean() == pytest.approx(found["estimate"])
    planned = preview(given, "sound")
    assert planned.error is not None
    joined = {"error": {**planned.error, "n_joined": 20}}
    assert outcome.report == planned.model_copy(update=joined)


@pytest.mark.parametrize(("stance", "estimator"), [("sound", "naive"), ("paper", "deconvolve")])
def test_a_histogram(stance: Any, estimator: str) -> None:
    given = params(**HIST, epsilon="20", T=30, estimator=estimator, evaluate=True, report="laplace")
    outcome = run(series(rates()), given, stance, context())
    found = outcome.result["histogram"]
    assert sum(found["shares"]) == pytest.approx(1)
    assert found["edges"] == [50 + 10 * place for place in range(11)]
    assert {file.name for file in outcome.files} == {"rounds.csv", "shares.csv"}
    assert outcome.evaluation is not None
    assert outcome.evaluation["histogram"]["error"] < 0.5
    assert outcome.report.evaluation_attached
    assert outcome.report.error is not None
    centred = outcome.report.error["centred_change"]
    assert Fraction(centred["one part"]) <= Fraction(centred["as run"])


def test_labels_by_randomised_response() -> None:
    points, labels = labelled(600)
    given = params(
        **{**CLS, "labels_are_public": False, "label_epsilon": "1", "n": 600}, epsilon="5"
    )
    outcome = run(series(points, labels), given, "sound", context())
    told = np.genfromtxt(
        next(file for file in outcome.files if file.name == "training.csv")
        .content.decode()
        .splitlines(),
        delimiter=",",
        names=True,
    )["label"]
    flipped = 1 - 1 / (1 + np.exp(-1))  # 4 sd: 0.08
    expected = (labels == 7).mean() * (1 - flipped) + (labels == 3).mean() * flipped
    assert (told == 7).mean() == pytest.approx(expected, abs=0.08)
    line = next(each for each in outcome.report.verified if each.privacy_unit == "reading")
    assert line.epsilon == "6"
    assert not any("labels" in each for each in outcome.report.not_protected)


def test_who_joins() -> None:
    """Acceptance 12: the limits of Figure 12.11."""
    limits = [25] * 9 + [17] * 3 + [9] * 8
    given = {"T": 3, "epsilon_limits": {str(user): str(each) for user, each in enumerate(limits)}}
    for epsilon, joined in (("5", 20), ("20", 9), ("26", 0)):
        outcome = run(series(rates(20, 3)), params(epsilon=epsilon, **given), "sound", context())
        assert outcome.result["users"] == {"offered": 20, "joined": joined}
        assert outcome.result["reports"] == 3 * joined
        assert (outcome.result["predicted_for_joined"] is None) == (joined == 0)
    few = run(series(rates(20, 3)), params(epsilon="5", n=4, T=3), "sound", context())
    assert few.result["users"]["joined"] == 4


def test_missing_rounds() -> None:
    whole = series(rates(10, 6))
    kept = np.flatnonzero((whole.users.codes + whole.rounds) % 3 > 0)
    ragged = chosen(whole, kept)
    given = params(epsilon="5", T=6, components=["Y", "G", "L"], evaluate=True)
    outcome = run(ragged, given, "sound", context())
    assert outcome.result["reports"] == kept.size
    assert outcome.evaluation is not None
    assert outcome.evaluation["risk"] is None


@pytest.mark.parametrize(
    ("dataset", "changes"),
    [
        (series(np.zeros((2, 2, 2))), {"epsilon": "1", "T": 2}),
        (series(np.zeros((2, 3, 1))), {"epsilon": "1", "T": 2}),
        (series(np.zeros((2, 1, 2))), {**CLS, "epsilon": "1"}),
        (series(np.zeros((2, 1, 2)), np.array([[3], [4]])), {**CLS, "epsilon": "1"}),
        (series(np.zeros((2, 1, 2)), np.array([[3], [99]])), {**CLS, "epsilon": "1"}),
    ],
)
def test_rows_that_do_not_fit(dataset: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(BadRows):
        run(dataset, params(**changes), "sound", context())


def test_rows_in_any_order_give_one_outcome() -> None:
    whole = series(rates(5, 6))
    order = np.argsort(-whole.rounds * 7 + whole.users.codes * 3, kind="stable")
    mixed = chosen(whole, order)
    given = params(epsilon="5", T=6, components=["Y", "G", "L"])
    assert published(run(whole, given, "sound", context())) == published(
        run(mixed, given, "sound", context())
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": "5"},
        {"epsilon": "5", "privacy_unit": "user"},
        {**HIST, "epsilon": "5", "estimator": "deconvolve"},
    ],
)
def test_what_the_clamp_takes_off_is_never_seen(changes: dict[str, Any]) -> None:
    """Readings that differ only outside the bounds, or within one step: the same bytes."""
    inside, outside = rates(), rates()
    inside[3:9, :5] = 150.0
    outside[3:9, :5] = np.linspace(150, 1e6, 30).reshape(6, 5, 1)
    outside[0, 0] += 1e-6 if abs(inside[0, 0, 0] * 655.36 % 1 - 0.5) > 0.1 else 0.0
    given = params(**changes, T=30)
    first, second = (
        published(run(series(values), given, "sound", context())) for values in (inside, outside)
    )
    assert first == second


def test_nothing_true_is_published() -> None:
    truth = rates(20, 3)
    truth[0, 0] = 777.125
    outcome = run(series(truth), params(epsilon="5", T=3, evaluate=True), "sound", context())
    assert outcome.evaluation is not None
    text = outcome.report.model_dump_json() + json.dumps(outcome.result)
    text += "".join(file.content.decode() for file in outcome.files)
    secret = outcome.evaluation["average"]
    for value in (777.125, float(truth.mean()), secret["true_mean"][0], secret["error"][0]):
        assert f"{value:.6g}" not in text
    keys = names_in(json.loads(outcome.report.model_dump_json())) | names_in(outcome.result)
    forbidden = {"clamped_readings", "true_mean", "true_shares", "realised", "raw", "wiener", "pca"}
    assert not keys & forbidden
    risk = outcome.report.details["risk"]
    assert risk["prior_only"] is None
    assert risk["best_attack"] is None
    assert outcome.evaluation["clamped"] == 1


@pytest.mark.parametrize("stance", STANCES)
@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": "5", "T": 100},
        {"epsilon": "5", "T": 100, "privacy_unit": "level"},
        {"epsilon": "5", "T": 100, "privacy_unit": "user"},
        {"epsilon": "1", "sensor": sensor(13), "sensitivity": "per-coordinate"},
        {**HIST, "epsilon": "5"},
        {**CLS, "epsilon": "1/3"},
        {"epsilon": "5", "T": 10, "components": ["G"]},
        {"max_error": 3},
    ],
)
def test_reports_are_whole(stance: Any, changes: dict[str, Any]) -> None:
    found = preview(params(**changes), stance)
    assert PrivacyReport.model_validate_json(found.model_dump_json()) == found
    assert plain_words(found)
    assert found.charged is not None
    units = {line.privacy_unit for line in found.verified}
    assert units == {"reading", "level", "user"}
    if stance == "paper":
        assert all(line.epsilon is None and line.reason for line in found.verified)
        assert found.charged.outside_budget
        assert found.charged.epsilon is None
        assert found.source_defects
        return
    unit = changes.get("privacy_unit", "reading")
    mine = [line for line in found.verified if line.privacy_unit == unit]
    assert found.charged.epsilon in {line.epsilon for line in mine}
    assert found.charged.delta in {line.delta for line in mine}


def lines(**changes: Any) -> dict[str, list[tuple[str | None, str | None]]]:
    held: dict[str, list[tuple[str | None, str | None]]] = {}
    for line in preview(params(**changes), "sound").verified:
        held.setdefault(str(line.privacy_unit), []).append((line.epsilon, line.delta))
    return held


def test_verified_lines() -> None:
    assert lines(epsilon="5", T=100) == {
        "reading": [("5", "0")],
        "level": [("500", "0")],
        "user": [("500", "0")],
    }
    shifted = lines(epsilon="5", T=100, privacy_unit="level")
    assert (shifted["reading"], shifted["level"]) == ([("5", "0")], [("5", "0")])
    pure, tight = lines(epsilon="5", T=100, privacy_unit="user")["user"]
    assert float(pure[0] or 0) == pytest.approx(10.436, rel=1e-4)
    assert 4.99 < float(tight[0] or 0) <= 5
    assert tight[1] == "0.000001"
    assert lines(epsilon="1", T=10, components=["G"]) == {
        "reading": [("inf", "1")],
        "level": [("1", "0")],
        "user": [("inf", "1")],
    }
    thirteen = {"epsilon": "1", "sensor": sensor(13)}
    assert lines(**thirteen, sensitivity="per-coordinate")["reading"] == [("13", "0")]
    assert lines(**thirteen)["reading"] == [("1", "0")]


def test_odds_and_the_error_floor_are_rounded_against_us() -> None:
    risk = preview(params(epsilon="2"), "sound").details["risk"]
    assert Fraction(risk["odds_factor"]) >= Fraction(np.exp(2.0)) * (1 - Fraction(1, 10**12))
    assert float(risk["odds_factor"]) == pytest.approx(np.exp(2.0))
    assert float(risk["test_error_floor"]) == pytest.approx(1 / (1 + np.exp(2.0)))
    assert Fraction(risk["test_error_floor"]) <= 1 / (1 + Fraction(risk["odds_factor"]))


def refusal(found: Task, number: int, values: Sequence[int]) -> str | None:
    """Why the coordinator does not take these numbers."""
    params = found.params
    encoding = Encoding(found.perturbation, params.rounds, params.privacy_unit, params.delta)
    return encoding.refusal(Report(curator="a", round=number, values=tuple(values)))


def test_reports_that_are_refused() -> None:
    found = task(epsilon="1", T=4)
    beyond = int(FARTHEST * found.perturbation.scale)
    good = ((1, [0]), (4, [-beyond]), (2, [found.perturbation.steps + beyond]))
    bad = (
        (5, [0]),
        (1, [0, 0]),
        (1, [-beyond - 1]),
        (1, [found.perturbation.steps + beyond + 1]),
    )
    assert all(refusal(found, number, values) is None for number, values in good)
    assert all(refusal(found, number, values) for number, values in bad)
    for body in ('"values":[]', '"values":[0.5]', '"values":[true]', '"values":[1],"round":0'):
        with pytest.raises(ValidationError):
            Report.model_validate_json(f'{{"curator":"a",{body}}}')
