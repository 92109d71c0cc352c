"""Clustering methods: k-means, DBSCAN and linkage of a library, kCluster, the source's baselines.

kCluster is k-means on mean distances instead of centres. The baselines are plain k-means, ADP and
RSP; scores compare their labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from algorithms.dpbv_clustering.distances import Beat, Decoder, Singles, quiet
from tacit.encoders.dpbv_clustering import (
    WORD_BITS,
    Code,
    Flip,
    Floats,
    Ints,
    Words,
    unpack,
    words_per_value,
)


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

    At most as many centres as distinct points, so none for no points.
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
        fitted = method.fit(points, sample_weight=weights)
    return KMeansResult(
        fitted.labels_.astype(np.int64), fitted.cluster_centers_, fitted.inertia_, fitted.n_iter_
    )


def dbscan(distances: Singles, radius: float, min_samples: int) -> Ints:
    """Labels (n,) from distances (n, n) >= 0; -1 is noise."""
    from sklearn.cluster import DBSCAN

    if not len(distances):
        return np.empty(0, np.int64)
    fitted = DBSCAN(eps=radius, min_samples=min_samples, metric="precomputed").fit(
        np.maximum(distances, 0)
    )
    labels: Ints = fitted.labels_.astype(np.int64)
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
    fitted = DBSCAN(eps=radius, min_samples=min_samples, metric="precomputed").fit(graph)
    labels: Ints = fitted.labels_.astype(np.int64)
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


# Spec: dpbv-clustering, section 3.6. Source: Algorithm 2, equations 15 to 17. Each round every
# record moves to the cluster of the previous round with the least mean distance (itself counted as
# 0). The batch update has no descent guarantee: a labelling that repeats ends it, and so does
# `max_iter`. It asks for two things only: sums of distances to clusters, and distances to single
# records. They come from a matrix, or, for one attribute and for sums of attributes, from the bits
# without one:
#
#     sum_{p' in C} d_H(p, p') = |C| w_p + W_C - 2 b_p . S_C
#
# with w_p the ones of p, W_C their sum over C and S_C the bitwise sums. The identity is a sum over
# bits, so that wide values are taken a run of bits at a time. Both forms work on blocks of some
# hundredths of a second and call `beat` at each, so that a job is cancelled in the middle of a
# round.

_PRODUCTS: Final = 1 << 27
"""Multiplications of one block of a product of matrices."""
_BITS: Final = 1 << 20
"""Bits of one block of records, unpacked: 4 MiB; and of the sums of all clusters, 8 MiB."""
_NUMBERS: Final = 1 << 20
"""Distances of one block of records: 8 MiB."""
_ENTRIES: Final = 1 << 22
"""Entries of one block of a matrix of distances: 16 MiB."""


class Distances(Protocol):
    """The distances that kCluster needs, for n records."""

    @property
    def rows(self) -> int:
        """n, the number of records."""
        ...

    def to_records(self, chosen: Ints, beat: Beat = quiet) -> Floats:
        """Distances (n, c) to these records."""
        ...

    def to_clusters(self, labels: Ints, clusters: int, beat: Beat = quiet) -> Floats:
        """Sums (n, k) of distances to the members of each cluster; a record is 0 from itself."""
        ...


@dataclass(frozen=True, eq=False)
class MatrixDistances:
    """From all distances (n, n), 0 on the diagonal. O(n^2 k) a round."""

    matrix: Singles

    @property
    def rows(self) -> int:
        """n, the number of records."""
        return len(self.matrix)

    def to_records(self, chosen: Ints, beat: Beat = quiet) -> Floats:
        """Columns."""
        result = np.empty((self.rows, len(chosen)))
        for part in self._blocks(len(chosen)):
            beat()
            result[part] = self.matrix[part][:, chosen]
        return result

    def to_clusters(self, labels: Ints, clusters: int, beat: Beat = quiet) -> Floats:
        """A product with the memberships."""
        members = np.zeros((self.rows, clusters), np.float32)
        members[np.arange(self.rows), labels] = 1
        result = np.empty((self.rows, clusters))
        for part in self._blocks(clusters):
            beat()
            result[part] = self.matrix[part] @ members
        return result

    def _blocks(self, clusters: int) -> Iterator[slice]:
        """Places of rows, block by block."""
        return _slices(self.rows, _PRODUCTS // (self.rows * clusters), _ENTRIES // self.rows)


@dataclass(frozen=True)
class Run:
    """Some of an attribute's bits: whole `words` but for the last, `bits` in total. A distance is
    `factor` times (Hamming distance - `floor`), added up over the runs."""

    place: int
    words: slice
    bits: int
    factor: float
    floor: float


@dataclass(frozen=True, eq=False)
class BitDistances:
    """Sums over attributes of decoded distances, from packed bits (n, d, w). O(n s d k) a round."""

    words: Words
    codes: tuple[Code, ...]
    flip: Flip

    @property
    def rows(self) -> int:
        """n, the number of records."""
        return len(self.words)

    def to_records(self, chosen: Ints, beat: Beat = quiet) -> Floats:
        """Each record is its own cluster."""
        result = np.zeros((self.rows, len(chosen)))
        sizes = np.ones(len(chosen))
        for run in self._runs(len(chosen)):
            beat()
            self._add(result, run, self._bits(chosen, run).astype(np.float64), sizes, beat)
        result[chosen, np.arange(len(chosen))] = 0
        return result

    def to_clusters(self, labels: Ints, clusters: int, beat: Beat = quiet) -> Floats:
        """Bitwise sums of every cluster, then one product a block of records."""
        sizes = np.bincount(labels, minlength=clusters).astype(np.float64)
        result = np.zeros((self.rows, clusters))
        for run in self._runs(clusters):
            sums = np.zeros((clusters, run.bits))
            for part in self._blocks(run.bits, clusters):
                beat()
                labels_of_part = labels[part]
                members = np.zeros((clusters, len(labels_of_part)), np.float32)
                members[labels_of_part, np.arange(len(labels_of_part))] = 1
                sums += members @ self._bits(part, run)
            self._add(result, run, sums, sizes, beat)
        # A literal decode of d_H = 0 is no distance.
        itself = sum(Decoder.of(code, self.flip).decode(0) for code in self.codes)
        result[np.arange(self.rows), labels] -= itself
        return result

    def _runs(self, clusters: int) -> Iterator[Run]:
        """All bits, attribute by attribute; the sums of this many clusters over a run are small."""
        width = max(1, _BITS // (clusters * WORD_BITS))
        for place, code in enumerate(self.codes):
            decoder = Decoder.of(code, self.flip)
            for first in range(0, words_per_value(code.bits), width):
                bits = min(width * WORD_BITS, code.bits - first * WORD_BITS)
                words = slice(first, first + width)
                floor = decoder.floor * bits / decoder.bits
                yield Run(place, words, bits, decoder.factor, floor)

    def _bits(self, rows: Ints | slice, run: Run) -> Singles:
        return unpack(self.words[rows, run.place, run.words], run.bits).astype(np.float32)

    def _blocks(self, bits: int, clusters: int) -> Iterator[slice]:
        """Places of records, block by block."""
        return _slices(
            self.rows, _BITS // bits, _PRODUCTS // (bits * clusters), _NUMBERS // clusters
        )

    def _add(self, sums_of_run: Floats, run: Run, sums: Floats, sizes: Floats, beat: Beat) -> None:
        """Add a run's decoded sums (n, k) to those found so far."""
        ones = sums.sum(axis=1) - run.floor * sizes
        turned = sums.astype(np.float32).T  # whole numbers below 2^24
        for part in self._blocks(run.bits, len(sums)):
            beat()
            bits = self._bits(part, run)
            weight = bits.sum(axis=1, dtype=np.float64)
            hamming = np.outer(weight, sizes) + ones - 2 * (bits @ turned).astype(np.float64)
            sums_of_run[part] += run.factor * hamming


@dataclass(frozen=True, eq=False)
class Clustering:
    """labels (n,), the objective (17) of the best restart, and the course of each restart."""

    labels: Ints
    objective: float
    iterations: tuple[int, ...]
    converged: bool


def kcluster(
    distances: Distances,
    clusters: int,
    generator: np.random.Generator,
    restarts: int = 10,
    max_iter: int = 100,
    beat: Beat = quiet,
) -> Clustering:
    """The best of `restarts` starts from k distinct records each, or from all n < k."""
    if not distances.rows:
        return Clustering(np.empty(0, np.int64), 0.0, (), True)
    clusters = min(clusters, distances.rows)
    best: Clustering | None = None
    iterations = []
    for _ in range(restarts):
        start = generator.choice(distances.rows, clusters, replace=False)
        attempt = from_records(distances, start, max_iter, beat)
        iterations.append(attempt.iterations[0])
        if best is None or attempt.objective < best.objective:
            best = attempt
    assert best is not None
    return Clustering(best.labels, best.objective, tuple(iterations), best.converged)


def from_records(
    distances: Distances, start: Ints, max_iter: int = 100, beat: Beat = quiet
) -> Clustering:
    """One run from given distinct first records (k,)."""
    clusters = len(start)
    labels = _nearest(distances.to_records(start, beat), beat)
    labels[start] = np.arange(clusters)
    rows = np.arange(distances.rows)
    earlier_labels = {labels.tobytes()}
    means = _means(distances, labels, clusters, beat)
    rounds, converged = 0, False
    while rounds < max_iter:
        rounds += 1
        beat()
        moved = _nearest(means, beat)
        stays = means[rows, labels] <= means[rows, moved]
        moved = np.where(stays, labels, moved)
        moved = _refill(moved, means[rows, moved], clusters)
        converged = bool((moved == labels).all())
        if converged:
            break
        labels = moved
        means = _means(distances, labels, clusters, beat)
        if labels.tobytes() in earlier_labels:
            break
        earlier_labels.add(labels.tobytes())
    return Clustering(labels, float(means[rows, labels].sum()), (rounds,), converged)


def _means(distances: Distances, labels: Ints, clusters: int, beat: Beat) -> Floats:
    """Equation 16: mean distances (n, k) to the clusters; none is empty."""
    sums = distances.to_clusters(labels, clusters, beat)
    sizes = np.bincount(labels, minlength=clusters)
    for part in _parts(sums):
        beat()
        sums[part] /= sizes
    return sums


def _nearest(distances: Floats, beat: Beat) -> Ints:
    """The column of the least distance (n,); the lowest of several."""
    result = np.empty(len(distances), np.int64)
    for part in _parts(distances):
        beat()
        np.argmin(distances[part], axis=1, out=result[part])
    return result


def _parts(distances: Floats) -> Iterator[slice]:
    """Blocks of records of distances (n, k)."""
    return _slices(len(distances), _NUMBERS // distances.shape[1])


def _slices(rows: int, *most: int) -> Iterator[slice]:
    """Runs of at most each of these numbers of rows, at least one row."""
    step = max(1, min(most))
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))


def _refill(labels: Ints, distance_of: Floats, clusters: int) -> Ints:
    """Give every empty cluster the record that is farthest from its own, among those that are
    not alone."""
    sizes = np.bincount(labels, minlength=clusters)
    if sizes.all():
        return labels
    filled = labels.copy()
    farthest = iter(np.argsort(-distance_of, kind="stable").tolist())
    for empty in np.flatnonzero(sizes == 0).tolist():
        record = next(row for row in farthest if sizes[filled[row]] > 1)
        sizes[filled[record]] -= 1
        sizes[empty] = 1
        filled[record] = empty
    return filled


# Spec: dpbv-clustering, section 6. They run on true records and protect little or nothing: their
# labels are for the evaluation, their true figures for the report. Noise is floating-point
# Gaussian, from public randomness; nothing here is released.


def adp(
    values: Floats, sigma: float, clusters: int, generator: np.random.Generator, restarts: int = 10
) -> KMeansResult:
    """k-means of p + N(0, sigma), sigma a standard deviation."""
    return kmeans(values + generator.normal(0, sigma, values.shape), clusters, generator, restarts)


def rsp(
    values: Floats,
    dimensions: int,
    clusters: int,
    generator: np.random.Generator,
    restarts: int = 10,
) -> KMeansResult:
    """k-means of p R / sqrt(q), R (d, q) of independent N(0, 1)."""
    matrix = generator.normal(0, 1, (values.shape[1], dimensions))
    return kmeans(values @ matrix / math.sqrt(dimensions), clusters, generator, restarts)


def gaussian_delta(epsilon: float, sigma: float, diameter: float) -> float:
    """delta of Gaussian noise for points at most `diameter` apart (L2).

    Phi(D/2s - eps s/D) - e^eps Phi(-D/2s - eps s/D); B. Balle and Y.-X. Wang (2018), theorem 8.
    """
    from scipy.special import log_ndtr

    half, shift = diameter / (2 * sigma), epsilon * sigma / diameter
    more = float(log_ndtr(half - shift))
    less = epsilon + float(log_ndtr(-half - shift))
    return 0.0 if less >= more else math.exp(more) * -math.expm1(less - more)


def gaussian_epsilon(delta: float, sigma: float, diameter: float) -> float:
    """The least epsilon with that delta, rounded up by bisection; 0 < delta < 1."""
    low, high = 0.0, 1.0
    while gaussian_delta(high, sigma, diameter) > delta:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if gaussian_delta(middle, sigma, diameter) > delta:
            low = middle
        else:
            high = middle
    return high * (1 + 1e-9)
