"""Which noise each party adds, and the refusal of queries whose numbers do not fit.

Statistical tests have fixed seeds; each would otherwise alarm falsely with probability `ALARM`.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tacit.crypto.sharing import Additive, Shamir
from tacit.query.functions import parts
from tacit.query.mechanisms import (
    LaplacePlan,
    aggregator_plan,
    curator_plan,
    draw,
    draw_by_local_sensitivity,
    draw_total,
    noisy_aggregators,
    scheme,
    shares_its_noise,
)
from tacit.randomness import SeededRandom
from tests.tacit.examples import VARIANTS, query

ALARM = 1e-6
TWO_LAYER = {
    "mechanism": "two-layer",
    "epsilon_u": "7.5",
    "epsilon_s": "2.5",
    "pr_u": "0.0001",
    "pr_s": "0.01",
}
DISTRIBUTED = {"mechanism": "distributed", "epsilon": "0.5"}
SHAMIR = {"sharing": "shamir", "aggregators": 5, "threshold": 3}
LOCAL = {"mechanism": "local", "epsilon_i": "2", "sharing": "none", "aggregators": 1}


def test_a_query_names_how_contributions_are_shared():
    additive, local = scheme(query()), scheme(query(**LOCAL))
    shamir = scheme(query(sharing="shamir", threshold=2))
    assert isinstance(additive, Additive)
    assert isinstance(local, Additive)
    assert isinstance(shamir, Shamir)
    assert (additive.count, local.count) == (3, 1)
    assert (shamir.threshold, shamir.count) == (2, 3)


def test_exact_adds_nothing():
    assert curator_plan(query()) is aggregator_plan(query()) is None
    assert not shares_its_noise(query())


def test_two_layer_scales_and_coins():
    asked = query(**TWO_LAYER)  # two readings of at most 3 units: sensitivity 6
    assert curator_plan(asked) == LaplacePlan(
        (Fraction(6) / Fraction("7.5"),), (1,), Fraction(1, 10**4)
    )
    assert aggregator_plan(asked) == LaplacePlan(
        (Fraction(6) / Fraction("2.5"),), (1,), Fraction(1, 100)
    )


def test_local_noise_is_the_curators_alone():
    asked = query(**LOCAL)
    assert curator_plan(asked) == LaplacePlan((Fraction(3),), (1,))
    assert aggregator_plan(asked) is None


@pytest.mark.parametrize(
    ("changes", "curator", "aggregator"),
    [
        ({}, None, Fraction(1, 3)),
        ({"collusion": {"aggregators": 2}}, None, Fraction(1)),
        ({"layer": "curator", "min_participants": 10}, Fraction(1, 10), None),
        (
            {"layer": "curator", "min_participants": 10, "collusion": {"curators": 9}},
            Fraction(1),
            None,
        ),
        ({"layer": "both", "min_participants": 4}, Fraction(1, 4), Fraction(1, 3)),
        ({**SHAMIR}, None, Fraction(1, 3)),
        ({**SHAMIR, "c_noise": 2, "collusion": {"aggregators": 1}}, None, Fraction(1)),
    ],
)
def test_distributed_weights_make_one_whole_draw_of_the_honest(changes, curator, aggregator):
    asked = query(**DISTRIBUTED, **changes)
    for plan, weight in ((curator_plan(asked), curator), (aggregator_plan(asked), aggregator)):
        assert (plan and plan.weight) == weight
        if plan:
            assert plan.scales == (Fraction(12),)
            assert plan.probability == 1


def test_whose_noise_a_released_sum_holds():
    assert noisy_aggregators(query(**DISTRIBUTED)) == 3
    assert noisy_aggregators(query(**DISTRIBUTED, **SHAMIR)) == 3
    assert noisy_aggregators(query(**DISTRIBUTED, **SHAMIR, c_noise=1)) == 1
    assert shares_its_noise(query(**DISTRIBUTED, **SHAMIR))
    assert not shares_its_noise(query(**DISTRIBUTED))
    assert not shares_its_noise(query(**DISTRIBUTED, **SHAMIR, layer="curator"))
    assert not shares_its_noise(query(**SHAMIR))


@pytest.mark.parametrize("kind", VARIANTS)
def test_each_part_has_its_own_scale_and_the_parts_make_up_epsilon(kind):
    asked = query(**VARIANTS[kind], **DISTRIBUTED)
    plan = aggregator_plan(asked)
    spent = [
        Fraction(part.sensitivity) / scale
        for part, scale in zip(parts(asked), plan.scales, strict=True)
    ]
    assert sum(spent) == asked.epsilon
    assert plan.dimensions == tuple(part.dimension for part in parts(asked))


def test_drawn_noise_has_the_plan_s_shape_and_spread():
    whole = LaplacePlan((Fraction(2), Fraction(50)), (3, 1))
    noise = draw(whole, SeededRandom(1), 50_000)
    assert noise.shape == (50_000, 4) and noise.dtype == np.int64
    for column, b in enumerate((2, 2, 2, 50)):
        a = np.exp(-1 / b)
        # 50,000 draws: the deviation is known to about 0.5 %, so 5 % is ten of its deviations.
        assert noise[:, column].std() == pytest.approx(np.sqrt(2 * a) / (1 - a), rel=0.05)


def test_one_coin_for_a_whole_contribution():
    plan = LaplacePlan((Fraction(10**6), Fraction(10**6)), (2, 1), probability=Fraction(1, 4))
    noisy = (draw(plan, SeededRandom(3), 20_000) != 0).sum(axis=1)
    assert set(noisy.tolist()) <= {0, 2, 3}  # a column of this scale is 0 once in 2 * 10^6
    assert stats.binomtest(int((noisy > 0).sum()), 20_000, 0.25).pvalue > ALARM


# --- the sources' own noise ----------------------------------------------------------------------


def test_local_sensitivity_scales_the_noise_of_each_curator():
    plan = LaplacePlan((Fraction(400), Fraction(8)), (2, 1))
    local = np.array([[0, 0], [50, 4], [400, 8]] * 20_000, np.int64)
    noise = draw_by_local_sensitivity(plan, (400, 8), local, SeededRandom(4))
    assert noise.shape == (60_000, 3)
    assert not noise[0::3].any()  # all readings zero: no noise, as the source has it
    for row, scales in ((1, (50, 50, 4)), (2, (400, 400, 8))):
        for column, b in enumerate(scales):
            a = np.exp(-1 / b)
            spread = noise[row::3, column].std()
            assert spread == pytest.approx(np.sqrt(2 * a) / (1 - a), rel=0.08)


def test_local_sensitivity_keeps_the_coin_per_contribution():
    plan = LaplacePlan((Fraction(10**6), Fraction(10**6)), (2, 1), probability=Fraction(1, 4))
    local = np.full((20_000, 2), 10, np.int64)
    noisy = (draw_by_local_sensitivity(plan, (10, 10), local, SeededRandom(5)) != 0).sum(axis=1)
    assert set(noisy.tolist()) <= {0, 2, 3}
    assert stats.binomtest(int((noisy > 0).sum()), 20_000, 0.25).pvalue > ALARM
    never = LaplacePlan((Fraction(5),), (1,), probability=Fraction(0))
    assert not draw_by_local_sensitivity(never, (10,), local[:, :1], SeededRandom(6)).any()


# --- what does not fit ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("resolution", {"resolution": "100"}),
        ("resolution", {"function": "mean", "bounds": ["5", "5.9"]}),
        ("l1_bound", {"function": "vector_sum", "dimension": 2, "l1_bound": "0.5"}),
        ("blocks", {"function": "vector_sum", "coordinates": "values", "blocks": [
            {"name": "a", "dimension": 1, "l1_bound": "0.5", "resolution": "1"}]}),
        ("resolution", {"function": "variance", "unit": "kWh", "resolution": "1e-11", "n_max": 2}),
        ("resolution", {"bounds": ["0", "4e9"], "resolution": "1e-9", "n_max": 2}),
        ("n_max", {"bounds": ["0", "1e8"], "resolution": "1e-9", "n_max": 1000}),
        ("n_max", {**SHAMIR, "bounds": ["0", "36"], "resolution": "1e-9", "n_max": 1_000_800}),
        ("resolution", {**DISTRIBUTED, "bounds": ["0", "6"], "resolution": "1e-6"}),
        ("resolution", {**DISTRIBUTED, "function": "variance", "resolution": "0.001"}),
        ("resolution", {**LOCAL, "bounds": ["0", "21"], "resolution": "1e-6"}),
    ],
)  # fmt: skip
def test_numbers_that_do_not_fit_are_refused_at_the_field_to_blame(field, changes):
    with pytest.raises(ValueError) as error:
        query(**changes)
    assert [problem["loc"] for problem in error.value.errors()] == [(field,)]


def test_numbers_at_the_limit_fit():
    query(**DISTRIBUTED, bounds=["0", "5"], resolution="1e-6")  # a scale of 2 * 10^7
    query(bounds=["0", "2305843009"], resolution="1e-9", max_readings=1, n_max=2)
    query(**SHAMIR, bounds=["0", "36"], resolution="1e-9", n_max=1_000_799)
    query(mechanism="exact", function="variance", resolution="0.001")


def test_the_total_of_many_shares_has_the_law_of_their_sum():
    """Weight 5/2: two whole Laplaces and a half one."""
    scale = Fraction(4)
    plan = LaplacePlan((scale,), (3,), weight=Fraction(1, 4))
    source = SeededRandom(21)
    totals = np.array([draw_total(plan, source, 10) for _ in range(4000)]).ravel()
    summed = draw(plan, SeededRandom(22), 10 * 12_000).reshape(12_000, 3, 10).sum(axis=2).ravel()
    # The variance of weight R is R times that of one Laplace, here about 5/2 * 2 * 16 = 80.
    assert totals.var() == pytest.approx(summed.var(), rel=0.06)
    assert (totals**4).mean() == pytest.approx((summed**4).mean(), rel=0.2)
    assert abs(totals.mean()) < 0.5


def test_a_total_s_coins_are_one_for_all_coordinates():
    """Nobody draws at probability 1/64 of 8: all coordinates are 0 together, or none is at all."""
    plan = LaplacePlan((Fraction(10**6),), (5,), probability=Fraction(1, 64))
    source = SeededRandom(23)
    totals = np.array([draw_total(plan, source, 8) for _ in range(2000)])
    drawn = (totals != 0).sum(axis=1)
    assert set(drawn.tolist()) == {0, 5}
    expected = 1 - (63 / 64) ** 8
    assert (drawn == 5).mean() == pytest.approx(expected, abs=5 * (expected / 2000) ** 0.5)


def test_a_total_is_drawn_in_blocks_of_bounded_size():
    plan = LaplacePlan((Fraction(3),), (1 << 18,))
    total = draw_total(plan, SeededRandom(24), 3)
    assert total.shape == (1 << 18,)
    variance = 3 * 2 * np.exp(1 / 3) / (np.exp(1 / 3) - 1) ** 2
    assert total.var() == pytest.approx(variance, rel=0.02)
