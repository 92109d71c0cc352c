"""The tree and its consistency: worked examples, the law of empty candidates, sensitivity."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression
from scipy.stats import chisquare, expon, geom, ks_2samp, kstest

from algorithms.contract import SequentialContext
from algorithms.counts.keeper import heads, without
from algorithms.sequential_prefix_tree.counts import (
    consistent,
    consolidated,
    grow,
    isotonic,
    projected,
    shifted,
)
from algorithms.sequential_prefix_tree.parameters import (
    TreeTooLarge,
    count_test,
    group_multiple,
    item_multiple,
)
from tacit.encoders.counts import Counts, occupied, places_among, together
from tacit.encoders.sequential_prefix_tree_counts import Layout
from tacit.noise import DiscreteLaplace
from tacit.randomness import NoiseSource, SecureRandom, SeededRandom
from tacit.records.items import Sequences
from tests.algorithms.sequential_prefix_tree.examples import (
    TABLE_6_1,
    NoNoise,
    by_prefix,
    released,
    settings,
    star,
)
from tests.property_examples import examples

CHANCE = 1e-6
"""False alarms of a statistical test, at most; seeds are fixed."""
PAIRS = Layout(4, np.array([0, 0, 1, 1]))


def test_table_6_1() -> None:
    release = released(TABLE_6_1, settings())
    counts = {
        (1,): 5,
        (3,): 3,
        (1, 2): 5,
        (3, 1): 1,
        (3, 2): 2,
        (1, 2, 3): 2,
        (1, 2, 4): 2,
        (3, 2, 1): 1,
        (1, 2, 4, 1): 1,
    }
    assert by_prefix(release.tree) == counts
    assert by_prefix(release.tree, release.consistent) == counts
    assert list(by_prefix(release.tree)) == sorted(counts, key=lambda each: (len(each), each))
    data, copies = release.synthetic(TABLE_6_1.universe)
    rows = [
        "".join(data.universe[item] for item in data.items[low:high])
        for low, high in zip(data.starts[:-1], data.starts[1:], strict=True)
        for _ in range(copies[np.searchsorted(data.starts, low, side="right") - 1])
    ]
    assert sorted(rows) == sorted(["123", "12", "321", "124", "123", "32", "1241", "31"])


def test_groups_first() -> None:
    chosen = settings(layout=PAIRS, height=2, group_test=NoNoise(3), item_test=NoNoise(3))
    release = released(TABLE_6_1, chosen)
    assert by_prefix(release.tree) == {(1,): 5, (3,): 3, (1, 2): 5}
    assert by_prefix(release.tree, release.copies) == {(1,): 0, (3,): 3, (1, 2): 5}


def test_time_bins() -> None:
    """Two places in two bins; below a node of the second bin only its places are candidates."""
    layout = Layout(4, None, 2)
    data = Sequences.of("1234", ["13", "124", "34", "1"])
    assert by_prefix(released(data, settings(layout=layout)).tree) == by_prefix(
        released(data, settings()).tree
    )
    assert layout.earlier(np.zeros(2, np.int64), np.arange(2)).tolist() == [0, 2]
    always = count_test(Fraction(1, 1000), Fraction(0), "paper")
    found = released(data, settings(layout=layout, item_test=always, stance="paper"))
    for prefix in by_prefix(found.tree):
        bins = [(item - 1) // 2 for item in prefix]
        assert bins == sorted(bins)


@given(
    st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=30),
    st.sampled_from([None, (0, 0, 0, 1, 1, 1), (0, 1, 0, 1, 2, 2)]),
    st.integers(1, 4),
)
@examples(60)
def test_counts_are_those_of_a_plain_count(
    lists: list[list[int]], groups: tuple[int, ...] | None, height: int
) -> None:
    names = [str(item) for item in range(6)]
    data = Sequences.of(names, [[names[item] for item in each] for each in lists])
    layout = Layout(6, None if groups is None else np.array(groups))
    test = None if groups is None else NoNoise(1)
    chosen = settings(layout=layout, height=height, group_test=test)
    expected: dict[tuple[int, ...], int] = {}
    for each in lists:
        for length in range(1, min(len(each), height) + 1):
            prefix = tuple(item + 1 for item in each[:length])
            expected[prefix] = expected.get(prefix, 0) + 1
    release = released(data, chosen)
    assert by_prefix(release.tree) == expected
    assert release.sequences == sum(bool(each) for each in lists)


def test_blocks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = by_prefix(grow(TABLE_6_1, settings(), SequentialContext()).tree)
    monkeypatch.setattr("algorithms.sequential_prefix_tree.counts.BLOCK_SEQUENCES", 3)
    assert by_prefix(grow(TABLE_6_1, settings(), SequentialContext()).tree) == whole


def test_sparse_and_dense_counts_agree() -> None:
    keys = np.array([5, 3, 5, 9_999, 3, 5])
    for size in (10_000, 10**12):
        held = occupied(keys, size)
        assert (held.cells.tolist(), held.counts.tolist()) == ([3, 5, 9_999], [2, 3, 1])
        parts = [Counts(np.array([1, 4]), np.array([2, 3])), Counts(np.array([4]), np.array([5]))]
        held = together(parts, size)
        assert (held.cells.tolist(), held.counts.tolist()) == ([1, 4], [2, 8])
    for last in (9_999, 10**12):  # by a table, by search
        kept = np.array([3, 5, last])
        asked = np.array([5, 4, 3, last, 0, last + 7])
        assert places_among(kept, asked).tolist() == [1, -1, 0, 2, -1, -1]
    assert places_among(keys[:0], keys).tolist() == [-1] * 6
    assert places_among(np.arange(7), np.array([6, 0]), 7).tolist() == [6, 0]


def test_isotonic_is_pool_adjacent_violators() -> None:
    values = np.random.default_rng(1).normal(0, 10, (3_000, 12)).round(2)
    expected = np.array([isotonic_regression(row).x for row in values])
    np.testing.assert_allclose(isotonic(values), expected, atol=1e-12)


def test_the_printed_consistency_breaks_its_own_constraints() -> None:
    """Spec: sequential-prefix-tree, section 4, point 4.5.

    A child above its parent, and negative counts; the projection has neither.
    """
    tree = star(4, [12, 3, 3, 3, 3, 3, 3])
    fitted = consolidated(tree)
    np.testing.assert_allclose(fitted[0], 4.5714, atol=5e-5)
    np.testing.assert_allclose(fitted[1], [8, 3, 3, 3, 3, 3, 3])
    printed = consistent(tree, fitted, "paper")[1]
    np.testing.assert_allclose(printed, [4.9388] + [-0.0612] * 6, atol=5e-5)
    assert printed[0] > fitted[0][0]
    np.testing.assert_allclose(consistent(tree, fitted, "sound")[1], [4.5714] + [0] * 6, atol=5e-5)


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-5, 50)), max_size=40), st.integers(0, 9))
@examples(200)
def test_the_projection(children: list[tuple[int, float]], seed: int) -> None:
    parents = np.array(sorted(parent for parent, _ in children), np.int64)
    values = np.array([value for _, value in children])
    above = np.random.default_rng(seed).choice([0.0, 1.5, 20.0, 300.0], 6)
    found = projected(values, parents, above)
    assert (found >= 0).all()
    assert (found <= above[parents]).all()
    sums = np.bincount(parents, found, 6)
    assert (sums <= above + 1e-9).all()
    printed = shifted(values, parents, above)
    for parent in range(6):
        own = parents == parent
        positive = np.maximum(values[own], 0)
        if positive.sum() <= above[parent]:
            np.testing.assert_array_equal(found[own], positive)
        else:
            np.testing.assert_allclose(sums[parent], above[parent], atol=1e-9)
            taken = positive[found[own] > 0] - found[own][found[own] > 0]
            np.testing.assert_allclose(taken, taken[:1].repeat(taken.size), atol=1e-9)
        if (values[own] >= 0).all() and (printed[own] >= 0).all():
            np.testing.assert_allclose(found[own], printed[own], atol=1e-9)


@pytest.mark.parametrize(
    ("stance", "mean"), [("paper", 59.08), ("sound", 55.95)], ids=["floating", "discrete"]
)
def test_the_number_of_empty_ones(stance: str, mean: float) -> None:
    """Spec: sequential-prefix-tree, section 8, check 5.

    e = 1/4, theta = 8 sqrt(2); against the coins one by one.
    """
    test = count_test(Fraction(1, 4), item_multiple(2, "paper", None), stance)  # type: ignore[arg-type]
    source, generator = SeededRandom(3), np.random.default_rng(4)
    held = np.array([0])
    found = [without(heads(2_000, test.chance, source), held) for _ in range(3_000)]
    sizes = np.array([places.size for places in found])
    assert abs(sizes.mean() - mean) < 0.6
    assert ks_2samp(sizes, generator.binomial(1_999, float(test.chance), 3_000)).pvalue > CHANCE
    for shown in found:
        assert (np.diff(shown) > 0).all()
        assert shown.size == 0 or 0 < shown[0] <= shown[-1] < 2_000
    hits = np.bincount(np.concatenate(found), minlength=2_000)[1:]
    assert chisquare(hits).pvalue > CHANCE


def test_counts_of_empty_ones_that_passed() -> None:
    rate = Fraction(1, 4)
    discrete = count_test(rate, group_multiple(), "sound")
    assert discrete.threshold == 23
    drawn = discrete.passing(20_000, SeededRandom(1)) - 23
    assert drawn.min() == 0
    chance = 1 - np.exp(-0.25)
    cuts = np.arange(30)
    expected = np.append(geom.pmf(cuts + 1, chance), geom.sf(30, chance)) * drawn.size
    seen = np.append(np.bincount(drawn, minlength=30)[:30], (drawn >= 30).sum())
    assert chisquare(seen, expected).pvalue > CHANCE
    floating = count_test(rate, group_multiple(), "paper")
    above = floating.passing(20_000, SeededRandom(1)) - floating.threshold
    assert kstest(above, expon(scale=4).cdf).pvalue > CHANCE


@pytest.mark.parametrize("rate", [Fraction(1, 12), Fraction(3, 7), Fraction(9)])
def test_an_empty_candidate_has_the_law_of_noise_alone(rate: Fraction) -> None:
    """Chance times geometric is the discrete Laplace above the threshold: nothing tells them
    apart."""
    test = count_test(rate, Fraction(5, 2), "sound")
    above = np.arange(12)
    ratio = np.exp(-float(rate))
    expected = DiscreteLaplace(1 / rate).pmf(int(test.threshold) + above)
    np.testing.assert_allclose(
        float(test.chance) * (1 - ratio) * ratio**above, expected, rtol=1e-12
    )


@pytest.mark.parametrize(
    "chance",
    [Fraction(1, 2), Fraction(1, 3), Fraction(1, 10**9)],
    ids=str,
)
def test_rare_and_frequent_heads(chance: Fraction) -> None:
    """The mean of 40 runs lies within six standard errors; false alarms below 1e-8."""
    coins = int(200 / chance)
    source = SecureRandom.from_secret_seed(bytes(32), f"heads {chance}")
    sizes = [heads(coins, chance, source).size for _ in range(40)]
    deviation = np.sqrt(coins * float(chance) * (1 - float(chance)) / 40)
    assert abs(np.mean(sizes) - 200) < 6 * deviation
    assert heads(coins, Fraction(0), source).size == heads(0, chance, source).size == 0


def test_a_whole_level_of_empty_ones() -> None:
    """One occupied item of 2,000; it passes by its own count, once at most."""
    data = Sequences.of([str(item) for item in range(2_000)], [["7"]] * 1_000)
    test = count_test(Fraction(1, 4), item_multiple(2, "paper", None), "sound")
    chosen = settings(layout=Layout(2_000), height=1, item_test=test)
    for seed in range(50):
        grown = grow(data, chosen, SequentialContext(test_seed=seed))
        (level,) = grown.tree.levels
        assert (np.diff(level.items) > 0).all()
        assert level.counts[np.flatnonzero(level.items == 7)[0]] > 800
        assert level.counts.min() >= test.threshold
        assert grown.occupied == (1,)


def test_too_large_a_tree_is_noticed_before_it_is_built() -> None:
    """Spec: sequential-prefix-tree, section 8, check 8.

    944 items, the source's threshold, no data at all.
    """
    nobody = Sequences.of([str(item) for item in range(944)], [])
    test = count_test(Fraction(1, 12), item_multiple(944, "paper", None), "sound")
    chosen = settings(layout=Layout(944), height=12, item_test=test)
    with pytest.raises(TreeTooLarge, match=r"28\.9 empty children") as wrong:
        grow(nobody, chosen, SequentialContext())
    assert wrong.value.name == "tree_too_large"


@dataclass(frozen=True)
class Recorder(NoNoise):
    """Remembers the true counts of each level."""

    seen: list[np.ndarray] = field(default_factory=list)

    def noisy(self, counts: np.ndarray, source: NoiseSource) -> np.ndarray:
        self.seen.append(counts.copy())
        return counts.copy()


@pytest.mark.parametrize("length", [3, 10_000])
def test_one_sequence_changes_one_count_of_each_kind_a_level(length: int) -> None:
    """Every sequence stands there twice, so that the same candidates are occupied without one."""
    generator = np.random.default_rng(5)
    lists = [list(generator.choice(list("1234"), size)) for size in (length, 2, 5, 64, 7)]
    seen = []
    for kept in (slice(0, None), slice(1, None)):
        data = Sequences.of("1234", [*lists, *lists][kept])
        groups, items = Recorder(1), Recorder(1)
        chosen = settings(layout=PAIRS, height=64, group_test=groups, item_test=items)
        grow(data, chosen, SequentialContext())
        seen.append((groups.seen, items.seen))
    for with_it, without_it in zip(*seen, strict=True):
        assert len(with_it) == len(without_it) == 64
        for level, (more, less) in enumerate(zip(with_it, without_it, strict=True), start=1):
            changed = np.abs(more - less)
            assert changed.sum() == (1 if level <= length else 0)
