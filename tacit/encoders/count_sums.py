"""Questions of adaptive counting as sums: one vector of counts for all of a curator's lists.

Spec: federated-counting, section 2. Groups of one rate are one block of the vector: blocks by
rising rate, groups and cells inside them in the question's order. What one record adds to a block
is at most the question's reach in L1 norm, and that is enforced here, regardless of the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np

from tacit.encoders.counts import Counter, Ints, Level, Lists, PathSpends, ranges
from tacit.encoders.sums import SumBlock
from tacit.query.terms import MAX_DIMENSION
from tacit.wire import format_exact, parse_exact

MOST_SEQUENCES: Final = 1_000_000
"""Lists of one curator that count, for the privacy unit `record`."""
MOST_RATES: Final = 1_024
MOST_PARTS: Final = 64
MOST_CELLS: Final = MOST_PARTS * MAX_DIMENSION
MOST_REACH: Final = 1_000
MOST_LEVELS: Final = 64


class Asked(Protocol):
    """A document of a question: what its cells are."""

    @property
    def items(self) -> int:
        """How many items the universe has."""
        ...

    @property
    def sizes(self) -> Ints:
        """Cells of each group."""
        ...

    def json(self) -> dict[str, Any]:
        """All of it as JSON; the encoder's `read` gives it back."""
        ...


@dataclass(frozen=True, eq=False)
class CountSum:
    """A question, or a part of it.

    reach: what a record adds to a block at most; rates: distinct ones, ascending; rate_of
    (groups,): the rate of each group, as its index among them; first: the first of its words
    that this part asks for, MAX_DIMENSION at most; further parts ask for the words after these.
    """

    counter: Counter
    asked: Asked
    reach: int
    rates: tuple[Fraction, ...]
    rate_of: Ints
    first: int = 0

    @classmethod
    def of(
        cls,
        counter: Counter,
        asked_cells: Asked,
        reach: int,
        rates: Sequence[Fraction],
        rate_of: Ints,
    ) -> CountSum:
        """From rates in any order; rates without cells are left out."""
        used = np.unique(rate_of[asked_cells.sizes > 0])
        order = sorted(used.tolist(), key=lambda place: rates[place])
        # More than fit are rounded down, neighbours to the lowest of them.
        level = np.arange(len(order)) * min(len(order), MOST_RATES) // max(len(order), 1)
        rank = np.zeros(len(rates), np.int64)
        rank[order] = level
        lowest = np.unique(level, return_index=True)[1].tolist()
        return cls(
            counter,
            asked_cells,
            reach,
            tuple(rates[order[place]] for place in lowest),
            rank[rate_of],
        )

    def __post_init__(self) -> None:
        rising = all(low < high for low, high in zip(self.rates, self.rates[1:], strict=False))
        if not self.rates or not rising or self.rates[0] <= 0 or len(self.rates) > MOST_RATES:
            raise ValueError("rates are above 0, rise, and are few")
        sizes = self.asked.sizes
        if self.reach < 1 or self.rate_of.shape != sizes.shape or not sizes.size:
            raise ValueError("every group has a rate, and a record reaches one cell at least")
        if set(np.unique(self.rate_of[sizes > 0]).tolist()) != set(range(len(self.rates))):
            raise ValueError("every rate is of some cell")
        if not 0 < int(sizes.sum()) <= MOST_CELLS or (sizes < 0).any():
            raise ValueError(f"at most {MOST_CELLS} cells")
        if self.first not in range(0, int(sizes.sum()), MAX_DIMENSION):
            raise ValueError("parts are as long as they can be")

    @property
    def columns(self) -> int:
        """One: a record is a list."""
        return 1

    @property
    def parts(self) -> tuple[CountSum, ...]:
        """The whole question as sums that rounds can carry."""
        firsts = range(0, self._cells.size, MAX_DIMENSION)
        return tuple(replace(self, first=first) for first in firsts)

    @cached_property
    def _ends(self) -> Ints:
        """Of each rate: the word after its last one."""
        return np.cumsum(np.bincount(self.rate_of, self.asked.sizes, len(self.rates))).astype(
            np.int64
        )

    @cached_property
    def _sizes(self) -> Ints:
        """Words of each rate that are asked here."""
        end = min(self.first + MAX_DIMENSION, int(self._ends[-1]))
        ends = np.clip(self._ends, self.first, end)
        return np.diff(ends, prepend=self.first)

    @property
    def epsilon(self) -> Fraction:
        """The sum of the distinct rates."""
        counted_places = np.flatnonzero(self._sizes).tolist()
        return sum((self.rates[place] for place in counted_places), Fraction(0))

    @cached_property
    def blocks(self) -> tuple[SumBlock, ...]:
        """One for each rate."""
        return tuple(
            SumBlock(f"rate-{place}", size, self.reach, rate / self.epsilon)
            for place, (rate, size) in enumerate(zip(self.rates, self._sizes.tolist(), strict=True))
            if size
        )

    @cached_property
    def _cells(self) -> Ints:
        """The question's cell of each place of the vector."""
        sizes = self.asked.sizes
        groups = np.argsort(self.rate_of, kind="stable")
        return ranges((np.cumsum(sizes) - sizes)[groups], sizes[groups])

    @cached_property
    def _places(self) -> Ints:
        """The place in the vector of each cell."""
        places = np.empty_like(self._cells)
        places[self._cells] = np.arange(places.size)
        return places

    def added(self, lists: Lists) -> tuple[Ints, Ints]:
        """Records and words, one entry for each count of 1 that a record adds.

        A record with an item outside the universe counts nowhere, and is not reported. Of a
        record's counts, the last ones beyond the reach of a block are dropped.
        """
        records, words = self._added(lists)
        words = words - self.first
        here = (words >= 0) & (words < int(self._sizes.sum()))
        return records[here], words[here]

    def _added(self, lists: Lists) -> tuple[Ints, Ints]:
        """The same over all parts: records, and places in the whole vector."""
        records, cells = self.counter.of(lists.over(self.asked.items), self.asked)
        inside = (cells >= 0) & (cells < self._cells.size)
        places, records = self._places[cells[inside]], records[inside]
        rates = np.searchsorted(self._ends, places, side="right")
        first_places = _first(records * len(self.rates) + rates, self.reach)
        return records[first_places], places[first_places]

    def total(self, lists: Lists) -> Ints:
        """What all lists add together (length,)."""
        return np.bincount(self.added(lists)[1], minlength=int(self._sizes.sum()))

    @property
    def costs(self) -> tuple[Fraction, ...]:
        """1 / b of each rate of the whole question: what a change by 1 spends."""
        return tuple(rate / self.reach for rate in self.rates)

    def moved(self, lists: Lists) -> Ints:
        """What each record adds at each rate over all parts, in L1 norm (records, rates)."""
        records, places = self._added(lists)
        keys = records * len(self.rates) + np.searchsorted(self._ends, places, side="right")
        counts_moved = np.bincount(keys, minlength=lists.count * len(self.rates))
        return counts_moved.reshape(lists.count, len(self.rates))

    def after(self, spends: PathSpends) -> PathSpends:
        """What a job's paths spend after the whole question. Raises NoSuchPaths."""
        paths = self.counter.paths(self.asked)
        return spends.after(paths, self.asked.sizes, self.rate_of, self.rates, self.reach)

    def restored(self, opened: Ints) -> Ints:
        """(length,) in the question's order. A part is returned as it is: `whole` joins parts."""
        return opened if self._cells.size > MAX_DIMENSION else opened[self._places]

    def whole(self, parts: Sequence[Ints]) -> Ints:
        """All cells in the question's order, from the opened sums of its parts."""
        return parts[0] if len(parts) == 1 else np.concatenate(parts)[self._places]

    def document(self) -> dict[str, Any]:
        """The question as JSON."""
        return {
            "reach": self.reach,
            "rates": [format_exact(rate) for rate in self.rates],
            "rate_of": self.rate_of.tolist() if len(self.rates) > 1 else None,
            "asked": self.asked.json(),
            **({"first": self.first} if self.first else {}),
        }


def read_with(
    counter: Counter, read: Callable[[Mapping[str, Any]], Asked], document: Mapping[str, Any]
) -> CountSum:
    """The sum of a document. Raises ValueError, TypeError or KeyError for an invalid document."""
    counted = read(document["asked"])
    rates = tuple(parse_exact(rate) for rate in document["rates"])
    rate_of = np.zeros(counted.sizes.size, np.int64)
    if document["rate_of"] is not None:
        rate_of = whole_numbers(document["rate_of"], len(rates))
    reach = whole_number(document["reach"], MOST_REACH)
    first = whole_number(document["first"], MOST_CELLS) if "first" in document else 0
    return CountSum(counter, counted, reach, rates, rate_of, first)


def read_levels(listed: Any, items: int, most: int = MOST_CELLS) -> tuple[Level, ...]:
    """Levels of at most `most` grams or prefixes, which are distinct and sorted by (parent, item).

    A kept item was a cell of an earlier question, so an honest document stays within these
    limits: no document makes a curator store more. Raises ValueError, TypeError or KeyError.
    """
    levels: list[Level] = []
    before = 1
    if len(listed) > MOST_LEVELS or any(len(level["items"]) > most for level in listed):
        raise ValueError("more levels, or larger ones, than questions can have asked")
    for level in listed:
        parents = whole_numbers(level["parents"], before)
        last = whole_numbers(level["items"], items)
        if parents.shape != last.shape or (np.diff(parents * items + last) <= 0).any():
            raise ValueError("a level is sorted by parent and item")
        levels.append(Level(parents, last))
        before = last.size
    return tuple(levels)


def whole_number(value: Any, most: int) -> int:
    """A whole number from 1 on. Raises ValueError."""
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError("a number is out of range")
    return value


def whole_numbers(listed: Any, below: int) -> Ints:
    """A JSON list of whole numbers from 0 on. Raises ValueError or TypeError for anything else."""
    if not isinstance(listed, list) or not all(type(number) is int for number in listed):
        raise TypeError("a list of whole numbers")
    numbers = np.array(listed, np.int64)
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < below):
        raise ValueError("a number is out of range")
    return numbers


def _first(keys: Ints, most: int) -> Ints:
    """Places of the first `most` entries of each key."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    rank = np.arange(keys.size) - np.repeat(starts, np.diff(np.append(starts, keys.size)))
    return order[rank < most]
