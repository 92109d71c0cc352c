"""Figures of the specification and properties of what holds; slower than `test_guarantees`."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.amounts import Cost
from tacit.accounting.charges import debit, sound_refusal
from tacit.accounting.guarantees import verified_line
from tacit.accounting.scenarios import Scenario
from tests.property_examples import examples
from tests.tacit.accounting.examples import distributed, rows
from tests.tacit.examples import query


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
