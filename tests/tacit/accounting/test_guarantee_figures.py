"""Figures of the specification and properties of what holds; slower than `test_guarantees`."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.amounts import UNVERIFIED, Cost
from tacit.accounting.charges import debit, sound_refusal
from tacit.accounting.guarantees import verified_line, verified_lines
from tacit.accounting.scenarios import Scenario, honest_draws
from tests.property_examples import examples
from tests.tacit.accounting.examples import distributed, rows, two_layer
from tests.tacit.examples import query


def test_coinciding_operators_drop_the_guarantee() -> None:
    q = distributed(collusion={"curators": 0, "aggregators": 1})
    assert sound_refusal(q) is None
    assert sound_refusal(q, ["A", "B", "C", "D", "E"]) is None
    refusal = sound_refusal(q, ["A", "A", "C", "D", "E"])
    assert refusal is not None
    assert "bring 2" in refusal
    assert "0.75 of one" in refusal
    line = rows(q, operators=["A"] * 5)["e"]
    assert (line.model, line.epsilon, line.delta) == ("none", None, 1)
    assert "one operator runs 5 of the 5" in (line.reason or "")
    assert debit(q, ["A"] * 5).assumed == UNVERIFIED
    with pytest.raises(ValueError):
        honest_draws(q, Scenario.ASSUMED, None, ["A"])


def test_distributed_holds_as_declared_and_decays_beyond() -> None:
    q = distributed(collusion={"curators": 0, "aggregators": 3})
    found = rows(q)
    for key in "abe":
        assert (found[key].model, found[key].epsilon, found[key].delta) == ("pure-dp", 1, 0)
    assert found["c"].model == "approximate-dp"  # R = 1/2
    assert float(found["c"].delta) == pytest.approx(0.3066, abs=5e-5)
    assert float(found["c"].curve[-1][0]) == pytest.approx(2.765, abs=5e-4)
    assert found["c"].curve[-1][1] == 0
    assert found["d"].model == "none"
    assert found["d"].trust_model == "OC"
    assert debit(q) == (Cost(Fraction(1), Fraction(0)), UNVERIFIED)


@examples(40)
@given(
    st.sampled_from(["aggregator", "curator", "both"]),
    st.sampled_from(["sum", "count", "mean", "variance", "slots"]),
    st.integers(0, 9),
    st.integers(0, 4),
    st.sampled_from(["additive", "shamir"]),
    st.integers(10, 40),
)
def test_a_distributed_query_always_holds_under_its_own_assumption(
    layer: str, function: str, t_u: int, t_s: int, sharing: str, participants: int
) -> None:
    changes: dict[str, Any] = {"function": function}
    if function == "slots":
        changes = {"function": "vector_sum", "dimension": 3}
    if sharing == "shamir":
        changes |= {"sharing": "shamir", "threshold": 4}
        t_s = min(t_s, 3)
    changes["collusion"] = {"curators": t_u, "aggregators": t_s}
    q = distributed(layer=layer, bounds=["0", "4"], **changes)
    assert sound_refusal(q) is None
    found = rows(q, participants=participants)
    assert (found["e"].epsilon, found["e"].delta) == (1, 0)
    assert debit(q).assumed == Cost(Fraction(1), Fraction(0))
    order = [found[key].delta if found[key].epsilon else Decimal(1) for key in "abcd"]
    assert order == sorted(order)  # more colluders never help


@examples(20)
@given(
    st.sampled_from(["0", "0.1", "0.5", "1"]),
    st.sampled_from(["0", "0.3", "1"]),
    st.sampled_from(["sum", "mean"]),
)
def test_curves_fall(pr_u: str, pr_s: str, function: str) -> None:
    for line in verified_lines(two_layer(pr_u, pr_s, function=function)):
        for before, after in zip(line.curve, line.curve[1:], strict=False):
            assert before[0] < after[0]
            assert before[1] > after[1]


def test_an_operator_that_opens_contributions_leaves_only_the_victims_own_share() -> None:
    asked = query(
        mechanism="distributed",
        epsilon="1",
        layer="curator",
        min_participants=50,
        collusion={"curators": 0, "aggregators": 1},
    )
    alone = ("one",) * asked.aggregators
    assumed = verified_line(asked, Scenario.ASSUMED, 50, alone)
    everyone = verified_line(asked, Scenario.EVERYONE, 50, alone)
    # Opened one by one, a contribution is covered by a fiftieth of a discrete Laplace.
    assert (assumed.epsilon, assumed.delta) == (everyone.epsilon, everyone.delta)
    assert assumed.delta > Decimal("0.9")


def test_curator_layer_keeps_a_remnant_when_all_aggregators_fall() -> None:
    q = distributed(layer="curator", collusion={"curators": 8, "aggregators": 0})
    found = rows(q)
    assert found["e"].delta == 0
    assert float(found["d"].delta) == pytest.approx(0.3066, abs=5e-5)  # the victim's own half
    assert any("10 curators" in text for text in found["e"].conditions)
    assert any("host" in text for text in found["e"].conditions)
    assert debit(q).epsilon_all_corrupt == 1
    assert float(debit(q).delta_all_corrupt or 0) == pytest.approx(0.3066, abs=5e-5)
