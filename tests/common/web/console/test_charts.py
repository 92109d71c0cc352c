"""Pictures: finite, inside their frame, and each with a sentence."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from common.web.console import charts

FINITE = st.floats(-1e12, 1e12)
WIDTHS = st.floats(0, 1e9)


def frames(picture: Markup) -> list[tuple[float, float, str]]:
    """(width, height, content) of each size."""
    found = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>(.*?)</svg>', picture, re.DOTALL)
    assert len(found) == 2
    return [(float(width), float(height), content) for width, height, content in found]


def inside(picture: Markup) -> None:
    """No number is infinite, no circle or box lies outside the frame."""
    assert "nan" not in picture
    assert "inf" not in picture.replace("info", "")
    for width, height, content in frames(picture):
        for x, y in re.findall(r'cx="([-\d.]+)" cy="([-\d.]+)"', content):
            assert 0 <= float(x) <= width
            assert 0 <= float(y) <= height
        for x, y, w, h in re.findall(
            r'<rect class="\w+" x="([-\d.]+)" y="([-\d.]+)" width="([-\d.]+)" height="([-\d.]+)"',
            content,
        ):
            assert float(x) >= -0.2
            assert float(x) + float(w) <= width + 0.2
            assert float(y) >= -0.2
            assert float(y) + float(h) <= height + 0.2


@given(FINITE, st.lists(WIDTHS, min_size=20, max_size=20), WIDTHS)
def test_dots(centre: float, upper: list[float], half_width: float) -> None:
    picture = charts.dots(centre, sorted(upper), half_width, unit="kWh", sentence="so it is")
    inside(picture)
    for _, _, content in frames(picture):
        assert content.count("<circle") == 40
    assert picture.count("so it is") == 3


def test_dots_outside_the_interval_are_those_beyond_its_half_width() -> None:
    upper = [float(step) for step in range(20)]
    picture = charts.dots(100.0, upper, 18.5, unit="kWh", sentence="")
    for _, _, content in frames(picture):
        assert content.count('class="dot out"') == 2
        assert content.count('class="dot in"') == 38


@given(st.lists(st.tuples(FINITE, WIDTHS), min_size=1, max_size=200))
def test_bars(bars: list[tuple[float, float]]) -> None:
    labels = [str(place) for place in range(len(bars))]
    values, half_widths = zip(*bars, strict=True)
    inside(charts.bars(values, half_widths, labels=labels, sentence="bars"))


def test_words_in_a_picture_are_only_words() -> None:
    evil = '"><img src=x onerror=alert(1)>'
    picture = charts.dots(0.0, [1.0] * 20, 1.0, unit=evil, sentence=evil)
    bars = charts.bars([1.0], [0.5], labels=[evil], sentence=evil)
    assert "<img" not in picture + bars


def test_no_picture_of_what_is_not_finite() -> None:
    with pytest.raises((ValueError, OverflowError)):
        charts.dots(float("inf"), [1.0] * 20, 1.0, unit="", sentence="")


NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
LEFT = st.floats(0, 100)


@given(
    st.lists(LEFT, min_size=1, max_size=60),
    st.lists(LEFT, max_size=60),
    st.integers(1, 4000),
    st.booleans(),
)
def test_burn_down(past: list[float], ahead: list[float], hours: int, used_up: bool) -> None:
    """Between a minute and years; nothing leaves the frame."""
    spent = [(NOW - timedelta(hours=hours) * step, left) for step, left in enumerate(past)][::-1]
    coming = [(NOW + timedelta(hours=hours) * step, left) for step, left in enumerate(ahead, 1)]
    ends = coming[-1][0] if coming else NOW
    picture = charts.burn_down(
        spent, coming, most=100.0, ends=ends, used_up=used_up, sentence="it lasts"
    )
    inside(picture)
    for width, height, content in frames(picture):
        assert content.count('class="used-up"') == (used_up and bool(coming))
        assert content.count('class="now"') == 1
        for x in map(float, re.findall(r"[MH]([-\d.]+)", content)):
            assert -0.2 <= x <= width + 0.2
        for y in map(float, re.findall(r"V([-\d.]+)", content)):
            assert -0.2 <= y <= height + 0.2
        labels = re.findall(r'<text x="([\d.]+)" y="208', content)
        assert 0 <= len(labels) <= 9
        assert labels == sorted(labels, key=float)
