"""The source's own k-means: its geometry, its samplers, its figures, and why it protects nobody."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from algorithms.contract import SequentialContext
from algorithms.datasets.tables import NumericTable
from algorithms.kmeans import Parameters, preview, run
from algorithms.kmeans.algorithm import cost
from algorithms.kmeans.paper import (
    Settings,
    Strategy,
    Zones,
    angles,
    cluster_means,
    draw,
    drawn_start,
    normalised,
    orthogonal,
    posterior_controllers,
    prior_controllers,
    score,
    shares,
)
from algorithms.kmeans.paper import _zone_value as zone_value
from algorithms.kmeans.paper import run as run_paper
from algorithms.kmeans.parameters import DataShape
from reproduction.kmeans_data import s1_like
from tacit.encoders.kmeans import Floats, nearest
from tacit.report.text import plain_words

SQUARE = np.array([(0.0, 0.0), (0.0, 2.0), (4.0, 0.0), (4.0, 2.0)])
OLD = np.array([(0.0, 0.0), (4.0, 0.0)])


@pytest.mark.parametrize("strategy", ["prior", "posterior"])
def test_every_pass_lowers_the_cost_of_the_clusters_it_moves(strategy: Strategy) -> None:
    points = np.random.default_rng(2).random((300, 2))
    generator = np.random.default_rng(3)
    start = drawn_start(points, 6, generator)
    found = run_paper(points, start, Settings(0.5, strategy), generator)
    before = start
    assert len(found.log) == found.passes - 1
    for each in found.log:
        labels = nearest(points, before)
        costs = [np.square(points - centres[labels]).sum() for centres in (before, each.centres)]
        assert costs[1] <= costs[0] + 1e-12
        before = each.centres


def test_the_zones_of_the_worked_example() -> None:
    means = cluster_means(SQUARE, nearest(SQUARE, OLD), OLD)
    assert means.tolist() == [[0, 1], [4, 1]]
    none = np.zeros(2)
    side = np.array([(1.0, 0.0), (1.0, 0.0)])
    straight = Zones(means, prior_controllers(means, OLD, none, side), np.full(2, 0.75))
    assert straight.controllers[0] == pytest.approx((0, 2))
    assert straight.centres[0] == pytest.approx((0, 1.75))
    assert straight.radii[0] == pytest.approx(0.25)
    assert 2 * 0.75 - 1 == 0.5
    assert math.asin((1 - 0.75) / 0.75) == pytest.approx(0.339837, abs=1e-6)
    turned = Zones(
        means, prior_controllers(means, OLD, np.full(2, math.pi / 6), side), np.full(2, 0.6)
    )
    assert turned.controllers[0] == pytest.approx((0.5, 1.866025), abs=1e-6)
    assert turned.centres[0] == pytest.approx((0.3, 1.519615), abs=1e-6)
    assert turned.radii[0] == pytest.approx(0.4)
    future = cluster_means(SQUARE, nearest(SQUARE, means), means)
    assert np.array_equal(posterior_controllers(means, OLD, future), means)
    value = zone_value(np.array([0.7]), np.array([0.2]), np.array([0.75]))
    assert value[0] == pytest.approx(-0.0390699, abs=1e-7)


def test_the_samplers_of_share_and_angle() -> None:
    quarters = np.array([0.25, 0.5, 0.75])
    assert shares(quarters) == pytest.approx((0.586006, 0.689943, 0.821313), abs=1e-6)
    assert angles(quarters) == pytest.approx((0.270194, 0.596723, 1.009435), abs=1e-6)
    uniform = np.random.default_rng(1).random(100_000)
    # Standard errors are below 0.0015.
    assert shares(uniform).mean() == pytest.approx(0.70901, abs=0.005)
    assert angles(uniform).mean() == pytest.approx(0.65663, abs=0.005)
    quality = score(np.array([0.5]), np.array([math.pi / 8]))[0]
    assert quality == 1.25
    assert math.exp(quality / 4) == pytest.approx(1.366838, abs=1e-6)


@pytest.mark.parametrize("dimension", [1, 2, 3, 10])
@pytest.mark.parametrize("measure", ["polar", "lebesgue"])
def test_every_draw_lies_in_both_zones(dimension: int, measure: str) -> None:
    generator = np.random.default_rng(dimension)
    means, old = generator.random((2, 500, dimension))
    moves = means - old
    ahead = moves / np.linalg.norm(moves, axis=1)[:, None]
    side = orthogonal(ahead, generator)
    assert np.abs(np.einsum("ij,ij->i", ahead, side)).max() < 1e-9
    controllers = prior_controllers(means, old, angles(generator.random(500)), side)
    reach = np.linalg.norm(moves, axis=1)
    assert np.linalg.norm(controllers - means, axis=1) == pytest.approx(reach)
    zones = Zones(means, controllers, shares(generator.random(500)))
    points = draw(zones, 1.0, measure, generator)  # type: ignore[arg-type]
    inside = np.linalg.norm(points - zones.centres, axis=1)
    assert (inside <= zones.radii * (1 + 1e-9)).all()
    assert (np.linalg.norm(points - means, axis=1) < reach).all()


def test_one_published_pass_tells_whether_a_record_is_there() -> None:
    known = np.random.default_rng(3).random((30, 2))
    start, record = known[:3], np.array([(0.637, 0.281)])
    truth = np.concatenate([known, record])
    published = run_paper(truth, start, Settings(0.5), np.random.default_rng(5)).log[0]

    def misfit(points: Floats) -> float:
        means = cluster_means(points, nearest(points, start), start)
        future = cluster_means(points, nearest(points, means), means)
        steps = posterior_controllers(means, start, future) - means
        reach = np.maximum(np.linalg.norm(steps, axis=1), 1e-300)
        expected = means + (1 - published.zone_radii / reach)[:, None] * steps
        moved = published.zone_radii > 0
        return float(np.abs(published.zone_centres - expected)[moved].max())

    assert misfit(truth) < 1e-12
    assert misfit(known) > 1e-3


def test_a_paper_job_says_that_nothing_holds() -> None:
    points = s1_like() / 1e6
    params = Parameters(k=5, epsilon=Fraction(1, 2), evaluate=True, final_epsilon=Fraction(2))
    table = NumericTable(("x", "y"), points)
    outcome = run(table, params, "paper", SequentialContext(seed=bytes(32)))
    report, passes = outcome.report, outcome.result["passes"]
    assert report.claimed is not None
    assert Fraction(report.claimed.epsilon or "0") == 2 + Fraction(passes, 2)
    line = report.verified[0]
    assert (line.model, line.epsilon, line.delta) == ("none", "inf", "1")
    assert report.charged is not None
    assert report.charged.outside_budget
    assert report.charged.epsilon is None
    assert report.noise[0].sampler == "float"
    assert len(report.source_defects) >= 3
    assert "nothing holds" in plain_words(report)
    assert preview(params, "paper").claimed == report.claimed.model_copy(update={"epsilon": None})
    assert len(outcome.result["trace"]) == passes - 1
    assert outcome.result["iterations"] == 2 * passes
    assert outcome.evaluation is not None
    assert outcome.evaluation["inertia_ratio"] >= 1
    scaled, _, _ = normalised(points)
    assert cost(scaled, np.full((5, 2), 0.5)) > outcome.evaluation["inertia"]
    json.dumps(dict(outcome.result), allow_nan=False)
    again = run(table, params, "paper", SequentialContext(seed=bytes(32)))
    assert again.result == outcome.result


def test_a_paper_job_needs_more_records_than_clusters() -> None:
    params = Parameters(k=3)
    with pytest.raises(DataShape):
        run(NumericTable(("x",), np.zeros((3, 1))), params, "paper", SequentialContext())
    flat = NumericTable(("x", "y"), np.zeros((9, 2)))
    outcome = run(flat, params, "paper", SequentialContext())
    assert outcome.result["centres"] == [[0.0, 0.0]] * 3
