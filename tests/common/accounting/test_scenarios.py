"""What holds in each collusion scenario, what the sound stance refuses, what is debited."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.accounting.costs import UNVERIFIED, shown_delta
from common.accounting.debits import debit, sound_refusal
from common.accounting.guarantees import (
    VerifiedLine,
    declared_epsilon,
    verified_line,
    verified_lines,
    what_if,
)
from common.accounting.scenarios import Honest, Scenario, honest_draws
from common.models.query import Query
from tests.common.examples import query

LETTERS = "abcde"


def distributed(**changes: Any) -> Query:
    given = {
        "mechanism": "distributed",
        "epsilon": "1",
        "bounds": ["0", "100"],
        "max_readings": 1,
        "aggregators": 5,
        "min_participants": 10,
    }
    return query(**{**given, **changes})


def two_layer(pr_u: str, pr_s: str, **changes: Any) -> Query:
    given = {
        "mechanism": "two-layer",
        "epsilon_u": "7.5",
        "epsilon_s": "2.5",
        "pr_u": pr_u,
        "pr_s": pr_s,
        "bounds": ["0", "100"],
        "max_readings": 1,
        "aggregators": 4,
        "min_participants": 3,
    }
    return query(**{**given, **changes})


def local(**changes: Any) -> Query:
    return query(mechanism="local", epsilon_i="0.5", sharing="none", aggregators=1, **changes)


def rows(of: Query, **arguments: Any) -> dict[str, VerifiedLine]:
    return {line.scenario.value: line for line in verified_lines(of, **arguments)}


# --------------------------------------------------------------------------------- honest parties


def test_honest_draws_of_additive_sharing() -> None:
    q = distributed(collusion={"curators": 4, "aggregators": 2})
    found = {key: honest_draws(q, Scenario(key), 30) for key in LETTERS}
    assert {key: (h.curators, h.aggregators) for key, h in found.items()} == {
        "a": (30, 5),
        "b": (1, 5),
        "c": (1, 1),
        "d": (1, 0),
        "e": (26, 3),
    }
    assert honest_draws(q, Scenario.RECIPIENT, None).curators == 10


def test_honest_draws_of_shamir_count_what_a_manifest_is_sure_to_hold() -> None:
    q = distributed(
        sharing="shamir", threshold=3, c_noise=3, collusion={"curators": 4, "aggregators": 1}
    )
    found = {key: honest_draws(q, Scenario(key), None).aggregators for key in LETTERS}
    assert found == {"a": 3, "b": 3, "c": 1, "d": 0, "e": 2}


@pytest.mark.parametrize(
    ("operators", "blind", "assumed"),
    [
        ("ABCDE", (4, None), (1, None)),
        ("AABCD", (4, None), (2, "bring 2")),
        ("AAABB", (3, None), (3, "bring 3")),
        ("AAAAA", (5, "one operator runs 5"), (5, "one operator runs 5")),
    ],
)
def test_an_operator_is_one_party(
    operators: str, blind: tuple[int, str | None], assumed: tuple[int, str | None]
) -> None:
    q = distributed(collusion={"curators": 0, "aggregators": 1})
    for scenario, (corrupt, reason) in (
        (Scenario.BLIND_AGGREGATORS, blind),
        (Scenario.ASSUMED, assumed),
    ):
        found = honest_draws(q, scenario, None, tuple(operators))
        assert found.corrupt_aggregators == corrupt
        assert found.aggregators == 5 - corrupt
        assert (found.fallen is None) if reason is None else (reason in (found.fallen or ""))


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


def test_two_operators_that_can_open_together_fall_to_all_aggregators() -> None:
    q = distributed(
        sharing="shamir", threshold=3, c_noise=3, collusion={"curators": 0, "aggregators": 2}
    )
    line = rows(q, operators=["A", "A", "B", "C", "D"])["e"]
    assert line.model == "none"
    assert "3 of the 5" in (line.reason or "")


# -------------------------------------------------------------------------------------- mechanisms


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
    assert debit(q) == ((Fraction(1), Fraction(0)), UNVERIFIED)


def test_every_aggregator_draws_whole_when_all_but_one_may_collude() -> None:
    found = rows(distributed(collusion={"curators": 0, "aggregators": 4}))
    assert [found[key].delta for key in "abce"] == [0, 0, 0, 0]
    assert found["c"].trust_model == "OAOC"
    assert found["e"].trust_model == "OAMC"


def test_below_one_draw_several_coordinates_have_no_guarantee() -> None:
    q = distributed(
        collusion={"curators": 0, "aggregators": 3},
        function="histogram",
        edges=["0", "50", "100"],
    )
    found = rows(q)
    assert found["e"].delta == 0
    assert found["c"].model == "none"
    assert "not log-concave" in (found["c"].reason or "")


def test_curator_layer_keeps_a_remnant_when_all_aggregators_fall() -> None:
    q = distributed(layer="curator", collusion={"curators": 8, "aggregators": 0})
    found = rows(q)
    assert found["e"].delta == 0
    assert float(found["d"].delta) == pytest.approx(0.3066, abs=5e-5)  # the victim's own half
    assert any("10 curators" in text for text in found["e"].conditions)
    assert any("host" in text for text in found["e"].conditions)
    assert debit(q).epsilon_all_corrupt == 1
    assert float(debit(q).delta_all_corrupt or 0) == pytest.approx(0.3066, abs=5e-5)


def test_both_layers_add_up() -> None:
    both = rows(distributed(layer="both", collusion={"curators": 5, "aggregators": 3}))
    single = rows(distributed(collusion={"curators": 5, "aggregators": 3}))
    assert both["c"].delta < single["c"].delta  # 1/2 + 1/5 against 1/2
    assert both["d"].model == "approximate-dp"
    assert both["e"].delta == 0


@pytest.mark.parametrize(
    ("pr_u", "pr_s", "epsilons"),
    [
        ("1", "1", {"a": "2.5", "b": "2.5", "c": "2.5", "d": "7.5", "e": "2.5"}),
        ("1", "0.5", dict.fromkeys(LETTERS, "7.5")),
    ],
)
def test_two_layers_that_surely_draw_are_pure(
    pr_u: str, pr_s: str, epsilons: dict[str, str]
) -> None:
    q = two_layer(pr_u, pr_s)
    for key, line in rows(q).items():
        assert (line.model, line.epsilon, line.delta) == ("pure-dp", Fraction(epsilons[key]), 0)
    assert sound_refusal(q) is None


def test_two_layers_sure_only_at_the_aggregators() -> None:
    found = rows(two_layer("0.5", "1"))
    assert [found[key].epsilon for key in "abce"] == [Fraction("2.5")] * 4
    assert found["d"].epsilon == 10
    assert found["d"].delta > Decimal("0.1")


def test_two_layers_with_coins_reach_the_table_and_are_refused() -> None:
    q = two_layer("1e-4", "1e-2")
    found = rows(q)
    assert found["c"].epsilon == 10
    assert float(found["c"].delta) == pytest.approx(0.7640, abs=6e-5)
    assert float(found["b"].delta) == pytest.approx(0.0604, abs=6e-5)  # four honest aggregators
    refusal = sound_refusal(q)
    assert refusal is not None
    assert "with probability 0.96" in refusal
    assert "above the declared 0" in refusal
    lenient = two_layer("1e-4", "1e-2", delta="0.07")
    assert sound_refusal(lenient) is None
    cost = debit(lenient)
    assert cost.epsilon == 10
    assert cost.delta is not None
    assert 0 < cost.delta <= Fraction("0.07")


def test_two_layers_never_draw() -> None:
    found = rows(two_layer("0", "0"))
    assert all(line.model == "none" for line in found.values())


def test_one_coin_covers_all_parts_and_coordinates() -> None:
    q = two_layer("0.5", "0.5", function="variance", resolution="1")
    silent = Fraction(1, 2) ** 2
    line = rows(q)["c"]
    assert float(line.delta) >= float(silent)
    assert float(line.delta) == pytest.approx(float(silent), abs=1e-6)


def test_local_is_the_same_in_every_row() -> None:
    q = local()
    assert [(line.epsilon, line.delta) for line in verified_lines(q, 100)] == [
        (Fraction("0.5"), 0)
    ] * 5
    assert debit(q) == ((Fraction("0.5"), Fraction(0)), (Fraction("0.5"), Fraction(0)))
    assert len({line.curve for line in verified_lines(q, 100)}) == 1


@pytest.mark.parametrize("q", [query(), two_layer("1", "1", stance="paper"), local(stance="paper")])
def test_exact_and_paper_have_no_verified_figure(q: Query) -> None:
    for line in verified_lines(q):
        assert (line.model, line.epsilon, line.delta) == ("none", None, 1)
        assert line.reason
    assert debit(q) == (UNVERIFIED, UNVERIFIED)
    assert sound_refusal(q) is None


def test_declared_epsilons() -> None:
    all_honest, none_honest = Honest(1, 4, 0), Honest(1, 0, 4)
    assert declared_epsilon(two_layer("1", "1"), all_honest) == Fraction("2.5")
    assert declared_epsilon(two_layer("1", "1"), none_honest) == Fraction("7.5")
    assert declared_epsilon(two_layer("0.5", "0.5"), all_honest) == 10
    assert declared_epsilon(query(), all_honest) is None


def test_shown_deltas_are_rounded_up() -> None:
    assert shown_delta(Decimal("0.12341")) == "0.1235"
    assert shown_delta(Decimal("1e-284")) == "1e-30"
    assert shown_delta(Decimal(0)) == "0"


# -------------------------------------------------------------------------------------- properties


@settings(deadline=None, max_examples=40)
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
    q = distributed(layer=layer, collusion={"curators": t_u, "aggregators": t_s}, **changes)
    assert sound_refusal(q) is None
    found = rows(q, participants=participants)
    assert (found["e"].epsilon, found["e"].delta) == (1, 0)
    assert debit(q).assumed == (Fraction(1), Fraction(0))
    order = [found[key].delta if found[key].epsilon else Decimal(1) for key in "abcd"]
    assert order == sorted(order)  # more colluders never help


@settings(deadline=None, max_examples=20)
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


def test_one_line_alone_is_the_same() -> None:
    q = distributed()
    assert verified_line(q, Scenario.ASSUMED) == verified_lines(q)[4]


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


def test_what_if_agrees_with_the_named_rows_and_rises_with_the_colluders() -> None:
    asked = query(
        mechanism="distributed",
        epsilon="1",
        min_participants=50,
        collusion={"curators": 0, "aggregators": 1},
    )
    c = asked.aggregators
    assert what_if(asked, 0, 1).delta == verified_line(asked, Scenario.ASSUMED).delta
    assert what_if(asked, 49, c).epsilon is None
    deltas = [what_if(asked, 0, colluding).delta for colluding in range(c + 1)]
    assert deltas == sorted(deltas)
    with pytest.raises(ValueError, match="honest"):
        what_if(asked, 50, 0)
