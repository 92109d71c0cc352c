"""Limits at their edges: what one may say, where it refuses, and what a refusal reports."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from pydantic import ValidationError

from coordinator.budget.limits import YEAR_S, Limit, Limits, Planned, shortages
from tacit.accounting.amounts import MICRO, Amount
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit
from tests.coordinator.budget.test_spending import bits, limit, planned, price, spending, who


def test_a_limit_is_for_ever_and_about_curators_unless_it_says_otherwise() -> None:
    plain = Limit(epsilon=Fraction(1))
    assert (plain.unit, plain.delta, plain.period_s) == (PrivacyUnit.CURATOR, None, None)
    assert plain.against is Scenario.ASSUMED
    assert limit("1", scenario="all-aggregators").against is Scenario.EVERYONE


@pytest.mark.parametrize(
    "fields",
    [
        {"epsilon": "0"},
        {"epsilon": "1000000"},
        {"epsilon": "1", "delta": "0"},
        {"epsilon": "1", "delta": "0.999"},
        {"epsilon": "1", "period_s": 60},
        {"epsilon": "1", "period_s": 10 * 366 * 86_400},
        {"epsilon": "1", "unit": "record"},
        {"epsilon": "10000", "delta": "0.5", "currency": "zcdp"},
    ],
)
def test_what_a_limit_may_say(fields: dict[str, Any]) -> None:
    Limit.model_validate_json(json.dumps(fields))


@pytest.mark.parametrize(
    ("fields", "ground"),
    [
        ({"epsilon": "-0.000001"}, "must lie in 0..1000000"),
        ({"epsilon": "1000000.000001"}, "must lie in 0..1000000"),
        ({"epsilon": "1", "delta": "-0.1"}, "must lie in [0, 1)"),
        ({"epsilon": "1", "delta": "1"}, "must lie in [0, 1)"),
        ({"epsilon": "1", "period_s": 59}, "greater than or equal to 60"),
        ({"epsilon": "1", "period_s": 316_224_001}, "less than or equal to 316224000"),
        ({"epsilon": "1", "period_s": 60, "unit": "record"}, "unit record has no period"),
    ],
)
def test_what_a_limit_may_not_say(fields: dict[str, Any], ground: str) -> None:
    assert YEAR_S == 31_622_400
    with pytest.raises(ValidationError, match=ground.replace("[", r"\[").replace(")", r"\)")):
        Limit.model_validate_json(json.dumps(fields))


def test_changing_one_curators_limits_leaves_the_others() -> None:
    first, second, third = limit("1"), limit("2"), limit("3")
    limits = Limits((first,)).changed(2, (second,)).changed(1, (third,))
    assert dict(limits.curators) == {2: (second,), 1: (third,)}
    assert limits.changed(1, (first,)).curators[2] == (second,)
    assert limits.changed(0, (second,)).curators[0] == (second,)
    assert dict(limits.changed(2, ()).curators) == {1: (third,)}
    everyone = limits.changed(None, (second,))
    assert (everyone.deployment, everyone.curators) == ((second,), limits.curators)
    other_order = Limits((first,)).changed(1, (third,)).changed(2, (second,))
    assert limits.canonical() == other_order.canonical() != everyone.canonical()
    assert Limits.from_bytes(limits.to_bytes()) == limits
    document = json.loads(limits.canonical())
    assert [item["epsilon"] for item in document["curators"]["2"]] == ["2"]
    assert [item["epsilon"] for item in document["deployment"]] == ["1"]


def test_a_round_without_a_figure_blocks_whom_it_charged() -> None:
    book, everyone = spending(), limit("100", scenario="all-aggregators", delta=Fraction(1, 2))
    book.debit("open", "q", 0, (0, 10), price(1, 1), who(1, 2))
    book.debit("known", "q", 0, (0, 10), price(1, 1, everyone=1), who(0, 1))
    (found,) = shortages(Limits((everyone,)), book, planned(price(1, 1, everyone=1), bits(0, 1, 3)))
    assert found.members.tolist() == [False, True, False, False]
    assert (found.asked, found.spent) == (Amount(1, 0, 0, 0), None)
    assert found.rounds == ("open", "known")
    (bare,) = shortages(Limits((everyone,)), book, planned(price(1, 1), bits(0)))
    assert (bare.asked, bare.spent, bare.rounds) == (None, Amount(1, 0, 0, 0), ("known",))


def test_the_figures_of_a_refusal() -> None:
    book = spending()
    for turn in range(12):
        book.debit(f"{turn}", "q", 0, (0, 10), price(MICRO, MICRO, delta=7, rho=8), who(0, 1))
    (found,) = shortages(
        Limits((limit("12"),)), book, planned(price(1, MICRO, delta=5), bits(0, 1, 2))
    )
    assert found.figures() == {
        "limit": {
            "unit": "curator",
            "scenario": "assumed",
            "currency": "epsilon",
            "epsilon": "12",
        },
        "asked": {"epsilon": "1", "delta": "0.000000000000005", "rho": "0", "rho_delta": "0"},
        "spent": {
            "epsilon": "12",
            "delta": "0.000000000000084",
            "rho": "0.000000096",
            "rho_delta": "0",
        },
        "curators": 2,
        "rounds": [f"{turn}" for turn in range(10)],
        "rounds_in_all": 12,
    }


def test_a_curators_own_limit_is_for_it_alone() -> None:
    book, cost = spending(), price(MICRO, MICRO)
    strict = Limits().changed(0, (limit("0.5"),)).changed(2, (limit("1"), limit("0.25")))
    found = shortages(strict, book, planned(cost, bits(0, 1, 2)))
    assert [item.members.tolist() for item in found] == [
        [True, False, False, False],
        [False, False, True, False],
    ]
    assert [item.limit.epsilon for item in found] == [Fraction(1, 2), Fraction(1, 4)]
    beyond = Limits().changed(4, (limit("0"),)).changed(3, (limit("0"),))
    assert shortages(beyond, book, planned(cost, bits(0, 1, 2))) == []
    (last,) = shortages(beyond, book, planned(cost, bits(3)))
    assert last.members.tolist() == [False, False, False, True]


def test_a_record_is_charged_at_every_instant_of_the_new_window() -> None:
    book, limits = spending(), Limits((limit("2", "record"),))
    one = price(MICRO, 0)
    for name, window in (("a", (0, 4)), ("b", (4, 8)), ("c", (6, 10))):
        book.debit(name, "q", 0, window, one, who(0))

    def refused(start: int, end: int, member: int = 0) -> list[tuple[int | None, tuple[str, ...]]]:
        found = shortages(limits, book, Planned(one, bits(member), (start, end), 0))
        return [(item.instant, item.rounds) for item in found]

    assert refused(0, 6) == []
    assert refused(0, 7) == refused(4, 20) == [(6, ("b", "c"))]
    assert refused(7, 9) == [(7, ("b", "c"))]
    assert refused(8, 12) == refused(0, 20, member=1) == []
