"""Distances of encoded records: Hamming distances of packed bits, and what is decoded from them.

Block by block, by two kernels that agree bit for bit; decoded distances with their variance and
their combination over attributes; vertically partitioned records (Alice's part is exact, Bob's
comes from bits); and distance consistence beyond 2t, where the code is flat. Spec: dpbv-clustering.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.dpbv_clustering.parameters import NoiseTooLarge
from tacit.encoders.dpbv_clustering import (
    BLOCK_COINS,
    Code,
    Design,
    Flip,
    Floats,
    Ints,
    Words,
    make_codes,
    unpack,
)
from tacit.randomness import NoiseSource

Singles: TypeAlias = NDArray[np.float32]
Kernel: TypeAlias = Callable[[Words, Words, int], Singles]

Beat: TypeAlias = Callable[[], None]
"""Called between pieces of long work; raises to stop it."""

BLOCK: Final = 1024


def quiet() -> None:
    """No progress is reported."""


def signs(words: Words, bits: int) -> Singles:
    """Packed bits (n, w) as -1 and +1 (n, s)."""
    plus = unpack(words, bits).astype(np.float32)
    plus *= 2
    plus -= 1
    return plus


def product(left: Words, right: Words, bits: int) -> Singles:
    """Distances (a, b) of packed bits (a, w) and (b, w) of s bits each."""
    result: Singles = signs(left, bits) @ signs(right, bits).T
    result *= -0.5
    result += np.float32(bits / 2)
    return result


def best_kernel() -> Kernel:
    """The compiled one where it is installed, else the product."""
    if find_spec("numba") is None:
        return product
    from algorithms.dpbv_clustering.compiled import hamming

    return hamming


def upper_blocks(rows: int, block: int = BLOCK) -> Iterator[tuple[slice, slice]]:
    """The blocks of a symmetric (n, n) matrix on and above its diagonal."""
    for top in range(0, rows, block):
        for left in range(top, rows, block):
            yield slice(top, min(top + block, rows)), slice(left, min(left + block, rows))


def matrix(words: Words, bits: int, kernel: Kernel | None = None) -> Singles:
    """All distances (n, n) of one attribute's packed bits (n, w); by the fastest available
    kernel unless one is named."""
    if kernel is None and find_spec("numba") is not None:
        from algorithms.dpbv_clustering.compiled import hamming_matrix

        return hamming_matrix(words)
    chosen = kernel or best_kernel()
    result = np.empty((len(words), len(words)), np.float32)
    for top, left in upper_blocks(len(words)):
        block = chosen(words[top], words[left], bits)
        result[top, left] = block
        result[left, top] = block.T
    return result


# Spec: dpbv-clustering, sections 3.3, 3.4 and 3.7. Source: Theorem 5, equations 11, 12, 19 to 23.
# With p = 1 - q and m differing clean bits, E[d_H] = 2pq s + (p - q)^2 m, and over the random
# points m has mean 2 s |x - y| / mu up to |x - y| = 2t. A record's distance to itself is 0 by
# definition.

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
    result = Decoder.of(code, flip).decode_block(matrix(words, code.bits, kernel))
    np.fill_diagonal(result, 0)
    return result


@dataclass(frozen=True, eq=False)
class Combination:
    """How distances of attributes are combined: by equation 19, or as their sum.

    `excess`: the bias of the sum of squares by flips, subtracted where bias is corrected.
    """

    metric: Metric
    excess: float = 0.0

    @classmethod
    def of(
        cls, codes: tuple[Code, ...], flip: Flip, metric: Metric, *, correct: bool
    ) -> Combination:
        """The correction is the sum of the coins' variances.

        One attribute's distances are used as decoded, with their sign: they are unbiased, and
        equation 16 averages them.
        """
        if len(codes) == 1:
            return cls("manhattan")
        excess = sum(Decoder.of(code, flip).flip_variance for code in codes) if correct else 0.0
        return cls(metric, excess)

    def add(self, total: Singles, part: Singles) -> None:
        """Add an attribute's distances to a running total, in place; `part` is overwritten."""
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
    result = np.empty((len(words), len(words)), np.float32)
    for top, left, block in distance_blocks(words, codes, flip, combination, kernel):
        beat()
        result[top, left] = block
        result[left, top] = block.T
    return result


def point_distances(points: Floats, combination: Combination) -> Singles:
    """The same of points (n, d), without any correction."""
    total = np.zeros((len(points), len(points)), np.float32)
    plain = Combination(combination.metric)
    for column in points.T.astype(np.float32):
        plain.add(total, np.abs(column[:, None] - column[None, :]))
    return plain.finish(total)


# Spec: dpbv-clustering, section 3.7. Source: equations 18 to 23 (20 lacks a square). Offered in
# `paper` only: Alice's attributes are not protected at all, and a decomposition encodes every
# record once per pair.


def squared(values: Floats) -> Floats:
    """Exact squared distances (n, n) of Alice's attributes (n, l)."""
    from scipy.spatial.distance import pdist, squareform

    result: Floats = squareform(pdist(values, "sqeuclidean"))
    return result


def combine(left: Floats, right_squared: Floats | Singles) -> Singles:
    """sqrt(L^2 + max(0, R^2))."""
    result: Singles = np.sqrt(left + np.maximum(right_squared, 0)).astype(np.float32)
    np.fill_diagonal(result, 0)
    return result


def pair_code(ranges: tuple[float, ...], bits: int, design: Design, seed: int) -> Code:
    """The code of a pair's two scalars: range [0, 2 sum range_j^2], t' = sum range_j^2 / 2."""
    total = sum(width * width for width in ranges)
    return make_codes(((0.0, 2 * total),), (total / 2,), bits, design, seed)[0]


def decomposed_pairs(
    values: Floats, one: Ints, other: Ints, code: Code, flip: Flip, source: NoiseSource
) -> Floats:
    """R^2 (m,) of pairs of Bob's records (n, r), non-negative, from fresh codes of each pair's

    u = sum(p_A^2 + p_B^2) and v = 2 sum p_A p_B, so that R^2 = u - v.
    """
    norms = np.square(values).sum(axis=1)
    sums = norms[one] + norms[other]
    products = 2 * np.einsum("ij,ij->i", values[one], values[other])
    decoder = Decoder.of(code, flip)
    result = np.empty(len(one))
    rows = max(1, BLOCK_COINS // code.bits)
    for start in range(0, len(one), rows):
        part = slice(start, start + rows)
        left, right = code.clean(sums[part]), code.clean(products[part])
        for bits in (left, right):
            bits ^= flip.draw(source, bits.size).reshape(bits.shape)
        turned = (left ^ right).sum(axis=1)
        result[part] = decoder.factor * (turned - decoder.floor)
    return result


def decomposed(values: Floats, code: Code, flip: Flip, source: NoiseSource) -> Floats:
    """R^2 (n, n) of all pairs."""
    rows = len(values)
    one, other = np.triu_indices(rows, 1)
    apart = np.zeros((rows, rows))
    apart[one, other] = decomposed_pairs(values, one, other, code, flip, source)
    return apart + apart.T


# Distance consistence: distances beyond 2t, where the code is flat, from sums of local ones. Spec:
# dpbv-clustering, section 3.5. Source: Definition 2, Theorem 1, Algorithm 1. Per attribute, before
# attributes are combined. `cut` = 2t - 3 sd(2t): what is at most that is believed.
#
# - `line`: without flips an attribute is a line, and shortest paths along it add up.
# - `hop_mean`: with flips, the mean over all admissible middle points, layer by layer; a minimum
#   over noisy paths would pick the negative errors.
# - `literal`: Algorithm 1 as printed, with the reading that one leg of a sum is known and one
#   local.

_SHORTEST = 1e-7
"""A local pair at distance 0 is still a pair."""


@dataclass(frozen=True, eq=False)
class Consistent:
    """Distances (n, n) of one attribute, and how many pairs no sum has reached."""

    distances: Singles
    unreached: int


def local_cut(code: Code, flip: Flip, *, random_points: bool) -> float:
    """2t less three standard deviations. Raises BadParameter if noise leaves nothing local."""
    full = min(2 * code.half_window, code.upper - code.lower)
    decoder = Decoder.of(code, flip)
    deviation = math.sqrt(decoder.variance(full, random_points=random_points))
    cut = full - 3 * deviation
    if cut <= 0:
        raise NoiseTooLarge(
            "consistency",
            f"three standard deviations of a distance ({3 * deviation:.3g}) exceed the largest "
            f"local one ({full:.3g})",
        )
    return cut


def line(estimated: Singles, cut: float) -> Consistent:
    """Coordinates along the line from shortest paths over local pairs; O(local pairs)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    near = estimated <= cut
    np.fill_diagonal(near, False)
    rows, columns = np.nonzero(near)
    weights = np.maximum(estimated[rows, columns].astype(np.float64), _SHORTEST)
    graph = csr_array((weights, (rows, columns)), shape=estimated.shape)
    first = dijkstra(graph, indices=0)
    end = int(np.argmax(np.where(np.isfinite(first), first, -1)))
    place: Floats = dijkstra(graph, indices=end)
    with np.errstate(invalid="ignore"):  # infinite less infinite: neither is reached
        apart = np.abs(place[:, None] - place[None, :])
    np.fill_diagonal(near, True)
    reached = np.isfinite(apart)
    repaired = np.where(near | ~reached, estimated, apart).astype(np.float32)
    return Consistent(repaired, _pairs(~(near | reached)))


def hop_mean(estimated: Singles, cut: float) -> Consistent:
    """Means over middle points, layer by layer; two products of (n, n) matrices a layer and one
    more for the counts."""
    near = estimated <= cut
    np.fill_diagonal(near, True)
    legs = near.astype(np.float32)
    lengths = np.where(near, estimated, 0).astype(np.float32)
    known = near
    repaired = lengths.copy()
    while not known.all():
        flags = known.astype(np.float32)
        ways = flags @ legs
        sums = repaired @ legs
        sums += flags @ lengths
        reached = (ways > 0) & ~known
        if not reached.any():
            break
        means = np.zeros_like(sums)
        np.divide(sums, ways, out=means, where=reached)
        both = reached & reached.T
        means = np.where(both, (means + means.T) / 2, means + means.T)
        reached = reached | reached.T
        repaired = np.where(reached, means, repaired)
        known = known | reached
    return Consistent(np.where(known, repaired, estimated).astype(np.float32), _pairs(~known))


def literal(hamming: Singles, estimated: Singles) -> Consistent:
    """Algorithm 1: the cut is the largest distance that is exactly a sum of two others.

    hamming (n, n): whole numbers, so that equality is exact; found: their distances, in the same
    order. Without flips only has equality a meaning. O(n^3).
    """
    rows = len(hamming)
    exact = np.zeros(hamming.shape, np.bool_)
    for middle in range(rows):
        adds = hamming[:, middle, None] + hamming[None, middle, :] == hamming
        adds[middle, :] = False
        adds[:, middle] = False
        exact |= adds
    np.fill_diagonal(exact, False)
    cut = float(estimated[exact].max()) if exact.any() else 0.0
    near = estimated <= cut
    np.fill_diagonal(near, True)
    local = np.where(near, estimated, np.inf).astype(np.float32)
    repaired = local.copy()
    known = near
    while not known.all():
        filled = np.full_like(repaired, np.inf)
        for middle in range(rows):
            np.minimum(filled, repaired[:, middle, None] + local[None, middle, :], out=filled)
        filled = np.minimum(filled, filled.T)
        reached = np.isfinite(filled) & ~known
        if not reached.any():
            break
        repaired = np.where(reached, filled, repaired)
        known = known | reached
    return Consistent(np.where(known, repaired, estimated).astype(np.float32), _pairs(~known))


def _pairs(flags: np.typing.NDArray[np.bool_]) -> int:
    return int(flags.sum()) // 2
