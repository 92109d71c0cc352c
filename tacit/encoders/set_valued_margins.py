"""Counts of records by their length, and of items, of which each record keeps a few.

Spec: set-valued, section 10. A record keeps at most `most` of its items, by words that are a
function of the record and a public salt: nobody else's records change what it keeps, so that it
moves the counts by `most` at most, whatever the salt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.count_sums import whole_number
from tacit.encoders.counts import Ints, Lists, sorted_sets

MOST_LENGTH: Final = 64
"""Longer records count as this long."""
SALTS: Final = 1 << 63
_ODD: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9))
_LAST: Final = np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, eq=False)
class Lengths:
    """Asks how many records have 1, 2, ... items; the last cell: 64 and more."""

    items: int

    @property
    def sizes(self) -> Ints:
        """One group."""
        return np.array([MOST_LENGTH])

    def json(self) -> dict[str, Any]:
        """As JSON."""
        return {"kind": "lengths", "items": self.items}

    def counted(self, lists: Lists) -> tuple[Ints, Ints]:
        """Records and cells of each count of 1; empty records have none."""
        records, _ = sorted_sets(lists, self.items)
        lengths = np.minimum(np.bincount(records, minlength=lists.count), MOST_LENGTH)
        held = np.flatnonzero(lengths)
        return held, lengths[held] - 1


@dataclass(frozen=True, eq=False)
class KeptItems:
    """Asks how many records have each item, of which a record keeps at most `most`."""

    items: int
    most: int
    salt: int

    @property
    def sizes(self) -> Ints:
        """One group."""
        return np.array([self.items])

    def json(self) -> dict[str, Any]:
        """As JSON."""
        return {"kind": "items", "items": self.items, "most": self.most, "salt": self.salt}

    def counted(self, lists: Lists) -> tuple[Ints, Ints]:
        """Records and cells of each count of 1."""
        records, places = sorted_sets(lists, self.items)
        mixed = _mixed(places.astype(np.uint64) ^ np.uint64(self.salt))
        own = np.zeros(lists.count, np.uint64)
        np.add.at(own, records, mixed)
        order = np.lexsort((places, _mixed(own[records] ^ mixed), records))
        sizes = np.bincount(records, minlength=lists.count)
        rank = np.arange(records.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        kept = order[rank < self.most]
        return records[kept], places[kept].astype(np.int64)


Margin: TypeAlias = Lengths | KeptItems


def read_margin(document: Mapping[str, Any], most_items: int) -> Margin:
    """The document. Raises ValueError, TypeError or KeyError where it is none."""
    items = whole_number(document["items"], most_items)
    if document["kind"] == "lengths":
        return Lengths(items)
    if document["kind"] != "items":
        raise ValueError("there is no such question")
    most = whole_number(document["most"], MOST_LENGTH)
    return KeptItems(items, most, whole_number(document["salt"], SALTS - 1))


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words that look unlike each other, one to one (G. Steele and others, "SplitMix", 2014)."""
    mixed = words + _ODD[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _ODD[1]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _LAST
    return mixed ^ (mixed >> np.uint64(31))
