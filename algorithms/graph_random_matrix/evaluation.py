"""Comparison with the true spectrum: visible only to the operator, never published.

The true spectrum by ARPACK, the source's measures of distance from it, and its baselines LNPP and
RW. All of this is **not private**.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations, product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.graph_random_matrix.linear_algebra import (
    Adjacency,
    Beat,
    Floats,
    Spectrum,
    centrality,
    quiet,
    ranking,
)
from algorithms.graph_random_matrix.outcome import Findings, Labels, clusters
from algorithms.graph_random_matrix.parameters import Metrics
from tacit.randomness import PublicRandom

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


def normalised_mutual_information(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """I / ((H1 + H2) / 2) of labels (n,) from 0; 1 where neither carries information."""
    joint = np.zeros((int(one.max()) + 1, int(other.max()) + 1))
    np.add.at(joint, (one, other), 1.0)
    joint /= len(one)
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    entropies = _entropy(rows) + _entropy(columns)
    if entropies == 0:
        return 1.0
    information = _entropy(rows) + _entropy(columns) - _entropy(joint.ravel())
    return float(np.clip(2 * information / entropies, 0.0, 1.0))


def _entropy(shares: Floats) -> float:
    present = shares[shares > 0]
    return float(-(present * np.log(present)).sum())


def squared_distance(one: Floats, other: Floats) -> float:
    """The source's n * MSE: of scores (n,), each scaled to unit length first; 2 if orthogonal."""
    return float(np.square(_unit(one) - _unit(other)).sum())


def _unit(scores: Floats) -> Floats:
    length = float(np.linalg.norm(scores))
    return scores / length if length else scores


def overlap(one: Floats, other: Floats, top: int) -> float:
    """The share of common vertices among the `top` highest scores (n,) of both."""
    compared = min(top, len(one))
    return np.intersect1d(ranking(one)[:compared], ranking(other)[:compared]).size / compared


def cosines(truth: Floats, estimated: Floats) -> Floats:
    """|<u_i, v_i>| (k,) of unit columns (n, k)."""
    products: Floats = np.abs(np.einsum("ij,ij->j", truth, estimated))
    return products


def ratios(truth: Floats, estimated: Floats) -> Floats:
    """|1'v_i| / |1'u_i| (k,): a guess at what the source's table of ratios shows."""
    sums: Floats = np.abs(estimated.sum(axis=0)) / np.maximum(np.abs(truth.sum(axis=0)), 1e-300)
    return sums


def subspace_share(truth: Floats, estimated: Floats) -> float:
    """How much of the span of truth (n, k) lies in that of found (n, k), both orthonormal."""
    return float(np.square(truth.T @ estimated).sum() / truth.shape[1])


def clusterings(vectors: Floats, count: int, seed: int, beat: Beat = quiet) -> list[Labels]:
    """This many clusterings of the rows (n, k) into k, drawn sequentially."""
    generator = PublicRandom(seed).generator
    return [clusters(vectors, vectors.shape[1], generator, beat) for _ in range(count)]


def agreement(one: list[Labels], other: list[Labels]) -> float:
    """The mean NMI over all pairs of one of each."""
    agreements = [normalised_mutual_information(a, b) for a, b in product(one, other)]
    return float(np.mean(agreements))


def self_agreement(one: list[Labels]) -> float:
    """The mean NMI over the pairs; 1 for a single one."""
    agreements = [normalised_mutual_information(a, b) for a, b in combinations(one, 2)]
    return float(np.mean(agreements)) if agreements else 1.0


def evaluate(
    graph: Adjacency,
    findings: Findings,
    k: int,
    theory: Callable[[float], float] | None,
    metrics: Metrics,
    context: Context,
) -> dict[str, Any]:
    """All metrics of the k leading eigenvectors. theory: the squared cosine that an estimate is
    expected to have, by |eigenvalue|."""
    assert findings.spectrum is not None
    beat = partial(context.progress, 0.97, "evaluating")
    truth = reference_spectrum(graph, k, beat)
    released_spectrum = Spectrum(findings.spectrum.values, findings.spectrum.scaled[:, :k])
    cosine = cosines(truth.vectors, released_spectrum.vectors)
    result: dict[str, Any] = {
        "eigenvalues": truth.values.tolist(),
        "ev_cosine": cosine.tolist(),
        "ev_ratio": ratios(truth.vectors, released_spectrum.vectors).tolist(),
        "ev_ratio_note": "a guess at what the source's table of ratios shows",
        "subspace_share": subspace_share(truth.vectors, released_spectrum.vectors),
    }
    scores, noisy = centrality(truth.scaled), centrality(released_spectrum.scaled)
    result["n_mse"] = squared_distance(scores, noisy)
    result["overlap"] = [
        {"top": top, "share": overlap(scores, noisy, top)}
        for top in metrics.top
        if top <= graph.count
    ]
    own_clusterings = clusterings(truth.vectors, metrics.clusterings, metrics.seed, beat)
    private = clusterings(released_spectrum.vectors, metrics.clusterings, metrics.seed + 1, beat)
    result["nmi"] = {
        "original": self_agreement(own_clusterings),
        "private": agreement(own_clusterings, private),
    }
    if theory is not None:
        result["squared_cosine_by_theory"] = [theory(float(value)) for value in truth.values]
    return result
