"""The job: parameters, what a result holds, what the report says, what never gets out."""

from __future__ import annotations

import csv
import io
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import MethodNeedsSound, Outcome, SequentialContext, Stance
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_random_matrix import Parameters, check, preview, run
from algorithms.graph_random_matrix import outcome as pictures
from algorithms.graph_random_matrix.algorithm import RESULT
from algorithms.graph_random_matrix.parameters import (
    BadColumns,
    BadDelta,
    BadEigenvectors,
    BadEpsilon,
    BadSigma,
    GraphTooSmall,
    privacy_of,
    settings_of,
)
from simulation.stand_in_data import blocks
from tacit.encoders.graph_random_matrix import Projection, entries
from tacit.errors import Invalid
from tacit.noise.discrete_gaussian import DiscreteGaussian
from tacit.noise.gaussian_privacy import zcdp_delta
from tacit.randomness import SeededRandom
from tacit.report.model import PrivacyReport
from tests.algorithms.outcomes import names_drawn, published

GRAPH = blocks((40,) * 4, 0.5, 0.02, 1)
STANCES: tuple[Stance, ...] = ("sound", "paper")


def params(**changes: Any) -> Parameters:
    return Parameters(**({"k": 4} | changes))


def context(secret: int = 1) -> SequentialContext:
    return SequentialContext(bytes([secret]) * 32)


def done(stance: Stance = "sound", secret: int = 1, **changes: Any) -> Outcome:
    return run(GRAPH, params(**changes), stance, context(secret))


def matrix(outcome: Outcome) -> np.ndarray:
    found: np.ndarray = np.load(io.BytesIO(outcome.files[0].content))
    return found


@pytest.mark.parametrize(
    ("changes", "problem", "pointer"),
    [
        ({"epsilon": "100.1"}, BadEpsilon, "epsilon"),
        ({"epsilon": "1", "sigma": "1"}, BadEpsilon, "epsilon"),
        ({"delta": "0.0011"}, BadDelta, "delta"),
        ({"sigma": "1000001"}, BadSigma, "sigma"),
        ({"k": 65}, BadEigenvectors, "k"),
        ({"m": 7}, BadEigenvectors, "k"),
        ({"m": 1}, BadColumns, "m"),
        ({"m": 20, "projection": "sparse", "nonzeros": 21}, BadColumns, "nonzeros"),
        ({"projection_seed": 1 << 64}, Invalid, "projection_seed"),
        ({"mean_degree": "-1"}, Invalid, "mean_degree"),
    ],
    ids=lambda value: (
        "-".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else ""
    ),
)
def test_what_is_refused(changes: dict[str, Any], problem: type[Invalid], pointer: str) -> None:
    for stance in STANCES:
        with pytest.raises(problem) as wrong:
            preview(params(**changes), stance)
        assert (type(wrong.value), wrong.value.pointer) == (problem, f"/params/{pointer}")
        with pytest.raises(problem):
            check(GRAPH, params(**changes), stance)


@pytest.mark.parametrize(
    ("changes", "stance", "problem", "pointer"),
    [
        ({"delta": "0"}, "paper", BadDelta, "delta"),
        ({"delta": "0", "estimator": "subspace"}, "sound", BadDelta, "delta"),
        ({"delta": "0", "sigma": "1"}, "sound", BadDelta, "delta"),
        ({"epsilon": "1e-25", "estimator": "flip"}, "sound", BadEpsilon, "epsilon"),
        ({"estimator": "subspace"}, "paper", MethodNeedsSound, "estimator"),
        ({"epsilon": "0.0000001", "delta": "1e-9"}, "sound", BadEpsilon, "epsilon"),
        ({"sigma": "201", "projection": "gaussian"}, "sound", BadSigma, "sigma"),
        ({"epsilon": "0.01", "projection": "gaussian"}, "sound", BadSigma, "epsilon"),
        ({"projection": "sparse", "nonzeros": 500}, "sound", BadColumns, "nonzeros"),
    ],
)
def test_what_one_stance_refuses(
    changes: dict[str, Any], stance: Stance, problem: type[Invalid], pointer: str
) -> None:
    with pytest.raises(problem) as wrong:
        preview(params(**changes), stance)
    assert wrong.value.pointer == f"/params/{pointer}"


def test_graphs_that_do_not_fit() -> None:
    with pytest.raises(BadColumns) as columns:
        check(GRAPH, params(m=160), "sound")
    assert columns.value.pointer == "/params/m"
    with pytest.raises(GraphTooSmall):
        check(EdgeList.of([(1, 2)]), params(k=1, m=2), "sound")
    with pytest.raises(GraphTooSmall):
        check(
            EdgeList.from_pairs(
                [1, 2, 3], np.zeros(1, np.int32), np.zeros(1, np.int32), declared=False
            ),
            params(k=1, m=2),
            "sound",
        )
    with pytest.raises(BadEigenvectors):
        check(EdgeList.of([(1, 2), (2, 3)]), params(k=2), "sound")
    small = EdgeList.of([], [1, 2, 3])
    for stance in STANCES:
        check(small, params(k=1, m=2), stance)


@pytest.mark.parametrize("mode", ["publish", "spectral", "pcc"])
@pytest.mark.parametrize("edges", [[], [(1, 2), (2, 3), (1, 3)]], ids=len)
def test_small_graphs_are_legal(mode: str, edges: list[Any]) -> None:
    """In `paper` too; those of `sound`: `test_small_datasets`."""
    graph = EdgeList.of(edges, [1, 2, 3])
    asked = params(mode=mode, k=1, m="auto", evaluate={"clusterings": 2})
    outcome = run(graph, asked, "paper", context())
    json.dumps(outcome.result, allow_nan=False)
    json.dumps(outcome.evaluation, allow_nan=False)


@pytest.mark.parametrize(("epsilon", "sigma"), [("1", 6.4076), ("4", 1.7930), ("0.1", 55.810)])
def test_noise_by_epsilon(epsilon: str, sigma: float) -> None:
    """Spec: graph-random-matrix, section 8, checks 3 and 10.

    rho is .311 at epsilon 4, whatever the estimator.
    """
    found = privacy_of(params(epsilon=epsilon))
    assert float(found.sigma) == pytest.approx(sigma, rel=1e-3)
    assert (found.sigma * 2**20).denominator == 1
    assert found == privacy_of(params(epsilon=epsilon, mode="spectral"))
    assert zcdp_delta(float(found.rho), float(found.epsilon)) + float(found.sampler_delta) <= 1e-6
    if epsilon == "4":
        assert float(found.rho) == pytest.approx(0.311, abs=5e-4)


@pytest.mark.parametrize("sigma", ["0.1", "1000"])
def test_epsilon_by_noise(sigma: str) -> None:
    found = privacy_of(params(sigma=sigma))
    assert found.sigma == Fraction(sigma)
    assert zcdp_delta(float(found.rho), float(found.epsilon)) + float(found.sampler_delta) <= 1e-6
    assert zcdp_delta(float(found.rho), float(found.epsilon) * 0.999) > 1e-6 * (1 - 1e-6)


@pytest.mark.parametrize(("sigma", "expected"), [("1", 0.5205), ("6.4076", 0.0879)])
def test_an_attack(sigma: str, expected: float) -> None:
    """Acceptance 5: somebody who knows the projection and every other edge tests for one edge.

    Within 0.015 at 40,000 trials of each kind: over four standard errors of 0.0035.
    """
    m, trials = 20, 40_000
    signs = entries(Projection("rademacher", 2, m, 1)).dense()[::-1].reshape(-1)
    law = DiscreteGaussian(Fraction(sigma) ** 2 * m)
    source = SeededRandom(1)
    noise = [law.draw(source, trials * 2 * m).reshape(trials, -1) @ signs for _ in range(2)]
    half = m  # of |signs|^2 = 2 m
    absent, present = noise[0] > half, noise[1] + 2 * m > half
    assert abs(present.mean() - absent.mean() - expected) < 0.015
    planned = preview(params(sigma=sigma), "sound")
    assert float(planned.details["distinguishing_advantage"]) == pytest.approx(expected, abs=1e-4)


def test_noise_and_projection_are_drawn_apart() -> None:
    """Acceptance 11."""
    asked = {"m": 20, "projection_seed": 77}
    one, other = (done(secret=secret, **asked) for secret in (1, 2))
    assert one.public_seeds == other.public_seeds == {"projection_seed": 77}
    assert (matrix(one) != matrix(other)).any()
    again = done(secret=1, **asked)
    assert published(one) == published(again)
    free = [done(secret=secret, m=20).public_seeds["projection_seed"] for secret in (1, 2, 1)]
    assert free[0] == free[2] != free[1]
    assert 0 <= free[0] < 1 << 64
    # The noise of one secret is the same under another projection: it does not hear of the seed.
    moved = done(secret=1, m=20, projection_seed=78)
    exact = [_exact(Projection("rademacher", GRAPH.count, 20, seed)) for seed in (77, 78)]
    assert (matrix(one) - exact[0] == matrix(moved) - exact[1]).all()


def _exact(projection: Projection) -> np.ndarray:
    full = np.zeros((GRAPH.count, GRAPH.count), np.int64)
    full[GRAPH.first, GRAPH.second] = full[GRAPH.second, GRAPH.first] = 1
    return full @ entries(projection).dense()


def test_rows_of_other_vertices_are_the_same_without_an_edge() -> None:
    """With the same noise, two rows differ, and by the rows of the projection."""
    less = EdgeList(
        GRAPH.vertices, GRAPH.first[1:], GRAPH.second[1:], GRAPH.declared, GRAPH.appearance
    )
    asked = params(m=20, projection_seed=5)
    one, other = (matrix(run(each, asked, "sound", context())) for each in (GRAPH, less))
    changed = np.flatnonzero((one != other).any(axis=1))
    assert changed.tolist() == sorted((int(GRAPH.first[0]), int(GRAPH.second[0])))
    assert np.square((one - other).astype(np.int64)).sum() == 40


@pytest.mark.parametrize("mode", ["publish", "spectral", "pcc"])
@pytest.mark.parametrize("estimator", ["range", "subspace"])
def test_a_release(mode: str, estimator: str) -> None:
    told: list[float] = []
    held = SequentialContext(bytes(32), on_progress=lambda share, _stage: told.append(share))
    outcome = run(GRAPH, params(mode=mode, estimator=estimator, m=20), "sound", held)
    assert told == sorted(told)
    assert set(outcome.result) <= set(RESULT)
    assert {file.name for file in outcome.files} <= set(RESULT)
    assert outcome.evaluation is None
    json.dumps(outcome.result, allow_nan=False)
    cells = matrix(outcome)
    if estimator == "range":
        assert cells.shape == (160, 20)
        values = np.linalg.svd(cells * outcome.result["unit"], compute_uv=False)
        assert outcome.result["singular_values"] == pytest.approx(values, rel=1e-5)
        assert outcome.result["noise_deviation"] == pytest.approx(6.4076, rel=1e-4)
    else:
        assert cells.shape == (4, 160, 4)
        values = np.linalg.svd(cells[-1] * outcome.result["unit"], compute_uv=False)
        assert outcome.result["singular_values"] == pytest.approx(values)
        assert len(outcome.result["noise_deviation"]) == 4
    rows = list(csv.DictReader(io.StringIO(outcome.files[1].content.decode())))
    assert [int(row["vertex"]) for row in rows] == GRAPH.vertices.tolist()
    fields = {"publish": 1, "pcc": 3, "spectral": 4}
    assert {len(row) for row in rows} == {fields[mode]}
    if mode == "spectral":
        assert sum(outcome.result["cluster_sizes"]) == 160
        counts = np.bincount([int(row["cluster"]) for row in rows])
        assert counts.tolist() == outcome.result["cluster_sizes"]
    if mode != "publish":
        scores = np.array([float(row["score"]) for row in rows])
        ranks = np.array([int(row["rank"]) for row in rows])
        assert sorted(ranks.tolist()) == list(range(1, 161))
        assert (np.diff(scores[np.argsort(ranks)]) <= 0).all()


def test_signal_below_noise() -> None:
    """From public numbers and what is published."""
    drowned = done(m=20, epsilon="1/10")
    assert drowned.result["signal_below_noise"]
    assert any("signal_below_noise" in each for each in drowned.report.caveats)
    assert drowned.result["values_above_noise"] == 0
    clear = done(m=20, sigma="1/5")
    assert not clear.result["signal_below_noise"]
    assert clear.result["values_above_noise"] > 0
    assert not any("signal_below_noise" in each for each in clear.report.caveats)


def test_nothing_private_gets_out() -> None:
    """Degrees, the number of edges, true eigenvalues: in the evaluation alone."""
    asked = {"m": 20, "projection_seed": 3, "mode": "spectral"}
    outcome = done(**asked, evaluate={"clusterings": 2, "top": (10, 100)})
    plain = done(**asked)
    assert (outcome.result, outcome.files) == (plain.result, plain.files)
    assert outcome.evaluation is not None
    assert outcome.evaluation["edges"] == GRAPH.edges
    assert [each["top"] for each in outcome.evaluation["overlap"]] == [10, 100]
    shown = json.dumps(outcome.result) + outcome.report.model_dump_json()
    for private in (str(GRAPH.edges), f"{outcome.evaluation['eigenvalues'][0]:.6g}"):
        assert private not in shown
    assert outcome.report.evaluation_attached
    assert not plain.report.evaluation_attached


def test_pictures_are_of_the_release() -> None:
    from algorithms.graph_random_matrix.outcome import Findings

    values = np.array([3.0, 2.0, 1.0])
    assert [plot.name for plot in pictures.plots_of(Findings(values, 2.5))] == ["singular-values"]
    both = pictures.plots_of(Findings(values, 2.5, labels=np.array([0, 1, 1])))
    assert names_drawn("graph-random-matrix", both) == ["singular-values", "clusters"]


@pytest.mark.parametrize("projection", ["rademacher", "sparse", "gaussian"])
def test_the_sound_report(projection: str) -> None:
    asked: dict[str, Any] = {"projection": projection, "m": 20}
    planned, report = preview(params(**asked), "sound"), done(**asked).report
    for each in (planned, report):
        (line,) = each.verified
        assert (line.model, line.epsilon, line.delta) == ("zcdp", "1", "0.000001")
        assert (line.privacy_unit, line.neighbouring) == ("edge", "add-remove")
        assert float(line.rho or 0) == pytest.approx(1 / 6.4076**2, rel=1e-4)
        assert each.charged is not None
        assert (each.charged.epsilon, each.charged.delta) == ("1", "0.000001")
        assert not each.charged.outside_budget
        assert {noise.sampler for noise in each.noise} == {"exact-integer"}
        assert float(each.sampler_delta or 1) < 1e-20
        assert PrivacyReport.model_validate_json(each.model_dump_json()) == each
    assert planned.claimed is not None
    assert report.claimed is not None
    assert planned.claimed.epsilon is None
    sigma, n = 6.4076, GRAPH.count
    claimed = float(report.claimed.epsilon or 0)
    right = 10 * (claimed + math.log(1 / 2e-6)) * math.log(n / 1e-6)
    assert sigma * claimed == pytest.approx(math.sqrt(right), rel=1e-4)
    assert report.error is not None
    assert set(report.error["best_squared_cosine"]) == {"1", "2", "4"}
    value = report.sensitivity[0].value
    if projection == "gaussian":
        assert planned.sensitivity[0].value is None
        assert float(value or 0) > math.sqrt(2)
    else:
        assert float(value or 0) == pytest.approx(math.sqrt(2))
    assert float(report.details["exact_gaussian_epsilon"]) < 1
    assert float(report.details["epsilon_of_edges"]["2"]) > 2
    assert report.error["mean_degree"] == "20"


def test_a_report_by_sigma() -> None:
    report = preview(params(sigma="1"), "sound")
    assert report.charged is not None
    assert float(report.charged.epsilon or 0) == pytest.approx(7.766, rel=1e-3)
    assert report.verified[0].epsilon == report.charged.epsilon
    assert report.verified[0].rho == "1"


def test_the_report_of_the_iteration() -> None:
    asked = {"mode": "spectral", "estimator": "subspace"}
    planned, report = preview(params(**asked), "sound"), done(**asked).report
    assert planned.claimed is None
    assert report.claimed is None
    assert report.verified == planned.verified
    assert report.sensitivity[0].source == "public-output"
    assert any("not the source's" in each for each in report.source_defects)


@pytest.mark.parametrize("changes", [{}, {"sigma": "1"}], ids=["epsilon", "sigma"])
def test_the_paper_report_verifies_nothing(changes: dict[str, Any]) -> None:
    planned, report = preview(params(**changes), "paper"), done("paper", **changes).report
    for each in (planned, report):
        assert {line.epsilon for line in each.verified} == {None}
        assert "floating-point Gaussian" in (each.verified[0].reason or "")
        assert each.charged is not None
        assert each.charged.outside_budget
        assert each.charged.epsilon is None
        assert each.sampler_delta is None
        assert {noise.sampler for noise in each.noise} == {"float"}
    assert "In real arithmetic" in (report.verified[0].reason or "")
    assert report.claimed is not None
    claimed = float(report.claimed.epsilon or 0)
    assert claimed == pytest.approx(1) if not changes else claimed > 100


def test_noise_without_bound_is_drawn_on_a_coarser_grid() -> None:
    """The largest sigma: the basis all but vanishes on the grid, and a run still ends."""
    asked = params(mode="pcc", k=1, m=4, sigma="1000000", iterations=32, estimator="subspace")
    assert settings_of(asked, "sound").grid_bits == 7
    graph = EdgeList.of([(1, 2)], list(range(70_000)))
    outcome = run(graph, asked, "sound", context())
    assert outcome.result["signal_below_noise"]
