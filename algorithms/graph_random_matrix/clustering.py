"""k-means on the rows of an n x k matrix: Algorithm 2 of the source, its second step.

Spec: graph-random-matrix, section 3.2. k-means++ starts, Lloyd's steps to 1e-4 or 300 rounds, the
best of 10 restarts; above a million rows 3 restarts, each started on a sample of 100,000 rows.
Post-processing: all randomness is public.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.graph_random_matrix.spectrum import ROWS, Beat, Floats, quiet
from algorithms.kmeans.weighted import spread_start

RESTARTS: Final = 10
ROUNDS: Final = 300
STILL: Final = 1e-4
LARGE: Final = 1_000_000
RESTARTS_OF_LARGE: Final = 3
SAMPLE: Final = 100_000

Labels = NDArray[np.int64]


def clusters(
    points: Floats, count: int, generator: np.random.Generator, beat: Beat = quiet
) -> Labels:
    """Labels (n,) from 0 of points (n, d): those of the restart with the least inertia."""
    large = len(points) > LARGE
    best, least = np.zeros(len(points), np.int64), np.inf
    for _ in range(RESTARTS_OF_LARGE if large else RESTARTS):
        held = points
        if large:
            held = points[generator.choice(len(points), SAMPLE, replace=False)]
        start = spread_start(held, np.ones(len(held)), count, generator, beat)
        labels, inertia = _lloyd(points, start, beat)
        if inertia < least:
            best, least = labels, inertia
    return best


def _lloyd(points: Floats, centres: Floats, beat: Beat) -> tuple[Labels, float]:
    limit = STILL * _variance(points, beat)
    labels, sums, sizes, inertia = _assigned(points, centres, beat)
    for _ in range(ROUNDS):
        moved = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
        shift = float(np.square(moved - centres).sum())
        centres = moved
        labels, sums, sizes, inertia = _assigned(points, centres, beat)
        if shift <= limit:
            break
    return labels, inertia


def _variance(points: Floats, beat: Beat) -> float:
    """The mean over the columns."""
    sums, squares = np.zeros(points.shape[1]), np.zeros(points.shape[1])
    middle = points[0]  # near the mean or not, it takes a common offset out
    for first in range(0, len(points), ROWS):
        beat()
        part = points[first : first + ROWS] - middle
        sums += part.sum(axis=0)
        squares += np.square(part).sum(axis=0)
    return float((squares / len(points) - np.square(sums / len(points))).mean())


def _assigned(points: Floats, centres: Floats, beat: Beat) -> tuple[Labels, Floats, Floats, float]:
    """The nearest centre of each point; sums and sizes of clusters; total squared distance."""
    labels = np.empty(len(points), np.int64)
    sums, sizes, inertia = np.zeros(centres.shape), np.zeros(len(centres)), 0.0
    lengths = np.square(centres).sum(axis=1)
    turned = -2 * centres.T
    for first in range(0, len(points), ROWS):
        beat()
        part = points[first : first + ROWS]
        distances = part @ turned
        distances += lengths
        nearest = distances.argmin(axis=1)
        labels[first : first + ROWS] = nearest
        inertia += float(distances.min(axis=1).sum() + np.square(part).sum())
        sizes += np.bincount(nearest, minlength=len(centres))
        for column in range(part.shape[1]):
            sums[:, column] += np.bincount(nearest, part[:, column], len(centres))
    return labels, sums, sizes, inertia
