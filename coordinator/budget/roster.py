"""The curators in U, and the running sums and maxima from which the bounds follow at any moment.

One row of columns per roster number, which takes memory once it is written. Every change of a
curator removes its part of the sums and adds the new one; the largest of many integers costs O(log
n) amortised.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from fractions import Fraction
from functools import partial
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from common.arrays import grown
from coordinator.models.budget_ledger import MICRO, NANO, Scaled, ScaledDisclosure
from tacit.accounting.bounds import Aggregates


class Maxima:
    """A multiset of integers with fast access to its largest.

    A removed value stays in the heap until it reaches the top; the heap is rebuilt when it has
    more removed values than current ones. Heap and counts share their integers, negated.
    """

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []

    def add(self, value: int, times: int = 1) -> None:
        """One more of this value, or several."""
        key = -value
        count = self._counts.get(key, 0)
        self._counts[key] = count + times
        if not count:
            heapq.heappush(self._heap, key)
            if len(self._heap) > 2 * len(self._counts) + 64:
                self._heap = list(self._counts)
                heapq.heapify(self._heap)

    def remove(self, value: int) -> None:
        """One fewer; KeyError if there is none."""
        count = self._counts[-value] - 1
        if count:
            self._counts[-value] = count
        else:
            del self._counts[-value]

    def largest(self, default: int = 0) -> int:
        """The largest, or the default of an empty multiset."""
        while self._heap and self._heap[0] not in self._counts:
            heapq.heappop(self._heap)
        return -self._heap[0] if self._heap else default


# Columns over roster numbers, which grow with the roster.

Kind = TypeVar("Kind", bound=np.integer[Any])

PAGE: Final = 1 << 12


class Rows(Generic[Kind]):
    """A row of numbers for each roster number, zeros until it is written.

    Rows are stored in pages, and a page takes memory with its first written row: a figure that few
    curators declare costs little memory.
    """

    def __init__(self, width: int, kind: type[Kind]) -> None:
        self._width, self._kind = width, kind
        self._pages: dict[int, NDArray[Kind]] = {}
        self._nothing: NDArray[Kind] = np.zeros(width, kind)

    def __getitem__(self, number: int) -> NDArray[Kind]:
        """The row (width,) of a number; only to be read."""
        page = self._pages.get(number // PAGE)
        return self._nothing if page is None else page[number % PAGE]

    def __setitem__(self, number: int, row: Any) -> None:
        self._page(number // PAGE)[number % PAGE] = row

    def add(self, first: int, count: int, amount: int) -> None:
        """Add an amount to every number of the rows of a run."""
        for place in range(first // PAGE, -(-(first + count) // PAGE)):
            start = place * PAGE
            rows = self._page(place)[max(first - start, 0) : first + count - start]
            np.add(rows, amount, out=rows)

    def written(self, first: int, count: int) -> NDArray[np.intp]:
        """Those numbers of a run, rising, whose rows do not begin with zero."""
        last = first + count - 1
        written_numbers = [
            number * PAGE + np.flatnonzero(page[:, 0])
            for number, page in self._sorted()
            if first // PAGE <= number <= last // PAGE
        ]
        if not written_numbers:
            return np.zeros(0, np.intp)
        numbers = np.concatenate(written_numbers)
        return numbers[(first <= numbers) & (numbers <= last)]

    def of(self, numbers: NDArray[np.intp]) -> NDArray[Kind]:
        """The rows (n, width) of numbers that rise."""
        rows = np.zeros((numbers.size, self._width), self._kind)
        for place, page in self._pages.items():
            start, end = np.searchsorted(numbers, (place * PAGE, (place + 1) * PAGE))
            rows[start:end] = page[numbers[start:end] - place * PAGE]
        return rows

    def parts(self) -> dict[str, NDArray[Any]]:
        """Copies of the pages (k,) in use and of their rows (k, PAGE, width)."""
        pages = [page for _, page in self._sorted()]
        rows = np.array(pages, self._kind).reshape(-1, PAGE, self._width)
        return {"pages": np.array(sorted(self._pages), np.int64), "rows": rows}

    def restore(self, pages: NDArray[np.int64], rows: NDArray[Kind]) -> None:
        """Restore the state returned by `parts()`. Raises ValueError for anything else."""
        if rows.shape != (pages.size, PAGE, self._width) or rows.dtype != self._kind:
            raise ValueError("rows of another form")
        self._pages = {number: rows[place] for place, number in enumerate(pages.tolist())}

    def _sorted(self) -> Iterator[tuple[int, NDArray[Kind]]]:
        return iter(sorted(self._pages.items(), key=lambda item: item[0]))

    def _page(self, place: int) -> NDArray[Kind]:
        if place not in self._pages:
            self._pages[place] = np.zeros((PAGE, self._width), self._kind)
        return self._pages[place]


# The curators in U, and the running sums and maxima from which the bounds follow at any moment.
#
# One row of columns per roster number, which takes memory once it is written. Every change of a
# curator removes its old figures from the sums and adds the new ones: O(log n), exact. Ratios are
# kept as floor(ratio * 2^128): two different ratios of 63-bit integers differ by more than 2^-126,
# so the order is preserved, and the ratio is recovered as the only one with such a small
# denominator.

Ints = NDArray[np.int64]
Bits = NDArray[np.bool_]

_DISCLOSED: Final = 1
_NEGATIVE: Final = 2
"""The first column of a disclosure: whether there is one, and whether it has readings below 0."""
_RATIO_BITS: Final = 128
_LARGEST_DENOMINATOR: Final = 1 << 63


class Status(IntEnum):
    """The status of a curator. UNKNOWN: no such number. U: every status except UNKNOWN and LEFT."""

    UNKNOWN = 0
    ACTIVE = 1
    FLAGGED = 2
    NON_COMPLIANT = 3
    LEFT = 4


_IN: Final = (Status.ACTIVE, Status.FLAGGED, Status.NON_COMPLIANT)


class Roster:
    """The curators of a ledger by roster number."""

    def __init__(self) -> None:
        self.size = 0
        self._status = np.zeros(0, np.uint8)
        self._refreshed = Rows(1, np.uint32)
        self._declared = Rows(3, np.int64)
        self._disclosed = Rows(4, np.int64)
        self._counts: Counter[Status] = Counter()
        self._open = 0
        self._undisclosed = self._negative = 0
        self._epsilons, self._open_epsilons = Maxima(), Maxima()
        self._ratios, self._totals = Maxima(), Maxima()
        self._readings, self._curator_ratios = Maxima(), Maxima()
        self._epsilon_sum = self._largest_sum = 0

    # --- reading ---------------------------------------------------------------------------------

    def status(self, number: int) -> Status:
        """The status of a curator."""
        if not 0 <= number < self.size:
            return Status.UNKNOWN
        return Status(int(self._status[number]))

    def statuses(self, first: int, count: int) -> set[Status]:
        """All that occur in a run."""
        if first < 0 or first + count > self.size:
            return {Status.UNKNOWN}
        return {Status(int(item)) for item in np.unique(self._status[first : first + count])}

    def declared(self, number: int) -> Scaled | None:
        """What a curator declares, if it does."""
        epsilon, sensitivity, largest = (int(item) for item in self._declared[number])
        return Scaled(epsilon, sensitivity, largest) if epsilon else None

    def declarations(self) -> tuple[Ints, Ints]:
        """The numbers (n,) of curators in U with declarations, and these: (n, 3) epsilon,
        sensitivity, largest."""
        numbers = self._declared.written(0, self.size)
        numbers = numbers[_in_u(self._status[numbers])]
        return numbers, self._declared.of(numbers)

    def disclosed(self, number: int) -> ScaledDisclosure | None:
        """What a curator discloses, if it does."""
        form, largest, total, readings = (int(item) for item in self._disclosed[number])
        return ScaledDisclosure(largest, total, readings, form == _NEGATIVE) if form else None

    def refreshed(self, number: int) -> int:
        """How often a curator's data changed."""
        return int(self._refreshed[number][0])

    def counts(self) -> dict[Status, int]:
        """The number of curators by status."""
        return {status: self._counts[status] for status in Status if status is not Status.UNKNOWN}

    @property
    def undeclared(self) -> int:
        """Curators of U that declare nothing."""
        return self._open

    def members(self) -> Bits:
        """U, one boolean per roster number."""
        return _in_u(self._status[: self.size])

    def aggregates(self) -> Aggregates:
        """The sums and maxima over the curators of U that declare."""
        declared = sum(self._counts[status] for status in _IN) - self._open
        return Aggregates(
            curators=declared,
            undisclosed=self._undisclosed,
            negative=self._negative,
            non_compliant=self._counts[Status.NON_COMPLIANT],
            largest_epsilon=Fraction(self._epsilons.largest(), MICRO),
            sum_of_epsilons=Fraction(self._epsilon_sum, MICRO),
            largest_open_epsilon=Fraction(self._open_epsilons.largest(), MICRO),
            largest_ratio=_ratio(self._ratios.largest()) / MICRO,
            largest_total=Fraction(self._totals.largest(), NANO),
            sum_of_largest=Fraction(self._largest_sum, NANO),
            most_readings=self._readings.largest(),
            largest_curator_epsilon=_ratio(self._curator_ratios.largest()) / MICRO,
        )

    # --- changing --------------------------------------------------------------------------------

    def enter(self, first: int, count: int) -> None:
        """A run of new numbers is in U, without figures yet."""
        self._grow(first + count)
        self._status[first : first + count] = Status.ACTIVE
        self._count_bare(Status.ACTIVE, count)

    def move(self, first: int, count: int, status: Status) -> None:
        """A run of known curators has this status from now on."""
        declared = self._declared.written(first, count)
        for number in declared.tolist():
            self._move_one(number, status)
        # Those that declare nothing are in no sum but these counts, and are moved together.
        bare = np.ones(count, np.bool_)
        bare[declared - first] = False
        statuses = self._status[first : first + count]
        for old, amount in zip(*np.unique(statuses[bare], return_counts=True), strict=True):
            self._count_bare(Status(int(old)), -int(amount))
        self._count_bare(status, int(bare.sum()))
        statuses[bare] = status

    def declare(
        self, numbers: Sequence[int], declared: Scaled | None, disclosed: ScaledDisclosure | None
    ) -> None:
        """These curators' figures from now on; None leaves what was there."""
        for number in numbers:
            inside = self.status(number) in _IN
            if inside:
                self._count(number, -1)
            if declared is not None:
                self._declared[number] = (declared.epsilon, declared.sensitivity, declared.largest)
            if disclosed is not None:
                self._disclosed[number] = (
                    _NEGATIVE if disclosed.negative else _DISCLOSED,
                    disclosed.largest_reading,
                    disclosed.total,
                    disclosed.readings,
                )
            if inside:
                self._count(number, +1)

    def refresh(self, first: int, count: int) -> None:
        """The data of a run changed."""
        self._refreshed.add(first, count, 1)

    def _count_bare(self, status: Status, change: int) -> None:
        """Count curators without a declaration in, or, below zero, out."""
        self._counts[status] += change
        if status in _IN:
            self._open += change

    def _move_one(self, number: int, status: Status) -> None:
        old = self.status(number)
        if old in _IN:
            self._count(number, -1)
        self._counts[old] -= 1
        self._counts[status] += 1
        self._status[number] = status
        if status in _IN:
            self._count(number, +1)

    # --- keeping ---------------------------------------------------------------------------------

    def parts(self) -> dict[str, Any]:
        """What it holds, by name: views; sums and maxima follow from it."""
        state_parts: dict[str, Any] = {"status": self._status[: self.size]}
        for name, rows in self._rows().items():
            state_parts |= {f"{name}_{part}": array for part, array in rows.parts().items()}
        return state_parts

    @classmethod
    def of(cls, parts: Mapping[str, Any]) -> Roster:
        """The roster of `parts`. Raises KeyError, ValueError for invalid parts."""
        roster = cls()
        for name, rows in roster._rows().items():
            rows.restore(parts[f"{name}_pages"], parts[f"{name}_rows"])
        roster._status = parts["status"]
        roster.size = roster._status.size
        for status, count in zip(*np.unique(roster._status, return_counts=True), strict=True):
            roster._counts[Status(int(status))] = int(count)
        numbers, declared = roster.declarations()
        figures = np.concatenate([declared, roster._disclosed.of(numbers)], axis=1)
        different, counts = np.unique(figures, axis=0, return_counts=True)
        for row, times in zip(different.tolist(), counts.tolist(), strict=True):
            roster._weigh(row[:3], row[3:], times)
        roster._open = sum(roster._counts[status] for status in _IN) - numbers.size
        return roster

    def _rows(self) -> dict[str, Rows[Any]]:
        return {
            "refreshed": self._refreshed,
            "declared": self._declared,
            "disclosed": self._disclosed,
        }

    # --- sums ------------------------------------------------------------------------------------

    def _count(self, number: int, sign: int) -> None:
        """Put a curator of U into the sums, or take it out."""
        declared = [int(item) for item in self._declared[number]]
        if declared[0]:
            self._weigh(declared, [int(item) for item in self._disclosed[number]], sign)
        else:
            self._open += sign

    def _weigh(self, declared: Sequence[int], disclosed: Sequence[int], sign: int) -> None:
        """Put curators with these figures into the sums, or (-1) take one out."""
        epsilon, sensitivity, largest = declared
        change: Callable[[Maxima, int], None]
        change = partial(Maxima.add, times=sign) if sign > 0 else Maxima.remove
        change(self._epsilons, epsilon)
        self._epsilon_sum += sign * epsilon
        change(self._curator_ratios, _key(epsilon * largest, sensitivity))
        form, most, total, readings = disclosed
        if not form:
            self._undisclosed += sign
            change(self._open_epsilons, epsilon)
        elif form == _NEGATIVE:
            self._negative += sign
        else:
            change(self._ratios, _key(epsilon * most, total) if total else _key(epsilon, 1))
            change(self._totals, total)
            change(self._readings, readings)
            self._largest_sum += sign * most

    def _grow(self, size: int) -> None:
        self.size = max(self.size, size)
        self._status = grown(self._status, size)


def _in_u(statuses: NDArray[np.uint8]) -> Bits:
    """Which of these are in U."""
    in_u: Bits = (statuses != Status.UNKNOWN) & (statuses != Status.LEFT)
    return in_u


def _key(numerator: int, denominator: int) -> int:
    return (numerator << _RATIO_BITS) // denominator


def _ratio(key: int) -> Fraction:
    """The ratio that `_key` represents. Zero represents the largest of none."""
    low = Fraction(key, 1 << _RATIO_BITS)
    return low.limit_denominator(_LARGEST_DENOMINATOR)
