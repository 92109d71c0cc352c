"""Distances decoded from flipped bits, their variance, and their combination over attributes.

Spec: dpbv-clustering, sections 3.3, 3.4 and 3.7. Source: Theorem 5, equations 11, 12, 19 to 23.
With p = 1 - q and m differing clean bits, E[d_H] = 2pq s + (p - q)^2 m, and over the random points
m has mean 2 s |x - y| / mu up to |x - y| = 2t. A record's distance to itself is 0 by definition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from algorithms.dpbv_clustering.hamming import (
    Beat,
    Kernel,
    Singles,
    best_kernel,
    matrix,
    quiet,
    upper_blocks,
)
from tacit.encoders.dpbv_clustering.encoder import Code, Flip, Floats, Words

Metric = Literal["euclidean", "manhattan"]


@dataclass(frozen=True)
class Decoder:
    """One attribute's map from Hamming distances to distances: s, mu and q."""

    bits: int
    span: float
    flip: float

    @classmethod
    def of(cls, code: Code, flip: Flip) -> Decoder:
        """For these points and this coin."""
        return cls(code.bits, code.span, float(flip.probability))

    @property
    def floor(self) -> float:
        """2pq s: the Hamming distance that flips alone make."""
        return 2 * self.flip * (1 - self.flip) * self.bits

    @property
    def factor(self) -> float:
        """mu / (2s (p - q)^2)."""
        return self.span / (2 * self.bits * (1 - 2 * self.flip) ** 2)

    def decode(self, hamming: float) -> float:
        """One distance; may be negative."""
        return self.factor * (hamming - self.floor)

    def decode_block(self, hamming: Singles) -> Singles:
        """Distances of a block, in place."""
        hamming -= np.float32(self.floor)
        hamming *= np.float32(self.factor)
        return hamming

    @property
    def flip_variance(self) -> float:
        """mu^2/(4s) 2pq (1 - 2pq)/(p - q)^4: the coins' part of the variance of a distance."""
        turned = 2 * self.flip * (1 - self.flip)
        return self.span**2 / (4 * self.bits) * turned * (1 - turned) / (1 - 2 * self.flip) ** 4

    def variance(self, distance: float, *, random_points: bool = True) -> float:
        """Of a decoded distance <= 2t; the points' part f (1 - f) where they are random."""
        share = 2 * distance / self.span
        points = self.span**2 / (4 * self.bits) * share * (1 - share) if random_points else 0.0
        return self.flip_variance + points

    def tail_bound(self, beta: float) -> float:
        """Theorem 6: one distance errs by more with probability at most beta."""
        return (
            self.span
            / 2
            / (1 - 2 * self.flip) ** 2
            * math.sqrt(math.log(2 / beta) / (2 * self.bits))
        )


def decoded(words: Words, code: Code, flip: Flip, kernel: Kernel | None = None) -> Singles:
    """Distances (n, n) of one attribute's packed bits (n, w); 0 on the diagonal."""
    found = Decoder.of(code, flip).decode_block(matrix(words, code.bits, kernel))
    np.fill_diagonal(found, 0)
    return found


@dataclass(frozen=True, eq=False)
class Combination:
    """How distances of attributes become one: equation 19, or their sum.

    `excess`: what flips add to the sum of squares, taken off where bias is corrected.
    """

    metric: Metric
    excess: float = 0.0

    @classmethod
    def of(
        cls, codes: tuple[Code, ...], flip: Flip, metric: Metric, *, correct: bool
    ) -> Combination:
        """The correction is the sum of the coins' variances.

        One attribute's distances stay as they are decoded, with their sign: they are unbiased, and
        equation 16 averages them.
        """
        if len(codes) == 1:
            return cls("manhattan")
        excess = sum(Decoder.of(code, flip).flip_variance for code in codes) if correct else 0.0
        return cls(metric, excess)

    def add(self, total: Singles, part: Singles) -> None:
        """Add an attribute's distances to a running total, in place; `part` is spent."""
        if self.metric == "euclidean":
            part *= part
        total += part

    def finish(self, total: Singles) -> Singles:
        """The distances, in place."""
        if self.metric == "euclidean":
            total -= np.float32(self.excess)
            np.maximum(total, 0, out=total)
            np.sqrt(total, out=total)
        return total


def distance_blocks(
    words: Words,
    codes: tuple[Code, ...],
    flip: Flip,
    combination: Combination,
    kernel: Kernel | None = None,
) -> Iterator[tuple[slice, slice, Singles]]:
    """Blocks on and above the diagonal of the distances of packed records (n, d, w)."""
    chosen = kernel or best_kernel()
    decoders = [Decoder.of(code, flip) for code in codes]
    for top, left in upper_blocks(len(words)):
        total = np.zeros((top.stop - top.start, left.stop - left.start), np.float32)
        for place, decoder in enumerate(decoders):
            rows, columns = (np.ascontiguousarray(words[part, place]) for part in (top, left))
            combination.add(total, decoder.decode_block(chosen(rows, columns, decoder.bits)))
        block = combination.finish(total)
        if top == left:
            np.fill_diagonal(block, 0)
        yield top, left, block


def distances(
    words: Words,
    codes: tuple[Code, ...],
    flip: Flip,
    combination: Combination,
    kernel: Kernel | None = None,
    beat: Beat = quiet,
) -> Singles:
    """All distances (n, n) of packed records (n, d, w)."""
    found = np.empty((len(words), len(words)), np.float32)
    for top, left, block in distance_blocks(words, codes, flip, combination, kernel):
        beat()
        found[top, left] = block
        found[left, top] = block.T
    return found


def point_distances(points: Floats, combination: Combination) -> Singles:
    """The same of points (n, d), without any correction."""
    total = np.zeros((len(points), len(points)), np.float32)
    plain = Combination(combination.metric)
    for column in points.T.astype(np.float32):
        plain.add(total, np.abs(column[:, None] - column[None, :]))
    return plain.finish(total)
