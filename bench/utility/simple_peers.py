"""What anybody tries first on sets and sequences of items, as baselines in floating point.

Counts of single items alone; PrivBasis with one basis of the commonest items (Li, Qardaji, Su and
Cao, 2012); Markov models of first and second order. None of them protects anybody here: their noise
is that of a seeded generator. Each has the pure epsilon that it is given, and reads the lengths of
records with a part of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.set_valued.lengths import SIZES
from algorithms.set_valued.margins import kept_places
from algorithms.set_valued.records import Itemsets, superset_sums
from tacit.randomness import SeededRandom
from tacit.records.items import Sequences

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NoisySupports = dict[tuple[int, ...], float]
"""Noisy counts of itemsets."""

LENGTHS_SHARE: Final = 0.05
"""Of epsilon, for a histogram of lengths."""
BASIS: Final = 12
"""Items of a basis: 2^12 noisy cells."""
_COVERED_SETS: Final = 0.85
_COVERED_SEQUENCES: Final = 0.95


def _noisy_lengths(
    sizes: Ints, most: int, epsilon: float, generator: np.random.Generator
) -> Floats:
    """Records of length 1 to `most` and more (most,), those below six scales of noise 0."""
    counts = np.bincount(np.clip(sizes[sizes > 0], 1, most), minlength=most + 1)[1:]
    noisy = counts + generator.laplace(0, 1 / epsilon, most)
    return np.where(noisy < 6 / epsilon, 0.0, noisy)


def _covering(lengths: Floats, share: float) -> int:
    total = lengths.sum()
    return 1 + int(np.searchsorted(np.cumsum(lengths), share * total)) if total else 1


# -------------------------------------------------------------------------------------------- sets


def item_counts(sets: Itemsets, items: int, epsilon: float, seed: int) -> Floats:
    """How many records have each item (items,): each record keeps as many as 85 % of them have,
    and the counts are stretched by what was not kept."""
    generator, source = np.random.default_rng(seed), SeededRandom(seed)
    lengths = _noisy_lengths(np.diff(sets.offsets), SIZES.size, LENGTHS_SHARE * epsilon, generator)
    kept = _covering(lengths, _COVERED_SETS)
    counts = np.bincount(kept_places(sets, kept, source), minlength=items)
    stretch = (SIZES @ lengths) / max(np.minimum(SIZES, kept) @ lengths, 1)
    noise = generator.laplace(0, kept / ((1 - LENGTHS_SHARE) * epsilon), items)
    return np.asarray(np.maximum(stretch * (counts + noise), 0))


def privbasis(
    sets: Itemsets, items: int, epsilon: float, seed: int
) -> tuple[Floats, NoisySupports]:
    """Item counts with half of epsilon; all sets of the 12 commonest items with the other half."""
    generator = np.random.default_rng(seed + 1)
    single = item_counts(sets, items, epsilon / 2, seed)
    basis = np.sort(np.argsort(-single, kind="stable")[: min(BASIS, items)])
    bit = np.zeros(items, np.int64)
    bit[basis] = 1 << np.arange(basis.size)
    masks = np.add.reduceat(bit[sets.places], sets.offsets[:-1])
    cells = np.bincount(masks, minlength=1 << basis.size).astype(np.float64)
    sums = superset_sums(cells + generator.laplace(0, 2 / epsilon, cells.size))
    supports: NoisySupports = {(item,): float(count) for item, count in enumerate(single.tolist())}
    for size in range(2, basis.size + 1):
        for chosen in combinations(range(basis.size), size):
            named = tuple(int(basis[place]) for place in chosen)
            supports[named] = float(sums[sum(1 << place for place in chosen)])
    return single, supports


# --------------------------------------------------------------------------------------- sequences


def gram_item_counts(data: Sequences, longest: int, epsilon: float, seed: int) -> Floats:
    """How often each item occurs (items,), in the first items of a sequence, as many as 95 % have;
    stretched by the lengths."""
    generator = np.random.default_rng(seed)
    sizes = np.diff(data.starts)
    lengths = _noisy_lengths(sizes, longest, LENGTHS_SHARE * epsilon, generator)
    most = _covering(lengths, _COVERED_SEQUENCES)
    rank = np.arange(data.items.size) - np.repeat(data.starts[:-1], sizes)
    counts = np.bincount(data.items[rank < most], minlength=len(data.universe))
    each = np.arange(1.0, longest + 1)
    stretch = (each @ lengths) / max(np.minimum(each, most) @ lengths, 1)
    noise = generator.laplace(0, most / ((1 - LENGTHS_SHARE) * epsilon), counts.size)
    return np.asarray(np.maximum(stretch * (counts + noise), 0))


@dataclass(frozen=True, eq=False)
class Drawn:
    """Synthetic sequences: items (total,), starts (n + 1,)."""

    items: Ints
    starts: Ints


def markov(data: Sequences, longest: int, epsilon: float, seed: int, order: int = 1) -> Drawn:
    """Sequences of a chain of this order (1 or 2) over items, beginning and end, from noisy counts
    of transitions; counts below what one of them in expectation reaches by noise are 0."""
    generator = np.random.default_rng(seed)
    items, sizes = len(data.universe), np.diff(data.starts)
    lengths = _noisy_lengths(sizes, longest, LENGTHS_SHARE * epsilon, generator)
    most, number = _covering(lengths, _COVERED_SEQUENCES), int(lengths.sum())
    kept = np.minimum(sizes, most)
    width = items + 1  # the last symbol is both beginning and end
    rank = np.arange(data.items.size) - np.repeat(data.starts[:-1], sizes)
    symbols = np.full((kept.size, most + order + 1), items)
    owner = np.repeat(np.arange(kept.size), sizes)[rank < most]
    symbols[owner, order + rank[rank < most]] = data.items[rank < most]
    real = np.arange(most + 1) <= kept[:, None]
    state = np.zeros(symbols[:, order:].shape, np.int64)
    for back in range(order, 0, -1):
        state = state * width + symbols[:, order - back : symbols.shape[1] - back]
    cells = (state * width + symbols[:, order:])[real & (kept > 0)[:, None]]
    scale = (most + 1) / ((1 - LENGTHS_SHARE) * epsilon)
    counts = np.bincount(cells, minlength=width ** (order + 1)).astype(np.float64)
    counts += generator.laplace(0, scale, counts.size)
    counts[counts < scale * np.log(counts.size / 2)] = 0
    rows = counts.reshape(-1, width)
    return _walked(rows, items, order, number, longest, generator)


def _walked(
    rows: Floats, items: int, order: int, number: int, longest: int, generator: np.random.Generator
) -> Drawn:
    """This many walks; a state without a successor ends."""
    width = items + 1
    sums = np.cumsum(rows, axis=1)
    first = rows.reshape(-1, width, width)[-1].copy() if order == 2 else rows.copy()
    start = first[-1].copy()
    start[items] = 0
    bounds = np.cumsum(start)
    walks = np.full((number, longest + 1), items)
    if not number or not bounds[-1]:
        return Drawn(np.zeros(0, np.int64), np.zeros(1, np.int64))
    walks[:, 0] = np.searchsorted(bounds, generator.random(number) * bounds[-1], side="right")
    state = walks[:, 0] if order == 1 else items * width + walks[:, 0]
    live = np.arange(number)
    for place in range(1, longest):
        row = sums[state]
        uniform = generator.random(live.size) * row[:, -1]
        following = np.where(row[:, -1] > 0, (row <= uniform[:, None]).sum(axis=1), items)
        going = following < items
        live, following = live[going], following[going]
        walks[live, place] = following
        state = following if order == 1 else state[going] % width * width + following
    lengths = (walks < items).sum(axis=1)
    return Drawn(walks[walks < items], np.concatenate(([0], np.cumsum(lengths))))
