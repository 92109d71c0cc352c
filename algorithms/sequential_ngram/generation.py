"""Synthetic sequences from grams: longest first, each gram as often as the counts of all grams that
occur in it allow.

Spec: sequential-ngram, section 3, step 8. A gram that is given out k times takes k from the count
of each gram in it, times its occurrences there, itself included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.sequential_ngram.grams import Grams
from algorithms.sequential_ngram.settings import Generation

Ints = NDArray[np.int64]
Beat = Callable[[], None]
PASSES: Final = 3
"""Of `proportional` over the grams of one length."""
OCCURRENCES: Final = 1 << 21
"""Approximate most occurrences of grams in grams that are held in memory together."""

Incidence = tuple[NDArray[np.integer], NDArray[np.integer]]
"""Pairs (gram u, place of the gram g that holds it); a pair for every occurrence."""


def copies(grams: Grams, rule: Generation, beat: Beat = lambda: None) -> Ints:
    """How often each gram is given out (G,), by a rule of step 8."""
    left = grams.counts.copy()
    given = np.zeros(grams.size, np.int64)
    for length in range(grams.longest, 0, -1):
        beat()
        first, last = grams.bounds[length - 1 : length + 1]
        if rule == "proportional":
            for _ in range(PASSES):
                chosen = first + np.flatnonzero(left[first:last] > 0)
                if not _proportional(grams, chosen, length, left, given, beat):
                    break
        elif rule == "literal":
            chosen = first + np.flatnonzero(left[first:last] > 0)
            given[chosen] = left[chosen]
            for part, (inside, holder) in _incidences(grams, chosen, length, beat):
                _take(left, inside, given[part][holder])
        else:
            chosen = first + np.flatnonzero(left[first:last] > 0)
            _one_by_one(grams, chosen, length, rule, left, given, beat)
    return given


def occurrences(grams: Grams, chosen: NDArray[np.integer], length: int) -> Incidence:
    """Every occurrence of a gram in the chosen grams of one length, themselves included.

    A gram that ends inside g is a suffix of a beginning of g: each beginning's chain of links.
    """
    inside, holders = [], []
    beginning, holder = chosen.astype(np.int32), np.arange(chosen.size, dtype=np.int32)
    beginnings = []
    for _ in range(length):
        beginnings.append(beginning)
        beginning = grams.parents[beginning]
    current = np.concatenate(beginnings or [beginning])
    holder = np.tile(holder, length)
    while current.size:
        inside.append(current)
        holders.append(holder)
        current = grams.links[current]
        more = np.flatnonzero(current >= 0)
        current, holder = current[more], holder[more]
    if not inside:
        return current, holder
    return np.concatenate(inside), np.concatenate(holders)


def _incidences(
    grams: Grams, chosen: NDArray[np.integer], length: int, beat: Beat
) -> Iterator[tuple[NDArray[np.integer], Incidence]]:
    """Parts of the chosen grams with their occurrences."""
    step = max(2 * OCCURRENCES // (length * (length + 1)), 1)
    for start in range(0, chosen.size, step):
        beat()
        part = chosen[start : start + step]
        yield part, occurrences(grams, part, length)


def _take(left: Ints, inside: NDArray[np.integer], amounts: Ints) -> None:
    left -= np.bincount(inside, amounts, left.size).astype(np.int64)


def _proportional(
    grams: Grams,
    chosen: NDArray[np.integer],
    length: int,
    left: Ints,
    given: Ints,
    beat: Beat,
) -> bool:
    """One pass over the grams of a length, all together; whether any was assigned.

    A gram gets the part of what it wants that the scarcest gram in it can serve, of all demands.
    """
    want = left[chosen]
    held = list(_incidences(grams, chosen, length, beat)) if _fits(chosen, length) else None
    start, demand = 0, np.zeros(left.size)
    for part, (inside, holder) in held or _incidences(grams, chosen, length, beat):
        demand += np.bincount(inside, want[start : start + part.size][holder], left.size)
        start += part.size
    share = np.minimum(np.divide(left, demand, out=np.ones(left.size), where=demand > 0), 1)
    start, taken = 0, np.zeros(left.size)
    given_now = np.zeros(chosen.size, np.int64)
    for part, (inside, holder) in held or _incidences(grams, chosen, length, beat):
        least = np.ones(part.size)
        np.minimum.at(least, holder, share[inside])
        amounts = np.floor(want[start : start + part.size] * least).astype(np.int64)
        taken += np.bincount(inside, amounts[holder], left.size)
        given_now[start : start + part.size] = amounts
        start += part.size
    left -= taken.astype(np.int64)
    given[chosen] += given_now
    return bool(given_now.any())


def _fits(chosen: NDArray[np.integer], length: int) -> bool:
    return chosen.size * length * (length + 1) <= 8 * OCCURRENCES


def _one_by_one(
    grams: Grams,
    chosen: NDArray[np.integer],
    length: int,
    rule: Generation,
    left: Ints,
    given: Ints,
    beat: Beat,
) -> None:
    """`cap` and `skip`: by falling count, then in the order of the grams."""
    chosen = chosen[np.argsort(-left[chosen], kind="stable")]
    for part, (inside, holder) in _incidences(grams, chosen, length, beat):
        keys, times = np.unique(holder * np.int64(left.size) + inside, return_counts=True)
        bounds = np.searchsorted(keys, np.arange(part.size + 1) * np.int64(left.size))
        members = keys % left.size
        for place, gram in enumerate(part.tolist()):
            if place % 1024 == 0:
                beat()
            own = slice(bounds[place], bounds[place + 1])
            held, mult = left[members[own]], times[own]
            if rule == "cap":
                amount = int((held // mult).min())
            else:
                wanted = int(left[gram])
                amount = wanted if (held >= wanted * mult).all() else 0
            if amount > 0:
                left[members[own]] -= amount * mult
                given[gram] = amount
