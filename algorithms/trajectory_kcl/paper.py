"""The source's algorithms as printed, with their defects: Algorithms 5.1, 5.2 and 5.3.

Spec: trajectory-kcl, sections 3.2 to 3.6, defects B1 to B4. For the `paper` stance and for
comparison; the resulting table may violate the model, and only the independent check shows whether
it does. Sets of records are the bits of whole numbers.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Final, TypeAlias

import numpy as np

from algorithms.trajectory_kcl.mining import Frequent
from algorithms.trajectory_kcl.parameters import (
    Flags,
    Method,
    Model,
    PairTable,
    TooManySequences,
    Utility,
)
from algorithms.trajectory_kcl.suppression import Operation

MOST_CANDIDATES: Final = 5 * 10**6
"""Sequences of one length that Algorithm 5.1 compares; about 200 bytes each."""

Sequence: TypeAlias = tuple[int, ...]
Key: TypeAlias = tuple[int, int, Sequence]
"""(0 local or 1 global, pair, sequence of a local operation)."""


def bits_of(flags: Flags) -> int:
    """The records with a flag, as bits."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


@dataclass(eq=False)
class LiteralRun:
    """One run of Algorithm 5.3 on a table. `beat` is called between steps."""

    table: PairTable
    model: Model
    utility: Utility = "instances"
    method: Method = "local"
    frequent: Frequent | None = None
    beat: Callable[[], None] = lambda: None
    operations: list[Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        table = self.table
        order = np.argsort(table.items, kind="stable")
        cuts = np.cumsum(np.bincount(table.items, minlength=table.pairs))[:-1]
        self.having: list[int] = []
        for rows in np.split(table.rows[order], cuts) if table.pairs else []:
            flags = np.zeros(table.records, bool)
            flags[rows] = True
            self.having.append(bits_of(flags))
        self.marks = [bits_of(column) for column in table.marks.T]
        self.paths = [set(table.path(row)) for row in range(table.records)]
        self.everyone = (1 << table.records) - 1
        self.longest = self.model.longest(int(table.lengths.max(initial=0)))
        self.maximal = {
            items: self.records(items)
            for items in (self.frequent.sequences if self.frequent else ())
        }
        self.least_frequent = self.frequent.least if self.frequent else 0
        self.minimal: set[Sequence] = set()
        self.minimal_of: dict[int, set[Sequence]] = defaultdict(set)
        self.scores: dict[Key, float] = {}
        self.heap: list[tuple[float, Key]] = []

    # -------------------------------------------------------------------------------- Algorithm 5.1

    def records(self, sequence: Sequence) -> int:
        """T(q) in the current table."""
        result = self.everyone
        for pair in sequence:
            result &= self.having[pair]
        return result

    def violates(self, records: int) -> bool:
        """Whether a group that is not empty breaks the model."""
        size, limit = records.bit_count(), self.model.confidence
        return size < self.model.least or any(
            (records & mark).bit_count() * limit.denominator > limit.numerator * size
            for mark in self.marks
        )

    def mine(self) -> list[Sequence]:
        """V(T), pruned against the level before alone (B1)."""
        result: list[Sequence] = []
        candidates: list[Sequence] = [(pair,) for pair in range(len(self.having))]
        for length in range(1, self.longest + 1):
            good: list[Sequence] = []
            bad: set[Sequence] = set()
            for sequence in candidates:
                records = self.records(sequence)
                if not records:
                    continue
                if self.violates(records):
                    bad.add(sequence)
                else:
                    good.append(sequence)
            self.beat()
            result += sorted(bad)
            minimal = (
                joined
                for joined in self._joined(good)
                if not any(part in bad for part in combinations(joined, length))
            )
            candidates = list(islice(minimal, MOST_CANDIDATES + 1))
            if len(candidates) > MOST_CANDIDATES:
                raise TooManySequences(f"more than {MOST_CANDIDATES} of {length + 1} pairs")
        return result

    def _joined(self, good: list[Sequence]) -> Iterator[Sequence]:
        by_prefix: dict[Sequence, list[int]] = defaultdict(list)
        for sequence in good:
            by_prefix[sequence[:-1]].append(sequence[-1])
        times = self.table.times
        for prefix, lasts in by_prefix.items():
            self.beat()
            for one, other in combinations(sorted(lasts), 2):
                if times[one] < times[other]:
                    yield (*prefix, one, other)

    # -------------------------------------------------------------------------------- Algorithm 5.2

    def valid(self, pair: int, sequence: Sequence) -> bool:
        """Whether suppressing the pair in T(m) is called valid (B3: it may not be)."""
        inside = self.records(sequence)
        rest = self.having[pair] & ~inside
        common = self._pairs(inside) & self._pairs(rest)
        named = {item for m in self.minimal_of[pair] for item in m}
        named |= {m[0] for m in self.minimal if len(m) == 1}
        common_items = sorted((common - named) | (common & {pair}))
        return not self._any_violates(common_items, (), rest, pair)

    def _any_violates(self, allowed: list[int], head: Sequence, records: int, pair: int) -> bool:
        for place, item in enumerate(allowed):
            longer = (*head, item)
            matching = records & self.having[item]
            if not matching or self._holds_minimal(longer, pair):
                continue
            if self.violates(matching):
                return True
            if len(longer) < self.longest and self._any_violates(
                allowed[place + 1 :], longer, matching, pair
            ):
                return True
        return False

    def _holds_minimal(self, sequence: Sequence, pair: int) -> bool:
        """Whether a sequence contains one of V(T) - V(p)."""
        return any(
            part in self.minimal and pair not in part
            for size in range(1, len(sequence) + 1)
            for part in combinations(sequence, size)
        )

    def _pairs(self, records: int) -> set[int]:
        result: set[int] = set()
        for row in _rows(records):
            result |= self.paths[row]
        return result

    # -------------------------------------------------------------------------------- Algorithm 5.3

    def run(self) -> list[Operation]:
        """Suppress until V is empty; the operations in order."""
        self.minimal = set(self.mine())
        for m in self.minimal:
            for pair in m:
                self.minimal_of[pair].add(m)
        for pair in sorted(self.minimal_of):
            self._score(pair)
        while self.minimal:
            self.beat()
            negative, key = heapq.heappop(self.heap)
            if self.scores.get(key) != -negative:
                continue  # refreshed or deleted meanwhile
            self._do(key, -negative)
        return self.operations

    def alive(self) -> Flags:
        """Which instances of the table are left."""
        table = self.table
        is_alive = [
            item in self.paths[row]
            for row, item in zip(table.rows.tolist(), table.items.tolist(), strict=True)
        ]
        return np.array(is_alive, bool)

    def _score(self, pair: int) -> None:
        """Fresh scores of a pair: of its local operations, and of the global one."""
        self.beat()
        if not self.minimal_of[pair]:
            self.scores.pop((1, pair, ()), None)
            return
        frequent = [items for items in self.maximal if pair in items]
        loss = self.having[pair].bit_count() if self.utility == "instances" else len(frequent)
        self._put((1, pair, ()), len(self.minimal_of[pair]) / (loss + 1))
        if self.method == "global":
            return
        for m in self.minimal_of[pair]:
            if not self.valid(pair, m):
                self.scores.pop((0, pair, m), None)
                continue
            inside = self.records(m)
            if self.utility == "instances":
                loss = inside.bit_count()
            else:
                loss = sum(
                    (self.maximal[items] & ~inside).bit_count() < self.least_frequent
                    for items in frequent
                )
            self._put((0, pair, m), len(self._same(pair, inside)) / (loss + 1))

    def _put(self, key: Key, score: float) -> None:
        self.scores[key] = score
        heapq.heappush(self.heap, (-score, key))

    def _same(self, pair: int, inside: int) -> set[Sequence]:
        """V': the sequences with the pair and the same records (B2: not those with fewer)."""
        return {m for m in self.minimal_of[pair] if self.records(m) == inside}

    def _do(self, key: Key, score: float) -> None:
        kind, pair, m = key
        inside = self.records(m) if kind == 0 else self.having[pair]
        gone = self._same(pair, inside) if kind == 0 else set(self.minimal_of[pair])
        for row in _rows(inside):
            self.paths[row].discard(pair)
        self.having[pair] &= ~inside
        stale = {item for one in gone for item in one} | {pair}
        for items in [items for items in self.maximal if pair in items]:
            stale |= set(items)
            self.maximal[items] &= ~inside
            if kind == 1 or self.maximal[items].bit_count() < self.least_frequent:
                del self.maximal[items]
        for one in gone:
            self.minimal.discard(one)
            for item in one:
                self.minimal_of[item].discard(one)
                self.scores.pop((0, item, one), None)
        for item in sorted(stale):  # B4: entries of all other pairs keep their old scores
            self._score(item)
        self.operations.append(
            Operation(
                "local" if kind == 0 else "global",
                pair,
                m if kind == 0 else None,
                inside.bit_count(),
                score,
            )
        )


def _rows(records: int) -> Iterator[int]:
    """The numbers of the set bits, ascending."""
    data = records.to_bytes(-(-records.bit_length() // 8), "little")
    yield from np.flatnonzero(
        np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    ).tolist()
