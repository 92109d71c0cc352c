"""The error of a mean and of a variance, quotients of noisy parts (spec: aggregation, section 7).

With the sum S of N centred readings (|S| <= h N), their squares Q (at most h^2 N), and the noise
z_s, z_q, z_n of these and of N, the mean S/N and the variance Q/N - (S/N)^2 are off by

    (z_s - S/N z_n) / (N + z_n)    and, but for terms of second order,
    (z_q - 2 S/N z_s + (2 (S/N)^2 - Q/N) z_n) / (N + z_n),    |2 (S/N)^2 - Q/N| <= h^2.

Figures are at most those of readings at a bound, and take N + z_n as N - b, where |z_n| <= b holds
with the chance of an interval. Half-widths hold for all parts together (union bound) and count the
terms of second order; where b reaches N there are none. N is `max_readings` readings of everyone:
with fewer of them errors are larger in proportion.

Rounding moves a mean by at most half a step, as it moves each reading; and a standard deviation,
which is a norm, as much: the variance by at most step h + step^2 / 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tacit.accounting.error import all_draws, mean_absolute, standard_deviation
from tacit.accounting.error_law import absolute_quantiles
from tacit.accounting.rounding import Rounding, roundings
from tacit.query.functions import parts
from tacit.query.query import Query
from tacit.query.words import Function

LEVEL: Final = Fraction(95, 100)


@dataclass(frozen=True, slots=True)
class AverageError:
    """The error of a mean or a variance, in its own unit: with the chance `LEVEL` at most
    `half_width`; `rounding` is in addition."""

    name: str
    mean_absolute: float
    standard_deviation: float
    half_width: float
    rounding: Rounding


def averages(query: Query, participants: int) -> tuple[AverageError, ...] | None:
    """The errors of the averages among a query's results, none for most functions; None where the
    noise of the count is as large as the count."""
    if query.function not in (Function.MEAN, Function.VARIANCE):
        return ()
    names = [part.name for part in parts(query)]
    worth = dict(zip(names, (float(part.value) for part in parts(query)), strict=True))
    draws = {name: all_draws(query, participants, place) for place, name in enumerate(names)}
    used = ("sum", "count") if query.function is Function.MEAN else ("sum", "squares", "count")
    level = float(1 - (1 - LEVEL) / len(used))
    most = {name: absolute_quantiles(draws[name], (level,))[0] * worth[name] for name in used}
    average = {name: mean_absolute(draws[name]) * worth[name] for name in used}
    deviation = {name: standard_deviation(draws[name]) * worth[name] for name in used}
    count = participants * query.max_readings
    least = count - most["count"]
    if least <= 0:
        return None
    rounded = dict(zip(names, roundings(query, participants), strict=True))
    bounds = rounded["sum"].bounds
    assert bounds is not None
    half = (bounds[1] - bounds[0]) / 2
    h, of_mean = float(half), rounded["sum"].worst / count

    def figures(weights: dict[str, float]) -> tuple[float, float]:
        return (
            sum(weight * average[name] for name, weight in weights.items()) / least,
            math.hypot(*(weight * deviation[name] for name, weight in weights.items())) / least,
        )

    width = (most["sum"] + h * most["count"]) / least
    mean = AverageError(
        "mean",
        *figures({"sum": 1, "count": h}),
        width,
        Rounding(of_mean, rounded["sum"].typical / count, bounds),
    )
    if query.function is Function.MEAN:
        return (mean,)
    of_variance = 2 * of_mean * half + of_mean**2
    squares = (most["squares"] + h**2 * most["count"]) / least
    variance = AverageError(
        "variance",
        *figures({"squares": 1, "sum": 2 * h, "count": h**2}),
        squares + width * (2 * h + width),
        Rounding(of_variance, rounded["squares"].typical / count, bounds),
    )
    return mean, variance
