"""The past of a budget as a line, and how long limits last, against the ledger itself."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from coordinator.budget.forecast import (
    MOST_ROUNDS,
    Advice,
    Coming,
    Outlook,
    count_rounds,
    history,
    outlook,
)
from coordinator.budget.limits import Limit, Limits, Planned, shortages
from coordinator.budget.spending import Spending, worst_of
from coordinator.models.budget_ledger import MemberSet
from tacit.accounting.amounts import MICRO
from tacit.accounting.composition import Currency
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit
from tests.coordinator.budget.test_spending import bits, price, spending, who

ASSUMED = Scenario.ASSUMED
SECOND = 10**6
DAY = 86_400 * SECOND


def some_rounds(seed: int) -> list[tuple[Any, ...]]:
    """Rounds of random times, windows, prices and members, oldest first."""
    draw = random.Random(seed)
    rounds, made = [], 0
    for number in range(30):
        made += draw.choice([0, 1, 7]) * SECOND
        start = draw.randrange(20)
        window = (start, start + draw.randrange(1, 8))
        members = who(*draw.sample(range(4), draw.randrange(1, 4)))
        everyone = draw.choice([None, 5])
        cost = price(draw.randrange(4), draw.randrange(4), draw.randrange(3), everyone)
        rounds.append((f"r{number}", "q", made, window, cost, members))
    return rounds


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("scenario", [ASSUMED, Scenario.EVERYONE])
def test_each_point_is_what_the_ledger_said_then(seed: int, scenario: Scenario) -> None:
    book, rounds = spending(), some_rounds(seed)
    for row in rounds:
        book.debit(*row)
    times = [-1, 0, 3 * SECOND, 20 * SECOND, rounds[-1][2], 10**9]
    for unit in PrivacyUnit:
        for point in history(book, unit, scenario, times):
            then = spending()
            for row in rounds:
                if row[2] <= point.at:
                    then.debit(*row)
            record = unit is PrivacyUnit.RECORD
            found = then.worst_record(scenario) if record else then.worst_curator(scenario)
            assert (point.worst.epsilon, point.worst.delta) == (found.epsilon, found.delta)
            assert point.rounds == len(then.rounds)


def test_a_period_begins_again_from_nothing() -> None:
    book = spending()
    for number, made in enumerate([1, 2, 11, 25]):
        book.debit(f"{number}", "q", made, (0, 1), price(0, 3), who(0))
    found = history(book, PrivacyUnit.CURATOR, ASSUMED, [0, 2, 9, 10, 19, 29], 10)
    assert [(each.worst.epsilon, each.rounds) for each in found] == [
        (0, 0),
        (6, 2),
        (6, 2),
        (0, 0),
        (3, 1),
        (3, 1),
    ]
    with pytest.raises(ValueError, match="no periods"):
        history(book, PrivacyUnit.RECORD, ASSUMED, [0], 10)


MILLIONTH = Fraction(1, 10**6)
RHO_60 = Fraction(95, 10**5)
"""At delta 10^-6 the epsilon of a rho of about 60 * 10^-9."""


def first_refusal(limit: Limit, book: Spending, schedules: list[Coming], until: int) -> int | None:
    """Open the rounds one by one, as the ledger would; when the first is refused."""
    coming = [(at, each) for each in schedules for at in range(each.first, until + 1, each.period)]
    for number, (at, each) in enumerate(sorted(coming, key=lambda pair: pair[0])):
        window = each.window or (at - each.period, at)
        members = bits(0, 1, 2, 3)
        plan = Planned(each.price, members, window, at)
        if shortages(Limits((limit,)), book, plan):
            return at
        everyone = MemberSet.of(members)
        book.debit(f"coming-{number}", "q", at, window, each.price, everyone)
    return None


LIMITS = [
    Limit(epsilon=Fraction(40, MICRO)),
    Limit(epsilon=Fraction(40, MICRO), delta=Fraction(30, 10**15)),
    Limit(epsilon=Fraction(14, MICRO), period_s=60),
    Limit(epsilon=Fraction(9, MICRO), unit=PrivacyUnit.RECORD),
    Limit(epsilon=Fraction(10**4, MICRO)),
    Limit(epsilon=Fraction(40, MICRO), scenario="all-aggregators"),
    *(
        Limit(epsilon=RHO_60, delta=MILLIONTH, currency=Currency.ZCDP, **more)
        for more in ({}, {"period_s": 60}, {"unit": PrivacyUnit.RECORD})
    ),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("limit", LIMITS)
def test_the_first_refusal_is_the_ledgers_own(seed: int, limit: Limit) -> None:
    """All rounds, old and coming, charge everyone here, so that the worst curator is every one."""
    draw = random.Random(seed)
    book, now, until = spending(), 130 * SECOND, 500 * SECOND
    for number in range(draw.randrange(4)):
        made = (100 + 10 * number) * SECOND
        book.debit(
            f"{number}", "q", made, (made, made + 60 * SECOND), price(2, 2, rho=3), who(0, 1, 2, 3)
        )
    schedules = [
        Coming(
            price(
                draw.randrange(1, 5),
                draw.randrange(1, 5),
                draw.randrange(3),
                everyone=2,
                rho=draw.randrange(1, 9),
            ),
            now + draw.randrange(1, 30) * SECOND,
            draw.randrange(5, 40) * SECOND,
            draw.choice([None, (140 * SECOND, 150 * SECOND)]),
        )
        for _ in range(draw.randrange(1, 4))
    ]
    found = outlook(limit, book, schedules, now, until)
    base = found.spent
    assert found.exhausted == first_refusal(limit, book, schedules, until)
    epsilons = [step.spent.epsilon for step in found.steps]
    assert epsilons[0] == base.epsilon
    assert epsilons == sorted(epsilons, key=lambda each: (each is None, each))
    last = found.steps[-1]
    if found.exhausted is not None and last.at == found.exhausted:
        if limit.zcdp is not None:
            assert last.spent.rho <= limit.zcdp.most_rho()
        else:
            assert last.spent.epsilon is None or last.spent.epsilon <= int(limit.epsilon * MICRO)


def yearly(cost: int, limit: Limit, days: int = 365) -> Outlook:
    book = spending()
    return outlook(limit, book, [Coming(price(cost, cost), DAY, DAY)], 0, days * DAY)


def test_what_makes_a_limit_last() -> None:
    """A round a day of 0.075 against 20: the 267th is refused; every second day, or 0.0547 each."""
    found = yearly(75_000, Limit(epsilon=Fraction(20)))
    assert found.exhausted == 267 * DAY
    assert found.steps[-1].rounds == 266
    assert found.advice == Advice(2, Fraction(730, 1000))
    assert 365 * 75_000 * found.advice.share <= 20 * MICRO
    assert yearly(54_000, Limit(epsilon=Fraction(20))).advice is None
    assert yearly(54_000, Limit(epsilon=Fraction(20))).exhausted is None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("limit", [*LIMITS[:4], *LIMITS[-3:]])
def test_the_advice_holds(seed: int, limit: Limit) -> None:
    """At the share that is advised nothing is refused; where none is, nothing could help."""
    draw = random.Random(seed)
    book, now, until = spending(), 0, 300 * SECOND
    book.debit("old", "q", 0, (0, SECOND), price(3, 3, 1, rho=7), who(0))
    cost = draw.randrange(1, 20)
    period = draw.randrange(5, 60) * SECOND
    window = draw.choice([None, (0, SECOND)])

    def under(epsilon: int, every: int = 1) -> Outlook:
        # Prices are whole millionths: what is advised is rounded down to them.
        step = every * period
        schedules = [Coming(price(epsilon, epsilon, rho=epsilon), now + step, step, window)]
        return outlook(limit, book, schedules, now, until)

    found = under(cost)
    if found.exhausted is None:
        assert found.advice is None
    elif found.advice is not None:
        assert under(int(cost * found.advice.share)).exhausted is None
        if found.advice.every is not None and limit.unit is PrivacyUnit.CURATOR:
            assert under(cost, found.advice.every).exhausted is None


def test_what_is_unbounded_is_used_up_at_once() -> None:
    book = spending()
    book.debit("paper", "q", 0, (0, 1), price(1, 1), who(0))
    limit = Limit(epsilon=Fraction(1), scenario="all-aggregators")
    found = outlook(limit, book, [Coming(price(1, 1, everyone=1), 5, 10)], 1, 100)
    assert (found.spent.epsilon, found.exhausted, found.advice) == (None, 5, None)


def test_without_schedules_nothing_is_used_up() -> None:
    for unit in PrivacyUnit:
        found = outlook(Limit(epsilon=Fraction(1), unit=unit), spending(), [], 0, DAY)
        assert (found.exhausted, found.advice) == (None, None)
        assert (found.spent.epsilon, found.spent.delta) == (0, 0)
        assert {step.spent.epsilon for step in found.steps} == {0}


def test_too_many_rounds_are_refused() -> None:
    minute = Coming(price(1, 1), 60 * SECOND, 60 * SECOND)
    assert count_rounds([minute], 3_600 * SECOND) == 60
    with pytest.raises(ValueError, match=str(MOST_ROUNDS)):
        outlook(
            Limit(epsilon=Fraction(1)), spending(), [minute], 0, 60 * SECOND * (MOST_ROUNDS + 1)
        )


def test_a_group_of_others_is_no_worse() -> None:
    """Members differ: the outlook is of the worst curator, never later than the ledger's own."""
    book = spending()
    book.debit("a", "q", 0, (0, 1), price(2, 6), who(0))
    book.debit("b", "q", 0, (0, 1), price(2, 3), who(1))
    assert worst_of(book.totals(ASSUMED)).epsilon == 6
    limit = Limit(epsilon=Fraction(10, MICRO))
    schedules = [Coming(price(0, 2), 5, 10)]
    found = outlook(limit, book, schedules, 1, 100)
    assert found.exhausted == 25
    assert np.isclose(float(found.limit.epsilon), 1e-5)
