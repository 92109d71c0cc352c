"""What questions spend along paths, beside a plain twin that lists every path.

Spec: federated-counting, section 6.2.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tacit.encoders import (
    counts,
    sequential_ngram_counts,
    sequential_prefix_tree_counts,
    set_valued_counts,
)
from tacit.encoders.count_sums import CountSum
from tacit.encoders.counts import Layer, Level, Lists, NoSuchPaths, Paths, PathSpends
from tacit.encoders.sequential_ngram_counts import Successors
from tacit.encoders.sequential_prefix_tree_counts import Below, Layout
from tacit.encoders.set_valued_counts import Generation, Splits, Taxonomy

ITEMS, DEPTH = 3, 3
Gram = tuple[int, ...]


def levels_of(grams: list[Gram]) -> tuple[Level, ...]:
    """The grams, all of one length, and what they begin with: as a document names them."""
    levels = []
    before: list[Gram] = [()]
    for length in range(1, len(grams[0]) + 1):
        known = sorted({gram[:length] for gram in grams})
        parents = np.array([before.index(gram[:-1]) for gram in known])
        levels.append(Level(parents, np.array([gram[-1] for gram in known])))
        before = known
    return tuple(levels)


def some_grams(generator: np.random.Generator, length: int) -> list[Gram]:
    every = list(product(range(ITEMS), repeat=length))
    count = int(generator.integers(1, len(every) + 1))
    return sorted(every[place] for place in generator.choice(len(every), count, replace=False))


@pytest.mark.parametrize("seed", range(5))
def test_random_courses_spend_what_their_paths_spend(seed: int) -> None:
    """Random grams of random lengths in random order at random rates, and a restart after each."""
    generator = np.random.default_rng(seed)
    plain: dict[Gram, Fraction] = defaultdict(Fraction)
    rates = tuple(Fraction(n, 97) for n in range(1, 4))
    spends = PathSpends()
    for _ in range(12):
        grams = some_grams(generator, int(generator.integers(0, DEPTH + 1)))
        rate_of = generator.integers(0, 3, len(grams))
        document = Successors(ITEMS, 5, levels_of(grams))
        asked = CountSum.of(sequential_ngram_counts.COUNTER, document, 5, rates, rate_of)
        spends = PathSpends.unpacked(asked.after(spends).packed())
        for gram, place in zip(grams, rate_of.tolist(), strict=True):
            plain[gram] += rates[place]
        assert spends.most == max(
            sum((plain.get(path[:cut], Fraction(0)) for cut in range(DEPTH + 1)), Fraction(0))
            for path in product(range(ITEMS), repeat=DEPTH)
        )


def test_pairs_of_a_prefix_and_a_group_are_on_the_paths_of_their_items() -> None:
    """Group 0: items 0 and 1; 1: item 2. The root's groups, two pairs, then what is below item 0:
    its path has the root's groups and the pair of group 0."""
    layout = Layout(3, np.array([0, 0, 1]))
    counter, one = sequential_prefix_tree_counts.COUNTER, np.zeros(1, np.int64)
    below = Below(layout, (Level(one, one),), one)
    spends, found = PathSpends(), []
    for document, rates, rate_of in (
        (Below(layout, (), one), (Fraction(1, 10),), one),
        (Below(layout, (), one, np.arange(2)), (Fraction(1, 5), Fraction(3, 5)), np.arange(2)),
        (below, (Fraction(1, 4),), one),
        (below, (Fraction(1, 2),), one),
    ):
        spends = CountSum.of(counter, document, 1, rates, rate_of).after(spends)
        found.append(spends.most)
    # The third is below the cheaper pair: 1/10 + 1/5 + 1/4 is less than 1/10 + 3/5.
    last = Fraction(1, 10) + Fraction(1, 5) + Fraction(3, 4)
    assert found == [Fraction(1, 10), Fraction(7, 10), Fraction(7, 10), last]


def generation(*rows: tuple[int, int, int, int, int]) -> Generation:
    """Of parent, mask, place, children and ends of each partition."""
    return Generation(*(np.array(column) for column in zip(*rows, strict=True)))


def splits(*generations: Generation) -> Splits:
    return Splits(Taxonomy(4, 2), generations)


ROOT = generation((0, 0, 0, 3, 0))


def test_example_b_spends_epsilon_along_every_path() -> None:
    """DiffPart of the specification: masks that end a chain spend their own rate, those
    that go on the other one."""
    second = generation((0, 1, 1, 3, 3), (0, 3, 1, 3, 0))
    third = generation((1, 1, 2, 3, 3), (1, 2, 2, 3, 3))
    counter, spends, found = set_valued_counts.COUNTER, PathSpends(), []
    sixth, rest = Fraction(1, 6), Fraction(5, 6)
    for document, rates, rate_of in (
        (splits(ROOT), (sixth,), [0, 0]),
        (splits(ROOT, second), (sixth, rest), [0, 0, 1, 0]),
        (splits(ROOT, second, third), (Fraction(2, 3),), [0, 0, 0, 0]),
    ):
        spends = CountSum.of(counter, document, 1, rates, np.array(rate_of)).after(spends)
        found.append(spends.most)
    assert found == [sixth, Fraction(1), Fraction(1)]
    # Record 6 (I1) is in the first partition, whose masks all end: nothing is left for it.
    again = CountSum.of(
        counter, splits(ROOT, second), 1, (Fraction(1, 100),), np.zeros(4, np.int64)
    )
    assert again.after(spends).most == 1 + Fraction(1, 100)


@pytest.mark.parametrize("lie", [(0, 1, 2, 3, 3), (0, 1, 1, 3, 0), (0, 1, 1, 3, 1)])
def test_a_partition_that_is_split_in_another_way_is_on_top(
    lie: tuple[int, int, int, int, int],
) -> None:
    """Its records may be anybody's: what it asks adds to the path that has spent most."""
    honest = splits(ROOT, generation((0, 1, 1, 3, 3), (0, 2, 1, 3, 3)))
    counter, quarter = set_valued_counts.COUNTER, Fraction(1, 4)
    rates, rate_of = (quarter, Fraction(1, 2)), np.array([0, 0, 0, 1])
    first = CountSum.of(counter, honest, 1, rates, rate_of).after(PathSpends())
    assert first.most == Fraction(1, 2)
    other = splits(ROOT, generation(lie))
    again = CountSum.of(counter, other, 1, (quarter,), np.zeros(2, np.int64))
    assert again.after(first).most == Fraction(3, 4)


def test_no_record_spends_more_than_its_path() -> None:
    """Random grams at random rates, lengths and reaches: what a record spends never passes what
    paths do, and comes near it."""
    generator = np.random.default_rng(3)
    rows = [generator.integers(0, ITEMS, generator.integers(0, 8)) for _ in range(40)]
    starts = np.cumsum([0, *map(len, rows)])
    lists = Lists(np.concatenate(rows).astype(np.int32), starts)
    rates, reached = tuple(Fraction(n, 31) for n in (1, 4, 9)), Fraction(0)
    for _ in range(30):
        spends = PathSpends()
        spent = np.array([Fraction(0)] * len(rows), object)
        for _ in range(6):
            length, l_max, reach = (
                int(generator.integers(*each)) for each in ((0, 3), (1, 8), (1, 9))
            )
            grams = some_grams(generator, length)
            document = Successors(ITEMS, l_max, levels_of(grams))
            rate_of = generator.integers(0, 3, len(grams))
            asked = CountSum.of(sequential_ngram_counts.COUNTER, document, reach, rates, rate_of)
            spends = asked.after(spends)
            spent = spent + asked.moved(lists).astype(object) @ np.array(asked.costs, object)
        assert max(spent) <= spends.most
        reached = max(reached, max(spent) / spends.most)
    assert reached > Fraction(1, 3), "else the bound says nothing"


def test_what_cannot_be_followed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MOST_NODES", 3)
    none = np.zeros(3, np.int64)
    paths = Paths("any", (Layer.of(none, np.arange(3)),), np.arange(3))
    rates = (Fraction(1, 2),)
    with pytest.raises(NoSuchPaths):
        PathSpends().after(paths, np.ones(3, np.int64), none, rates, 1)
    assert PathSpends().after(paths, np.array([1, 1, 0]), none, rates, 1).most == rates[0]
    with pytest.raises(NoSuchPaths):
        PathSpends().with_loose(Fraction(1, 2**4099 - 1))
