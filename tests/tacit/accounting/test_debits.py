"""What a round is charged, and what the sound stance refuses."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tacit.accounting.amounts import UNVERIFIED, Cost
from tacit.accounting.charges import Debit, debit, sound_refusal
from tacit.query.query import Query
from tests.tacit.accounting.examples import distributed, local, two_layer
from tests.tacit.examples import query

HALF = Cost(Fraction(1, 2), Fraction(0))


def small(**changes: Any) -> Query:
    """Four ring units of sensitivity: quick to certify."""
    return distributed(**{"bounds": ["0", "4"], **changes})


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
    assert refusal is not None
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
