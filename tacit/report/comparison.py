"""Two released results compared: their difference and their ratio, with intervals for the noise.

Post-processing of published figures, so it costs no privacy. Both intervals come from the known law
of the noise of each sum, of which `SAMPLES` pairs (X, Y) are drawn here from a public seed:

- the difference of two figures a and b lies within the 95 % quantile of |X - Y|;
- a ratio r is inside the interval unless a - r b is further from 0 than the 95 % quantile of
  |X - r Y| (Fieller's test inverted). With x and y the deviations of the noise and
  r = x / y tan t, that is |a / x cos t - b / y sin t| <= h(t), where h(t) is the quantile of
  |X / x cos t - Y / y sin t|: one function for all coordinates, and even in t, since the laws are
  symmetric. The interval is finite where b is further from 0 than its own noise reaches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.expected_error import LEVEL, Layers, all_draws, standard_deviation
from tacit.accounting.loss.rounding import Draws
from tacit.errors import Error
from tacit.query.functions import part_unit, parts
from tacit.query.query import Query
from tacit.query.terms import Function
from tacit.randomness import PublicRandom

Floats = NDArray[np.float64]

SAMPLES: Final = 100_000
"""The coverage that they give is within .0014 of 95 %, at two deviations."""
_ANGLES: Final = 129
_HALVINGS: Final = 80
_LOW: Final = Context(prec=6, rounding=ROUND_FLOOR)
_HIGH: Final = Context(prec=6, rounding=ROUND_CEILING)


class NotComparable(Error):
    """Two results of which neither difference nor ratio has a meaning; the text says why."""


@dataclass(frozen=True)
class Released:
    """A released result: its query, how many curators answered, its figures (exact texts)."""

    query: Query
    participants: int
    result: Mapping[str, str | Sequence[str] | None]


def compare(
    first: Released, second: Released, *, per_curator: bool = False
) -> list[dict[str, Any]]:
    """A row for each figure that both released, exact.

    `first`, `second`, the `difference` first - second and the `ratio` first / second, each with
    `low` and `high`, which contain the figure without noise in 95 of 100 cases; None if the
    second is not distinguishable from 0. `per_curator`: each figure is first divided by its
    number of curators. As in a single result, the intervals do not include rounding. Raises
    NotComparable for a mean or a variance (a quotient of noisy parts), for different functions,
    units or lengths, and if nobody answered.
    """
    _check(first, second)
    random, rows = PublicRandom(1), []
    for index, part in enumerate(parts(first.query)):
        texts = [_listed(item.result.get(part.name)) for item in (first, second)]
        if len(texts[0]) != len(texts[1]):
            raise NotComparable(f"{part.name} has {len(texts[0])} and {len(texts[1])} figures")
        worths = [
            parts(item.query)[index].value / (item.participants if per_curator else 1)
            for item in (first, second)
        ]
        noises = [
            _samples(all_draws(item.query, item.participants, index), random) * float(worth)
            for item, worth in zip((first, second), worths, strict=True)
        ]
        deviations = [
            standard_deviation(all_draws(item.query, item.participants, index)) * float(worth)
            for item, worth in zip((first, second), worths, strict=True)
        ]
        counts = [item.participants if per_curator else 1 for item in (first, second)]
        mine, theirs = (
            [Fraction(text) / count for text in row]
            for row, count in zip(texts, counts, strict=True)
        )
        half_width = _quantile(noises[0] - noises[1])
        ratios = _ratio_intervals(
            np.array(mine, float), np.array(theirs, float), noises, deviations
        )
        listed = not isinstance(first.result[part.name], str)
        for place, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            low, high = (float(bound[place]) for bound in ratios)
            bounded = math.isfinite(low) and b != 0
            rows.append(
                {
                    "part": part.name,
                    "index": place if listed else None,
                    "unit": part_unit(first.query, part),
                    "first": a,
                    "second": b,
                    "difference": a - b,
                    "difference_low": _down(float(a - b) - half_width),
                    "difference_high": _up(float(a - b) + half_width),
                    "ratio": a / b if bounded else None,
                    "ratio_low": _down(low) if bounded else None,
                    "ratio_high": _up(high) if bounded else None,
                }
            )
    return rows


def compared_line(row: Mapping[str, Any]) -> str:
    """A row in words."""
    name = row["part"] if row["index"] is None else f"{row['part']}[{row['index']}]"
    unit = "" if row["unit"] == "1" else f" {row['unit']}"
    ratio = "no ratio: the second cannot be told from 0"
    if row["ratio"] is not None:
        ratio = f"ratio {float(row['ratio']):.4g} ({row['ratio_low']:f} to {row['ratio_high']:f})"
    return (
        f"{name}: {float(row['first']):.6g} and {float(row['second']):.6g}{unit}, difference "
        f"{float(row['difference']):.6g} ({row['difference_low']:f} to "
        f"{row['difference_high']:f}), {ratio}; intervals hold in 95 of 100 cases"
    )


def _check(first: Released, second: Released) -> None:
    for field in ("function", "unit", "edges", "columns", "measure"):
        mine, theirs = getattr(first.query, field), getattr(second.query, field)
        if mine != theirs:
            shown = "" if field == "columns" else f": {mine} and {theirs}"
            raise NotComparable(f"the {field} of the two queries differ{shown}")
    if first.query.function in (Function.MEAN, Function.VARIANCE):
        raise NotComparable(
            f"a {first.query.function} is a quotient of noisy parts: compare sums, per curator if "
            "the groups differ in size"
        )
    if [part.name for part in parts(first.query)] != [part.name for part in parts(second.query)]:
        raise NotComparable("the parts of the two queries have other names")
    if not first.participants or not second.participants:
        raise NotComparable("nobody answered one of them")


def _listed(figures: str | Sequence[str] | None) -> Sequence[str]:
    return (figures,) if isinstance(figures, str) else figures or ()


def _samples(layers: Layers, random: PublicRandom) -> Floats:
    """Draws (SAMPLES,) of the sum of all noise of a part, in ring units."""
    total, generator = np.zeros(SAMPLES), random.generator
    for layer in layers:
        if not isinstance(layer, Draws):
            total += np.rint(generator.normal(0, math.sqrt(layer.variance), SAMPLES))
            continue
        drawn = np.full(SAMPLES, layer.parties)
        if layer.probability != 1:
            drawn = generator.binomial(layer.parties, float(layer.probability), SAMPLES)
        weights, some = drawn * float(layer.weight), drawn > 0
        success = -math.expm1(-1 / layer.scale)
        for sign in (1, -1):
            total[some] += sign * generator.negative_binomial(weights[some], success)
    return total


def _quantile(noise: Floats) -> float:
    return float(np.quantile(np.abs(noise), float(LEVEL), method="higher"))


def _ratio_intervals(
    mine: Floats, theirs: Floats, noises: Sequence[Floats], deviations: Sequence[float]
) -> tuple[Floats, Floats]:
    """The least and the largest ratio of each pair of figures; infinite if unbounded."""
    scales = [deviation or 1.0 for deviation in deviations]
    x, y = (noise / scale for noise, scale in zip(noises, scales, strict=True))
    a, b = mine / scales[0], theirs / scales[1]
    angles = np.linspace(0, np.pi / 2, _ANGLES)
    reach = np.array([_quantile(x * math.cos(t) - y * math.sin(t)) for t in angles])

    def rejected(t: Floats) -> NDArray[np.bool_]:
        apart = np.abs(a * np.cos(t) - b * np.sin(t))
        return np.asarray(apart > np.interp(np.abs(t), angles, reach), bool)

    bounds = []
    for end in (-np.pi / 2, np.pi / 2):
        outside = np.full(a.size, end)
        # The estimate itself, which no test rejects.
        inside = np.arctan2(a * np.sign(b), np.abs(b))
        bounded = rejected(outside)
        for _ in range(_HALVINGS):
            middle = (outside + inside) / 2
            out = rejected(middle)
            outside, inside = np.where(out, middle, outside), np.where(out, inside, middle)
        ratio = scales[0] / scales[1] * np.tan(outside)
        bounds.append(np.where(bounded, ratio, np.sign(end) * np.inf))
    return bounds[0], bounds[1]


def _down(value: float) -> Decimal:
    return _LOW.create_decimal_from_float(value)


def _up(value: float) -> Decimal:
    return _HIGH.create_decimal_from_float(value)
