"""Pictures of the console: charts as SVG, and the ladder of who would have to collude to learn
what.

Pictures as SVG, written from numbers alone: colours are classes, so they follow the page.

Each picture is a pure function and comes with one sentence that says the same; two sizes are
drawn, of which the style sheet shows the one that fits. Spec: console, sections 2 and 4.3.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from tacit.accounting.scenarios import Scenario
from tacit.report.figures import of_a_hundred
from tacit.report.model import Pooled, VerifiedStatement

_WIDE: Final = 640.0
_NARROW: Final = 320.0
_BASE: Final = 150.0
_TOP: Final = 16.0
_HIGHEST: Final = 140.0
_MOST_COLUMNS: Final = 60
_TICKS: Final = 5
_STEPS: Final = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Dot:
    """One equally likely position: its value, and whether it lies in the shaded interval."""

    value: float
    inside: bool


def places(centre: float, upper: Sequence[float], half_width: float) -> tuple[Dot, ...]:
    """The likely positions of a true value around a released one, from the upper half of the
    error's quantiles, which mirror; ascending."""
    errors = sorted([*(-error for error in upper), *upper])
    return tuple(Dot(centre + error, abs(error) <= half_width) for error in errors)


def dots(
    centre: float, upper: Sequence[float], half_width: float, *, unit: str, sentence: str
) -> Markup:
    """Forty equally likely positions of the true value, stacked if they coincide."""
    dot_places = places(centre, upper, half_width)
    return _both("dots", sentence, lambda width: _dots(dot_places, centre, half_width, unit, width))


def _dots(
    dots_placed: Sequence[Dot], centre: float, half_width: float, unit: str, width: float
) -> _Drawn:
    ends = [centre - half_width, centre + half_width]
    scale = _Scale.around([*(dot.value for dot in dots_placed), *ends], width)
    radius = 7.0 if width > _NARROW else 4.5
    tallest = max(Counter(_columns(dots_placed, scale, radius)).values())
    radius = min(radius, _HIGHEST / (2 * tallest))
    columns = _columns(dots_placed, scale, radius)
    base = _TOP + 2 * radius * (max(Counter(columns).values()) + 1)
    stacked: Counter[int] = Counter()
    circles = []
    for dot, column in zip(dots_placed, columns, strict=True):
        height = base - radius - 2 * radius * stacked[column]
        stacked[column] += 1
        circles.append(
            Markup('<circle class="dot {}" cx="{}" cy="{}" r="{}"/>').format(
                "in" if dot.inside else "out",
                _n(column * 2 * radius),
                _n(height),
                _n(radius - 0.5),
            )
        )
    left, right = (scale.x(end) for end in ends)
    shade = Markup('<rect class="shade" x="{}" y="{}" width="{}" height="{}" rx="4"/>').format(
        _n(left), _n(_TOP), _n(max(right - left, 0)), _n(base - _TOP)
    )
    middle = Markup('<line class="released" x1="{0}" x2="{0}" y1="4" y2="{1}"/>').format(
        _n(scale.x(centre)), _n(base)
    )
    bracket = Markup('<path class="bracket" d="M{0} {2}v8M{1} {2}v8M{0} {3}H{1}"/>').format(
        _n(left), _n(right), _n(base + 28), _n(base + 32)
    )
    drawn = shade + Markup().join(circles) + middle + _axis(scale, base, unit) + bracket
    return _Drawn(drawn, base + 42)


def _columns(dots_placed: Sequence[Dot], scale: _Scale, radius: float) -> list[int]:
    """In which column of dots of this size each falls."""
    return [round(scale.x(dot.value) / (2 * radius)) for dot in dots_placed]


def bars(
    values: Sequence[float], half_widths: Sequence[float], *, labels: Sequence[str], sentence: str
) -> Markup:
    """A bar for each value, with a whisker for its error; at most as many as can be
    distinguished."""
    shown = list(zip(values, half_widths, strict=True))[:_MOST_COLUMNS]
    return _both("bars", sentence, lambda width: _bars(shown, labels, width))


def _bars(values: Sequence[tuple[float, float]], labels: Sequence[str], width: float) -> _Drawn:
    least = min(0.0, *(value - half_width for value, half_width in values))
    most = max(0.0, *(value + half_width for value, half_width in values))
    span = (most - least) or 1.0

    def y(value: float) -> float:
        return _BASE - (value - least) / span * (_BASE - _TOP)

    room = width / max(len(values), 1)
    parts = [
        Markup('<line class="axis" x1="0" x2="{0}" y1="{1}" y2="{1}"/>').format(_n(width), _n(y(0)))
    ]
    every = max(1, math.ceil(len(values) / (8 if width > _NARROW else 4)))
    for index, (value, half_width) in enumerate(values):
        middle = (index + 0.5) * room
        top, bottom = min(y(value), y(0)), max(y(value), y(0))
        parts.append(
            Markup('<rect class="bar" x="{}" y="{}" width="{}" height="{}"/>').format(
                _n(middle - room * 0.35), _n(top), _n(room * 0.7), _n(bottom - top)
            )
        )
        parts.append(
            Markup('<line class="whisker" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                _n(middle), _n(y(value + half_width)), _n(y(value - half_width))
            )
        )
        if index % every == 0 and index < len(labels):
            parts.append(_text(max(middle, 18.0), _BASE + 18, labels[index]))
    return _Drawn(Markup().join(parts), _BASE + 30)


def band(
    values: Sequence[float],
    half_width: float,
    *,
    start: datetime,
    end: datetime,
    unit: str,
    sentence: str,
) -> Markup:
    """A value for each of the equal parts of a window, as a line within the band of its noise."""
    return _both("band", sentence, lambda width: _band(values, half_width, start, end, unit, width))


def _band(
    values: Sequence[float],
    half_width: float,
    start: datetime,
    end: datetime,
    unit: str,
    width: float,
) -> _Drawn:
    left, bottom = 52.0, 190.0
    least = min(0.0, min(values) - half_width)
    most = max(0.0, max(values) + half_width)
    span = (most - least) or 1.0
    room = (width - left - 12) / len(values)

    def y(value: float) -> float:
        return bottom - (value - least) / span * (bottom - _TOP)

    def x(at: datetime) -> float:
        return left + (at - start) / (end - start) * (width - left - 12)

    def stairs(by: float) -> Markup:
        """From the first value, moved by so much, to the end of the last."""
        corners = [
            Markup("{}{} {}H{}").format(
                "M" if place == 0 else "L",
                _n(left + place * room),
                _n(y(value + by)),
                _n(left + (place + 1) * room),
            )
            for place, value in enumerate(values)
        ]
        return Markup().join(corners)

    shades = [
        Markup('<rect class="shade" x="{}" y="{}" width="{}" height="{}"/>').format(
            _n(left + place * room),
            _n(y(value + half_width)),
            _n(room),
            _n(y(value - half_width) - y(value + half_width)),
        )
        for place, value in enumerate(values)
    ]
    parts = []
    for tick in _Scale(least, most, width).ticks():
        parts.append(
            Markup('<line class="axis" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>').format(
                _n(left), _n(width - 12), _n(y(tick))
            )
        )
        parts.append(_text(left - 6, y(tick) + 4, f"{tick:,.6g}", "end"))
    for at, label in _dates(start, end, 9 if width > _NARROW else 4):
        parts.append(_text(min(x(at), width - 24), bottom + 18, label))
    line = Markup('<path class="spent" d="{}"/>').format(stairs(0.0))
    words = _text(width - 2, 12, f"{unit}, UTC", "end")
    return _Drawn(Markup().join([*shades, *parts]) + line + words, bottom + 28)


@dataclass(frozen=True)
class _Drawn:
    """A picture of some width, and its height."""

    content: Markup
    height: float


@dataclass(frozen=True)
class _Scale:
    """From values to places between two margins."""

    low: float
    high: float
    width: float
    margin: float = 28.0

    @classmethod
    def around(cls, values: Sequence[float], width: float) -> _Scale:
        """The range around these values; if it is too narrow for distinct numbers, its width
        becomes one."""
        low, high = min(values), max(values)
        largest = max(abs(low), abs(high), 1e-100)
        if high - low <= largest * 1e-9:
            low, high = low - largest, high + largest
        return cls(low, high, width)

    def x(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.margin + share * (self.width - 2 * self.margin)

    def ticks(self) -> list[float]:
        """Round values between the ends, few enough to be read."""
        most = _TICKS if self.width > _NARROW else 3
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(step * power for step in _STEPS if step * power >= rough * 0.999)
        first = math.ceil(self.low / step)
        return [step * index for index in range(first, math.floor(self.high / step) + 1)]


def _axis(scale: _Scale, base: float, unit: str) -> Markup:
    line = Markup('<line class="axis" x1="0" x2="{0}" y1="{1}" y2="{1}"/>').format(
        _n(scale.width), _n(base)
    )
    ticks = scale.ticks()
    texts = [_text(scale.x(tick), base + 18, f"{tick:,.10g}") for tick in ticks]
    return line + Markup().join(texts) + _text(scale.width - 2, 14, unit, "end")


def _text(x: float, y: float, words: str, anchor: str = "middle") -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
        _n(x), _n(y), anchor, words
    )


def _both(kind: str, sentence: str, draw: Callable[[float], _Drawn]) -> Markup:
    """The picture for wide and for narrow screens; one of them is hidden."""
    pictures = []
    for size, width in (("wide", _WIDE), ("narrow", _NARROW)):
        drawn = draw(width)
        pictures.append(
            Markup(
                '<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
            ).format(size, _n(width), _n(drawn.height), sentence, drawn.content)
        )
    return Markup('<figure class="chart {}">{}<figcaption>{}</figcaption></figure>').format(
        kind, Markup().join(pictures), sentence
    )


def _n(value: float) -> str:
    """A coordinate: finite, short. Raises ValueError for any other."""
    if not math.isfinite(value):
        raise ValueError("a picture has finite coordinates")
    return f"{value:.1f}".removesuffix(".0")


Course = Sequence[tuple[datetime, float]]
"""Instants, which rise, and what there was from each on."""


def burn_down(
    spent: Course, coming: Course, *, most: float, ends: datetime, used_up: bool, sentence: str
) -> Markup:
    """What was left of a limit of `most` until now, the last instant of `spent`, and what will
    be: solid, then dashed until `ends`, or until nothing is left (`used_up`)."""
    return _both(
        "burn-down",
        sentence,
        lambda width: _burn_down(spent, coming, most or 1.0, ends, used_up, width),
    )


def _burn_down(
    spent: Course, coming: Course, most: float, ends: datetime, used_up: bool, width: float
) -> _Drawn:
    left, bottom = 44.0, 190.0
    start, end = spent[0][0], max(ends, spent[-1][0] + timedelta(minutes=1))
    span_s = (end - start).total_seconds()

    def place(at: datetime, value: float) -> tuple[float, float]:
        share = (at - start).total_seconds() / span_s
        height = min(max(value / most, 0.0), 1.0)
        return left + share * (width - left - 12), bottom - height * (bottom - _TOP)

    parts = []
    for value in (0.0, *_Scale(0, most, width).ticks()):
        x, y = place(start, value)
        parts.append(
            Markup('<line class="axis" x1="{0}" x2="{1}" y1="{2}" y2="{2}"/>').format(
                _n(x), _n(width - 12), _n(y)
            )
        )
        parts.append(_text(x - 6, y + 4, f"{value:,.6g}", "end"))
    for at, label in _dates(start, end, 7 if width > _NARROW else 3):
        parts.append(_text(place(at, 0)[0], bottom + 18, label))
    solid = _stairs([place(*point) for point in spent])
    now, last = place(*spent[-1]), place(spent[-1][0], 0)
    first = place(*spent[0])
    parts.append(
        Markup('<path class="shade" d="{}V{}H{}Z"/>').format(solid, _n(last[1]), _n(first[0]))
    )
    parts.append(Markup('<path class="spent" d="{}"/>').format(solid))
    dashed = _stairs([now, *(place(*point) for point in coming)])
    parts.append(Markup('<path class="coming" d="{}"/>').format(dashed))
    parts.append(
        Markup('<line class="today" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
            _n(now[0]), _n(_TOP), _n(bottom)
        )
    )
    parts.append(Markup('<circle class="now" cx="{}" cy="{}" r="5"/>').format(*map(_n, now)))
    if used_up and coming:
        x, y = place(coming[-1][0], 0)
        parts.append(Markup('<circle class="used-up" cx="{}" cy="{}" r="6"/>').format(_n(x), _n(y)))
        side = "end" if x > width / 2 else "start"
        parts.append(_text(x + (-10 if side == "end" else 10), y - 10, "used up", side))
    side = "end" if now[0] > width / 2 else "start"
    parts.append(_text(now[0] + (-6 if side == "end" else 6), _TOP + 8, "now", side))
    return _Drawn(Markup().join(parts), bottom + 28)


def _stairs(points: Sequence[tuple[float, float]]) -> Markup:
    """A path that keeps a value until the next point."""
    (x, y), rest = points[0], points[1:]
    steps = [Markup("M{} {}").format(_n(x), _n(y))]
    steps += [Markup("H{}V{}").format(_n(x), _n(y)) for x, y in rest]
    return Markup().join(steps)


_DAY: Final = timedelta(days=1)


def _dates(start: datetime, end: datetime, most: int) -> list[tuple[datetime, str]]:
    """Round instants between two, at most this many, and what to call each."""
    span = end - start
    if span > 90 * _DAY:
        months = [start.year * 12 + start.month + number for number in range(span.days // 28)]
        firsts = [datetime(m // 12, m % 12 + 1, 1, tzinfo=start.tzinfo) for m in months]
        inside = [first for first in firsts if first <= end]
        every = math.ceil(len(inside) / most)
        return [(month, f"{month:%b}") for month in inside[::every]]
    step = next(
        (
            step
            for step in (_DAY / 24, _DAY / 8, _DAY / 4, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY)
            if span / step <= most
        ),
        30 * _DAY,
    )
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    number = math.ceil((start - midnight) / step)
    labels = []
    while (at := midnight + number * step) <= end:
        labels.append((at, f"{at:%H:%M}" if step < _DAY else f"{at.day} {at:%b}"))
        number += 1
    return labels


# The ladder: who would have to work together to learn what, one rung for each group.
#
# Spec: console, section 4.2. It is a list, and so its own table.

_LAST: Final = 1 << 62


@dataclass(frozen=True)
class Rung:
    """One group. `hundred`: the largest number of right guesses among 100; `protected`: whether
    any bound holds; `promised`: whether the query promises protection down to here."""

    line: VerifiedStatement
    pooled: Pooled
    sentence: str
    hundred: int
    protected: bool
    promised: bool


def ladder(verified: Sequence[VerifiedStatement], participants: int | None) -> tuple[Rung, ...]:
    """The rungs of the lines of a round or query, the smallest group first.

    `participants`: the curators of a round; None before there are any. The promised line is a
    rung of its own only if no larger group has the same figures: otherwise the promise reaches
    down to that group. A query that promises nothing has no such rung. Lines without a group, as
    jobs have them, make none.
    """
    lines = [line for line in verified if line.pooled is not None]
    promised = next((line for line in lines if line.key == Scenario.ASSUMED.value), None)
    other_lines = _distinct(line for line in lines if line is not promised)
    down_to = None
    if promised is not None and promised.model != "none":
        same = [line for line in other_lines if _figures(line) == _figures(promised)]
        down_to = next((line for line in reversed(same) if _within(promised, line)), promised)
        if down_to is promised:
            other_lines = _distinct([*other_lines, promised])
    rungs, before = [], None
    for line in other_lines:
        assert line.pooled is not None
        rungs.append(
            Rung(
                line,
                line.pooled,
                _sentence(line.pooled, before, participants),
                of_a_hundred(line.guess),
                line.model != "none",
                line is down_to,
            )
        )
        before = line.pooled
    return tuple(rungs)


def promise(rung: Rung) -> str:
    """What the query promises at this rung."""
    words = "This query promises protection down to here."
    honest = rung.pooled.of - rung.pooled.aggregators
    if rung.pooled.of > 1 and honest == 1:
        words += f" One honest aggregator of {rung.pooled.of} is enough."
    elif rung.pooled.of > 1 and honest > 1:
        words += f" {honest} honest aggregators of {rung.pooled.of} are enough."
    return words


def _distinct(lines: Iterable[VerifiedStatement]) -> list[VerifiedStatement]:
    """One line of each group, the smallest group first."""
    by_group = {_order(line): line for line in lines}
    return [by_group[group] for group in sorted(by_group)]


def _figures(line: VerifiedStatement) -> tuple[str | None, str | None, str | None]:
    return line.epsilon, line.delta, line.guess


def _within(smaller: VerifiedStatement, larger: VerifiedStatement) -> bool:
    """Whether all of one group belong to another."""
    assert smaller.pooled is not None
    assert larger.pooled is not None
    fewer = smaller.pooled.aggregators <= larger.pooled.aggregators
    return fewer and _curators(smaller.pooled) <= _curators(larger.pooled)


def _curators(pooled: Pooled) -> int:
    return _LAST if isinstance(pooled.curators, str) else pooled.curators


def _order(line: VerifiedStatement) -> tuple[int, int]:
    assert line.pooled is not None
    return line.pooled.aggregators, _curators(line.pooled)


def _sentence(pooled: Pooled, before: Pooled | None, participants: int | None) -> str:
    """The members of a group; if it has the same curators as the rung before, only the
    additions."""
    curators = aggregators = ""
    if pooled.curators == "all-others":
        curators = "all other curators" if participants is None else _others(participants - 1)
    elif pooled.curators:
        curators = f"{pooled.curators} other curator{'s' if pooled.curators != 1 else ''}"
    if pooled.aggregators == pooled.of:
        aggregators = "the aggregator" if pooled.of == 1 else f"all {pooled.of} aggregators"
    elif pooled.aggregators:
        aggregators = f"{pooled.aggregators} of the {pooled.of} aggregators"
    if not curators and not aggregators:
        return "Anyone who reads this result"
    if aggregators and curators and before is not None and before.curators == pooled.curators:
        return f"… and {aggregators}"
    return f"… with {' and '.join(scope for scope in (curators, aggregators) if scope)}"


def _others(count: int) -> str:
    match count:
        case 0:
            return "no other curator, as there is none"
        case 1:
            return "the one other curator"
        case _:
            return f"all {count} other curators"
