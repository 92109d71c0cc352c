"""What is read off a release: singular values, clusters, scores. Post-processing, no budget.

Spec: graph-random-matrix, sections 3.3 to 3.5 (Algorithms 3 and 5 of the source).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.graph_random_matrix.clustering import Labels, clusters
from algorithms.graph_random_matrix.flipped_spectrum import FlippedSpectrum
from algorithms.graph_random_matrix.forecast import noise_edge
from algorithms.graph_random_matrix.parameters import Mode
from algorithms.graph_random_matrix.publication import Release
from algorithms.graph_random_matrix.settings import Settings
from algorithms.graph_random_matrix.spectrum import (
    Floats,
    Spectrum,
    centrality,
    from_gram,
    singular_values,
)
from algorithms.graph_random_matrix.subspace import Iteration
from tacit.encoders.graph_random_matrix.projection import philox


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
