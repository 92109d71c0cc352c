"""The mathematics of n-grams: the source's examples, consistency, extension, generation.

What one sequence changes: exact losses on built trees, and the source's two mistakes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.counts.keeper import adder
from algorithms.sequential_ngram import Parameters, evaluation, publication
from algorithms.sequential_ngram import counts as growth
from algorithms.sequential_ngram.counts import Tree, covering, grown, next_expansion, planted, root
from algorithms.sequential_ngram.evaluation import (
    Text,
    answers,
    frequent,
    pattern_figures,
    released_patterns,
    supports_of,
    workload,
)
from algorithms.sequential_ngram.parameters import settings_of
from algorithms.sequential_ngram.publication import (
    Grams,
    adjusted,
    copies,
    extended,
    released_grams,
)
from algorithms.sequential_ngram.settings import (
    Generation,
    TreeTooLarge,
    empty_threshold,
    least_budget,
)
from tacit.encoders.sequential_ngram_counts import COUNTER, Lengths, LengthsByRange
from tacit.records.items import Sequences
from tests.algorithms.sequential_ngram.examples import (
    TABLE_6_2,
    budgets_of,
    counts_in,
    exact_tree,
    privacy_loss,
    rows_of,
    settings,
)
from tests.property_examples import examples

RULES: tuple[Generation, ...] = ("literal", "skip", "cap", "proportional")
ROWS = st.lists(st.lists(st.integers(0, 2), max_size=9), max_size=25)


def sequences(rows: list[list[int]], items: int = 3) -> Sequences:
    return Sequences.of("abcdefgh"[:items], [["abcdefgh"[item] for item in row] for row in rows])


def listed(grams: Grams, given: np.ndarray) -> dict[tuple[int, ...], int]:
    found = {}
    for length in range(1, grams.longest + 1):
        own = np.arange(grams.bounds[length - 1], grams.bounds[length])
        for gram, count in zip(
            grams.listed(own, length).tolist(), given[own].tolist(), strict=True
        ):
            if count:
                found[tuple(gram)] = count
    return found


def test_budgets_of_example_6_4_2() -> None:
    chosen = settings()
    tree = planted(root(chosen), np.array([[4, 10, 9]]))
    expansion = next_expansion(tree)
    assert expansion is not None
    tree = grown(tree, expansion, np.array([[0, 2, 0, 2], [1, 0, 5, 2], [4, 3, 0, 2]]))
    expansion = next_expansion(tree)
    assert expansion is not None
    tree = grown(tree, expansion, np.zeros((expansion.rows, 4), int))
    budgets = budgets_of(tree)
    assert budgets[()] == Fraction(1, 5)
    assert [budgets[(item,)] for item in range(3)] == [
        Fraction(4, 5),
        Fraction(2, 5),
        Fraction(2, 5),
    ]
    assert budgets[(1, 2)] == Fraction(2, 5)
    assert next_expansion(tree) is None


@given(rows=ROWS, l_max=st.integers(1, 9), block=st.integers(1, 20), n_max=st.integers(1, 5))
@examples(60)
def test_the_tree_is_what_counting_gram_by_gram_gives(
    rows: list[list[int]], l_max: int, block: int, n_max: int
) -> None:
    """Against the specification: strings, suffixes and all; whatever the blocks."""
    n_max = min(n_max, l_max)
    chosen = settings(
        l_max=l_max, n_max=n_max, threshold=lambda _budget: 2.0, budget="uniform", fill="none"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "BLOCK_SYMBOLS", block)
        tree = exact_tree(sequences(rows), chosen)
    cut = [[*row[:l_max], 3] for row in rows]
    true: Counter[tuple[int, ...]] = Counter(
        tuple(row[start : start + length])
        for row in cut
        for length in range(1, n_max + 1)
        for start in range(len(row) - length + 1)
    )
    found = rows_of(tree, tree.noisy)
    nodes = {()} | {
        gram for gram, count in true.items() if len(gram) < n_max and 3 not in gram and count >= 2
    }
    assert set(found) == nodes
    for gram, row in found.items():
        assert row == [true[(*gram, item)] * ((*gram, item) != (3,)) for item in range(4)]
    names = list(found)
    for node, gram in enumerate(names[1:], start=1):
        suffix = next(gram[cut:] for cut in range(1, len(gram) + 1) if gram[cut:] in nodes)
        assert names[tree.links[node]] == suffix
    assert np.array_equal(counts_in(tree, sequences(rows)), tree.noisy)


THIRDS = [2 / 3, 2 / 3, 2 / 3, 3]


@pytest.mark.parametrize(
    ("fill", "deep", "given"),
    [
        (
            "ratio",
            [2.1, 1.8, 0, 2.1],
            {(0,): 1, (1, 2): 3, (2, 0): 2, (2, 1): 2, (1, 2, 0): 2, (1, 2, 1): 1},
        ),
        ("leftover", [3, 0, 0, 3], {(0,): 1, (1, 2): 3, (2, 0): 1, (2, 1): 3, (1, 2, 0): 3}),
    ],
)
def test_a_whole_run_on_table_6_2(
    fill: str, deep: list[float], given: dict[tuple[int, ...], int]
) -> None:
    tree = exact_tree(TABLE_6_2, settings(fill=fill))
    even = adjusted(tree)
    rows = rows_of(tree, even)
    assert rows[(0,)] == pytest.approx(THIRDS)
    assert rows[(1,)] == pytest.approx([1, 1, 6, 1])
    assert rows[(2,)] == pytest.approx([4, 3, 0, 3])
    assert rows[(1, 2)] == pytest.approx(deep)
    assert rows[(2, 0)] == rows[(2, 1)] == [0, 0, 0, 0]
    longer = extended(released_grams(tree, even), 5, 1000)
    assert listed(longer, copies(longer, "cap")) == given


@pytest.mark.parametrize("stance", ["sound", "paper"])
@pytest.mark.parametrize("fill", ["ratio", "leftover", "none"])
def test_successors_add_up_to_their_gram(stance: str, fill: str) -> None:
    generator = np.random.default_rng(5)
    rows = [generator.integers(0, 4, size).tolist() for size in generator.integers(0, 12, 4000)]
    chosen = settings(
        items=4,
        l_max=10,
        fill=fill,
        threshold=partial(empty_threshold, l_max=10, items=4, paper=stance == "paper"),
    )
    tree = exact_tree(sequences(rows, 4), chosen, adder(stance))  # type: ignore[arg-type]
    found = adjusted(tree)
    assert (found >= 0).all()
    assert tree.nodes > 5
    own = found[tree.parents[1:], tree.items[1:]]
    total = found[1:].sum(axis=1)
    assert (np.isclose(total, own, rtol=1e-9) | (total == 0)).all()
    grams = released_grams(tree, found)
    inner = grams.parents >= 0
    assert (grams.counts[inner] <= grams.counts[grams.parents[inner]]).all()


EXAMPLE = {
    (0,): 4, (1,): 10, (2,): 9, (0, 1): 3, (1, 2): 5, (2, 0): 4,
    (1, 2, 0): 4, (2, 0, 0): 1, (2, 0, 1): 2,
}  # fmt: skip


def test_examples_6_4_4_and_6_4_5() -> None:
    longer = extended(Grams.of(EXAMPLE), 20, 1000)
    assert listed(longer, longer.counts) == EXAMPLE | {(1, 2, 0, 0): 1, (1, 2, 0, 1): 2}
    place = np.array([longer.size - 1])
    inside, _ = publication.occurrences(longer, place, 4)
    names = list(listed(longer, longer.counts))
    assert Counter(names[each] for each in inside.tolist()) == {
        (0,): 1, (1,): 2, (2,): 1, (0, 1): 1, (1, 2): 1, (2, 0): 1,
        (1, 2, 0): 1, (2, 0, 1): 1, (1, 2, 0, 1): 1,
    }  # fmt: skip
    with pytest.raises(TreeTooLarge):
        extended(Grams.of(EXAMPLE), 20, 10)
    assert extended(Grams.of({}), 20, 10).size == 0


@given(
    counts=st.dictionaries(
        st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple),
        st.integers(1, 40),
        max_size=30,
    ),
    pairs=st.integers(1, 8),
)
@examples(80)
def test_extension_and_generation_against_the_words(
    counts: dict[tuple[int, ...], int], pairs: int
) -> None:
    """Tables that miss suffixes too, against dictionaries of grams."""
    known = {
        gram: count
        for gram, count in counts.items()
        if all(gram[:cut] in counts for cut in range(1, len(gram)))
    }
    table = Grams.of(known)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publication, "OCCURRENCES", 40 * pairs)
        longer = extended(table, 6, 100_000)
        given_ = {rule: listed(longer, copies(longer, rule)) for rule in RULES}
    assert listed(longer, longer.counts) == extended_by_hand(known, 6)
    whole = listed(longer, longer.counts)
    for rule in ("literal", "skip", "cap"):
        assert given_[rule] == generated_by_hand(whole, rule)
    for rule in ("skip", "cap", "proportional"):
        used: Counter[tuple[int, ...]] = Counter()
        for gram, count in given_[rule].items():
            for inside in substrings(gram):
                used[inside] += count
        assert all(used[gram] <= count for gram, count in whole.items())


def substrings(gram: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [gram[start:end] for start, end in itertools.combinations(range(len(gram) + 1), 2)]


def extended_by_hand(known: dict[tuple[int, ...], int], l_max: int) -> dict[tuple[int, ...], int]:
    found = dict(known)
    length = max(map(len, known), default=0)
    single = sum(count for gram, count in known.items() if len(gram) == 1)
    while 0 < length < l_max:
        last = {gram: count for gram, count in found.items() if len(gram) == length}
        made = {
            (*one, two[-1]): last[one] * last[two] // (found[one[1:]] if length > 1 else single)
            for one in last
            for two in last
            if one[1:] == two[:-1] and (length == 1 or one[1:] in found)
        }
        made = {gram: count for gram, count in made.items() if count}
        if not made:
            break
        found |= made
        length += 1
    return found


def generated_by_hand(counts: dict[tuple[int, ...], int], rule: str) -> dict[tuple[int, ...], int]:
    left, given_ = dict(counts), {}
    for length in range(max(map(len, counts), default=0), 0, -1):
        own = [gram for gram in counts if len(gram) == length]
        for gram in sorted(own, key=lambda gram: (-left[gram], gram)):
            times = Counter(inside for inside in substrings(gram) if inside in counts)
            amount = left[gram]
            if rule == "cap":
                amount = min(left[inside] // mult for inside, mult in times.items())
            elif rule == "skip" and any(
                left[inside] < amount * mult for inside, mult in times.items()
            ):
                amount = 0
            if amount > 0:
                given_[gram] = amount
                for inside, mult in times.items():
                    left[inside] -= amount * mult
    return given_


@pytest.mark.parametrize("seed", range(4))
def test_without_noise_the_database_comes_back(seed: int) -> None:
    """Theorem 6.5."""
    generator = np.random.default_rng(seed)
    rows = [generator.integers(0, 4, size).tolist() for size in generator.integers(1, 8, 200)]
    chosen = settings(
        items=4, l_max=7, n_max=7, fill="none", budget="uniform", threshold=lambda _budget: 0.5
    )
    tree = exact_tree(sequences(rows, 4), chosen)
    table = extended(released_grams(tree, adjusted(tree)), 7, 10**6)
    for rule in RULES:
        assert listed(table, copies(table, rule)) == Counter(map(tuple, rows))


def test_l_max_from_lengths() -> None:
    data = sequences([[0] * size for size in (0, 1, 1, 2, 9, 12)])
    _, bins = COUNTER.of(data.lists, Lengths(1, 5))
    assert np.bincount(bins).tolist() == [2, 1, 0, 0, 2]
    assert covering(np.array([90, 5, 5])) == 2
    assert covering(np.array([90, -50, 10])) == 3
    assert covering(np.array([-1, -2])) == 1
    assert covering(np.array([95.0, 5.0])) == 1


@given(
    rows=ROWS,
    weights=st.lists(st.integers(1, 5), min_size=25, max_size=25),
    dense=st.sampled_from((0, 4, 1 << 25)),
    top=st.integers(0, 12),
    longest=st.sampled_from((2, 3, None)),
)
@examples(80)
def test_occurrences_and_frequent_patterns(
    rows: list[list[int]], weights: list[int], dense: int, top: int, longest: int | None
) -> None:
    """Against a count of all runs, whether by tables or by bisection."""
    true: Counter[tuple[int, ...]] = Counter()
    for row, weight in zip(rows, weights, strict=False):
        for run in substrings(tuple(row)):
            true[run] += weight
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "_DENSE", dense)
        weighted = [
            (np.array(row, np.int32), weight) for row, weight in zip(rows, weights, strict=False)
        ]
        text = Text.of_rows(weighted, 3)
        (queries, *_) = workload(3, 20, 60, 3)
        found = answers(text, queries)
        expected = [true[tuple(item for item in query if item >= 0)] for query in queries.tolist()]
        assert found.tolist() == expected
        ranked = frequent(text, top, longest)
    best = sorted(
        (run for run in true if 2 <= len(run) <= (longest or 99)),
        key=lambda run: (-true[run], len(run), run),
    )
    assert ranked == [(run, true[run]) for run in best[:top]]


def test_released_patterns_and_their_supports() -> None:
    table = Grams.of(EXAMPLE)
    assert released_patterns(table, 3) == [((1, 2), 5), ((2, 0), 4), ((1, 2, 0), 4)]
    assert released_patterns(table, 2, 2) == [((1, 2), 5), ((2, 0), 4)]
    assert released_patterns(Grams.of({(0,): 3}), 5) == []
    asked = [((1, 2, 0), 9), ((2, 2), 4), ((0, 1), 3)]
    assert supports_of(table, asked) == {(1, 2, 0): 4, (0, 1): 3}
    figures = pattern_figures(asked, released_patterns(table, 3), supports_of(table, asked), 3)
    assert figures["true_positives"] == pytest.approx(1 / 3)
    assert figures["utility_loss"] == pytest.approx((5 / 9 + 1 + 0) / 3)
    assert pattern_figures([], [], {}, 3)["utility_loss"] is None


ITEMS, L_MAX = 5, 6


def built(budget: str, stance: str = "sound", seed: int = 1, **changes: Any) -> Tree:
    """A noisy tree of habits: an item follows itself or the next one."""
    generator = np.random.default_rng(7)
    lists = []
    for size in generator.geometric(0.25, 3000):
        steps = generator.integers(0, 2, size) * generator.integers(0, 2, size)
        items = (generator.choice(ITEMS, p=(0.5, 0.3, 0.15, 0.04, 0.01)) + np.cumsum(steps)) % ITEMS
        lists.append([str(item) for item in items])
    chosen = settings(
        items=ITEMS,
        l_max=L_MAX,
        **{"n_max": 4} | changes,
        epsilon=Fraction(1, 2),
        budget=budget,
        threshold=partial(empty_threshold, l_max=L_MAX, items=ITEMS, paper=stance == "paper"),
    )
    data = Sequences.of([str(item) for item in range(ITEMS)], lists)
    return exact_tree(data, chosen, adder(stance), seed)  # type: ignore[arg-type]


TREES = {
    "adaptive": built("adaptive"),
    "uniform": built("uniform"),
    "paper": built("adaptive", "paper", 3),
    "items": built("adaptive", n_max=1, root_share=Fraction(1)),
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
@given(sequence=st.lists(st.integers(0, ITEMS - 1), max_size=40))
@examples(150)
def test_no_sequence_costs_more_than_epsilon(tree: Tree, sequence: list[int]) -> None:
    assert privacy_loss(tree, sequence) <= tree.settings.epsilon


def test_it_is_tight_and_the_end_among_single_items_breaks_it() -> None:
    """A count just above the threshold: its path spends all that is left in one step, and every
    start of a run of that item costs epsilon."""
    chosen = settings(epsilon=Fraction(1, 10), threshold=lambda _budget: 10.0)
    tree = exact_tree(Sequences.of("123", ["1"] * 11 + ["22"] * 20), chosen)
    assert privacy_loss(tree, [0] * 5) == chosen.epsilon
    assert privacy_loss(tree, [0] * 10_000) == chosen.epsilon
    wrong = chosen.epsilon * (1 + Fraction(1, chosen.n_max * chosen.l_max))
    assert privacy_loss(tree, [0] * 5, end_asked=True) == wrong


@pytest.mark.parametrize("l_max", [1, 2, 3])
@pytest.mark.parametrize("share", [Fraction(1, 20), Fraction(1, 3)])
def test_the_aim_items_spends_epsilon_and_no_more(l_max: int, share: Fraction) -> None:
    """Brute force: every sequence of three items one more, by what it changes of lengths and of
    single items; epsilon is reached."""
    epsilon = Fraction(4, 3)
    given_share = {} if share == Fraction(1, 20) else {"epsilon_length": epsilon * share}
    asked = Parameters(universe=3, epsilon=epsilon, aim="items", **given_share)  # type: ignore[arg-type]
    chosen = settings_of(asked, "sound", 3, l_max)
    lengths = asked.length_budget("sound")
    assert (lengths, chosen.root_budget) == (epsilon * share, epsilon * (1 - share))
    tree = exact_tree(sequences([[0, 1, 2]] * 50), chosen)
    assert tree.depth == 1
    losses = set()
    for size in range(l_max + 3):
        for row in itertools.product(range(3), repeat=size):
            _, cells = COUNTER.of(sequences([list(row)]).lists, LengthsByRange(3, 100))
            losses.add(privacy_loss(tree, row) + lengths * cells.size)
    assert max(losses) == epsilon


@pytest.mark.parametrize("n_max", [1, 4, 7])
def test_the_least_budget_is_least(n_max: int) -> None:
    """Over all heights that a path can have."""

    def least(left: Fraction, levels: int) -> Fraction:
        found = [left / height for height in range(1, levels + 1)]
        found += [least(left - each, levels - 1) for each in found if each < left]
        return min(found)

    epsilon = Fraction(3)
    first = epsilon / n_max
    rest = least(epsilon - first, n_max - 1) if n_max > 1 else first
    assert least_budget(epsilon, n_max, "adaptive") == min(first, rest)
    assert least_budget(epsilon, n_max, "uniform") == first


def test_empty_successors_that_pass() -> None:
    """At most one an expansion on average. Over 3,000 expansions of nothing the mean is below 1
    plus 7 standard errors but with a chance below 1e-10."""
    chosen = settings(
        items=ITEMS,
        n_max=2,
        l_max=L_MAX,
        threshold=partial(empty_threshold, l_max=L_MAX, items=ITEMS, paper=False),
    )
    nothing = Sequences.of([str(item) for item in range(ITEMS)], [])
    passed, expansions = 0, 0
    for seed in range(1500):
        tree = exact_tree(nothing, chosen, adder("sound"), seed)
        passed += int((tree.noisy >= tree.thresholds())[:, :].sum())
        expansions += tree.nodes
    assert passed <= expansions + 7 * np.sqrt(expansions)
