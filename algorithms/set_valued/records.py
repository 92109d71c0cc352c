"""Private records as sets over the universe, and as the masks that nodes of the taxonomy see.

Spec: set-valued, sections 3.3 and 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from algorithms.contract import Context
from tacit.encoders.counts import Lists, sorted_sets
from tacit.encoders.set_valued_counts import Masks, block_masks, joined_masks
from tacit.encoders.set_valued_taxonomy import Taxonomy
from tacit.records.reading import UnknownItem
from tacit.records.transactions import Ints, Places, Transactions

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
    parts = [sorted_sets(block, len(universe)) for block in _blocks(dataset, table, context)]
    lengths = [np.bincount(records) for records, _ in parts]
    sizes = np.concatenate([each[each > 0] for each in lengths] or [np.zeros(0, np.int64)])
    places = np.concatenate([place for _, place in parts] or [np.zeros(0, np.int32)])
    return Itemsets(places.astype(np.int32), np.concatenate(([0], np.cumsum(sizes))))


def record_masks(
    dataset: Transactions, universe: tuple[str, ...], taxonomy: Taxonomy, context: Context
) -> Masks:
    """The masks of all records, computed block by block."""
    blocks = _blocks(dataset, universe_places(dataset, universe), context)
    return joined_masks(list(context.map_blocks(partial(block_masks, taxonomy), blocks)))


def _blocks(dataset: Transactions, table: Places, context: Context) -> Iterator[Lists]:
    """Blocks of records as places in the universe."""
    for first in range(0, dataset.records, BLOCK_RECORDS):
        context.progress(0.3 * first / dataset.records, "reading records")
        offsets = dataset.offsets[first : first + BLOCK_RECORDS + 1]
        yield Lists(table[dataset.values[offsets[0] : offsets[-1]]], offsets - offsets[0])
