"""What is measured of all records beside DiffPart: lengths, single items, sets of common items.

    lengths  records with 1 to 64 items (the last: 64 and more)       sensitivity 1
    items    records that keep each item, at most l of each record    l
    basis    records by which of the k commonest items they have      1
    or pairs records with both of two of the 64 commonest items,      c (c - 1) / 2
             at most c of these of each record

l and k follow from the noisy lengths, the commonest items from the noisy counts of items, c from
both; a record's choice of what it keeps depends on itself alone. Spec: set-valued, section 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.graph_der.degrees import DegreeLaw, possible
from algorithms.set_valued.lengths import SIZES, LengthCounts, consistent_lengths
from algorithms.set_valued.records import Itemsets
from tacit.encoders.counts import places_among
from tacit.encoders.set_valued_counts import (
    MOST_BASIS,
    MOST_LENGTH,
    MOST_PAIR_ITEMS,
    MOST_PAIRS_OF,
    Taxonomy,
    pair_count,
    pairs_inside,
)
from tacit.noise import DiscreteLaplace
from tacit.randomness import NoiseSource
from tacit.records.items import Ints

Floats = NDArray[np.float64]

LENGTHS_SHARE: Final = Fraction(1, 30)
"""Of epsilon, but of the aim items."""
_TYPICAL: Final = 5
"""Times the root of the number of items: about this many items make up most of all records."""
_SKEW: Final = 0.15
"""Of what records do not keep, the part that is assumed to be guessed wrongly."""
_SKEW_OF_ALL: Final = 0.1
"""The same where rare items count as much as common ones: their noise is larger."""
_PAIR_SKEW: Final = 0.5
"""The same of pairs: those of short records are kept far more often than those of long ones."""
_BASIS_ERROR: Final = 1 / 200
"""Of the records, what the count of a pair of the basis may be off by (standard deviation)."""
_LEAST_BASIS: Final = 4
_MOST_CELL_ITEMS: Final = 2 * MOST_BASIS
"""Items of a universe whose basis holds most pairs; of a larger one pairs are counted."""
_MOST_EQUAL: Final = 8
"""Items of a record on average: of longer ones hardly any are equal."""
_DENSE: Final = 10
"""A record has one in this many of all items, or more, on average: its many pairs share few counts,
and single items are known well."""
_LEAST_FOR_PAIRS: Final = 11_000
"""Records times epsilon: of fewer records the noise of all pairs says less than a basis does."""
_BLOCK: Final = 1 << 17
"""Records whose pairs are listed at a time."""
_GROUPS: Final = 100
"""DiffPart keeps something of records of which some itemset holds one in this many."""


@dataclass(frozen=True)
class Shares:
    """The parts of epsilon; they add up to 1. k: items of the basis, 0 without one; pairs: items
    whose pairs are counted instead of cells of a basis, or 0; all_items: whether rare items count
    as much as common ones."""

    diffpart: Fraction
    lengths: Fraction
    items: Fraction
    basis: Fraction
    k: int
    pairs: int = 0
    all_items: bool = False

    def json(self) -> dict[str, str]:
        """For a report."""
        parts = {"diffpart": self.diffpart, "lengths": self.lengths, "items": self.items}
        parts["pairs" if self.pairs else "basis"] = self.basis
        return {name: str(part) for name, part in parts.items() if part}


WITH_DIFFPART: Final = Shares(Fraction(2, 3), LENGTHS_SHARE, Fraction(3, 10), Fraction(0), 0)
ITEMS_ONLY: Final = Shares(Fraction(0), LENGTHS_SHARE, 1 - LENGTHS_SHARE, Fraction(0), 0)
FOR_ITEMS: Final = replace(
    ITEMS_ONLY, lengths=Fraction(1, 20), items=Fraction(19, 20), all_items=True
)
WITH_BASIS: Final = replace(
    ITEMS_ONLY, items=Fraction(4, 5) - LENGTHS_SHARE, basis=Fraction(1, 5), k=MOST_BASIS
)
WITH_PAIRS: Final = replace(
    ITEMS_ONLY,
    items=Fraction(9, 10) - LENGTHS_SHARE,
    basis=Fraction(1, 10),
    pairs=MOST_PAIR_ITEMS,
)


def shares_without_diffpart(lengths: Ints, epsilon: Fraction, items: int) -> Shares:
    """By noisy lengths (64,): all of epsilon to the items where records are too few; a basis as
    large as leaves the counts of its pairs useful; pairs where a basis would hold few of them and
    records are many."""
    records = float(lengths.sum())
    most = records * _BASIS_ERROR * float(epsilon * WITH_BASIS.basis)
    k = min(MOST_BASIS, items, 1 + math.floor(2 * math.log2(most)) if most > 1 else 0)
    if k < _LEAST_BASIS:
        return ITEMS_ONLY
    if counts_pairs(items) and records * float(epsilon) >= _LEAST_FOR_PAIRS:
        pairs = min(MOST_PAIR_ITEMS, items)
        dense = float(lengths @ SIZES) * _DENSE >= items * records
        return replace(WITH_BASIS, k=0, pairs=pairs) if dense else replace(WITH_PAIRS, pairs=pairs)
    return replace(WITH_BASIS, k=k)


def counts_pairs(items: int) -> bool:
    """Whether pairs are counted instead of the cells of a basis for a universe of this size, if
    records are many."""
    return items > _MOST_CELL_ITEMS


def diffpart_keeps_something(
    lengths: Ints, epsilon: Fraction, taxonomy: Taxonomy, eta: Fraction
) -> bool:
    """Whether a group of one record in 100 would reach the highest threshold of a split, by noisy
    lengths (64,), and records are short enough that such groups are to be expected."""
    records = float(lengths.sum())
    if float(lengths @ SIZES) > _MOST_EQUAL * records:
        return False
    internal = taxonomy.internal(taxonomy.root)
    alpha = float(epsilon * WITH_DIFFPART.diffpart) / 2 / internal
    cells = (1 << min(taxonomy.fanout, taxonomy.size)) - 1
    return records / _GROUPS >= math.log(cells / float(eta)) / alpha


@dataclass(frozen=True, eq=False)
class Basis:
    """chosen (k,): places of its items, rising; cells (2^k,): noisy numbers of records by which of
    them they have (bit i: item i of `chosen`); deviation: standard deviation of a cell's noise."""

    chosen: Ints
    cells: Ints
    deviation: float


@dataclass(frozen=True, eq=False)
class Pairs:
    """chosen (m,): places of the items, rising; kept: c; counts (m (m - 1) / 2,): noisy numbers of
    records that keep both items of a pair, number j (j - 1) / 2 + i of places i < j of `chosen`;
    deviation: standard deviation of a count's noise."""

    chosen: Ints
    kept: int
    counts: Ints
    deviation: float


@dataclass(frozen=True, eq=False)
class Margins:
    """Released: lengths (64,), records with 1 to 64 items, and their deviations, as `LengthCounts`
    has them from noisy ones; kept: l; items (universe,), noisy numbers of records that kept each
    item; hidden: how many records noise may hide; deviation: standard deviation of the noise of an
    item."""

    lengths: Ints
    kept: int
    items: Ints
    hidden: float = 0.0
    deviation: float = 0.0
    deviations_of_lengths: Floats = field(default_factory=lambda: np.zeros(MOST_LENGTH))
    basis: Basis | None = None
    shares: Shares = WITH_DIFFPART
    pairs: Pairs | None = None

    def fitting(self, lengths: Ints, items: Floats) -> Ints:
        """Counts of lengths (64,), moved until they hold as many kept items as were counted of
        these (items,)."""
        deviations = self.deviations_of_lengths
        return consistent_lengths(lengths, deviations, self.kept, items, self.deviation)

    def fitted(self) -> Margins:
        """With lengths that fit the items."""
        return replace(self, lengths=self.fitting(self.lengths, self.items.astype(np.float64)))


def measured_lengths(
    sets: Itemsets,
    universe: int,
    epsilon: Fraction,
    context: Context,
    share: Fraction = LENGTHS_SHARE,
) -> LengthCounts:
    """By noisy counts of lengths. epsilon: of the whole job; share: of it."""
    context.progress(0.1, "counting lengths")
    sizes = np.minimum(np.diff(sets.offsets), MOST_LENGTH)
    counts = np.bincount(sizes, minlength=MOST_LENGTH + 1)[1:]
    scale = 1 / (epsilon * share)
    noisy = counts + DiscreteLaplace(scale).draw(context.noise("lengths"), MOST_LENGTH)
    return LengthCounts.of(noisy, universe, scale)


def measured_margins(
    sets: Itemsets,
    universe: int,
    epsilon: Fraction,
    context: Context,
    lengths: LengthCounts,
    shares: Shares = WITH_DIFFPART,
) -> Margins:
    """With noisy counts of items and of the basis or pairs. Raises Cancelled."""
    known = lengths.counts
    kept = items_kept(known, epsilon, shares, universe)
    context.progress(0.2, "counting items")
    places = kept_places(sets, kept, context.noise("kept items"))
    scale = kept / (epsilon * shares.items)
    noise = DiscreteLaplace(scale).draw(context.noise("items"), universe)
    items = np.bincount(places, minlength=universe) + noise
    basis, pairs, rate = None, None, epsilon * shares.basis
    if shares.pairs:
        pairs = _measured_pairs(sets, known, items, commonest(items, shares.pairs), rate, context)
    if shares.k:
        chosen = commonest(items, shares.k)
        cells = basis_cells(sets, chosen)
        cells = cells + DiscreteLaplace(1 / rate).draw(context.noise("basis"), cells.size)
        basis = Basis(chosen, cells, deviation_of(1 / rate))
    return Margins(
        known,
        kept,
        items,
        lengths.hidden,
        deviation_of(scale),
        lengths.deviations,
        basis,
        shares,
        pairs,
    ).fitted()


def _measured_pairs(
    sets: Itemsets, lengths: Ints, items: Ints, chosen: Ints, rate: Fraction, context: Context
) -> Pairs:
    """Noisy counts of the pairs of these items. Raises Cancelled."""
    kept = pair_items_kept(lengths, items, chosen, rate)
    source, counts = context.noise("kept pairs"), np.zeros(pair_count(chosen.size), np.int64)
    for first in range(0, sets.count, _BLOCK):
        context.progress(0.25, "counting pairs")
        offsets = sets.offsets[first : first + _BLOCK + 1]
        part = Itemsets(sets.places[offsets[0] : offsets[-1]], offsets - offsets[0])
        counts += kept_pairs(part, chosen, kept, source)
    scale = pair_count(kept) / rate
    counts += DiscreteLaplace(scale).draw(context.noise("pairs"), counts.size)
    return Pairs(chosen, kept, counts, deviation_of(scale))


def pair_items_kept(lengths: Ints, items: Ints, chosen: Ints, epsilon: Fraction) -> int:
    """c, 2 to 6, by the forecast of a common pair's relative error, as `items_kept` has it for
    items: noisy items (universe,) state how many items of a record are among those `chosen`, as if
    independent. epsilon: of the pairs."""
    positive = np.maximum(items, 0)
    share = float(positive[chosen].sum()) / max(float(positive.sum()), 1.0)
    chances, records = np.ones(1), np.zeros(MOST_LENGTH + 1)  # by how many of them a record has
    for size, number in enumerate(lengths.tolist(), 1):
        chances = np.append(chances * (1 - share), 0) + np.append(0, chances * share)
        records[: size + 1] += number * chances
    inside, kept = np.arange(MOST_LENGTH + 1), np.arange(2, MOST_PAIRS_OF + 1)
    of_record = np.minimum(inside, np.append(kept, MOST_LENGTH)[:, None])
    *counted, every = ((of_record * (of_record - 1)) @ records / 2).tolist()
    if not every:
        return 2
    parts = np.array(counted) / every
    number = pair_count(chosen.size)
    typical = every / min(_TYPICAL * math.sqrt(number), number)
    noise = math.sqrt(2) * (kept * (kept - 1) / 2) / float(epsilon) / (parts * typical)
    return 2 + int(np.argmin(np.square(noise) + np.square(_PAIR_SKEW * (1 - parts))))


def kept_pairs(sets: Itemsets, chosen: Ints, most: int, source: NoiseSource) -> Ints:
    """How many records keep both items of each pair (m (m - 1) / 2,): of those `chosen` a record
    keeps at most `most`, drawn uniformly, and all their pairs."""
    places = places_among(chosen, sets.places.astype(np.int64))
    there = places >= 0
    owner = np.repeat(np.arange(sets.count), np.diff(sets.offsets))[there]
    order = np.lexsort((source.words(owner.size), owner))
    starts = np.searchsorted(owner, np.arange(sets.count))
    first = order[np.arange(owner.size) - starts[owner] < most]
    _, pairs = pairs_inside(owner[first], places[there][first])
    return np.bincount(pairs, minlength=pair_count(chosen.size))


def deviation_of(scale: Fraction, draws: Fraction = Fraction(1)) -> float:
    """Standard deviation of a count; draws: whole noises that it holds."""
    return float(scale) * math.sqrt(2 * draws)


def estimated_items(margins: Margins, draws: Fraction = Fraction(1)) -> Floats:
    """Records with each item (universe,): the mean of what it can be, given its noisy count and the
    law of all counts, as if what records did not keep were like what they kept. Post-processing; it
    errs least over all items where most are rare. draws: whole noises that a count holds. Spec:
    graph-der, section 10.2."""
    estimated = np.maximum(margins.items, 0).astype(np.float64)
    scale = margins.deviation / math.sqrt(2 * draws)
    if scale:
        records = int(margins.lengths.sum() + margins.hidden)
        noisy = possible(margins.items, scale, records, float(draws))
        estimated = DegreeLaw.of(noisy, scale, float(draws)).means(noisy)
    kept = float(np.minimum(SIZES, margins.kept) @ margins.lengths)
    return estimated * (float(SIZES @ margins.lengths) / kept if kept else 1.0)


def items_kept(lengths: Ints, epsilon: Fraction, shares: Shares, items: int) -> int:
    """l, 1 to 64, by the forecast of a common item's relative error: noise of standard deviation
    sqrt(2) l / epsilon, stretched by what records keep of their items, and 15 % of what they do not
    keep. 1 without records. epsilon: of the job; items: how many there are.

    Where rare items count as much, the larger of the noise and of a tenth of what records do not
    keep is least, and half of all records keep all of their items."""
    items_of_length = lengths * SIZES
    total = float(items_of_length.sum())
    if not total:
        return 1
    kept = np.minimum(SIZES[:, None], SIZES[None, :]) @ lengths / total  # by l
    typical = total / min(_TYPICAL * math.sqrt(items), items)
    noise = math.sqrt(2) * SIZES / float(epsilon * shares.items) / (kept * typical)
    if shares.all_items:
        median = np.searchsorted(np.cumsum(lengths), lengths.sum() / 2)
        return 1 + int(max(median, np.argmin(np.maximum(noise, _SKEW_OF_ALL * (1 - kept)))))
    return 1 + int(np.argmin(np.square(noise) + np.square(_SKEW * (1 - kept))))


def kept_places(sets: Itemsets, most: int, source: NoiseSource) -> Ints:
    """The items that records keep, at most `most` of each, drawn uniformly from its own."""
    words = source.words(sets.places.size)
    sizes = np.diff(sets.offsets)
    owner = np.repeat(np.arange(sets.count), sizes)
    order = np.lexsort((words, owner))
    rank = np.arange(owner.size) - np.repeat(sets.offsets[:-1], sizes)
    return sets.places[order[rank < most]].astype(np.int64)


def commonest(items: Ints, k: int) -> Ints:
    """Places of the k largest counts, rising; of equal ones the first."""
    return np.sort(np.argsort(-items, kind="stable")[:k])


def basis_cells(sets: Itemsets, chosen: Ints) -> Ints:
    """Records by which of the chosen items they have (2^k,): each record is in one cell."""
    if not sets.count:
        return np.zeros(1 << chosen.size, np.int64)
    bit = np.zeros(int(max(chosen.max(), sets.places.max())) + 1, np.int64)
    bit[chosen] = 1 << np.arange(chosen.size)
    masks = np.add.reduceat(bit[sets.places], sets.offsets[:-1])
    return np.bincount(masks, minlength=1 << chosen.size)
