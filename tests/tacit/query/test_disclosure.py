"""The share rule of sums without noise: what it implies, at its edges, and rules compared."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tacit.protocol.differencing import scopes
from tacit.query.disclosure import DisclosureRule, RuleNotMet, check_shares, least_totals
from tacit.query.query import Query
from tests.tacit.examples import query

FEEDER: dict[str, Any] = {
    "bounds": ["0", "10"],
    "max_readings": 1,
    "validity": "proved",
    "n_max": 1000,
    "min_participants": 2,
}


def asked(**rule: Any) -> Query:
    return query(**FEEDER, window_bound="10", rule={"min_participants": 2, **rule})


def allowed(of: Query, total: int) -> bool:
    try:
        check_shares(of, np.array([total]))
    except RuleNotMet:
        return False
    return True


@pytest.mark.parametrize(("share", "top"), [("0.5", 1), ("1/3", 1), ("0.6", 2)])
def test_a_released_total_keeps_the_rule_whatever_it_is_made_of(share: str, top: int) -> None:
    """Every sum of up to four contributions in 0..10."""
    of, most = asked(max_share=share, top=top), Fraction(share)
    released = 0
    for size in range(1, 5):
        for values in combinations_with_replacement(range(11), size):
            total = sum(values)
            if allowed(of, total):
                released += 1
                assert sum(sorted(values)[-top:]) <= most * total
    assert released


def test_the_least_total_is_released_and_the_one_below_is_not() -> None:
    of = asked(max_share="0.15")
    assert list(least_totals(of)) == [67]  # 10 / 0.15 is 66.67
    assert allowed(of, 67)
    assert not allowed(of, 66)
    # And below it the rule can be broken: 10 of 66 are 15.2 %.
    assert Fraction(10, 66) > Fraction("0.15") >= Fraction(10, 67)


def test_without_a_share_every_total_is_released() -> None:
    assert not least_totals(asked())
    assert allowed(asked(), 0)


def test_each_slot_of_a_profile_is_checked() -> None:
    of = query(
        **{**FEEDER, "max_readings": 2},
        function="vector_sum",
        dimension=2,
        window_bound="15",
        rule={"min_participants": 2, "max_share": "0.5"},
    )
    check_shares(of, np.array([30, 31]))
    with pytest.raises(RuleNotMet):
        check_shares(of, np.array([70, 29]))


rules = st.builds(
    DisclosureRule,
    min_participants=st.integers(2, 4),
    max_share=st.none() | st.sampled_from([Fraction(1, 4), Fraction(1, 2)]),
    top=st.just(1),
)


@given(rules, rules, st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_what_keeps_a_rule_keeps_every_weaker_one(
    rule: DisclosureRule, least: DisclosureRule, values: list[int]
) -> None:
    if rule.weaker_than(least) is None and _kept(rule, values):
        assert _kept(least, values)


def _kept(rule: DisclosureRule, values: list[int]) -> bool:
    largest = sum(sorted(values)[-rule.top :])
    share = rule.max_share is None or largest <= rule.max_share * sum(values)
    return len(values) >= rule.min_participants and share


CELLS: dict[str, Any] = {
    "function": "table",
    "columns": {"sex": ["f", "m"]},
    "n_max": 1000,
    "min_participants": 15,
}


def test_a_table_without_noise_says_that_its_cells_are_small() -> None:
    """A rule of fifteen participants is of the whole: by postcode, each may have a cell alone."""
    small = {"min_participants": 15, "small_cells": True}
    told = DisclosureRule.model_validate_json(json.dumps(small))
    assert query(**CELLS, rule=small).rule == told
    with pytest.raises(ValidationError, match="small_cells"):
        query(**CELLS, rule={"min_participants": 15})
    with pytest.raises(ValidationError, match="small_cells"):
        query(n_max=1000, min_participants=15, rule=small)
    plain = DisclosureRule(min_participants=15)
    assert told.weaker_than(plain) is not None
    assert told.weaker_than(told) is None
    assert plain.weaker_than(told) is None, "who agrees to tables agrees to sums"


def test_a_table_without_noise_is_compared_with_others_over_records() -> None:
    small = {"min_participants": 15, "small_cells": True}
    assert scopes(query(**CELLS, rule=small)) == {"register records": 15}
