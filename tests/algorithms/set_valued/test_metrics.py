"""Supports, frequent itemsets and errors against the true data."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.contract import SequentialContext
from algorithms.set_valued import Parameters, algorithm, run
from algorithms.set_valued.algorithm import (
    mining_utility,
    precision,
    query_counts,
    relative_errors,
    workload,
)
from algorithms.set_valued.records import (
    Itemsets,
    Supports,
    Weighted,
    deduplicated,
    itemsets,
    most_frequent,
)
from simulation.stand_in_data import msnbc_like
from tests.algorithms.set_valued.examples import ITEMS, TABLE_4_1
from tests.property_examples import examples

RELEASE = (((0,), 1), ((1,), 2), ((0, 1), 1), ((1, 2, 3), 1), ((0, 1, 2, 3), 3))
"""Spec: set-valued, section 8, check 10: I1, I2, I1 I2, I2 I3 I4, I1 to I4."""


def table() -> Weighted:
    return deduplicated(itemsets(TABLE_4_1, ITEMS, SequentialContext()), 4)


def test_the_metrics_of_the_spec() -> None:
    raw, released = Supports.of(table(), 4), Supports.of(Weighted.of_rows(RELEASE), 4)
    assert (raw.support((0,)), released.support((0,))) == (4, 5)
    assert (raw.support((0, 2)), released.support((0, 2))) == (2, 3)
    errors = relative_errors([np.array([4, 2])], [np.array([5, 3])], 8)
    assert errors.mean[0] == pytest.approx((0.25 + 0.5) / 2)
    top = most_frequent(raw, 5), most_frequent(released, 5)
    assert [(items, support) for items, support in top[0][:3]] == [((1,), 7), ((0,), 4), ((3,), 4)]
    assert [items for items, _ in top[1][:3]] == [(1,), (0,), (2,)]
    assert mining_utility(top[0][:3], top[1][:3]) == pytest.approx(0.58333, abs=1e-5)
    assert mining_utility(top[0], top[1]) == pytest.approx(0.68333, abs=1e-5)
    assert precision(top[0][:3], top[1][:3]) == pytest.approx(2 / 3)
    assert mining_utility([], []) is None
    assert precision([], []) is None


weighted = st.lists(
    st.tuples(st.sets(st.integers(0, 6), min_size=1), st.integers(1, 5)), min_size=1, max_size=30
)


@examples(30)
@given(weighted, st.integers(1, 40))
def test_supports_as_by_hand(sets: list[tuple[set[int], int]], count: int) -> None:
    supports = Supports.of(
        Weighted.of_rows([(tuple(sorted(each)), weight) for each, weight in sets]), 8
    )
    by_hand = {
        chosen: sum(weight for each, weight in sets if each >= set(chosen))
        for size in range(1, 9)
        for chosen in combinations(range(8), size)
    }
    for chosen, weight in by_hand.items():
        assert supports.support(chosen) == weight
    ranked = sorted(
        ((chosen, weight) for chosen, weight in by_hand.items() if weight),
        key=lambda row: (-row[1], len(row[0]), row[0]),
    )
    assert most_frequent(supports, count) == ranked[:count]


@given(st.lists(st.sets(st.integers(0, 9), min_size=1, max_size=4), max_size=40))
def test_equal_sets_become_one_with_a_weight(sets: list[set[int]]) -> None:
    lengths = [len(each) for each in sets]
    places = np.array([item for each in sets for item in sorted(each)], np.int32)
    found = deduplicated(Itemsets(places, np.concatenate(([0], np.cumsum(lengths, dtype=int)))), 10)
    bounds = found.sets.offsets.tolist()
    listed = {
        frozenset(found.sets.places[a:b].tolist()): weight
        for a, b, weight in zip(bounds[:-1], bounds[1:], found.weights.tolist(), strict=True)
    }
    assert len(listed) == found.sets.count
    assert listed == {frozenset(each): sets.count(each) for each in sets}


def test_both_ways_of_counting_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = msnbc_like(3_000, 17, 6)
    raw = deduplicated(itemsets(sample.dataset, sample.universe, SequentialContext()), 17)
    queries = workload(17, 17, 40, 3)
    dense = query_counts(raw, 17, queries)
    monkeypatch.setattr(algorithm, "DENSE_ITEMS", 0)
    matrix = query_counts(raw, 17, queries)
    for one, other in zip(dense, matrix, strict=True):
        assert np.array_equal(one, other)


def test_the_workload() -> None:
    groups = workload(17, 17, 2_000, 1)
    assert [max(map(len, group)) for group in groups] == [3, 6, 10, 13, 17]
    assert min(len(query) for group in groups for query in group) == 1
    assert all(len(set(query)) == len(query) for query in groups[4])
    assert [max(map(len, group)) for group in workload(10, 64, 500, 1)] == [10] * 5
    assert workload(17, 17, 20, 1) == workload(17, 17, 20, 1)


def test_an_evaluation_counts_what_is_real() -> None:
    sample = msnbc_like(10_000, 17, 1)
    asked = Parameters(
        epsilon="2",
        universe=sample.universe,
        method="diffpart",
        evaluate={"queries": 50, "top": (5, 20)},
    )
    outcome = run(sample.dataset, asked, "sound", SequentialContext(bytes(32)))
    found: Any = outcome.evaluation
    assert found["real_rows"] + found["false_rows"] == outcome.result["rows"]
    assert found["real_splits"] + found["false_splits"] == outcome.result["partitions_split"]
    assert found["records"] == 10_000
    assert found["longest_record"] == 17
    assert [each["k"] for each in found["frequent_itemsets"]] == [5, 20]
    assert found["frequent_itemsets"][0]["utility"] > 0.6
    basic = run(
        sample.dataset, asked.model_copy(update={"method": "basic"}), "sound", SequentialContext()
    ).evaluation
    assert basic is not None
    assert basic["relative_error_of_histogram"][0] < basic["relative_error"][0]
