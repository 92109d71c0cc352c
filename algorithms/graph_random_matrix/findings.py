"""What is computed from a release: singular values, clusters, scores. Post-processing, no budget.

k-means on the rows of an n x k matrix: Algorithm 2 of the source, its second step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.graph_random_matrix.flipping import FlippedSpectrum
from algorithms.graph_random_matrix.linear_algebra import (
    ROWS,
    Beat,
    Floats,
    Spectrum,
    centrality,
    from_gram,
    quiet,
    singular_values,
)
from algorithms.graph_random_matrix.parameters import Mode, Settings, noise_edge
from algorithms.graph_random_matrix.publication import Iteration, Release
from algorithms.kmeans.weighted import spread_start
from tacit.encoders.graph_random_matrix import philox

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


# What is read off a release: singular values, clusters, scores. Post-processing, no budget.
#
# Spec: graph-random-matrix, sections 3.3 to 3.5 (Algorithms 3 and 5 of the source).


@dataclass(frozen=True, eq=False)
class Findings:
    """values: singular values, falling; noise_level: what the largest one has to pass; spectrum,
    labels (n,) from 0, scores (n,): None where the mode does not ask."""

    values: Floats
    noise_level: float
    spectrum: Spectrum | None = None
    labels: Labels | None = None
    scores: Floats | None = None

    @property
    def signal_below_noise(self) -> bool:
        """By the largest published singular value."""
        return bool(self.values[0] < self.noise_level)

    @property
    def values_above_noise(self) -> int:
        """How many published singular values are larger than noise alone would show."""
        return int(np.count_nonzero(self.values >= self.noise_level))

    def summary(self) -> dict[str, Any]:
        """For the result."""
        found: dict[str, Any] = {
            "singular_values": self.values.tolist(),
            "signal_below_noise": self.signal_below_noise,
            "values_above_noise": self.values_above_noise,
        }
        if self.labels is not None:
            found["cluster_sizes"] = np.bincount(self.labels).tolist()
        return found


def found_in_matrix(
    release: Release,
    matrix: NDArray[Any],
    gram: Floats,
    settings: Settings,
    mode: Mode,
    context: Context,
    *,
    vectors: bool,
) -> Findings:
    """By the source's estimator; the matrix is passed once more where vectors are wanted."""
    n, m = matrix.shape
    variance = release.deviation**2 + float(settings.mean_degree) / m
    level = math.sqrt(noise_edge(n, m, variance))
    if not vectors:
        return Findings(singular_values(gram)[0] * release.unit, level)
    beat = partial(context.progress, 0.65, "singular vectors")
    spectrum = from_gram(matrix, release.unit, gram, settings.eigenvectors, beat)
    return _completed(spectrum, level, mode, release.projection.seed, context)


def found_in_iteration(iteration: Iteration, mode: Mode, seed: int, context: Context) -> Findings:
    """By the last step of the subspace iteration."""
    n, k = iteration.spectrum.scaled.shape
    level = math.sqrt(noise_edge(n, k, iteration.deviation**2))
    return _completed(iteration.spectrum, level, mode, seed, context)


def found_in_flips(found: FlippedSpectrum, mode: Mode, seed: int, context: Context) -> Findings:
    """By the flipped graph; clusters and scores only where a direction stands out."""
    sizes = np.abs(found.raw)
    if not (found.spectrum.values > 0).any():
        return Findings(sizes, found.level, found.spectrum)
    completed = _completed(found.spectrum, found.level, mode, seed, context)
    return replace(completed, values=sizes)


def _completed(
    spectrum: Spectrum, level: float, mode: Mode, seed: int, context: Context
) -> Findings:
    labels = scores = None
    if mode == "spectral":
        generator = np.random.Generator(philox(seed, "clusters"))
        count = spectrum.scaled.shape[1]
        labels = clusters(
            spectrum.vectors, count, generator, partial(context.progress, 0.7, "clustering")
        )
    if mode != "publish":
        scores = centrality(spectrum.scaled)
    return Findings(spectrum.values, level, spectrum, labels, scores)
