"""The error a result will have, from public values only (spec: aggregation, sections 4, 7 and 9).

The error of a released sum is the noise of *all* parties, honest or not, and what rounding adds
(`tacit.accounting.rounding`). Of the noise, in ring units:

- R discrete Laplaces (or shares that add up to R) of scale b, in the limit of a fine resolution:
  E|Z| = 2 b Gamma(R + 1/2) / (sqrt(pi) Gamma(R));
- any integer X with a real characteristic function phi:
  E|X| = 1/pi int_0^pi (1 - phi(t)) / (1 - cos t) dt,
  since |x| = 1/pi int_0^pi (1 - cos x t) / (1 - cos t) dt for whole x (Fejer's kernel). For n
  parties that draw with probability p, phi = (1 - p + p phi_1)^n, and for a share of weight r,
  phi_1 = ((1-a)^2 / (1 - 2 a cos t + a^2))^r. In the continuous limit this is
  (2/pi) int_0^infinity (1 - phi(t)) / t^2 dt;
- variance: n p r 2a / (1-a)^2.

No reading is touched. numpy and the standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.loss.draws import Draws
from tacit.accounting.rounding import Rounding, roundings
from tacit.query.functions import parts
from tacit.query.mechanisms import aggregator_plan, curator_plan
from tacit.query.query import Query

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


def standard_deviation(layers: tuple[Draws, ...]) -> float:
    """Of the sum of all draws, in ring units."""
    return math.sqrt(sum(_variance(layer) for layer in layers))


def _variance(layer: Draws) -> float:
    rate = float(1 / layer.scale)
    one = 2 * math.exp(-rate) / math.expm1(-rate) ** 2
    return layer.parties * float(layer.probability * layer.weight) * one


@lru_cache(maxsize=1024)
def mean_absolute(layers: tuple[Draws, ...]) -> float:
    """E|X| of the sum of all draws, in ring units, to about 1e-9 of its value."""
    deviation = standard_deviation(layers)
    if deviation == 0:
        return 0.0
    start = min(_NEAR_ZERO / deviation, math.pi / 2)
    panels = math.ceil((math.log(math.pi) - math.log(start)) / _PANEL)
    edges = np.linspace(math.log(start), math.log(math.pi), panels + 1)
    half = (edges[1] - edges[0]) / 2
    t = np.exp((edges[:-1, np.newaxis] + half + half * _NODES).ravel())
    sine = np.sin(t / 2) ** 2
    exponent = np.zeros(t.size)
    for layer in layers:
        exponent += log_characteristic(layer, sine)
    integrand = -np.expm1(exponent) / (2 * sine) * t
    weights = np.tile(_WEIGHTS * half, panels)
    return float(integrand @ weights + deviation**2 * start) / math.pi


def log_characteristic(layer: Draws, sine: Floats) -> Floats:
    """ln phi(t) of all draws of a layer, from sin^2(t/2)."""
    rate = float(1 / layer.scale)
    one = -float(layer.weight) * np.log1p(4 * math.exp(-rate) / math.expm1(-rate) ** 2 * sine)
    every: Floats = one
    if layer.probability != 1:
        every = np.log1p(float(layer.probability) * np.expm1(one))
    return layer.parties * every


def all_draws(query: Query, participants: int, index: int) -> tuple[Draws, ...]:
    """The noise of one part of a result: every curator's and every aggregator's.

    Under the paper stance scales are at most these.
    """
    layers = []
    for plan, count in (
        (curator_plan(query), participants),
        (aggregator_plan(query), query.aggregators),
    ):
        if plan is not None and plan.probability > 0:
            layers.append(Draws(plan.scales[index], count, plan.weight, plan.probability))
    return tuple(layers)


def forecast(query: Query, participants: int) -> tuple[PartError, ...]:
    """The error of each part of a result over this many curators, in the query's unit.

    A part `squares` is in squared units, a count in ones.
    """
    found = []
    rounded = roundings(query, participants)
    for index, (part, rounding) in enumerate(zip(parts(query), rounded, strict=True)):
        layers = all_draws(query, participants, index)
        worth = float(part.value)
        found.append(
            PartError(
                part.name,
                part.dimension,
                mean_absolute(layers) * worth,
                standard_deviation(layers) * worth,
                rounding,
            )
        )
    return tuple(found)
