"""The greedy anonymiser: Algorithm 5.3, corrected (B2, B3, B4), and global suppression alone.

It works on which sequences occur in which records, and how often. The arguments and results of the
plain and the compiled kernel are here too.
"""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.trajectories import Codes, Ints
from algorithms.trajectory_kcl.mining import WORD, Frequent, Mined, Words
from algorithms.trajectory_kcl.parameters import Flags, Method, Model, PairTable, Utility

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
        rows_left: Codes = rows[(words >> (places % WORD).astype(np.uint64)) & np.uint64(1) == 0]
        return rows_left

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
        for place, (items, rows_found) in enumerate(frequent.where):
            rows.append(rows_found)
            masks.append(_masks(table, items, rows_found, words))
            numbers.append(np.full(len(rows_found), bases[-1] + place, np.int32))
            marks.append(table.marks[rows_found].sum(axis=0, dtype=np.int64)[None, :])
            members.append(np.array(items, np.int32))
        widths.append(np.array([len(items) for items, _ in frequent.where], np.int64))
        counts.append(np.array([len(rows_found) for _, rows_found in frequent.where], np.int64))
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
    sequences_chosen = sequences[chosen]
    order = np.argsort(sequences_chosen, kind="stable")
    return _starts(np.bincount(sequences_chosen, minlength=len(kinds))), chosen[order]


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
    """Of asked local operations: validity; of the valid ones minimal violating sequences gained,
    instances and maximal frequent sequences lost."""

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


WORTH_COMPILING: Final = 300_000
"""Entries (record, sequence) from which on the compiled kernel is used."""


def best_kernel(state: State, beat: Callable[[], None] = lambda: None) -> Kernel:
    """The compiled one for large tables if numba is installed: compiling takes seconds."""
    if len(state.entry_sequences) < WORTH_COMPILING or find_spec("numba") is None:
        return PlainKernel(state, beat)
    from algorithms.trajectory_kcl.compiled import CompiledKernel

    return CompiledKernel(state, beat)


class PlainKernel:
    """By numpy alone: one vectorised tally for each operation."""

    def __init__(self, state: State, _beat: Callable[[], None] = lambda: None) -> None:
        self.state = state

    def rows(self, minimal: int) -> Codes:
        state = self.state
        part = slice(state.where_offsets[minimal], state.where_offsets[minimal + 1])
        rows = state.where_rows[part]
        blocked = state.entry_masks[state.where_entries[part]] & state.dead[rows]
        result: Codes = rows[~blocked.any(axis=1)]
        return result

    def score(self, pairs: Codes, minimals: Codes) -> Scores:
        scores = Scores(
            np.zeros(len(pairs), np.int64),
            np.zeros(len(pairs), np.int64),
            np.zeros(len(pairs), np.int64),
            np.ones(len(pairs), bool),
        )
        state = self.state
        for slot, (pair, minimal) in enumerate(zip(pairs.tolist(), minimals.tolist(), strict=True)):
            rows = self.rows(minimal)
            touched, tallies, mark_tallies = self._tally(pair, rows)
            kinds, before = state.kinds[touched], state.counts[touched]
            remaining = before - tallies
            shares = state.mark_counts[touched] - mark_tallies
            bad = (remaining < state.least) | (shares > state.most[remaining][:, None]).any(axis=1)
            lost = (remaining < state.least_frequent) & (before >= state.least_frequent)
            scores.gains[slot] = ((kinds == MINIMAL) & (remaining == 0)).sum()
            scores.instances[slot] = len(rows)
            scores.frequent[slot] = ((kinds == FREQUENT) & lost).sum()
            scores.valid[slot] = not ((kinds == SAFE) & (remaining > 0) & bad).any()
        return scores

    def apply(self, pair: int, rows: Codes) -> Changes:
        state = self.state
        touched, tallies, mark_tallies = self._tally(pair, rows)
        places = self._places(pair, rows)
        bits = np.uint64(1) << (places % WORD).astype(np.uint64)
        state.dead[rows, places // WORD] |= bits
        state.support[pair] -= len(rows)
        before = state.counts[touched]
        remaining = before - tallies
        state.counts[touched] = remaining
        state.mark_counts[touched] -= mark_tallies
        minimal = state.kinds[touched] == MINIMAL
        lost = (remaining < state.least_frequent) & (before >= state.least_frequent)
        return Changes(
            touched[minimal & (remaining == 0)],
            touched[minimal & (remaining > 0)],
            touched[(state.kinds[touched] == FREQUENT) & lost],
        )

    def _places(self, pair: int, rows: Codes) -> Ints:
        """The place of the pair in each record."""
        state = self.state
        at = _ranges(state.offsets[rows], state.offsets[rows + 1])
        lengths = state.offsets[rows + 1] - state.offsets[rows]
        row_of = np.repeat(np.arange(len(rows)), lengths)
        places_found = np.flatnonzero(state.items[at] == pair)
        places: Ints = at[places_found] - state.offsets[rows][row_of[places_found]]
        return places

    def _tally(self, pair: int, rows: Codes) -> tuple[Codes, Ints, NDArray[np.int64]]:
        """Sequences with the pair, and in how many of the records, with which values, they are."""
        state = self.state
        starts, stops = state.entry_offsets[rows], state.entry_offsets[rows + 1]
        entries = _ranges(starts, stops)
        row_of = np.repeat(np.arange(len(rows)), stops - starts)
        places = self._places(pair, rows)[row_of]
        masks = state.entry_masks[entries]
        bits = np.uint64(1) << (places % WORD).astype(np.uint64)
        has = masks[np.arange(len(entries)), places // WORD] & bits != 0
        chosen = has & ~(masks & state.dead[rows][row_of]).any(axis=1)
        sequences = state.entry_sequences[entries[chosen]]
        touched, back, tallies = np.unique(sequences, return_inverse=True, return_counts=True)
        mark_tallies = np.zeros((len(touched), state.mark_counts.shape[1]), np.int64)
        classes = state.classes[rows][row_of[chosen]]
        first, last = state.class_offsets[classes], state.class_offsets[classes + 1]
        marks = state.class_marks[_ranges(first.astype(np.int64), last.astype(np.int64))]
        np.add.at(mark_tallies, (np.repeat(back, last - first), marks), 1)
        return touched, tallies, mark_tallies


def _ranges(starts: Ints, stops: Ints) -> Ints:
    """The numbers of all ranges starts[i]..stops[i], one after the other."""
    widths = stops - starts
    ends = np.cumsum(widths)
    total = int(ends[-1]) if len(ends) else 0
    result: Ints = np.arange(total) + np.repeat(starts - (ends - widths), widths)
    return result


# Spec: trajectory-kcl, sections 3.3, 3.5, 3.6 and 7. Operations are in a heap by score, gain over
# (loss + 1); ties: local before global, then the smaller pair, then the lexicographically smaller
# sequence. Scores grow stale; an operation that is taken from the heap is scored again against the
# current table, put back if its score fell, and dropped if it is no longer valid, until the records
# of its sequence change. Why the result satisfies the model: every violating sequence of the
# current table contains a live minimal violating one. It holds at the start; a local operation is
# valid, so it makes no new one; a global one deletes every sequence with the pair. When none lives,
# none violates.

Entry: TypeAlias = tuple[float, int, int, int, int]
"""(-score, 0 local or 1 global, pair, rank of the sequence, sequence); no sequence: -1."""

_LOCAL: Final = 0
_GLOBAL: Final = 1
_BATCH: Final = 256
_BEAT_S: Final = 0.1


@dataclass(frozen=True)
class Operation:
    """A suppression that was done: the pair, where, and how many instances went.

    `sequence`: whose records, for a local one; `score`: gain over (loss + 1).
    """

    kind: Literal["local", "global"]
    pair: int
    sequence: tuple[int, ...] | None
    instances: int
    score: float


@dataclass(eq=False)
class Greedy:
    """One run on an incidence, which it changes. `beat` is called with the progress, 0..1."""

    incidence: Incidence
    utility: Utility
    method: Method
    beat: Callable[[float], None] = lambda _share: None
    make_kernel: Callable[..., Kernel] = best_kernel
    operations: list[Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        incidence = self.incidence
        self.kernel = self.make_kernel(incidence.state, lambda: self.beat(0.0))
        self.heap: list[Entry] = []
        self.pairs = {m: incidence.pairs_of(m) for m in incidence.of_kind(MINIMAL)}
        by_order = sorted(self.pairs, key=lambda m: self.pairs[m])
        self.rank = {m: rank for rank, m in enumerate(by_order)}
        self.minimal_of: dict[int, set[int]] = defaultdict(set)
        for m, pairs in self.pairs.items():
            for pair in pairs:
                self.minimal_of[pair].add(m)
        self.frequent_of: dict[int, int] = defaultdict(int)
        for q in incidence.of_kind(FREQUENT):
            for pair in incidence.pairs_of(q):
                self.frequent_of[pair] += 1
        self._last = time.monotonic()

    def run(self) -> list[Operation]:
        """Suppress until no violating sequence is left; what was done, in order."""
        total = len(self.pairs)
        if self.method == "local":
            self._score_local((pair, m) for m, pairs in self.pairs.items() for pair in pairs)
        for pair in sorted(self.minimal_of):
            self._score_global(pair)
        remaining = total
        while remaining:
            score, kind, pair, _, m = heapq.heappop(self.heap)
            if kind == _LOCAL:
                best = self._local(pair, m) if m in self.minimal_of[pair] else None
            else:
                best = self._global(pair)
            if best is None:
                continue
            if -best > score:
                heapq.heappush(self.heap, (-best, kind, pair, self.rank.get(m, -1), m))
                continue
            remaining -= self._do(kind, pair, m, best)
            self._tell(0.5 + 0.5 * (1 - remaining / total))
        return self.operations

    # ------------------------------------------------------------------------------------- scoring

    def _score_local(self, asked: Iterable[tuple[int, int]]) -> None:
        """Put the valid ones of these local operations into the heap."""
        listed = list(asked)
        for start in range(0, len(listed), _BATCH):
            batch = listed[start : start + _BATCH]
            pairs, minimals = np.array(batch, np.int32).reshape(-1, 2).T
            scores = self.kernel.score(np.ascontiguousarray(pairs), np.ascontiguousarray(minimals))
            losses = scores.instances if self.utility == "instances" else scores.frequent
            worth = (scores.gains / (losses + 1)).tolist()
            for (pair, m), score, valid in zip(batch, worth, scores.valid.tolist(), strict=True):
                if valid:
                    heapq.heappush(self.heap, (-score, _LOCAL, pair, self.rank[m], m))
            if not self.operations:
                self._tell(0.5 * start / len(listed))

    def _local(self, pair: int, m: int) -> float | None:
        scores = self.kernel.score(np.array([pair], np.int32), np.array([m], np.int32))
        if not scores.valid[0]:
            return None
        loss = scores.instances[0] if self.utility == "instances" else scores.frequent[0]
        return float(scores.gains[0] / (loss + 1))

    def _score_global(self, pair: int) -> None:
        score = self._global(pair)
        if score is not None:
            heapq.heappush(self.heap, (-score, _GLOBAL, pair, -1, -1))

    def _global(self, pair: int) -> float | None:
        gain = len(self.minimal_of[pair])
        if not gain:
            return None
        if self.utility == "instances":
            return gain / (int(self.incidence.state.support[pair]) + 1)
        return gain / (self.frequent_of[pair] + 1)

    # --------------------------------------------------------------------------------------- doing

    def _do(self, kind: int, pair: int, m: int, score: float) -> int:
        """Do an operation; how many minimal violating sequences it removed."""
        state = self.incidence.state
        rows = self.kernel.rows(m) if kind == _LOCAL else self.incidence.rows_with(pair)
        changes = self.kernel.apply(pair, rows)
        self.operations.append(
            Operation(
                "local" if kind == _LOCAL else "global",
                pair,
                tuple(self.pairs[m]) if kind == _LOCAL else None,
                len(rows),
                score,
            )
        )
        for gone in changes.gone.tolist():
            for pair_named in self.pairs[gone]:
                self.minimal_of[pair_named].discard(gone)
        stale = set(changes.shrunk.tolist())
        touched = {pair} if state.support[pair] else set()
        for lost in changes.lost.tolist():
            for pair_named in self.incidence.pairs_of(lost):
                self.frequent_of[pair_named] -= 1
                touched.add(pair_named)
        again = {(pair, shrunk) for shrunk in stale for pair in self.pairs[shrunk]}
        if self.utility == "mfs":
            again |= {
                (pair_touched, other)
                for pair_touched in touched
                for other in self.minimal_of[pair_touched]
            }
        if self.method == "local":
            self._score_local(sorted(again))
        for pair_named in sorted(touched):
            self._score_global(pair_named)
        return len(changes.gone)

    def _tell(self, share: float) -> None:
        if time.monotonic() - self._last > _BEAT_S:
            self.beat(share)
            self._last = time.monotonic()
