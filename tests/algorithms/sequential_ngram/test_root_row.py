"""The root's threshold, what stays of the others, joins that are capped. Spec: sequential-ngram,
section 3, steps 4 and 7."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import Outcome, SequentialContext
from algorithms.sequential_ngram import Parameters, run
from algorithms.sequential_ngram.counts import planted, root
from algorithms.sequential_ngram.publication import Grams, extended, spread, with_clear_root
from tacit.noise import DiscreteLaplace
from tacit.randomness import SeededRandom
from tacit.records.items import Sequences
from tests.algorithms.sequential_ngram.examples import settings


def test_the_tail_that_is_cut_off_is_put_back() -> None:
    """300 roots of 4,000 items, each on average once: what the others hold is unbiased, within 5
    standard errors."""
    scale, items = 40.0, 4_000
    threshold = scale * math.log(items / 2)
    true = np.full(items, 30)
    found = []
    for seed in range(300):
        noisy = true + DiscreteLaplace(Fraction(40)).draw(SeededRandom(seed), items)
        others = noisy[noisy < threshold].astype(np.float64)
        found.append(spread(others, threshold, scale))
    # Of a true count of 30 the tail above the threshold is e^(30/40) times that of noise alone.
    assert np.mean(found) == pytest.approx(30, rel=0.05)


def test_noise_alone_is_dropped() -> None:
    """Below three deviations of the sum nothing is spread: 995 of 1,000 roots of noise, or more."""
    scale, items = 40.0, 2_000
    threshold = scale * math.log(items / 2)
    spreads = []
    for seed in range(1_000):
        noisy = DiscreteLaplace(Fraction(40)).draw(SeededRandom(seed), items)
        spreads.append(spread(noisy[noisy < threshold].astype(float), threshold, scale) > 0)
    assert sum(spreads) <= 5 + 5


def test_a_root_by_hand() -> None:
    """Items at the threshold stay; the others get one share, rounded up or down."""
    chosen = settings(items=6, root="threshold", l_max=1, n_max=1, threshold=lambda _b: 10.0)
    tree = planted(root(chosen), np.array([[50, 10, 9, 8, 9, 9]]))
    held = with_clear_root(tree, SeededRandom(1))
    assert held.noisy[0, :2].tolist() == [50, 10]
    each = 35 / 4 + 11 * math.exp(-10) / 2
    assert set(held.noisy[0, 2:6].tolist()) <= {math.floor(each), math.ceil(each)}
    assert held.passed[0].tolist() == [True, True, False, False, False, False, False]
    thin = planted(root(chosen), np.array([[50, 10, 1, 1, -1, 0]]))
    assert with_clear_root(thin, SeededRandom(1)).noisy[0].tolist() == [50, 10, 0, 0, 0, 0, 0]
    means = [with_clear_root(tree, SeededRandom(s)).noisy[0, 2:6].mean() for s in range(2_000)]
    assert np.mean(means) == pytest.approx(each, abs=0.03)


def table(counts: dict[tuple[int, ...], int]) -> Grams:
    return Grams.of(counts)


def test_joins_above_the_cap_are_the_most_frequent() -> None:
    """By brute force: with room for m grams, those made are m or fewer of the largest products."""
    generator = np.random.default_rng(3)
    counts = {(item,): int(count) for item, count in enumerate(generator.integers(20, 400, 30))}
    total = sum(counts.values())
    products = sorted(
        (a * b // total for a, b in itertools.product(counts.values(), repeat=2)), reverse=True
    )
    everything = extended(table(counts), 2, 10**6)
    assert everything.size - 30 == sum(each >= 1 for each in products)
    for room in (0, 1, 7, 40, 200):
        made = extended(table(counts), 2, 10**6, max_rows=30 + room)
        found = sorted(made.counts[30:].tolist(), reverse=True)
        assert len(found) <= room
        assert found == products[: len(found)]
        assert len(found) == room or products[len(found)] == products[room]
    assert extended(table(counts), 2, 10**6, max_rows=10).size == 30


def test_joins_above_the_cap_end_in_bounded_memory() -> None:
    """20,000 items that all join: 400 million pairs, of which a hundred thousand are made."""
    made = table({(item,): 1_000 + item for item in range(20_000)})
    tracemalloc.start()
    try:
        found = extended(made, 2, 10**9, max_rows=120_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 20_000 < found.size <= 120_000
    assert peak < 100 << 20


def sequences(items: int, count: int, seed: int = 1) -> Sequences:
    """Short sequences over items of very different frequency."""
    generator = np.random.default_rng(seed)
    weights = 1 / np.arange(1, items + 1) ** 0.8
    weights /= weights.sum()
    drawn = generator.choice(items, (count, 4), p=weights)
    return Sequences.of(
        tuple(str(item) for item in range(1, items + 1)),
        [[str(item + 1) for item in row] for row in drawn.tolist()],
    )


def done(data: Sequences, items: int, **changes: Any) -> Outcome:
    asked = Parameters(**({"epsilon": "1", "universe": items, "l_max": 20} | changes))
    return run(data, asked, "sound", SequentialContext(test_seed=3))


def item_counts(outcome: Outcome, items: int) -> np.ndarray:
    found = np.zeros(items)
    for line in outcome.files[0].content.decode().splitlines()[1:]:
        count, _, names = line.split(",")
        for name in names.split():
            found[int(name) - 1] += int(count)
    return found


def test_items_are_nearer_to_the_truth() -> None:
    """Mean relative error of item counts, the same data and seed."""
    data = sequences(1_000, 8_000)
    true = np.bincount(data.items, minlength=1_000)
    errors = []
    for kind in ("all", "threshold"):
        found = item_counts(done(data, 1_000, root=kind), 1_000)
        errors.append(float(np.mean(np.abs(found - true) / np.maximum(true, 1))))
    assert errors[1] < errors[0] / 2


def test_one_record_over_many_items() -> None:
    """Under 10 of 20,000 items pass; with `all` half of them are in the release."""
    data = Sequences.of(("1", "2", "3"), [["1", "2", "3"]])
    outcome = done(data, 20_000, max_nodes=50_000_000)
    lines = outcome.files[2].content.decode().splitlines()[1:]
    assert sum(",released," in line for line in lines) < 10


def test_where_all_items_pass_nothing_changes() -> None:
    """Rich data over few items: the same release with and without the threshold."""
    data = sequences(5, 20_000)
    one, other = (done(data, 5, root=kind, epsilon="3") for kind in ("all", "threshold"))
    assert [file.content for file in one.files] == [file.content for file in other.files]
