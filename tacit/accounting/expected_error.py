"""The error that a result will have, from public values only: rounding, noise and its quantiles,
quotients of noisy parts, and how large a group has to be.

Rounding (spec: aggregation, section 7): a reading becomes a whole number of steps of the
resolution, so it moves by at most half a step. The total of N readings moves by at most N times
that; if their errors are uniform and independent, its standard deviation is sqrt(N/12) steps.
Readings can agree in their rounding (all of 0.5 kWh at a resolution of 1 kWh), so only the first
figure holds for any data.

A reading y = x - centre of a variance also enters by its square: with |y| <= h and an error e,

    |(y + e)^2 - y^2| <= |e| (2 h + |e|),    deviation below h step / sqrt(3), mean step^2 / 12.

A vector within its L1 bound of B steps can pass it once its d entries are rounded, by at most
s = min(d, 2 B) / 2. It is then multiplied by B / (B + s) and truncated, which takes up to one more.

Integer bounds are the declared ones rounded outward, so that clamping moves no reading within the
declared bounds. What it does to other readings depends on data, and no figure here counts it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.loss.rounding import Draws, GaussianDraws
from tacit.protocol.federation import step_of
from tacit.query.encoding import Linear
from tacit.query.functions import (
    Part,
    VectorBlock,
    parts,
    reading_rule,
    reads_vectors,
    vector_blocks,
)
from tacit.query.mechanisms import GaussianPlan, aggregator_plan, curator_plan
from tacit.query.query import Query
from tacit.query.terms import MAX_CURATORS, Function
from tacit.units import NANO, UNITS

COARSE: Final = Fraction(1, 10)
"""The share of the noise from which on a report warns of rounding."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """By how much rounding can move one coordinate of a part, in the part's unit.

    At most `worst`; `typical` is the deviation of independent uniform errors. `bounds`: to what
    a reading is clamped, in the query's unit; None for a part that counts. `slots`: over how
    many coordinates the readings of a window are distributed, one coordinate each.
    """

    worst: Fraction
    typical: float
    bounds: tuple[Fraction, Fraction] | None = None
    slots: int = 1

    @property
    def average(self) -> Fraction:
        """The largest mean error over all coordinates: only one of them can be moved by `worst`."""
        return self.worst / self.slots

    def exceeds(self, mean_absolute: float) -> bool:
        """Whether rounding can move a figure, or the mean over slots, by more than `COARSE`
        times its noise, E|Z|."""
        return self.average > Fraction(mean_absolute) * COARSE


def roundings(query: Query, participants: int) -> tuple[Rounding, ...]:
    """The rounding of each part of a total over this many curators with `max_readings` readings
    each, in the order of `parts`."""
    count = participants * query.max_readings
    vectors = (Function.VECTOR_SUM, Function.TABLE)
    blocks = iter(vector_blocks(query) if query.function in vectors else ())
    errors = []
    for part in parts(query):
        match part.linear:
            case Linear.SUM | Linear.SQUARES:
                errors.append(_of_numbers(query, count, squares=part.linear is Linear.SQUARES))
            case Linear.VECTOR:
                errors.append(_of_block(query, next(blocks), count))
            case _:
                errors.append(Rounding(Fraction(0), 0.0))
    return tuple(errors)


def _of_numbers(query: Query, count: int, *, squares: bool) -> Rounding:
    rule, step = reading_rule(query), query.resolution
    centre = rule.centre / _nano(query)
    bounds = centre + rule.bounds.low * step, centre + rule.bounds.high * step
    error = _largest_error(query, step)
    if not squares:
        return Rounding(count * error, _deviation(error, step, count), bounds)
    width = 2 * rule.bounds.largest * step
    mean = float(count * step**2 / 12) if error else 0.0
    typical = math.hypot(mean, float(width) * _deviation(error, step, count))
    return Rounding(count * error * (width + error), typical, bounds)


def _of_block(query: Query, block: VectorBlock, count: int) -> Rounding:
    step, most = block.resolution, block.l1_bound
    bounds = max(block.bounds.low, -most) * step, min(block.bounds.high, most) * step
    if step_of(query) is not None:  # whose vectors are whole numbers of steps already
        return Rounding(Fraction(0), 0.0, bounds)
    error = _largest_error(query, step)
    if not reads_vectors(query):  # all of a window's errors together are shared out over the slots
        typical = _deviation(error, step, count) / math.sqrt(block.dimension)
        return Rounding(count * error, typical, bounds, block.dimension)
    worst, largest = error, Fraction(block.bounds.largest)
    if error and block.dimension > 1 and most < block.dimension * largest:
        over = Fraction(min(block.dimension, 2 * most), 2)
        worst += (min(largest, most + over) * over / (most + over) + 1) * step
    return Rounding(count * worst, _deviation(error, step, count), bounds)


def _nano(query: Query) -> Fraction:
    """Nano-units of the base unit, in which readings are stored, in one unit of the query."""
    return UNITS[query.unit].factor * NANO


def _largest_error(query: Query, step: Fraction) -> Fraction:
    """By how much rounding moves one reading at most. A step of one nano-unit, in which readings
    are stored, moves none."""
    return Fraction(0) if step * _nano(query) == 1 else step / 2


def _deviation(error: Fraction, step: Fraction, count: int) -> float:
    return float(step) * math.sqrt(count / 12) if error else 0.0


# The error of a released sum (spec: aggregation, sections 4, 7 and 9) is the noise of *all*
# parties, honest or not, and what rounding adds. Of the noise, in ring units:
#
# - R discrete Laplaces (or shares that add up to R) of scale b, in the limit of a fine resolution:
#   E|Z| = 2 b Gamma(R + 1/2) / (sqrt(pi) Gamma(R));
# - any integer X with a real characteristic function phi:
#   E|X| = 1/pi int_0^pi (1 - phi(t)) / (1 - cos t) dt,
#   since |x| = 1/pi int_0^pi (1 - cos x t) / (1 - cos t) dt for whole x (Fejer's kernel). For n
#   parties that draw with probability p, phi = (1 - p + p phi_1)^n, and for a share of weight r,
#   phi_1 = ((1-a)^2 / (1 - 2 a cos t + a^2))^r. In the continuous limit this is
#   (2/pi) int_0^infinity (1 - phi(t)) / t^2 dt;
# - variance: n p r 2a / (1-a)^2;
# - of Gaussian noise of deviation s (10 units or more; spec: profiles, section 3), whose sum is a
#   Gaussian but for less than e^-900: E|Z| = s sqrt(2 / pi), and quantiles of the normal law.

Floats = NDArray[np.float64]

_PANEL: Final = 0.5
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_NEAR_ZERO: Final = 1e-6


@dataclass(frozen=True, slots=True)
class PartError:
    """The error of each coordinate of one part, in `unit`s of the query's result: the first two
    figures are of its noise, and `rounding` is in addition."""

    part: str
    dimension: int
    mean_absolute: float
    standard_deviation: float
    rounding: Rounding


def laplace_mean_absolute(total: float, scale: float) -> float:
    """E|Z| of `total` Laplaces of this scale (total may be fractional), continuous."""
    return 2 * scale * math.exp(math.lgamma(total + 0.5) - math.lgamma(total)) / math.sqrt(math.pi)


Layers = tuple[Draws, ...] | tuple[GaussianDraws, ...]
"""The noise of one part: all of one law."""


def standard_deviation(layers: Layers) -> float:
    """Of the sum of all draws, in ring units."""
    return math.sqrt(sum(_variance(layer) for layer in layers))


def _variance(layer: Draws | GaussianDraws) -> float:
    if isinstance(layer, GaussianDraws):
        return float(layer.variance)
    rate = float(1 / layer.scale)
    one = 2 * math.exp(-rate) / math.expm1(-rate) ** 2
    return layer.parties * float(layer.probability * layer.weight) * one


@lru_cache(maxsize=1024)
def mean_absolute(layers: Layers) -> float:
    """E|X| of the sum of all draws, in ring units, to about 1e-9 of its value."""
    deviation = standard_deviation(layers)
    if deviation == 0:
        return 0.0
    laplaces = _laplaces(layers)
    if laplaces is None:
        return deviation * math.sqrt(2 / math.pi)
    start = min(_NEAR_ZERO / deviation, math.pi / 2)
    panels = math.ceil((math.log(math.pi) - math.log(start)) / _PANEL)
    edges = np.linspace(math.log(start), math.log(math.pi), panels + 1)
    half = (edges[1] - edges[0]) / 2
    t = np.exp((edges[:-1, np.newaxis] + half + half * _NODES).ravel())
    sine = np.sin(t / 2) ** 2
    exponent = np.zeros(t.size)
    for layer in laplaces:
        exponent += log_characteristic(layer, sine)
    integrand = -np.expm1(exponent) / (2 * sine) * t
    weights = np.tile(_WEIGHTS * half, panels)
    return float(integrand @ weights + deviation**2 * start) / math.pi


def _laplaces(layers: Layers) -> tuple[Draws, ...] | None:
    """These layers if none of them is Gaussian, else None."""
    laplaces = tuple(layer for layer in layers if isinstance(layer, Draws))
    return laplaces if len(laplaces) == len(layers) else None


def log_characteristic(layer: Draws, sine: Floats) -> Floats:
    """ln phi(t) of all draws of a layer, from sin^2(t/2)."""
    rate = float(1 / layer.scale)
    one = -float(layer.weight) * np.log1p(4 * math.exp(-rate) / math.expm1(-rate) ** 2 * sine)
    every: Floats = one
    if layer.probability != 1:
        every = np.log1p(float(layer.probability) * np.expm1(one))
    return layer.parties * every


def all_draws(query: Query, participants: int, index: int) -> Layers:
    """The noise of one part of a result: every curator's and every aggregator's.

    Under the paper stance scales are at most these.
    """
    layers, gaussians = [], []
    for plan, count in (
        (curator_plan(query), participants),
        (aggregator_plan(query), query.aggregators),
    ):
        if isinstance(plan, GaussianPlan):
            gaussians.append(GaussianDraws(count * plan.variances[index], count * plan.weight))
        elif plan is not None and plan.probability > 0:
            layers.append(Draws(plan.scales[index], count, plan.weight, plan.probability))
    return tuple(gaussians) or tuple(layers)


def added_up(layers: Layers, coordinates: int) -> Layers:
    """The noise of the sum of this many coordinates of a part, each with its own draws.

    If one coin decides for all coordinates of a party, all parties are assumed to draw. That is
    at least as wide: one more symmetric unimodal summand never narrows such a law.
    """
    if coordinates == 1:
        return layers
    laplaces = _laplaces(layers)
    if laplaces is None:
        return tuple(
            GaussianDraws(coordinates * layer.variance, layer.weight)
            for layer in layers
            if isinstance(layer, GaussianDraws)
        )
    return tuple(
        Draws(layer.scale, coordinates * layer.parties, layer.weight) for layer in laplaces
    )


def forecast(query: Query, participants: int) -> tuple[PartError, ...]:
    """The error of each part of a result over this many curators, in the query's unit.

    A part `squares` is in squared units, a count in ones.
    """
    forecasts = []
    rounded = roundings(query, participants)
    for index, (part, rounding) in enumerate(zip(parts(query), rounded, strict=True)):
        layers = all_draws(query, participants, index)
        worth = float(part.value)
        forecasts.append(
            PartError(
                part.name,
                part.dimension,
                mean_absolute(layers) * worth,
                standard_deviation(layers) * worth,
                rounding,
            )
        )
    return tuple(forecasts)


# Quantiles of the error of a released sum (spec: console, sections 4.3 and 7). The law of a sum of
# whole draws X is symmetric, and its characteristic function phi is real. On a circle of n points
#
#     P(X = x mod n) = 1/n sum_j phi(2 pi j / n) cos(2 pi j x / n),
#
# exactly; the circle is so large that what goes round it has a probability below 2^-50. A law that
# is wide is taken on a lattice that is as much coarser: an error of at most one step, below a
# hundredth of the deviation or of the widest scale.

_MOST_POINTS: Final = 1 << 15
_SCALES: Final = 40
_DEVIATIONS: Final = 9


@lru_cache(maxsize=256)
def absolute_quantiles(layers: Layers, levels: tuple[float, ...]) -> tuple[float, ...]:
    """For each level from 0 to 1 the least k with P(|X| <= k) at or above it, in ring units.

    X is the sum of all draws, 0 if there are none. By symmetry the quantile of X at 1/2 +
    level/2 is that of |X| at `level`. Raises ValueError for a level that is not between 0 and 1.
    """
    if any(not 0 < level < 1 for level in levels):
        raise ValueError("a level lies between 0 and 1")
    deviation = standard_deviation(layers)
    if deviation == 0:
        return (0.0,) * len(levels)
    laplaces = _laplaces(layers)
    if laplaces is None:
        normal = NormalDist(sigma=deviation)
        return tuple(float(math.ceil(normal.inv_cdf((1 + level) / 2))) for level in levels)
    widest = max(float(layer.scale) for layer in laplaces)
    reach = _SCALES * max(widest, 1.0) + _DEVIATIONS * deviation
    step = max(1.0, 2 * reach / _MOST_POINTS)
    points = 1 << math.ceil(math.log2(2 * reach / step))
    coarser = tuple(
        replace(layer, scale=layer.scale / Fraction(step)) if step > 1 else layer
        for layer in laplaces
    )
    cumulated = np.cumsum(_folded(coarser, points))
    return tuple(float(place) * step for place in np.searchsorted(cumulated, levels))


def _folded(layers: tuple[Draws, ...], points: int) -> Floats:
    """P(|X| = k mod points) for k from 0 to points/2 - 1."""
    sine = np.sin(np.pi / points * np.arange(points // 2 + 1)) ** 2
    exponent = np.zeros(sine.size)
    for layer in layers:
        exponent += log_characteristic(layer, sine)
    masses: Floats = np.fft.irfft(np.exp(exponent), points)[: points // 2]
    masses[1:] *= 2
    return masses


# The error of a mean and of a variance, quotients of noisy parts (spec: aggregation, section 7).
#
# With the sum S of N centred readings (|S| <= h N), their squares Q (at most h^2 N), and the noise
# z_s, z_q, z_n of these and of N, the mean S/N and the variance Q/N - (S/N)^2 are off by
#
#     (z_s - S/N z_n) / (N + z_n)    and, but for terms of second order,
#     (z_q - 2 S/N z_s + (2 (S/N)^2 - Q/N) z_n) / (N + z_n),    |2 (S/N)^2 - Q/N| <= h^2.
#
# A forecast knows neither S nor Q: its figures are those of readings at a bound, where they are
# largest. With the mean m at |m| <= h, |z_s - m z_n| / (N + z_n) is above w at most as often as
# |z_s + (h + w) z_n| is above w N, so the half-width is the w for which that has the chance of an
# interval; the variance likewise, and what is of second order, at most the square of the mean's w,
# in addition. Means and deviations take N + z_n as N - b, where |z_n| <= b holds with the chance
# of an interval; where b reaches N there are no figures. N is `max_readings` readings of everyone:
# with fewer of them errors are larger in proportion.
#
# Once the parts are released, S/N and Q/N are known but for their noise, and N + z_n exactly: the
# law of the same weighted sum of noise at the released mean, over the released count, is that of
# the error (E. Fieller, 1954). The true mean then lies within the half-width in 95 of 100 rounds.
#
# Rounding moves a mean by at most half a step, as it moves each reading; and a standard deviation,
# which is a norm, as much: the variance by at most step h + step^2 / 4.

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
    """The errors of the averages among a query's results; empty for most functions. None if the
    noise of the count is as large as the count."""
    if query.function not in (Function.MEAN, Function.VARIANCE):
        return ()
    rounded = dict(
        zip([part.name for part in parts(query)], roundings(query, participants), strict=True)
    )
    bounds = rounded["sum"].bounds
    assert bounds is not None
    count, half = participants * query.max_readings, (bounds[1] - bounds[0]) / 2
    h = float(half)
    counted = WeightedNoise.of(query, participants, {"count": 1.0})
    least = count - counted.half_width
    if least <= 0:
        return None
    of_mean = rounded["sum"].worst / count

    def stated(
        name: str, weights: dict[str, float], more: float, rounding: Rounding
    ) -> AverageError:
        noise = WeightedNoise.of(query, participants, weights)
        width = noise.half_width / count
        for _ in range(_REFINED):
            wider = weights | {"count": weights["count"] + width}
            width = WeightedNoise.of(query, participants, wider).half_width / count
        return AverageError(
            name,
            noise.mean_absolute / least,
            noise.standard_deviation / least,
            width + more,
            rounding,
        )

    mean = stated(
        "mean",
        {"sum": 1.0, "count": h},
        0.0,
        Rounding(of_mean, rounded["sum"].typical / count, bounds),
    )
    if query.function is Function.MEAN:
        return (mean,)
    of_variance = 2 * of_mean * half + of_mean**2
    variance = stated(
        "variance",
        {"squares": 1.0, "sum": 2 * h, "count": h**2},
        mean.half_width**2,
        Rounding(of_variance, rounded["squares"].typical / count, bounds),
    )
    return mean, variance


_REFINED: Final = 3
"""Steps to w, from that of N alone: each adds about b / N of what the last one added."""
_UNITS: Final = 1 << 10
"""Of a weighted sum's deviation: the lattice on which its law is taken."""


@dataclass(frozen=True, slots=True)
class WeightedNoise:
    """The law of a weighted sum of the noise of a query's parts, in the query's unit."""

    mean_absolute: float
    standard_deviation: float
    half_width: float

    @classmethod
    def of(cls, query: Query, participants: int, weights: Mapping[str, float]) -> WeightedNoise:
        """weights: by the names of parts; their signs do not matter, as noise is symmetric."""
        worth = {
            index: abs(weights[part.name]) * float(part.value)
            for index, part in enumerate(parts(query))
            if weights.get(part.name)
        }
        layers = {index: all_draws(query, participants, index) for index in worth}
        deviation = math.hypot(
            *(worth[index] * standard_deviation(draws) for index, draws in layers.items())
        )
        if deviation == 0:
            return cls(0.0, 0.0, 0.0)
        unit = deviation / _UNITS
        scaled: list[Draws] = []
        for index, draws in layers.items():
            laplaces = _laplaces(draws)
            if laplaces is None:
                half = NormalDist(sigma=deviation).inv_cdf(float(1 + LEVEL) / 2)
                return cls(deviation * math.sqrt(2 / math.pi), deviation, half)
            factor = Fraction(worth[index] / unit)
            scaled += [replace(layer, scale=layer.scale * factor) for layer in laplaces]
        law = tuple(scaled)
        half = absolute_quantiles(law, (float(LEVEL),))[0] * unit
        return cls(mean_absolute(law) * unit, deviation, half)


def released_averages(
    query: Query, participants: int, total: NDArray[np.int64]
) -> dict[str, WeightedNoise]:
    """The error of each average of an opened total (d,), by name. None if the noisy count is
    below 1, or if its noise can be as large as the count."""
    if query.function not in (Function.MEAN, Function.VARIANCE):
        return {}
    released = {
        part.name: float(int(word) * part.value)
        for part, word in zip(parts(query), total, strict=True)
    }
    count = released["count"]
    if count < 1 or count <= WeightedNoise.of(query, participants, {"count": 1.0}).half_width:
        return {}
    mean = released["sum"] / count
    weights = {"mean": {"sum": 1.0, "count": mean}}
    if query.function is Function.VARIANCE:
        squares = released["squares"] / count
        weights["variance"] = {
            "squares": 1.0,
            "sum": 2 * mean,
            "count": 2 * mean**2 - squares,
        }
    noise_of = {}
    for name, weight_of in weights.items():
        noise = WeightedNoise.of(query, participants, weight_of)
        noise_of[name] = WeightedNoise(
            noise.mean_absolute / count, noise.standard_deviation / count, noise.half_width / count
        )
    return noise_of


# How large a group makes a result useful, from public values (spec: aggregation, section 9).


def typical_contribution(part: Part) -> Fraction:
    """Half of the most that a curator can add to one coordinate, in the unit of its part.

    One reading falls into one bin; an L1 bound is shared by all coordinates.
    """
    share = part.dimension if part.linear in (Linear.HISTOGRAM, Linear.VECTOR) else 1
    return part.largest * part.value / (2 * share)


def relative_error(query: Query, participants: int, typical: Fraction | None = None) -> float:
    """An upper bound of E|error| / typical value, from noise and worst-case rounding (for slots,
    the mean over all of them).

    It is the largest over the parts of a total, to each of which a curator adds a typical
    contribution, or over the averages. `typical`: the typical value of the first part, if more
    is known than half of what the bounds allow.
    """
    forecasts = averages(query, participants)
    if forecasts is None:
        return math.inf
    if forecasts:
        return max(
            (forecast.mean_absolute + float(forecast.rounding.worst))
            / float(_typical_average(query, forecast))
            for forecast in forecasts
        )
    worst = 0.0
    for index, (part, error) in enumerate(
        zip(parts(query), forecast(query, participants), strict=True)
    ):
        typical_value = (
            typical if typical is not None and index == 0 else typical_contribution(part)
        )
        off = error.mean_absolute + float(error.rounding.average)
        worst = max(worst, off / float(typical_value * participants))
    return worst


def _typical_average(query: Query, average: AverageError) -> Fraction:
    """Half of the largest mean that the bounds allow, and of the largest variance."""
    low, high = average.rounding.bounds or query.bounds
    if average.name == "mean":
        return max(abs(low), abs(high)) / 2
    return (high - low) ** 2 / 8


@lru_cache(maxsize=4096)  # every round's report asks it of its query
def smallest_useful_group(
    query: Query, share: Fraction, typical: Fraction | None = None
) -> int | None:
    """The smallest number of curators whose typical total has a mean error of at most `share` of
    it.

    At least `min_participants`, as no smaller group is ever released; None if it is above 10^7
    curators. The relative error falls with every curator: noise grows no faster than the square
    root, and rounding in proportion.
    """
    if share <= 0 or (typical is not None and typical <= 0):
        raise ValueError("a share and a typical contribution are above 0")
    low, high = query.min_participants, query.min_participants
    while relative_error(query, high, typical) > share:
        if high >= MAX_CURATORS:
            return None
        low, high = high, min(2 * high, MAX_CURATORS)
    while high - low > 1:
        middle = (low + high) // 2
        if relative_error(query, middle, typical) > share:
            low = middle
        else:
            high = middle
    return high
