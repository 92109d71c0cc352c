"""What rounds with Gaussian noise guarantee and cost. Spec: profiles, sections 3 and 4."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

from tacit.accounting.amounts import UNVERIFIED, Cost, pure_rho
from tacit.accounting.charges import (
    debit,
    gaussian_tail,
    headroom_problem,
    sound_refusal,
    unit_cost,
)
from tacit.accounting.composition import laplace_round, round_loss, tight
from tacit.accounting.expected_error import absolute_quantiles, all_draws, forecast
from tacit.accounting.scenarios import Scenario
from tacit.noise.gaussian_privacy import gaussian_delta, zcdp_epsilon
from tacit.query.mechanisms import GaussianPlan, aggregator_plan, draw, zcdp_of
from tacit.query.query import Query
from tacit.query.terms import PrivacyUnit
from tacit.randomness import SeededRandom
from tacit.report.model import Subject
from tacit.report.queries import query_report
from tests.tacit.accounting.examples import rows
from tests.tacit.examples import query as example

Floats = NDArray[np.float64]
CURATOR, RECORD = PrivacyUnit.CURATOR, PrivacyUnit.RECORD
MILLIONTH = Fraction(1, 10**6)


def total(**changes: Any) -> Query:
    """A total with a bound on windows."""
    fields = {
        "unit": "kWh",
        "bounds": ["0", "5"],
        "max_readings": 96,
        "resolution": "0.1",
        "window_bound": "50",
        "mechanism": "distributed",
        "noise": "gaussian",
        "rho": "0.5",
        "aggregators": 4,
        "collusion": {"curators": 0, "aggregators": 3},
        "min_participants": 100,
        **changes,
    }
    return example(**fields)


# --- the exact law -------------------------------------------------------------------------------


def log_law(variance: float, reach: int) -> Floats:
    logs = -(np.arange(-reach, reach + 1.0) ** 2) / (2 * variance)
    return np.asarray(logs - np.log(np.exp(logs).sum()))


def law_of_sum(variance: float, shares: int) -> Floats:
    """The law of a sum of discrete Gaussians by direct convolution: positive terms, so that every
    mass is right to the last digits."""
    assert shares & (shares - 1) == 0, "shares are added in pairs"
    law = np.exp(log_law(variance, int(13 * math.sqrt(variance))))
    together = 1
    while together < shares:
        law, together = np.convolve(law, law), 2 * together
        reach = int(13 * math.sqrt(variance * together))
        middle = law.size // 2
        law = law[max(0, middle - reach) : middle + reach + 1]
    return law


def renyi(law: Floats, moved: int, order: int) -> float:
    logs = np.log(law)
    return float(
        np.logaddexp.reduce(order * logs[moved:] + (1 - order) * logs[:-moved]) / (order - 1)
    )


@pytest.mark.parametrize(
    ("shares", "resolution"),
    [
        (2, "0.1"),
        (16, "0.1"),
        (8, "0.05"),
        pytest.param(2, "0.01", marks=pytest.mark.slow),
        pytest.param(4, "0.02", marks=pytest.mark.slow),
    ],
)
def test_the_declared_rho_is_that_of_the_exact_law_of_the_shares(
    shares: int, resolution: str
) -> None:
    """Shares of deviations from 395 to 5,000 units; no order has more than rho, none less than
    0.9999 of it."""
    query = total(
        aggregators=shares,
        collusion={"curators": 0, "aggregators": 0},
        resolution=resolution,
        rho="0.25" if shares < 16 else "0.05",
    )
    plan = aggregator_plan(query)
    assert plan.variances[0] >= 100
    law = law_of_sum(float(plan.variances[0]), shares)
    moved = int(Fraction(50) / Fraction(resolution))
    rho = float(zcdp_of(query))
    for order in (2, 4, 8):
        exact = renyi(law, moved, order) / order
        assert exact <= rho * (1 + 1e-9)
        assert rho <= 1.0001 * exact


# --- rows ----------------------------------------------------------------------------------------


def test_whole_draws_hold_while_one_aggregator_is_honest() -> None:
    lines = rows(total(rho="0.024355"))
    assert lines["e"].rho == lines["c"].rho == Fraction("0.024355")
    assert float(lines["e"].epsilon) == pytest.approx(zcdp_epsilon(0.024355, 1e-6))
    assert lines["e"].delta == lines["a"].delta
    assert lines["a"].rho == lines["b"].rho == Fraction("0.00608875")
    assert lines["d"].model == "none"
    assert lines["d"].reason is not None


def test_weight_below_one_is_no_cliff() -> None:
    """Half of the shares that were assumed: twice the rho."""
    lines = rows(total(layer="curator", collusion={"curators": 50, "aggregators": 3}))
    assert lines["e"].rho == Fraction("0.5")
    assert lines["a"].rho == Fraction("0.25")
    assert lines["d"].rho == 25  # the victim's own share of 1/50
    assert "0.02 of the noise's variance" in (lines["d"].reason or "")


def test_of_two_layers_the_better_one_counts() -> None:
    lines = rows(total(layer="both"))
    assert lines["e"].rho == Fraction("0.5")
    assert lines["d"].rho == 50


def test_an_epsilon_is_declared_and_met() -> None:
    query = total(rho=None, epsilon="1", delta="0.000001")
    line = rows(query)["e"]
    assert (line.epsilon, Fraction(line.delta)) == (1, MILLIONTH)
    assert line.rho == zcdp_of(query)
    assert sound_refusal(query) is None


def test_an_operator_of_all_aggregators_leaves_nothing() -> None:
    assert debit(total(), ["A"] * 4) == (UNVERIFIED, UNVERIFIED)
    assert sound_refusal(total(), ["A"] * 4) is not None


# --- costs ---------------------------------------------------------------------------------------


def test_the_other_unit_costs_the_square_of_its_share() -> None:
    """A curator within 50 kWh, a reading of at most 5 kWh (a swap): a hundredth of rho."""
    query = total()
    curator = unit_cost(query, Scenario.ASSUMED, CURATOR)
    record = unit_cost(query, Scenario.ASSUMED, RECORD)
    assert curator.rho == Fraction("0.5")
    assert record.rho == Fraction("0.005")
    assert float(record.epsilon) == pytest.approx(zcdp_epsilon(0.005, 1e-6))
    assert record.delta == MILLIONTH


def test_parts_share_rho() -> None:
    query = total(function="mean", window_bound=None, resolution="0.01", split=["0.75", "0.25"])
    plan = aggregator_plan(query)
    # centred readings of at most 2.5 kWh, 250 units, and a count of 96
    expected = (96 * 250) ** 2 / (2 * 0.5 * 0.75), 96**2 / (2 * 0.5 * 0.25)
    assert [float(variance) for variance in plan.variances] == pytest.approx(expected)
    assert unit_cost(query, Scenario.ASSUMED, CURATOR).rho == Fraction("0.5")
    # a reading moves the sum by 500 of 24,000 units (a swap), the count by 1 of 96
    growth = Fraction(3, 4) * Fraction(500, 24_000) ** 2 + Fraction(1, 4) / 96**2
    record = unit_cost(query, Scenario.ASSUMED, RECORD).rho
    assert 0 <= record - growth / 2 < Fraction(1, 10**12)


def test_a_round_is_debited_in_both_currencies() -> None:
    assumed, everyone = debit(total(rho="0.024355"))
    assert assumed.rho == Fraction("0.024355")
    assert assumed.zcdp == (Fraction("0.024355"), 0)
    assert 0.9999 < assumed.epsilon <= 1
    assert everyone == Cost(None, None)


# --- the error of a result, and room -------------------------------------------------------------


def test_the_error_is_that_of_the_normal_law_of_all_draws() -> None:
    query = total()
    deviation = math.sqrt(4) * 50 / math.sqrt(2 * 0.5)  # four whole draws, in kWh
    [error] = forecast(query, 500)
    assert error.standard_deviation == pytest.approx(deviation)
    assert error.mean_absolute == pytest.approx(deviation * math.sqrt(2 / math.pi))
    draws = all_draws(query, 500, 0)
    [half_width] = absolute_quantiles(draws, (0.95,))
    assert half_width / 10 == pytest.approx(1.959964 * deviation, rel=1e-3)


def test_the_tail_is_beyond_what_is_ever_drawn_and_wrapping_is_refused() -> None:
    assert gaussian_tail(Fraction(10**6), 1) / 1000 == pytest.approx(9.49, rel=0.01)
    assert headroom_problem(total()) is None


# --- reports -------------------------------------------------------------------------------------


def test_a_report_states_the_norm_the_law_and_rho() -> None:
    report = query_report(total(), subject=Subject(kind="query", id="q"))
    [sensitivity] = report.sensitivity
    assert (sensitivity.norm, sensitivity.value) == ("l2", "500")
    [noise] = report.noise
    assert noise.distribution == "discrete-gaussian"
    assert noise.scale == "500"
    assumed = next(line for line in report.verified if line.key == "e")
    assert (assumed.model, assumed.rho) == ("zcdp", "0.5")
    assert "zero-concentrated" in report.accounting.method


# --- an audit ------------------------------------------------------------------------------------


def lower_bound(near: Floats, far: Floats, delta: float) -> float:
    """An epsilon that holds from below with a false alarm in 1 of 1,000: the best threshold of
    half the runs, judged by the other half."""
    half = near.size // 2
    marks = np.quantile(far[:half], np.linspace(0.5, 0.9995, 400))

    def shares(values: Floats) -> Floats:
        return np.asarray([(values > mark).mean() for mark in marks])

    with np.errstate(divide="ignore", invalid="ignore"):
        trial = np.log((shares(near[:half]) - delta) / shares(far[:half]))
    mark = marks[int(np.nanargmax(np.where(np.isfinite(trial), trial, -np.inf)))]
    hits, runs = int((near[half:] > mark).sum()), near.size - half
    misses = int((far[half:] > mark).sum())
    least = float(beta.ppf(0.0005, hits, runs - hits + 1))
    most = float(beta.ppf(0.9995, misses + 1, runs - misses))
    return math.log((least - delta) / most)


@pytest.mark.parametrize(("fault", "caught"), [(1, False), (2, True)])
def test_an_audit_of_neighbouring_rounds_stays_below_the_verified_epsilon(
    fault: int, caught: bool
) -> None:
    """10^5 runs each of an aggregator's draw with and without a curator at its bound, rho 0.5: at
    delta 10^-3 epsilon 3.54 is verified; noise of half the deviation is caught."""
    query = total(delta="0.001")
    verified = rows(query)["e"].epsilon
    assert float(verified) == pytest.approx(3.54, abs=0.01)
    plan, source = aggregator_plan(query), SeededRandom(11)
    drawn = GaussianPlan((plan.variances[0] / fault**2,), (1,))
    near = draw(drawn, source, 100_000)[:, 0].astype(float) + 500
    far = draw(drawn, source, 100_000)[:, 0].astype(float)
    assert (lower_bound(near, far, 0.001) > float(verified)) is caught


# --- many rounds together ------------------------------------------------------------------------


def test_gaussian_rounds_compose_to_one_gaussian() -> None:
    """Against the analytic Gaussian (Balle and Wang) of mu = sqrt(sum mu_i^2): the figure keeps the
    delta that was asked for, and one that is 1 % smaller does not."""
    year = total(rho="0.002883172", resolution="0.001")
    week = total(rho="0.02", resolution="0.001")
    losses = [round_loss(each, Scenario.ASSUMED, CURATOR) for each in (year, week)]
    found = tight([(losses[0], 365), (losses[1], 52)], MILLIONTH)
    mu = math.sqrt(2 * (365 * 0.002883172 + 52 * 0.02))
    assert gaussian_delta(float(found), 1 / mu, 1.0) <= 1e-6
    assert gaussian_delta(0.99 * float(found), 1 / mu, 1.0) > 1e-6
    assert float(found) < zcdp_epsilon(mu**2 / 2, 1e-6)


def test_a_coarse_round_is_accounted_with_the_variance_that_rounding_takes() -> None:
    """A deviation of 10 ring units: of its variance 8 in 100 go to rounding."""
    coarse = total(window_bound="1", rho="0.5", resolution="0.1", bounds=["0", "1"])
    loss = round_loss(coarse, Scenario.ASSUMED, CURATOR)
    assert loss.mu_squared == pytest.approx(Fraction(100, 92), rel=1e-12)
    found = tight([(loss, 3)], MILLIONTH)
    mu = math.sqrt(3 * 100 / 92)
    assert gaussian_delta(float(found), 1 / mu, 1.0) <= 1e-6


def test_the_privacy_of_a_coarse_round_is_no_worse_than_its_continuous_gaussian() -> None:
    """By brute force: delta of three such releases, whose law is that of the sum of their noise."""
    places = np.arange(-200, 201)
    one = np.exp(-(places**2) / 200.0)
    law = np.convolve(np.convolve(one, one), one)
    law /= law.sum()
    before, after = np.append(law, np.zeros(30)), np.append(np.zeros(30), law)
    for epsilon in (0.5, 2.0, 5.0):
        delta = float(np.maximum(0, after - math.exp(epsilon) * before).sum())
        assert delta <= gaussian_delta(epsilon, 1 / math.sqrt(3 * 100 / 92), 1.0)
        assert delta >= 0.5 * gaussian_delta(epsilon, 1 / math.sqrt(3), 1.0)


def test_beside_other_rounds_the_sum_of_all_zcdp_counts() -> None:
    gaussian = round_loss(total(resolution="0.001"), Scenario.ASSUMED, CURATOR)
    pure = laplace_round(100, Fraction(400))
    found = tight([(gaussian, 3), (pure, 20)], MILLIONTH)
    rho = 3 * 0.5 + 20 * float(pure_rho(Fraction(1, 4)))
    assert float(found) == pytest.approx(zcdp_epsilon(rho, 1e-6), rel=1e-3)
    assert tight([(gaussian, 1)], MILLIONTH) == gaussian.cost.epsilon
