"""The source's algorithm, literally: Lloyd's steps that end at random points of sampling zones.

For reproduction; the zones protect nobody. Source: Lu's thesis, chapter 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.kmeans import Floats, Ints, nearest
from tacit.noise import floating_laplace
from tacit.randomness import SeededRandom

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
        """P, the centres (k, d)."""
        centres: Floats = self.means + self.shares[:, None] * (self.controllers - self.means)
        return centres

    @property
    def radii(self) -> Floats:
        """r, the radii (k,)."""
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
    open_rows = np.arange(len(share))
    while open_rows.size:
        low = 2 * share[open_rows] - 1
        one = _truncated(low, np.ones_like(low), epsilon / 4, generator)
        other = _truncated(
            np.zeros_like(low), widest[open_rows], epsilon / (2 * math.pi), generator
        )
        fits = in_zone(one, other, share[open_rows]) & (one < 1)
        delta[open_rows[fits]], alpha[open_rows[fits]] = one[fits], other[fits]
        open_rows = open_rows[~fits]
    return delta, alpha


def _draw_by_volume(
    zones: Zones, ahead: Floats, epsilon: float, generator: np.random.Generator
) -> Floats:
    points = np.empty_like(zones.means)
    centres, radii, reaches = zones.centres, zones.radii, zones.reaches
    dimension = points.shape[1]
    open_rows = np.arange(len(points))
    while open_rows.size:
        way = _unit(generator.standard_normal((open_rows.size, dimension)))
        lengths = radii[open_rows] * generator.random(open_rows.size) ** (1 / dimension)
        drawn = centres[open_rows] + lengths[:, None] * way
        offsets = drawn - zones.means[open_rows]
        far = np.linalg.norm(offsets, axis=1)
        along = np.einsum("ij,ij->i", offsets, ahead[open_rows]) / np.maximum(far, STILL)
        delta = far / np.maximum(reaches[open_rows], STILL)
        quality = score(delta, np.arccos(np.clip(along, -1, 1)))
        best = 3 - 2 * zones.shares[open_rows]
        accepted = generator.random(open_rows.size) < np.exp(epsilon * (quality - best) / 4)
        accepted &= delta < 1
        points[open_rows[accepted]] = drawn[accepted]
        open_rows = open_rows[~accepted]
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


# Source: Lu's thesis, chapter 7, Algorithm 7.1. Spec: kmeans, section 3, with its repairs. It is
# not differentially private for any epsilon (spec: kmeans, section 4.2): for reproduction only.

Strategy = Literal["prior", "posterior"]
Stop = Literal["labels", "fix", "move"]

MAX_PASSES: Final = 1000


@dataclass(frozen=True)
class Settings:
    """What a run of the source's algorithm is given; `epsilon`: of one step."""

    epsilon: float
    strategy: Strategy = "posterior"
    stop: Stop = "labels"
    measure: Measure = "polar"
    max_passes: int = MAX_PASSES
    move_tolerance: float = 1e-4


@dataclass(frozen=True, eq=False)
class Pass:
    """What one pass publishes: zone centres (k, d) and radii (k,), and the new centres (k, d).

    A cluster whose zone is a point has radius 0.
    """

    zone_centres: Floats
    zone_radii: Floats
    centres: Floats


@dataclass(frozen=True, eq=False)
class Run:
    """The exact means (k, d) at the end, before the final noise, the passes taken, and the log."""

    means: Floats
    labels: Ints
    passes: int
    log: tuple[Pass, ...]


def normalised(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Columns scaled to [0, 1] by their own extremes (a constant column to 0); lows and widths."""
    low, high = values.min(axis=0), values.max(axis=0)
    widths = np.where(high > low, high - low, 1.0)
    return (values - low) / widths, low, widths


def cluster_sums(points: Floats, labels: Ints, clusters: int) -> Floats:
    """The sum (k, d) of each cluster's points."""
    columns = [np.bincount(labels, weights=column, minlength=clusters) for column in points.T]
    sums: Floats = np.stack(columns, axis=1)
    return sums


def cluster_means(points: Floats, labels: Ints, centres: Floats) -> Floats:
    """The mean (k, d) of each cluster; the old centre where it is empty."""
    counts = np.bincount(labels, minlength=len(centres))
    sums = cluster_sums(points, labels, len(centres))
    means: Floats = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    return means


def drawn_start(points: Floats, clusters: int, generator: np.random.Generator) -> Floats:
    """k records without replacement."""
    return points[generator.choice(len(points), clusters, replace=False)]


def no_progress(_done: int) -> None:
    """No progress is reported."""


def run(
    points: Floats,
    start: Floats,
    settings: Settings,
    generator: np.random.Generator,
    progress: Callable[[int], None] = no_progress,
) -> Run:
    """Algorithm 7.1 without its final noise, on points (n, d) scaled to [0, 1]."""
    centres, previous = start.copy(), None
    log: list[Pass] = []
    for number in range(1, settings.max_passes + 1):
        progress(number)
        labels = nearest(points, centres)
        means = cluster_means(points, labels, centres)
        if number == settings.max_passes or _ended(
            settings, points, labels, previous, means, centres
        ):
            break
        done = _one_pass(points, means, centres, settings, generator)
        log.append(done)
        previous, centres = labels, done.centres
    return Run(means, labels, number, tuple(log))


def iterations(passes: int, strategy: Strategy) -> int:
    """The iterations as the source counts them: its posterior strategy makes a second step of
    Lloyd in each pass."""
    return 2 * passes if strategy == "posterior" else passes


def final_release(
    points: Floats, run_made: Run, epsilon: float, source: SeededRandom
) -> tuple[Floats, Floats]:
    """Section 7.5.1: exact sums over noisy counts, clipped to the box; centres (k, d), counts (k,).

    Labels by the last means. The sums carry no noise, so each centre lies on the ray of its exact
    sum.
    """
    labels = nearest(points, run_made.means)
    clusters = len(run_made.means)
    counts = np.bincount(labels, minlength=clusters)
    sums = cluster_sums(points, labels, clusters)
    noisy = np.maximum(counts + floating_laplace(source, 1 / epsilon, clusters), 1.0)
    return np.clip(sums / noisy[:, None], 0, 1), noisy


def _ended(
    settings: Settings,
    points: Floats,
    labels: Ints,
    previous: Ints | None,
    means: Floats,
    centres: Floats,
) -> bool:
    match settings.stop:
        case "labels":
            return previous is not None and np.array_equal(labels, previous)
        case "fix":
            return np.array_equal(nearest(points, means), labels)
        case "move":
            return float(np.abs(means - centres).max()) <= settings.move_tolerance


def _one_pass(
    points: Floats,
    means: Floats,
    centres: Floats,
    settings: Settings,
    generator: np.random.Generator,
) -> Pass:
    """Zones around the means, and a point of each; a mean that did not move is used unchanged."""
    moves = means - centres
    lengths = np.linalg.norm(moves, axis=1)
    if settings.strategy == "prior":
        ahead = moves / np.maximum(lengths, STILL)[:, None]
        side = orthogonal(ahead, generator)
        gamma = angles(generator.random(len(means)))
        controllers = prior_controllers(means, centres, gamma, side)
    else:
        future = cluster_means(points, nearest(points, means), means)
        controllers = posterior_controllers(means, centres, future)
    zones = Zones(means, controllers, shares(generator.random(len(means))))
    moving = (lengths >= STILL) & (zones.reaches >= STILL)
    after = means.copy()
    if moving.any():
        part = Zones(means[moving], controllers[moving], zones.shares[moving])
        after[moving] = draw(part, settings.epsilon, settings.measure, generator)
    return Pass(
        np.where(moving[:, None], zones.centres, means), np.where(moving, zones.radii, 0.0), after
    )
