"""The source's algorithm, literally: Lloyd's steps that end at random points of sampling zones.

Source: Lu's thesis, chapter 7, Algorithm 7.1. Spec: kmeans, section 3, with its repairs. It is
not differentially private for any epsilon (spec: kmeans, section 4.2): for reproduction only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from algorithms.kmeans.zones import (
    STILL,
    Measure,
    Zones,
    angles,
    draw,
    orthogonal,
    posterior_controllers,
    prior_controllers,
    shares,
)
from tacit.encoders.kmeans.encoder import Floats, Ints
from tacit.encoders.kmeans.nearest import nearest
from tacit.noise import floating_laplace
from tacit.randomness import SeededRandom

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
    """What the source counts: its posterior strategy makes a second step of Lloyd in each pass."""
    return 2 * passes if strategy == "posterior" else passes


def final_release(
    points: Floats, found: Run, epsilon: float, source: SeededRandom
) -> tuple[Floats, Floats]:
    """Section 7.5.1: exact sums over noisy counts, clipped to the box; centres (k, d), counts (k,).

    Labels by the last means. The sums carry no noise, so each centre lies on the ray of its exact
    sum.
    """
    labels = nearest(points, found.means)
    clusters = len(found.means)
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
    """Zones around the means, and a point of each; a mean that did not move is taken as it is."""
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
