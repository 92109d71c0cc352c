"""Columns, what instants cost, and checkpoints, against the plain way and a fold from the start."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.budget import spending as spending_module
from coordinator.budget.limits import Limits, Planned, shortages
from coordinator.budget.round_charges import Price
from coordinator.budget.spending import Spending, worst_of_one
from coordinator.models.budget_ledger import MemberSet
from tacit.accounting.amounts import FEMTO, Amount
from tacit.accounting.composition import Currency
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit
from tests.coordinator.budget.plain_spending import (
    PlainSpending,
    plain_shortages,
    plain_worst_of_one,
)
from tests.coordinator.budget.test_spending import limit
from tests.property_examples import examples

SIZE = 12


@st.composite
def prices(draw: st.DrawFn) -> Price:
    """Some figures; some without one."""
    amounts = st.none() | st.builds(
        Amount, st.integers(0, 5), st.integers(0, 3), st.integers(0, 5), st.integers(0, 3)
    )
    return Price.of(
        {(unit, scenario): draw(amounts) for unit in PrivacyUnit for scenario in Scenario}
    )


@st.composite
def members(draw: st.DrawFn, size: int) -> MemberSet:
    """Often one of three groups that share nobody, else anybody; at times over more numbers than
    there are, as of a coordinator that was restored and skips some."""
    size += draw(st.sampled_from((0, 0, 0, 2)))
    bits = np.zeros(size, np.bool_)
    group = draw(st.integers(0, 4))
    if group < 3:
        bits[group::3] = True
    else:
        bits[draw(st.lists(st.integers(0, size - 1), max_size=size))] = True
    return MemberSet.of(bits)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Rounds that are debited, settled and read, in an order that may be."""
    size = draw(st.integers(1, SIZE))
    kinds, steps, open_rounds = draw(st.lists(prices(), min_size=1, max_size=3)), [], []
    steps.append(("grow", size))
    for turn in range(draw(st.integers(1, 16))):
        match draw(st.sampled_from(("debit", "debit", "settle", "read", "grow", "keep"))):
            case "debit":
                start = draw(st.integers(0, 20))
                window = (start, start + draw(st.integers(1, 9)))
                cost, who = draw(st.sampled_from(kinds)), draw(members(size))
                name, query = f"r{turn}", draw(st.sampled_from("pq"))
                made = 1_000_000 * draw(st.integers(0, 130))
                steps.append(("debit", (name, query, made, window, cost, who, ("a", "b"))))
                open_rounds.append(name)
            case "settle" if open_rounds:
                name = open_rounds.pop(draw(st.integers(0, len(open_rounds) - 1)))
                state = draw(st.sampled_from(("released", "aborted")))
                credited = state == "aborted" and draw(st.booleans())
                left = draw(st.none() | members(size))
                steps.append(("settle", (name, state, left, credited)))
            case "grow":
                size = min(SIZE, size + draw(st.integers(0, 2)))
                steps.append(("grow", size))
            case other:
                steps.append((other if other == "keep" else "read", None))
    return steps


def play(history: list[tuple[str, Any]]) -> tuple[Spending, PlainSpending]:
    """Both ways; `keep` puts the product's state away and takes it up again."""
    book, plain = Spending(), PlainSpending()
    for what, with_ in history:
        match what:
            case "debit":
                book.debit(*with_)
                plain.debit(*with_)
            case "settle":
                name, state, left, credited = with_
                book.settle(name, state, left, credited=credited)
                plain.settle(name, state, left, credited=credited)
            case "grow":
                book.grow(with_)
                plain.grow(with_)
            case "read":
                for scenario in Scenario:
                    assert book.worst_record(scenario) == plain.worst_record(scenario)
            case _:
                book = Spending.of(book.parts())
    return book, plain


def by_curator(spent: Any) -> list[Any]:
    return [block.tolist() for block in spent.columns()]


@examples(150)
@given(histories())
@pytest.mark.slow
def test_every_figure_is_that_of_the_plain_way(history: list[tuple[str, Any]]) -> None:
    book, plain = play(history)
    for scenario in Scenario:
        assert book.worst_record(scenario) == plain.worst_record(scenario)
        assert book.worst_curator(scenario) == plain.worst_curator(scenario)
        assert by_curator(book.totals(scenario)) == by_curator(plain.totals(scenario))
        for number in range(plain.size):
            places, charges = book.of_curator(number), plain.of_curator(number)
            assert [book.rounds.name(int(place)) for place in places] == [
                charge.round for charge in charges
            ]
            assert worst_of_one(book.rounds, places, scenario) == plain_worst_of_one(
                charges, scenario
            )
    assert list(book.rounds) == list(plain.rounds)
    for name, charge in plain.rounds.items():
        mine = book.rounds[name]
        assert mine.price.text == charge.price.text
        for field in ("query_id", "made", "start", "end", "members", "operators", "state"):
            assert getattr(mine, field) == getattr(charge, field)
        assert (mine.credited, mine.invited) == (charge.credited, charge.invited)
        assert (book.members_of(mine) == plain.members_of(charge)).all()


@examples(150)
@given(
    histories(),
    prices(),
    members(SIZE).filter(lambda who: who.size == SIZE),
    st.integers(0, 20),
    st.integers(1, 12),
    st.integers(0, 9),
    st.integers(0, 130),
)
def test_every_limit_refuses_what_the_plain_way_refuses(
    history: list[tuple[str, Any]],
    cost: Price,
    who: MemberSet,
    start: int,
    length: int,
    most: int,
    now: int,
) -> None:
    book, plain = play([*history, ("grow", SIZE)])
    epsilon = f"{most / 10**6:f}"
    limits = Limits(
        tuple(
            limit(epsilon, delta=Fraction(4, FEMTO), **more)
            for more in (
                {},
                {"unit": "record"},
                {"scenario": "all-aggregators"},
                {"unit": "record", "scenario": "all-aggregators"},
                {"period_s": 60},
            )
        )
        + tuple(
            limit(f"{most}/10000", delta=Fraction(1, 10**6), currency=Currency.ZCDP, **more)
            for more in ({}, {"unit": "record"}, {"scenario": "all-aggregators"}, {"period_s": 60})
        )
    ).changed(1, (limit("0.000002"),))
    plan = Planned(cost, who.bits(), (start, start + length), 1_000_000 * now)
    found, wanted = shortages(limits, book, plan), plain_shortages(limits, plain, plan)
    assert [(item.figures(), item.instant, item.rounds) for item in found] == [
        (item.figures(), item.instant, item.rounds) for item in wanted
    ]
    assert [item.members.tolist() for item in found] == [item.members.tolist() for item in wanted]


@pytest.mark.parametrize("block", [8, 1 << 16], ids=["many curators", "few curators"])
@pytest.mark.slow
def test_bounds_on_what_is_kept_unpacked_or_touched_change_no_figure(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(spending_module, "BLOCK", block)
    monkeypatch.setattr(spending_module, "READY_BYTES", 8)
    monkeypatch.setattr(spending_module, "MOST_PENDING", 2)
    monkeypatch.setattr(spending_module, "MOST_TOUCHED", 2)
    chance = np.random.default_rng(5)
    book, plain = Spending(), PlainSpending()
    for each in (book, plain):
        each.grow(400)
    for turn in range(120):
        bits = chance.random(400) < (0.01 if turn % 2 else 0.5)
        start = int(chance.integers(0, 60))
        cost = Price.of(
            {
                (unit, scenario): Amount(
                    int(chance.integers(1, 9)), 1, int(chance.integers(1, 9)), 1
                )
                for unit in PrivacyUnit
                for scenario in Scenario
            }
        )
        entry = (f"{turn}", "q", 0, (start, start + 7), cost, MemberSet.of(bits), ())
        book.debit(*entry)
        plain.debit(*entry)
        if turn % 10 == 0:
            for scenario in Scenario:
                assert book.worst_record(scenario) == plain.worst_record(scenario)
                assert book.worst_curator(scenario) == plain.worst_curator(scenario)
