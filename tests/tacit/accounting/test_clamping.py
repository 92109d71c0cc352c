"""What clamping the noise of curators adds to delta is never below what it costs exactly.

Spec: validity, section 5, and acceptance check 9.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.accounting.charges import debit, headroom_problem, sound_refusal, unit_cost, unit_costs
from tacit.accounting.composition import round_loss
from tacit.accounting.guarantees import (
    NEGLIGIBLE,
    VerifiedLine,
    clamp_delta,
    counts_clamping,
    verified_line,
    verified_lines,
    with_clamping,
)
from tacit.accounting.scenarios import Scenario
from tacit.query.mechanisms import curator_plan
from tacit.query.proofs import proof_plan
from tacit.query.query import Query
from tacit.query.terms import PrivacyUnit
from tests.tacit.accounting.examples import distributed
from tests.tacit.examples import query

SHARES = {"mechanism": "distributed", "epsilon": "1", "layer": "curator"}
ONE_DRAW = {**SHARES, "collusion": {"curators": 1}}
REACH = 1 << 12


def proved(**changes: Any) -> Query:
    given = {"function": "count", "max_readings": 3, "n_max": 2, "validity": "proved"}
    return query(**{**given, **changes})


def clamped_law(asked: Query) -> NDArray[np.float64]:
    """The law of one curator's clamped noise on -REACH .. REACH - 1, from its characteristic
    function."""
    plan = curator_plan(asked)
    (bound,) = proof_plan(asked).of(1).function.noise_bounds
    a = math.exp(-1 / float(plan.scales[0]))
    angle = 2 * math.pi * np.arange(2 * REACH) / (2 * REACH)
    phi = ((1 - a) ** 2 / (1 - 2 * a * np.cos(angle) + a * a)) ** float(plan.weight)
    law = np.fft.fftshift(np.maximum(np.fft.ifft(phi).real, 0))
    clamped = np.zeros_like(law)
    np.add.at(clamped, np.clip(np.arange(2 * REACH) - REACH, -bound, bound) + REACH, law)
    return clamped / clamped.sum()


def exact_delta(asked: Query, epsilon: float, draws: int) -> float:
    """Of the clamped noise of `draws` curators, over a sensitivity of 3, both ways."""
    law = one = clamped_law(asked)
    for _ in range(draws - 1):
        law = np.convolve(law, one)[REACH : -REACH + 1]
    shifted = np.roll(law, 3)
    ways = [np.maximum(p - math.exp(epsilon) * q, 0).sum() for p, q in ((law, shifted),
                                                                       (shifted, law))]  # fmt: skip
    return float(max(ways))


@pytest.mark.parametrize("tail", ["0.9", "0.1", "0.0001"])
@pytest.mark.parametrize(("changes", "draws"), [(ONE_DRAW, 1), (SHARES, 2)])
def test_what_is_verified_is_never_below_the_clamped_mechanisms_own_delta(
    tail: str, changes: dict[str, Any], draws: int
) -> None:
    for epsilon in ("0.5", "1", "2"):
        asked = proved(**{**changes, "epsilon": epsilon}, noise_tail=tail)
        line = verified_line(asked, Scenario.ASSUMED)
        exact = exact_delta(asked, float(epsilon), draws)
        assert exact <= float(line.delta) + 1e-12
        for at, delta in line.curve:
            assert exact_delta(asked, float(at), draws) <= float(delta) + 1e-12


def test_a_bound_near_twice_the_scale_costs_what_the_specification_says() -> None:
    """One Laplace, b = Delta = 3, T = 6: 0.154 exactly."""
    asked = proved(**ONE_DRAW, noise_tail="0.74")
    assert proof_plan(asked).of(1).function.noise_bounds == (6,)
    exact = exact_delta(asked, 1.0, 1)
    assert exact == pytest.approx(0.154, abs=0.001)
    assert exact <= float(verified_line(asked, Scenario.ASSUMED).delta)


def test_the_default_tail_is_stated_and_not_counted() -> None:
    asked = proved(**ONE_DRAW)
    line = verified_line(asked, Scenario.ASSUMED)
    assert line.delta == 0
    assert line.clamp_delta == clamp_delta(asked, Fraction(1))
    limit = (1 + math.e) * 2.0**-64
    assert float(line.clamp_delta) == pytest.approx(limit)
    assert not counts_clamping(asked, Fraction(1))
    assert sound_refusal(asked) is None
    assert debit(asked).assumed.delta == 0
    assert round_loss(asked, Scenario.ASSUMED, PrivacyUnit.CURATOR).laplaces


def test_a_line_holds_no_aggregator_unless_it_says_so() -> None:
    line = VerifiedLine(Scenario.ASSUMED, "anyone", None, "none", None, Decimal(1))
    assert line.corrupt_aggregators == 0
    assert verified_line(distributed(), Scenario.EVERYONE).corrupt_aggregators > 1


def test_a_larger_tail_is_counted_wherever_delta_is() -> None:
    asked = proved(**ONE_DRAW, noise_tail="1e-9")
    added = (1 + math.e) * 1e-9
    line = verified_line(asked, Scenario.ASSUMED)
    assert float(line.delta) == pytest.approx(added, rel=1e-12)
    assert line.model == "approximate-dp"
    assert "clamping" in line.reason
    assert Fraction(line.delta) >= clamp_delta(asked, Fraction(1)) > NEGLIGIBLE
    assert all(delta > 0 for _, delta in line.curve)
    refusal = sound_refusal(asked)
    assert "above the declared 0" in refusal
    assert sound_refusal(proved(**ONE_DRAW, noise_tail="1e-9", delta="1e-8")) is None
    costs = debit(asked)
    assert costs.assumed.delta == Fraction(line.delta)
    for (unit, scenario), cost in unit_costs(asked).items():
        if unit is PrivacyUnit.CURATOR:
            assert cost.delta == Fraction(verified_line(asked, scenario).delta)
    record = unit_cost(asked, Scenario.ASSUMED, PrivacyUnit.RECORD)
    assert record.epsilon == Fraction(1, 3)
    assert float(record.delta) == pytest.approx((1 + math.exp(1 / 3)) * 1e-9, rel=1e-12)
    loss = round_loss(asked, Scenario.ASSUMED, PrivacyUnit.CURATOR)
    assert loss.laplaces == ()
    assert loss.cost == costs.assumed


def test_the_limit_of_what_is_counted() -> None:
    """A row states what it adds from 2^-50 on, by its own epsilon."""
    zero = Fraction(0)
    half = proved(**ONE_DRAW, noise_tail=f"1/{1 << 51}")  # (1 + e^0) / 2^51 = 2^-50
    assert clamp_delta(half, zero) == NEGLIGIBLE
    assert with_clamping(half, zero, Decimal("0.25")) == Decimal("0.25")
    more = proved(**ONE_DRAW, noise_tail=f"1/{(1 << 51) - 1}")
    assert with_clamping(more, zero, Decimal(0)) > 0
    assert with_clamping(more, zero, Decimal(1)) == 1
    steep = proved(**{**ONE_DRAW, "epsilon": "11"})
    line = verified_line(steep, Scenario.ASSUMED)
    assert Fraction(line.delta) >= line.clamp_delta > NEGLIGIBLE


def test_a_tail_that_leaves_nothing_says_so() -> None:
    line = verified_line(proved(**{**ONE_DRAW, "epsilon": "3"}, noise_tail="0.9"), Scenario.ASSUMED)
    assert (line.model, line.delta, line.clamp_delta) == ("none", 1, None)
    assert "clamping" in line.reason


@pytest.mark.parametrize(
    "changes",
    [{"mechanism": "exact"}, {"mechanism": "distributed", "epsilon": "1"}],
    ids=["exact", "aggregators"],
)
def test_where_curators_draw_nothing_nothing_is_clamped(changes: dict[str, Any]) -> None:
    asked = proved(**changes)
    assert all(line.clamp_delta is None for line in verified_lines(asked))
    declared = query(**SHARES)
    assert all(line.clamp_delta is None for line in verified_lines(declared))
    assert clamp_delta(declared, Fraction(1)) == 0


def test_two_layers_state_it_too() -> None:
    layers = {"mechanism": "two-layer", "epsilon_u": "2", "epsilon_s": "1", "pr_u": "1",
              "pr_s": "1"}  # fmt: skip
    found = {line.scenario: line for line in verified_lines(proved(**layers))}
    own, all_corrupt = (
        found[scenario].clamp_delta for scenario in (Scenario.ASSUMED, Scenario.EVERYONE)
    )
    assert float(all_corrupt / own) == pytest.approx((1 + math.e**2) / (1 + math.e))


# --- room for noise ------------------------------------------------------------------------------


def test_the_aggregators_noise_needs_room_in_the_field() -> None:
    """A total that leaves less room below 62 bits than the aggregators' noise may take."""
    limit = 2**62 - 1
    largest = min(range(462_000_000, 462_020_000), key=lambda bound: limit % (1000 * bound))
    changes = {
        "bounds": ["0", str(largest)],
        "max_readings": 1000,
        "n_max": limit // (1000 * largest),
        "privacy_unit": "record",
        "validity": "proved",
    }
    assert limit % (1000 * largest) < 50_000_000
    assert headroom_problem(query(**changes)) is None
    noisy = {**changes, "mechanism": "distributed", "epsilon": "100"}  # b is 4,620,000 and more
    refusal = headroom_problem(query(**noisy))
    assert "part sum" in refusal
    assert "62 bits" in refusal
    assert headroom_problem(query(**{**noisy, "n_max": changes["n_max"] - 1})) is None
