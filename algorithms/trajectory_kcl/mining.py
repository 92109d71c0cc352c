"""Minimal violating sequences, level by level: Algorithm 5.1 with its pruning repaired (B1).

Also maximal frequent sequences, by depth-first search over sets of records as bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.datasets.trajectories import Codes, Ints
from algorithms.trajectory_kcl.parameters import Flags, Model, PairTable, TooManySequences

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
            shared = [item for item, records_of in tail if records_of.bit_count() == size]
            if shared:
                head = (*head, *shared)
                tail = [entry for entry in tail if entry[0] not in set(shared)]
        if self._known({*head, *(item for item, _ in tail)}):
            return
        closure = bits
        for _, records_of in tail:
            closure &= records_of
            if closure.bit_count() < self.least:
                break
        else:
            self._add((*head, *(item for item, _ in tail)), closure)
            return
        tail = sorted(tail, key=lambda entry: (entry[1].bit_count(), entry[0]))
        for place, (item, records_of) in enumerate(tail):
            further = [
                (other, both)
                for other, bits_of in tail[place + 1 :]
                if (both := records_of & bits_of).bit_count() >= self.least
            ]
            self.grow((*head, item), records_of, records_of.bit_count(), further)

    def _known(self, items: set[int]) -> bool:
        """Whether a found set contains all of these."""
        if not items:
            return False
        lists = [self.having.get(item, []) for item in items]
        return any(items <= listed for listed in min(lists, key=len))

    def _add(self, items: tuple[int, ...], bits: int) -> None:
        if not items:
            return
        self.found[tuple(sorted(items))] = bits
        itemset = frozenset(items)
        for item in items:
            self.having.setdefault(item, []).append(itemset)


# Spec: trajectory-kcl, sections 3.1, 3.2 and 7. A sequence of i + 1 pairs is a candidate in a
# record if all its parts of i pairs are there and do not violate. The record's sequences of level i
# are in lexicographic order, so candidates are two of them with one prefix; a candidate's key is
# (number of its prefix, last pair). Blocks of records are counted separately, on several workers
# where available, and their tables of (key, class, count) are merged.

Words = NDArray[np.uint64]

MOST_EMITTED: Final = 2 * 10**9
MOST_HELD: Final = 3 << 29
"""Bytes of the entries (record, sequence) that are kept: half of what a job may take, with room for
the indexes that are made of them."""
ENTRY: Final = 60
"""Bytes of an entry at the peak, besides its mask: 8 for every 64 pairs of the longest path."""
MOST_VIOLATING: Final = 2 * 10**7
BLOCK_SEQUENCES: Final = 2_000_000
BLOCK_RECORDS: Final = 65_536
MERGED_BLOCKS: Final = 32
WORD: Final = 64


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Where the sequences of one level occur in a block: one entry for each (record, sequence).

    rows, sequences (entries,): the record, and the number of the sequence in its level; in that
    order. masks (entries, words): the places of its pairs in the record, one bit each. classes:
    of the record.
    """

    rows: Codes
    sequences: Codes
    masks: Words
    classes: Codes

    def of(self, chosen: Flags) -> Occurrences:
        """The chosen entries."""
        return Occurrences(
            self.rows[chosen], self.sequences[chosen], self.masks[chosen], self.classes[chosen]
        )


@dataclass(frozen=True, eq=False)
class Level:
    """Sequences of one length that occur, none of whose proper parts violates.

    keys (m,), ascending: number of the prefix in the level below, times d, plus the last pair.
    items (m, length), in lexicographic order; counts (m,) records; mark_counts (m, s) records with
    each sensitive value; violating (m,): these are minimal violating sequences.
    """

    keys: Ints
    items: Codes
    counts: Ints
    mark_counts: Ints
    violating: Flags


@dataclass(frozen=True, eq=False)
class Mined:
    """All levels, and where their sequences occur: occurrences[level][block]."""

    levels: tuple[Level, ...]
    occurrences: tuple[tuple[Occurrences, ...], ...]

    @property
    def minimal(self) -> list[tuple[int, ...]]:
        """V(T): the minimal violating sequences, by length, then lexicographically."""
        return [
            tuple(each) for level in self.levels for each in level.items[level.violating].tolist()
        ]


def violates(counts: Ints, mark_counts: Ints, least: int, most: Ints) -> Flags:
    """Which groups of counts (m,) and mark_counts (m, s) break the model; `most` by group size."""
    result: Flags = (counts < least) | (mark_counts > most[counts][:, None]).any(axis=1)
    return result


def mine(table: PairTable, model: Model, context: Context, until: float = 1.0) -> Mined:
    """V(T) and the sequences that do not violate. Raises TooManySequences.

    `until`: the share of the job's progress that mining ends with.
    """
    longest = model.longest(int(table.lengths.max(initial=0)))
    most = model.most(table.records)
    levels: list[Level] = []
    places: list[tuple[Occurrences, ...]] = []
    blocks = _instances(table, model)
    emitted = violating = entries = 0
    for length in range(1, longest + 1):
        report_progress = partial(
            _told, context, until * (length - 1) / longest, f"sequences of {length}"
        )
        join = None if length == 1 else _Join(levels[-1].keys, length, table.pairs)
        if join is not None:
            sizes = [join.size(block) for block in blocks]
            emitted += sum(sizes)
            if emitted > MOST_EMITTED:
                raise TooManySequences(f"more than {MOST_EMITTED} would be compared")
            _fit(max(sizes, default=0), ENTRY)
        count = partial(_count, join, len(table.class_marks))
        parts: list[tuple[Ints, Ints]] = []
        for start in range(0, len(blocks), MERGED_BLOCKS):
            some = blocks[start : start + MERGED_BLOCKS]
            parts = [_added([*parts, *context.map_blocks(count, report_progress(some))])]
            _fit(len(parts[0][0]), ENTRY)
        level = _judged(*_by_class(parts, len(table.class_marks)), levels, table, model, most)
        if not level.keys.size:
            break
        violating += int(level.violating.sum())
        entries += int(level.counts.sum())
        if violating > MOST_VIOLATING:
            raise TooManySequences(f"more than {MOST_VIOLATING} violate")
        _fit(entries, ENTRY + _mask_bytes(table))
        number = partial(_number, join, level.keys)
        numbered = tuple(context.map_blocks(number, report_progress(blocks)))
        levels.append(level)
        places.append(numbered)
        blocks = [block.of(~level.violating[block.sequences]) for block in numbered]
    return Mined(tuple(levels), tuple(places))


def check_size(table: PairTable, model: Model) -> None:
    """Refuse data whose sequences cannot be enumerated, by the lengths of the paths alone.
    Raises TooManySequences."""
    lengths, paths = np.unique(table.lengths, return_counts=True)
    most = MOST_EMITTED
    estimate = sum(
        count * model.sequences(length, most)
        for length, count in zip(lengths.tolist(), paths.tolist(), strict=True)
    )
    if estimate > most:
        raise TooManySequences(f"the paths have more than {most} of at most L pairs")
    _fit(len(table.items), ENTRY + _mask_bytes(table))


def _mask_bytes(table: PairTable) -> int:
    return _words(table) * WORD // 8


def _words(table: PairTable) -> int:
    """Words of a mask: a bit for each pair of the longest path."""
    return max(-(-int(table.lengths.max(initial=0)) // WORD), 1)


def _fit(entries: int, size: int) -> None:
    if entries * size > MOST_HELD:
        raise TooManySequences(f"they would take more than {MOST_HELD} bytes")


def _told(
    context: Context, share: float, stage: str, blocks: Iterable[Occurrences]
) -> Iterator[Occurrences]:
    for block in blocks:
        context.progress(share, stage)
        yield block


def _instances(table: PairTable, model: Model) -> list[Occurrences]:
    """Every instance as a sequence of one pair, in blocks of bounded work."""
    longest = int(table.lengths.max(initial=0))
    cost = [
        min(model.sequences(length, BLOCK_SEQUENCES), BLOCK_SEQUENCES)
        for length in range(longest + 1)
    ]
    work = np.cumsum(np.array(cost, np.int64)[table.lengths] + BLOCK_SEQUENCES // BLOCK_RECORDS)
    blocks = (work - 1) // BLOCK_SEQUENCES
    cuts = [*np.unique(blocks, return_index=True)[1].tolist(), table.records]
    words = _words(table)
    result = []
    for start, stop in pairwise(cuts):
        low, high = int(table.offsets[start]), int(table.offsets[stop])
        rows = table.rows[low:high]
        place = np.arange(low, high) - table.offsets[:-1][rows]
        masks = np.zeros((high - low, words), np.uint64)
        bits = np.uint64(1) << (place % WORD).astype(np.uint64)
        masks[np.arange(high - low), place // WORD] = bits
        result.append(Occurrences(rows, table.items[low:high], masks, table.classes[rows]))
    return result


# -------------------------------------------------------------------------------------- one block


@dataclass(frozen=True, eq=False)
class _Join:
    """Pairs of entries of one record whose sequences share a prefix; `keys` of their level."""

    keys: Ints
    length: int
    pairs: int

    def _partners(self, block: Occurrences) -> Ints:
        """For each entry, how many entries of its group come after it."""
        size = len(block.rows)
        changes = np.ones(size + 1, bool)
        changes[1:-1] = block.rows[1:] != block.rows[:-1]
        if self.length > 2:  # sequences of one pair have the same, empty prefix
            prefixes = (self.keys // self.pairs)[block.sequences]
            changes[1:-1] |= prefixes[1:] != prefixes[:-1]
        cuts = np.flatnonzero(changes)
        ends = np.repeat(cuts[1:], np.diff(cuts))
        partners: Ints = ends - np.arange(size) - 1
        return partners

    def size(self, block: Occurrences) -> int:
        """How many candidates the block has."""
        return int(self._partners(block).sum())

    def candidates(self, block: Occurrences) -> tuple[Ints, Ints, Ints]:
        """The entries that are joined, left and right, and the keys of the results."""
        partners = self._partners(block)
        lefts = np.repeat(np.arange(len(partners)), partners)
        before = np.cumsum(partners) - partners
        right = np.arange(len(lefts)) - before[lefts] + lefts + 1
        last = (self.keys % self.pairs)[block.sequences]
        keys = block.sequences[lefts].astype(np.int64) * self.pairs + last[right]
        return lefts, right, keys


def _count(join: _Join | None, classes: int, block: Occurrences) -> tuple[Ints, Ints]:
    """Different (key, class) of the block's candidates as one number each, and how many."""
    if join is None:
        keys, of = block.sequences.astype(np.int64), block.classes
    else:
        lefts, _, keys = join.candidates(block)
        of = block.classes[lefts]
    keys *= classes
    keys += of
    return _tally(np.sort(keys), None)


def _number(join: _Join | None, keys: Ints, block: Occurrences) -> Occurrences:
    """The block's entries of the level with these keys."""
    if join is None:
        numbers = np.searchsorted(keys, block.sequences).astype(np.int32)
        return Occurrences(block.rows, numbers, block.masks, block.classes)
    lefts, right, keys_of_pairs = join.candidates(block)
    numbers = np.minimum(np.searchsorted(keys, keys_of_pairs), len(keys) - 1)
    valid = np.flatnonzero(keys[numbers] == keys_of_pairs)
    lefts, right = lefts[valid], right[valid]
    return Occurrences(
        block.rows[lefts],
        numbers[valid].astype(np.int32),
        block.masks[lefts] | block.masks[right],
        block.classes[lefts],
    )


# ----------------------------------------------------------------------------------------- merging


def _tally(sorted_keys: Ints, counts: Ints | None) -> tuple[Ints, Ints]:
    """Different keys of an ascending array, and the number (or the sum of counts) of each."""
    starts = np.ones(len(sorted_keys), bool)
    starts[1:] = sorted_keys[1:] != sorted_keys[:-1]
    first = np.flatnonzero(starts)
    if counts is None:
        totals = np.diff(np.append(first, len(sorted_keys)))
    else:
        totals = np.add.reduceat(counts, first) if len(first) else counts
    return sorted_keys[first], totals


def _added(parts: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Different keys of all parts, ascending, and the sums of their counts."""
    combined = np.concatenate([keys for keys, _ in parts])
    order = np.argsort(combined, kind="stable")
    return _tally(combined[order], np.concatenate([tallied for _, tallied in parts])[order])


def _by_class(parts: Sequence[tuple[Ints, Ints]], classes: int) -> tuple[Ints, Ints]:
    """Keys (m,), and how many records of each class they have (m, classes)."""
    if not parts:
        return np.zeros(0, np.int64), np.zeros((0, classes), np.int64)
    ((combined, counts),) = parts
    keys, places = np.unique(combined // classes, return_inverse=True)
    per_class = np.zeros((len(keys), classes), np.int64)
    per_class[places, combined % classes] = counts
    return keys, per_class


def _judged(
    keys: Ints,
    per_class: Ints,
    below: Sequence[Level],
    table: PairTable,
    model: Model,
    most: Ints,
) -> Level:
    """The level of these candidates, without those that have a violating part (all parts, B1)."""
    if below:
        items = np.column_stack((below[-1].items[keys // table.pairs], keys % table.pairs))
        minimal = np.ones(len(keys), bool)
        for dropped in range(items.shape[1] - 2):  # without its last or last but one: joined
            part = np.delete(items, dropped, axis=1)
            numbers = numbers_of(below, part, table.pairs)
            minimal &= (numbers >= 0) & ~below[-1].violating[numbers]
        keys, per_class, items = keys[minimal], per_class[minimal], items[minimal]
    else:
        items = keys[:, None]
    counts = per_class.sum(axis=1)
    mark_counts = per_class @ table.class_marks.astype(np.int64)
    bad = violates(counts, mark_counts, model.least, most)
    return Level(keys, items.astype(np.int32), counts, mark_counts, bad)


def numbers_of(levels: Sequence[Level], items: NDArray[np.integer], pairs: int) -> Ints:
    """The numbers of sequences (m, length) in their level; -1 if the level does not have them."""
    number_of = np.zeros(len(items), np.int64)
    is_known = np.ones(len(items), bool)
    for level, last in zip(levels, items.T, strict=False):
        keys = number_of * pairs + last
        number_of = np.minimum(np.searchsorted(level.keys, keys), len(level.keys) - 1)
        is_known &= level.keys[number_of] == keys
    return np.where(is_known, number_of, -1)
