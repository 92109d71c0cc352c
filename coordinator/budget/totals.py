"""Sums of prices over many curators, of whom most have spent the same.

A round charges a large set at once, so a deployment of millions has few different sums. A curator
therefore holds the place of its sum in a table, one byte for up to 256 different ones and at most
four, and a round changes the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from common.arrays import grown
from tacit.sets import Bits

Ints = NDArray[np.int64]

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
BLOCK: Final = 1 << 16
"""Curators that are processed together: this keeps intermediate arrays small."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums of prices: finite parts, and how many rounds have no finite figure.

    Arrays of any one shape.
    """

    epsilon: Ints
    delta: Ints
    unverified: Ints

    @classmethod
    def zeros(cls, *shape: int) -> Spent:
        return cls(*(np.zeros(shape, np.int64) for _ in range(3)))

    def plus(self, other: Spent) -> Spent:
        return Spent(
            self.epsilon + other.epsilon,
            self.delta + other.delta,
            self.unverified + other.unverified,
        )

    def times(self, factor: Ints | np.int64) -> Spent:
        return Spent(self.epsilon * factor, self.delta * factor, self.unverified * factor)

    def at(self, *index: Any) -> Spent:
        return Spent(self.epsilon[index], self.delta[index], self.unverified[index])

    @property
    def parts(self) -> tuple[Ints, Ints, Ints]:
        """Epsilon, delta, unverified."""
        return self.epsilon, self.delta, self.unverified

    @property
    def is_nothing(self) -> bool:
        """Whether all of it is zero."""
        return not (self.epsilon.any() or self.delta.any() or self.unverified.any())


@dataclass(frozen=True)
class ByCurator:
    """What each curator spent in one column: curator i has the sum `places[i]` of the table.

    The table holds the sums that occur, and "nothing" at place 0.
    """

    places: NDArray[np.unsignedinteger[Any]]
    table: Spent

    def of(self, number: int) -> Spent:
        """One curator's sum."""
        return self.table.at(int(self.places[number]))

    def whose(self, chosen: Bits) -> Bits:
        """The curators whose sums are the chosen places of the table."""
        found = np.zeros(self.places.size, np.bool_)
        for start in range(0, self.places.size, BLOCK):
            here = slice(start, start + BLOCK)
            np.take(chosen, self.places[here], out=found[here])
        return found

    def columns(self) -> Iterator[Ints]:
        """Every curator's epsilons in blocks, then the deltas, then how many have no figure."""
        for column in self.table.parts:
            for start in range(0, self.places.size, BLOCK):
                yield column[self.places[start : start + BLOCK]]

    def among(self, members: Bits) -> Spent:
        """The sums that occur among some curators."""
        used = np.zeros(self.table.epsilon.size, np.bool_)
        for start in range(0, members.size, BLOCK):
            here = slice(start, start + BLOCK)
            used[self.places[here][members[here]]] = True
        return self.table.at(used)


class Totals:
    """Running sums of curators by number, in several columns, each a separate sum."""

    def __init__(self, columns: int, size: int = 0) -> None:
        self.size = size
        self._places: NDArray[np.unsignedinteger[Any]] = np.zeros(size, np.uint8)
        self._table = Spent.zeros(columns, 1)

    def grow(self, size: int) -> None:
        """Grow to this many curators; new ones have spent nothing."""
        self.size = max(self.size, size)
        self._places = grown(self._places, self.size)

    def column(self, column: int) -> ByCurator:
        """What each curator spent in a column; it does not change with later additions."""
        return ByCurator(self._places[: self.size], self._table.at(column))

    def add(self, members: Bits, amounts: Spent) -> None:
        """Add amounts (columns,) for the members, one boolean per number from 0 on."""
        if amounts.is_nothing:
            return
        count = self._table.epsilon.shape[1]
        more = self._table.plus(amounts.at(slice(None), None))
        both = np.stack(
            [
                np.concatenate(pair, axis=1)
                for pair in zip(self._table.parts, more.parts, strict=True)
            ]
        )
        used = self._used(members, count)
        table, renamed = _distinct(both, used)
        kind = np.min_scalar_type(table.shape[2] - 1)
        places = np.zeros(self._places.size, kind)
        for here, wanted in self._blocks(members, count):
            places[here] = renamed[wanted]
        self._places, self._table = places, Spent(*table)

    def parts(self) -> dict[str, Any]:
        """What it holds, by name; later additions leave it as it is."""
        return {"places": self._places[: self.size], "table": np.stack(self._table.parts)}

    def restore(self, parts: Mapping[str, Any]) -> None:
        """Restore the state returned by `parts()`. Raises ValueError for anything else."""
        places, table = parts["places"], parts["table"]
        if places.size and int(places.max()) >= table.shape[2]:
            raise ValueError("a curator's sum is not in the table")
        self.size, self._places, self._table = places.size, places, Spent(*table)

    def _used(self, members: Bits, count: int) -> Bits:
        """Which of the sums so far, and of these with the amounts added, some curator has."""
        used = np.zeros(2 * count, np.bool_)
        used[0] = True  # zero, which later curators have
        for _, wanted in self._blocks(members, count):
            used[wanted] = True
        return used

    def _blocks(self, members: Bits, count: int) -> Iterator[tuple[slice, NDArray[np.intp]]]:
        """(numbers, places in a table with the amounts added behind the one so far)."""
        for start in range(0, self.size, BLOCK):
            here = slice(start, min(start + BLOCK, self.size))
            wanted = self._places[here].astype(np.intp)
            inside = members[here]
            wanted[: inside.size] += inside * np.intp(count)
            yield here, wanted


def _distinct(table: Ints, used: Bits) -> tuple[Ints, NDArray[np.intp]]:
    """The sums (3, columns, n) that are used, each once and "nothing" first, and where the sums of
    the table are among them. The first of the table is nothing."""
    flat = table[:, :, used].reshape(table.shape[0] * table.shape[1], -1)
    first, places = _groups(flat)
    nothing = int(places[0])
    renamed = np.zeros(used.size, np.intp)
    renamed[used] = (places - nothing) % first.size
    distinct = flat[:, np.roll(first, -nothing)]
    return distinct.reshape(*table.shape[:2], -1), renamed


def _groups(flat: Ints) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first index of each different column, and which of these each column is.

    Columns are sorted by one word each, which takes a tenth of the time of comparing them; two
    columns that have a word in common and differ are found, and all are then compared.
    """
    words = np.zeros(flat.shape[1], np.uint64)
    for row in flat:
        words = words * _ODD + row.view(np.uint64)
    _, first, places = np.unique(words, return_index=True, return_inverse=True)
    if any((row != row[first][places]).any() for row in flat):
        _, first, places = np.unique(flat, axis=1, return_index=True, return_inverse=True)
    return first, places.reshape(-1)
