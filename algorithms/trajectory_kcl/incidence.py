"""Which sequences occur in which records, and how often: what suppression works on.

Also the arguments and results of the plain and the compiled kernel of suppression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.trajectories import Codes, Ints
from algorithms.trajectory_kcl.mining import WORD, Frequent, Mined, Words
from algorithms.trajectory_kcl.parameters import Model
from algorithms.trajectory_kcl.table import Flags, PairTable

SAFE: Final = 0
MINIMAL: Final = 1
FREQUENT: Final = 2

Kinds = NDArray[np.uint8]


class State(NamedTuple):
    """Counts that operations change (`counts`, `mark_counts`, `dead`, `support`); lookup tables.

    Records: offsets (n + 1,), items (instances,), classes (n,); class_offsets, class_marks: the
    sensitive values of a class. dead (n, words): suppressed places, one bit each. Entries, by
    record: entry_offsets (n + 1,), entry_sequences, entry_masks (entries, words). Sequences:
    kinds, counts (m,), mark_counts (m, s). Of the minimal violating ones: where_offsets (m + 1,),
    where_rows, where_entries. support (d,): records that still have a pair. most: by group size.
    """

    offsets: Ints
    items: Codes
    classes: Codes
    class_offsets: Codes
    class_marks: Codes
    dead: Words
    entry_offsets: Ints
    entry_sequences: Codes
    entry_masks: Words
    kinds: Kinds
    counts: Ints
    mark_counts: Ints
    where_offsets: Ints
    where_rows: Codes
    where_entries: Ints
    support: Ints
    most: Ints
    least: int
    least_frequent: int


@dataclass(frozen=True, eq=False)
class Incidence:
    """The state, and what does not change: the pairs of each sequence,
    members[starts[q]:starts[q + 1]], and the records of each pair and its place in them,
    holders[pair_starts[p]:pair_starts[p + 1]] and holder_places."""

    state: State
    starts: Ints
    members: Codes
    pair_starts: Ints
    holders: Codes
    holder_places: Ints

    def pairs_of(self, sequence: int) -> list[int]:
        """The pairs of a sequence, ascending."""
        result: list[int] = self.members[self.starts[sequence] : self.starts[sequence + 1]].tolist()
        return result

    def rows_with(self, pair: int) -> Codes:
        """The records that still have a pair."""
        part = slice(self.pair_starts[pair], self.pair_starts[pair + 1])
        rows, places = self.holders[part], self.holder_places[part]
        words = self.state.dead[rows, places // WORD]
        left: Codes = rows[(words >> (places % WORD).astype(np.uint64)) & np.uint64(1) == 0]
        return left

    def of_kind(self, kind: int) -> list[int]:
        """The numbers of all sequences of a kind."""
        result: list[int] = np.flatnonzero(self.state.kinds == kind).tolist()
        return result


def build(
    table: PairTable,
    model: Model,
    mined: Mined,
    frequent: Frequent | None,
    beat: Callable[[], None] = lambda: None,
) -> Incidence:
    """All that is tracked of a table. `beat` is called between steps."""
    levels = mined.levels
    bases = np.cumsum([0, *(len(level.keys) for level in levels)])
    rows = [block.rows for level in mined.occurrences for block in level]
    masks = [block.masks for level in mined.occurrences for block in level]
    numbers = [
        block.sequences + np.int32(base)
        for base, level in zip(bases[:-1].tolist(), mined.occurrences, strict=True)
        for block in level
    ]
    kinds = [level.violating.astype(np.uint8) for level in levels]
    counts = [level.counts for level in levels]
    marks = [level.mark_counts for level in levels]
    members = [level.items.reshape(-1) for level in levels]
    widths = [np.full(len(level.keys), level.items.shape[1], np.int64) for level in levels]
    words = max(-(-int(table.lengths.max(initial=0)) // WORD), 1)
    if frequent is not None:
        for place, (items, found) in enumerate(frequent.where):
            rows.append(found)
            masks.append(_masks(table, items, found, words))
            numbers.append(np.full(len(found), bases[-1] + place, np.int32))
            marks.append(table.marks[found].sum(axis=0, dtype=np.int64)[None, :])
            members.append(np.array(items, np.int32))
        widths.append(np.array([len(items) for items, _ in frequent.where], np.int64))
        counts.append(np.array([len(found) for _, found in frequent.where], np.int64))
        kinds.append(np.full(len(frequent.where), FREQUENT, np.uint8))
    beat()
    row = _joined(rows, np.int32)
    order = np.argsort(row, kind="stable")
    sequences = _joined(numbers, np.int32)[order]
    kind = _joined(kinds, np.uint8)
    beat()
    where_offsets, where_entries = _where(sequences, kind)
    class_offsets, class_marks = _class_lists(table.class_marks)
    state = State(
        offsets=table.offsets,
        items=table.items,
        classes=table.classes,
        class_offsets=class_offsets,
        class_marks=class_marks,
        dead=np.zeros((table.records, words), np.uint64),
        entry_offsets=_starts(np.bincount(row, minlength=table.records)),
        entry_sequences=sequences,
        entry_masks=(np.concatenate(masks) if masks else np.zeros((0, words), np.uint64))[order],
        kinds=kind,
        counts=_joined(counts, np.int64),
        mark_counts=np.concatenate(marks)
        if marks
        else np.zeros((0, table.class_marks.shape[1]), np.int64),
        where_offsets=where_offsets,
        where_rows=row[order][where_entries],
        where_entries=where_entries,
        support=np.bincount(table.items, minlength=table.pairs).astype(np.int64),
        most=model.most(table.records),
        least=model.least,
        least_frequent=0 if frequent is None else frequent.least,
    )
    beat()
    by_pair = np.argsort(table.items, kind="stable")
    holders = table.rows[by_pair]
    return Incidence(
        state,
        starts=_starts(_joined(widths, np.int64)),
        members=_joined(members, np.int32),
        pair_starts=_starts(state.support),
        holders=holders,
        holder_places=by_pair - table.offsets[:-1][holders],
    )


def alive(table: PairTable, state: State) -> Flags:
    """Which instances are not suppressed."""
    place = np.arange(len(table.items)) - table.offsets[:-1][table.rows]
    words = state.dead[table.rows, place // WORD]
    result: Flags = (words >> (place % WORD).astype(np.uint64)) & np.uint64(1) == 0
    return result


def _masks(table: PairTable, items: Sequence[int], rows: Codes, words: int) -> Words:
    """The places of a sequence's pairs in each of these records, all of which have it."""
    masks = np.zeros((len(rows), words), np.uint64)
    for item in items:
        place = table.places(rows, item)
        bits = np.uint64(1) << (place % WORD).astype(np.uint64)
        masks[np.arange(len(rows)), place // WORD] |= bits
    return masks


def _where(sequences: Codes, kinds: Kinds) -> tuple[Ints, Ints]:
    """The entries of each minimal violating sequence; none of the others."""
    chosen = np.flatnonzero(kinds[sequences] == MINIMAL)
    own = sequences[chosen]
    order = np.argsort(own, kind="stable")
    return _starts(np.bincount(own, minlength=len(kinds))), chosen[order]


def _class_lists(class_marks: Flags) -> tuple[Codes, Codes]:
    offsets = np.concatenate(([0], np.cumsum(class_marks.sum(axis=1)))).astype(np.int32)
    return offsets, np.nonzero(class_marks)[1].astype(np.int32)


def _starts(widths: Ints) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(widths, dtype=np.int64)))


def _joined(parts: Sequence[NDArray[np.generic]], kind: type) -> NDArray:  # type: ignore[type-arg]
    return np.concatenate(parts) if parts else np.zeros(0, kind)


# What the plain and the compiled kernel of suppression take and give. Spec: trajectory-kcl,
# sections 3.3 and 7.


class Scores(NamedTuple):
    """Of asked local operations: minimal violating sequences gained, instances and maximal
    frequent sequences lost, validity."""

    gains: Ints
    instances: Ints
    frequent: Ints
    valid: Flags


class Changes(NamedTuple):
    """Sequences that an operation touched, ascending: minimal violating ones that are gone, those
    that lost records, maximal frequent ones that are lost."""

    gone: Codes
    shrunk: Codes
    lost: Codes


class Kernel(Protocol):
    """Scores and operations on a state."""

    state: State

    def rows(self, minimal: int) -> Codes:
        """The records that still have a minimal violating sequence."""
        ...

    def score(self, pairs: Codes, minimals: Codes) -> Scores:
        """Local operations: each pair in the records of its minimal violating sequence."""
        ...

    def apply(self, pair: int, rows: Codes) -> Changes:
        """Suppress a pair in these records, all of which have it."""
        ...
