"""Percentiles of a noisy histogram: worked examples, an independent interpolation, coverage."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tacit.query.functions import decode
from tacit.query.percentiles import (
    CountNoise,
    percentile_interval,
    percentile_name,
    percentile_of,
    rank_half_width,
)
from tacit.query.query import Query
from tacit.report.accuracy import error_statement, with_intervals
from tests.property_examples import examples
from tests.tacit.examples import METERED, query

EDGES = tuple(map(Fraction, (0, 1, 2, 4)))
HISTOGRAM = {
    **METERED,
    "function": "histogram",
    "bounds": ["0", "4"],
    "max_readings": 1,
    "edges": ["0", "1", "2", "4"],
    "percentiles": ["25", "50", "97.5"],
    "collusion": {"aggregators": 2},
    "min_participants": 10,
}


def asked(**changes: object) -> Query:
    return query(**{**HISTOGRAM, **changes})


@pytest.mark.parametrize(
    ("percentile", "counts", "value"),
    [
        ("50", (10, 20, 10), "1.5"),  # 20 of 40: 10 below edge 1, half of the 20 in the second bin
        ("25", (10, 20, 10), "1"),
        ("100", (10, 20, 10), "4"),
        ("50", (0, 0, 7), "3"),
        # Sums 0, 6, 4, 10: at edges 1 and 2 the middle of 6 and 4, so 5 is reached at edge 1.
        ("50", (6, -2, 6), "1"),
        ("60", (6, -2, 6), "2.4"),
        # Sums 0, -4, 6, 6: at edge 0 the middle of 0 and -4 is cut to 0.
        ("1", (-4, 10, 0), "1.01"),
        # Sums 0, 9, 9, 6: cut to the total of 6 at edge 1 already; 3 of 6 lies half way.
        ("50", (9, 0, -3), "0.5"),
    ],
)
def test_worked_examples(percentile: str, counts: tuple[int, ...], value: str) -> None:
    assert percentile_of(Fraction(percentile), counts, EDGES) == Fraction(value)


@examples(60)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(1, 99))
def test_without_noise_it_is_the_interpolated_distribution(counts: list[int], p: int) -> None:
    edges = [Fraction(place**2, 3) for place in range(len(counts) + 1)]
    expected = np.interp(p / 100 * sum(counts), [0, *np.cumsum(counts)], list(map(float, edges)))
    value = percentile_of(Fraction(p), counts, edges)
    assert math.isclose(float(value), float(expected), rel_tol=1e-12)


@examples(80)
@given(st.lists(st.integers(-30, 50), min_size=1, max_size=12), st.floats(0, 40))
def test_percentiles_rise_and_lie_in_their_intervals(counts: list[int], width: float) -> None:
    noise = CountNoise(width, width / 2)
    edges = list(map(Fraction, range(len(counts) + 1)))
    values = [percentile_of(Fraction(p), counts, edges) for p in (1, 20, 50, 80, 99)]
    if sum(counts) < 1:
        assert values == [None] * 5
        assert percentile_interval(Fraction(50), counts, edges, noise) is None
        return
    known = [value for value in values if value is not None]
    assert known == sorted(known) and edges[0] <= known[0] and known[-1] <= edges[-1]
    if min(counts) >= 0:
        for p, value in zip((1, 20, 50, 80, 99), known, strict=True):
            interval = percentile_interval(Fraction(p), counts, edges, noise)
            assert interval is not None and interval.low <= value <= interval.high


@pytest.mark.parametrize("percentile", [5, 50, 95])
def test_intervals_cover_the_percentile(percentile: int) -> None:
    """400 histograms of 3,000 readings in 40 bins, Laplace noise of scale 8. An interval that
    covers in exactly 95 of 100 cases has more than 35 misses with a chance below 0.001; without
    its reach it has more, at the percentile where bins have few readings."""
    random = np.random.default_rng(7)
    edges = [Fraction(place, 4) for place in range(41)]
    readings = np.minimum(random.gamma(2, 1.2, 3000), 9.99)
    counts = np.bincount((readings * 4).astype(int), minlength=40)
    true = np.sort(readings)[math.ceil(percentile / 100 * 3000) - 1]
    # P(|Laplace| > w) = exp(-w / 8) = 0.05
    wide = CountNoise(8 * math.log(20), 8 * math.sqrt(2))
    misses, narrow = 0, 0
    for _ in range(400):
        noisy = (counts + np.rint(random.laplace(0, 8, 40)).astype(int)).tolist()
        for noise in (wide, CountNoise(0, 0)):
            interval = percentile_interval(Fraction(percentile), noisy, edges, noise)
            missed = interval is None or not interval.low <= true <= interval.high
            misses += missed and noise is wide
            narrow += missed and noise is not wide
    assert misses <= 35
    assert narrow > 35 or percentile < 95


@pytest.mark.parametrize("scale", [0.15, 0.25, 0.4, 1, 4])
@pytest.mark.parametrize(("below", "above"), [(0, 1), (1, 0), (20, 20), (2, 38), (39, 1)])
@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.95])
def test_a_rank_errs_by_more_than_its_reach_in_few_cases(
    scale: float, below: int, above: int, share: float
) -> None:
    """Exactly, by convolution, for discrete Laplace noise: at most 2.5 of 100 on either side. Small
    scales matter: there one count is mostly exact, and 40 together are not."""
    ratio = math.exp(-1 / scale)
    steps = np.arange(-round(40 * scale) - 20, round(40 * scale) + 21)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(steps)
    half_width = next(w for w in range(steps.size) if law[np.abs(steps) > w].sum() <= 0.05)
    noise = CountNoise(half_width, math.sqrt((law * steps**2).sum()))

    def together(bins: int) -> tuple[np.ndarray, np.ndarray]:
        total = np.ones(1)
        for _ in range(bins):
            total = np.convolve(total, law)
        values = np.arange(total.size) - total.size // 2
        likely = total > 1e-12
        return values[likely], total[likely]

    (low, p), (high, q) = together(below), together(above)
    moved = (1 - share) * low[:, None] - share * high[None, :]
    over = moved > noise.reach(share, below, above) + 1e-9
    assert (p[:, None] * q[None, :])[over].sum() <= 0.025


def test_a_result_has_its_percentiles_by_name() -> None:
    result = decode(asked(), np.array([10, 20, 10]))
    assert result == {
        "histogram": ["10", "20", "10"],
        "p25": "1",
        "p50": "1.5",
        "p97.5": "3.8",
    }
    assert percentile_name(Fraction("97.5")) == "p97.5"
    empty = decode(asked(), np.array([1, -2, 1]))
    assert [empty["p25"], empty["p97.5"]] == [None, None]
    assert empty["reason"] == "the noisy count is below 1"


def test_the_report_states_the_rank_and_then_the_interval() -> None:
    query = asked()
    error = error_statement(query, 100)
    counts = error["parts"][0]
    width, deviation = counts["interval"]["half_width"], counts["standard_deviation"]
    noise = CountNoise(float(width), float(deviation))
    ranks = [float(row["rank"]) for row in error["percentiles"]]
    expected = [rank_half_width(Fraction(p), 3, 100, noise) for p in ("25", "50", "97.5")]
    assert ranks == pytest.approx(expected, rel=1e-3)
    assert expected[1] == pytest.approx((noise.half_width * math.sqrt(3) / 2 + 0.5) / 100)
    assert sum("The rank of p" in sentence for sentence in error["sentences"]) == 3
    released = with_intervals(error, query, [400, 500, 100])
    assert released["percentiles"][1] == {**error["percentiles"][1], "low": "1", "high": "2"}
    nothing = with_intervals(error, query, [0, 0, 0])
    assert nothing["percentiles"][1]["low"] is None


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"percentiles": ["50", "5"]}, "must rise strictly"),
        ({"percentiles": ["0"]}, "between 0 and 100"),
        ({"percentiles": ["100"]}, "between 0 and 100"),
        ({"percentiles": ["33.3333333"]}, "at most six decimals"),
        ({"percentiles": []}, "at least 1"),
        ({"function": "sum", "edges": None}, "only a histogram has percentiles"),
    ],
)
def test_what_is_refused(changes: dict[str, object], rule: str) -> None:
    with pytest.raises(ValidationError, match=rule):
        asked(**changes)
