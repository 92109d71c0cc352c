"""What a round is charged, and what the sound stance refuses.

The one credit: how many aggregators must sign that a round ended without a frozen set.

No sum may wrap: the Chernoff tail, and the rule at its border.

What one round costs in either privacy unit.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from tacit.accounting.amounts import NO_COST, UNVERIFIED, Cost
from tacit.accounting.charges import (
    Debit,
    abort_credit,
    debit,
    headroom_problem,
    noise_tail,
    sound_refusal,
    statements_needed,
    unit_cost,
    unit_costs,
)
from tacit.accounting.loss.rounding import Draws
from tacit.accounting.loss.whole import continuous_laplace_delta
from tacit.accounting.scenarios import Scenario
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import (
    ABORT_LABEL,
    AbortStatement,
    Frozen,
    RoundDescriptor,
)
from tacit.query.functions import parts
from tacit.query.query import Query
from tacit.query.terms import PrivacyUnit
from tests.tacit.accounting.examples import MECHANISMS, local, small, two_layer
from tests.tacit.examples import VARIANTS, query
from tests.tacit.protocol.round.test_checks import IDENTITIES, NAMES, OTHER_ROUND, descriptor

HALF = Cost(Fraction(1, 2), Fraction(0))


def test_a_debit_names_its_four_figures() -> None:
    charged = Debit(Cost(Fraction(1), Fraction(2)), Cost(Fraction(3), Fraction(4)))
    assert (charged.epsilon, charged.delta) == (1, 2)
    assert (charged.epsilon_all_corrupt, charged.delta_all_corrupt) == (3, 4)


def test_a_round_is_charged_under_its_assumption_and_under_full_collusion() -> None:
    assert debit(local()) == (HALF, HALF)
    assert debit(small()) == (Cost(Fraction(1), Fraction(0)), UNVERIFIED)
    assert debit(small(), ["A"] * 5) == (UNVERIFIED, UNVERIFIED)
    # Half of a whole draw is left of the victim's own.
    shares = debit(small(layer="curator", collusion={"curators": 8}))
    assert shares.assumed == Cost(Fraction(1), Fraction(0))
    assert shares.epsilon_all_corrupt == 1
    assert float(shares.delta_all_corrupt or 0) == pytest.approx(0.30713193, rel=1e-6)


def test_what_has_no_verified_figure_is_not_refused_here() -> None:
    """The deployment decides on these, whatever the noise of their plans is worth."""
    assert sound_refusal(two_layer("0", "0", stance="paper")) is None
    assert sound_refusal(query()) is None
    assert sound_refusal(two_layer("0", "0")) is not None


def test_what_does_not_hold_under_its_own_assumption_is_refused() -> None:
    assert sound_refusal(small()) is None
    refusal = sound_refusal(small(), ["A"] * 5)
    assert refusal.startswith(
        "under the query's own collusion assumption nothing holds: one operator runs 5 of the 5"
    )


def test_a_delta_up_to_the_declared_one_is_fit() -> None:
    """None draws with probability (1/2)^7, and the change of a mean is then bare."""
    coins: dict[str, Any] = {"pr_u": "0.5", "pr_s": "0.5", "function": "mean"}
    assert debit(two_layer(**coins)).assumed == Cost(Fraction(10), Fraction(1, 128))
    assert sound_refusal(two_layer(**coins, delta="0.0078125")) is None
    refusal = sound_refusal(two_layer(**coins, delta="0.0078124"))
    assert refusal == (
        "under the query's own collusion assumption delta is 0.007813 at epsilon 10, above the "
        "declared 0.0078124: with probability 0.007813 no honest party draws noise, and the "
        "contribution passes as it is"
    )


DISTRIBUTED = {"mechanism": "distributed", "epsilon": "1", "aggregators": 5}
UNSHARED = {"mechanism": "local", "epsilon_i": "1", "sharing": "none", "aggregators": 1}


def asked(**changes: Any) -> Query:
    return query(**DISTRIBUTED, **changes)


def test_additive_sharing_needs_one_honest_aggregator() -> None:
    assert statements_needed(asked()) == 1
    assert statements_needed(asked(collusion={"aggregators": 3})) == 4


def test_shamir_needs_too_few_left_for_a_quorum() -> None:
    """Of 5 with threshold 3, 3 honest statements leave 2 aggregators, who open nothing."""
    shamir = {"sharing": "shamir", "threshold": 3, "c_noise": 3}
    assert statements_needed(asked(**shamir)) == 3
    assert statements_needed(asked(**shamir, collusion={"aggregators": 2})) == 5


def test_without_sharing_nothing_is_credited() -> None:
    assert statements_needed(query(**UNSHARED)) is None
    described = descriptor(**UNSHARED)
    assert not abort_credit(described, [statement(described, 0)])


def statement(
    of: RoundDescriptor, number: int, signer: int | None = None, **changes: Any
) -> Signed[AbortStatement]:
    values: dict[str, Any] = {
        "round": of.round,
        "descriptor_hash": of.digest(),
        "aggregator": NAMES[number],
        "frozen": Frozen.NEVER,
        "reason": "operator",
        **changes,
    }
    identity = IDENTITIES[number if signer is None else signer]
    return identity.sign(ABORT_LABEL, AbortStatement(**values))


def test_just_enough_statements_earn_the_credit() -> None:
    of = descriptor(**DISTRIBUTED, collusion={"aggregators": 2})
    three = [statement(of, number) for number in range(3)]
    assert abort_credit(of, three)
    assert not abort_credit(of, three[:2])
    assert not abort_credit(of, [])


def test_two_aggregators_of_one_operator_count_once() -> None:
    of = descriptor(**DISTRIBUTED, collusion={"aggregators": 1})
    first, second, *others = of.aggregators
    joined = (first, second.model_copy(update={"operator": first.operator}), *others)
    of = of.model_copy(update={"aggregators": joined})
    assert not abort_credit(of, [statement(of, 0), statement(of, 1)])
    assert abort_credit(of, [statement(of, 0), statement(of, 2)])


def test_two_statements_of_one_aggregator_count_once() -> None:
    of = descriptor(**DISTRIBUTED, collusion={"aggregators": 1})
    assert not abort_credit(of, [statement(of, 0), statement(of, 0, reason="other")])


@pytest.mark.parametrize(
    "changes",
    [
        {"frozen": Frozen.YES},
        {"frozen": Frozen.MAYBE},
        {"round": OTHER_ROUND},
        {"descriptor_hash": bytes(32)},
        {"aggregator": "stranger"},
        {"signer": 4},
    ],
    ids=str,
)
def test_a_statement_that_does_not_count_is_passed_over(changes: dict[str, Any]) -> None:
    """Alone it earns nothing; before the statements that count it takes nothing away."""
    of = descriptor(**DISTRIBUTED)
    other = statement(of, 0, **changes)
    assert not abort_credit(of, [other])
    assert abort_credit(of, [other, statement(of, 1)])


@pytest.mark.parametrize("scale", [1, 1000, 10**7])
def test_tail_of_one_draw_is_close_to_the_exact_one(scale: int) -> None:
    exact = scale * 64 * math.log(2)  # P(|Z| >= t) is about e^(-t/b)
    assert exact <= noise_tail((Draws(Fraction(scale), 1),)) <= 1.15 * exact + 70


def problem(largest: int, **sharing: Any) -> str | None:
    """A query whose contributions alone just fit; its noise has a scale of largest / epsilon."""
    given = {"privacy_unit": "record", "mechanism": "distributed", "epsilon": "100"}
    return headroom_problem(
        query(
            **{**given, **sharing},
            bounds=["0", str(largest)],
            max_readings=1000,
            layer="curator",
            n_max=10**7,
        )
    )


def test_the_noise_needs_room_too() -> None:
    fits = (2**63 - 1) // 10**10
    refusal = problem(fits)
    assert "part sum" in refusal
    assert f"could pass {2**63}, where sums wrap" in refusal
    assert problem(fits - 1000) is None


def test_shamir_has_less_room() -> None:
    fits = (2**57 - 13) // 2 // 10**10
    assert problem(fits) is None
    assert problem(fits, sharing="shamir", threshold=2, epsilon="10") is not None
    assert problem(fits - 1000, sharing="shamir", threshold=2) is None


def chernoff(*layers: tuple[float, float]) -> int:
    """The module's bound of (scale, total) layers, from its formula as it is written."""
    widest = max(scale for scale, _ in layers)
    found = []
    for step in range(1, 100):
        theta = step / 100 / widest
        exponent = 65 * math.log(2)
        for scale, total in layers:
            a = math.exp(-1 / scale)
            moment = (1 - a) ** 2 / ((1 - a * math.exp(theta)) * (1 - a * math.exp(-theta)))
            exponent += total * math.log(moment)
        found.append(exponent / theta)
    return math.ceil(min(found) * 1.0001)


@pytest.mark.parametrize(
    "layers",
    [
        (Draws(Fraction(1), 1),),
        (Draws(Fraction(50), 1, Fraction(1, 1000)),),
        (Draws(Fraction(50), 10**7),),
        (Draws(Fraction(7, 2), 40, Fraction(1, 4)), Draws(Fraction(90), 3)),
    ],
    ids=["one", "thousandth", "many", "two layers"],
)
def test_the_tail_is_chernoffs_over_99_thetas(layers: tuple[Draws, ...]) -> None:
    expected = chernoff(*((float(layer.scale), float(layer.total)) for layer in layers))
    assert noise_tail(layers) == pytest.approx(expected, rel=1e-9, abs=1)


def test_no_coin_and_no_party_make_no_tail() -> None:
    one = Draws(Fraction(100), 3)
    assert noise_tail((one, Draws(Fraction(1000), 0))) == noise_tail((one,))
    assert noise_tail((one, Draws(Fraction(1000), 5, probability=Fraction(0)))) == noise_tail(
        (one,)
    )


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
    assert float(own.delta) == pytest.approx(0.3066, abs=1e-3)  # the table of section 7
    assert other.epsilon == 4
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
