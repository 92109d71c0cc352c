"""Comparison with the true spectrum: visible only to the operator, never published.

Spec: graph-random-matrix, section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np

from algorithms.contract import Context
from algorithms.graph_random_matrix.clustering import Labels, clusters
from algorithms.graph_random_matrix.findings import Findings
from algorithms.graph_random_matrix.parameters import Metrics
from algorithms.graph_random_matrix.reference import reference_spectrum
from algorithms.graph_random_matrix.rows import Adjacency
from algorithms.graph_random_matrix.scores import (
    cosines,
    normalised_mutual_information,
    overlap,
    ratios,
    squared_distance,
    subspace_share,
)
from algorithms.graph_random_matrix.spectrum import Beat, Floats, Spectrum, centrality, quiet
from tacit.randomness import PublicRandom


def clusterings(vectors: Floats, count: int, seed: int, beat: Beat = quiet) -> list[Labels]:
    """This many clusterings of the rows (n, k) into k, drawn sequentially."""
    generator = PublicRandom(seed).generator
    return [clusters(vectors, vectors.shape[1], generator, beat) for _ in range(count)]


def agreement(one: list[Labels], other: list[Labels]) -> float:
    """The mean NMI over all pairs of one of each."""
    found = [normalised_mutual_information(a, b) for a, b in product(one, other)]
    return float(np.mean(found))


def self_agreement(one: list[Labels]) -> float:
    """The mean NMI over the pairs; 1 for a single one."""
    found = [normalised_mutual_information(a, b) for a, b in combinations(one, 2)]
    return float(np.mean(found)) if found else 1.0


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
    found = Spectrum(findings.spectrum.values, findings.spectrum.scaled[:, :k])
    cosine = cosines(truth.vectors, found.vectors)
    result: dict[str, Any] = {
        "eigenvalues": truth.values.tolist(),
        "ev_cosine": cosine.tolist(),
        "ev_ratio": ratios(truth.vectors, found.vectors).tolist(),
        "ev_ratio_note": "a guess at what the source's table of ratios shows",
        "subspace_share": subspace_share(truth.vectors, found.vectors),
    }
    scores, noisy = centrality(truth.scaled), centrality(found.scaled)
    result["n_mse"] = squared_distance(scores, noisy)
    result["overlap"] = [
        {"top": top, "share": overlap(scores, noisy, top)}
        for top in metrics.top
        if top <= graph.count
    ]
    own = clusterings(truth.vectors, metrics.clusterings, metrics.seed, beat)
    private = clusterings(found.vectors, metrics.clusterings, metrics.seed + 1, beat)
    result["nmi"] = {"original": self_agreement(own), "private": agreement(own, private)}
    if theory is not None:
        result["squared_cosine_by_theory"] = [theory(float(value)) for value in truth.values]
    return result
