"""What one round of a query costs in either privacy unit (spec: budget, section 3).

The noise is that of the query as declared: its scales b_p = Delta_p / (s_p epsilon) are computed
for the query's *own* unit. What a round costs in the other unit follows from the same draws and the
other unit's sensitivity F_p: part p costs F_p / b_p = s_p epsilon F_p / Delta_p, so the round costs

    epsilon' = epsilon * sum_p s_p F_p / Delta_p          (one part: epsilon * F / Delta),

never above epsilon * max_p F_p / Delta_p, and exactly that where the ratios are equal. Where the
honest noise holds no whole draw, delta is the certified one of sensitivity F_p at that epsilon:
no formula of group privacy, which would multiply delta by up to e^epsilon'.

With windows that hold more readings than `max_readings`, the record unit counts swaps and may cost
*more* than the curator unit (a histogram of one reading each: 2 against 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from tacit.accounting.clamping import with_clamping
from tacit.accounting.costs import UNVERIFIED, Cost, debited_delta
from tacit.accounting.guarantees import (
    HonestNoise,
    composed_delta,
    declared_epsilon,
    honest_noise,
    no_guarantee,
)
from tacit.accounting.scenarios import Scenario, honest_draws
from tacit.query.query import Query
from tacit.query.words import PrivacyUnit, Stance


def unit_cost(
    query: Query,
    scenario: Scenario,
    unit: PrivacyUnit,
    operators: Sequence[str] | None = None,
) -> Cost:
    """One round's (epsilon, delta) in this unit; (None, None) where nothing is verified.

    It holds for every manifest of at least `min_participants` curators. In the query's own unit it
    is the figure of `verified_line`. `operators`: who runs each aggregator (None: all different).
    """
    return _unit_cost(query, scenario, unit, None if operators is None else tuple(operators))


def unit_costs(
    query: Query, operators: Sequence[str] | None = None
) -> Mapping[tuple[PrivacyUnit, Scenario], Cost]:
    """`unit_cost` of both units in all five scenarios."""
    return _unit_costs(query, None if operators is None else tuple(operators))


def job_costs(
    query: Query, epsilon: Fraction, operators: Sequence[str] | None = None
) -> Mapping[tuple[PrivacyUnit, Scenario], Cost]:
    """What a job costs whose records spend `epsilon` at most in all rounds together.

    query: of one of its rounds. The figure needs a whole unknown draw of noise in each cell, which
    is so where the round itself costs its epsilon, with delta 0; else nothing is verified. In the
    unit `curator` all records that count are its own. Spec: federated-counting, section 6.
    """
    records = {PrivacyUnit.RECORD: 1, PrivacyUnit.CURATOR: query.max_readings}
    assert query.epsilon is not None
    return {
        (unit, scenario): Cost(epsilon * records[unit], Fraction(0))
        if cost == Cost(query.epsilon * records[unit], Fraction(0))
        else UNVERIFIED
        for (unit, scenario), cost in unit_costs(query, operators).items()
    }


@lru_cache(maxsize=1024)
def _unit_costs(
    query: Query, operators: tuple[str, ...] | None
) -> Mapping[tuple[PrivacyUnit, Scenario], Cost]:
    return MappingProxyType(
        {
            (unit, scenario): _unit_cost(query, scenario, unit, operators)
            for unit in PrivacyUnit
            for scenario in Scenario
        }
    )


@lru_cache(maxsize=4096)
def _unit_cost(
    query: Query, scenario: Scenario, unit: PrivacyUnit, operators: tuple[str, ...] | None
) -> Cost:
    if query.stance is Stance.PAPER:
        return UNVERIFIED
    honest = honest_draws(query, scenario, None, operators)
    declared = declared_epsilon(query, honest)
    if declared is None:
        return UNVERIFIED
    noise = honest_noise(query, honest, unit)
    if no_guarantee(query, noise) is not None:
        return UNVERIFIED
    epsilon, scaled = _scaled(declared, honest_noise(query, honest), noise)
    delta = with_clamping(query, epsilon, composed_delta(scaled, epsilon))
    return UNVERIFIED if delta >= 1 else Cost(epsilon, debited_delta(delta))


def _scaled(
    declared: Fraction, own: tuple[HonestNoise, ...], asked: tuple[HonestNoise, ...]
) -> tuple[Fraction, tuple[HonestNoise, ...]]:
    """epsilon' and the parts with their shares of it, in place of the shares of epsilon."""
    growth = tuple(
        one.share * Fraction(other.sensitivity, one.sensitivity)
        for one, other in zip(own, asked, strict=True)
    )
    total = sum(growth, Fraction(0))
    return declared * total, tuple(
        HonestNoise(share / total, part.sensitivity, part.dimension, part.draws)
        for share, part in zip(growth, asked, strict=True)
    )
