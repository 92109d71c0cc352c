"""The true spectrum, by ARPACK: for the evaluation and the reproductions; not private.

Spec: graph-random-matrix, sections 3.2 and 3.4.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from algorithms.graph_random_matrix.rows import Adjacency
from algorithms.graph_random_matrix.spectrum import Beat, Floats, Spectrum, quiet

SMALL: Final = 600
"""Vertices up to which all eigenpairs are computed together."""


def eigenpairs(
    graph: Adjacency, count: int, *, algebraic: bool = False, beat: Beat = quiet
) -> tuple[Floats, Floats]:
    """`count` < n eigenvalues and vectors (n, count), by falling magnitude, or by falling value."""
    n = graph.count
    if n <= SMALL or count >= n - 1:
        values, vectors = np.linalg.eigh(dense(graph))
    else:
        from scipy.sparse.linalg import LinearOperator, eigsh

        matrix = _sparse(graph)

        def multiplied(vector: Any) -> Any:
            beat()
            return matrix @ vector

        operator = LinearOperator((n, n), matvec=multiplied, dtype=np.float64)
        # Explicit, since ARPACK's default is random; not constant, which may be an eigenvector.
        start = 1 + np.arange(n) % 7 / 10
        values, vectors = eigsh(operator, k=count, which="LA" if algebraic else "LM", v0=start)
    order = np.argsort(-values if algebraic else -np.abs(values), kind="stable")[:count]
    return values[order], vectors[:, order]


def reference_spectrum(graph: Adjacency, count: int, beat: Beat = quiet) -> Spectrum:
    """Eigenvectors of the largest |lambda|, as the noisy estimate is given."""
    values, vectors = eigenpairs(graph, count, beat=beat)
    return Spectrum(np.abs(values), vectors * np.abs(values))


def dense(graph: Adjacency) -> Floats:
    """The matrix (n, n)."""
    full = np.zeros((graph.count, graph.count))
    rows = np.repeat(np.arange(graph.count), np.diff(graph.starts))
    full[rows, graph.neighbours] = 1
    return full


def _sparse(graph: Adjacency) -> Any:
    from scipy.sparse import csr_array

    ones = np.ones(graph.entries, np.float64)
    return csr_array((ones, graph.neighbours, graph.starts), (graph.count, graph.count))
