"""What a suppression gains, loses, and whether it is valid; and doing it.

Spec: trajectory-kcl, sections 3.3, 3.4 (the correct test) and 7. Suppressing pair p in the records
R of a minimal violating sequence m takes |R and T(q)| records from each tracked q with p. It

- gains the minimal violating sequences that have no records left;
- is valid if every q that did not violate has no records left, or still does not violate;
- loses |R| instances, and the maximal frequent sequences whose support falls below K'.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.trajectories import Codes, Ints
from algorithms.trajectory_kcl.incidence import FREQUENT, MINIMAL, SAFE, State
from algorithms.trajectory_kcl.kernel import Changes, Kernel, Scores
from algorithms.trajectory_kcl.mining import WORD

WORTH_COMPILING: Final = 300_000
"""Entries (record, sequence) from which on the compiled kernel is used."""


def best_kernel(state: State, beat: Callable[[], None] = lambda: None) -> Kernel:
    """The compiled one for large tables where numba is installed: compiling takes seconds."""
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
        found: Codes = rows[~blocked.any(axis=1)]
        return found

    def score(self, pairs: Codes, minimals: Codes) -> Scores:
        scores = Scores(
            np.zeros(len(pairs), np.int64),
            np.zeros(len(pairs), np.int64),
            np.zeros(len(pairs), np.int64),
            np.ones(len(pairs), bool),
        )
        state = self.state
        for asked, (pair, minimal) in enumerate(
            zip(pairs.tolist(), minimals.tolist(), strict=True)
        ):
            rows = self.rows(minimal)
            touched, tallies, mark_tallies = self._tally(pair, rows)
            kinds, before = state.kinds[touched], state.counts[touched]
            left = before - tallies
            shares = state.mark_counts[touched] - mark_tallies
            bad = (left < state.least) | (shares > state.most[left][:, None]).any(axis=1)
            lost = (left < state.least_frequent) & (before >= state.least_frequent)
            scores.gains[asked] = ((kinds == MINIMAL) & (left == 0)).sum()
            scores.instances[asked] = len(rows)
            scores.frequent[asked] = ((kinds == FREQUENT) & lost).sum()
            scores.valid[asked] = not ((kinds == SAFE) & (left > 0) & bad).any()
        return scores

    def apply(self, pair: int, rows: Codes) -> Changes:
        state = self.state
        touched, tallies, mark_tallies = self._tally(pair, rows)
        places = self._places(pair, rows)
        bits = np.uint64(1) << (places % WORD).astype(np.uint64)
        state.dead[rows, places // WORD] |= bits
        state.support[pair] -= len(rows)
        before = state.counts[touched]
        left = before - tallies
        state.counts[touched] = left
        state.mark_counts[touched] -= mark_tallies
        minimal = state.kinds[touched] == MINIMAL
        lost = (left < state.least_frequent) & (before >= state.least_frequent)
        return Changes(
            touched[minimal & (left == 0)],
            touched[minimal & (left > 0)],
            touched[(state.kinds[touched] == FREQUENT) & lost],
        )

    def _places(self, pair: int, rows: Codes) -> Ints:
        """The place of the pair in each record."""
        state = self.state
        at = _ranges(state.offsets[rows], state.offsets[rows + 1])
        lengths = state.offsets[rows + 1] - state.offsets[rows]
        own = np.repeat(np.arange(len(rows)), lengths)
        found = np.flatnonzero(state.items[at] == pair)
        places: Ints = at[found] - state.offsets[rows][own[found]]
        return places

    def _tally(self, pair: int, rows: Codes) -> tuple[Codes, Ints, NDArray[np.int64]]:
        """Sequences with the pair, and in how many of the records, with which values, they are."""
        state = self.state
        starts, stops = state.entry_offsets[rows], state.entry_offsets[rows + 1]
        entries = _ranges(starts, stops)
        own = np.repeat(np.arange(len(rows)), stops - starts)
        places = self._places(pair, rows)[own]
        masks = state.entry_masks[entries]
        bits = np.uint64(1) << (places % WORD).astype(np.uint64)
        has = masks[np.arange(len(entries)), places // WORD] & bits != 0
        chosen = has & ~(masks & state.dead[rows][own]).any(axis=1)
        sequences = state.entry_sequences[entries[chosen]]
        touched, back, tallies = np.unique(sequences, return_inverse=True, return_counts=True)
        mark_tallies = np.zeros((len(touched), state.mark_counts.shape[1]), np.int64)
        classes = state.classes[rows][own[chosen]]
        first, last = state.class_offsets[classes], state.class_offsets[classes + 1]
        marks = state.class_marks[_ranges(first.astype(np.int64), last.astype(np.int64))]
        np.add.at(mark_tallies, (np.repeat(back, last - first), marks), 1)
        return touched, tallies, mark_tallies


def _ranges(starts: Ints, stops: Ints) -> Ints:
    """The numbers of all ranges starts[i]..stops[i], one after the other."""
    widths = stops - starts
    ends = np.cumsum(widths)
    total = int(ends[-1]) if len(ends) else 0
    found: Ints = np.arange(total) + np.repeat(starts - (ends - widths), widths)
    return found
