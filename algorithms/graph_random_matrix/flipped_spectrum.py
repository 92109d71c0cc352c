"""Leading eigenpairs of the unbiased estimate that a flipped graph gives of the true one.

(R - p (J - I)) / (1 - 2 p) has the mean A off the diagonal, and entries of variance v. Its noise
has the operator norm 2 sqrt(n v), so that a direction counts from 2.1 sqrt(n v) on; an eigenvalue
lambda > sqrt(n v) then shows as lambda + n v / lambda, and its vector with the squared cosine
1 - n v / lambda^2.

Source: F. Benaych-Georges and R. R. Nadakuditi, 2011 (spiked Wigner matrices). Spec:
graph-random-matrix, section 3.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from algorithms.graph_random_matrix.flipping import Flip
from algorithms.graph_random_matrix.product import can_compile
from algorithms.graph_random_matrix.rows import Adjacency
from algorithms.graph_random_matrix.spectrum import Beat, Floats, Spectrum, quiet

MARGIN: Final = 2.1
"""Of sqrt(n v): noise alone reaches 2."""
SMALL: Final = 600
"""Vertices up to which all eigenpairs are computed together."""
_TOLERANCE: Final = 1e-6
_PART: Final = 1 << 22


@dataclass(frozen=True, eq=False)
class FlippedSpectrum:
    """raw (k,): eigenvalues of the estimate, by falling magnitude; noise: n v; spectrum: magnitudes
    without what noise adds, and vectors; both zero where a direction does not count."""

    raw: Floats
    noise: float
    spectrum: Spectrum

    @property
    def level(self) -> float:
        """What a raw magnitude has to pass."""
        return MARGIN * math.sqrt(self.noise)


def flipped_spectrum(
    graph: Adjacency, law: Flip, count: int, beat: Beat = quiet
) -> FlippedSpectrum:
    """Of a flipped graph; 1 <= count <= n."""
    raw, vectors = _eigenpairs(graph, float(law.probability), count, beat)
    noise = graph.count * law.variance
    sizes = np.abs(raw)
    counted = sizes > MARGIN * math.sqrt(noise)
    inside = np.sqrt(np.maximum(sizes**2 - 4 * noise, 0))
    corrected = np.where(counted, (sizes + inside) / 2, 0.0)
    return FlippedSpectrum(raw, noise, Spectrum(corrected, vectors * corrected))


def _eigenpairs(
    graph: Adjacency, probability: float, count: int, beat: Beat
) -> tuple[Floats, Floats]:
    n = graph.count
    sums = _neighbour_sums(graph)

    def multiplied(vector: Any) -> Any:
        beat()
        held = np.asarray(vector, np.float64).reshape(-1)
        rest = probability * (held.sum() - held)
        return (sums(held) - rest) / (1 - 2 * probability)

    if n <= SMALL or count >= n - 1:
        values, vectors = np.linalg.eigh(np.column_stack([multiplied(each) for each in np.eye(n)]))
    else:
        from scipy.sparse.linalg import LinearOperator, eigsh

        operator = LinearOperator((n, n), matvec=multiplied, dtype=np.float64)
        start = 1 + np.arange(n) % 7 / 10
        width = min(n, max(4 * count, 40))
        values, vectors = eigsh(
            operator, k=count, which="LM", v0=start, ncv=width, tol=_TOLERANCE, maxiter=10 * n
        )
    order = np.argsort(-np.abs(values), kind="stable")[:count]
    return values[order], vectors[:, order]


def _neighbour_sums(graph: Adjacency) -> Callable[[Floats], Floats]:
    """x -> R x, by numba where that pays."""
    if can_compile(20 * graph.entries):
        from algorithms.graph_random_matrix.compiled import neighbour_sums

        return lambda vector: neighbour_sums(graph.starts, graph.neighbours, vector)
    marks = np.arange(0, graph.entries, _PART)
    cuts = np.unique(np.concatenate(([0], np.searchsorted(graph.starts, marks), [graph.count])))
    occupied = np.diff(graph.starts) > 0

    def sums(vector: Floats) -> Floats:
        found = np.zeros(graph.count)
        for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            begin, end = int(graph.starts[first]), int(graph.starts[last])
            rows = first + np.flatnonzero(occupied[first:last])
            if rows.size:
                part = vector[graph.neighbours[begin:end]]
                found[rows] = np.add.reduceat(part, graph.starts[rows] - begin)
        return found

    return sums
