"""What one round costs in either privacy unit."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from tacit.accounting.amounts import NO_COST, UNVERIFIED
from tacit.accounting.charges import unit_cost, unit_costs
from tacit.accounting.loss.whole import continuous_laplace_delta
from tacit.accounting.scenarios import Scenario
from tacit.query.functions import parts
from tacit.query.query import Query
from tacit.query.terms import PrivacyUnit
from tests.tacit.accounting.examples import MECHANISMS
from tests.tacit.examples import VARIANTS, query

RECORD, CURATOR = PrivacyUnit.RECORD, PrivacyUnit.CURATOR


def pure(q: Query, unit: PrivacyUnit, scenario: Scenario = Scenario.EVERYONE) -> Fraction:
    cost = unit_cost(q, scenario, unit)
    assert cost.delta == 0
    assert cost.epsilon is not None
    return cost.epsilon


def test_a_sum_scales_by_the_ratio_of_sensitivities() -> None:
    """Bounds -2..3, two readings: 5 by a swap, 6 for a curator."""
    local = MECHANISMS["local"]
    assert pure(query(**local, privacy_unit="record"), CURATOR) == Fraction(6, 5) / 2
    assert pure(query(**local, privacy_unit="curator"), RECORD) == Fraction(5, 6) / 2
    worked = query(**local, privacy_unit="record", bounds=["0", "4"], max_readings=4)
    assert pure(worked, CURATOR) == 2  # F / Delta = 4


def test_a_swap_can_cost_more_than_a_curator() -> None:
    q = query(**MECHANISMS["local"], **VARIANTS["histogram"], max_readings=1)
    assert pure(q, CURATOR) == Fraction(1, 2)
    assert pure(q, RECORD) == 1


@pytest.mark.parametrize("function", VARIANTS)
@pytest.mark.parametrize("own", PrivacyUnit)
def test_parts_add_up_and_never_pass_the_largest_ratio(function: str, own: PrivacyUnit) -> None:
    other = CURATOR if own is RECORD else RECORD
    q = query(**MECHANISMS["local"], **VARIANTS[function], privacy_unit=own.value)
    twin = query(**MECHANISMS["local"], **VARIANTS[function], privacy_unit=other.value)
    half = Fraction(1, 2)
    ratios = [
        Fraction(new.sensitivity, old.sensitivity)
        for old, new in zip(parts(q), parts(twin), strict=True)
    ]
    expected = sum(
        half * part.epsilon_share * ratio for part, ratio in zip(parts(q), ratios, strict=True)
    )
    assert pure(q, other) == expected <= half * max(ratios)


def test_where_delta_is_left_it_is_the_certified_one_of_the_other_sensitivity() -> None:
    """Half a draw in a row where t_u = 2 was assumed and 3 of 4 collude: R = 1/2."""
    q = query(
        **MECHANISMS["curators"],
        bounds=["0", "100"],
        max_readings=4,
        privacy_unit="record",
    )
    own = unit_cost(q, Scenario.CURATORS, RECORD)
    other = unit_cost(q, Scenario.CURATORS, CURATOR)
    assert own.epsilon == 1
    assert own.delta is not None
    assert float(own.delta) == pytest.approx(0.3066, abs=1e-3)  # the table of section 7
    assert other.epsilon == 4
    assert other.delta is not None
    # More than nothing, and far less than group privacy's delta (1 + e + e^2 + e^3).
    assert 0 < other.delta < own.delta * 2
    whole = query(**{**MECHANISMS["curators"], "collusion": {"curators": 3}}, max_readings=4)
    assert unit_cost(whole, Scenario.CURATORS, CURATOR).delta == 0
    assert continuous_laplace_delta(4.0, 4.0) == 0


def test_coins_certify_the_other_unit_too() -> None:
    q = query(**MECHANISMS["two-layer with coins"], bounds=["0", "10"], privacy_unit="record")
    silent = Fraction(1, 4)  # the victim and one honest aggregator
    for unit in PrivacyUnit:
        cost = unit_cost(q, Scenario.BLIND_AGGREGATORS, unit)
        assert cost.epsilon == (5 if unit is RECORD else 10)
        assert cost.delta is not None
        assert 0 < cost.delta <= silent + Fraction(1, 10)


def test_nothing_is_verified_for_paper_and_exact_sums_are_listed_apart() -> None:
    paper = query(**MECHANISMS["local"], stance="paper")
    assert set(unit_costs(paper).values()) == {UNVERIFIED}
    assert set(unit_costs(query()).values()) == {NO_COST}


def test_one_operator_of_all_aggregators_drops_the_row() -> None:
    q = query(**MECHANISMS["aggregators"])
    together = unit_costs(q, ["grid", "grid", "grid"])
    apart = unit_costs(q, ["grid", "city", "state"])
    for unit in PrivacyUnit:
        assert apart[unit, Scenario.ASSUMED] != UNVERIFIED
        assert together[unit, Scenario.ASSUMED] == together[unit, Scenario.EVERYONE] == UNVERIFIED


def test_a_query_stays_as_it_was_and_the_answer_cannot_be_changed() -> None:
    q = query(**MECHANISMS["local"])
    before = q.canonical()
    costs = unit_costs(q)
    assert q.canonical() == before
    assert costs is unit_costs(query(**MECHANISMS["local"]))
    with pytest.raises(TypeError):
        costs[RECORD, Scenario.ASSUMED] = UNVERIFIED  # type: ignore[index]
    assert Decimal(0) == costs[RECORD, Scenario.ASSUMED].delta


def test_noise_that_bounds_nothing_costs_what_is_unverified() -> None:
    """Drawn once in 10^40: delta is 1 in 17 digits."""
    never = {**MECHANISMS["two-layer"], "pr_u": "1e-40", "pr_s": "1e-40"}
    q = query(**never, function="mean", bounds=["0", "100"])
    for unit in PrivacyUnit:
        assert unit_cost(q, Scenario.EVERYONE, unit) == UNVERIFIED
