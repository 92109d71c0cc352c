"""Limits in zCDP at the coordinator: boundary cases, and the year of the specification."""

from __future__ import annotations

from fractions import Fraction

import pytest
from pydantic import ValidationError

from coordinator.budget.limits import Limit, Limits, shortages
from coordinator.budget.round_charges import Price
from tacit.accounting.amounts import Cost, scaled
from tacit.accounting.composition import Currency
from tacit.accounting.scenarios import Scenario
from tacit.noise.gaussian_privacy import zcdp_epsilon
from tacit.query.terms import PrivacyUnit
from tests.coordinator.budget.test_limits import planned
from tests.coordinator.budget.test_spending import EVERYONE, bits, spending, who

MILLIONTH = Fraction(1, 10**6)
A_DAY = Fraction(2_883_172, 10**9)


def zcdp(epsilon: str | Fraction, delta: Fraction | None = MILLIONTH, **more: object) -> Limit:
    fields: dict[str, object] = {
        "epsilon": Fraction(epsilon),
        "delta": delta,
        "currency": Currency.ZCDP,
        **more,
    }
    return Limit.model_validate(fields)


def gaussian(rho: Fraction, everyone: Fraction | None = None) -> Price:
    """A round by Gaussian noise whose figure for all aggregators is `everyone` (None: none)."""

    def cost(of: Fraction | None) -> Cost:
        if of is None:
            return Cost(None, None)
        return Cost(Fraction(zcdp_epsilon(float(of), 1e-6)), MILLIONTH, of)

    return Price.of(
        {
            (unit, scenario): scaled(cost(everyone if scenario is EVERYONE else rho))
            for unit in PrivacyUnit
            for scenario in Scenario
        }
    )


def test_a_year_of_days_is_admitted_and_the_day_after_it_is_refused_with_figures() -> None:
    """Spec: budget, section 7, check 12."""
    book, limits = spending(), Limits((zcdp("8"),))
    day = gaussian(A_DAY)
    for number in range(365):
        plan = planned(day, bits(0, 1))
        assert shortages(limits, book, plan) == [], number
        book.debit(f"day {number}", "q", number, (number, number + 1), day, who(0, 1))
    (refused,) = shortages(limits, book, planned(day, bits(0, 1, 2)))
    assert refused.members.tolist() == [True, True, False, False]
    figures = refused.figures()
    assert figures["limit"] == {
        "unit": "curator",
        "scenario": "assumed",
        "currency": "zcdp",
        "epsilon": "8",
        "delta": "0.000001",
    }
    assert figures["asked"]["rho"] == "0.002883172"
    assert figures["spent"]["rho"] == "1.05235778"
    assert figures["rounds_in_all"] == 365
    # A limit in epsilon counts the same rounds by their (epsilon, delta): far more.
    assert float(figures["spent"]["epsilon"]) > 100
    assert shortages(Limits((Limit(epsilon=Fraction(100)),)), book, planned(day, bits(0)))


def test_the_boundary_is_admitted_and_one_nano_more_is_not() -> None:
    limit, book = zcdp("1"), spending()
    assert limit.zcdp is not None
    most = limit.zcdp.most_rho()
    for rho, refused in ((most, False), (most + 1, True)):
        plan = planned(gaussian(Fraction(rho, 10**9)), bits(0))
        assert bool(shortages(Limits((limit,)), book, plan)) is refused


def test_every_release_counts_in_both_currencies() -> None:
    """A pure limit sees Gaussian rounds, and one in zCDP sees pure ones."""
    gauss = planned(gaussian(Fraction(1, 2)), bits(0))
    pure_limit = Limit(epsilon=Fraction(5))
    assert shortages(Limits((pure_limit,)), spending(), gauss)
    pure = Price.of(
        {
            (unit, scenario): scaled(Cost(Fraction(1), Fraction(0)))
            for unit in PrivacyUnit
            for scenario in Scenario
        }
    )
    assert pure.to_payload()["curator"]["e"] == [1_000_000, 0, 462_117_158, 0]
    book = spending()
    # (3, 10^-6) is rho 0.185: less than one round of epsilon 1.
    assert shortages(Limits((zcdp("3"),)), book, planned(pure, bits(0)))
    assert shortages(Limits((zcdp("6"),)), book, planned(pure, bits(0))) == []


@pytest.mark.parametrize(
    ("epsilon", "delta"), [("1", None), ("1", Fraction(0)), ("10001", MILLIONTH), ("-1", MILLIONTH)]
)
def test_a_limit_in_zcdp_has_both_figures(epsilon: str, delta: Fraction | None) -> None:
    with pytest.raises(ValidationError):
        zcdp(epsilon, delta)
