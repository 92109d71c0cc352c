"""What holds in each collusion scenario, what the sound stance refuses, what is debited."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from tacit.accounting.amounts import Cost
from tacit.accounting.charges import debit, sound_refusal
from tacit.accounting.guarantees import (
    HonestNoise,
    composed_delta,
    declared_epsilon,
    honest_noise,
    no_guarantee,
    verified_line,
    verified_lines,
    what_if,
)
from tacit.accounting.loss.rounding import Draws
from tacit.accounting.scenarios import Honest, Scenario
from tacit.query.terms import PrivacyUnit
from tests.tacit.accounting.examples import LETTERS, distributed, local, rows, small, two_layer
from tests.tacit.examples import query

# ------------------------------------------------------------------------------- on small queries


def test_the_noise_of_a_part_is_that_of_the_honest_parties() -> None:
    q = small(layer="both", collusion={"curators": 5, "aggregators": 3})
    scale, fifth, half = Fraction(4), Fraction(1, 5), Fraction(1, 2)
    (part,) = honest_noise(q, Honest(10, 2, 3))
    assert part == HonestNoise(Fraction(1), 4, 1, (Draws(scale, 10, fifth), Draws(scale, 2, half)))
    assert honest_noise(q, Honest(1, 0, 5))[0].draws == (Draws(scale, 1, fifth),)
    assert honest_noise(small(), Honest(1, 2, 3))[0].draws == (Draws(scale, 2, fifth),)
    assert honest_noise(query(), Honest(9, 3, 0))[0].draws == ()


def test_a_layer_that_never_draws_is_no_noise() -> None:
    assert honest_noise(two_layer("0", "0"), Honest(3, 4, 0))[0].draws == ()
    sure = honest_noise(two_layer("0", "1"), Honest(3, 4, 0))[0].draws
    assert sure == (Draws(Fraction(40), 4),)
    coins = honest_noise(two_layer("0.5", "0.25"), Honest(3, 4, 0))[0].draws
    assert [(layer.parties, layer.probability) for layer in coins] == [
        (3, Fraction(1, 2)),
        (4, Fraction(1, 4)),
    ]


def test_the_noise_stays_as_declared_for_another_unit() -> None:
    q = local(bounds=["0", "4"], max_readings=3, privacy_unit="record")
    own, other = (honest_noise(q, Honest(1, 0, 0), unit)[0] for unit in (None, PrivacyUnit.CURATOR))
    assert (own.sensitivity, other.sensitivity) == (4, 12)
    assert own.draws == other.draws == (Draws(Fraction(8), 1),)


def test_parts_have_their_shares_and_scales() -> None:
    parts = honest_noise(local(function="mean"), Honest(1, 0, 0))
    assert len(parts) == 2
    for part in parts:
        assert part.share == Fraction(1, 2)
        assert part.draws == (Draws(Fraction(part.sensitivity) / (Fraction(1, 2) * part.share), 1),)


def test_the_declared_epsilon_is_the_least_of_the_sure_layers() -> None:
    one, none = Honest(1, 1, 0), Honest(1, 0, 4)
    assert declared_epsilon(small(epsilon="3"), one) == 3
    assert declared_epsilon(local(), one) == Fraction(1, 2)
    assert declared_epsilon(two_layer("1", "0.5"), one) == Fraction("7.5")
    assert declared_epsilon(two_layer("0.5", "1"), one) == Fraction("2.5")
    assert declared_epsilon(two_layer("0.5", "1"), none) == 10
    assert declared_epsilon(two_layer("0.5", "0.5"), none) == 10


def test_nothing_is_stated_below_one_draw_with_more_than_one_coordinate() -> None:
    histogram = {"function": "histogram", "edges": ["0", "50", "100"]}
    q = small(layer="curator", collusion={"curators": 8}, bounds=["0", "100"], **histogram)
    assert no_guarantee(q, honest_noise(q, Honest(2, 0, 0))) is None  # a whole draw
    reason = no_guarantee(q, honest_noise(q, Honest(1, 0, 0)))
    assert (reason or "").startswith("the honest parties' shares hold 0.5 of one discrete Laplace")
    third = small(layer="curator", min_participants=7, bounds=["0", "100"], **histogram)
    assert "shares hold 0.1428 of" in (
        no_guarantee(third, honest_noise(third, Honest(1, 0, 0))) or ""
    )
    most = small(
        layer="curator", min_participants=10**5, n_max=10**5, bounds=["0", "100"], **histogram
    )
    nearly = no_guarantee(most, honest_noise(most, Honest(99_999, 0, 0))) or ""
    assert "shares hold 0.9999 of" in nearly
    single = small(layer="curator", collusion={"curators": 8})
    assert no_guarantee(single, honest_noise(single, Honest(1, 0, 0))) is None
    assert "no honest party adds noise" in (
        no_guarantee(single, honest_noise(single, Honest(0, 0, 0))) or ""
    )
    whole = local(**histogram, bounds=["0", "100"])
    assert no_guarantee(whole, honest_noise(whole, Honest(1, 0, 0))) is None


def test_deltas_of_parts_compose() -> None:
    """d1 + d2 - d1 d2, at each part's share of epsilon, of parts with one law: 2 d - d^2."""
    q = small(function="mean", layer="curator", collusion={"curators": 8})
    parts = honest_noise(q, Honest(1, 0, 0))
    each = [composed_delta((part,), Fraction(1)) for part in parts]
    both = float(each[0] + each[1] - each[0] * each[1])
    assert float(composed_delta(parts, Fraction(1))) == pytest.approx(both, rel=1e-12)
    assert float(composed_delta(parts, Fraction(1))) == pytest.approx(0.4345870948, rel=1e-8)
    doubled = composed_delta(parts, Fraction(2))
    assert 0 < doubled < composed_delta(parts, Fraction(1))


def test_one_coin_is_flipped_for_all_parts() -> None:
    """Once 1/4 for both parts, not twice 1/4; a layer that is sure leaves no coin to flip."""
    coins = two_layer("0.5", "0.5", function="mean")
    assert composed_delta(honest_noise(coins, Honest(1, 1, 3)), Fraction(10)) == Decimal("0.25")
    sure = two_layer("1", "0.5", function="mean")
    assert composed_delta(honest_noise(sure, Honest(1, 1, 3)), Fraction("7.5")) == 0


def test_what_if_counts_whose_noise_is_left() -> None:
    q = small(layer="both", collusion={"curators": 5, "aggregators": 3})
    line = what_if(q, 9, 4)
    assert line.description == "9 curators and 4 of 5 aggregators"
    assert line.trust_model is None
    assert line.conditions == ()
    assert "shares hold 0.7 of one" in (line.reason or "")  # 1/5 and 1/2
    assert float(line.delta) == pytest.approx(0.1595828956, rel=1e-8)
    # All five aggregators open the contributions: the victim's own share is left.
    opened = what_if(q, 0, 5)
    assert "shares hold 0.2 of one" in (opened.reason or "")
    assert what_if(q, 2, 5).delta == opened.delta == what_if(q, 0, 5, 20).delta
    assert "shares hold 0.8 of" in (what_if(small(collusion={"aggregators": 0}), 0, 1).reason or "")


def test_what_if_takes_the_participants_that_are_passed() -> None:
    """Shares of a tenth: 4 honest of 10 hold 0.4, and 7 of 13 hold 0.7."""
    q = small(layer="curator")
    assert "shares hold 0.4 of" in (what_if(q, 6, 0).reason or "")
    assert "shares hold 0.7 of" in (what_if(q, 6, 0, 13).reason or "")


def test_what_if_of_a_local_query_leaves_the_victims_own_draw() -> None:
    line = what_if(local(min_participants=5), 0, 0)
    assert (line.epsilon, line.delta) == (Fraction(1, 2), 0)
    assert line.curve == what_if(local(min_participants=5), 4, 1).curve


@pytest.mark.parametrize(("curators", "aggregators"), [(-1, 0), (10, 0), (0, -1), (0, 6)], ids=str)
def test_what_if_of_more_than_there_are_is_refused(curators: int, aggregators: int) -> None:
    with pytest.raises(ValueError, match="honest"):
        what_if(small(), curators, aggregators)


def test_what_if_of_all_but_the_victim_is_answered() -> None:
    assert what_if(small(), 9, 0).delta == 0
    assert what_if(small(), 0, 5).epsilon is None
    with pytest.raises(ValueError, match="honest"):
        what_if(small(), 12, 0, 12)
    assert what_if(small(), 11, 0, 12).delta == 0


def test_the_points_of_a_pure_guarantee() -> None:
    """One discrete Laplace over 4 units at epsilon 1; brute force over its values."""
    line = rows(small())["b"]
    pure = rows(small(collusion={"aggregators": 4}))["c"]
    assert [point[0] for point in line.curve] == [Fraction(n, 4) for n in range(5)]
    assert [point[0] for point in pure.curve] == [Fraction(n, 4) for n in range(5)]
    assert (pure.model, pure.curve[-1][1]) == ("pure-dp", 0)
    law = {z: math.tanh(1 / 8) * math.exp(-abs(z) / 4) for z in range(-400, 401)}
    for epsilon, delta in pure.curve:
        exact = sum(
            max(0.0, mass - math.exp(epsilon) * law.get(z - 4, 0.0)) for z, mass in law.items()
        )
        assert float(delta) == pytest.approx(exact, abs=1e-12)


def test_the_points_of_an_approximate_guarantee() -> None:
    """Around epsilon 1 of half a draw; where a point is no better than the last it is omitted."""
    line = rows(small(layer="curator", collusion={"curators": 8}))["d"]
    assert [float(epsilon) for epsilon, _ in line.curve] == pytest.approx(
        [0, 0.5, 1, 2, 2.11332446]
    )
    assert line.curve[2] == (Fraction(1), line.delta)
    assert line.curve[-1][1] == 0
    assert line.model == "approximate-dp"
    assert line.reason == (
        "the honest parties' shares hold 0.5 of one discrete Laplace, less than the one that "
        "epsilon needs"
    )
    coins = rows(two_layer("0.5", "0.5", function="mean"))["c"]
    assert [float(epsilon) for epsilon, _ in coins.curve] == [0, 5, 10]
    assert coins.reason.startswith("with probability 0.25 no honest party draws noise")


def test_an_approximate_guarantee_reaches_five_times_its_epsilon() -> None:
    line = rows(small(epsilon="0.1", layer="curator", collusion={"curators": 8}))["d"]
    tenths = [point[0] * 10 for point in line.curve[:-1]]
    assert tenths == [0, Fraction(1, 2), 1, 2, 5]
    assert line.curve[-1][1] == 0


def test_fewer_aggregators_draw_than_may_collude_unseen() -> None:
    """Under shamir 3 of 5 open a contribution, and only one is sure to draw: 2 leave none."""
    shamir: dict[str, Any] = {"sharing": "shamir", "threshold": 3, "c_noise": 1}
    assert what_if(small(**shamir), 0, 0).epsilon == 1
    assert what_if(small(**shamir), 0, 1).epsilon is None
    assert what_if(small(**shamir), 0, 2).epsilon is None
    assert what_if(two_layer("0.5", "1", **shamir), 0, 0).epsilon == Fraction("2.5")
    assert what_if(two_layer("0.5", "1", **shamir), 0, 2).epsilon == 10


def test_an_adversary_that_opens_contributions_meets_no_aggregators_noise() -> None:
    """Epsilon of two layers is then not that of the aggregators, though they surely draw."""
    assert what_if(two_layer("0.5", "1"), 0, 3).epsilon == Fraction("2.5")
    assert what_if(two_layer("0.5", "1"), 0, 4).epsilon == 10


def test_the_end_of_a_curve_adds_up_over_parts() -> None:
    line = rows(small(function="mean", layer="curator", collusion={"curators": 8}))["d"]
    single = rows(small(layer="curator", collusion={"curators": 8}))["d"]
    assert line.curve[-1][1] == 0
    assert line.curve[-1][0] > single.curve[-1][0]
    assert float(line.curve[-1][0]) == pytest.approx(2.4696565516, rel=1e-9)


HOST = (
    "hosted curators collude all together if their host does, and count so; so does every curator "
    "identity that the adversary enrolled"
)
BASIC = "the parts of the vector are accounted one by one and composed (basic)"
AT_LEAST = "a manifest of at least 10 curators"


def test_the_conditions_of_curators_noise() -> None:
    found = rows(small(layer="curator"))
    assert [found[key].conditions for key in "abde"] == [(AT_LEAST, HOST), (), (), (AT_LEAST, HOST)]
    assert rows(small(layer="curator"), participants=12)["a"].conditions == (HOST,)
    assert rows(small())["e"].conditions == ()
    assert rows(local())["e"].conditions == ()
    assert rows(small(function="mean"))["e"].conditions == (BASIC,)


def test_what_nothing_holds_of() -> None:
    exact = rows(query())["a"]
    assert exact.reason == "mechanism exact adds no noise: the result is the plain sum"
    paper = rows(local(stance="paper"))["a"]
    assert "follows each curator's own data" in paper.reason
    for line in (exact, paper):
        assert (line.model, line.epsilon, line.delta, line.curve) == ("none", None, 1, ())


def test_noise_that_bounds_nothing_is_no_guarantee() -> None:
    """Never drawn but for once in 10^40: delta is 1 in 17 digits."""
    line = rows(two_layer("1e-40", "1e-40", function="mean"))["d"]
    assert (line.model, line.delta) == ("none", 1)
    assert line.reason == "what the honest parties add is too little to bound anything"


def test_an_operator_of_several_is_named_in_the_reason() -> None:
    """A fifth of 5 aggregators each; the one that may collude brings 3: 2 of 4 are left."""
    line = rows(small(collusion={"aggregators": 1}), operators=list("AAABC"))["e"]
    assert line.reason == (
        "operators run several aggregators: the 1 assumed to collude may bring 3; the honest "
        "parties' shares hold 0.5 of one discrete Laplace, less than the one that epsilon needs"
    )
    pure = rows(small(collusion={"aggregators": 3}), operators=list("AABCD"))["a"]
    assert pure.reason is None


def test_the_trust_model_takes_the_participants_that_are_passed() -> None:
    q = small(layer="curator", collusion={"curators": 5})
    assert verified_line(q, Scenario.ASSUMED).trust_model is None
    assert verified_line(q, Scenario.ASSUMED, 11).trust_model == "OAMC"


# ------------------------------------------------------------------------------ on larger queries


def test_two_operators_that_can_open_together_fall_to_all_aggregators() -> None:
    q = distributed(
        sharing="shamir", threshold=3, c_noise=3, collusion={"curators": 0, "aggregators": 2}
    )
    line = rows(q, operators=["A", "A", "B", "C", "D"])["e"]
    assert line.model == "none"
    assert "3 of the 5" in (line.reason or "")


# -------------------------------------------------------------------------------------- mechanisms


def test_every_aggregator_draws_whole_when_all_but_one_may_collude() -> None:
    found = rows(distributed(collusion={"curators": 0, "aggregators": 4}))
    assert [found[key].delta for key in "abce"] == [0, 0, 0, 0]
    assert found["c"].trust_model == "OAOC"
    assert found["e"].trust_model == "OAMC"


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


def test_two_layers_with_coins_reach_the_table_and_are_refused() -> None:
    q = two_layer("1e-4", "1e-2")
    found = rows(q)
    assert found["c"].epsilon == 10
    assert float(found["c"].delta) == pytest.approx(0.7640, abs=6e-5)
    assert float(found["b"].delta) == pytest.approx(0.0604, abs=6e-5)  # four honest aggregators
    refusal = sound_refusal(q)
    assert "with probability 0.96" in refusal
    assert "above the declared 0" in refusal
    lenient = two_layer("1e-4", "1e-2", delta="0.07")
    assert sound_refusal(lenient) is None
    cost = debit(lenient)
    assert cost.epsilon == 10
    assert 0 < cost.delta <= Fraction("0.07")


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
    assert debit(q) == (Cost(Fraction("0.5"), Fraction(0)),) * 2
    assert len({line.curve for line in verified_lines(q, 100)}) == 1
