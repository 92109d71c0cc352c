"""In a query's own unit a round costs what is verified, for every mechanism and function."""

from __future__ import annotations

import pytest

from tacit.accounting.amounts import UNVERIFIED, Cost, debited_delta
from tacit.accounting.charges import debit, unit_costs
from tacit.accounting.guarantees import verified_line
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit
from tests.tacit.accounting.examples import MECHANISMS
from tests.tacit.examples import VARIANTS, query


@pytest.mark.parametrize("unit", PrivacyUnit)
@pytest.mark.parametrize(
    ("mechanism", "function"),
    [
        *((mechanism, "sum") for mechanism in MECHANISMS),
        *(("two-layer", kind) for kind in VARIANTS),
    ],
)
def test_the_querys_own_unit_costs_what_is_verified(
    mechanism: str, function: str, unit: PrivacyUnit
) -> None:
    q = query(**MECHANISMS[mechanism], **VARIANTS[function], privacy_unit=unit.value)
    costs = unit_costs(q)
    for scenario in Scenario:
        line = verified_line(q, scenario)
        expected = (
            UNVERIFIED if line.epsilon is None else Cost(line.epsilon, debited_delta(line.delta))
        )
        assert costs[unit, scenario] == expected
    assert costs[unit, Scenario.ASSUMED] == debit(q).assumed
    assert costs[unit, Scenario.EVERYONE] == debit(q).all_corrupt
