"""Records whose common items are together as often as noisy counts of pairs show.

Drawn records have each item as often as they should, but independently. Two records exchange an
item each where that brings the counts of pairs nearer to what was counted: how often each item
occurs, and how long each record is, stay. Counts of pairs are shrunk towards the drawn ones first,
by how much of their distance is noise. Post-processing. Spec: set-valued, section 10.

Sources: N. Verhelst, "An efficient MCMC algorithm to sample binary matrices with fixed marginals",
Psychometrika, 2008 (exchanges); B. Efron, C. Morris, "Limiting the risk of Bayes and empirical
Bayes estimators", JASA, 1972 (shrinking by a limited distance).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.set_valued.margins import Pairs
from tacit.randomness import NoiseSource
from tacit.records.items import Ints

Floats = NDArray[np.float64]

_ROUNDS: Final = 100
"""Each record takes part in one attempt of a round."""
_NEAR: Final = 0.1
"""Standard deviations of a count of a pair that are not worth an exchange."""
_BLOCK: Final = 1 << 16


def with_pairs(
    owner: Ints,
    items: Ints,
    pairs: Pairs,
    universe: int,
    source: NoiseSource,
    beat: Callable[[], None],
) -> Ints:
    """The items (entries,) of records, exchanged; owner (entries,): each entry's record, rising.
    An item is in a record once, before and after."""
    m = pairs.chosen.size
    place = np.full(universe, m)
    place[pairs.chosen] = np.arange(m)
    sizes = np.bincount(owner)
    starts, records = np.cumsum(sizes) - sizes, np.flatnonzero(sizes)
    held = np.zeros((sizes.size, m + 1), np.uint8)  # the last column: any other item
    held[owner, place[items]] = 1
    held[:, m] = 0
    items = items.copy()
    together = _together(held)
    wanted, deviation = _targets(together, held, pairs)
    for _ in range(_ROUNDS):
        beat()
        off = (together - wanted) / deviation
        np.fill_diagonal(off, 0)
        off = np.sign(off) * np.maximum(np.abs(off) - _NEAR, 0)
        if not off.any():
            break
        force = np.zeros((m + 1, m + 1), np.float32)
        force[:m, :m] = off
        shuffled = records[np.argsort(source.words(records.size), kind="stable")]
        half = records.size // 2
        one, other = (
            starts[part] + (source.words(half) % sizes[part].astype(np.uint64)).astype(np.int64)
            for part in (shuffled[:half], shuffled[half : 2 * half])
        )
        for first in range(0, half, _BLOCK):
            entries = one[first : first + _BLOCK], other[first : first + _BLOCK]
            together = together + _exchange(owner, items, place, held, force, *entries)
    return items


def _exchange(
    owner: Ints,
    items: Ints,
    place: Ints,
    held: NDArray[np.uint8],
    force: NDArray[np.float32],
    one: Ints,
    other: Ints,
) -> Floats:
    """Exchange the items of these entries, of different records, if the forces call for it and
    neither record has the other's item; returns by how much each pair (m, m) then occurs more
    often."""
    left, right = owner[one], owner[other]
    a, b = place[items[one]], place[items[other]]
    m = held.shape[1] - 1
    free = (held[left, b] == 0) & (held[right, a] == 0) & ((a < m) | (b < m)) & (a != b)
    left, right, one, other, a, b = (part[free] for part in (left, right, one, other, a, b))
    differ = held[left].astype(np.float32) - held[right]
    change = np.einsum("ij,ij->i", differ, force[b] - force[a]) - 2 * force[a, b]
    better = np.flatnonzero(change < 0)
    better = better[
        ~_holding(owner, items, right[better], items[one[better]])
        & ~_holding(owner, items, left[better], items[other[better]])
    ]
    left, right, one, other, a, b = (part[better] for part in (left, right, one, other, a, b))
    items[one], items[other] = items[other], items[one]
    changed = np.concatenate((left, right))
    before = _together(held[changed])
    held[left, a], held[left, b] = 0, 1
    held[right, b], held[right, a] = 0, 1
    held[left, m] = held[right, m] = 0
    return _together(held[changed]) - before


def _holding(owner: Ints, items: Ints, records: Ints, wanted: Ints) -> NDArray[np.bool_]:
    """Whether each of these records has its wanted item. None is empty."""
    firsts = np.searchsorted(owner, records)
    sizes = np.searchsorted(owner, records, side="right") - firsts
    before = np.cumsum(sizes) - sizes
    entries = np.arange(sizes.sum()) + np.repeat(firsts - before, sizes)
    same = items[entries] == np.repeat(wanted, sizes)
    return np.bincount(np.repeat(np.arange(records.size), sizes), same, records.size) > 0


def _together(held: NDArray[np.uint8]) -> Floats:
    """How many records hold both of two items (m, m)."""
    m = held.shape[1] - 1
    counts = np.zeros((m, m))
    for first in range(0, held.shape[0], _BLOCK):
        part = held[first : first + _BLOCK, :m].astype(np.float32)
        counts += part.T @ part
    return counts


def _targets(together: Floats, held: NDArray[np.uint8], pairs: Pairs) -> tuple[Floats, float]:
    """What pairs are to have (m, m), and the standard deviation of the noise in it. What a record
    did not keep of its pairs is as in the drawn records. The distance to these is shrunk by the
    part of it that noise explains, estimated over all pairs, and by one standard deviation at
    most: pairs that are clear stay."""
    m = pairs.chosen.size
    inside = held.sum(axis=1, dtype=np.int64)
    kept = np.minimum(inside, pairs.kept)
    stretch = float((inside * (inside - 1)).sum()) / max(float((kept * (kept - 1)).sum()), 1.0)
    high, low = np.tril_indices(m, -1)
    deviation = pairs.deviation * stretch
    distance = pairs.counts * stretch - together[high, low]
    whole = float(np.square(distance).mean())
    share = max(0.0, 1 - deviation**2 / whole) if whole else 0.0
    wanted = together.copy()
    least = np.maximum(np.abs(distance) - deviation, share * np.abs(distance))
    wanted[high, low] += np.sign(distance) * least
    wanted[low, high] = wanted[high, low]
    return wanted, deviation or 1.0
