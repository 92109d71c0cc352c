"""The compiled kernel of suppression; needs numba, and is imported only where that is installed.

It does the same operations as `suppression.PlainKernel`. Of a local one that is not valid only that
counts: its tally ends at the first sequence that would keep too few records.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np

from algorithms.datasets.trajectories import Codes
from algorithms.trajectory_kcl.suppression import FREQUENT, MINIMAL, SAFE, Changes, Scores, State

_jit = numba.njit(cache=False)


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _tally(state, pair, row, tallies, mark_tallies, touched, size, most):  # type: ignore[no-untyped-def]
    """Count the live entries of a record that contain the pair; its place in the record.

    Ends, and says so, at a sequence that would keep too few records. most: that can be tallied in
    all; one that is in more of them is not removed.
    """
    place = 0
    while state.items[state.offsets[row] + place] != pair:
        place += 1
    word, bit = place // 64, np.uint64(1) << np.uint64(place % 64)
    words = state.dead.shape[1]
    class_ = state.classes[row]
    first, last = state.class_offsets[class_], state.class_offsets[class_ + 1]
    for entry in range(state.entry_offsets[row], state.entry_offsets[row + 1]):
        if not state.entry_masks[entry, word] & bit:
            continue
        live = True
        for each in range(words):
            if state.entry_masks[entry, each] & state.dead[row, each]:
                live = False
        if not live:
            continue
        sequence = state.entry_sequences[entry]
        if tallies[sequence] == 0:
            touched[size] = sequence
            size += 1
        tallies[sequence] += 1
        for at in range(first, last):
            mark_tallies[sequence, state.class_marks[at]] += 1
        before = state.counts[sequence]
        if (
            before > most
            and before - tallies[sequence] < state.least
            and state.kinds[sequence] == SAFE
        ):
            return place, size, True
    return place, size, False


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _rows(state, minimal, out):  # type: ignore[no-untyped-def]
    """The records that still have a minimal violating sequence."""
    size = 0
    for at in range(state.where_offsets[minimal], state.where_offsets[minimal + 1]):
        row, entry = state.where_rows[at], state.where_entries[at]
        live = True
        for word in range(state.dead.shape[1]):
            if state.entry_masks[entry, word] & state.dead[row, word]:
                live = False
        if live:
            out[size] = row
            size += 1
    return size


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _score(state, pairs, minimals, tallies, mark_tallies, touched, rows):  # type: ignore[no-untyped-def]
    gains = np.zeros(len(pairs), np.int64)
    instances = np.zeros(len(pairs), np.int64)
    frequent = np.zeros(len(pairs), np.int64)
    valid = np.ones(len(pairs), np.bool_)
    for place_asked in range(len(pairs)):
        count = _rows(state, minimals[place_asked], rows)
        instances[place_asked] = count
        size = 0
        for at in range(count):
            _, size, spoilt = _tally(
                state, pairs[place_asked], rows[at], tallies, mark_tallies, touched, size, count
            )
            if spoilt:
                valid[place_asked] = False
                break
        for at in range(size):
            q = touched[at]
            remaining = state.counts[q] - tallies[q]
            if state.kinds[q] == MINIMAL:
                gains[place_asked] += remaining == 0
            elif state.kinds[q] == FREQUENT:
                frequent[place_asked] += remaining < state.least_frequent <= state.counts[q]
            elif remaining:
                if remaining < state.least:
                    valid[place_asked] = False
                for mark in range(state.mark_counts.shape[1]):
                    if state.mark_counts[q, mark] - mark_tallies[q, mark] > state.most[remaining]:
                        valid[place_asked] = False
            tallies[q] = 0
            for mark in range(state.mark_counts.shape[1]):
                mark_tallies[q, mark] = 0
    return gains, instances, frequent, valid


@_jit  # type: ignore[untyped-decorator, unused-ignore]
def _apply(state, pair, chosen, tallies, mark_tallies, touched):  # type: ignore[no-untyped-def]
    size = 0
    for row in chosen:
        place, size, _ = _tally(
            state, pair, row, tallies, mark_tallies, touched, size, len(state.offsets)
        )
        state.dead[row, place // 64] |= np.uint64(1) << np.uint64(place % 64)
    state.support[pair] -= len(chosen)
    gone = np.empty(size, np.int32)
    shrunk = np.empty(size, np.int32)
    lost = np.empty(size, np.int32)
    numbers = np.zeros(3, np.int64)
    for at in range(size):
        q = touched[at]
        before = state.counts[q]
        state.counts[q] -= tallies[q]
        for mark in range(state.mark_counts.shape[1]):
            state.mark_counts[q, mark] -= mark_tallies[q, mark]
            mark_tallies[q, mark] = 0
        remaining = state.counts[q]
        if state.kinds[q] == MINIMAL:
            if remaining == 0:
                gone[numbers[0]] = q
                numbers[0] += 1
            else:
                shrunk[numbers[1]] = q
                numbers[1] += 1
        elif state.kinds[q] == FREQUENT and remaining < state.least_frequent <= before:
            lost[numbers[2]] = q
            numbers[2] += 1
        tallies[q] = 0
    return gone[: numbers[0]], shrunk[: numbers[1]], lost[: numbers[2]]


class CompiledKernel:
    """Scores and operations on a state, with scratch space of its own. The first one of a
    process compiles; `beat` is called before each function, about every second."""

    def __init__(self, state: State, beat: Callable[[], None] = lambda: None) -> None:
        sequences, marks = state.mark_counts.shape
        self.state = state
        self._scratch = (
            np.zeros(sequences, np.int64),
            np.zeros((sequences, marks), np.int64),
            np.zeros(sequences, np.int32),
        )
        self._found = np.zeros(len(state.offsets), np.int32)
        nothing = np.zeros(0, np.int32)
        beat()
        self.score(nothing, nothing)
        if len(state.support):
            beat()
            self.apply(0, nothing)
        beat()

    def rows(self, minimal: int) -> Codes:
        """The records that still have a minimal violating sequence."""
        size = _rows(self.state, minimal, self._found)
        return self._found[:size].copy()

    def score(self, pairs: Codes, minimals: Codes) -> Scores:
        """Local operations: each pair in the records of its minimal violating sequence."""
        return Scores(*_score(self.state, pairs, minimals, *self._scratch, self._found))

    def apply(self, pair: int, rows: Codes) -> Changes:
        """Suppress a pair in these records, all of which have it."""
        return Changes(
            *(np.sort(numbers) for numbers in _apply(self.state, pair, rows, *self._scratch))
        )
