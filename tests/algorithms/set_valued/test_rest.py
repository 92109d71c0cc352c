"""Method `diffpart+rest`: sensitivity, choice, what it puts back. Spec: set-valued, section 10.

Method `diffpart+rest` over curators: counts of one keeper, what records keep, what they spend.

Spec: set-valued, section 10; federated-counting, sections 2 and 6.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import MethodNeedsSound, NotOverCurators, Outcome, SequentialContext
from algorithms.set_valued import Parameters, federated, preview, run
from algorithms.set_valued.federated import ROUNDS, WithRest, method_of, planned_questions
from algorithms.set_valued.lengths import SIZES, LengthCounts
from algorithms.set_valued.margins import (
    WITH_DIFFPART,
    Margins,
    Shares,
    estimated_items,
    items_kept,
    kept_places,
    measured_lengths,
    measured_margins,
)
from algorithms.set_valued.records import Itemsets, itemsets
from algorithms.set_valued.remainder import Measured, kept_shares, remainder, rest_rows
from algorithms.set_valued.settings import RowCap
from simulation.stand_in_data import msnbc_like
from tacit.encoders import set_valued_counts, sums
from tacit.encoders.count_sums import CountSum
from tacit.encoders.counts import Lists, sorted_sets
from tacit.encoders.set_valued_counts import MOST_LENGTH, KeptItems, Lengths
from tacit.noise import DiscreteLaplace
from tacit.randomness import SeededRandom
from tacit.records.items import Transactions
from tests.algorithms.counts.test_rounds import DRAWS, Curators, lists_of, over_curators, split
from tests.algorithms.set_valued.examples import EVERY, sets_of

ITEMS = tuple(f"i{number:02}" for number in range(40))


def diffuse(records: int, seed: int = 1) -> Transactions:
    """Records that are nearly all different, some items far more common than others."""
    generator = np.random.default_rng(seed)
    weights = 1 / np.arange(1, len(ITEMS) + 1) ** 0.7
    weights /= weights.sum()
    sizes = generator.integers(1, 9, records)
    rows = [
        [ITEMS[item] for item in generator.choice(len(ITEMS), size, replace=False, p=weights)]
        for size in sizes.tolist()
    ]
    return Transactions.of(rows, ITEMS)


def params(**changes: Any) -> Parameters:
    return Parameters(**({"epsilon": "1", "universe": ITEMS} | changes))


def context(seed: int = 1) -> SequentialContext:
    return SequentialContext(test_seed=seed)


def margins_of(
    sets: Itemsets, universe: int, epsilon: Fraction, drawn: SequentialContext
) -> Margins:
    """As `diffpart+rest` measures them."""
    lengths = measured_lengths(sets, universe, epsilon, drawn)
    return measured_margins(sets, universe, epsilon, drawn, lengths)


ALL = Shares(Fraction(0), Fraction(0), Fraction(1), Fraction(0), 0)


class Words:
    """A source that hands out given words."""

    def __init__(self, *given: int) -> None:
        self.given = given

    def words(self, count: int) -> np.ndarray:
        assert count == len(self.given)
        return np.array(self.given, np.uint64)


def spent(
    before: tuple[tuple[int, ...], ...], after: tuple[tuple[int, ...], ...], kept: int
) -> Fraction:
    """Of epsilon 1 by a change of records, each given as the items that it keeps of how many."""
    lengths, items = np.zeros(5, int), np.zeros(4, int)
    for sign, records in ((1, after), (-1, before)):
        for size, *held in records:
            lengths[size] += sign
            items[held] += sign
    moved = int(np.abs(lengths).sum()), int(np.abs(items).sum())
    return moved[0] * WITH_DIFFPART.lengths + Fraction(moved[1], kept) * WITH_DIFFPART.items


def choices(records: tuple[tuple[int, ...], ...], kept: int, words: Words) -> Any:
    """What `spent` takes: by the code of a release, record by record."""
    found = kept_places(sets_of(*records), kept, words).tolist()  # type: ignore[arg-type]
    ends = np.cumsum([0, *(min(kept, len(each)) for each in records)]).tolist()
    return tuple(
        (len(each), *found[low:high])
        for each, low, high in zip(records, ends, ends[1:], strict=False)
    )


@pytest.mark.parametrize("kept", [1, 2, 3, 4])
def test_brute_force_over_four_items(kept: int) -> None:
    """All 15 records beside none or one of them, and every order of the words that choose what is
    kept: one record more spends the shares of lengths and items at most, which is reached."""
    worst = Fraction(0)
    for held in [(), *((each,) for each in EVERY)]:
        own = tuple(range(sum(map(len, held))))
        before = choices(held, kept, Words(*own)) if held else ()
        for joined in EVERY:
            for order in itertools.permutations(range(len(joined))):
                after = choices((*held, joined), kept, Words(*own, *order))
                assert after[:-1] == before
                assert set(after[-1][1:]) <= set(joined)
                worst = max(worst, spent(before, after, kept))
    assert worst == WITH_DIFFPART.lengths + WITH_DIFFPART.items == 1 - WITH_DIFFPART.diffpart


def test_items_cut_in_order_of_how_often_they_are_would_be_found() -> None:
    """A planted fault: which items a record keeps then depends on the others."""

    def cut(records: tuple[tuple[int, ...], ...], kept: int) -> Any:
        often = np.bincount([item for each in records for item in each], minlength=4)
        return tuple(
            (len(each), *sorted(each, key=lambda item: (-often[item], item))[:kept])
            for each in records
        )

    worst = max(
        spent(cut(held, kept), cut((*held, joined), kept), kept)
        for kept in (1, 2)
        for held in itertools.combinations_with_replacement(EVERY, 2)
        for joined in EVERY
    )
    assert worst > 1 - WITH_DIFFPART.diffpart


def test_a_record_chooses_for_itself() -> None:
    """Never more than l items, its own, all subsets alike; others keep theirs whoever joins."""
    records = [(0, 1, 2, 3), (1, 2), (3,), tuple(range(10))]
    words = SeededRandom(3)
    kept = kept_places(sets_of(*records), 2, words)
    assert kept.size == 2 + 2 + 1 + 2
    again = kept_places(sets_of(*records[:3]), 2, SeededRandom(3))
    assert (kept[:5] == again).all()
    counted = np.zeros((4, 4), int)
    for seed in range(3_000):
        one, two = sorted(kept_places(sets_of((0, 1, 2, 3)), 2, SeededRandom(seed)).tolist())
        counted[one, two] += 1
    drawn = counted[np.triu_indices(4, 1)]
    assert drawn.sum() == 3_000
    assert np.square(drawn - 500).sum() / 500 < 5 + 5 * math.sqrt(10)


def test_planted_faults_are_found() -> None:
    """l of true lengths moves with a record; keeping the first items favours low ones."""
    lengths = np.zeros(MOST_LENGTH, np.int64)
    lengths[[0, 5]] = 17, 0
    joined = lengths.copy()
    joined[5] += 1
    asked = Fraction(60), ALL, 9
    assert items_kept(lengths, *asked) != items_kept(joined, *asked)  # a run takes noisy ones
    same = sets_of(*[(0, 1, 2, 3)] * 4_000)
    kept = np.bincount(kept_places(same, 1, SeededRandom(1)), minlength=4)
    assert kept.min() > 800  # in order of the list it would be 4000, 0, 0, 0


def test_a_release_has_the_noise_of_its_scales() -> None:
    """What is drawn, not what is said: 20,000 items of which nobody has one, and lengths that all
    stand out, 200 releases."""
    lengths = np.repeat(np.arange(1, 21), 40)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    places = np.concatenate([np.arange(length) for length in lengths]).astype(np.int32)
    sets, epsilon = Itemsets(places, offsets), Fraction(30)
    seen = margins_of(sets, 20_000, epsilon, SequentialContext(test_seed=1))
    size = np.abs(seen.items[20:]).mean()
    law = DiscreteLaplace(seen.kept / (epsilon * WITH_DIFFPART.items))
    assert size == pytest.approx(np.abs(law.draw(SeededRandom(1), 100_000)).mean(), rel=0.05)
    off = [
        measured_lengths(sets, 20, epsilon, SequentialContext(test_seed=seed)).noisy[:20] - 40
        for seed in range(200)
    ]
    law = DiscreteLaplace(1 / (epsilon * WITH_DIFFPART.lengths))
    expected = np.abs(law.draw(SeededRandom(2), 100_000)).mean()
    assert np.abs(off).mean() == pytest.approx(expected, rel=0.1)


def test_how_many_items_are_kept() -> None:
    """By the forecast: all of them where noise is small, few where it is not."""
    lengths = np.zeros(MOST_LENGTH, np.int64)
    assert items_kept(lengths, Fraction(1), ALL, 100) == 1
    lengths[:4] = 50_000, 30_000, 5_000, 15_000
    assert items_kept(lengths, Fraction(1), ALL, 100) == 4
    assert items_kept(lengths // 1_000, Fraction(1), ALL, 100) == 1
    lengths[9] = 10
    assert (
        items_kept(lengths, Fraction(1), ALL, 100) == 4
    )  # ten long records are not worth more noise
    lengths[:] = 0
    lengths[-1] = 7_000
    assert items_kept(lengths, Fraction(1), ALL, 100) == MOST_LENGTH


def test_with_the_aim_items_half_of_all_records_keep_all_of_theirs() -> None:
    """And fewer items are kept than where rare ones matter less; called without data."""
    rare = dataclasses.replace(ALL, all_items=True)
    lengths = np.zeros(MOST_LENGTH, np.int64)
    assert items_kept(lengths, Fraction(1), rare, 100) == 1
    lengths[:40] = np.rint(10_000 * 0.85 ** np.arange(40))
    before = 5  # the median
    for epsilon in (Fraction(1, 100), Fraction(1, 8), Fraction(1), Fraction(4)):
        plain, kept = (items_kept(lengths, epsilon, shares, 400) for shares in (ALL, rare))
        assert before <= kept
        assert kept < plain or kept == 5
        before = kept
    assert before == 23
    lengths[:] = 0
    lengths[-1] = 7_000
    assert items_kept(lengths, Fraction(1), rare, 100) == MOST_LENGTH


def test_the_remainder() -> None:
    """What rows hold is taken away, by length and by the share of their items that was kept; the
    rest is levelled, and its weights give every item the records that it was counted in."""
    lengths = np.zeros(MOST_LENGTH, np.int64)
    lengths[:3] = 100, 100, 100
    margins = Margins(lengths, 2, np.array([220, 150, -3, 60, 60, 60, 2]))
    rows = Measured.of((((0,), 40), ((0, 1), 120), ((1,), 30)), 7)
    assert rows.items().tolist() == [160, 150, 0, 0, 0, 0, 0]
    left = remainder(margins, rows)
    assert left.lengths[:3].tolist() == [30, 0, 100]
    counted = left.fit.expected(left.lengths * kept_shares(2))[left.fit.place]
    # 30 + 2 * 100 kept items are 12 fewer than 242: each item has 3 fewer, the last one none
    expected = np.array([57.5, 0, 0, 57.5, 57.5, 57.5, 0])
    assert counted == pytest.approx(expected, abs=0.2)
    fewer = dataclasses.replace(margins, items=np.array([200, 150, -3, 40, 40, 40, 2]))
    fit = remainder(fewer, rows).fit
    counted = fit.expected(left.lengths * kept_shares(2))[fit.place]
    grown = np.array([40, 0, 0, 40, 40, 40, 2]) * 230 / 162  # in proportion: none appears
    assert counted == pytest.approx(grown, abs=0.2)


def test_rows_of_the_rest() -> None:
    """As many records of each length, items different inside each, and as many of each item as was
    counted: with weights in proportion to counts the commonest would lack a third."""
    lengths = np.zeros(MOST_LENGTH, np.int64)
    lengths[[1, 5]] = 20_000, 20_000
    counts = np.array([30_000, 15_000, 0] + 46 * [2_500])
    left = remainder(Margins(lengths, 6, counts), Measured.of((), 49))
    rows = rest_rows(left, 100_000, SeededRandom(1), lambda: None)
    assert rows == tuple(sorted(rows, key=lambda row: (len(row[0]), row[0])))
    assert sum(count for row, count in rows if len(row) == 2) == 20_000
    assert sum(count for row, count in rows if len(row) == 6) == 20_000
    found = [sum(count for row, count in rows if item in row) for item in range(49)]
    assert found[:3] == pytest.approx(counts[:3], rel=0.03)
    assert found[3:] == pytest.approx(counts[3:], rel=0.1)  # five standard deviations
    with pytest.raises(RowCap):
        rest_rows(left, 3, SeededRandom(1), lambda: None)
    empty = remainder(Margins(lengths, 3, np.zeros(4, np.int64)), Measured.of((), 4))
    assert rest_rows(empty, 10, SeededRandom(1), lambda: None) == ()


def test_the_choice_is_by_the_noisy_records_and_no_size() -> None:
    """Called without data."""
    assert params().method_of("sound") == "diffpart+rest"
    assert params().method_of("paper") == "diffpart"
    assert params(method="diffpart").method_of("sound") == "diffpart"
    method = preview(params(), "sound").details["method"]  # rest, or not, by the noisy records
    assert (method["asked"], method["chosen"], method["items"]) == ("auto", None, 40)
    unknown = preview(params(universe={"dataset": "01890a5d-ac96-774b-bcce-b302099a8057"}), "sound")
    assert unknown.details["method"]["chosen"] is None
    few = preview(params(universe=ITEMS[:20]), "sound")
    assert few.details["method"]["chosen"] is None
    for each, items in ((few, 20), (preview(params(), "sound"), 40)):
        forecast = (each.error or {})["of_the_other_method"]
        named = params(method="rest", universe=ITEMS[:items])
        assert forecast == {"method": "rest", **(preview(named, "sound").error or {})}
    for named in ("auto", "diffpart+rest", "rest"):
        with pytest.raises(MethodNeedsSound):
            preview(params(method=named), "paper")


def done(data: Transactions, seed: int = 1, **changes: Any) -> Outcome:
    return run(data, params(**changes), "sound", context(seed))


def test_the_mass_comes_back() -> None:
    """On diffuse records DiffPart alone loses most of them; totals of items are near the truth."""
    data = diffuse(6_000)
    alone, whole = (done(data, method=name) for name in ("diffpart", "diffpart+rest"))
    assert alone.result["records"] < 0.5 * 6_000
    assert whole.result["records"] == pytest.approx(6_000, rel=0.1)
    true = np.bincount(data.values, minlength=len(ITEMS))
    errors = []
    for outcome in (alone, whole):
        lines = list(csv.DictReader(io.StringIO(outcome.files[0].content.decode())))
        found = np.zeros(len(ITEMS))
        for line in lines:
            assert int(line["length"]) == len(line["items"].split())
            for item in line["items"].split():
                found[ITEMS.index(item)] += int(line["count"])
        errors.append(np.mean(np.abs(found - true) / true))
    assert errors[1] < errors[0] / 2
    kinds = {line["kind"] for line in lines}
    assert kinds == {"measured", "rest"} or kinds == {"rest"}
    assert sum(line["kind"] == "rest" for line in lines) == whole.result["rest_rows"]
    spoken = [json.loads(line) for line in whole.files[1].content.decode().splitlines()]
    assert [each["count"] for each in spoken] == [int(line["count"]) for line in lines]


@pytest.mark.parametrize("records", [[], [["i00"]], [list(ITEMS)] * 3, [["i01"]] * 500], ids=len)
def test_few_records_are_legal(records: list[list[str]]) -> None:
    outcome = done(Transactions.of(records, ITEMS), evaluate={"queries": 5, "top": (3,)})
    assert outcome.result["method"] == "rest"
    assert outcome.evaluation is not None
    json.dumps(outcome.result, allow_nan=False)


def test_margins_of_parts_add_up() -> None:
    """Without noise lengths and kept items of 500 curators are those of all together: the counts
    are sums over records, and a record's words are its own."""
    data = diffuse(500)
    sets = itemsets(data, ITEMS, context())
    sizes = np.bincount(np.diff(sets.offsets), minlength=9)
    assert sizes.sum() == 500
    huge = Fraction(10**9)
    found = margins_of(sets, len(ITEMS), huge, context(5))
    assert found.lengths[:8].tolist() == sizes[1:].tolist()
    own = kept_places(sets, found.kept, context(5).noise("kept items"))
    assert np.bincount(own, minlength=40).tolist() == found.items.tolist()


def test_the_report_says_what_was_spent() -> None:
    planned = preview(params(method="diffpart+rest"), "sound")
    report = done(diffuse(800), method="diffpart+rest").report
    for each in (planned, report):
        assert each.details["method"]["shares"] == {
            "diffpart": "2/3", "lengths": "1/30", "items": "3/10"
        }  # fmt: skip
        assert each.details["chain_total"].startswith("2/3")
        assert each.charged is not None
        assert each.charged.epsilon == "1"
        assert [line.epsilon for line in each.verified] == ["1", "2"]
        assert [noise.part for noise in each.noise][2] == "lengths"
        assert each.noise[2].scale == "30"
    assert planned.error is not None
    planned_sd = planned.error["item_noise_standard_deviation"]["8"]
    assert float(planned_sd) == pytest.approx(37.7, abs=0.1)


def test_the_forecast_of_an_item() -> None:
    """The deviation of a count of an item over 150 runs within 5 % of what the report says."""
    data = diffuse(2_000)
    sets = itemsets(data, ITEMS, context())
    drawn = []
    for seed in range(150):
        found = margins_of(sets, len(ITEMS), Fraction(1), context(seed))
        law = math.sqrt(2) * found.kept / float(WITH_DIFFPART.items)
        exact = np.bincount(
            kept_places(sets, found.kept, context(seed).noise("kept items")), minlength=40
        )
        drawn.append((found.items - exact) / law)
    assert np.std(np.concatenate(drawn)) == pytest.approx(1, rel=0.05)


def test_estimates_of_items_are_stretched_counts_without_noise() -> None:
    """Records of 4 items that keep 2 have each item twice as often as counted."""
    lengths = np.zeros(MOST_LENGTH, np.int64)
    lengths[3] = 100
    margins = Margins(lengths, 2, np.array([90, 50, 50, 10]))
    for deviation in (0.0, 0.02):
        found = estimated_items(dataclasses.replace(margins, deviation=deviation))
        assert found == pytest.approx([180, 100, 100, 20], abs=1e-6)


@pytest.mark.parametrize("draws", [1, 3])
def test_estimates_of_rare_items_err_less_than_their_noisy_counts(draws: int) -> None:
    """3,000 items, most of them rarer than their noise: less than .7 of the error of counts cut at
    0, and the total within 10 %. Seeds are fixed."""
    generator = np.random.default_rng(1)
    true = (3_000 / np.arange(1, 3_001)).astype(np.int64)
    noise = generator.geometric(1 - math.exp(-1 / 20), (2, draws, true.size)).sum(axis=1)
    lengths = np.zeros(MOST_LENGTH, np.int64)
    lengths[0] = true.sum()
    noisy = true + noise[0] - noise[1]
    margins = Margins(lengths, 1, noisy, deviation=20 * math.sqrt(2 * draws))
    found = estimated_items(margins, Fraction(draws))
    assert np.abs(found - true).sum() < 0.7 * np.abs(np.maximum(noisy, 0) - true).sum()
    assert found.sum() == pytest.approx(true.sum(), rel=0.1)


def test_the_table_of_items_follows_from_the_noisy_counts() -> None:
    """Another secret, other noise; the table has every item once, and its estimates are those of
    the noisy counts beside them."""
    outcome = done(diffuse(500))
    content = next(file.content for file in outcome.files if file.name == "items.csv").decode()
    rows = list(csv.DictReader(io.StringIO(content)))
    assert [row["item"] for row in rows] == list(ITEMS)
    kept = outcome.result["items_kept"]
    share = next(line for line in outcome.report.noise if line.part == "items").scale
    margins = Margins(
        np.array(outcome.result["lengths"]),
        kept,
        np.array([int(row["noisy"]) for row in rows]),
        deviation=math.sqrt(2) * float(share or 0),
    )
    estimates = [float(row["records"]) for row in rows]
    assert estimates == pytest.approx(estimated_items(margins).tolist(), rel=1e-4)


ITEM_COUNT = 30
DATA = msnbc_like(3_000, ITEM_COUNT, 4).dataset
LISTS = Lists(DATA.values, DATA.offsets)


def params_over_curators(**changes: Any) -> Parameters:
    universe = tuple(f"i{number}" for number in range(ITEM_COUNT))
    asked = {"epsilon": "20", "universe": universe, "method": "diffpart+rest"}
    return Parameters(**(asked | changes))


def run_of(curators: int) -> tuple[Any, Curators]:
    source = Curators(set_valued_counts.COUNTER, split(LISTS, curators), set_valued_counts.read)
    return over_curators(ROUNDS, params_over_curators(), source), source


def kept(rows: list[list[int]], most: int, salt: int, items: int = ITEM_COUNT) -> np.ndarray:
    """Counts of items."""
    return np.bincount(KeptItems(items, most, salt).counted(lists_of(rows))[1], minlength=items)


def test_over_curators_the_counts_are_those_of_one_keeper() -> None:
    """Without noise; every record spends all of epsilon, and no more."""
    run, source = run_of(7)
    state = run.state
    assert isinstance(state, WithRest)
    records, places = sorted_sets(LISTS, ITEM_COUNT)
    lengths = np.bincount(records)
    lengths = np.bincount(np.minimum(lengths[lengths > 0], MOST_LENGTH), minlength=65)[1:]
    assert state.lengths is not None
    assert (state.lengths.noisy == lengths).all()
    found = LengthCounts.of(lengths, ITEM_COUNT, Fraction(3, 2), DRAWS)
    assert (state.lengths.counts == found.counts).all()
    margins = state.margins(params_over_curators().epsilon)
    epsilon = params_over_curators().epsilon
    assert margins.kept == items_kept(found.counts, epsilon, WITH_DIFFPART, ITEM_COUNT) > 1
    cut = np.minimum(np.bincount(records), margins.kept)
    assert margins.items.sum() == cut.sum()
    assert (margins.items <= np.bincount(places, minlength=ITEM_COUNT)).all()
    alone, _ = run_of(1)
    assert (margins.items == alone.state.items).all()
    assert state.tree.rows == alone.state.tree.rows
    assert max(each.most for each in source.spent) == params_over_curators().epsilon


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
    assert method_of(params_over_curators()) == "diffpart+rest"
    few = params_over_curators(universe=("a", "b", "c"), method="diffpart")
    assert ROUNDS.planned(ROUNDS.first(few, ("sets",), DRAWS)) == 1
    asked = [each.stage for each in planned_questions(params_over_curators(), DRAWS)]
    assert asked[:3] == ["lengths", "items", "partitions of depth 1"]
    assert len(asked) == federated.planned(params_over_curators())
    with pytest.raises(NotOverCurators):
        federated.over_curators(params_over_curators(evaluate=True))


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_brute_force_of_what_curators_keep(most: int) -> None:
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
    rows = [[], [3], [3, 3], [1, 2], list(range(ITEM_COUNT)) * 3, [0, 77]]
    asked = CountSum.of(
        set_valued_counts.COUNTER, Lengths(ITEM_COUNT), 1, (Fraction(1),), np.zeros(1, int)
    )
    total = asked.total(lists_of(rows))
    assert {place + 1: count for place, count in enumerate(total.tolist()) if count} == {
        1: 2,
        2: 1,
        ITEM_COUNT: 1,
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


@pytest.mark.parametrize("place", ["lengths", "items"])
def test_counts_that_a_curator_made_up_end_the_job_and_fill_no_memory(place: str) -> None:
    """Without a proof one curator moves a count by any amount; the file has a size all the same."""
    run, _ = run_of(7)
    state = run.state
    counts = getattr(state, place)
    if place == "lengths":
        counts = replace(counts, counts=counts.counts + (SIZES == 3) * 10**12)
    else:
        counts = counts + (np.arange(ITEM_COUNT) == 1) * 10**15
    with pytest.raises(RowCap, match="5000000"):
        federated.release(params_over_curators(), replace(state, **{place: counts}))


def test_an_item_is_in_no_more_records_than_there_are() -> None:
    margins = Margins(np.full(64, 10), 64, np.array([3, 10**12, -(10**12)]), deviation=2.0)
    found = estimated_items(margins)
    assert found[0] < 20
    assert 0 <= found[2] < 20
    assert found[1] == pytest.approx(640, rel=0.1)
