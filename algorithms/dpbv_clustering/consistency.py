"""Distance consistence: distances beyond 2t, where the code is flat, from sums of local ones.

Spec: dpbv-clustering, section 3.5. Source: Definition 2, Theorem 1, Algorithm 1. Per attribute,
before attributes are combined. `cut` = 2t - 3 sd(2t): what is at most that is believed.

- `line`: without flips an attribute is a line, and shortest paths along it add up.
- `hop_mean`: with flips, the mean over all admissible middle points, layer by layer; a minimum over
  noisy paths would pick the negative errors.
- `literal`: Algorithm 1 as printed, with the reading that one leg of a sum is known and one local.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from algorithms.dpbv_clustering.distances import Decoder
from algorithms.dpbv_clustering.hamming import Singles
from algorithms.dpbv_clustering.problems import NoiseTooLarge
from tacit.encoders.dpbv_clustering.encoder import Code, Flip, Floats

_SHORTEST = 1e-7
"""A local pair at distance 0 is still a pair."""


@dataclass(frozen=True, eq=False)
class Consistent:
    """Distances (n, n) of one attribute, and how many pairs no sum has reached."""

    distances: Singles
    unreached: int


def local_cut(code: Code, flip: Flip, *, random_points: bool) -> float:
    """2t less three standard deviations. Raises BadParameter where noise leaves nothing local."""
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


def line(found: Singles, cut: float) -> Consistent:
    """Coordinates along the line from shortest paths over local pairs; O(local pairs)."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    near = found <= cut
    np.fill_diagonal(near, False)
    rows, columns = np.nonzero(near)
    weights = np.maximum(found[rows, columns].astype(np.float64), _SHORTEST)
    graph = csr_array((weights, (rows, columns)), shape=found.shape)
    first = dijkstra(graph, indices=0)
    end = int(np.argmax(np.where(np.isfinite(first), first, -1)))
    place: Floats = dijkstra(graph, indices=end)
    with np.errstate(invalid="ignore"):  # infinite less infinite: neither is reached
        apart = np.abs(place[:, None] - place[None, :])
    np.fill_diagonal(near, True)
    reached = np.isfinite(apart)
    repaired = np.where(near | ~reached, found, apart).astype(np.float32)
    return Consistent(repaired, _pairs(~(near | reached)))


def hop_mean(found: Singles, cut: float) -> Consistent:
    """Means over middle points, layer by layer; two products of (n, n) matrices a layer and one
    more for the counts."""
    near = found <= cut
    np.fill_diagonal(near, True)
    legs = near.astype(np.float32)
    lengths = np.where(near, found, 0).astype(np.float32)
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
    return Consistent(np.where(known, repaired, found).astype(np.float32), _pairs(~known))


def literal(hamming: Singles, found: Singles) -> Consistent:
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
    cut = float(found[exact].max()) if exact.any() else 0.0
    near = found <= cut
    np.fill_diagonal(near, True)
    local = np.where(near, found, np.inf).astype(np.float32)
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
    return Consistent(np.where(known, repaired, found).astype(np.float32), _pairs(~known))


def _pairs(flags: np.typing.NDArray[np.bool_]) -> int:
    return int(flags.sum()) // 2
