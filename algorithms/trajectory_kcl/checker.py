"""The independent check: does a published table satisfy (K,C)_L?

Spec: trajectory-kcl, section 3.8. All subsets of at most L pairs of every path are enumerated,
grouped and counted. No code is shared with the mining or the suppression; equal paths are taken
together first, with the number of their records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice
from typing import Final

import numpy as np

from algorithms.datasets.trajectories import Codes, Ints
from algorithms.trajectory_kcl.parameters import Flags, Model, PairTable, TooManySequences

EXAMPLES: Final = 100
MOST_SUBSETS: Final = 2 * 10**9
MOST_GROUPS: Final = 3 * 10**7
"""Different sequences of one length, about 40 bytes each."""
_CHUNK: Final = 1 << 20
_MERGE: Final = 1 << 23
_WIDEST: Final = 1 << 62


@dataclass(frozen=True)
class Violation:
    """A sequence of a published table that breaks the model: its pairs and its records."""

    pairs: tuple[int, ...]
    records: int


@dataclass(frozen=True)
class Verdict:
    """The outcome of the check. `length`: the longest sequences that were checked; `smallest`
    group and largest `confidence` are None if no sequence (no listed value) occurs."""

    length: int
    sequences: int
    violating: int
    examples: tuple[Violation, ...]
    smallest: int | None
    confidence: Fraction | None

    @property
    def holds(self) -> bool:
        """Whether the table satisfies the model."""
        return self.violating == 0


def check(table: PairTable, model: Model, beat: Callable[[], None] = lambda: None) -> Verdict:
    """Count the violating sequences. Raises TooManySequences. `beat` is called between steps."""
    lengths = table.lengths
    longest = int(lengths.max(initial=0))
    depth = longest if model.length is None else min(model.length, longest)
    paths = []
    for length in np.unique(lengths[lengths > 0]).tolist():
        beat()
        paths.append(_distinct(table, length))
    subsets = sum(len(items) * model.sequences(items.shape[1], MOST_SUBSETS) for items, _ in paths)
    if subsets > MOST_SUBSETS:
        raise TooManySequences(f"the paths have more than {MOST_SUBSETS} of at most L pairs")
    sequences = violating = 0
    examples: list[Violation] = []
    smallest: int | None = None
    highest: Fraction | None = None
    for size in range(1, depth + 1):
        items, counts = _groups(paths, size, table.pairs, beat)
        if not len(items):
            break
        sequences += len(items)
        bad = np.flatnonzero(_breaks(counts, model))
        violating += len(bad)
        examples += [
            Violation(tuple(items[place].tolist()), int(counts[place, 0]))
            for place in bad[: EXAMPLES - len(examples)]
        ]
        least = int(counts[:, 0].min())
        smallest = least if smallest is None else min(smallest, least)
        shares = counts[:, 1:] / counts[:, :1]
        if shares.size:
            row, column = np.unravel_index(int(shares.argmax()), shares.shape)
            share = Fraction(int(counts[row, column + 1]), int(counts[row, 0]))
            highest = share if highest is None else max(highest, share)
    return Verdict(depth, sequences, violating, tuple(examples), smallest, highest)


def _breaks(counts: Ints, model: Model) -> Flags:
    """Which groups (m, 1 + s) break the model: records, then records with each value."""
    wide_counts: Ints | np.ndarray[tuple[int, int], np.dtype[np.object_]] = counts
    if model.confidence.denominator > 1 << 32:
        wide_counts = counts.astype(object)
    over = (
        wide_counts[:, 1:] * model.confidence.denominator
        > model.confidence.numerator * wide_counts[:, :1]
    )
    broken: Flags = (counts[:, 0] < model.least) | over.astype(bool).any(axis=1)
    return broken


def _distinct(table: PairTable, length: int) -> tuple[Codes, Ints]:
    """Different paths (u, length) of this length, and their counts (u, 1 + s)."""
    rows = np.flatnonzero(table.lengths == length)
    items = table.items[table.offsets[rows][:, None] + np.arange(length)]
    paths, back = np.unique(items, axis=0, return_inverse=True)
    own = np.column_stack((np.ones(len(rows), np.int64), table.marks[rows]))
    counts = np.column_stack(
        [np.bincount(back.reshape(-1), column, len(paths)) for column in own.T]
    )
    return paths, counts.astype(np.int64)


def _groups(
    paths: list[tuple[Codes, Ints]], size: int, pairs: int, beat: Callable[[], None]
) -> tuple[Codes, Ints]:
    """All different subsets (m, size) of this size, and their counts (m, 1 + s)."""
    gathered: list[tuple[Codes, Ints]] = []
    waiting = 0
    for items, counts in paths:
        for places in _choices(items.shape[1], size):
            step = max(_CHUNK // len(places), 1)
            for start in range(0, len(items), step):
                beat()
                chosen = items[start : start + step][:, places].reshape(-1, size)
                tiled = np.repeat(counts[start : start + step], len(places), axis=0)
                gathered.append(_added(chosen, tiled, pairs))
                waiting += len(gathered[-1][0])
                if waiting > _MERGE:
                    gathered = [_all(gathered, pairs)]
                    waiting = 0
                    if len(gathered[0][0]) > MOST_GROUPS:
                        raise TooManySequences(f"more than {MOST_GROUPS} of {size} pairs differ")
    if not gathered:
        return np.zeros((0, size), np.int32), np.zeros((0, 1), np.int64)
    return _all(gathered, pairs)


def _choices(length: int, size: int) -> Iterator[Ints]:
    """All choices of places, in batches."""
    every = combinations(range(length), size)
    while some := list(islice(every, _CHUNK)):
        yield np.array(some, np.int64)


def _all(parts: list[tuple[Codes, Ints]], pairs: int) -> tuple[Codes, Ints]:
    items = np.concatenate([items_of_part for items_of_part, _ in parts])
    return _added(items, np.concatenate([counts for _, counts in parts]), pairs)


def _added(items: Codes, counts: Ints, pairs: int) -> tuple[Codes, Ints]:
    """Equal rows of items together, their counts added."""
    if pairs ** items.shape[1] < _WIDEST:
        keys = np.zeros(len(items), np.int64)
        for column in items.T:
            keys *= pairs
            keys += column
        order = np.argsort(keys, kind="stable")
        changes = np.flatnonzero(np.diff(keys[order])) + 1
    else:
        order = np.lexsort(items.T[::-1])
        changes = np.flatnonzero((np.diff(items[order], axis=0) != 0).any(axis=1)) + 1
    first = np.concatenate((np.zeros(1, np.int64), changes))
    return items[order[first]], np.add.reduceat(counts[order], first, axis=0)
