"""A graph whose every pair of vertices was flipped with one small probability.

Leading eigenpairs of the unbiased estimate that a flipped graph gives of the true one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_random_matrix.linear_algebra import Adjacency, Beat, Floats, Spectrum, quiet
from algorithms.graph_random_matrix.publication import can_compile
from algorithms.path_publishing.levelled_graph import WORD, epsilon_of, wrong_threshold
from tacit.randomness import NoiseSource

STAGE: Final = "flips"
PAIRS: Final = 1 << 22
"""Pairs that share a stream of coins."""
_REST: Final = 56


@dataclass(frozen=True)
class Flip:
    """The law of one coin: it flips for `threshold` of 2^64 words, 1 <= threshold < 2^63."""

    threshold: int

    @classmethod
    def of(cls, epsilon: Fraction) -> Flip:
        """The least flipping that keeps epsilon > 0. Raises ValueError where only coins that show
        nothing would."""
        threshold = wrong_threshold(epsilon)
        if threshold >= WORD // 2:
            raise ValueError("so small an epsilon leaves nothing")
        return cls(threshold)

    @property
    def probability(self) -> Fraction:
        """p, below 1/2."""
        return Fraction(self.threshold, WORD)

    @property
    def epsilon(self) -> Fraction:
        """ln((1 - p) / p), rounded up."""
        return epsilon_of(self.threshold)

    @property
    def variance(self) -> float:
        """Of an entry of the unbiased estimate of A: p (1 - p) / (1 - 2 p)^2."""
        p = self.probability
        return float(p * (1 - p) / (1 - 2 * p) ** 2)

    def coins(self, source: NoiseSource, count: int) -> NDArray[np.bool_]:
        """`count` independent coins; true: flipped."""
        first, rest = divmod(self.threshold, 1 << _REST)
        octets = source.words(-(-count // 8)).view(np.uint8)[:count]
        shown = octets < first
        ties = np.flatnonzero(octets == first)
        shown[ties] = (source.words(ties.size) >> np.uint64(64 - _REST)) < np.uint64(rest)
        return shown


def pairs_of(vertices: int) -> int:
    """n (n - 1) / 2."""
    return vertices * (vertices - 1) // 2


def flipped(graph: EdgeList, law: Flip, context: Context) -> EdgeList:
    """R, on the same vertices. Raises Cancelled."""
    n = graph.count
    rows = np.arange(n, dtype=np.int64)
    # Pair (i, j), i < j, has the number offsets[i] + j: row by row.
    offsets = rows * (2 * n - rows - 1) // 2 - rows - 1
    numbers = offsets[graph.first] + graph.second
    starts = offsets + rows + 1
    total = pairs_of(n)
    firsts, seconds = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for block, begin in enumerate(range(0, total, PAIRS)):
        context.progress(0.05 + 0.3 * begin / total, "flipping")
        end = min(begin + PAIRS, total)
        there = law.coins(context.noise(STAGE, block), end - begin)
        low, high = np.searchsorted(numbers, [begin, end])
        there[numbers[low:high] - begin] ^= True
        found = np.flatnonzero(there) + begin
        first = np.searchsorted(starts, found, side="right") - 1
        firsts.append(first.astype(np.int32))
        seconds.append((found - offsets[first]).astype(np.int32))
    return replace(
        graph,
        first=np.concatenate(firsts),
        second=np.concatenate(seconds),
        loops=0,
        duplicates=0,
    )


def packed(graph: EdgeList) -> NDArray[np.uint8]:
    """The pairs in order of their numbers as bits, the lowest of a byte first: n^2 / 16 bytes."""
    n = graph.count
    first = graph.first.astype(np.int64)
    numbers = first * (2 * n - first - 1) // 2 - first - 1 + graph.second
    bits = np.zeros(-(-pairs_of(n) // 8), np.uint8)
    np.bitwise_or.at(bits, numbers >> 3, np.left_shift(1, numbers & 7).astype(np.uint8))
    return bits


def expected_edges(vertices: int, mean_degree: Fraction, law: Flip) -> int:
    """Of R, at most, by the public guess at the graph's own degree."""
    return math.ceil(vertices * mean_degree / 2 + pairs_of(vertices) * law.probability)


# (R - p (J - I)) / (1 - 2 p) has the mean A off the diagonal, and entries of variance v. Its noise
# has the operator norm 2 sqrt(n v), so that a direction counts from 2.1 sqrt(n v) on; an eigenvalue
# lambda > sqrt(n v) then shows as lambda + n v / lambda, and its vector with the squared cosine 1 -
# n v / lambda^2. Source: F. Benaych-Georges and R. R. Nadakuditi, 2011 (spiked Wigner matrices).
# Spec: graph-random-matrix, section 3.7.

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
        """The level that a raw magnitude has to exceed."""
        return MARGIN * math.sqrt(self.noise)


def flipped_spectrum(
    graph: Adjacency, law: Flip, count: int, beat: Beat = quiet
) -> FlippedSpectrum:
    """The spectrum of a flipped graph; 1 <= count <= n."""
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
        result = np.zeros(graph.count)
        for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            begin, end = int(graph.starts[first]), int(graph.starts[last])
            rows = first + np.flatnonzero(occupied[first:last])
            if rows.size:
                part = vector[graph.neighbours[begin:end]]
                result[rows] = np.add.reduceat(part, graph.starts[rows] - begin)
        return result

    return sums
