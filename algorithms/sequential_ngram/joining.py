"""Synthetic sequences as a multiset, and fragments joined until there are as many as were counted.

Grams that are given out one by one keep every item's count and break sequences apart: of long
sequences over many items there would be many times too many. Fragments are put behind each other in
a random order, and cut where a noisy number of sequences of noisy lengths ends. Counts of items and
of the grams inside fragments stay; at a joint two items meet as if by chance. Post-processing.
Spec: sequential-ngram, section 3, step 9.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.sequential_ngram.grams import Grams
from algorithms.sequential_ngram.settings import MOST_SEQUENCES, TooManySequences
from tacit.encoders.counts import ranges
from tacit.randomness import NoiseSource

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Multiset:
    """items (total,): of distinct sequences, one after the other; starts (rows + 1,); counts
    (rows,): how often each is there. Sorted by length."""

    items: Ints
    starts: Ints
    counts: Ints

    @classmethod
    def of_copies(cls, grams: Grams, copies: Ints) -> Multiset:
        """The grams that are given out."""
        parts, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for length in range(1, grams.longest + 1):
            first, last = grams.bounds[length - 1 : length + 1]
            chosen = first + np.flatnonzero(copies[first:last])
            parts.append(grams.listed(chosen, length).ravel().astype(np.int64))
            lengths.append(np.full(chosen.size, length))
        starts = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
        return cls(np.concatenate(parts), starts, copies[copies > 0])

    @property
    def lengths(self) -> Ints:
        """Of each row."""
        return np.diff(self.starts)

    @property
    def sequences(self) -> int:
        """How many there are."""
        return int(self.counts.sum())

    def occurrences(self, items: int) -> Ints:
        """How often each item is there (items,)."""
        weights = np.repeat(self.counts, self.lengths)
        return np.bincount(self.items, weights, minlength=items).astype(np.int64)


def joined(fragments: Multiset, order_wanted: Ints, source: NoiseSource) -> Multiset:
    """As many sequences as `wanted` has entries, of about these lengths in proportion (n,): where
    there are more fragments. Raises TooManySequences."""
    if fragments.sequences > 10 * MOST_SEQUENCES:
        raise TooManySequences
    order = np.repeat(np.arange(fragments.counts.size), fragments.counts)
    if not 0 < order_wanted.size < order.size:
        return fragments
    order = order[np.argsort(source.words(order.size), kind="stable")]
    lengths = fragments.lengths[order]
    ends = np.cumsum(lengths)
    order_wanted = order_wanted[np.argsort(source.words(order_wanted.size), kind="stable")]
    targets = np.cumsum(order_wanted) * (float(ends[-1]) / float(order_wanted.sum()))
    last = np.zeros(order.size, np.bool_)
    last[np.minimum(np.searchsorted(ends, targets - 0.5), order.size - 1)] = True
    last[-1] = True
    others = np.flatnonzero(~last)  # short targets may end in one long fragment
    missing = order_wanted.size - int(last.sum())
    last[others[np.argsort(source.words(others.size), kind="stable")[: max(missing, 0)]]] = True
    items = fragments.items[ranges(fragments.starts[order], lengths)]
    return _merged(items, np.concatenate(([0], ends[last])))


def _merged(items: Ints, starts: Ints) -> Multiset:
    """Equal sequences once."""
    lengths = np.diff(starts)
    parts, sizes, counts = [], [], []
    for length in np.unique(lengths).tolist():
        rows = starts[:-1][lengths == length]
        distinct, often = np.unique(
            items[rows[:, None] + np.arange(length)], axis=0, return_counts=True
        )
        parts.append(distinct.ravel())
        sizes.append(np.full(len(distinct), length))
        counts.append(often)
    return Multiset(
        np.concatenate(parts),
        np.concatenate(([0], np.cumsum(np.concatenate(sizes)))),
        np.concatenate(counts).astype(np.int64),
    )
