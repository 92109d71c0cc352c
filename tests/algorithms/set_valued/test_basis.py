"""Method `rest`: lengths, items and a basis without DiffPart. Spec: set-valued, section 10."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import MethodNeedsSound, SequentialContext
from algorithms.set_valued import Parameters, preview, run
from algorithms.set_valued.basis_model import by_length, fitted_cells, independent
from algorithms.set_valued.federated import ROUNDS, planned_questions
from algorithms.set_valued.lengths import SIZES
from algorithms.set_valued.margins import (
    FOR_ITEMS,
    ITEMS_ONLY,
    WITH_BASIS,
    WITH_DIFFPART,
    WITH_PAIRS,
    Basis,
    Pairs,
    basis_cells,
    commonest,
    diffpart_keeps_something,
    kept_pairs,
    kept_places,
    measured_lengths,
    measured_margins,
    shares_without_diffpart,
)
from algorithms.set_valued.pair_model import with_pairs
from algorithms.set_valued.records import (
    Supports,
    Weighted,
    deduplicated,
    itemsets,
    superset_sums,
)
from algorithms.set_valued.remainder import Measured, remainder, rest_rows
from algorithms.set_valued.settings import BadAim
from tacit.encoders import set_valued_counts, sums
from tacit.encoders.count_sums import CountSum
from tacit.encoders.counts import Lists
from tacit.encoders.set_valued_counts import BasisCells, KeptPairs, Taxonomy, pair_count
from tacit.noise import DiscreteLaplace
from tacit.randomness import SeededRandom
from tacit.records.items import Transactions
from tests.algorithms.counts.test_rounds import DRAWS, Curators, lists_of, over_curators, split
from tests.algorithms.set_valued.examples import EVERY, sets_of


def patterned(records: int, seed: int = 1, items: int = 60) -> Transactions:
    """A third of the records have items 0 and 1 together, or 2, 3 and 4; the rest are Zipf-like."""
    generator = np.random.default_rng(seed)
    weights = 1 / np.arange(1, items + 1)
    weights /= weights.sum()
    rows = []
    for size, kind in zip(
        generator.integers(2, 7, records), generator.integers(0, 6, records), strict=True
    ):
        held = {0: {0, 1}, 1: {2, 3, 4}}.get(int(kind), set())
        drawn = generator.choice(items, size, replace=False, p=weights).tolist()
        rows.append([f"i{item:02}" for item in sorted(held | set(drawn[: size - len(held)]))])
    return Transactions.of(rows, [f"i{item:02}" for item in range(items)])


def of_two(records: int) -> Any:
    """Lengths of this many records of two items."""
    lengths = np.zeros(64, np.int64)
    lengths[1] = records
    return lengths


def params(data: Transactions, **changes: Any) -> Parameters:
    return Parameters(**({"epsilon": "1", "universe": data.items} | changes))


def cells_of(data: Transactions) -> Transactions:
    """Records of the first 20 items, a universe of which cells are counted."""
    rows = [
        [data.items[item] for item in data.values[first:last].tolist() if item < 20]
        for first, last in itertools.pairwise(data.offsets.tolist())
    ]
    return Transactions.of(rows, data.items[:20])


@pytest.mark.parametrize("kept", [1, 2, 3, 4])
@pytest.mark.parametrize("shares", [WITH_BASIS, ITEMS_ONLY, FOR_ITEMS])
def test_brute_force_over_four_items(kept: int, shares: Any) -> None:
    """Every record more beside none or one: lengths move by 1, items by l, one cell of the basis by
    1, whatever basis the noisy items give; the shares add up to epsilon, and all is reached."""
    worst = Fraction(0)
    for held, joined in itertools.product([(), *((each,) for each in EVERY)], EVERY):
        before, after = sets_of(*held), sets_of(*held, joined)
        moved = 0
        for chosen in itertools.combinations(range(4), 2):
            basis = np.array(chosen)
            cells = np.abs(basis_cells(after, basis) - basis_cells(before, basis))
            moved = max(moved, int(cells.sum()))
        items = min(kept, len(joined))
        assert kept_places(sets_of(joined), kept, SeededRandom(1)).size == items
        spent = shares.lengths + Fraction(items, kept) * shares.items + moved * shares.basis
        worst = max(worst, spent)
    assert worst == 1
    assert shares.diffpart + shares.lengths + shares.items + shares.basis == 1


@pytest.mark.parametrize("shares", [WITH_PAIRS, replace(WITH_BASIS, k=0, pairs=40)])
@pytest.mark.parametrize("most", [2, 3, 4])
def test_brute_force_of_pairs(most: int, shares: Any) -> None:
    """Every record more beside none or one, every choice of three or four items: pairs move by
    c (c - 1) / 2 at most, each by 1, whatever else is there; the shares add up to epsilon, and all
    is reached."""
    worst = 0
    for held, joined in itertools.product([(), *((each,) for each in EVERY)], EVERY):
        for chosen in (np.arange(4), np.array([0, 2, 3])):
            words = SeededRandom(1)
            before = kept_pairs(sets_of(*held), chosen, most, words)
            rest = kept_pairs(sets_of(joined), chosen, most, words)
            both = kept_pairs(sets_of(*held, joined), chosen, most, SeededRandom(1))
            assert (both - before).tolist() == rest.tolist()
            assert set(rest.tolist()) <= {0, 1}
            inside = min(most, len({*joined} & {*chosen.tolist()}))
            assert rest.sum() == inside * (inside - 1) // 2
            worst = max(worst, int(rest.sum()))
    assert worst == pair_count(most)
    assert shares.diffpart + shares.lengths + shares.items + shares.basis == 1


def test_pairs_are_kept_uniformly() -> None:
    """Of 30,000 equal records of four items that keep two, each pair a sixth: all within five
    standard deviations, which fails once in 300,000 seeds."""
    counts = kept_pairs(sets_of(*[(0, 1, 2, 3)] * 30_000), np.arange(4), 2, SeededRandom(3))
    assert counts.sum() == 30_000
    assert np.abs(counts - 5_000).max() < 5 * math.sqrt(30_000 * 5 / 36)


def test_noise_of_pairs_is_that_of_their_share() -> None:
    """1,770 pairs of which nearly all are empty, within 8 % of the law."""
    sets = sets_of(*[(0, 1)] * 100_000)
    epsilon, drawn = Fraction(1), SequentialContext(test_seed=3)
    lengths = measured_lengths(sets, 60, epsilon, drawn)
    shares = shares_without_diffpart(lengths.counts, epsilon, 60)
    pairs = measured_margins(sets, 60, epsilon, drawn, lengths, shares).pairs
    assert pairs is not None
    assert pairs.counts.size == 1_770
    law = DiscreteLaplace(pair_count(pairs.kept) / (epsilon * WITH_PAIRS.basis))
    expected = np.abs(law.draw(SeededRandom(1), 100_000)).mean()
    assert np.abs(np.sort(pairs.counts)[:-1]).mean() == pytest.approx(expected, rel=0.08)
    assert pairs.deviation == pytest.approx(math.sqrt(2) * pair_count(pairs.kept) * 10)


def test_exchanges_bring_pairs_to_their_counts_and_change_nothing_else() -> None:
    """Independent records become ones in which items 0 and 1 go together; noise alone changes
    nothing clearly. Lengths, how often each item occurs, and that it is in a record once stay."""
    generator = np.random.default_rng(1)
    weights = 1 / np.arange(1, 41)
    rows = [generator.choice(40, 4, replace=False, p=weights / weights.sum()) for _ in range(3_000)]
    owner, items = np.repeat(np.arange(3_000), 4), np.concatenate(rows)
    chosen = np.arange(12)

    def together(values: Any) -> Any:
        sets = sets_of(*[tuple(sorted(row)) for row in values.reshape(-1, 4).tolist()])
        return kept_pairs(sets, chosen, 12, SeededRandom(1))

    true = together(items)
    more = true.copy()
    more[0] += 400
    pairs = Pairs(chosen, 12, more, 1.0)
    moved = with_pairs(owner, items, pairs, 40, SeededRandom(2), lambda: None)
    assert together(moved)[0] == pytest.approx(more[0], abs=50)
    assert np.abs(together(moved) - more)[1:].mean() < 6
    assert np.bincount(moved).tolist() == np.bincount(items).tolist()
    assert all(len({*row}) == 4 for row in moved.reshape(-1, 4).tolist())
    noisy = true + np.rint(generator.laplace(0, 50, true.size)).astype(np.int64)
    noise = Pairs(chosen, 12, noisy, 50 * math.sqrt(2))
    same = with_pairs(owner, items, noise, 40, SeededRandom(2), lambda: None)
    assert np.abs(together(same) - true).mean() < 0.4 * np.abs(noisy - true).mean()


def test_shares_follow_from_the_noisy_number_of_records() -> None:
    """Called without data: few records have no basis, many have twelve items; DiffPart has a share
    where a group of one in 100 would live."""
    assert shares_without_diffpart(of_two(0), Fraction(1), 20) == ITEMS_ONLY
    assert shares_without_diffpart(of_two(1_000), Fraction(1), 20) == ITEMS_ONLY
    assert shares_without_diffpart(of_two(1_000), Fraction(1), 500) == ITEMS_ONLY
    sizes = [
        shares_without_diffpart(of_two(2_000 * 2**step), Fraction(1), 20).k for step in range(8)
    ]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 12
    assert shares_without_diffpart(of_two(10**7), Fraction(1), 5).k == 5
    for epsilon in (Fraction(1, 2), Fraction(2)):
        k = shares_without_diffpart(of_two(30_000), epsilon, 20).k
        error = 2 ** ((k - 1) / 2) / float(epsilon * WITH_BASIS.basis)
        assert error <= 30_000 / 200 < error * math.sqrt(2)
    wide, half = Taxonomy(1_012, 10), Fraction(1, 2)
    assert not diffpart_keeps_something(of_two(100_000), Fraction(1), wide, half)
    assert diffpart_keeps_something(of_two(1_210_096), Fraction(1), wide, half)
    assert diffpart_keeps_something(of_two(100_000), Fraction(20), wide, half)
    long = np.roll(of_two(1_210_096), 7)
    assert not diffpart_keeps_something(long, Fraction(1), wide, half)
    assert shares_without_diffpart(of_two(30_000), Fraction(1), 500) == WITH_PAIRS
    dense = shares_without_diffpart(np.roll(of_two(30_000), 2), Fraction(1), 40)
    assert (dense.items, dense.pairs) == (WITH_BASIS.items, 40)
    assert dense.basis == WITH_BASIS.basis
    few = shares_without_diffpart(of_two(8_000), Fraction(1), 500)
    assert (few.pairs, few.k) == (0, 7)
    assert shares_without_diffpart(of_two(8_000), Fraction(2), 500) == WITH_PAIRS


def test_noise_of_the_basis_is_that_of_its_share() -> None:
    """4,096 cells of which nearly all are empty, within 5 % of the law."""
    sets = sets_of(*[tuple(range(12))] * 100_000)
    epsilon, drawn = Fraction(1), SequentialContext(test_seed=3)
    lengths = measured_lengths(sets, 12, epsilon, drawn)
    shares = shares_without_diffpart(lengths.counts, epsilon, 12)
    basis = measured_margins(sets, 12, epsilon, drawn, lengths, shares).basis
    assert basis is not None
    assert basis.cells.size == 4_096
    law = DiscreteLaplace(1 / (epsilon * WITH_BASIS.basis))
    expected = np.abs(law.draw(SeededRandom(1), 100_000)).mean()
    assert np.abs(basis.cells[:-1]).mean() == pytest.approx(expected, rel=0.05)


def test_cells_follow_what_stands_out_and_nothing_else() -> None:
    """Items 0 and 1 always together; noise alone elsewhere leaves the others independent."""
    generator = np.random.default_rng(1)
    chances = np.tile([0.3, 0.3, 0.2, 0.1], (64, 1))
    records = np.zeros(64)
    records[5] = 50_000
    start = independent(chances, records, 50)
    true = start.sum(axis=0)
    true[[0b0001, 0b0010, 0b0101, 0b0110]] /= 4
    true[[0b0011, 0b0111]] += 5_000
    true *= 50_000 / true.sum()
    noise = generator.laplace(0, 20, 16)
    basis = Basis(np.arange(4), np.rint(true + noise).astype(np.int64), 20 * math.sqrt(2))
    single = np.array([true[np.arange(16) >> bit & 1 == 1].sum() for bit in range(4)])
    cells = fitted_cells(start.sum(axis=0), basis, single)
    pair = superset_sums(cells)[0b0011]
    assert pair == pytest.approx(superset_sums(true)[0b0011], rel=0.03)
    assert superset_sums(start.sum(axis=0))[0b0011] < 0.6 * pair
    table = by_length(start, records, cells, single)
    assert table.sum(axis=1) == pytest.approx(records)
    found = [table.sum(axis=0)[np.arange(16) >> bit & 1 == 1].sum() for bit in range(4)]
    assert found == pytest.approx(single.tolist(), rel=0.01)


def test_lengths_fit_what_items_show() -> None:
    """A false length of 40 items holds more than all items together: it goes."""
    data = itemsets(patterned(20_000), patterned(20_000).items, SequentialContext())
    drawn = SequentialContext(test_seed=1)
    found = measured_lengths(data, 60, Fraction(1), drawn)
    lengths, deviations = found.counts.copy(), found.deviations.copy()
    lengths[39], deviations[39] = 900, 200
    found = replace(found, counts=lengths, deviations=deviations)
    margins = measured_margins(data, 60, Fraction(1), drawn, found)
    moved = margins.fitting(lengths, margins.items.astype(float))
    kept = np.minimum(SIZES, margins.kept)
    true = np.minimum(np.diff(data.offsets), margins.kept).sum()
    assert kept @ lengths > 1.05 * true
    assert kept @ moved == pytest.approx(true, rel=0.01)
    assert moved[39] < 700
    assert moved[1:6] == pytest.approx(lengths[1:6], rel=0.1)


def test_a_release_has_items_pairs_and_records_of_the_data() -> None:
    """20,000 records: every common item within its noise, exactly as many as were expected; pairs
    of the basis near the truth, and far nearer than independent items."""
    data = patterned(20_000)
    sets = itemsets(data, data.items, SequentialContext())
    drawn = SequentialContext(test_seed=2)
    lengths = measured_lengths(sets, 60, Fraction(1), drawn)
    shares = shares_without_diffpart(lengths.counts, Fraction(1), 60)
    left = remainder(
        measured_margins(sets, 60, Fraction(1), drawn, lengths, shares), Measured.of((), 60)
    )
    rows = rest_rows(left, 10**6, drawn.noise("rest"), lambda: None)
    assert all(len(set(items)) == len(items) for items, _ in rows)
    assert len({items for items, _ in rows}) == len(rows)
    released = Supports.of(Weighted.of_rows(rows), 60)
    raw = Supports.of(deduplicated(sets, 60), 60)
    assert sum(count for _, count in rows) == pytest.approx(20_000, rel=0.02)
    assert released.single[:20] == pytest.approx(raw.single[:20], rel=0.06)
    for together in ((0, 1), (3, 4)):
        true, found = raw.support(together), released.support(together)
        alone = raw.single[together[0]] * raw.single[together[1]] / 20_000
        assert abs(found - true) < 0.4 * abs(alone - true)


def test_auto_runs_without_diffpart_where_it_would_keep_nothing() -> None:
    data = patterned(12_000)
    outcome = run(data, params(data), "sound", SequentialContext(test_seed=1))
    assert outcome.result["method"] == "rest"
    method = outcome.report.details["method"]
    assert method["asked"] == "auto"
    assert method["chosen"] == "rest"
    assert sum(map(Fraction, method["shares"].values())) == 1
    assert [noise.part for noise in outcome.report.noise] == [
        "lengths", "items", "pairs"
    ]  # fmt: skip
    moved = pair_count(method["pairs_of_items_kept"])
    assert outcome.report.noise[2].scale == str(10 * moved)
    assert outcome.report.sensitivity[2].value == str(moved)
    for small in (cells_of(data), patterned(5_000)):  # few items, few records: no pairs
        report = run(
            small, params(small, method="rest"), "sound", SequentialContext(test_seed=1)
        ).report
        assert [noise.part for noise in report.noise] == ["lengths", "items", "cells of the basis"]
        assert report.noise[2].scale == "5"
        assert report.sensitivity[2].value == "1"
    assert outcome.report.charged is not None
    assert outcome.report.charged.epsilon == "1"
    large = run(data, params(data, epsilon="20"), "sound", SequentialContext(test_seed=1))
    assert large.result["method"] == "diffpart+rest"
    assert large.report.details["method"]["shares"] == {
        "diffpart": str(WITH_DIFFPART.diffpart), "lengths": "1/30", "items": "3/10"
    }  # fmt: skip


@pytest.mark.parametrize("method", [None, "auto", "rest"])
def test_the_aim_items_counts_nothing_else(method: str | None) -> None:
    """Nearly all of epsilon for items, before a run and of one; other methods have no aims."""
    data = patterned(3_000)
    asked = params(data, method=method, aim="items")
    planned, done = preview(asked, "sound"), run(data, asked, "sound", SequentialContext())
    for report in (planned, done.report):
        chosen = report.details["method"]
        assert (chosen["chosen"], chosen["aim"]) == ("rest", "items")
        assert chosen["shares"] == {"lengths": "1/20", "items": "19/20"}
        assert len(report.sensitivity) == len(report.noise) == 2
        assert report.noise[0].scale == "20"
    kept = Fraction(done.result["items_kept"])
    assert float(done.report.noise[1].scale or 0) == pytest.approx(float(kept * 20 / 19))
    assert done.result["method"] == "rest"
    with pytest.raises(MethodNeedsSound) as refused:
        preview(asked.model_copy(update={"method": None}), "paper")
    assert refused.value.pointer == "/params/aim"
    for other in ("diffpart", "diffpart+rest", "basic"):
        with pytest.raises(BadAim):
            preview(asked.model_copy(update={"method": other}), "sound")


@pytest.mark.parametrize("third", ["basis", "pairs", None])
def test_over_curators_the_counts_are_those_of_one_keeper(third: str | None) -> None:
    """Without noise: every record spends all of epsilon and no more, and a release that is made
    again is the same."""
    data = cells_of(patterned(4_000)) if third == "basis" else patterned(4_000)
    aim = "balanced" if third else "items"
    asked = params(data, epsilon="4", method="rest", aim=aim)
    lists = Lists(data.values, data.offsets)
    runs = []
    for curators in (1, 7):
        source = Curators(set_valued_counts.COUNTER, split(lists, curators), set_valued_counts.read)
        runs.append(over_curators(ROUNDS, asked, source))
        assert 1 < max(each.most for each in source.spent) <= asked.epsilon
    one, seven = (each.state for each in runs)
    assert (one.items == seven.items).all()
    assert np.array_equal(one.cells, seven.cells)
    sets = itemsets(data, data.items, SequentialContext())
    if third == "basis":
        assert (one.cells == basis_cells(sets, commonest(one.items, one.shares.k))).all()
    elif third == "pairs":
        chosen = commonest(one.items, one.shares.pairs)
        most = one.pairs_kept(asked.epsilon, chosen)
        kept = kept_pairs(sets, chosen, most, SeededRandom(1))
        assert one.cells.sum() == kept.sum() > 4_000
        assert np.corrcoef(one.cells, kept)[0, 1] > 0.99
    stages = ["lengths", "items", third] if third else ["lengths", "items"]
    assert [step["asks"] for step in runs[0].steps] == stages
    first, again = ROUNDS.release(runs[1]), ROUNDS.release(runs[1])
    assert first.files == again.files
    assert first.result["method"] == "rest"
    assert ROUNDS.planned(ROUNDS.first(asked, ("sets",), DRAWS)) == len(stages)
    assert len(planned_questions(asked, DRAWS)) == len(stages)
    assert sum(each.rate for each in planned_questions(asked, DRAWS)) <= asked.epsilon


@pytest.mark.parametrize(
    "change",
    [
        {"chosen": [3, 1]},
        {"chosen": [1]},
        {"chosen": [1, 4]},
        {"most": 1},
        {"most": 7},
        {"items": 0},
        {"salt": -1},
        {"chosen": list(range(65)), "items": 100},
    ],
)
def test_malformed_pairs_are_refused(change: dict[str, Any]) -> None:
    asked = {"kind": "pairs", "items": 4, "chosen": [0, 1, 3], "most": 2, "salt": 5}
    document = {"reach": 1, "rates": ["1"], "rate_of": None, "asked": asked}
    total = sums.read("set-valued", document)
    assert isinstance(total, CountSum)
    rows = lists_of([[], [0], [1, 3], [3, 2], [0, 1], [0, 1, 2, 3]])
    assert total.total(rows).sum() == 3
    assert total.total(lists_of([[1, 3], [0, 3], [0, 1], [1, 2]])).tolist() == [1, 1, 1]
    assert total.moved(rows).ravel().tolist() == [0, 0, 1, 0, 1, 1]
    assert KeptPairs(4, np.array([0, 1, 3]), 2, 5).json() == asked
    with pytest.raises(sums.SumRefused):
        sums.read("set-valued", {**document, "asked": asked | change})


@pytest.mark.parametrize(
    "change",
    [{"chosen": [2, 1]}, {"chosen": []}, {"chosen": [4]}, {"chosen": [1, 1]}, {"items": 0}],
)
def test_a_malformed_basis_is_refused(change: dict[str, Any]) -> None:
    asked = {"kind": "basis", "items": 4, "chosen": [1, 3]}
    document = {"reach": 1, "rates": ["1"], "rate_of": None, "asked": asked}
    total = sums.read("set-valued", document)
    assert isinstance(total, CountSum)
    rows = lists_of([[], [0], [3, 3], [1, 3], [0, 1, 2, 3], [9]])
    assert total.total(rows).tolist() == [1, 0, 1, 2]
    assert total.moved(rows).ravel().tolist() == [0, 1, 1, 1, 1, 0]
    assert BasisCells(4, np.array([1, 3])).json() == asked
    with pytest.raises(sums.SumRefused):
        sums.read("set-valued", {**document, "asked": asked | change})
