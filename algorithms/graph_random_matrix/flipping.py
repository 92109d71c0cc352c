"""A graph whose every pair of vertices was flipped with one small probability.

Each of the n (n - 1) / 2 pairs is decided by a random draw of its own: with probability
p = ceil(2^64 / (1 + e^epsilon)) / 2^64 an edge is removed or added. The flipped graph R is
epsilon'-private for an edge, epsilon' = ln((1 - p) / p) <= epsilon, with delta 0: a neighbour
differs in one pair, whose draw has this likelihood ratio. A draw compares a uniform byte with the
first byte of p, and 56 more bits with the rest where the two are equal; how much is drawn does not
depend on the graph.

Source: J. Hehir, A. Slavkovic and X. Niu on block models, 2022; arXiv 2309.06867 on general graphs.
Spec: graph-random-matrix, section 3.7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.datasets.edge_list import EdgeList
from algorithms.path_publishing.coins import WORD, epsilon_of, wrong_threshold
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
