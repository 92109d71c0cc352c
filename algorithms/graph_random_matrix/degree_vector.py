"""The first eigenvector by noisy degrees (rank one), and what each estimator is expected to show.

The largest eigenvalue of a graph of n vertices and mean degree d lies between d and sqrt(d n); its
geometric mean of both is taken as the expected one (within a factor 1.5 on five real graphs). The
cosine between the first eigenvector and the vector of degrees is taken as .75 (from .23 to .98 on
them), and the mean square of degrees as d times the expected eigenvalue, as in graphs of expected
degrees. Nothing here reads a graph but `noisy_degrees`.

Source: graphs of expected degrees (F. Chung and L. Lu, 2002). Spec: graph-random-matrix, section
3.9.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der.degrees import DegreeLaw
from algorithms.graph_random_matrix.linear_algebra import Spectrum
from tacit.noise import DiscreteLaplace

Ints = NDArray[np.int64]

COUNT_SHARE: Final = Fraction(1, 50)
"""Of epsilon, for the number of edges by which `auto` chooses between flips and degrees."""
LEAST_COSINE: Final = 0.1
"""Below it no signal is expected."""
_OF_DEGREES: Final = 0.75
_MARGIN: Final = 2
_CAUTION: Final = 1.2


def expected_eigenvalue(vertices: int, mean_degree: float) -> float:
    """The largest |eigenvalue| that is expected of a graph."""
    return math.sqrt(mean_degree * math.sqrt(mean_degree * vertices))


def cosine_past(noise: float, vertices: int, mean_degree: float) -> float:
    """The expected cosine of the first vector if its squared eigenvalue must exceed this noise.

    The eigenvalue is taken to be a fifth smaller than expected, since one below the noise shows
    nothing at all.
    """
    squared = (expected_eigenvalue(vertices, mean_degree) / _CAUTION) ** 2
    return math.sqrt(1 - noise / squared) if squared > noise else 0.0


def cosine_of_degrees(vertices: int, mean_degree: float, epsilon: float) -> float:
    """Expected of the vector of noisy degrees with this epsilon."""
    squared = mean_degree * expected_eigenvalue(vertices, mean_degree)
    return _OF_DEGREES * math.sqrt(squared / (squared + 8 / epsilon**2))


def no_signal(cosines: Mapping[str, float]) -> bool:
    """Whether none of these estimators is expected to show the first vector."""
    return max(cosines.values()) < LEAST_COSINE


def noisy_edges(graph: EdgeList, epsilon: Fraction, context: Context) -> int:
    """The noisy number of edges with its share of epsilon, at least 0; an edge changes it by 1."""
    law = DiscreteLaplace(1 / (epsilon * COUNT_SHARE))
    return max(0, graph.edges + int(law.draw(context.noise("number of edges"), 1)[0]))


def noisy_degrees(graph: EdgeList, scale: Fraction, context: Context) -> Ints:
    """(n,) degrees with discrete Laplace noise; an edge changes two by 1."""
    degrees = np.bincount(graph.first, minlength=graph.count)
    degrees += np.bincount(graph.second, minlength=graph.count)
    noise = DiscreteLaplace(scale).draw(context.noise("degrees"), graph.count)
    return np.asarray(degrees + noise, np.int64)


@dataclass(frozen=True, eq=False)
class DegreeVector:
    """spectrum: k values, zero but for the first, with the vector of expected degrees; level: the
    first value that a graph of equal degrees would seem to have."""

    noisy: Ints
    level: float
    noise_variance: float
    spectrum: Spectrum

    @classmethod
    def of(cls, noisy: Ints, scale: Fraction, count: int) -> DegreeVector:
        """Post-processing of noisy degrees (n,) of this scale; 1 <= count <= n."""
        law = DegreeLaw.of(noisy, float(scale))
        mean, variance = float(noisy.mean()), law.noise_variance
        values = np.zeros(count)
        level = 1.0
        if mean > 0:
            spread = max(0.0, float(noisy.var()) - variance)
            values[0] = mean + spread / mean
            # Five times the square of its variance is that of a squared Laplace draw.
            level = mean + _MARGIN * variance * math.sqrt(5 / noisy.size) / mean
        vectors = np.zeros((noisy.size, count))
        vectors[:, 0] = law.means(noisy)
        length = float(np.linalg.norm(vectors[:, 0]))
        if length > 0:
            vectors[:, 0] /= length
        counted = np.where(values > level, values, 0.0)
        return cls(noisy, level, variance, Spectrum(counted, vectors * counted))
