"""Streams of events: what they are by their rates, and that a seed repeats them.

Statistical statements are made at a fixed seed; each would fail by chance for less than one seed
in a million (five standard deviations).

The load model has the statistics of the households it was fitted to.

Plots are drawn as they say, and the same data give the same file.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.drawing import can_draw
from simulation.plots import Line, Mark, Panel, Plot, draw
from simulation.populations import Rates, RoundEvents, household_load, quiet, stream
from tacit.randomness import SeededRandom
from tests.property_examples import examples

MANY = 100_000
DEVIATIONS = 5


def first(rates: Rates, rounds: int, curators: int = MANY, seed: int = 1) -> list[RoundEvents]:
    return list(islice(stream(curators, rates, SeededRandom(seed)), rounds))


def about(count: int, among: int, rate: float) -> bool:
    return abs(count - among * rate) <= DEVIATIONS * np.sqrt(among * rate * (1 - rate))


def test_nothing_happens_without_rates() -> None:
    for number, event in enumerate(first(Rates(), 3, curators=5)):
        expected = quiet(5, number)
        for name in vars(expected):
            assert np.array_equal(getattr(event, name), getattr(expected, name)), name


def test_events_are_as_frequent_as_their_rates() -> None:
    rates = Rates(
        outside=0.3,
        join=0.25,
        leave=0.05,
        refresh=0.02,
        dropout=0.04,
        straggler=0.1,
        liar=0.01,
        non_compliant=0.03,
        straggler_s=7.0,
    )
    start, event = first(rates, 2)
    inside = int(start.enrolled.sum())
    assert about(MANY - inside, MANY, 0.3)
    assert about(int(event.joined.sum()), MANY - inside, 0.25)
    assert about(int(event.left.sum()), inside, 0.05)
    enrolled, sending = int(event.enrolled.sum()), int(event.sends.sum())
    assert about(int(event.refreshed.sum()), enrolled, 0.02)
    assert about(enrolled - sending, enrolled, 0.04)
    assert about(int((event.late_s > 0).sum()), sending, 0.1)
    assert about(int(event.lying.sum()), sending, 0.01)
    assert about(int(event.non_compliant.sum()), sending, 0.03)
    late = event.late_s[event.late_s > 0]
    assert abs(late.mean() - 7.0) <= DEVIATIONS * 7.0 / np.sqrt(late.size)


RATE = st.floats(0, 1)


@examples(50)
@given(
    st.builds(
        Rates,
        outside=RATE,
        join=RATE,
        leave=RATE,
        refresh=RATE,
        dropout=RATE,
        straggler=RATE,
        liar=RATE,
        non_compliant=RATE,
    ),
    st.integers(1, 40),
    st.integers(0, 2**32),
)
def test_events_follow_from_each_other(rates: Rates, curators: int, seed: int) -> None:
    before = None
    for event in first(rates, 4, curators, seed):
        if before is not None:
            assert not (event.joined & before.enrolled).any()
            assert not (event.left & ~before.enrolled).any()
            expected = (before.enrolled | event.joined) & ~event.left
            assert np.array_equal(event.enrolled, expected)
        assert not (event.sends & ~event.enrolled).any()
        for members in (event.lying, event.non_compliant, event.late_s > 0):
            assert not (members & ~event.sends).any()
        assert not (event.refreshed & ~event.enrolled).any()
        assert event.readings_of.min() >= 0
        assert event.readings_of.max() < curators
        before = event


@pytest.mark.parametrize("wrong", [{"join": -0.1}, {"dropout": 1.5}, {"straggler_s": -1.0}])
def test_a_rate_out_of_its_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Rates(**wrong)


@pytest.fixture(scope="module")
def load() -> np.ndarray:
    return household_load(400, 49, SeededRandom(1))


@pytest.mark.parametrize(
    ("statistic", "published"),
    [
        (np.mean, 0.5251),
        (lambda x: np.quantile(x, 0.25), 0.05),
        (np.median, 0.191),
        (lambda x: np.quantile(x, 0.75), 0.66),
        (lambda x: np.quantile(x, 0.95), 1.847),
        (lambda x: (x == 0).mean(), 0.0544),
    ],
    ids=["mean", "quartile 1", "median", "quartile 3", "95 %", "zeros"],
)
def test_cells(load: np.ndarray, statistic: object, published: float) -> None:
    # Within a fifth, or 0.04 kWh: a model for demonstrations, not a forecast.
    assert statistic(load) == pytest.approx(published, rel=0.2, abs=0.04)  # type: ignore[operator]


X = (1.0, 10.0, 100.0)
LINES = (
    Line("theirs", X, (3.0, 2.0, 1.0), (3.1, 2.1, 1.1)),
    Line("ours", X, (2.0, 1.5, 1.0), kind="ours"),
    Line("floor", (1.0, 100.0), (0.5, 0.5), kind="bound"),
)
MARKS = (Mark(5.0, "from here"), Mark(50.0, "from here"), Mark(20.0, "another"))
PLOT = Plot(
    "two-panels",
    "A title",
    (
        Panel("(a)", "epsilon", "MAE (kWh)", LINES, "log", "log", MARKS),
        Panel("(b)", "epsilon", "MRE (share)", LINES[:1]),
    ),
)


def words(svg: Path) -> str:
    """Text that a plot was given; matplotlib leaves it as comments beside the glyphs."""
    return svg.read_text(encoding="utf-8")


def test_both_files_are_written_with_title_labels_and_one_legend(tmp_path: Path) -> None:
    assert can_draw()
    svg, png = draw(PLOT, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    ElementTree.parse(svg)  # well-formed
    text = words(svg)
    for word in ("A title", "epsilon", "MAE (kWh)", "MRE (share)", "floor", "another"):
        assert f"<!-- {word} -->" in text
    (tmp_path / "again").mkdir()
    assert draw(PLOT, tmp_path / "again")[0].read_bytes() == svg.read_bytes()
    # One legend for both panels, and one entry for marks of one name.
    for word in ("theirs", "ours", "from here"):
        assert text.count(f"<!-- {word} -->") == 1
