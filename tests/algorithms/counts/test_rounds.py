"""Over curators the counts are those of one keeper: every entry, for any split of the records.

In one process and without noise. Spec: federated-counting, section 13, checks 2, 4 and 5.
"""

from __future__ import annotations

import io
import json
from collections import defaultdict
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from algorithms.contract import FederatedRounds, NotOverCurators, SequentialContext
from algorithms.counts.contract import AdaptiveCounting, Answer, Question, drive
from algorithms.counts.keeper import KeeperSource
from algorithms.counts.rounds import Opened, sum_of
from algorithms.sequential_ngram import Parameters as NgramParameters
from algorithms.sequential_ngram import algorithm as ngrams
from algorithms.sequential_ngram.counts import COUNTING as NGRAM_COUNTING
from algorithms.sequential_ngram.counts import first as first_ngrams
from algorithms.sequential_ngram.counts import truncated
from algorithms.sequential_ngram.parameters import first_state
from algorithms.sequential_ngram.settings import Settings
from algorithms.sequential_prefix_tree import Parameters as TreeParameters
from algorithms.sequential_prefix_tree import algorithm as trees
from algorithms.sequential_prefix_tree import counts as tree_counts
from algorithms.sequential_prefix_tree.parameters import resolved
from algorithms.set_valued import Parameters as SetParameters
from algorithms.set_valued import federated as sets
from algorithms.set_valued.counts import DiffPart
from algorithms.set_valued.settings import Settings as SetSettings
from algorithms.set_valued.settings import SoundLaw
from coordinator.jobs.federated.preparation import JobPlan, noise_share, step_of_sum
from simulation.stand_in_data import metro, msnbc_like
from tacit.accounting.charges import Spent
from tacit.encoders import (
    count_sums,
    sequential_ngram_counts,
    sequential_prefix_tree_counts,
    set_valued_counts,
    sums,
)
from tacit.encoders.count_sums import CountSum
from tacit.encoders.counts import Counter, Level, Lists, PathSpends
from tacit.encoders.sequential_ngram_counts import Successors
from tacit.encoders.sequential_prefix_tree_counts import Below
from tacit.encoders.set_valued_counts import Taxonomy
from tacit.protocol.federation import Federation
from tacit.query.fields import Collusion
from tacit.query.mechanisms import aggregator_plan
from tests.algorithms.set_valued.examples import TABLE_4_1, SilentLaw

SAMPLE = metro(2_000)
DRAWS = Fraction(3)


def lists_of(rows: list[list[int]]) -> Lists:
    lengths = np.cumsum([0, *(len(row) for row in rows)])
    return Lists(np.array([item for row in rows for item in row], np.int32), lengths)


def rows_of(lists: Lists) -> list[list[int]]:
    return [
        lists.items[low:high].tolist()
        for low, high in zip(lists.starts[:-1], lists.starts[1:], strict=True)
    ]


def split(lists: Lists, curators: int) -> list[Lists]:
    """At random; with several curators one has nothing, and one a single record."""
    rows = rows_of(lists)
    if curators == 1:
        return [lists]
    generator = np.random.default_rng(curators)
    owners = generator.integers(0, curators - 2, len(rows))
    owners[0] = curators - 1  # the curator before the last one has nothing
    return [
        lists_of([row for row, owner in zip(rows, owners, strict=True) if owner == place])
        for place in range(curators)
    ]


class ExactKeeper(KeeperSource):
    """One keeper without noise; walks go from question to question."""

    def answer(self, question: Question) -> Answer:
        counts = np.zeros(int(question.sizes.sum()), np.int64)
        kept = super().answer(question)
        counts[kept._counts.cells] = kept._counts.counts  # type: ignore[attr-defined]
        return Opened(question, counts)


def central(counting: AdaptiveCounting[Any], state: Any, counter: Counter, lists: Lists) -> Any:
    return drive(counting, state, ExactKeeper(SequentialContext(), counter, lists.blocks(700)))


class Curators:
    """A source of sums: each curator encodes the question by itself, from its JSON. `epsilon`: of
    the job, which no record may pass: an honest job leaves none out."""

    def __init__(self, counter: Counter, parts: list[Lists], read: Any = None) -> None:
        self.counter, self.parts, self.read = counter, parts, read
        self.epsilon: Fraction | None = None
        self.spent = [Spent.nothing(part.count) for part in parts]
        self.paths = PathSpends()

    def opened(self, asked: CountSum) -> np.ndarray:
        if self.read is not None:
            asked = self.read(json.loads(json.dumps(asked.document())))
        if self.epsilon is not None:
            self._admit(asked, self.epsilon)
        vectors = [asked.total(part) for part in self.parts]
        ends = np.cumsum([block.dimension for block in asked.blocks])
        assert all(vector.size == ends[-1] for vector in vectors)
        return np.sum(vectors, axis=0)

    def _admit(self, asked: CountSum, epsilon: Fraction) -> None:
        if not asked.first:  # the first part stands for all
            self.paths = asked.after(self.paths)
            assert self.paths.most <= epsilon, "an honest job overspends no path"
        costs = asked.costs if not asked.first else ()
        for place, part in enumerate(self.parts if costs else ()):
            self.spent[place], counted = self.spent[place].admit(asked.moved(part), costs, epsilon)
            assert counted.all(), "an honest job leaves nobody out"

    def answer(self, question: Question) -> Answer:
        asked = sum_of(self.counter, question)
        return Opened(question, asked.restored(self.opened(asked)))


def over_curators(rounds: FederatedRounds, params: Any, curators: Curators) -> Any:
    """A job's course; after each sum the run is rebuilt, as after a restart."""
    curators.epsilon = params.epsilon
    run, sums = rounds.first(params, ("sequences",), DRAWS), []
    while (asked := rounds.next_sum(run)) is not None:
        assert isinstance(asked, CountSum)
        sums.append(asked.restored(curators.opened(asked)))
        run = rounds.first(params, ("sequences",), DRAWS)
        for opened in sums:
            again = rounds.next_sum(run)
            assert again is not None
            run = rounds.absorb(run, again, opened)
    assert len(sums) <= rounds.planned(run)
    assert max(each.most for each in curators.spent) > 0
    return run


def same_outcome(one: Any, other: Any) -> None:
    assert one.result == other.result
    assert one.files == other.files


@pytest.mark.parametrize(
    ("curators", "l_max", "aim"),
    [(7, 12, "balanced"), (100, "auto", "balanced"), (7, 12, "items"), (100, "auto", "items")],
)
def test_n_grams_over_curators_are_those_of_one_keeper(curators: int, l_max: Any, aim: Any) -> None:
    params = NgramParameters(
        universe=SAMPLE.dataset.universe,
        epsilon="60",
        l_max=l_max,
        n_max=4,
        aim=aim,
        budget="uniform",
        max_cells=1_000,
    )
    parts = split(SAMPLE.dataset.lists, curators)
    counter = sequential_ngram_counts.COUNTER
    source = Curators(counter, parts, sequential_ngram_counts.read)
    run = over_curators(ngrams.ROUNDS, params, source)
    state = central(NGRAM_COUNTING, ngrams.first(params, DRAWS), counter, SAMPLE.dataset.lists)
    found, expected = run.state.tree, state.tree
    if aim == "items":
        assert expected.depth == ngrams.planned(params) - (l_max == "auto") == 1
        assert sum(each.rate for each in ngrams.planned_questions(params, DRAWS)) == 60
        assert max(each.most for each in source.spent) == 60
    else:
        assert expected.depth == 4
        assert max(np.diff(expected.bounds)) == 1_000 // 69  # max_cells cut it
    np.testing.assert_array_equal(found.noisy, expected.noisy)
    np.testing.assert_array_equal(found.children, expected.children)
    same_outcome(ngrams.release(params, run.state), ngrams.release(params, state))


def test_adaptive_n_grams_too() -> None:
    """Several rates in a question: blocks by rate."""
    params = NgramParameters(universe=SAMPLE.dataset.universe, epsilon="60", l_max=12)
    first = first_state(params, "sound", 68, DRAWS)
    counter = sequential_ngram_counts.COUNTER
    parts = split(SAMPLE.dataset.lists, 7)
    source = Curators(counter, parts, sequential_ngram_counts.read)
    found = drive(NGRAM_COUNTING, first, source).tree
    expected = central(NGRAM_COUNTING, first, counter, SAMPLE.dataset.lists).tree
    assert len({spend.budget for spend in expected.spends}) > 3
    np.testing.assert_array_equal(found.noisy, expected.noisy)


@pytest.mark.parametrize(
    "changes",
    [
        {"form": "simple", "max_cells": 2_000},
        {"fan_out": 17},
        {"fan_out": 5, "max_cells": 300},
        {"form": "simple", "time_bins": 4},
        {"fan_out": 5, "time_bins": 4},
    ],
)
def test_trees_over_curators_are_those_of_one_keeper(changes: dict[str, Any]) -> None:
    data = SAMPLE.dataset.lists
    if "time_bins" in changes:
        data = lists_of([sorted(row) for row in rows_of(data)])
    params = TreeParameters(universe=SAMPLE.dataset.universe, epsilon="60", height=5, **changes)
    counter = sequential_prefix_tree_counts.COUNTER
    source = Curators(counter, split(data, 7), sequential_prefix_tree_counts.read)
    run = over_curators(trees.ROUNDS, params, source)
    state = central(tree_counts.COUNTING, trees.first(params, DRAWS), counter, data)
    assert len(state.levels) == 5
    for found, expected in zip(run.state.levels, state.levels, strict=True):
        np.testing.assert_array_equal(found.parents, expected.parents)
        np.testing.assert_array_equal(found.items, expected.items)
        np.testing.assert_array_equal(found.counts, expected.counts)
    same_outcome(trees.release(params, run.state), trees.release(params, state))


@pytest.mark.parametrize(("items", "fanout"), [(16, 4), (17, 5)])
def test_diffpart_over_curators_is_that_of_one_keeper(items: int, fanout: int) -> None:
    """Even and uneven taxonomies."""
    data = msnbc_like(3_000, items, 4).dataset
    lists = Lists(data.values, data.offsets)
    law = SoundLaw(Fraction(1, 2), Fraction(1, 2), DRAWS)
    parts = DiffPart(Taxonomy(items, fanout), SetSettings(Fraction(4), law))
    counting = AdaptiveCounting(parts.ask, parts.absorb)
    counter = set_valued_counts.COUNTER
    source = Curators(counter, split(lists, 7))
    source.epsilon = Fraction(4)
    found = drive(counting, parts.first(), source)
    assert source.paths.most == 4
    expected = central(counting, parts.first(), counter, lists)
    assert len(expected.rows) > 15
    assert found.rows == expected.rows


@pytest.mark.parametrize("items", [2, 9, 16])
def test_a_histogram_of_sets_over_curators_is_that_of_one_keeper(items: int) -> None:
    """`basic`, without noise: each itemset's cell, in one question that costs all of epsilon."""
    universe = tuple(f"i{number}" for number in range(items))
    params = SetParameters(universe=universe, epsilon="2", method="basic", max_rows=100_000)
    data = msnbc_like(2_000, items, 4).dataset
    lists = Lists(data.values, data.offsets)
    source = Curators(set_valued_counts.COUNTER, split(lists, 7), set_valued_counts.read)
    run = over_curators(sets.ROUNDS, params, source)
    found = sets.ROUNDS.release(run)
    exact = [0] * (1 << items)
    for row in rows_of(lists):
        exact[sum(1 << item for item in set(row))] += 1
    kept = [(mask, count) for mask, count in enumerate(exact) if mask and count]
    assert found.result["rows"] == len(kept)
    assert found.result["records"] == sum(count for _, count in kept)
    (file,) = [each for each in found.files if each.name == "histogram.npy"]
    counted = np.load(io.BytesIO(file.content))
    assert counted.tolist() == [0, *exact[1:]]
    (step,) = run.steps
    assert (step["words"], step["rates"], step["reach"]) == ((1 << items) - 1, ["2"], 1)
    asked = sets.ROUNDS.next_sum(sets.ROUNDS.first(params, ("sets",), DRAWS))
    assert isinstance(asked, CountSum)
    assert asked.moved(lists_of([[0, 1, 1], [1], []])).tolist() == [[1], [1], [0]]


def test_a_question_of_130_000_cells_is_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """360 grams with 361 cells each: two parts, beside a limit of a million words."""
    levels = (Level(np.zeros(360, np.int64), np.arange(360)),)
    generator = np.random.default_rng(5)
    rows = [generator.integers(0, 360, generator.integers(0, 9)).tolist() for _ in range(3_000)]
    lists = lists_of(rows)
    rates = (Fraction(1, 3), Fraction(1, 5))
    rate_of = generator.integers(0, 2, 360)
    whole = CountSum.of(
        sequential_ngram_counts.COUNTER, Successors(360, 8, levels), 8, rates, rate_of
    )
    opened = [part.total(lists) for part in whole.parts]
    assert [words.size for words in opened] == [65_536, 64_424]
    found = whole.whole([part.restored(own) for part, own in zip(whole.parts, opened, strict=True)])
    monkeypatch.setattr(count_sums, "MAX_DIMENSION", 1_000_000)
    (one,) = whole.parts
    assert found.tolist() == one.whole([one.restored(one.total(lists))]).tolist()
    assert found.sum() == sum(len(row) for row in rows)


@pytest.mark.parametrize(("grams", "parts"), [(65, 2), (4_096, 64), (4_097, None)], ids=str)
def test_a_question_has_64_parts_at_most(grams: int, parts: int | None) -> None:
    """With 1,023 items a gram has 1,024 cells: 65,536 are one part, and one gram more is two."""
    first = Level(np.zeros(1_023, np.int64), np.arange(1_023))
    second = Level(np.arange(grams) // 1_023, np.arange(grams) % 1_023)
    document = {
        "asked": Successors(1_023, 3, (first, second)).json(),
        "reach": 3,
        "rates": ["1/3"],
        "rate_of": None,
    }
    if parts is None:
        with pytest.raises(sums.SumRefused):
            sums.read("sequential-ngram", document)
        return
    read = sums.read("sequential-ngram", document)
    assert isinstance(read, CountSum)
    assert len(read.parts) == parts


def test_a_job_over_sets_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole job by its documents; parts of few words each open the same cells."""
    words = 40
    monkeypatch.setattr(count_sums, "MAX_DIMENSION", words)
    universe = tuple(f"i{number}" for number in range(9))
    params = SetParameters(universe=universe, epsilon="20", fanout=3, method="diffpart")
    data = msnbc_like(3_000, 9, 4).dataset
    lists = Lists(data.values, data.offsets)
    source = Curators(set_valued_counts.COUNTER, split(lists, 7), set_valued_counts.read)
    run = sets.ROUNDS.first(params, ("sets",), DRAWS)
    assert sets.ROUNDS.next_sums is not None
    while due := sets.ROUNDS.next_sums(run):
        assert run.steps or len(due) == 1, "the first round of a job is alone"
        for asked in reversed(due):  # in whatever order they are opened
            assert isinstance(asked, CountSum)
            run = sets.ROUNDS.absorb(run, asked, asked.restored(source.opened(asked)))
    found = sets.ROUNDS.release(run)
    parts = sets.parts(params, DRAWS)
    counting = AdaptiveCounting(parts.ask, parts.absorb)
    kept = central(counting, parts.first(), set_valued_counts.COUNTER, lists)
    assert found.result["rows"] == len(kept.rows) > 15
    assert len(run.steps) == sum(-(-step // words) for step in _cells_of(counting, parts, lists))
    assert max(step["words"] for step in run.steps) <= words
    assert sets.ROUNDS.aborted(run, None) is None  # type: ignore[arg-type]


def _cells_of(counting: AdaptiveCounting[Any], parts: DiffPart, lists: Lists) -> list[int]:
    source, sizes, state = Curators(set_valued_counts.COUNTER, [lists]), [], parts.first()
    while (question := counting.ask(state)) is not None:
        sizes.append(int(question.sizes.sum()))
        whole = sum_of(set_valued_counts.COUNTER, question)
        opened = [source.opened(each) for each in whole.parts]
        state = counting.absorb(state, question, Opened(question, whole.whole(opened)))
    return sizes


def test_parts_of_a_sum_spend_what_the_whole_spends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several rates: each part has blocks of its own, with the same scales; bounds are those of the
    whole, so that no part counts what the whole would drop."""
    levels = (Level(np.zeros(3, np.int64), np.arange(3)),)
    rates = (Fraction(1, 3), Fraction(1, 5), Fraction(1, 7))
    whole = CountSum.of(
        sequential_ngram_counts.COUNTER, Successors(3, 5, levels), 2, rates, np.arange(3)
    )
    lists = lists_of([[0, 1, 2, 0, 1], [1, 1, 1, 1, 1], [2], []])
    monkeypatch.setattr(count_sums, "MAX_DIMENSION", 5)
    parts = whole.parts
    assert [sum(block.dimension for block in part.blocks) for part in parts] == [5, 5, 2]
    spent: dict[tuple[int, Fraction], int] = defaultdict(int)
    for part in parts:
        costs = [block.share * part.epsilon / block.bound for block in part.blocks]
        assert set(costs) <= set(whole.costs)
        ends = np.cumsum([block.dimension for block in part.blocks])
        for record, word in zip(*part.added(lists), strict=True):
            spent[int(record), costs[int(np.searchsorted(ends, word, side="right"))]] += 1
        assert part.moved(lists).tolist() == whole.moved(lists).tolist()
    moved = whole.moved(lists)
    assert moved.sum() == sum(spent.values()) > 0
    assert all(moved[record, whole.costs.index(cost)] == n for (record, cost), n in spent.items())
    total = np.concatenate([part.total(lists) for part in parts])
    assert whole.whole([total, total[:0]]).tolist() == whole.whole([total[:7], total[7:]]).tolist()


def test_more_rates_than_blocks_are_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less epsilon, never more: each rate is at most what was asked."""
    monkeypatch.setattr(count_sums, "MOST_RATES", 2)
    levels = (Level(np.zeros(3, np.int64), np.arange(3)),)
    rates = (Fraction(1, 7), Fraction(1, 3), Fraction(1, 5))
    found = CountSum.of(
        sequential_ngram_counts.COUNTER, Successors(3, 5, levels), 5, rates, np.arange(3)
    )
    assert found.rates == (Fraction(1, 7), Fraction(1, 3))
    assert [found.rates[place] for place in found.rate_of] == [
        Fraction(1, 7),
        Fraction(1, 3),
        Fraction(1, 7),
    ]


SETS = {
    "reach": 1,
    "rates": ["1"],
    "rate_of": None,
    "asked": {
        "items": 4,
        "fanout": 2,
        "generations": [
            {"parents": [0], "masks": [0], "places": [0], "children": [3], "ends": [0]}
        ],
    },
}


@pytest.mark.parametrize(
    "change",
    [
        {"items": 1},
        {"fanout": 17},
        {"generations": []},
        {"parents": [1]},
        {"masks": [1]},
        {"places": [-1]},
        {"children": [1 << 16]},
    ],
)
def test_a_malformed_question_about_sets_is_refused(change: dict[str, Any]) -> None:
    document = json.loads(json.dumps(SETS))
    for name, value in change.items():
        inside = name in ("parents", "masks", "places", "children", "ends")
        (document["asked"]["generations"][0] if inside else document["asked"])[name] = value
    assert sums.read("set-valued", SETS).blocks
    with pytest.raises(sums.SumRefused):
        sums.read("set-valued", document)


@pytest.mark.parametrize("place", [0, 3, 65_535])
def test_a_lying_question_reads_nothing_of_another_record(place: int) -> None:
    """A record's cells are the same, whatever the others are; no place makes a curator fail."""
    document = json.loads(json.dumps(SETS))
    first = document["asked"]["generations"][0]
    second = {
        "parents": [0, 0, 0],
        "masks": [1, 2, 3],
        "places": [place] * 3,
        "children": [3] * 3,
        "ends": [3, 0, 1],
    }
    document["asked"]["generations"] = [first, second]
    asked = sums.read("set-valued", document)
    assert isinstance(asked, CountSum)
    rows = [[0, 3], [1], [], [0, 1, 2, 3], [2, 3]]
    alone = [asked.total(lists_of([row])) for row in rows]
    np.testing.assert_array_equal(asked.total(lists_of(rows)), np.sum(alone, axis=0))
    assert asked.moved(lists_of(rows)).max() <= 1


def test_an_aborted_round_leaves_the_shallower_tree() -> None:
    params = NgramParameters(
        universe=SAMPLE.dataset.universe, epsilon="60", budget="uniform", l_max=20
    )
    source = Curators(sequential_ngram_counts.COUNTER, [SAMPLE.dataset.lists])
    run = ngrams.ROUNDS.first(params, ("sequences",), DRAWS)
    asked = ngrams.ROUNDS.next_sum(run)
    assert isinstance(asked, CountSum)
    assert ngrams.ROUNDS.aborted(run, asked) is None
    run = ngrams.ROUNDS.absorb(run, asked, asked.restored(source.opened(asked)))
    again = ngrams.ROUNDS.next_sum(run)
    assert again is not None
    ended = ngrams.ROUNDS.aborted(run, again)
    assert ngrams.ROUNDS.next_sum(ended) is None
    assert truncated(run.state).tree.depth == 1  # type: ignore[union-attr]
    found = ngrams.ROUNDS.release(ended)
    assert found.result["truncated"] is True
    assert found.result["grams"] > 0
    assert not any("keeps the sequences" in each for each in found.report.assumptions)
    assert found.report.details["draws_of_noise"] == "3"
    assert found.report.details["steps"] == (
        {"asks": "level 1", "groups": 1, "words": 68, "rates": ["12"], "reach": 20},
    )


def test_what_curators_cannot_answer_is_refused() -> None:
    params = NgramParameters(universe=5, epsilon="1", budget="uniform", evaluate=True)
    with pytest.raises(NotOverCurators) as refused:
        ngrams.ROUNDS.first(params, ("sequences",), DRAWS)
    assert refused.value.pointer == "/params/evaluate"


GOOD = {
    "reach": 5,
    "rates": ["1/3"],
    "rate_of": None,
    "asked": {"items": 3, "l_max": 5, "levels": [{"parents": [0, 0], "items": [0, 2]}]},
}


@pytest.mark.parametrize(
    "change",
    [
        {"reach": 0},
        {"reach": True},
        {"rates": ["0"]},
        {"rates": ["1/3", "1/3"]},
        {"rates": ["1/3", "1/2"], "rate_of": [0]},
        {"rates": ["1/3", "1/2"], "rate_of": [0, 2]},
        {"asked": {"items": 3, "l_max": 5, "levels": [{"parents": [0, 0], "items": [0, 0]}]}},
        {"asked": {"items": 3, "l_max": 5, "levels": [{"parents": [0, 1], "items": [0, 0]}]}},
        {"asked": {"items": 3, "l_max": 5, "levels": [{"parents": [0], "items": [3]}]}},
        {"asked": {"items": 3, "l_max": 5, "levels": [{"parents": [0], "items": [0.5]}]}},
        {"asked": {"items": 64 * 65_536 + 1, "l_max": 5, "levels": []}},
        {"asked": {"items": 3, "l_max": 0, "levels": []}},
        {"asked": {"items": 3, "l_max": 5, "levels": [{"parents": [], "items": []}] * 65}},
        {"asked": None},
    ],
    ids=str,
)
def test_a_malformed_question_is_refused(change: dict[str, Any]) -> None:
    assert sequential_ngram_counts.read(GOOD).epsilon == Fraction(1, 3)
    with pytest.raises((ValueError, TypeError, KeyError)):
        sequential_ngram_counts.read(GOOD | change)


TREE = {
    "reach": 1,
    "rates": ["1/3"],
    "rate_of": None,
    "asked": {
        "items": 4,
        "bins": 2,
        "groups": [0, 1, 0, 1],
        "levels": [{"parents": [0, 0], "items": [0, 3]}],
        "asked": [1],
        "pairs": [0, 3],
    },
}


@pytest.mark.parametrize(
    "change",
    [
        {"bins": 3},
        {"groups": [0, 2, 0, 2]},
        {"pairs": [0, 0]},
        {"pairs": [0, 4]},
        {"pairs": None, "asked": [2]},
        {"items": 65_536, "bins": 65_536, "groups": list(range(65_536)), "levels": []},
        {"items": 64 * 65_536 + 1, "groups": None},
        {"levels": [{"parents": [0], "items": [4]}]},
    ],
    ids=lambda change: str(change)[:60],
)
def test_a_malformed_question_about_a_tree_is_refused(change: dict[str, Any]) -> None:
    good = sequential_prefix_tree_counts.read(TREE)
    assert good.asked.sizes.tolist() == [2, 1]  # below item 3, of the second bin, one is left
    with pytest.raises((ValueError, TypeError, KeyError)):
        sequential_prefix_tree_counts.read(TREE | {"asked": TREE["asked"] | change})  # type: ignore[operator]


def test_a_record_with_an_unknown_item_counts_nowhere() -> None:
    """It would otherwise be counted in the cells of another gram."""
    one = np.zeros(1, np.int64)
    known, unknown = [[1, 2, 0], [], [2]], [[1, 3, 0], [9], [-1, 1]]
    level = sequential_ngram_counts.Level(one, one + 1)
    layout = resolved(TreeParameters(universe=3, epsilon="1"), "sound")[1].layout
    questions: list[tuple[Counter, Any]] = [
        (sequential_ngram_counts.COUNTER, Successors(3, 5)),
        (sequential_ngram_counts.COUNTER, Successors(3, 5, (level,))),
        (sequential_ngram_counts.COUNTER, sequential_ngram_counts.Lengths(3, 4)),
        (sequential_prefix_tree_counts.COUNTER, Below(layout, (), one, one)),
        (sequential_prefix_tree_counts.COUNTER, Below(layout, (level,), one, one)),
    ]
    for counter, document in questions:
        asked = CountSum.of(counter, document, 5, (Fraction(1),), np.zeros_like(document.sizes))
        mixed = [row for pair in zip(known, unknown, strict=True) for row in pair]
        assert asked.total(lists_of(known)).any()
        assert asked.total(lists_of(mixed)).tolist() == asked.total(lists_of(known)).tolist()
        assert not asked.total(lists_of(unknown)).any()


def test_what_passes_the_reach_is_dropped_last_ones_first() -> None:
    """A coordinator that states too small a reach costs utility, never privacy."""
    asked = CountSum.of(
        sequential_ngram_counts.COUNTER, Successors(3, 9), 2, (Fraction(1),), np.zeros(1, np.int64)
    )
    assert asked.total(lists_of([[0, 1, 2, 2, 2]])).tolist() == [1, 1, 0]
    assert asked.total(lists_of([[2, 2, 2], [1, 2, 0], []])).tolist() == [0, 1, 3]


@pytest.mark.parametrize(
    ("items", "l_max", "n_max", "uniform"),
    [(2, 3, 3, Fraction(8, 9)), (2, 5, 5, Fraction(19, 25))],
)
def test_what_one_sequence_adds_to_each_question(
    items: int, l_max: int, n_max: int, uniform: Fraction
) -> None:
    """All sequences up to l_max + 1, every gram expanded: the worst transcript."""
    worst, totals = [0] * n_max, []
    grams = [list(product(range(items), repeat=length)) for length in range(n_max)]
    levels: list[Any] = []
    documents = [Successors(items, l_max)]
    for length in range(1, n_max):
        rank = {gram: place for place, gram in enumerate(grams[length - 1])}
        level = sequential_ngram_counts.Level(
            np.array([rank[gram[:-1]] for gram in grams[length]]),
            np.array([gram[-1] for gram in grams[length]]),
        )
        levels.append(level)
        documents.append(Successors(items, l_max, tuple(levels)))
    for length in range(l_max + 2):
        for sequence in product(range(items), repeat=length):
            one = lists_of([list(sequence)])
            moved = [sequential_ngram_counts.COUNTER.of(one, each)[1].size for each in documents]
            worst = [max(pair) for pair in zip(worst, moved, strict=True)]
            totals.append(Fraction(sum(moved), l_max * n_max))
    assert worst == [l_max, *(l_max - level + 2 for level in range(2, n_max + 1))]
    assert max(totals) == uniform


@pytest.mark.parametrize(
    ("l_max", "n_max", "with_end"), [(3, 3, Fraction(10, 9)), (5, 5, Fraction(26, 25))]
)
def test_the_worst_adaptive_transcript_spends_epsilon_and_with_the_end_at_level_1_more(
    l_max: int, n_max: int, with_end: Fraction
) -> None:
    """All that is left goes to the second level. Would the end follow the empty gram too, a
    sequence had one count more there, and would spend more than epsilon."""
    root = Fraction(1, n_max)
    documents = [
        Successors(2, l_max),
        Successors(2, l_max, (Level(np.zeros(2, np.int64), np.arange(2)),)),
    ]
    counter, totals, more = sequential_ngram_counts.COUNTER, [], []
    for length in range(l_max + 2):
        for sequence in product(range(2), repeat=length):
            one = lists_of([list(sequence)])
            first, second = (counter.of(one, each)[1].size for each in documents)
            totals.append((first * root + second * (1 - root)) / l_max)
            everything = counter.follow(one, documents[0]).starts.size
            more.append((everything * root + second * (1 - root)) / l_max)
    assert (max(totals), max(more)) == (1, with_end)


@pytest.mark.parametrize("fan_out", [None, 2])
def test_one_sequence_is_in_one_cell_of_a_trees_question(fan_out: int | None) -> None:
    params = TreeParameters(universe=4, epsilon="100", height=3, fan_out=fan_out)
    state = tree_counts.first(resolved(params, "sound")[1])
    everything = lists_of([list(row) for row in product(range(4), repeat=3)] * 9)
    source = ExactKeeper(SequentialContext(), sequential_prefix_tree_counts.COUNTER, [everything])
    asked = 0
    while (question := tree_counts.ask(state)) is not None:
        for row in [(), (1,), (3, 0), (2, 2, 2), (0, 1, 2, 3, 0, 1)]:
            _, cells = sequential_prefix_tree_counts.COUNTER.of(
                lists_of([list(row)]), question.document
            )
            assert cells.size == (len(row) > len(state.levels))
        state, asked = (
            tree_counts.absorb(state, question, source.answer(question)),
            asked + 1,
        )
    assert asked == (3 if fan_out is None else 6)
    assert state.tree.nodes == 4 + 16 + 64


def test_a_time_that_falls_counts_nowhere() -> None:
    """A keeper refuses it; at curators nobody may hear of it."""
    layout = resolved(TreeParameters(universe=4, epsilon="1", time_bins=2), "sound")[1].layout
    level = sequential_prefix_tree_counts.Level(np.zeros(1, np.int64), np.array([2]))
    asked = Below(layout, (level,), np.zeros(1, np.int64), np.zeros(1, np.int64))
    records, cells = sequential_prefix_tree_counts.COUNTER.of(
        lists_of([[2, 1], [2, 3], [2, 2], [2]]), asked
    )
    assert records.tolist() == [1, 2]
    assert asked.named(cells)[1].tolist() == [3, 2]


class AllPass:
    """A source of which every cell passes: the longest chain of every record."""

    def answer(self, question: Question) -> Answer:
        return Opened(question, np.full(int(question.sizes.sum()), 10**6))


@pytest.mark.parametrize(("items", "fanout"), [(2, 2), (5, 2), (9, 4)])
def test_every_record_spends_epsilon_along_its_chain_of_diffpart(items: int, fanout: int) -> None:
    """All records over the universe, in exact fractions; one cell of each question at most."""
    epsilon = Fraction(3, 7)
    law = SoundLaw(Fraction(1, 2), Fraction(1, 2))
    parts = DiffPart(Taxonomy(items, fanout), SetSettings(epsilon, law))
    everyone = lists_of(
        [[item for item in range(items) if mask >> item & 1] for mask in range(1, 1 << items)]
    )
    spent = [Fraction(0)] * everyone.count
    state, walk, last = parts.first(), everyone, []
    while (question := parts.ask(state)) is not None:
        walk = set_valued_counts.follow(walk, question.document)
        records, cells = set_valued_counts.cells(walk, question.document)
        numbers = records().tolist()
        assert len(set(numbers)) == len(numbers)
        groups = np.searchsorted(question.bounds, cells, side="right") - 1
        for record, group in zip(numbers, groups.tolist(), strict=True):
            spent[record] += question.rates[question.rate_of[group]]
        last.append(len(numbers))
        state = parts.absorb(state, question, AllPass().answer(question))
    assert set(spent) == {epsilon}
    assert last[0] == everyone.count
    assert len(state.rows) == everyone.count


def test_worked_example_a() -> None:
    """Two clinics, three rounds, threshold 3 (spec: federated-counting, section 12)."""
    one = lists_of([[1, 2, 0], [1, 2, 0], [1, 2]])
    other = lists_of([[2, 1], [2, 1], [2, 1, 0]])
    third = lists_of([[1, 2, 0, 1, 2], [2, 0, 1, 2]])
    settings = Settings(
        items=3,
        epsilon=Fraction(1),
        l_max=5,
        n_max=3,
        threshold=lambda _budget: 3.0,
        budget="uniform",
    )
    state = first_ngrams(settings)
    counter = sequential_ngram_counts.COUNTER
    source = Curators(counter, [one, other, third])
    long = lists_of([[1, 2, 0, 1, 2]])
    spends, sums = [], []
    while (question := NGRAM_COUNTING.ask(state)) is not None:
        asked = sum_of(counter, question)
        assert asked.rates == (Fraction(1, 3),)
        assert asked.blocks[0].bound / (asked.blocks[0].share * asked.epsilon) == 15
        if len(sums) == 0:
            vectors = [asked.total(part).tolist() for part in source.parts]
            assert vectors == [[2, 3, 3], [1, 3, 3], [2, 3, 4]]
        sums.append(source.opened(asked).tolist())
        spends.append(Fraction(int(asked.total(long).sum()), 15))
        state = NGRAM_COUNTING.absorb(state, question, source.answer(question))
    assert sums[0] == [5, 9, 10]
    assert sums[1] == [0, 2, 0, 3, 1, 0, 6, 2, 4, 3, 0, 3]
    assert len(sums[2]) == 12
    tree = state.tree
    assert tree is not None
    assert sorted(zip(*[each.tolist() for each in tree.levels[1]], strict=True)) == [
        (1, 2),
        (2, 0),
        (2, 1),
    ]
    assert spends == [Fraction(1, 3), Fraction(1, 3), Fraction(1, 5)]
    assert sum(spends) == Fraction(13, 15)


def test_worked_example_b() -> None:
    """DiffPart on the eight records, fan-out 2, I34 split first: blocks, shares and scales."""
    lists = Lists(TABLE_4_1.values, TABLE_4_1.offsets)
    parts = DiffPart(
        Taxonomy(4, 2), SetSettings(Fraction(1), SilentLaw()), pick=lambda _, nodes: nodes - 1
    )
    source = Curators(set_valued_counts.COUNTER, split(lists, 3))
    state, steps, spent = parts.first(), [], [Fraction(0)] * 8
    while (question := parts.ask(state)) is not None:
        asked = sum_of(set_valued_counts.COUNTER, question)
        scales = [block.bound / (block.share * asked.epsilon) for block in asked.blocks]
        steps.append((asked.rates, asked.epsilon, scales, source.opened(asked).tolist()))
        records, cells = set_valued_counts.COUNTER.of(lists, question.document)
        groups = np.searchsorted(question.bounds, cells, side="right") - 1
        for record, group in zip(records.tolist(), groups.tolist(), strict=True):
            spent[record] += question.rates[question.rate_of[group]]
        state = parts.absorb(state, question, source.answer(question))
    sixth, third = Fraction(1, 6), Fraction(1, 3)
    assert steps == [
        ((sixth,), sixth, [6], [4, 0, 4]),
        ((sixth, 5 * sixth), 1, [6, Fraction(6, 5)], [0, 1, 3, 1, 2, 1]),
        ((2 * third,), 2 * third, [Fraction(3, 2)], [0, 1, 0, 0, 1, 2]),
    ]
    assert set(spent) == {1}
    assert sum(epsilon for _, epsilon, _, _ in steps) == Fraction(11, 6)
    assert sum(max(rates) for rates, *_ in steps) == Fraction(5, 3)


def test_a_question_is_a_query_with_the_noise_that_it_asks_for() -> None:
    """Adaptive n-grams: several blocks, and A / e is the scale of each."""
    params = NgramParameters(universe=SAMPLE.dataset.universe, epsilon="60", l_max=12)
    counter = sequential_ngram_counts.COUNTER
    state = first_state(params, "sound", 68, DRAWS)
    source = ExactKeeper(SequentialContext(), counter, [SAMPLE.dataset.lists])
    assumed = Collusion(curators=0, aggregators=1)
    federation = Federation(collect="rounds", columns=("sequences",), n_max=100, collusion=assumed)
    job = "0198c2d0-7c1a-7000-8000-000000000000"
    plan = JobPlan(job, "sequential-ngram", bytes(32), federation)
    scope = ngrams.ROUNDS.scope(params)
    number = 0
    while (question := NGRAM_COUNTING.ask(state)) is not None:
        number += 1
        asked = sum_of(counter, question)
        _, query = step_of_sum(plan, number, asked, scope)
        assert noise_share(query, scope) == Fraction(3, 2)
        assert query.every_record
        noise = aggregator_plan(query)
        assert noise is not None
        assert noise.scales == tuple(question.reach / rate for rate in asked.rates)
        assert sum(noise.dimensions) == int(question.sizes.sum())
        state = NGRAM_COUNTING.absorb(state, question, source.answer(question))
    assert number == 5
