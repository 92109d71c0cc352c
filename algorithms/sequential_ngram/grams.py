"""The released grams with whole counts, and longer ones by a Markov assumption.

Spec: sequential-ngram, section 3, steps 6 and 7. Grams of all lengths are in one table, sorted by
length and then by their items, so that the continuations of a gram are adjacent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.sequential_ngram.problems import TreeTooLarge
from algorithms.sequential_ngram.tree import Tree

Ints = NDArray[np.int64]
Places = NDArray[np.int32]

_ROUNDING: Final = 1e-6
"""A consistent count this close below a whole number is that number."""


@dataclass(frozen=True, eq=False)
class Grams:
    """G grams; parents, items, links, counts (G,).

    bounds: where each length begins, and G (bounds[n - 1]: length n); parents: the gram without its
    last item; links: the longest proper suffix that is in the table (-1: the empty gram, both);
    counts: at least 1; measured (G,): whether the count reached its threshold. From `extended` on
    (a length) grams are estimated by the Markov assumption.
    """

    bounds: tuple[int, ...]
    parents: Places
    items: Places
    links: Places
    counts: Ints
    measured: NDArray[np.bool_]
    extended: int

    @property
    def size(self) -> int:
        """How many grams."""
        return self.items.size

    @property
    def longest(self) -> int:
        """The greatest length."""
        return len(self.bounds) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Of each gram (G,)."""
        return np.repeat(np.arange(1, len(self.bounds)), np.diff(self.bounds))

    def listed(self, grams: NDArray[np.integer], length: int) -> Places:
        """Items of these grams of one length (grams, length)."""
        found = np.empty((grams.size, length), np.int32)
        for place in range(length - 1, -1, -1):
            found[:, place] = self.items[grams]
            grams = self.parents[grams]
        return found

    @classmethod
    def of(cls, counts: Mapping[tuple[int, ...], int]) -> Grams:
        """A small table. Every gram's beginnings have to be in it. Raises KeyError."""
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
            longest + 1,
        )


def released_grams(tree: Tree, adjusted: NDArray[np.float64]) -> Grams:
    """All grams of the tree, without those that end a sequence, with counts of at least 1."""
    whole = np.floor(adjusted[:, :-1] + _ROUNDING).astype(np.int64)
    nodes, columns = np.nonzero(whole >= 1)
    items: Places = columns.astype(np.int32)
    of_cell = np.full(adjusted.shape, -1, np.int32)
    of_cell[nodes, items] = np.arange(nodes.size, dtype=np.int32)
    parents = np.where(nodes > 0, of_cell[tree.parents[nodes], tree.items[nodes]], -1)
    links = np.full(nodes.size, -1, np.int32)
    waiting = np.flatnonzero(nodes > 0)
    suffix = tree.links[nodes[waiting]]
    while waiting.size:
        links[waiting] = of_cell[suffix, items[waiting]]
        more = (links[waiting] < 0) & (suffix > 0)
        waiting, suffix = waiting[more], tree.links[suffix[more]]
    bounds = np.searchsorted(nodes, tree.bounds).tolist()
    while len(bounds) > 1 and bounds[-1] == bounds[-2]:
        bounds.pop()
    return Grams(
        tuple(bounds),
        parents.astype(np.int32),
        items,
        links,
        whole[nodes, items],
        tree.passed[nodes, items],
        len(bounds),
    )


def extended(
    grams: Grams,
    l_max: int,
    max_nodes: int,
    beat: Callable[[], None] = lambda: None,
    max_rows: int | None = None,
) -> Grams:
    """With longer grams, up to l_max items: from g1 and g2 of the greatest length, where g2 begins
    with the end x of g1, the gram of g1 and the last item of g2, floor(c(g1) c(g2) / c(x)) times.

    Single items join only where they were measured. Beyond `max_rows` grams those that occur most
    are made and the others left short; without it TreeTooLarge is raised beyond `max_nodes`.
    """
    found = grams
    while 0 < found.longest < l_max:
        beat()
        ones, twos, counts = _joined(found, max_nodes, max_rows)
        if not counts.size:
            break
        found = Grams(
            (*found.bounds, found.size + counts.size),
            np.concatenate((found.parents, ones)),
            np.concatenate((found.items, found.items[twos])),
            np.concatenate((found.links, twos)),
            np.concatenate((found.counts, counts)),
            np.concatenate((found.measured, np.zeros(counts.size, bool))),
            found.extended,
        )
    return found


def _joined(grams: Grams, max_nodes: int, max_rows: int | None) -> tuple[Places, Places, Ints]:
    """Pairs (g1, g2) of the greatest length that join, and the counts of what they make.

    Parents rise over the whole table: the continuations of x are a run of it. In a run by falling
    count, those that join with g1 are the first ones, c(g2) >= c(x) / c(g1): they are counted
    before any is listed, and none that does not join is examined.
    """
    length = grams.longest
    shorter = grams.bounds[-3] if length > 1 else -1
    first = grams.bounds[-2]
    parents, counts = grams.parents[first:], grams.counts[first:]
    allowed = np.flatnonzero(grams.measured[first:]) if length == 1 else np.arange(counts.size)
    sizes, rank = np.unique(counts, return_inverse=True)
    # One number for (parent, falling count): parents, and ranks, are fewer than the grams.
    keys = (parents.astype(np.int64) + 1) * (sizes.size + 1) - rank
    order = allowed[np.argsort(keys[allowed], kind="stable")]
    keys = keys[order]
    known = allowed[grams.links[first + allowed] >= shorter]
    shared = grams.links[first + known].astype(np.int64)
    below = grams.counts[shared] if length > 1 else np.full(known.size, grams.counts.sum())
    begins = np.searchsorted(keys, shared * (sizes.size + 1) + 2)

    def widths(often: int) -> Ints:
        """How many g2 make, with each g1, a gram that occurs this often."""
        least = np.searchsorted(sizes, -(-often * below // counts[known]))
        ends = np.searchsorted(keys, (shared + 1) * (sizes.size + 1) - least, side="right")
        return np.asarray(ends - begins, np.int64)

    often = 1
    if max_rows is not None:
        often = _least_count(lambda count: int(widths(count).sum()), max_rows - grams.size)
    chosen = widths(often)
    total = int(chosen.sum())
    if grams.size + total > max_nodes:
        raise TreeTooLarge(max_nodes)
    ones = np.repeat(known, chosen)
    twos = order[np.arange(total) + np.repeat(begins - np.cumsum(chosen) + chosen, chosen)]
    made = counts[ones] * counts[twos] // np.repeat(below, chosen)
    listed = np.lexsort((twos, ones))
    places = (first + each[listed] for each in (ones, twos))
    left, right = (each.astype(np.int32) for each in places)
    return left, right, made[listed]


def _least_count(number: Callable[[int], int], room: int) -> int:
    """The smallest count from 1 on at which at most `room` grams are made; number: by count."""
    low, high = 0, 1
    while number(high) > max(room, 0):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if number(middle) > max(room, 0) else (low, middle)
    return high
