"""A run from sequences to what is published: tree, consistent counts, longer grams, copies.

The successors of a gram add up to its own count; single items that noise alone would show are
spread; longer grams come from a Markov assumption; synthetic sequences are made longest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.counts.keeper import Add
from algorithms.graph_der.degrees import DegreeLaw, possible
from algorithms.sequential_ngram.counts import Tree, first, grow
from algorithms.sequential_ngram.grams import Grams
from algorithms.sequential_ngram.joining import Multiset, joined
from algorithms.sequential_ngram.settings import Fill, Generation, Settings, TreeTooLarge
from algorithms.simplex import on_simplices
from tacit.randomness import NoiseSource
from tacit.records.items import Sequences

Floats = NDArray[np.float64]


def adjusted(tree: Tree) -> Floats:
    """Consistent counts (N, A), none negative.

    A row of the tree keeps its measured counts that passed; the others are estimated from the
    Markov parent's row (`Settings.fill`); then the row is scaled to the gram's count. A row in
    which nothing passed is 0.
    """
    result = np.zeros(tree.noisy.shape)
    passed = tree.passed
    result[0, :-1] = np.maximum(tree.noisy[0, :-1], 0)
    for level in range(1, tree.depth):
        rows = slice(tree.bounds[level], tree.bounds[level + 1])
        links = tree.links[rows]
        counts = result[tree.parents[rows], tree.items[rows]]
        values = _filled(
            np.where(passed[rows], tree.noisy[rows], 0.0),
            passed[rows],
            counts[:, None],
            result[links],
            (links == 0)[:, None],
            tree.settings.fill,
        )
        values[~passed[rows].any(axis=1)] = 0
        total = values.sum(axis=1)
        scale = np.divide(counts, total, out=np.zeros(total.size), where=total > 0)
        result[rows] = values * scale[:, None]
    return result


def _filled(
    kept_counts: Floats,
    passed: NDArray[np.bool_],
    counts: Floats,
    parent: Floats,
    no_parent: NDArray[np.bool_],
    fill: Fill,
) -> Floats:
    """The rows (E, A) with estimates for counts that did not pass; counts (E, 1): of the grams;
    parent (E, A): rows of their Markov parents; no_parent (E, 1): whether that is the empty
    gram."""
    if fill == "none":
        return kept_counts
    missing = ~passed
    kept_mass = kept_counts.sum(axis=1, keepdims=True)
    rest = np.maximum(counts - kept_mass, 0)
    even = _share(missing.astype(float)) * rest
    if fill == "ratio":
        known = np.where(passed, parent, 0).sum(axis=1, keepdims=True)
        weight = np.divide(kept_mass, known, out=np.zeros_like(kept_mass), where=known > 0)
        estimate = parent * weight
    else:
        weights = np.where(missing, parent, 0)
        estimate = np.where(weights.any(axis=1, keepdims=True), _share(weights) * rest, even)
    return np.where(missing, np.where(no_parent, even, estimate), kept_counts)


def _share(weights: Floats) -> Floats:
    total = weights.sum(axis=1, keepdims=True)
    shares = np.zeros_like(weights)
    np.divide(weights, total, out=shares, where=total > 0)
    return shares


# Single items that noise alone would show are not released one by one: their mass is spread.
# Without it half of all items come out above 0 whatever the data, each about b = l_max / e_root
# often. Items at the root's own threshold theta stay. Of the u others, x their noisy counts,
#
#     r = sum x + u (theta + b) e^(-theta / b) / 2
#
# is what they hold together, without the bias of having cut off the upper tail of their noise. If
# it is more than noise, r > 3 b sqrt(2 u), each gets r / u, rounded without bias; else nothing.
# Post-processing of noisy counts: no budget. Spec: sequential-ngram, section 3, step 4.

_CLEAR: Final = 3
_STAYS: Final = 4
"""Scales of noise: a count of so many is hardly ever noise, and stays as it is where others are
estimated by the law of all counts."""
_FAR: Final = 100
"""Scales of noise: of larger counts the law says no more than that they are larger."""
_FINE: Final = 100
"""Steps of a scale of noise that the law of all counts tells apart."""


def with_clear_root(tree: Tree, source: NoiseSource) -> Tree:
    """The tree with a first row (whole numbers) in which items below the threshold are equal, up to
    rounding.

    If lengths are known, these items share what the others leave of the total: each is lowered
    by the same amount, none below 0. Where only items are counted, each has its `estimated` count,
    or these items 0 where all counts together are no more than noise.
    """
    counts = tree.noisy[0, :-1]
    threshold = float(tree.thresholds()[0, 0])
    others = np.flatnonzero(counts < threshold)
    row = tree.noisy[0].copy()
    below, scale = counts[others].astype(np.float64), _scale(tree)
    lengths = tree.settings.lengths
    if tree.settings.items_alone:
        draws = float(tree.settings.draws)
        means = estimated(counts, scale, draws)
        if counts.sum() <= _CLEAR * scale * math.sqrt(2 * draws * counts.size):
            means[others] = 0
        row[:-1] = _whole(means, source)
    elif others.size:
        if lengths is None:
            shares = np.full(others.size, spread(below, threshold, scale))
        else:
            kept = lengths.kept(tree.settings.l_max)
            rest = kept - float(counts[counts >= threshold].sum())
            shares = on_simplices(below, np.zeros(others.size, np.int64), np.array([rest]))
        row[others] = np.minimum(_whole(shares, source), max(math.ceil(threshold) - 1, 0))
    return replace(tree, noisy=np.concatenate((row[None], tree.noisy[1:])))


def _whole(values: Floats, source: NoiseSource) -> NDArray[np.int64]:
    """Rounded without bias."""
    coins = (source.words(values.size) >> np.uint64(11)) * 2.0**-53
    whole = np.floor(values).astype(np.int64)
    return whole + (coins < values - whole)


def estimated(counts: NDArray[np.int64], scale: float, draws: float) -> Floats:
    """The mean of what each count (n,) below four scales can be, given the law of all counts; the
    others as they are: common things would lose what rare ones gain. draws: whole noises of this
    scale that each holds. Spec: graph-der, section 10.2."""
    step = max(1, int(scale / _FINE))
    near = counts < _STAYS * scale
    far = math.ceil(_FAR * scale)
    seen = possible(np.minimum(counts, far), scale, far, draws)
    steps = np.rint(seen / step).astype(np.int64)
    result = counts.astype(np.float64)
    result[near] = step * DegreeLaw.of(steps, scale / step, draws).means(steps[near])
    return result


def spread(counts: NDArray[np.float64], threshold: float, scale: float) -> float:
    """What each of the items (u,) below the threshold gets; scale: b of their noise."""
    number = counts.size
    tail = (threshold + scale) * math.exp(-threshold / scale) / 2
    estimate = float(counts.sum()) + number * tail
    return estimate / number if estimate > _CLEAR * scale * math.sqrt(2 * number) else 0.0


def _scale(tree: Tree) -> float:
    return tree.settings.l_max / float(tree.spends[int(tree.groups[0])].budget)


# The released grams with whole counts, and longer ones by a Markov assumption. Spec:
# sequential-ngram, section 3, steps 6 and 7. Grams of all lengths are in one table, sorted by
# length and then by their items, so that the continuations of a gram are adjacent.

Ints = NDArray[np.int64]
Places = NDArray[np.int32]

_ROUNDING: Final = 1e-6
"""A consistent count this close below a whole number is that number."""


def released_grams(tree: Tree, adjusted: NDArray[np.float64]) -> Grams:
    """All grams of the tree except those that end a sequence, with counts of at least 1."""
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
        tree.beyond_noise[nodes, items],
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
    result = grams
    while 0 < result.longest < l_max:
        beat()
        ones, twos, counts = _joined(result, max_nodes, max_rows)
        if not counts.size:
            break
        result = Grams(
            (*result.bounds, result.size + counts.size),
            np.concatenate((result.parents, ones)),
            np.concatenate((result.items, result.items[twos])),
            np.concatenate((result.links, twos)),
            np.concatenate((result.counts, counts)),
            np.concatenate((result.measured, np.zeros(counts.size, bool))),
            np.concatenate((result.beyond_noise, np.zeros(counts.size, bool))),
            result.extended,
        )
    return result


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
    joined_counts = counts[ones] * counts[twos] // np.repeat(below, chosen)
    listed = np.lexsort((twos, ones))
    places = (first + sides[listed] for sides in (ones, twos))
    left, right = (place.astype(np.int32) for place in places)
    return left, right, joined_counts[listed]


def _least_count(number: Callable[[int], int], room: int) -> int:
    """The smallest count, from 1 on, for which at most `room` grams are made; number: by count."""
    low, high = 0, 1
    while number(high) > max(room, 0):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if number(middle) > max(room, 0) else (low, middle)
    return high


# Synthetic sequences from grams: longest first, each gram as often as the counts of all grams that
# occur in it allow. Spec: sequential-ngram, section 3, step 8. A gram that is given out k times
# takes k from the count of each gram in it, times its occurrences there, itself included.

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
    copies_of = np.zeros(grams.size, np.int64)
    for length in range(grams.longest, 0, -1):
        beat()
        first, last = grams.bounds[length - 1 : length + 1]
        if rule == "proportional":
            for _ in range(PASSES):
                chosen = first + np.flatnonzero(left[first:last] > 0)
                if not _proportional(grams, chosen, length, left, copies_of, beat):
                    break
        elif rule == "literal":
            chosen = first + np.flatnonzero(left[first:last] > 0)
            copies_of[chosen] = left[chosen]
            for part, (inside, holder) in _incidences(grams, chosen, length, beat):
                _take(left, inside, copies_of[part][holder])
        else:
            chosen = first + np.flatnonzero(left[first:last] > 0)
            _one_by_one(grams, chosen, length, rule, left, copies_of, beat)
    return copies_of


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
    copies_given: Ints,
    beat: Beat,
) -> bool:
    """One pass over the grams of a length together; returns whether any was assigned. A gram
    gets the part of its demand that its scarcest gram can serve, given all demands."""
    want = left[chosen]
    incidences = list(_incidences(grams, chosen, length, beat)) if _fits(chosen, length) else None
    start, demand = 0, np.zeros(left.size)
    for part, (inside, holder) in incidences or _incidences(grams, chosen, length, beat):
        demand += np.bincount(inside, want[start : start + part.size][holder], left.size)
        start += part.size
    share = np.minimum(np.divide(left, demand, out=np.ones(left.size), where=demand > 0), 1)
    start, taken = 0, np.zeros(left.size)
    given_now = np.zeros(chosen.size, np.int64)
    for part, (inside, holder) in incidences or _incidences(grams, chosen, length, beat):
        least = np.ones(part.size)
        np.minimum.at(least, holder, share[inside])
        amounts = np.floor(want[start : start + part.size] * least).astype(np.int64)
        taken += np.bincount(inside, amounts[holder], left.size)
        given_now[start : start + part.size] = amounts
        start += part.size
    left -= taken.astype(np.int64)
    copies_given[chosen] += given_now
    return bool(given_now.any())


def _fits(chosen: NDArray[np.integer], length: int) -> bool:
    return chosen.size * length * (length + 1) <= 8 * OCCURRENCES


def _one_by_one(
    grams: Grams,
    chosen: NDArray[np.integer],
    length: int,
    rule: Generation,
    left: Ints,
    copies_given: Ints,
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
            span = slice(bounds[place], bounds[place + 1])
            copies_left, mult = left[members[span]], times[span]
            if rule == "cap":
                amount = int((copies_left // mult).min())
            else:
                copies_wanted = int(left[gram])
                amount = copies_wanted if (copies_left >= copies_wanted * mult).all() else 0
            if amount > 0:
                left[members[span]] -= amount * mult
                copies_given[gram] = amount


# Spec: sequential-ngram, section 3.


@dataclass(frozen=True)
class Transcript:
    """What may be published of the tree: figures of noisy counts and budgets only.

    nodes: expanded grams; draws: counts with noise; most_spent: the largest sum of budgets on a
    path; budgets: the distinct ones, falling.
    """

    settings: Settings
    nodes: int
    draws: int
    most_spent: Fraction
    budgets: tuple[Fraction, ...]

    @classmethod
    def of(cls, tree: Tree) -> Transcript:
        """The grams of a tree."""
        settings = tree.settings
        return cls(
            settings,
            tree.nodes,
            tree.draws,
            settings.epsilon - min(spend.left for spend in tree.spends),
            tuple(sorted({spend.budget for spend in tree.spends}, reverse=True)),
        )


@dataclass(frozen=True, eq=False)
class Release:
    """What a run publishes: grams with the longer ones, how often each is a synthetic sequence."""

    grams: Grams
    copies: Ints
    transcript: Transcript
    root: Floats
    """Noisy counts of single items, stretched to whole sequences where lengths are known."""
    synthetic: Multiset
    """The copies, joined where the number of sequences is known."""

    @property
    def items(self) -> Ints:
        """How often each item of the universe is in the synthetic sequences."""
        return self.synthetic.occurrences(self.root.size)


def publish(dataset: Sequences, settings: Settings, add: Add, context: Context) -> Release:
    """A release of a dataset over the universe. Raises TreeTooLarge, Cancelled."""
    return released(grow(dataset, first(settings), add, context), context)


def released(tree: Tree, context: Context) -> Release:
    """What a noisy tree releases. Raises TreeTooLarge, Cancelled."""
    settings = tree.settings
    root = tree.noisy[0, :-1].astype(np.float64)
    context.progress(0.65, "making counts consistent")
    if settings.root == "threshold":
        tree = with_clear_root(tree, context.noise("root"))
    stretch = settings.lengths.stretch(settings.l_max) if settings.lengths else 1.0
    short = released_grams(tree, adjusted(tree) * stretch)
    beat = partial(context.progress, 0.7, "extending grams")
    alone = settings.items_alone and settings.lengths is not None
    longest = 1 if alone else settings.l_max
    grams = extended(short, longest, settings.max_nodes, beat, settings.max_rows)
    beat = partial(context.progress, 0.8, "generating sequences")
    copies_of = copies(grams, settings.generation, beat)
    synthetic = Multiset.of_copies(grams, copies_of)
    if settings.lengths is not None:
        synthetic = joined(synthetic, settings.lengths.listed(), context.noise("joints"))
    return Release(grams, copies_of, Transcript.of(tree), root * stretch, synthetic)
