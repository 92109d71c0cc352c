"""The noisy grid as pure steps: the query, the effect of an opened noisy sum, the result.

Spec: dpbv-clustering, section 3.9 (a); jobs, "Federated jobs". One query: the counts of all cells,
to which a record adds 1 in one cell. The central form answers it from its rows with noise added, a
federated conductor by a round of secure aggregation; curators then label their own rows from the
release. A `State` holds public and published values only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.dpbv_clustering.grid import (
    GridClustering,
    by_density,
    by_kmeans,
    laplace_deviation,
)
from algorithms.dpbv_clustering.parameters import Parameters, make_box
from tacit.encoders.dpbv_clustering.cells import Cells
from tacit.encoders.dpbv_clustering.encoder import Floats, Ints
from tacit.randomness import PublicRandom

REPLACED: Final = 2
"""How far a record that is replaced moves the counts (L1): out of one cell and into another."""


@dataclass(frozen=True, eq=False)
class State:
    """params; the grid; `noise_share`: total noise in units of one full discrete Laplace of scale
    2 / epsilon (central: 1); counts (cells,): opened, None before."""

    params: Parameters
    cells: Cells
    noise_share: Fraction = Fraction(1)
    counts: Ints | None = None

    @property
    def scale(self) -> Fraction:
        """Of the noise of a count."""
        return REPLACED / self.params.epsilon

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of a count."""
        return laplace_deviation(self.scale) * math.sqrt(self.noise_share)


def first(params: Parameters, per_axis: int, noise_share: Fraction = Fraction(1)) -> State:
    """Before anything is asked. The bounds are declared."""
    assert params.bounds is not None
    return State(params, Cells(make_box(params, params.bounds), per_axis), noise_share)


def next_query(state: State) -> Cells | None:
    """The grid to count on; None when it has been counted."""
    return state.cells if state.counts is None else None


def absorb(state: State, opened: Ints) -> State:
    """Take the opened noisy counts (cells,). Raises ValueError for another length."""
    if opened.shape != (state.cells.count,):
        raise ValueError("one count for every cell")
    return replace(state, counts=opened)


def release(state: State) -> GridClustering:
    """The clusters, in the form that the clusterer names."""
    if state.counts is None:
        raise ValueError("the grid has not been counted")
    counts = state.counts.astype(np.float64)
    return cluster_grid(state.cells, counts, state.deviation, state.params)


def cluster_grid(
    cells: Cells, counts: Floats, deviation: float, params: Parameters
) -> GridClustering:
    """Clusters of noisy counts (cells,) of this standard deviation."""
    if params.clusterer == "dbscan":
        return by_density(cells, counts, deviation)
    assert params.k is not None
    generator = PublicRandom(params.public_seed).generator
    return by_kmeans(cells, counts, deviation, params.k, generator, params.n_init, params.max_iter)
