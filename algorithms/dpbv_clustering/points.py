"""Clustering with a library: k-means of points, DBSCAN and linkage of distances, and scores.

Spec: dpbv-clustering, sections 3.6 and 6; scikit-learn does the work, imported inside.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from algorithms.dpbv_clustering.hamming import Singles
from tacit.encoders.dpbv_clustering.encoder import Floats, Ints


@dataclass(frozen=True, eq=False)
class KMeansResult:
    """labels (n,), centres (k, d), the sum of squared distances, steps of the best restart."""

    labels: Ints
    centres: Floats
    objective: float
    iterations: int


def kmeans(
    points: Floats,
    clusters: int,
    generator: np.random.Generator,
    restarts: int = 10,
    max_iter: int = 100,
    weights: Floats | None = None,
) -> KMeansResult:
    """k-means of points (n, d), optionally weighted (n,); restarts drawn from public randomness.

    At most as many centres as there are different points, so none of no points.
    """
    if not len(points):
        return KMeansResult(np.empty(0, np.int64), points, 0.0, 0)
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    method = KMeans(
        min(clusters, len(np.unique(points, axis=0))),
        n_init=restarts,
        max_iter=max_iter,
        random_state=int(generator.integers(1 << 31)),
    )
    # A worker has one core: threads that wait for each other in every step only slow it down, and
    # one thread adds up in the same order each time.
    with threadpool_limits(1):
        found = method.fit(points, sample_weight=weights)
    return KMeansResult(
        found.labels_.astype(np.int64), found.cluster_centers_, found.inertia_, found.n_iter_
    )


def dbscan(distances: Singles, radius: float, min_samples: int) -> Ints:
    """Labels (n,) from distances (n, n) >= 0; -1 is noise."""
    from sklearn.cluster import DBSCAN

    if not len(distances):
        return np.empty(0, np.int64)
    found = DBSCAN(eps=radius, min_samples=min_samples, metric="precomputed").fit(
        np.maximum(distances, 0)
    )
    labels: Ints = found.labels_.astype(np.int64)
    return labels


def dbscan_blocks(
    blocks: Iterable[tuple[slice, slice, Singles]], rows: int, radius: float, min_samples: int
) -> Ints:
    """The same from blocks on and above the diagonal; only pairs within the radius are kept."""
    from scipy.sparse import coo_array
    from sklearn.cluster import DBSCAN

    left, right, lengths = [], [], []
    for top, side, block in blocks:
        one, other = np.nonzero(block <= radius)
        length = np.maximum(block[one, other], 1e-12)  # an explicit 0 stays an entry
        one, other = one + top.start, other + side.start
        off = top != side
        left += [one, other] if off else [one]
        right += [other, one] if off else [other]
        lengths += [length, length] if off else [length]
    graph = coo_array(
        (np.concatenate(lengths), (np.concatenate(left), np.concatenate(right))), (rows, rows)
    ).tocsr()
    found = DBSCAN(eps=radius, min_samples=min_samples, metric="precomputed").fit(graph)
    labels: Ints = found.labels_.astype(np.int64)
    return labels


def linkage_tree(distances: Singles) -> Floats:
    """The merges (n - 1, 4) of average linkage of distances (n, n) >= 0; n >= 2."""
    from scipy.cluster.hierarchy import average

    rows, columns = np.triu_indices(len(distances), 1)
    merges: Floats = average(np.maximum(distances[rows, columns], 0).astype(np.float64))
    return merges


def cut_tree(merges: Floats, clusters: int) -> Ints:
    """Labels (n,) from 0, of at most k clusters."""
    from scipy.cluster.hierarchy import fcluster

    labels: Ints = fcluster(merges, clusters, "maxclust").astype(np.int64) - 1
    return labels


def scores(reference: Ints, labels: Ints) -> dict[str, float]:
    """Normalised mutual information (arithmetic mean) and the adjusted Rand index."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    return {
        "nmi": float(normalized_mutual_info_score(reference, labels)),
        "ari": float(adjusted_rand_score(reference, labels)),
    }
