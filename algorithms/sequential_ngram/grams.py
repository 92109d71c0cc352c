"""Released grams as one table: all lengths, sorted by length and then by their items, so that the
continuations of a gram are adjacent.

Spec: sequential-ngram, section 3, steps 6 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Places = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Grams:
    """G grams; parents, items, links, counts (G,).

    bounds: where each length begins, and G (bounds[n - 1]: length n); parents: the gram without
    its last item; links: the longest proper suffix in the table (-1: the empty gram, both);
    counts: at least 1; measured (G,): whether the count reached its threshold; beyond_noise
    (G,): whether noise alone reaches it in at most 1 of 20 releases. From `extended` on (a
    length) grams are estimated by the Markov assumption.
    """

    bounds: tuple[int, ...]
    parents: Places
    items: Places
    links: Places
    counts: Ints
    measured: NDArray[np.bool_]
    beyond_noise: NDArray[np.bool_]
    extended: int

    @property
    def size(self) -> int:
        """The number of grams."""
        return self.items.size

    @property
    def longest(self) -> int:
        """The length of the longest gram."""
        return len(self.bounds) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each gram (G,)."""
        return np.repeat(np.arange(1, len(self.bounds)), np.diff(self.bounds))

    def listed(self, grams: NDArray[np.integer], length: int) -> Places:
        """Items of these grams of one length (grams, length)."""
        result = np.empty((grams.size, length), np.int32)
        for place in range(length - 1, -1, -1):
            result[:, place] = self.items[grams]
            grams = self.parents[grams]
        return result

    @classmethod
    def of(cls, counts: Mapping[tuple[int, ...], int]) -> Grams:
        """A small table, which must include every gram's beginnings. Raises KeyError."""
        ordered = sorted(counts, key=lambda gram: (len(gram), gram))
        places: dict[tuple[int, ...], int] = {gram: place for place, gram in enumerate(ordered)}
        places[()] = -1

        def suffix(gram: tuple[int, ...]) -> int:
            return next(
                places[gram[cut:]] for cut in range(1, len(gram) + 1) if gram[cut:] in places
            )

        lengths = [len(gram) for gram in ordered]
        longest = max(lengths, default=0)
        return cls(
            tuple(np.searchsorted(lengths, range(1, longest + 2)).tolist()) if lengths else (0,),
            np.array([places[gram[:-1]] for gram in ordered], np.int32),
            np.array([gram[-1] for gram in ordered], np.int32),
            np.array([suffix(gram) for gram in ordered], np.int32),
            np.array([counts[gram] for gram in ordered], np.int64),
            np.ones(len(ordered), bool),
            np.ones(len(ordered), bool),
            longest + 1,
        )
