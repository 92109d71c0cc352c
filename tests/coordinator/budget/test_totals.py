"""Sums by curator and columns in pages, against plain arrays."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator.budget import round_charges
from coordinator.budget.roster import PAGE, Rows
from coordinator.budget.round_charges import BLOCK, ByCurator, Spent, Totals


def everyone(by_curator: ByCurator) -> list[list[int]]:
    """(5, n) as plain lists."""
    spent = by_curator.table.at(by_curator.places.astype(np.intp))
    return [column.tolist() for column in spent.parts]


@pytest.mark.parametrize("word", [round_charges._ODD, np.uint64(0)], ids=["words", "equal words"])
@pytest.mark.parametrize("seed", range(10))
def test_totals_are_those_of_plain_arrays(
    monkeypatch: pytest.MonkeyPatch, seed: int, word: np.uint64
) -> None:
    """Also where different sums are sorted by one and the same word."""
    monkeypatch.setattr(round_charges, "_ODD", word)
    chance = np.random.default_rng(seed)
    sums, plain = Totals(2), np.zeros((5, 2, 0), np.int64)
    for _ in range(60):
        if chance.random() < 0.2:
            more = int(chance.integers(1, 60))
            plain = np.concatenate([plain, np.zeros((5, 2, more), np.int64)], axis=2)
            sums.grow(plain.shape[2])
        members = chance.random(int(chance.integers(0, plain.shape[2] + 1))) < chance.random()
        amounts = chance.integers(0, 4, (5, 2)) * (chance.random((5, 2)) < 0.7)
        sums.add(members, Spent(*amounts))
        plain[:, :, : members.size] += amounts[:, :, None] * members
    for column in range(2):
        by_curator = sums.column(column)
        assert everyone(by_curator) == plain[:, column].tolist()
        number = int(chance.integers(plain.shape[2]))
        assert by_curator.of(number).epsilon == plain[0, column, number]
        some = chance.random(plain.shape[2]) < 0.5
        assert set(by_curator.among(some).epsilon) == set(plain[0, column, some])
        assert (by_curator.whose(by_curator.table.delta > 2) == (plain[1, column] > 2)).all()
        whole = np.concatenate(list(by_curator.columns()))
        assert whole.tolist() == plain[:, column].reshape(-1).tolist()


def test_more_sums_than_fit_one_byte() -> None:
    size = BLOCK + 700
    sums = Totals(1, size)
    for bit in range(9):
        amount = Spent(*(np.full(1, value, np.int64) for value in (1 << bit, 0, 0, 0, 0)))
        sums.add((np.arange(size) >> bit & 1).astype(np.bool_), amount)
    by_curator = sums.column(0)
    assert by_curator.places.dtype == np.uint16
    assert everyone(by_curator)[0] == (np.arange(size) % 512).tolist()


def test_equal_sums_are_one_entry_again_after_a_credit() -> None:
    sums, some = Totals(1, 4), np.array([True, False, True, False])
    one = Spent(*(np.ones(1, np.int64) for _ in range(5)))
    sums.add(some, one)
    before = sums.column(0)
    sums.add(some, one.times(np.int64(-1)))
    assert sums.column(0).table.epsilon.tolist() == [0]
    assert everyone(before)[0] == [1, 0, 1, 0]


def one(epsilon: int) -> Spent:
    """An amount in one column."""
    return Spent(*(np.array([value], np.int64) for value in (epsilon, 0, 0, 0, 0)))


@pytest.mark.parametrize(("different", "kind"), [(256, np.uint8), (257, np.uint16)])
def test_a_place_takes_as_many_bytes_as_the_sums_need(different: int, kind: type) -> None:
    sums = Totals(1, 300)
    for number in range(1, different):
        sums.add(np.arange(300) == number, one(number))
    by_curator = sums.column(0)
    assert by_curator.places.dtype == kind
    assert everyone(by_curator)[0] == [n if n < different else 0 for n in range(300)]


@pytest.mark.parametrize("word", [round_charges._ODD, np.uint64(0)], ids=["words", "equal words"])
def test_nothing_is_the_first_sum_also_where_another_is_below_it(
    monkeypatch: pytest.MonkeyPatch, word: np.uint64
) -> None:
    monkeypatch.setattr(round_charges, "_ODD", word)
    sums = Totals(1, 4)
    assert sums.column(0).table.epsilon.tolist() == [0]
    for number, amount in ((1, -5), (2, -3), (3, 7)):
        sums.add(np.arange(4) == number, one(amount))
    assert everyone(sums.column(0))[0] == [0, -5, -3, 7]
    assert sums.column(0).table.epsilon[0] == 0
    sums.grow(6)
    assert everyone(sums.column(0))[0] == [0, -5, -3, 7, 0, 0]


def test_amounts_are_multiplied_in_each_part() -> None:
    amount = Spent(*(np.array([value], np.int64) for value in (2, 3, 5, 7, 11))).times(np.int64(3))
    assert [int(part[0]) for part in (amount.epsilon, amount.delta, amount.unverified)] == [
        6,
        9,
        15,
    ]


def test_rows_take_memory_page_by_page() -> None:
    rows = Rows(2, np.int64)
    numbers = [3, PAGE - 1, PAGE, 5 * PAGE + 7]
    for number in numbers:
        rows[number] = (number, 1)
    assert rows[4].tolist() == [0, 0]
    assert rows.written(0, 6 * PAGE).tolist() == numbers
    assert rows.written(4, PAGE - 3).tolist() == [PAGE - 1, PAGE]
    asked = np.array([0, 3, PAGE, 2 * PAGE, 5 * PAGE + 7])
    assert rows.of(asked)[:, 0].tolist() == [0, 3, PAGE, 0, 5 * PAGE + 7]
    assert rows.of(asked[:0]).shape == (0, 2)


def test_a_run_over_pages_is_added_to() -> None:
    rows = Rows(1, np.uint32)
    rows.add(PAGE - 2, PAGE + 4, 1)
    rows.add(PAGE, 1, 1)
    plain = np.zeros(3 * PAGE, np.int64)
    plain[PAGE - 2 : 2 * PAGE + 2] = 1
    plain[PAGE] = 2
    assert rows.of(np.arange(3 * PAGE))[:, 0].tolist() == plain.tolist()
