"""Method `diffpart+rest` over curators: counts of one keeper, what records keep, what they spend.

Spec: set-valued, section 10; federated-counting, sections 2 and 6.
"""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import NotOverCurators
from algorithms.set_valued import Parameters, federated
from algorithms.set_valued.federated import ROUNDS, WithRest, method_of, planned_questions
from algorithms.set_valued.lengths import LengthCounts
from algorithms.set_valued.margins import WITH_DIFFPART, items_kept
from simulation.stand_in_data import msnbc_like
from tacit.encoders import set_valued_counts, sums
from tacit.encoders.count_sums import CountSum
from tacit.encoders.counts import Lists, sorted_sets
from tacit.encoders.set_valued_counts import MOST_LENGTH, KeptItems, Lengths
from tests.algorithms.counts.test_rounds import DRAWS, Curators, lists_of, over_curators, split

ITEMS = 30
DATA = msnbc_like(3_000, ITEMS, 4).dataset
LISTS = Lists(DATA.values, DATA.offsets)


def params(**changes: Any) -> Parameters:
    universe = tuple(f"i{number}" for number in range(ITEMS))
    asked = {"epsilon": "20", "universe": universe, "method": "diffpart+rest"}
    return Parameters(**(asked | changes))


def run_of(curators: int) -> tuple[Any, Curators]:
    source = Curators(set_valued_counts.COUNTER, split(LISTS, curators), set_valued_counts.read)
    return over_curators(ROUNDS, params(), source), source


def kept(rows: list[list[int]], most: int, salt: int, items: int = ITEMS) -> np.ndarray:
    """Counts of items."""
    return np.bincount(KeptItems(items, most, salt).counted(lists_of(rows))[1], minlength=items)


def test_over_curators_the_counts_are_those_of_one_keeper() -> None:
    """Without noise; every record spends all of epsilon, and no more."""
    run, source = run_of(7)
    state = run.state
    assert isinstance(state, WithRest)
    records, places = sorted_sets(LISTS, ITEMS)
    lengths = np.bincount(records)
    lengths = np.bincount(np.minimum(lengths[lengths > 0], MOST_LENGTH), minlength=65)[1:]
    assert state.lengths is not None
    assert (state.lengths.noisy == lengths).all()
    found = LengthCounts.of(lengths, ITEMS, Fraction(3, 2), DRAWS)
    assert (state.lengths.counts == found.counts).all()
    margins = state.margins(params().epsilon)
    most = items_kept(found.counts, params().epsilon, WITH_DIFFPART, ITEMS)
    assert margins.kept == most > 1
    cut = np.minimum(np.bincount(records), margins.kept)
    assert margins.items.sum() == cut.sum()
    assert (margins.items <= np.bincount(places, minlength=ITEMS)).all()
    alone, _ = run_of(1)
    assert (margins.items == alone.state.items).all()
    assert state.tree.rows == alone.state.tree.rows
    assert max(each.most for each in source.spent) == params().epsilon


def test_what_is_released_puts_the_records_back_and_is_the_same_again() -> None:
    run, _ = run_of(7)
    found, again = ROUNDS.release(run), ROUNDS.release(run)
    assert found.files == again.files
    assert found.result == again.result
    assert found.result["method"] == "diffpart+rest"
    sizes = np.diff(LISTS.starts)
    assert 0.97 < found.result["records"] / np.count_nonzero(sizes) <= 1.01
    assert found.result["rest_records"] > 0
    assert [step["asks"] for step in run.steps][:3] == ["lengths", "items", "partitions"]
    assert not any("keeps the records" in each for each in found.report.assumptions)
    scales = {noise.part: noise.scale for noise in found.report.noise}
    assert {"lengths", "items"} <= set(scales)


def test_the_questions_are_those_of_the_method() -> None:
    assert method_of(params()) == "diffpart+rest"
    few = params(universe=("a", "b", "c"), method="diffpart")
    assert ROUNDS.planned(ROUNDS.first(few, ("sets",), DRAWS)) == 1
    asked = [each.stage for each in planned_questions(params(), DRAWS)]
    assert asked[:3] == ["lengths", "items", "partitions of depth 1"]
    assert len(asked) == federated.planned(params())
    with pytest.raises(NotOverCurators):
        federated.over_curators(params(evaluate=True))


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_brute_force_over_four_items(most: int) -> None:
    """Every record beside every other one: it moves its own items alone, `most` at most."""
    every = [list(record) for size in range(5) for record in itertools.combinations(range(4), size)]
    for salt in (1, 7, 2**62):
        for one, other in itertools.product(every, every):
            both, alone = kept([other, one], most, salt, 4), kept([other], most, salt, 4)
            moved = both - alone
            assert (moved == kept([one], most, salt, 4)).all()
            assert moved.sum() == min(len(one), most)
            assert set(np.flatnonzero(moved)) <= set(one)
        asked = CountSum.of(
            set_valued_counts.COUNTER,
            KeptItems(4, most, salt),
            most,
            (Fraction(1),),
            np.zeros(1, int),
        )
        assert asked.moved(lists_of(every)).max() == most
        rows = lists_of(
            [*every, [3, 0, 3], [5]]
        )  # a duplicate counts once, an unknown item nothing
        assert asked.moved(rows)[-2:].ravel().tolist() == [min(2, most), 0]


def test_all_choices_are_alike() -> None:
    """6,000 salts, pairs of four items; fails by chance once in 10^5 runs."""
    counted: dict[tuple[int, ...], int] = {}
    for salt in range(1, 6_001):
        chosen = tuple(np.flatnonzero(kept([[4, 9, 11, 20]], 2, salt)).tolist())
        counted[chosen] = counted.get(chosen, 0) + 1
    assert len(counted) == 6
    chi_square = sum((count - 1_000) ** 2 / 1_000 for count in counted.values())
    assert chi_square < 30.9  # 5 degrees of freedom
    # Different records choose differently: an item that all have is kept by a fair share of them.
    many = [[0, *others] for others in itertools.combinations(range(1, 14), 3)]
    share = kept(many, 1, 5)[0] / len(many)
    assert abs(share - 1 / 4) < 5 * math.sqrt(3 / 16 / len(many))


def test_lengths_count_each_record_once() -> None:
    rows = [[], [3], [3, 3], [1, 2], list(range(ITEMS)) * 3, [0, 77]]
    asked = CountSum.of(
        set_valued_counts.COUNTER, Lengths(ITEMS), 1, (Fraction(1),), np.zeros(1, int)
    )
    total = asked.total(lists_of(rows))
    assert {place + 1: count for place, count in enumerate(total.tolist()) if count} == {
        1: 2,
        2: 1,
        ITEMS: 1,
    }
    assert asked.moved(lists_of(rows)).max() == 1


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "all"},
        {"most": 65},
        {"salt": 1 << 63},
        {"salt": "1"},
        {"items": 200_001},
    ],
)
def test_a_malformed_question_is_refused(change: dict[str, Any]) -> None:
    asked = {"kind": "items", "items": 4, "most": 2, "salt": 5}
    document = {"reach": 2, "rates": ["1"], "rate_of": None, "asked": asked}
    assert sums.read("set-valued", json.loads(json.dumps(document))).blocks
    with pytest.raises(sums.SumRefused):
        sums.read("set-valued", {**document, "asked": asked | change})


def test_a_question_that_keeps_more_than_it_reaches_gets_no_more() -> None:
    """The reach bounds what a record adds, whatever the document says."""
    asked = KeptItems(10, 9, 5)
    lying = CountSum.of(set_valued_counts.COUNTER, asked, 2, (Fraction(1),), np.zeros(1, int))
    assert lying.moved(lists_of([list(range(10))])).tolist() == [[2]]
