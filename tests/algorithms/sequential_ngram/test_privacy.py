"""What one sequence changes: exact losses on built trees, and the source's two mistakes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.counts.keeper import adder
from algorithms.sequential_ngram.counts import Tree
from algorithms.sequential_ngram.publication import Transcript
from algorithms.sequential_ngram.settings import (
    empty_threshold,
    least_budget,
)
from tacit.records.items import Sequences
from tests.algorithms.sequential_ngram.examples import (
    budgets_of,
    exact_tree,
    privacy_loss,
    settings,
)
from tests.property_examples import examples

ITEMS, L_MAX = 5, 6


def built(budget: str, stance: str = "sound", seed: int = 1) -> Tree:
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
        n_max=4,
        epsilon=Fraction(1, 2),
        budget=budget,
        threshold=empty_threshold(L_MAX, ITEMS, paper=stance == "paper"),
    )
    data = Sequences.of([str(item) for item in range(ITEMS)], lists)
    return exact_tree(data, chosen, adder(stance), seed)  # type: ignore[arg-type]


ADAPTIVE, UNIFORM, PAPER = built("adaptive"), built("uniform"), built("adaptive", "paper", 3)


@pytest.mark.parametrize("tree", [ADAPTIVE, UNIFORM, PAPER], ids=["adaptive", "uniform", "paper"])
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


def test_paths_spend_at_most_epsilon() -> None:
    for tree in (ADAPTIVE, UNIFORM, PAPER):
        spent = Transcript.of(tree).most_spent
        assert spent <= tree.settings.epsilon
        chosen = tree.settings
        least = least_budget(chosen.epsilon, chosen.n_max, chosen.budget)
        assert all(budget >= least for budget in budgets_of(tree).values())


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
        threshold=empty_threshold(L_MAX, ITEMS, paper=False),
    )
    nothing = Sequences.of([str(item) for item in range(ITEMS)], [])
    passed, expansions = 0, 0
    for seed in range(1500):
        tree = exact_tree(nothing, chosen, adder("sound"), seed)
        passed += int((tree.noisy >= tree.thresholds())[:, :].sum())
        expansions += tree.nodes
    assert passed <= expansions + 7 * np.sqrt(expansions)
