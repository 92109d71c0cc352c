"""One generation of partitions: group the rows by their masks below, test, count.

Spec: set-valued, section 3.3, steps 3 to 8. Tests with the same figures draw their noise together.
Empty sub-partitions are never materialised: each has its own coin that decides whether its noise
alone reached the threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.datasets.transactions import Ints
from algorithms.set_valued.cuts import Split, itemset
from algorithms.set_valued.laws import CountTest, Numbers
from algorithms.set_valued.records import Masks
from algorithms.set_valued.settings import Row, Settings, Transcript, Truth
from algorithms.set_valued.taxonomy import Taxonomy
from tacit.noise import Bernoulli
from tacit.randomness import NoiseSource

BATCH_ROWS: Final = 1 << 20
BATCH_PARTITIONS: Final = 1 << 16
COIN_BLOCK: Final = 1 << 20
BEAT_THINGS: Final = 4096
_MASK_BITS: Final = 16

Thing = TypeVar("Thing")


@dataclass(frozen=True, eq=False)
class Cells:
    """Occupied sub-partitions of a generation, by (partition, mask); `rows` in that order."""

    partition: Ints
    mask: Ints
    count: Ints
    rows: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Tested:
    """Sub-partitions that passed: their partition, mask, true and noisy count."""

    partition: Ints
    mask: Ints
    count: Ints
    noisy: Numbers


def cell_key(partition: Ints, mask: Ints) -> Ints:
    """One number for a sub-partition, in order."""
    return partition << _MASK_BITS | mask


@dataclass(frozen=True)
class Generation:
    """The work on all partitions of one depth; `source`: its own secret stream; `queued`: how many
    partitions there have been so far, these included."""

    taxonomy: Taxonomy
    settings: Settings
    source: NoiseSource
    context: Context
    number: int
    queued: int = 0

    def beat(self) -> None:
        """Progress depends on the transcript alone."""
        share = self.number / (self.number + 6)
        self.context.progress(0.3 + 0.65 * share, f"splitting, depth {self.number + 1}")

    def watched(self, things: Sequence[Thing]) -> Iterator[Thing]:
        """Each of them, reporting progress."""
        for start in range(0, len(things), BEAT_THINGS):
            self.beat()
            yield from things[start : start + BEAT_THINGS]

    # ---------------------------------------------------------------------------- occupied ones

    def grouped(
        self, masks: Masks, rows: NDArray[np.int32], sizes: Ints, splits: Sequence[Split]
    ) -> Cells:
        """Each partition's rows by the mask that the node to be split sees of them."""
        places = np.array([split.place for split in splits])
        ends = np.cumsum(sizes)
        found: list[tuple[Ints, Ints, Ints, NDArray[np.int32]]] = []
        for first, last in _batches(ends):
            self.beat()
            low, high = int(ends[first] - sizes[first]), int(ends[last - 1])
            if low == high:
                continue
            here = rows[low:high]
            which = np.repeat(np.arange(last - first), sizes[first:last])
            seen = masks.masks[masks.starts[here] + places[first:last][which]]
            keys = (which << _MASK_BITS | seen).astype(np.uint32)
            order = np.argsort(keys)
            keys = keys[order]
            cuts = np.concatenate(([0], np.flatnonzero(keys[1:] != keys[:-1]) + 1))
            held = keys[cuts].astype(np.int64)
            counts = np.diff(np.append(cuts, keys.size))
            mask = held & ((1 << _MASK_BITS) - 1)
            found.append((first + (held >> _MASK_BITS), mask, counts, here[order]))
        if not found:
            nothing = np.zeros(0, np.int64)
            return Cells(nothing, nothing, nothing, np.zeros(0, np.int32))
        partition, mask, count = (np.concatenate([part[k] for part in found]) for k in range(3))
        return Cells(partition, mask, count, np.concatenate([part[3] for part in found]))

    # -------------------------------------------------------------------------------- all tests

    def tested(
        self, cells: Cells, splits: Sequence[Split], transcript: Transcript
    ) -> tuple[Tested, Tested]:
        """Which sub-partitions live on, and which itemsets are released; by (partition, mask).

        Raises PartitionCap, or else RowCap: which of them depends on how many survive, in total and
        per kind, never on which of the survivors have records. So partitions are counted, with and
        without records, before a coin of an itemset can end the run.
        """
        leaf_masks = np.array([split.leaf_mask for split in splits], np.int64)
        ends = (cells.mask & ~leaf_masks[cells.partition]) == 0
        separate = self.settings.leaf_mode == "example"
        taken = ends if separate else np.zeros_like(ends)
        empties = np.array([split.cells for split in splits], np.int64)
        if separate:
            empties -= np.array([split.leaf_cells for split in splits], np.int64)
        law = self.settings.law
        inner = self._live(
            cells,
            ~taken,
            splits,
            empties,
            [law.partition(split.cells, split.alpha, split.node.level) for split in splits],
            itemsets=False,
            transcript=transcript,
        )
        self.settings.check_partitions(self.queued + inner.mask.size)
        if separate:
            empties = np.array([split.leaf_cells for split in splits], np.int64)
            rates = [self.settings.epsilon / 2 + split.cut.rest for split in splits]
            tests = [law.leaf(split.cells, rate) for split, rate in zip(splits, rates, strict=True)]
            leaves = self._live(
                cells, taken, splits, empties, tests, itemsets=True, transcript=transcript
            )
            return inner, leaves
        return self._measured(inner, splits, leaf_masks, transcript)

    def _live(
        self,
        cells: Cells,
        asked: NDArray[np.bool_],
        splits: Sequence[Split],
        sizes: Ints,
        tests: Sequence[CountTest],
        *,
        itemsets: bool,
        transcript: Transcript,
    ) -> Tested:
        """One kind of sub-partitions: `asked` of the occupied ones, total `sizes` by partition."""
        occupied = np.flatnonzero(asked)
        empties = sizes - np.bincount(cells.partition[occupied], minlength=len(splits))
        groups: dict[CountTest, list[int]] = {}
        for place, (test, size) in enumerate(zip(tests, sizes.tolist(), strict=True)):
            if size:
                groups.setdefault(test, []).append(place)
                transcript.tests[splits[place].cells, test] += 1
        number = np.zeros(len(splits), np.int64)
        for rank, held in enumerate(groups.values()):
            number[held] = rank
        occupied = occupied[np.argsort(number[cells.partition[occupied]], kind="stable")]
        bounds = np.searchsorted(
            number[cells.partition[occupied]], np.arange(len(groups) + 1)
        ).tolist()
        found: list[tuple[Ints, Ints, Ints, Numbers]] = []
        for rank, (test, held) in enumerate(groups.items()):
            self.beat()
            mine = occupied[bounds[rank] : bounds[rank + 1]]
            noisy = test.noisy(cells.count[mine], self.source)
            passed = noisy >= test.threshold
            lived = mine[passed]
            found.append(
                (cells.partition[lived], cells.mask[lived], cells.count[lived], noisy[passed])
            )
            partition, mask = self._risen(
                cells, splits, np.array(held), empties, test.chance, itemsets
            )
            value = test.passing(mask.size, self.source)
            found.append((partition, mask, np.zeros(mask.size, np.int64), value))
        if not found:
            nothing = np.zeros(0, np.int64)
            return Tested(nothing, nothing, nothing, nothing)
        joined = [np.concatenate([part[k] for part in found]) for k in range(4)]
        order = np.argsort(cell_key(joined[0], joined[1]))
        partition, mask, count, numbers = (each[order] for each in joined)
        return Tested(partition, mask, count, numbers)

    # ------------------------------------------------------------------------------- empty ones

    def _risen(
        self,
        cells: Cells,
        splits: Sequence[Split],
        held: Ints,
        empties: Ints,
        chance: Fraction,
        itemsets: bool,
    ) -> tuple[Ints, Ints]:
        """Empty sub-partitions that pass: one coin for each, by partition and rising mask."""
        ends = np.cumsum(empties[held])
        capped = self.settings.check_rows if itemsets else self.settings.check_partitions
        heads = self._heads(chance, int(ends[-1]), capped)
        if not heads.size:
            return heads, heads
        which = np.searchsorted(ends, heads, side="right")
        ranks = heads - (ends - empties[held])[which]
        masks = np.empty_like(ranks)
        starts = np.flatnonzero(np.concatenate(([True], which[1:] != which[:-1]))).tolist()
        for low, high in zip(starts, [*starts[1:], which.size], strict=True):
            split = splits[place := int(held[which[low]])]
            begin, end = np.searchsorted(cells.partition, [place, place + 1])
            masks[low:high] = free_masks(cells.mask[begin:end], split, itemsets, ranks[low:high])
        return held[which], masks

    def _heads(self, chance: Fraction, coins: int, capped: Callable[[int], None]) -> Ints:
        coin, found, total = Bernoulli(chance), [np.zeros(0, np.int64)], 0
        for start in range(0, coins, COIN_BLOCK):
            self.beat()
            shown = coin.draw(self.source, min(COIN_BLOCK, coins - start))
            found.append(start + np.flatnonzero(shown))
            total += found[-1].size
            capped(total)  # the false ones alone are too many: so is the sum, whatever is real
        return np.concatenate(found)

    # ----------------------------------------------------------------------------------- leaves

    def _measured(
        self, inner: Tested, splits: Sequence[Split], leaf_masks: Ints, transcript: Transcript
    ) -> tuple[Tested, Tested]:
        """The printed variant: itemsets passed as partitions did, and are counted again."""
        ended = (inner.mask & ~leaf_masks[inner.partition]) == 0
        noisy = np.zeros(inner.mask.size)
        for place in np.flatnonzero(ended).tolist():
            split = splits[int(inner.partition[place])]
            rate = self.settings.epsilon / 2 + split.cut.rest - split.alpha
            test = self.settings.law.leaf(split.cells, rate)
            transcript.tests[split.cells, test] += 1
            value = test.noisy(inner.count[place : place + 1], self.source)[0]
            noisy[place] = value if value >= test.threshold else 0
        return _subset(inner, inner.noisy, ~ended), _subset(inner, noisy, ended & (noisy > 0))

    def itemsets(self, leaves: Tested, splits: Sequence[Split], truth: Truth) -> Iterator[Row]:
        """The released rows; a floating count is rounded half up, and none of 0 is released."""
        counts = leaves.noisy
        if counts.dtype.kind == "f":
            counts = np.floor(counts + 0.5)
        whole = counts.astype(np.int64)
        real = (leaves.count > 0) & (whole > 0)
        truth.real_rows += int(np.count_nonzero(real))
        truth.records_covered += int(leaves.count[real].sum())
        for partition, mask, count in zip(
            leaves.partition.tolist(), leaves.mask.tolist(), whole.tolist(), strict=True
        ):
            if count > 0:
                yield itemset(self.taxonomy, splits[partition], mask), count


def _subset(tested: Tested, noisy: Numbers, chosen: NDArray[np.bool_]) -> Tested:
    return Tested(
        tested.partition[chosen], tested.mask[chosen], tested.count[chosen], noisy[chosen]
    )


def _batches(ends: Ints) -> Iterator[tuple[int, int]]:
    """Partitions [first, last) of a batch, by the end of each one's rows; one at the least."""
    first = 0
    while first < ends.size:
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + BATCH_ROWS, side="right"))
        last = min(max(last, first + 1), first + BATCH_PARTITIONS)
        yield first, last
        first = last


def free_masks(occupied: Ints, split: Split, itemsets: bool, ranks: Ints) -> Ints:
    """The masks of a split's empty sub-partitions of one kind at these ranks, counted from 0.

    occupied: the masks with records, rising. A mask that belongs to the other kind counts as taken.
    Of a node that has other children too at most one child is an item, the last.
    """
    leaf = split.leaf_mask
    if itemsets and leaf != split.cells:
        return np.full(ranks.size, leaf)
    taken = occupied
    if leaf and not itemsets and leaf not in occupied:
        taken = np.sort(np.append(occupied, leaf))
    return ranks + 1 + np.searchsorted(taken - np.arange(1, taken.size + 1), ranks, side="right")
