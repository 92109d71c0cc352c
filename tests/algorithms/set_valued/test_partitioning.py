"""DiffPart: taxonomy, cuts, budgets, the run itself."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.contract import SequentialContext
from algorithms.counts.keeper import KeeperSource, tossed
from algorithms.set_valued.counts import (
    Cut,
    DiffPart,
    Split,
    State,
    child_cut,
    itemset,
    root_cut,
    split_of,
)
from algorithms.set_valued.settings import (
    RowCap,
    Settings,
    SoundLaw,
    anywhere,
    integer_test,
    leftmost,
)
from simulation.stand_in_data import msnbc_like
from tacit.encoders.counts import Counter as Counting
from tacit.encoders.set_valued_counts import Generation, Node, Splits, Taxonomy
from tacit.randomness import SeededRandom
from tacit.records.items import Transactions
from tests.algorithms.set_valued.examples import ITEMS, TABLE_4_1, SilentLaw, released, rightmost
from tests.property_examples import examples

HALF = Fraction(1, 2)
SOUND = SoundLaw(HALF, HALF)


@pytest.mark.parametrize(
    ("items", "fanout", "internal", "height"),
    [(4, 2, 3, 2), (17, 10, 3, 2), (1012, 10, 115, 4), (1012, 4, 337, 5), (1012, 2, 1011, 10)],
)
def test_taxonomies_of_the_spec(items: int, fanout: int, internal: int, height: int) -> None:
    taxonomy = Taxonomy(items, fanout)
    assert (taxonomy.internal(taxonomy.root), taxonomy.root.level) == (internal, height)


def test_a_single_node_is_no_group() -> None:
    taxonomy = Taxonomy(11, 10)
    assert taxonomy.children(taxonomy.root) == (Node(1, 0), Node(0, 10))
    assert taxonomy.internal(taxonomy.root) == 2
    assert taxonomy.leaf_mask(taxonomy.root) == 0b10
    assert taxonomy.leaf_mask(Node(1, 0)) == (1 << 10) - 1


@given(st.integers(2, 500), st.integers(2, 16))
def test_a_taxonomy_holds_every_item_once(items: int, fanout: int) -> None:
    taxonomy = Taxonomy(items, fanout)
    seen, inner, queue = [], 0, [taxonomy.root]
    while queue:
        node = queue.pop()
        children = taxonomy.children(node)
        if not children:
            seen.append(node.place)
            continue
        inner += 1
        assert 2 <= len(children) <= fanout
        assert node.level == 1 + max(child.level for child in children)
        own = 1 + sum(taxonomy.internal(child) for child in children)
        assert taxonomy.internal(node) == own
        queue += children
    assert sorted(seen) == list(range(items))
    assert inner == taxonomy.internal(taxonomy.root)


def test_the_worked_example() -> None:
    """Spec: set-valued, section 8, check 1.

    Table 4.1, fan-out 2, epsilon 1, no noise, right node first.
    """
    context = SequentialContext()
    run = released(
        TABLE_4_1, Taxonomy(4, 2), Settings(Fraction(1), SilentLaw(), choose=rightmost), context
    )
    named = {tuple(ITEMS[item] for item in items): count for items, count in run.rows}
    assert named == {
        ("I1",): 1,
        ("I2",): 2,
        ("I1", "I2"): 1,
        ("I2", "I4"): 1,
        ("I2", "I3", "I4"): 1,
        ("I1", "I2", "I3", "I4"): 2,
    }
    assert run.transcript.splits == 5
    rates = Counter({test.rate: n for (_, test), n in run.transcript.tests.items()})
    # root, {I12} and its itemsets, {I12, I34} twice and its itemsets
    sixth, third = Fraction(1, 6), Fraction(1, 3)
    assert rates == {sixth: 2, Fraction(5, 6): 1, Fraction(2, 3): 2}
    taxonomy = Taxonomy(4, 2)
    root = split_of(taxonomy, root_cut(taxonomy, Fraction(1)), 0)
    assert root.alpha == sixth
    assert child_cut(taxonomy, root, 0b01).alpha == third
    both = child_cut(taxonomy, root, 0b11)
    assert both.alpha == sixth
    assert child_cut(taxonomy, split_of(taxonomy, both, 1), 0b10).alpha == sixth


rows_of_items = st.integers(2, 40).flatmap(
    lambda items: st.tuples(
        st.just(items), st.lists(st.lists(st.integers(0, items - 1), max_size=9), max_size=25)
    )
)


@examples(100)
@given(rows_of_items, st.integers(2, 16), st.sampled_from([leftmost, rightmost, anywhere]))
def test_without_noise_the_release_is_the_records(
    drawn: tuple[int, list[list[int]]], fanout: int, choose: Any
) -> None:
    items, records = drawn
    names = [str(place) for place in range(items)]
    dataset = Transactions.of([[names[item] for item in record] for record in records], names)
    run = released(
        dataset,
        Taxonomy(items, fanout),
        Settings(Fraction(1), SilentLaw(), choose=choose),
        SequentialContext(),
    )
    assert dict(run.rows) == Counter(tuple(sorted(set(record))) for record in records if record)
    assert [row for row, _ in run.rows] == sorted((row for row, _ in run.rows), key=_order)
    assert run.truth.real_rows == len(run.rows)


def _order(row: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    return len(row), row


def test_all_itemsets_rise_when_every_empty_one_passes() -> None:
    """Chance 1 and no records: the tree reaches each itemset exactly once."""
    nothing = Transactions.of([], [str(place) for place in range(11)])
    law = SilentLaw(Fraction(1))
    for fanout in (2, 3, 10):
        run = released(
            nothing, Taxonomy(11, fanout), Settings(Fraction(1), law), SequentialContext()
        )
        assert len(run.rows) == len(dict(run.rows)) == 2**11 - 1
        assert run.truth.real_rows == run.truth.real_splits == 0


def test_the_order_of_records_does_not_matter() -> None:
    """Which partitions are real, and who stood where, cannot be told from the release."""
    data = msnbc_like(2_000, 17, 4)
    bounds, values = data.dataset.offsets.tolist(), data.dataset.values.tolist()
    records = [[data.universe[item] for item in values[a:b]] for a, b in pairwise(bounds)]
    random.Random(1).shuffle(records)
    other = Transactions.of([record[::-1] for record in records], data.universe)
    runs = [
        released(each, Taxonomy(17, 10), Settings(Fraction(1), SOUND), SequentialContext(bytes(32)))
        for each in (data.dataset, other)
    ]
    assert runs[0] == runs[1]


def _chain(
    taxonomy: Taxonomy, epsilon: Fraction, generator: random.Random, leaf_mode: str
) -> tuple[list[Fraction], Fraction]:
    """The alphas of a random chain and what its itemset is counted with."""
    cut, alphas = root_cut(taxonomy, epsilon), []
    while True:
        split = split_of(taxonomy, cut, generator.randrange(len(cut.wave)))
        mask = generator.randrange(1, split.cells + 1)
        ends = mask & ~split.leaf_mask == 0
        if ends and leaf_mode == "example":
            return alphas, epsilon / 2 + cut.rest
        alphas.append(split.alpha)
        if ends:
            return alphas, epsilon / 2 + cut.rest - split.alpha
        cut = child_cut(taxonomy, split, mask)


def test_every_chain_costs_epsilon() -> None:
    """Spec: set-valued, section 8, check 2: as exact fractions, with alphas that never fall."""
    generator = random.Random(7)
    for _ in range(1500):
        taxonomy = Taxonomy(generator.randint(2, 60), generator.randint(2, 12))
        epsilon = Fraction(generator.randint(1, 300), generator.randint(1, 100))
        for leaf_mode in ("example", "pseudocode"):
            alphas, leaf = _chain(taxonomy, epsilon, generator, leaf_mode)
            assert sum(alphas) + leaf == epsilon
            assert all(one <= other for one, other in pairwise(alphas))


def _tail(alpha: float, least: int) -> tuple[float, float]:
    """P(Z >= least) and P(Z < least) of the discrete Laplace of rate alpha."""
    a = math.exp(-alpha)
    if least >= 1:
        up = a**least / (1 + a)
        return up, 1 - up
    down = a ** (1 - least) / (1 + a)
    return 1 - down, down


def _worst(
    taxonomy: Taxonomy, cut: Cut, epsilon: Fraction, record: set[int], rows: list[set[int]]
) -> float:
    """The greatest |log ratio| of any transcript of the record's chain, with it and without."""
    split = split_of(taxonomy, cut, 0)

    def mask_of(items: set[int]) -> int:
        return sum(
            1 << bit
            for bit, child in enumerate(taxonomy.children(split.node))
            if items & _below(taxonomy, child)
        )

    mask = mask_of(record)
    same = [each for each in rows if mask_of(each) == mask]
    ends = mask & ~split.leaf_mask == 0
    rate = epsilon / 2 + cut.rest if ends else split.alpha
    test = integer_test(split.cells, rate, HALF)
    without = _tail(float(rate), test.threshold - len(same))
    with_it = _tail(float(rate), test.threshold - len(same) - 1)
    absent = abs(math.log(with_it[1] / without[1]))
    if ends:
        return max(absent, float(rate))  # a value above both counts, or below both
    passed = abs(math.log(with_it[0] / without[0]))
    below = _worst(taxonomy, child_cut(taxonomy, split, mask), epsilon, record, same)
    return max(absent, passed + below)


def _below(taxonomy: Taxonomy, node: Node) -> set[int]:
    if not node.level:
        return {node.place}
    return set().union(*(_below(taxonomy, child) for child in taxonomy.children(node)))


def test_the_exact_loss_never_exceeds_epsilon() -> None:
    """Spec: set-valued, section 8, check 5: the worst transcript of 1,000 random instances."""
    generator, worst = random.Random(5), 0.0
    for _ in range(1000):
        items = generator.randint(2, 9)
        taxonomy = Taxonomy(items, generator.randint(2, 4))
        epsilon = Fraction(generator.randint(1, 40), 10)

        def drawn(items: int = items) -> set[int]:
            return set(generator.sample(range(items), generator.randint(1, items)))

        record = drawn()
        rows = [drawn() for _ in range(generator.randint(0, 4))]
        rows += [record] * generator.randint(0, 30)
        found = _worst(taxonomy, root_cut(taxonomy, epsilon), epsilon, record, rows)
        assert found <= float(epsilon) * (1 + 1e-9)
        worst = max(worst, found / float(epsilon))
    assert worst > 0.99  # the bound is tight


def generation_of(splits: list[Split]) -> Generation:
    """These splits as one depth."""
    numbers = np.arange(len(splits))
    return Generation(
        numbers,
        numbers,
        np.array([split.place for split in splits]),
        np.array([split.cells for split in splits]),
        np.array([split.leaf_mask for split in splits]),
    )


def survived(
    law: Any, taxonomy: Taxonomy, splits: list[Split], occupied: list[int]
) -> tuple[State, list[tuple[np.ndarray, np.ndarray]]]:
    """The state after one question about splits of which each has one record in these masks, and
    the masks and true counts of what passed of both kinds."""
    document = Splits(taxonomy, (generation_of(splits),))
    partitions = np.repeat(np.arange(len(splits)), len(occupied))
    cells = document.cells(partitions, np.tile(np.array(occupied, np.int64), len(splits)))
    counter = Counting(lambda walk, _: walk, lambda _walk, _document: (lambda: cells, cells))
    source = SeededRandom(11)
    keeper = KeeperSource(
        SequentialContext(), counter, [None], lambda _: (source, source), empties=tossed
    )
    parts = DiffPart(taxonomy, Settings(Fraction(1), law, max_partitions=10**9, max_rows=10**9))
    state = State(tuple(splits), document.generations)
    question = parts.ask(state)
    assert question is not None
    found = parts.absorb(state, question, keeper.answer(question))
    passed = keeper.seen[0].passed
    return found, [
        (document.named(each.cells)[1], keeper.seen[0].counts.of(each.cells)) for each in passed
    ]


def test_empty_ones_rise_with_their_chance() -> None:
    """Spec: set-valued, section 8, check 6: 15 cells, of which 1, 5, 7 are occupied, chance 0.2."""
    taxonomy, count = Taxonomy(16, 4), 3_000
    split = split_of(taxonomy, root_cut(taxonomy, Fraction(1)), 0)
    assert split.cells == 15
    _, ((masks, counts), (leaves, _)) = survived(
        SilentLaw(Fraction(1, 5)), taxonomy, [split] * count, [1, 5, 7]
    )
    assert not leaves.size
    seen = np.bincount(masks[counts == 0], minlength=16)
    assert (seen[[0, 1, 5, 7]] == 0).all()
    free = np.delete(np.arange(16), [0, 1, 5, 7])
    # 12 cells, five and a half standard deviations each: false alarm below 1e-6
    assert np.abs(seen[free] / count - 0.2).max() < 0.0402


def test_no_coin_where_all_are_occupied() -> None:
    """The printed loop draws once more, and its claim fails (spec: set-valued, section 4.2)."""
    taxonomy = Taxonomy(2, 2)
    split = split_of(taxonomy, root_cut(taxonomy, Fraction(1, 10)), 0)
    _, ((inner, _), (leaves, counts)) = survived(
        SilentLaw(Fraction(1)), taxonomy, [split], [1, 2, 3]
    )
    assert not inner.size
    assert leaves.tolist() == [1, 2, 3]
    assert counts.tolist() == [1, 1, 1]
    # printed: two draws for one empty cell under D', so that the ratio passes e^epsilon
    p = math.exp(-math.sqrt(2) * 1.2) / 2
    printed = (2 * p - p**2) / p / math.exp(0.1)
    assert printed == pytest.approx(1.727, abs=0.001)
    assert printed > math.exp(0.1)
    assert p / (p * math.exp(0.1)) >= math.exp(-0.1) * (1 - 1e-12)  # with the right number


def test_both_kinds_in_one_split() -> None:
    """11 items, fan-out 10: the root's last child is an item, tested as one."""
    taxonomy = Taxonomy(11, 10)
    split = split_of(taxonomy, root_cut(taxonomy, Fraction(1)), 0)
    assert (split.cells, split.leaf_mask) == (3, 2)
    assert itemset(taxonomy, split, 2) == (10,)
    state, ((inner, _), (leaves, _)) = survived(SilentLaw(Fraction(1)), taxonomy, [split], [])
    assert inner.tolist() == [1, 3]
    assert leaves.tolist() == [2]
    assert {test.rate for _, test in state.transcript.tests} == {Fraction(1, 4), Fraction(1)}


def test_too_many_rows() -> None:
    nothing = Transactions.of([], [str(place) for place in range(11)])
    law = SilentLaw(Fraction(1))
    for cap in (5, 1500):
        with pytest.raises(RowCap, match=str(cap)):
            released(
                nothing, Taxonomy(11, 4), Settings(HALF, law, max_rows=cap), SequentialContext()
            )
