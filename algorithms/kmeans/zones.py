"""The source's sampling zones and the draw inside them. For reproduction; they protect nobody.

Source: Lu's thesis, chapter 7, Algorithm 7.2 and Definitions 7.1 to 7.4. Spec: kmeans, sections 3.3
and 3.4, with its repairs. All functions treat k clusters at once: arrays (k, d) and (k,).
`generator` is an ordinary seeded one: no guarantee is claimed, so floats are harmless.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.kmeans.encoder import Floats

Measure = Literal["polar", "lebesgue"]

STILL: Final = 1e-12
"""A move shorter than this is none."""
_SPAN: Final = 1 - math.exp(-1)


@dataclass(frozen=True, eq=False)
class Zones:
    """Balls that touch the sphere around the mean through X from inside.

    means S (k, d), controllers X (k, d), shares lambda (k,); centres P = S + lambda (X - S), radii
    (1 - lambda) |X - S|. What is published of them, (P, r), is an exact function of the means.
    """

    means: Floats
    controllers: Floats
    shares: Floats

    @property
    def reaches(self) -> Floats:
        """|X - S|, (k,)."""
        reaches: Floats = np.linalg.norm(self.controllers - self.means, axis=1)
        return reaches

    @property
    def centres(self) -> Floats:
        """P (k, d)."""
        centres: Floats = self.means + self.shares[:, None] * (self.controllers - self.means)
        return centres

    @property
    def radii(self) -> Floats:
        """r (k,)."""
        return (1 - self.shares) * self.reaches


def angles(uniform: Floats) -> Floats:
    """gamma in [0, pi/2] with density ~ exp(1 - 2 gamma / pi), by its inverse."""
    return -(math.pi / 2) * np.log1p(-uniform * _SPAN)


def shares(uniform: Floats) -> Floats:
    """lambda in [1/2, 1] with density ~ exp(2 - 2 lambda), by its inverse."""
    return 0.5 - 0.5 * np.log1p(-uniform * _SPAN)


def prior_controllers(means: Floats, old: Floats, gamma: Floats, side: Floats) -> Floats:
    """X (k, d) on the sphere around the mean through the old centre, gamma off the way ahead.

    side (k, d): unit vectors orthogonal to S - c (0 in one dimension, where gamma does not count).
    """
    moves = means - old
    lengths = np.linalg.norm(moves, axis=1)[:, None]
    ahead = moves / np.maximum(lengths, STILL)
    if means.shape[1] == 1:
        return means + moves
    turned = np.cos(gamma)[:, None] * ahead + np.sin(gamma)[:, None] * side
    controllers: Floats = means + lengths * turned
    return controllers


def posterior_controllers(means: Floats, old: Floats, future: Floats) -> Floats:
    """X (k, d): the means after another assignment, pulled back to |X - S| <= |S - c|."""
    steps = future - means
    lengths = np.linalg.norm(steps, axis=1)
    limits = np.linalg.norm(means - old, axis=1)
    factors = np.where(lengths > limits, limits / np.maximum(lengths, STILL), 1.0)
    controllers: Floats = means + factors[:, None] * steps
    return controllers


def orthogonal(ahead: Floats, generator: np.random.Generator) -> Floats:
    """Random unit vectors (k, d) orthogonal to the unit vectors `ahead`; 0 in one dimension."""
    if ahead.shape[1] == 1:
        return np.zeros_like(ahead)
    drawn = generator.standard_normal(ahead.shape)
    drawn -= np.einsum("ij,ij->i", drawn, ahead)[:, None] * ahead
    return _unit(drawn)


def in_zone(delta: Floats, alpha: Floats, share: Floats) -> NDArray[np.bool_]:
    """Whether S + |X - S| delta (cos alpha u + sin alpha w) lies in the zone."""
    return _zone_value(delta, alpha, share) <= 0


def _zone_value(delta: Floats, alpha: Floats, share: Floats) -> Floats:
    """delta^2 - 2 delta lambda cos alpha + 2 lambda - 1; not above 0 inside the zone."""
    value: Floats = np.square(delta) - 2 * delta * share * np.cos(alpha) + 2 * share - 1
    return value


def score(delta: Floats, alpha: Floats) -> Floats:
    """q = (1 - delta) + (1 - 2 |alpha| / pi), at most 2."""
    quality: Floats = 2 - delta - 2 * np.abs(alpha) / math.pi
    return quality


def draw(zones: Zones, epsilon: float, measure: Measure, generator: np.random.Generator) -> Floats:
    """One point (k, d) of each zone, with weight exp(epsilon q / 4)."""
    ahead = _unit(zones.controllers - zones.means)
    if measure == "lebesgue":
        return _draw_by_volume(zones, ahead, epsilon, generator)
    delta, alpha = draw_polar(zones.shares, epsilon, generator, zones.means.shape[1] == 1)
    side = orthogonal(ahead, generator)
    turned = np.cos(alpha)[:, None] * ahead + np.sin(alpha)[:, None] * side
    points: Floats = zones.means + (zones.reaches * delta)[:, None] * turned
    return points


def draw_polar(
    share: Floats, epsilon: float, generator: np.random.Generator, on_a_line: bool = False
) -> tuple[Floats, Floats]:
    """Pairs (delta, alpha), density ~ exp(epsilon q / 4) d delta d alpha inside the zone.

    Both from truncated exponentials, drawn again together until they lie in the zone; on a line
    alpha is 0.
    """
    delta, alpha = np.empty_like(share), np.zeros_like(share)
    widest = np.zeros_like(share) if on_a_line else np.arcsin((1 - share) / share)
    left = np.arange(len(share))
    while left.size:
        low = 2 * share[left] - 1
        one = _truncated(low, np.ones_like(low), epsilon / 4, generator)
        other = _truncated(np.zeros_like(low), widest[left], epsilon / (2 * math.pi), generator)
        fits = in_zone(one, other, share[left]) & (one < 1)
        delta[left[fits]], alpha[left[fits]] = one[fits], other[fits]
        left = left[~fits]
    return delta, alpha


def _draw_by_volume(
    zones: Zones, ahead: Floats, epsilon: float, generator: np.random.Generator
) -> Floats:
    points = np.empty_like(zones.means)
    centres, radii, reaches = zones.centres, zones.radii, zones.reaches
    dimension = points.shape[1]
    left = np.arange(len(points))
    while left.size:
        way = _unit(generator.standard_normal((left.size, dimension)))
        lengths = radii[left] * generator.random(left.size) ** (1 / dimension)
        drawn = centres[left] + lengths[:, None] * way
        offsets = drawn - zones.means[left]
        far = np.linalg.norm(offsets, axis=1)
        along = np.einsum("ij,ij->i", offsets, ahead[left]) / np.maximum(far, STILL)
        delta = far / np.maximum(reaches[left], STILL)
        quality = score(delta, np.arccos(np.clip(along, -1, 1)))
        best = 3 - 2 * zones.shares[left]
        kept = generator.random(left.size) < np.exp(epsilon * (quality - best) / 4)
        kept &= delta < 1
        points[left[kept]] = drawn[kept]
        left = left[~kept]
    return points


def _truncated(low: Floats, high: Floats, rate: float, generator: np.random.Generator) -> Floats:
    """Exponential of this rate, truncated to [low, high]."""
    span = -np.expm1(-rate * (high - low))
    drawn: Floats = low - np.log1p(-generator.random(len(low)) * span) / rate
    return drawn


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1)[:, None]
    unit: Floats = vectors / np.maximum(lengths, np.finfo(float).tiny)
    return unit
