"""Bounded reports: laws as fractions, variances, choice. Spec: crowd-tasking, section 10."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import SequentialContext
from algorithms.crowd_tasking.algorithm import preview, run
from tacit.encoders.crowd_tasking_bounded import UNIT, Subset, Window, best_window, odds, uniform
from tacit.randomness import SeededRandom
from tests.algorithms.crowd_tasking.tasks import params, sensor, series, task

MIX = 1 << 32


def law_of_a_window(law: Window, x: int) -> dict[int, Fraction]:
    """P(y) of a window, by the stages that draw it."""
    wide = 2 * law.reach + 1
    inside = Fraction(law.odds * wide, law.total)
    outside = 2 * law.half + 1 - wide
    return {
        y: inside / wide if abs(y - x) <= law.reach else (1 - inside) / outside
        for y in range(-law.half, law.half + 1)
    }


def law_of_two_points(law: Window, x: int) -> Fraction:
    """P(+), by the stages that draw it."""
    upper = Fraction(law.largest + x, 2 * law.largest)
    truthful = Fraction(law.odds, law.odds + UNIT)
    return upper * truthful + (1 - upper) * (1 - truthful)


@pytest.mark.parametrize("epsilon", ["1/4", "3"])
@pytest.mark.parametrize("reach", [0, 7, 30])
def test_every_report_of_every_number(epsilon: str, reach: int) -> None:
    """M = 64: chances add up to 1, no ratio is above E / 2^40, which is reached, and the mean is x
    exactly."""
    law = Window(odds(Fraction(epsilon)), reach, MIX // 2, 64)
    most = Fraction(law.odds, UNIT)
    assert math.exp(float(Fraction(epsilon))) * (1 - 1e-10) <= most
    windows = {x: law_of_a_window(law, x) for x in range(-law.largest, law.largest + 1)}
    for x, chances in windows.items():
        assert sum(chances.values()) == 1
        assert sum(y * chance for y, chance in chances.items()) * law.window_factor == x
        plus = law_of_two_points(law, x)
        assert (2 * plus - 1) * law.point == x
        weight = Fraction((law.odds + UNIT) * law.largest + x * (law.odds - UNIT))
        assert plus == weight / (2 * law.largest * (law.odds + UNIT))
    ratios = {
        windows[one][y] / windows[other][y]
        for one in windows
        for other in (-law.largest, law.largest)
        for y in windows[one]
    }
    assert max(ratios) == most
    ends = [law_of_two_points(law, x) for x in (law.largest, -law.largest)]
    assert ends[0] / ends[1] == (1 - ends[1]) / (1 - ends[0]) == most


@pytest.mark.parametrize(
    ("epsilon", "share", "reach", "deviation"),
    [
        ("0.5", 0, None, 4.08),
        ("1", 0.43, 0.43, 2.07),
        ("2", 0.70, 0.36, 0.99),
        ("3", 0.85, 0.30, 0.60),
        ("5", 0.98, 0.19, 0.27),
        ("8", 1, 0.08, 0.092),
    ],
)
def test_the_table(epsilon: str, share: float, reach: float | None, deviation: float) -> None:
    found = best_window(Fraction(epsilon))
    assert found.mixed / MIX == pytest.approx(share, abs=0.02)
    if reach is not None:
        assert found.reach / found.half == pytest.approx(reach, abs=0.02)
    assert found.deviation() == pytest.approx(deviation, rel=0.02)


def test_a_hybrid_needs_some_budget() -> None:
    """At epsilon .25 windows bring nothing: two points alone."""
    assert best_window(Fraction(1, 4)).mixed == 0


@pytest.mark.parametrize(("epsilon", "place"), [("1", -1), ("1", 0), ("4", 1)])
def test_draws_follow_the_law(epsilon: str, place: int) -> None:
    """Mean of 60,000 estimates within 5 standard errors; the worst variance within 3 %."""
    law, size = best_window(Fraction(epsilon)), 60_000
    numbers = np.full(size, place * law.largest)
    found = law.estimates(*law.reports(numbers, SeededRandom(5)))
    assert abs(found.mean() - place) < 5 * found.std() / math.sqrt(size)
    assert found.std() < law.deviation() * 1.03
    reports, windowed = law.reports(numbers, SeededRandom(6))
    assert np.abs(reports[windowed]).max() <= law.half
    assert set(np.abs(reports[~windowed]).tolist()) == {1}
    counted = np.abs(reports[windowed] - numbers[windowed]) <= law.reach
    chance = law.odds * (2 * law.reach + 1) / law.total
    assert counted.mean() == pytest.approx(chance, abs=0.02)


@pytest.mark.parametrize("epsilon", ["0.5", "2", "8"])
def test_the_worst_deviation_is_the_forecast(epsilon: str) -> None:
    """Over 21 numbers from one end to the other: within 5 % of what is said, 40,000 draws each."""
    law = best_window(Fraction(epsilon))
    drawn = [
        law.estimates(*law.reports(np.full(40_000, number), SeededRandom(9))).std()
        for number in np.linspace(-law.largest, law.largest, 21).astype(np.int64)
    ]
    assert max(drawn) == pytest.approx(law.deviation(), rel=0.05)


def test_rounding_has_no_bias() -> None:
    law = best_window(Fraction(2))
    above = np.full(200_000, 12_345)
    placed = law.placed(above, 1 << 16, SeededRandom(1))
    exact = 2 * law.largest * 12_345 / 65_536 - law.largest
    assert set(placed.tolist()) == {math.floor(exact), math.floor(exact) + 1}
    assert placed.mean() == pytest.approx(exact, abs=0.01)
    assert law.placed(np.array([0, 1 << 16]), 1 << 16, SeededRandom(1)).tolist() == [
        -law.largest,
        law.largest,
    ]


def test_clipping_at_the_ends_would_be_found() -> None:
    """A planted fault: a window clipped at the ends has other totals there, and a bias."""
    law = Window(odds(Fraction(2)), 7, MIX, 64)
    x = 64  # beyond X
    clipped = [law.odds if abs(y - x) <= law.reach else UNIT for y in range(-64, 65)]
    assert sum(clipped) != law.total
    mean = Fraction(sum(w * y for w, y in zip(clipped, range(-64, 65), strict=True)), sum(clipped))
    assert mean * law.window_factor != x


def test_whole_numbers_are_uniform() -> None:
    counted = np.bincount(uniform(7, 70_000, SeededRandom(1)), minlength=7)
    assert counted.size == 7
    assert np.square(counted - 10_000).sum() / 10_000 < 6 + 5 * math.sqrt(12)


@pytest.mark.parametrize("buckets", [4, 5, 6])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_subsets(buckets: int, size: int) -> None:
    """Chances of all r-subsets for each own bucket: normalised, ratio at most E / 2^40 and reached;
    shares unbiased, as fractions."""
    law = Subset(odds(Fraction(3, 2)), buckets, size)
    subsets = list(itertools.combinations(range(buckets), size))

    def chance(own: int, subset: tuple[int, ...]) -> Fraction:
        if own in subset:
            return law.own / math.comb(buckets - 1, size - 1)
        return (1 - law.own) / math.comb(buckets - 1, size)

    for own in range(buckets):
        assert sum(chance(own, each) for each in subsets) == 1
        held = [sum(chance(own, each) for each in subsets if b in each) for b in range(buckets)]
        assert held == [law.own if b == own else law.other for b in range(buckets)]
    ratios = [chance(0, each) / chance(1, each) for each in subsets]
    assert max(ratios) == Fraction(law.odds, UNIT)


def test_subsets_that_are_drawn() -> None:
    law = Subset.of(Fraction(1), 20)
    assert law.size == 5
    places = np.repeat(np.arange(20), 3_000)
    found = law.reports(places, SeededRandom(2))
    assert set(found.sum(axis=1).tolist()) == {5}
    own = found[np.arange(places.size), places]
    assert own.mean() == pytest.approx(float(law.own), abs=0.01)
    others = (found.sum() - own.sum()) / (19 * places.size)
    assert others == pytest.approx(float(law.other), abs=0.005)
    shares = law.shares(found.sum(axis=0), places.size)
    assert shares.sum() == pytest.approx(1)
    assert np.abs(shares - 0.05).max() < 5 * law.deviation(places.size)


def test_alike_keys_are_drawn_again() -> None:
    """The first keys are all the same: still r buckets of each row, and each as often."""

    class Alike(SeededRandom):
        first = True

        def words(self, count: int) -> np.ndarray:
            found = super().words(count)
            if Alike.first:
                Alike.first = False
                found[:] = 1 << 40
            return found

    law = Subset.of(Fraction(1), 20)
    found = law.reports(np.zeros(20_000, np.int64), Alike(1))
    assert set(found.sum(axis=1).tolist()) == {law.size}
    held = found[:, 1:].mean(axis=0)
    assert np.abs(held - float(law.other)).max() < 0.02


def test_the_deviation_of_an_empty_bucket() -> None:
    """Within 5 %, over 300 tasks of 500 users."""
    law = Subset.of(Fraction(2), 10)
    places = np.zeros(500, np.int64)
    drawn = [
        law.shares(law.reports(places, SeededRandom(seed)).sum(axis=0), 500)[1:]
        for seed in range(300)
    ]
    assert np.std(np.concatenate(drawn)) == pytest.approx(law.deviation(500), rel=0.05)


HIST: dict[str, Any] = {"aggregate": "HIST", "buckets": {"width": 5}}


@pytest.mark.parametrize(
    ("changes", "chosen"),
    [
        ({}, "window"),
        ({"sensor": sensor(3)}, "window"),
        ({"privacy_unit": "level"}, "laplace"),
        ({"components": ["Y", "L"]}, "laplace"),
        ({"privacy_unit": "user", "T": 5}, "window"),
        ({"report": "laplace"}, "laplace"),
        ({**HIST, "n": 2_000}, "subset"),
        ({**HIST, "sensor": sensor(2, 100), "n": 2_000}, "laplace"),
        ({"aggregate": "CLS", "classes": [0, 1], "labels_are_public": True}, "laplace"),
    ],
)
def test_what_runs(changes: dict[str, Any], chosen: str) -> None:
    """From public choices alone."""
    assert task(**{"epsilon": "2", **changes}).report == chosen
    method = preview(params(**{"epsilon": "2", **changes}), "sound").details["method"]
    assert method["chosen"] == chosen
    assert task("paper", **{"epsilon": "2", **changes, "report": None}).report == "laplace"


def test_a_tolerated_error_needs_less() -> None:
    """The story of section 1: epsilon 4.4 in place of 8.4; a budget so solved keeps the error."""
    found = task(max_error=3, sensor=sensor(1, 100.0))
    assert float(found.epsilon) == pytest.approx(4.4, abs=0.05)
    assert found.predicted(20).mean <= 3


def test_an_average_from_windows() -> None:
    generator = np.random.default_rng(1)
    readings = generator.normal(90, 15, (800, 4, 1))
    given = params(epsilon="3", n=1_000, T=4, evaluate=True)
    outcome = run(series(readings), given, "sound", SequentialContext(bytes(32)))
    assert outcome.result["task"]["report"] == "window"
    found = outcome.result["average"]["rate"]
    assert abs(found["estimate"] - readings.mean()) < 5 * found["standard_error"]
    law = best_window(Fraction(3))
    assert found["standard_error"] == pytest.approx(law.deviation() * 50 / math.sqrt(3_200))
    (line, *_rest) = outcome.report.verified
    assert (line.model, line.epsilon, line.delta) == ("pure-dp", "3", "0")
    assert outcome.report.noise[0].distribution == "window"
    assert outcome.report.sampler_delta == "0"
    forecast = outcome.report.details["method"]["forecast_mean_error"]
    assert float(forecast["window"]) < float(forecast["laplace"])


def test_a_histogram_from_subsets() -> None:
    generator = np.random.default_rng(1)
    readings = generator.normal(90, 8, (3_000, 1, 1))
    errors = {}
    for report in ("subset", "laplace"):
        given = params(**HIST, epsilon="2", n=3_000, report=report, evaluate=True)
        outcome = run(series(readings), given, "sound", SequentialContext(bytes(32)))
        assert outcome.evaluation is not None
        errors[report] = outcome.evaluation["histogram"]["error"]
        assert sum(outcome.result["histogram"]["shares"]) == pytest.approx(1)
    assert errors["subset"] < errors["laplace"] / 2
    assert outcome.result["reports"] == 3_000
