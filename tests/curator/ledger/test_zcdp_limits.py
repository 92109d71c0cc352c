"""Limits in zCDP at a curator: boundary cases, the year of the specification, and random courses.

Spec: budget, section 7, check 12: never overspent, and equal to a fold from scratch.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from pydantic import ValidationError

from curator.ledger import (
    LIFETIME,
    Charge,
    Debit,
    Totals,
    for_account,
    period_of,
    shortages,
    sum_debits,
)
from curator.policy import AtDelta, Limit, Limits, initial_policy
from curator.settings import CuratorSettings
from tacit.accounting.amounts import FEMTO, MICRO, NANO, UNVERIFIED, Cost
from tacit.accounting.composition import Currency
from tacit.noise.gaussian_privacy import zcdp_delta, zcdp_epsilon
from tacit.query.fields import Window

MILLIONTH = Fraction(1, 10**6)
A_DAY = Fraction(2_883_172, NANO)
START = datetime(2026, 1, 1, tzinfo=UTC)
COVERS = Window(start=START, end=START + timedelta(days=1))


def zcdp(epsilon: str, delta: Fraction = MILLIONTH) -> Limit:
    return Limit(zcdp=AtDelta(epsilon=Fraction(epsilon), delta=delta))


def gaussian(rho: Fraction) -> Cost:
    return Cost(Fraction(zcdp_epsilon(float(rho), 1e-6)), MILLIONTH, rho)


def test_a_year_of_days_is_admitted_and_the_day_after_it_is_refused_with_figures() -> None:
    everyone, limits = np.ones(3, np.bool_), Limits(lifetime=zcdp("8"))
    day, spent, none = Charge.of(gaussian(A_DAY), UNVERIFIED), Totals.zero(3), Totals.zero(3)
    for number in range(365):
        assert shortages(limits, day, none, spent, everyone) == [], number
        spent = spent.plus(day, everyone)
    (refused,) = shortages(limits, day, none, spent, everyone)
    assert refused.members.all()
    assert refused.detail == "the lifetime limit on zcdp would be exceeded"
    assert refused.figures == {
        "limit": "8",
        "limit_delta": "0.000001",
        "limit_rho": "1.052358004",
        "asked": "0.002883172",
        "spent_at_most": "1.05235778",
        "asked_delta": "0",
        "spent_delta_at_most": "0",
    }


def test_a_pure_limit_does_not_let_gaussian_rounds_pass_for_nothing() -> None:
    one, none = np.ones(1, np.bool_), Totals.zero(1)
    day = Charge.of(gaussian(A_DAY), UNVERIFIED)
    assert day.epsilon == 320_909
    (refused,) = shortages(Limits(lifetime=Limit(epsilon=Fraction(1, 4))), day, none, none, one)
    assert refused.detail == "the lifetime limit on epsilon would be exceeded"


def test_both_currencies_of_one_limit_hold() -> None:
    one, none = np.ones(1, np.bool_), Totals.zero(1)
    both = Limit(epsilon=Fraction(1), zcdp=AtDelta(epsilon=Fraction(3), delta=MILLIONTH))
    pure = Charge.of(Cost(Fraction(1), Fraction(0)), UNVERIFIED)
    # Epsilon 1 keeps the first figure, and its rho of 0.4621 is above 0.185, that of (3, 10^-6).
    (refused,) = shortages(Limits(period=both), pure, none, none, one)
    assert refused.detail == "the period limit on zcdp would be exceeded"
    assert shortages(Limits(period=Limit(epsilon=Fraction(1))), pure, none, none, one) == []


def test_a_round_without_a_figure_keeps_no_limit_in_zcdp() -> None:
    one, none = np.ones(1, np.bool_), Totals.zero(1)
    paper = Charge.of(UNVERIFIED, UNVERIFIED)
    assert shortages(Limits(lifetime=zcdp("10000")), paper, none, none, one)
    assert shortages(Limits(all_aggregators=zcdp("10000")), paper, none, none, one)
    spent = none.plus(paper, one)
    free = Charge.of(Cost(Fraction(0), Fraction(0)), Cost(Fraction(0), Fraction(0)))
    assert shortages(Limits(lifetime=zcdp("10000")), free, none, spent, one)


def test_a_limit_on_all_aggregators_reads_column_d() -> None:
    one, none = np.ones(1, np.bool_), Totals.zero(1)
    round_ = Charge.of(gaussian(Fraction(1, 1000)), gaussian(Fraction(1)))
    assert shortages(Limits(period=zcdp("8"), lifetime=zcdp("8")), round_, none, none, one) == []
    spent = none.plus(round_, one)
    (refused,) = shortages(Limits(all_aggregators=zcdp("8")), round_, spent, spent, one)
    assert refused.detail == "the all aggregators limit on zcdp would be exceeded"


def test_deltas_of_clamped_noise_count_beside_rho() -> None:
    one, none = np.ones(1, np.bool_), Totals.zero(1)
    half = Charge.of(Cost(Fraction(1, 10), MILLIONTH / 2), UNVERIFIED)
    assert (half.rho, half.rho_delta) == (5_000_000, 5 * 10**8)
    limits, spent = Limits(lifetime=zcdp("8")), none
    assert shortages(limits, half, none, spent, one) == []
    spent = spent.plus(half, one)
    (refused,) = shortages(limits, half, none, spent, one)
    assert refused.figures["spent_delta_at_most"] == "0.0000005"


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": "1"},
        {"delta": "0.1"},
        {"epsilon": "1", "delta": "0"},
        {"epsilon": "1", "delta": "1"},
        {"epsilon": "-1", "delta": "0.1"},
        {"epsilon": "10000.1", "delta": "0.1"},
    ],
)
def test_a_limit_in_zcdp_has_both_figures(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Limit.model_validate({"zcdp": wrong})


def test_the_stricter_of_two_limits_is_shown() -> None:
    loose = Limits(period=zcdp("8"), lifetime=Limit(epsilon=Fraction(1)))
    strict = Limits(period=zcdp("8", MILLIONTH / 10), lifetime=zcdp("1"))
    met = loose.meet(strict)
    assert met.period == strict.period
    assert met.lifetime == Limit(epsilon=Fraction(1), zcdp=strict.lifetime.zcdp)
    assert met == strict.meet(loose)


def test_the_first_policy_may_be_in_rho() -> None:
    def policy(**more: object) -> Limits:
        return initial_policy(CuratorSettings.model_validate(more)).curator

    assert policy() == Limits(period=Limit(epsilon=Fraction(1), delta=MILLIONTH))
    year = {"policy_currency": "zcdp", "policy_epsilon": "8", "policy_period_s": 365 * 86_400}
    assert policy(**year) == Limits(period=zcdp("8"))
    assert CuratorSettings().policy_currency is Currency.EPSILON
    for wrong in ({"policy_delta": "0"}, {"policy_epsilon": "10001"}):
        with pytest.raises(ValidationError, match="policy"):
            policy(policy_currency="zcdp", **wrong)


# --- random courses ------------------------------------------------------------------------------

CURATORS = 4


def release(draw: Random) -> Cost:
    """Of any kind: pure, approximate, Gaussian, or without a verified figure."""
    match draw.randrange(7):
        case 0 | 1:
            return Cost(Fraction(draw.randrange(2001), 1000), Fraction(0))
        case 2:
            return Cost(Fraction(draw.randrange(1001), 1000), Fraction(draw.randrange(1000), 10**9))
        case 3:
            return UNVERIFIED
    return gaussian(Fraction(draw.randrange(1, 3 * 10**5), 10**6))


def some_limit(draw: Random) -> Limit:
    """In neither currency, one, or both."""
    delta = draw.choice((MILLIONTH, Fraction(1, 10**5), Fraction(1, 10**3)))
    at_delta = AtDelta(epsilon=Fraction(draw.randrange(1, 90), 10), delta=delta)
    return Limit(
        epsilon=draw.choice((None, Fraction(draw.randrange(160), 4))),
        delta=draw.choice((None, Fraction(draw.randrange(100), 10**7))),
        zcdp=draw.choice((None, at_delta)),
    )


def keeps(limit: Limit, spent: list[Cost]) -> bool:
    """Whether exact sums keep a limit, from the formulas of the specification."""
    if limit.epsilon is None and limit.delta is None and limit.zcdp is None:
        return True
    pairs = [cost.zcdp for cost in spent]
    if any(pair is None for pair in pairs):
        return False
    epsilon = sum((cost.epsilon or 0 for cost in spent), Fraction(0))
    delta = sum((cost.delta or 0 for cost in spent), Fraction(0))
    holds = limit.epsilon is None or epsilon <= limit.epsilon
    holds &= limit.delta is None or delta <= limit.delta
    if limit.zcdp is not None:
        rho = sum((pair[0] for pair in pairs if pair is not None), Fraction(0))
        beside = sum((pair[1] for pair in pairs if pair is not None), Fraction(0))
        own = Fraction(zcdp_delta(float(rho), float(limit.zcdp.epsilon))) if rho else 0
        holds &= own + beside <= limit.zcdp.delta
    return holds


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(12, 60))]
)
def test_no_course_overspends_and_totals_are_those_of_a_fold_from_scratch(seed: int) -> None:
    """All kinds of release, limits in both currencies, credits, periods that begin again. Each
    curator's own debits are kept beside: the exact ones, from which the limits are checked anew."""
    draw = Random(seed)
    period, lifetime, everyone = (some_limit(draw) for _ in range(3))
    limits = Limits(period=period, lifetime=lifetime, all_aggregators=everyone)
    length = 3600
    debits: list[Debit] = []
    exact: list[list[tuple[datetime, Cost, Cost, bool]]] = [[] for _ in range(CURATORS)]
    running = Totals.zero(CURATORS)
    now = START
    for _ in range(draw.randrange(5, 40)):
        assumed, all_corrupt, credited = release(draw), release(draw), draw.random() < 0.3
        now += timedelta(minutes=draw.randrange(40))
        charge = Charge.of(assumed, all_corrupt)
        asked = np.array([draw.random() < 0.6 for _ in range(CURATORS)])
        begun = period_of(now, length)[0]
        current = [item for item in debits if item.made >= begun]
        of_period = sum_debits(current, 0, CURATORS, verified_only=True)
        of_all = sum_debits(debits, 0, CURATORS, verified_only=False)
        members = asked.copy()
        for shortage in shortages(limits, charge, of_period, of_all, asked):
            members &= ~shortage.members
        if not members.any():
            continue
        debits.append(Debit(charge, 0, members, COVERS, now, credited))
        running = running.plus(for_account(charge, LIFETIME), members)
        if credited and charge.verified:
            running = running.plus(charge.assumed, members, factor=-1)
        for curator in np.flatnonzero(members):
            mine = exact[curator]
            # At the moment of the debit: what was credited before counts no longer.
            before = [row for row in mine if not (row[3] and row[1].zcdp is not None)]
            this_period = [row for row in before if row[0] >= begun and row[1].zcdp is not None]
            if charge.verified:
                assert keeps(period, [*(row[1] for row in this_period), assumed])
            assert keeps(lifetime, [*(row[1] for row in before), assumed])
            all_here = [row[2] for row in mine if row[0] >= begun]
            assert keeps(everyone, [*all_here, all_corrupt])
            mine.append((now, assumed, all_corrupt, credited))
    again = sum_debits(debits, 0, CURATORS, verified_only=False)
    for one, other in zip(running.columns(), again.columns(), strict=True):
        assert one.tolist() == other.tolist()
    for curator, mine in enumerate(exact):
        left = [row[1] for row in mine if row[1].zcdp is not None and not row[3]]
        unverified = any(row[1].zcdp is None for row in mine)
        if not unverified:
            rho = sum((cost.zcdp[0] for cost in left if cost.zcdp is not None), Fraction(0))
            assert 0 <= int(again.rho[curator]) - rho * NANO < len(left) + 1
            epsilon = sum((cost.epsilon or 0 for cost in left), Fraction(0))
            assert 0 <= int(again.epsilon[curator]) - epsilon * MICRO < len(left) + 1
            delta = sum((cost.delta or 0 for cost in left), Fraction(0))
            assert 0 <= int(again.delta[curator]) - delta * FEMTO < len(left) + 1
