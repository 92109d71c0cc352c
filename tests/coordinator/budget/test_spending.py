"""What rounds cost: sums, the interval sweep and the limits, against plain computations."""

from __future__ import annotations

import random
from dataclasses import is_dataclass
from fractions import Fraction

import numpy as np
import pytest

from coordinator.budget import limits, round_charges
from coordinator.budget import spending as spending_module
from coordinator.budget.limits import Limit, Limits, Planned, shortages
from coordinator.budget.round_charges import Price
from coordinator.budget.spending import Figure, Spending, worst_of_one
from coordinator.models.budget_ledger import MemberSet
from tacit.accounting.amounts import FEMTO, MICRO, Amount
from tacit.accounting.composition import Ints
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit
from tacit.sets import Bits
from tests.coordinator.budget.plain_spending import PlainSpending

ASSUMED, EVERYONE = Scenario.ASSUMED, Scenario.EVERYONE


def price(
    record: int, curator: int, delta: int = 0, everyone: int | None = None, rho: int = 0
) -> Price:
    """Micro-epsilons of a record and of a curator, in all scenarios but the last alike; `rho`: of
    both, in 10^-9."""
    return Price.of(
        {
            (unit, scenario): None
            if scenario is EVERYONE and everyone is None
            else Amount(record if unit is PrivacyUnit.RECORD else curator, delta, rho, 0)
            for unit in PrivacyUnit
            for scenario in Scenario
        }
    )


def who(*numbers: int, size: int = 4) -> MemberSet:
    return MemberSet.of(bits(*numbers, size=size))


def bits(*numbers: int, size: int = 4) -> Bits:
    members = np.zeros(size, np.bool_)
    members[list(numbers)] = True
    return members


def spending(size: int = 4) -> Spending:
    found = Spending()
    found.grow(size)
    return found


@pytest.mark.parametrize(("factor", "curator"), [(1, 3), (4, 12)])
def test_the_sweep_of_the_specification(factor: int, curator: int) -> None:
    """Spec: budget, section 7, check 5."""
    book = spending()
    for name, window in (("a", (0, 10)), ("b", (5, 15)), ("c", (20, 30))):
        book.debit(name, "q", 0, window, price(MICRO, factor * MICRO), who(0, 1))
    record, whole = book.worst_record(ASSUMED), book.worst_curator(ASSUMED)
    assert (record.epsilon, record.instant) == (2 * MICRO, 5)
    assert whole.epsilon == curator * MICRO
    assert record.number in (0, 1)
    assert book.worst_record(EVERYONE).epsilon is None


@pytest.mark.parametrize("seed", range(30))
def test_the_worst_instant_is_that_of_a_plain_search(seed: int) -> None:
    chance, size = random.Random(seed), 5
    book, plain = spending(size), PlainSpending()
    plain.grow(size)

    def some(share: float) -> Bits:
        return bits(*(n for n in range(size) if chance.random() < share), size=size)

    for turn in range(chance.randrange(1, 14)):
        start = chance.randrange(0, 30)
        window = (start, start + chance.randrange(1, 12))
        everyone = chance.choice([None, 1, 1, 1])
        cost = price(chance.randrange(0, 5), 1, chance.randrange(0, 4), everyone)
        members, credited = some(0.5), chance.random() < 0.5
        left = MemberSet.of(members & some(0.7)) if chance.random() < 0.4 else None
        for each in (book, plain):
            each.debit(f"{turn}", "q", 0, window, cost, MemberSet.of(members))
            if left is not None:
                each.settle(f"{turn}", "aborted", left, credited=credited)
    for scenario in (ASSUMED, EVERYONE):
        found = book.worst_record(scenario)
        assert found == plain.worst_record(scenario)
        each = [
            worst_of_one(book.rounds, book.of_curator(number), scenario) for number in range(size)
        ]
        assert max(item.delta for item in each) == found.delta
        if found.epsilon is not None:
            assert max(item.epsilon or 0 for item in each) == found.epsilon


def planned(cost: Price, members: Bits, window: tuple[int, int] = (0, 10), now: int = 0) -> Planned:
    return Planned(cost, members, window, now)


def limit(epsilon: str, unit: str = "curator", **more: object) -> Limit:
    return Limit(unit=PrivacyUnit(unit), epsilon=Fraction(epsilon), **more)


_MADE = ((59_999_999, False), (60_000_000, True), (119_999_999, True), (120_000_000, False))


def test_a_period_holds_its_beginning_and_not_its_end() -> None:
    cost, limits = price(MICRO, MICRO), Limits((limit("1", period_s=60),))
    minute = 60_000_000
    for made, counts in _MADE:
        book = spending()
        book.debit("first", "q", made, (0, 10), cost, who(0))
        for now in (minute, 2 * minute - 1):
            assert bool(shortages(limits, book, planned(cost, bits(0), now=now))) == counts


def test_adjacent_windows_share_no_instant() -> None:
    book, cost = spending(), price(MICRO, MICRO)
    limits = Limits((limit("1", "record"),))
    book.debit("a", "q", 0, (10, 20), cost, who(0))
    for window, refused in (
        ((0, 10), False),
        ((0, 11), True),
        ((20, 30), False),
        ((19, 30), True),
        ((10, 20), True),
    ):
        assert bool(shortages(limits, book, planned(cost, bits(0), window))) == refused
    book.debit("b", "q", 0, (20, 30), cost, who(0))
    book.debit("c", "q", 0, (0, 10), cost, who(0))
    assert book.worst_record(Scenario.ASSUMED).epsilon == MICRO
    assert worst_of_one(book.rounds, book.of_curator(0), Scenario.ASSUMED).epsilon == MICRO
    over_all = planned(cost, bits(0), (0, 30))
    busy = spending()  # the instant 10 is tried first: most is spent there, by two curators
    for name, window, member in (("a", (0, 10), 0), ("b", (10, 20), 0), ("c", (10, 20), 1)):
        busy.debit(name, "q", 0, window, cost, who(member))
    assert busy.worst_record(Scenario.ASSUMED).epsilon == MICRO
    assert shortages(Limits((limit("2", "record"),)), book, over_all) == []


def test_delta_and_what_has_no_figure_meet_a_limit_too() -> None:
    book, cost = spending(), price(1, 1, delta=FEMTO // 10**6)
    limits = Limits((limit("5", delta=Fraction(1, 10**6)),))
    assert shortages(limits, book, planned(cost, bits(0))) == []
    book.debit("a", "q", 0, (0, 10), cost, who(0))
    assert shortages(limits, book, planned(cost, bits(0)))
    against_all = Limits((limit("5", scenario="all-aggregators"),))
    (found,) = shortages(against_all, book, planned(cost, bits(2)))
    assert found.figures()["asked"]["epsilon"] == "inf"


def test_a_credit_takes_back_the_assumed_column_only() -> None:
    book = spending()
    book.debit("a", "q", 0, (0, 10), price(MICRO, MICRO, everyone=1), who(0))
    book.settle("a", "aborted", None, credited=True)
    assert book.worst_curator(ASSUMED).epsilon == 0
    assert book.worst_curator(EVERYONE).epsilon == MICRO
    assert [book.rounds.charge(int(place)).credited for place in book.of_curator(0)] == [True]


def test_a_price_survives_its_event() -> None:
    cost = price(3, 4, 5)
    again = Price.from_payload(cost.to_payload())
    for unit in PrivacyUnit:
        for scenario in Scenario:
            assert again.cost(unit, scenario) == cost.cost(unit, scenario)


def test_many_rounds_of_one_schedule_are_looked_at_once() -> None:
    book, looks = spending(), []
    for turn in range(500):
        book.debit(f"{turn}", "q", 0, (turn, turn + 1), price(7, 7), who(0, 1))
    cost = book._cost

    def counted(kinds: Ints, counts: Ints) -> Ints:
        looks.append(counts.tolist())
        return cost(kinds, counts)

    book._cost = counted
    assert book.worst_record(ASSUMED) == Figure(7, 0, 0, 0)
    assert looks == [[1]]


def test_a_book_without_rounds_cost_nobody_anything() -> None:
    book = Spending()
    assert book.size == 0
    assert book.worst_record(ASSUMED) == book.worst_curator(ASSUMED) == Figure(0, 0)
    book.grow(2)
    assert book.size == 2
    assert spending(2).worst_curator(ASSUMED) == Figure(0, 0, 0)


def test_a_set_from_before_the_roster_grew_charges_no_later_curator() -> None:
    book = spending(2)
    book.debit("a", "q", 0, (0, 10), price(1, 1), who(0, 1, size=2))
    charge = book.rounds["a"]
    assert book.members_of(charge).tolist() == [True, True]
    book.grow(4)
    assert book.members_of(charge).tolist() == [True, True, False, False]
    assert [len(book.of_curator(number)) for number in range(4)] == [1, 1, 0, 0]


def test_the_worst_curator_is_named_by_its_epsilon_or_by_its_rounds_without_a_figure() -> None:
    book = spending()
    book.debit("a", "q", 0, (0, 10), price(3, 3), who(2))
    book.debit("b", "q", 0, (0, 10), price(5, 5, delta=9, everyone=7), who(1))
    assert book.worst_curator(ASSUMED) == Figure(5, 9, 1)
    assert book.worst_curator(EVERYONE) == Figure(None, 9, 2)
    assert [int(book.totals(EVERYONE).of(number).unverified) for number in range(3)] == [0, 0, 1]


def test_the_first_instant_keeps_its_place_where_a_later_one_costs_as_much() -> None:
    book = spending()
    book.debit("a", "q", 0, (0, 10), price(5, 5), who(0))
    book.debit("b", "q", 0, (20, 30), price(5, 5, delta=7), who(1))
    assert book.worst_record(ASSUMED) == Figure(5, 7, 0, 0)


def test_no_finite_epsilon_hides_a_round_without_a_figure() -> None:
    book = spending()
    book.debit("a", "q", 0, (0, 10), price((1 << 43) + 1, 1, everyone=1), who(0))
    book.debit("b", "q", 0, (20, 30), price(1, 1), who(1))
    assert book.worst_record(EVERYONE).epsilon is None


def test_rounds_without_a_figure_are_counted_apart_from_finite_epsilons() -> None:
    """Half a million at one instant: a large number for infinity would overflow 64 bits."""
    book = spending()
    book.debit("a", "q", 0, (0, 10), price(1, 1), who(0))
    book.debit("b", "q", 0, (20, 30), price(1, 1, everyone=1), who(1))
    many = (1 << 19) + 1
    first = book.rounds.kinds(np.zeros(many, np.intp))
    assert first[1].tolist() == [many]
    cost = book._cost(*first)[:, list(Scenario).index(EVERYONE)]
    assert cost.tolist() == [many, 0, 0, 0, many, 0, 0]


def test_the_first_curator_is_named_even_where_the_figure_was_read_before_it_joined() -> None:
    book = spending(0)
    book.debit("empty", "q", 0, (0, 10), price(1, 1), who(size=0))
    assert book.worst_curator(ASSUMED) == Figure(0, 0)
    book.grow(2)
    assert book.worst_curator(ASSUMED) == Figure(0, 0, 0)


def test_what_is_pending_is_bounded_and_one_addition_per_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spending_module, "MOST_PENDING", 2)
    book = spending()
    for turn in range(5):
        book.debit(f"same-{turn}", "q", 0, (0, 10), price(1, 1), who(0))
    assert len(book._pending) == 1
    book.debit("other", "q", 0, (0, 10), price(1, 1), who(1))
    assert len(book._pending) == 2
    book.debit("third", "q", 0, (0, 10), price(1, 1), who(2))
    assert len(book._pending) == 0
    assert [int(book.totals(ASSUMED).of(number).epsilon) for number in range(4)] == [5, 1, 1, 0]


def test_only_the_instants_of_a_changed_window_are_looked_at_again() -> None:
    book, looks = spending(), []
    look = book._look

    def counted(instants: Ints) -> Ints:
        looks.append(instants.tolist())
        return look(instants)

    book._look = counted
    for name, window in (("a", (0, 10)), ("b", (5, 15)), ("c", (20, 30))):
        book.debit(name, "q", 0, window, price(5, 5), who(0))
    assert book.worst_record(ASSUMED) == Figure(10, 0, 0, 5)
    assert book.worst_record(EVERYONE).epsilon is None
    book.settle("b", "aborted", None, credited=True)
    assert book.worst_record(ASSUMED) == Figure(5, 0, 0, 0)
    book.debit("d", "q", 0, (12, 25), price(1, 1), who(0))
    assert book.worst_record(ASSUMED) == Figure(6, 0, 0, 20)
    assert looks == [[0, 5, 20], [5], [12, 20]]


def test_no_figure_price_charge_or_limit_can_be_changed() -> None:
    kinds = {
        kind
        for module in (limits, round_charges, spending_module)
        for kind in vars(module).values()
        if is_dataclass(kind)
    }
    assert {Figure, Price, Planned} <= kinds
    assert [kind for kind in kinds if not kind.__dataclass_params__.frozen] == []
