"""Maximal frequent sequences, by depth-first search over sets of records as bits.

Spec: trajectory-kcl, sections 3.1 and 3.7: a sequence of support K' or more, none of whose
super-sequences has it. Sequences are sets here (see `table`), so this is exact mining of maximal
frequent itemsets: heads grow by the rarest pair first, pairs that all records of a head share join
it immediately, and a head whose whole tail is frequent or inside a known maximal set is not split.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from algorithms.datasets.trajectories import Codes
from algorithms.trajectory_kcl.table import PairTable

Tail: TypeAlias = list[tuple[int, int]]
"""Pairs that may extend a head, each with the records (bits) that have head and pair."""


@dataclass(frozen=True)
class Frequent:
    """U(T): the sequences, each with the records that have it; `least` is K'."""

    least: int
    where: tuple[tuple[tuple[int, ...], Codes], ...]

    @property
    def sequences(self) -> frozenset[tuple[int, ...]]:
        """The sequences alone."""
        return frozenset(items for items, _ in self.where)


def maximal_frequent(
    table: PairTable, least: int, beat: Callable[[], None] = lambda: None
) -> Frequent:
    """All maximal frequent sequences, lexicographically. `beat` is called between steps."""
    search = _Search(least, beat, {}, {})
    order = np.argsort(table.items, kind="stable")
    rows = table.rows[order]
    counts = np.bincount(table.items, minlength=table.pairs)
    cuts = np.concatenate(([0], np.cumsum(counts)))
    tail = [
        (item, _bits(rows[cuts[item] : cuts[item + 1]], table.records))
        for item in np.flatnonzero(counts >= least).tolist()
    ]
    search.grow((), (1 << table.records) - 1, table.records, tail)
    return Frequent(
        least,
        tuple((items, _rows(bits, table.records)) for items, bits in sorted(search.found.items())),
    )


def _bits(rows: Codes, records: int) -> int:
    flags = np.zeros(records, bool)
    flags[rows] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _rows(bits: int, records: int) -> Codes:
    packed = np.frombuffer(bits.to_bytes(-(-records // 8), "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(packed, bitorder="little")).astype(np.int32)


@dataclass(frozen=True)
class _Search:
    least: int
    beat: Callable[[], None]
    found: dict[tuple[int, ...], int]
    having: dict[int, list[frozenset[int]]]

    def grow(self, head: tuple[int, ...], bits: int, size: int, tail: Tail) -> None:
        """Find all maximal sets that contain the head and otherwise pairs of the tail only."""
        self.beat()
        if head:
            shared = [item for item, own in tail if own.bit_count() == size]
            if shared:
                head = (*head, *shared)
                tail = [each for each in tail if each[0] not in set(shared)]
        if self._known({*head, *(item for item, _ in tail)}):
            return
        whole = bits
        for _, own in tail:
            whole &= own
            if whole.bit_count() < self.least:
                break
        else:
            self._add((*head, *(item for item, _ in tail)), whole)
            return
        tail = sorted(tail, key=lambda each: (each[1].bit_count(), each[0]))
        for place, (item, own) in enumerate(tail):
            further = [
                (other, both)
                for other, bits_of in tail[place + 1 :]
                if (both := own & bits_of).bit_count() >= self.least
            ]
            self.grow((*head, item), own, own.bit_count(), further)

    def _known(self, items: set[int]) -> bool:
        """Whether a found set contains all of these."""
        if not items:
            return False
        lists = [self.having.get(item, []) for item in items]
        return any(items <= each for each in min(lists, key=len))

    def _add(self, items: tuple[int, ...], bits: int) -> None:
        if not items:
            return
        self.found[tuple(sorted(items))] = bits
        each = frozenset(items)
        for item in items:
            self.having.setdefault(item, []).append(each)
