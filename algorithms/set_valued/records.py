"""Private records as the masks that the nodes of the taxonomy see of them.

Spec: set-valued, sections 3.3 and 7. A record touches a node when it has an item below it, and its
mask there says under which children. Its touched nodes in the order (height falling, place rising)
are split in exactly this order along the record's chain: a parent comes before its children. All
records of a partition have touched the same nodes so far, hence the mask of the node that is split
next is at the same place for all of them, and a split is one gather and one grouping.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.datasets.reading import UnknownItem
from algorithms.datasets.transactions import Ints, Places, Transactions
from algorithms.set_valued.taxonomy import Taxonomy

BLOCK_RECORDS: Final = 131_072


@dataclass(frozen=True, eq=False)
class Itemsets:
    """Records as sets: `places` in the universe rise inside a record; offsets (records + 1,)."""

    places: Places
    offsets: Ints

    @property
    def count(self) -> int:
        """How many sets."""
        return self.offsets.size - 1


@dataclass(frozen=True, eq=False)
class Masks:
    """masks (touched nodes of all records,); starts (records,): where each record begins.

    Empty records are omitted. `merged`: duplicates inside records; `empty`: records without items.
    Both are visible only to the operator.
    """

    masks: NDArray[np.uint16]
    starts: Ints
    merged: int
    empty: int

    @property
    def records(self) -> int:
        """How many records with items; private."""
        return self.starts.size


def universe_places(dataset: Transactions, universe: tuple[str, ...]) -> Places:
    """For each of the dataset's items its place in the universe, -1 outside it."""
    place_of = {item: place for place, item in enumerate(universe)}
    return np.array([place_of.get(item, -1) for item in dataset.items], np.int32)


def check_items(dataset: Transactions, universe: tuple[str, ...]) -> None:
    """Raises UnknownItem for the first record with an item outside the universe."""
    outside = universe_places(dataset, universe) < 0
    if not outside.any() or not dataset.values.size:
        return
    wrong = outside[dataset.values]
    if wrong.any():
        entry = int(wrong.argmax())
        row = int(np.searchsorted(dataset.offsets, entry, side="right"))
        column = entry - int(dataset.offsets[row - 1]) + 1
        raise UnknownItem(row, "an item is not in the universe", column)


def itemsets(dataset: Transactions, universe: tuple[str, ...], context: Context) -> Itemsets:
    """All non-empty records as sets, in their order."""
    table = universe_places(dataset, universe)
    parts = [_sorted_sets(block, table, len(universe)) for block in _blocks(dataset, context)]
    lengths = [np.bincount(records) for records, _ in parts]
    sizes = np.concatenate([each[each > 0] for each in lengths] or [np.zeros(0, np.int64)])
    places = np.concatenate([place for _, place in parts] or [np.zeros(0, np.int32)])
    return Itemsets(places.astype(np.int32), np.concatenate(([0], np.cumsum(sizes))))


def record_masks(
    dataset: Transactions, universe: tuple[str, ...], taxonomy: Taxonomy, context: Context
) -> Masks:
    """The masks of all records, computed block by block."""
    function = partial(block_masks, taxonomy, universe_places(dataset, universe))
    parts = list(context.map_blocks(function, _blocks(dataset, context)))
    counts = np.concatenate([counts for _, counts, _ in parts] or [np.zeros(0, np.int64)])
    kept = counts[counts > 0]
    return Masks(
        np.concatenate([masks for masks, _, _ in parts] or [np.zeros(0, np.uint16)]),
        np.cumsum(kept) - kept,
        sum(merged for _, _, merged in parts),
        int(counts.size - kept.size),
    )


@dataclass(frozen=True, eq=False)
class _Block:
    values: Places
    lengths: Ints


def _blocks(dataset: Transactions, context: Context) -> Iterator[_Block]:
    for first in range(0, dataset.records, BLOCK_RECORDS):
        context.progress(0.3 * first / dataset.records, "reading records")
        offsets = dataset.offsets[first : first + BLOCK_RECORDS + 1]
        yield _Block(dataset.values[offsets[0] : offsets[-1]], np.diff(offsets))


def _sorted_sets(block: _Block, table: Places, size: int) -> tuple[Ints, Ints]:
    """The block's (record, place in the universe) in order, each pair once."""
    keys = np.repeat(np.arange(block.lengths.size) * size, block.lengths) + table[block.values]
    steps = np.diff(keys)
    if (steps <= 0).any():
        keys.sort()
        keys = keys[np.concatenate(([True], np.diff(keys) > 0))]
    records = keys // size
    return records, keys - records * size


def block_masks(
    taxonomy: Taxonomy, table: Places, block: _Block
) -> tuple[NDArray[np.uint16], Ints, int]:
    """Masks of one block of records, touched nodes of each record (0: it is empty), duplicates.

    Items of a record are in order, so those below one node are adjacent on every level: a mask is
    an OR over a run.
    """
    count, fanout = block.lengths.size, taxonomy.fanout
    records, places = _sorted_sets(block, table, taxonomy.size)
    merged = block.values.size - places.size
    levels: list[tuple[Ints, NDArray[np.uint16]]] = []
    for single, width in zip(taxonomy.single_at_end, taxonomy.widths[1:], strict=True):
        if not places.size:
            break
        above = places // fanout
        bits = np.left_shift(1, places - above * fanout).astype(np.uint16)
        new = (np.diff(above) != 0) | (np.diff(records) != 0)
        runs = np.concatenate(([0], np.flatnonzero(new) + 1))
        masks = np.bitwise_or.reduceat(bits, runs)
        records, places = records[runs], above[runs]
        if single:  # the last place is a node of the level below, which has its mask already
            real = places != width - 1
            levels.append((records[real], masks[real]))
        else:
            levels.append((records, masks))
    touched = [np.bincount(held, minlength=count) for held, _ in levels]
    total = np.sum(touched, axis=0) if touched else np.zeros(count, np.int64)
    fill = np.cumsum(total) - total
    packed = np.empty(int(total.sum()), np.uint16)
    for (held, masks), sizes in zip(levels[::-1], touched[::-1], strict=True):
        rank = np.arange(held.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        packed[fill[held] + rank] = masks
        fill += sizes
    return packed, total, merged
