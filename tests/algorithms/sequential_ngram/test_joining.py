"""What l_max auto knows of lengths in `sound`: shares, levels, the number of sequences; fragments
that are joined. Spec: sequential-ngram, section 3, steps 2 and 9, and 4.7.

The root's threshold, what stays of the others, joins that are capped. Spec: sequential-ngram,
section 3, steps 4 and 7.
"""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import Outcome, SequentialContext
from algorithms.graph_der.degrees import DegreeLaw
from algorithms.sequential_ngram import Parameters, preview, run
from algorithms.sequential_ngram.counts import planted, root
from algorithms.sequential_ngram.joining import Multiset, joined
from algorithms.sequential_ngram.publication import (
    Grams,
    estimated,
    extended,
    spread,
    with_clear_root,
)
from algorithms.sequential_ngram.settings import (
    MOST_ROOT_SHARE,
    BadLength,
    LengthRanges,
    TooManySequences,
    least_budget,
    whole_height,
)
from tacit.encoders import sequential_ngram_counts, sums
from tacit.encoders.count_sums import CountSum
from tacit.encoders.sequential_ngram_counts import COUNTER, LengthsByRange
from tacit.noise import DiscreteLaplace
from tacit.randomness import SeededRandom
from tacit.records.items import Sequences
from tests.algorithms.counts.test_rounds import lists_of
from tests.algorithms.sequential_ngram.examples import settings

ITEMS = tuple(f"i{number:03}" for number in range(120))


def chains(sequences: int, mean: float, seed: int = 1) -> Sequences:
    """Walks that often repeat one of few steps; lengths are lognormal."""
    generator = np.random.default_rng(seed)
    lengths = np.clip(np.rint(np.exp(generator.normal(np.log(mean), 0.5, sequences))), 1, 90)
    rows = []
    for length in lengths.astype(int).tolist():
        row = [int(generator.integers(30))]
        while len(row) < length:
            near = (row[-1] * 7 + 3) % 40
            row.append(near if generator.random() < 0.6 else int(generator.zipf(1.6)) % 120)
        rows.append([ITEMS[item] for item in row])
    return Sequences.of(ITEMS, rows)


def ranges_of(lengths: list[int], cap: int = 100) -> LengthRanges:
    asked = LengthsByRange(5, cap)
    _, cells = COUNTER.of(lists_of([[0] * length for length in lengths]), asked)
    counts = np.bincount(cells, minlength=int(asked.sizes[0]))
    return LengthRanges.of(counts, cap, Fraction(1, 1000), Fraction(1))


@pytest.mark.parametrize("cap", [1, 2, 3, 5, 64, 100])
def test_each_sequence_is_in_one_range(cap: int) -> None:
    """Brute force: every length beside every other; longer ones are in the last range."""
    asked = LengthsByRange(5, cap)
    total = CountSum.of(COUNTER, asked, 1, (Fraction(1),), np.zeros(1, np.int64))
    read = sums.read("sequential-ngram", total.document())
    for length in range(1, 2 * cap + 2):
        found = read.total(lists_of([[0] * length, [], [1]]))
        end = min(length, cap)
        place = next(step for step in range(20) if end <= 2**step)
        expected = np.zeros(found.size, int)
        expected[place] += 1
        expected[0] += 1
        assert found.tolist() == expected.tolist()
        assert read.moved(lists_of([[0] * length])).tolist() == [[1]]  # type: ignore[attr-defined]
    document = total.document()
    changed = {**document, "asked": {**document["asked"], "ranges": 2}}
    with pytest.raises(sums.SumRefused):
        sums.read("sequential-ngram", changed)


def test_what_ranges_say() -> None:
    lengths = [1] * 400 + [2] * 300 + [3, 4] * 100 + [5, 6, 7, 8] * 25
    found = ranges_of(lengths)
    assert found.listed().tolist() == sorted(lengths)
    assert found.l_max(5, Fraction(10_000)) == 6
    assert found.l_max(5, Fraction(1, 50)) < 3  # noise is worse than what is cut off
    assert found.stretch(2) == pytest.approx(sum(lengths) / (400 + 2 * 600))
    assert ranges_of([]).l_max(5, Fraction(1)) == 1
    noisy = LengthRanges.of(np.array([50, 27, -30, 29]), 8, Fraction(10), Fraction(1))
    assert noisy.sequences.tolist() == [50, 0, 0, 29]


@pytest.mark.parametrize(
    ("noisy", "stay"),
    [
        ([0, 45, 900, 45, 40, 0, 0, 45], [0, 45, 900, 45, 0, 0, 0, 0]),
        ([0, 45, 900, 20, 45, 60, 0, 57], [0, 45, 900, 0, 45, 60, 0, 57]),
        ([50, 0, 43, 0, 0, 0, 0, 43], [50, 0, 0, 0, 0, 0, 0, 0]),
        ([9, -40, 9, 0, 0, 0, 0, 0], [0] * 8),
    ],
    ids=["apart", "clear", "largest", "none"],
)
def test_a_count_of_lengths_that_stands_apart_is_noise(noisy: list[int], stay: list[int]) -> None:
    """Two deviations are 28.3, three 42.4, four 56.6."""
    counts, scale = np.array(noisy), Fraction(10)
    found = LengthRanges.of(counts, 100, scale, Fraction(1), apart=False)
    assert found.sequences.tolist() == stay
    balanced = LengthRanges.of(counts, 100, scale, Fraction(1))
    assert balanced.sequences.tolist() == [each * (each > 28) for each in noisy]


def test_the_plan_follows_from_the_forecast() -> None:
    """Few sequences: single items and pairs alone, most of epsilon to items; many: equal parts."""
    few, many = ranges_of([20] * 200), ranges_of([20] * 400_000)
    assert few.plan(500, 20, 5, Fraction(1)) == (2, MOST_ROOT_SHARE)
    assert many.plan(17, 20, 5, Fraction(1)) == (5, Fraction(1, 5))
    assert few.plan(500, 20, 1, Fraction(1)) == (1, Fraction(1))
    shares = [ranges_of([9] * 300 * 4**step).plan(300, 9, 5, Fraction(1))[1] for step in range(6)]
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("n_max", range(2, 7))
def test_a_path_spends_epsilon_at_most_whatever_items_get(n_max: int) -> None:
    """All heights that a run can choose, as fractions: budgets of a path add up to at most epsilon,
    which is reached, and none is below the least one that a preview states."""
    for share in (Fraction(1, 2), MOST_ROOT_SHARE):
        least, most = Fraction(2), Fraction(0)
        choices = [range(1, n_max - level + 1) for level in range(1, n_max)]
        for heights in itertools.product(*choices):
            left = 1 - share
            spent = share
            for height in heights:
                budget = left / height
                least, spent, left = min(least, budget or least), spent + budget, left - budget
            most = max(most, spent)
        assert most == 1
        assert least_budget(Fraction(1), n_max, "adaptive", share) <= min(least, share)
    assert whole_height(5, 5, 0.5, 4) >= 1


def multiset(*rows: tuple[tuple[int, ...], int]) -> Multiset:
    items = np.array([item for row, _ in rows for item in row], np.int64)
    starts = np.concatenate(([0], np.cumsum([len(row) for row, _ in rows])))
    return Multiset(items, starts, np.array([count for _, count in rows]))


def test_joined_fragments_keep_items_and_grams() -> None:
    fragments = multiset(((0,), 40), ((1,), 17), ((0, 2), 9), ((3, 4, 5), 6))
    wanted = np.array([2] * 10 + [6] * 10 + [12])
    found = joined(fragments, wanted, SeededRandom(1))
    assert found.sequences == wanted.size
    assert found.occurrences(6).tolist() == fragments.occurrences(6).tolist()
    rows = [
        tuple(found.items[low:high].tolist())
        for low, high in zip(found.starts, found.starts[1:], strict=False)
    ]
    assert len(set(rows)) == len(rows)
    pairs = sum(
        count * sum(pair == (3, 4) for pair in itertools.pairwise(row))
        for row, count in zip(rows, found.counts.tolist(), strict=True)
    )
    assert pairs == 6
    assert max(map(len, rows)) >= 8  # long ones are wanted, too
    assert joined(fragments, np.array([3] * 72), SeededRandom(1)) is fragments
    assert joined(fragments, np.zeros(0, np.int64), SeededRandom(1)) is fragments


@pytest.mark.parametrize(("sequences", "mean"), [(8_000, 4.0), (700, 30.0)])
def test_as_many_sequences_as_there_are(sequences: int, mean: float) -> None:
    """Within 10 % at epsilon 1, of ten seeds at most two further off; items nearer than before."""
    data = chains(sequences, mean)
    true = np.bincount(data.items, minlength=len(ITEMS))
    common = np.argsort(-true)[:40]
    off = []
    errors: dict[Any, list[float]] = {20: [], None: []}
    for seed in range(10):
        for l_max, error in errors.items():
            asked = Parameters(universe=ITEMS, epsilon=Fraction(1), l_max=l_max)  # type: ignore[arg-type]
            outcome = run(data, asked, "sound", SequentialContext(test_seed=seed))
            counts = np.zeros(len(ITEMS))
            for line in outcome.files[0].content.decode().splitlines()[1:]:
                often, _, items = line.split(",")
                for item in items.split():
                    counts[ITEMS.index(item)] += int(often)
            error.append(float(np.mean(np.abs(counts - true)[common] / true[common])))
        off.append(abs(outcome.result["sequences"] / sequences - 1))
    assert sorted(off)[-3] < 0.1
    assert np.mean(errors[None]) < 0.7 * np.mean(errors[20])


def test_a_report_says_what_was_decided() -> None:
    outcome = run(
        chains(3_000, 5.0),
        Parameters(universe=ITEMS, epsilon=Fraction(1)),
        "sound",
        SequentialContext(test_seed=1),
    )
    details = outcome.report.details
    assert Fraction(details["share_of_single_items"]) in (Fraction(1, 2), MOST_ROOT_SHARE)
    assert details["n_max"] == 2
    assert details["sequences_counted"] == outcome.result["sequences"]
    assert Fraction(details["max_path_spend"]) + Fraction(details["epsilon_length"]) <= 1
    assert sequential_ngram_counts.MOST_LENGTH == 1_000


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


@pytest.mark.parametrize("scale", [2.0, 150.0, 1e7])
def test_the_law_of_all_counts(scale: float) -> None:
    """Nine in ten items are rare: those below four scales are nearer than the noisy counts, without
    bias; the others are as they were."""
    generator = np.random.default_rng(5)
    true = np.rint(scale * np.where(generator.random(3_000) < 0.9, 0.5, 20.0)).astype(np.int64)
    true[:3] = int(90 * scale), int(2_000 * scale), int(9_000 * scale)
    noise = DiscreteLaplace(Fraction(scale)).draw(SeededRandom(1), true.size)
    found = estimated(true + noise, scale, 1.0)
    noisy = true + noise
    small = noisy < 4 * scale
    assert found[~small].tolist() == noisy[~small].tolist()
    assert 200 < np.count_nonzero(~small) < 400
    error = np.abs(found - true)[small].mean()
    assert error < 0.5 * np.abs(np.maximum(noisy, 0) - true)[small].mean()
    assert found[small].mean() == pytest.approx(true[small].mean(), rel=0.1)
    if scale == 2.0:
        law = DegreeLaw.of(np.minimum(noisy, 200), scale, 1.0).means(noisy[small])
        assert found[small].tolist() == law.tolist()


def test_items_by_hand_with_the_aim_items() -> None:
    """Estimates are rounded without bias; where all counts together are no more than noise, those
    below the threshold are 0."""
    chosen = settings(
        items=6, root="threshold", l_max=1, n_max=1, root_share=Fraction(1), threshold=lambda _b: 4
    )
    rich = planted(root(chosen), np.array([[50, 10, 3, 2, 0, -1]]))
    rows = [with_clear_root(rich, SeededRandom(seed)).noisy[0, :6] for seed in range(2_000)]
    expected = estimated(rich.noisy[0, :6], 1.0, 1.0)
    assert np.mean(rows, axis=0) == pytest.approx(expected, abs=0.05)
    assert expected[:2].tolist() == [50, 10]
    assert 0 < expected[5] < expected[3] < expected[2] < 4
    thin = planted(root(chosen), np.array([[4, 3, 3, 1, -1, 0]]))
    assert with_clear_root(thin, SeededRandom(1)).noisy[0].tolist() == [4, 0, 0, 0, 0, 0, 0]


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


def done(data: Sequences, items: int, seed: int = 3, **changes: Any) -> Outcome:
    asked = Parameters(**({"epsilon": "1", "universe": items, "l_max": 20} | changes))
    return run(data, asked, "sound", SequentialContext(test_seed=seed))


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


def test_the_aim_items_counts_nothing_else() -> None:
    """Nearly all of epsilon is for items, before a run and of one: in five runs they are off by no
    more than Laplace noise alone makes them, and half as far as without the aim. The file has what
    is stated of each item, in as many sequences as there are."""
    data = sequences(500, 5_000)
    true = np.bincount(data.items, minlength=500)
    changes = {"l_max": None, "epsilon": "2"}
    errors: dict[str, list[float]] = {"items": [], "balanced": [], "noise": []}
    for seed in range(5):
        for aim in ("items", "balanced"):
            found = item_counts(done(data, 500, seed=seed, aim=aim, **changes), 500)
            errors[aim].append(float(np.mean(np.abs(found - true) / np.maximum(true, 1))))
        noise = DiscreteLaplace(Fraction(4 * 20, 2 * 19)).draw(SeededRandom(seed), 500)
        noisy = np.maximum(true + noise, 0)
        errors["noise"].append(float(np.mean(np.abs(noisy - true) / np.maximum(true, 1))))
    means = {name: float(np.mean(each)) for name, each in errors.items()}
    assert means["items"] < 1.1 * means["noise"]
    assert means["items"] < means["balanced"] / 2

    outcome = done(data, 500, aim="items", **changes)
    asked = Parameters(universe=500, aim="items", epsilon="2")  # type: ignore[arg-type]
    for report in (preview(asked, "sound"), outcome.report):
        assert report.mechanism.parameters["aim"] == "items"
        assert report.mechanism.parameters["n_max"] == 1
        assert report.details["epsilon_length"] == "0.1"
        assert len(report.noise) == len(report.sensitivity) == 2
        assert report.noise[1].scale == "10"
    details = outcome.report.details
    assert details["share_of_single_items"] == "1"
    assert Fraction(details["max_path_spend"]) + Fraction("0.1") == 2
    assert outcome.result["l_max"] == 4
    assert outcome.result["sequences"] == details["sequences_counted"]
    assert outcome.result["sequences"] == pytest.approx(5_000, rel=0.02)
    assert (outcome.result["extended_grams"], outcome.result["patterns"]) == (0, [])
    stated = np.zeros(500)
    for line in outcome.files[2].content.decode().splitlines()[1:]:
        count, length, _, name = line.split(",")
        assert length == "1"
        stated[int(name) - 1] = int(count)
    assert stated.tolist() == item_counts(outcome, 500).tolist()


def test_the_aim_items_with_a_given_l_max() -> None:
    """All of epsilon is for items, whatever n_max is; sequences are by chance."""
    outcome = done(sequences(20, 500), 20, aim="items", l_max=4, n_max=5)
    assert [noise.scale for noise in outcome.report.noise] == ["4"]
    assert outcome.report.details["max_path_spend"] == "1"
    assert outcome.result["extended_grams"] > 0
    assert set(done(sequences(20, 500), 20, aim="items", root="all").result) == set(outcome.result)
    with pytest.raises(BadLength):
        done(sequences(20, 500), 20, aim="items", n_max=11)


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


def test_counts_that_a_curator_made_up_fill_no_memory() -> None:
    """Without a proof one curator moves a count by any amount."""
    for made_up in (10**8, 10**15):
        with pytest.raises(TooManySequences):
            LengthRanges.of(np.array([5, made_up, 0]), 4, Fraction(1), Fraction(3))
    fragments = Multiset(np.zeros(1, np.int64), np.array([0, 1]), np.array([10**12]))
    with pytest.raises(TooManySequences):
        joined(fragments, np.ones(3, np.int64), SeededRandom(1))
