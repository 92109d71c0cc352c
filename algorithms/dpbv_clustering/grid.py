"""Clusters of a noisy grid: weighted k-means on kept cells, or dense components.

Spec: dpbv-clustering, section 3.9 (a). Post-processing of released counts; it sees no record.
Curators label their own rows by what is published.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.dpbv_clustering.points import kmeans
from tacit.encoders.dpbv_clustering.cells import Cells
from tacit.encoders.dpbv_clustering.encoder import Flip, Floats, Ints

KEPT_DEVIATIONS: Final = 2
DENSE_DEVIATIONS: Final = 3
SMALLEST_SHARE: Final = 0.05
_QUARTER: Final = 0.25


def laplace_deviation(scale: Fraction) -> float:
    """The standard deviation of a discrete Laplace: sqrt(2a) / (1 - a), a = e^(-1/scale)."""
    rate = float(1 / scale)
    return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)


def unary_deviation(flip: float, reports: int) -> float:
    """Of a count estimated from unary reports of an empty cell: sqrt(n q (1-q)) / (1/2 - q)."""
    return math.sqrt(reports * flip * (1 - flip)) / (0.5 - flip)


def unary_counts(ones: Ints, reports: int, flip: float) -> Floats:
    """Estimated counts from the ones of each cell: (ones - n q) / (1/2 - q)."""
    return (ones.astype(np.float64) - reports * flip) / (0.5 - flip)


def unary_estimate(ones: Ints, reports: int, flip: Flip) -> tuple[Floats, float]:
    """Estimated counts (cells,) from the ones of each cell, and their standard deviation."""
    probability = float(flip.probability)
    return unary_counts(ones, reports, probability), unary_deviation(probability, reports)


@dataclass(frozen=True, eq=False)
class GridClustering:
    """labels (cells,) of all cells, centres (k, d) in raw units with their noisy mass (k,).

    centres: of k-means, or the middle of mass of a component. `kept`: cells above the noise.
    """

    labels: Ints
    centres: Floats
    masses: Floats
    kept: int

    @property
    def clusters(self) -> int:
        """k found."""
        return len(self.centres)


def by_kmeans(
    cells: Cells,
    counts: Floats,
    deviation: float,
    clusters: int,
    generator: np.random.Generator,
    restarts: int,
    max_iter: int,
) -> GridClustering:
    """Weighted k-means on the middles of cells that hold more than two standard deviations."""
    kept = np.flatnonzero(counts > KEPT_DEVIATIONS * deviation)
    if not kept.size:
        return _nothing(cells)
    places = cells.box.apply(cells.centres())
    found = kmeans(
        places[kept], min(clusters, kept.size), generator, restarts, max_iter, counts[kept]
    )
    nearest = np.argmin(np.square(places[:, None, :] - found.centres).sum(axis=2), axis=1)
    masses: Floats = np.bincount(found.labels, counts[kept], minlength=len(found.centres)).astype(
        np.float64
    )
    return GridClustering(nearest, cells.box.raw(found.centres), masses, len(kept))


def by_density(cells: Cells, counts: Floats, deviation: float) -> GridClustering:
    """Components of touching dense cells; those below 5 % of the mass are dropped, and every cell
    has the label of the nearest that is left."""
    from scipy.ndimage import generate_binary_structure, label
    from scipy.spatial import cKDTree

    dimension, per_axis = cells.box.dimension, cells.per_axis
    ranked = np.sort(counts)[::-1]
    threshold = max(DENSE_DEVIATIONS * deviation, _QUARTER * float(ranked[per_axis - 1]))
    dense = counts > threshold
    shape = (per_axis,) * dimension
    touching = generate_binary_structure(dimension, dimension)
    components = label(dense.reshape(shape), touching)[0].ravel()
    masses: Floats = np.bincount(components, counts * dense).astype(np.float64)
    masses[0] = 0
    large = np.flatnonzero(masses > SMALLEST_SHARE * masses.sum())
    if not large.size:
        return _nothing(cells)
    renamed = np.full(len(masses), -1)
    renamed[large] = np.arange(large.size)
    labels = renamed[components]
    kept = np.flatnonzero(labels >= 0)
    middles = cells.centres()
    places = cells.box.apply(middles)
    labels = labels[kept][cKDTree(places[kept]).query(places)[1]]
    held = masses[large]
    sums = [
        np.bincount(labels[kept], counts[kept] * column, minlength=large.size)
        for column in middles[kept].T
    ]
    return GridClustering(labels, np.stack(sums, axis=1) / held[:, None], held, len(kept))


def _nothing(cells: Cells) -> GridClustering:
    """No cell is distinguishable from the noise."""
    empty = np.empty((0, cells.box.dimension))
    return GridClustering(np.full(cells.count, -1), empty, np.empty(0), 0)
