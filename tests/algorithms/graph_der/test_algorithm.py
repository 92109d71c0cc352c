"""The job: parameters, what a result holds, what the report says, what never gets out."""

from __future__ import annotations

import csv
import io
import json
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import SequentialContext, Stance
from algorithms.datasets.edge_list import EdgeList, read_snap
from algorithms.graph_der import (
    Parameters,
    check,
    evaluation,
    preview,
    run,
)
from algorithms.graph_der.algorithm import RESULT
from algorithms.graph_der.parameters import (
    BadDensity,
    BadEpsilon,
    BadGroup,
    BadLabelling,
    BadShares,
    BadStep,
    BadVertices,
    GraphTooLarge,
    LabellingDependsOnEdges,
    plan_of,
)
from algorithms.graph_der.report import slack_of
from tacit.errors import Invalid
from tacit.report.model import PrivacyReport
from tests.algorithms.graph_der.examples import G8, random_graph_of
from tests.algorithms.outcomes import names_drawn, published

GRAPH = random_graph_of(150, 0.08, 4)
UNDECLARED = EdgeList.of([(1, 2), (2, 3), (5, 9)])


def params(**changes: Any) -> Parameters:
    return Parameters(**({"epsilon": "1", "method": "der"} | changes))


def context() -> SequentialContext:
    return SequentialContext(bytes(range(32)))


def table(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


@pytest.mark.parametrize(
    ("changes", "problem", "pointer"),
    [
        ({"epsilon": "100.1"}, BadEpsilon, "epsilon"),
        ({"k": 0}, BadGroup, "k"),
        ({"shares": ("1/2", "1/2", "0")}, BadShares, "shares"),
        ({"shares": ("3/2", "-1", "1/2")}, BadShares, "shares"),
        ({"step": 0}, BadStep, "step"),
        ({"density_stop": "1.01"}, BadDensity, "density_stop"),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("stance", ["sound", "paper"])
def test_what_is_refused(
    changes: dict[str, Any], problem: type[Invalid], pointer: str, stance: Stance
) -> None:
    for call in (
        lambda: preview(params(**changes), stance),
        lambda: check(GRAPH, params(**changes), stance),
        lambda: run(GRAPH, params(**changes), stance, context()),
    ):
        with pytest.raises(problem) as wrong:
            call()
        assert wrong.value.pointer == f"/params/{pointer}"


def test_a_labelling_that_gives_edges_away() -> None:
    with pytest.raises(LabellingDependsOnEdges) as wrong:
        preview(params(labelling="first_appearance"), "sound")
    assert wrong.value.name == "labelling_depends_on_edges"
    assert wrong.value.pointer == "/params/labelling"
    preview(params(labelling="first_appearance"), "paper")


def test_what_does_not_fit_the_graph() -> None:
    big = np.zeros(0, np.int32)
    dense = EdgeList.from_pairs(np.arange(20_001), big, big)
    cases: list[tuple[EdgeList, dict[str, Any], Stance, type[Exception], str]] = [
        (EdgeList.of([]), {}, "sound", BadVertices, "/dataset"),
        (EdgeList.of([], ["a"]), {}, "sound", BadVertices, "/dataset"),
        (EdgeList.of([(1, 1)]), {}, "sound", BadVertices, "/dataset"),
        (G8, {"k": 29}, "sound", BadGroup, "/params/k"),
        (G8, {"step": 5}, "sound", BadStep, "/params/step"),
        (dense, {}, "paper", GraphTooLarge, "/dataset"),
        (dense, {"step": 1}, "sound", GraphTooLarge, "/params/step"),
        (UNDECLARED, {"labelling": "given"}, "sound", BadLabelling, "/params/labelling"),
        (GRAPH, {"epsilon": "1/1000000", "k": 10_000}, "sound", BadEpsilon, "/params/epsilon"),
    ]
    for graph, changes, stance, problem, pointer in cases:
        with pytest.raises(problem) as wrong:
            check(graph, params(**changes), stance)
        assert wrong.value.pointer == pointer  # type: ignore[attr-defined]
    check(G8, params(k=28, step=4), "sound")
    check(EdgeList.of([], ["a", "b"]), params(), "sound")
    check(dense, params(), "sound")


def test_a_release() -> None:
    outcome = run(GRAPH, params(epsilon="4"), "sound", context())
    blocks = run(GRAPH, params(epsilon="4", method="blocks"), "sound", context())
    told = set(outcome.result) | set(blocks.result)
    released = (*outcome.files, *blocks.files)
    assert told | {file.name for file in released} == set(RESULT)
    files = {file.name: file.content for file in outcome.files}
    vertices = files["vertices.txt"].decode().split()
    assert vertices == [str(each) for each in range(150)]
    again = read_snap(io.BytesIO(files["edges.txt"]), vertices)
    assert (again.edges, again.loops, again.duplicates) == (outcome.result["edges"], 0, 0)
    pairs = [tuple(map(int, line.split())) for line in files["edges.txt"].splitlines()]
    assert pairs == sorted(pairs)
    regions = table(files["regions.csv"])
    assert len(regions) == outcome.result["regions"]
    assert sum(int(row["count"]) for row in regions) == again.edges
    assert sum(int(row["cells"]) for row in regions) == 150 * 149 // 2
    assert max(int(row["depth"]) for row in regions) <= outcome.result["height"]
    for row in regions:
        top, bottom, left, right = (int(row[name]) for name in
                                    ("row_from", "row_to", "column_from", "column_to"))  # fmt: skip
        inside = (again.first >= top) & (again.first < bottom)
        inside &= (again.second >= left) & (again.second < right)
        assert inside.sum() == int(row["count"])
    assert outcome.public_seeds == {}
    assert outcome.evaluation is None


def test_ids_come_back_in_the_labels_order() -> None:
    graph = EdgeList.of([("c", "a"), ("b", "ä")])
    outcome = run(graph, params(epsilon="100", labelling_seed=3), "sound", context())
    files = {file.name: file.content.decode() for file in outcome.files}
    assert sorted(files["vertices.txt"].split()) == ["a", "b", "c", "ä"]
    assert outcome.public_seeds == {"labelling_seed": 3}
    assert {*files["edges.txt"].split()} <= {"a", "b", "c", "ä"}
    assert "taken from the edges" in " ".join(outcome.report.caveats)
    assert "same vertex set" in " ".join(outcome.report.verified[0].conditions)
    named = run(graph, params(labelling="id"), "sound", context())
    assert named.files[2].content.decode().split() == ["a", "b", "c", "ä"]


def test_nothing_private_gets_out() -> None:
    """Published: the same whether or not a comparison is made. And of two graphs that leave the
    same noisy tree nothing but it is published."""
    plain = run(GRAPH, params(), "sound", context())
    compared = run(GRAPH, params(evaluate={"queries": 64}), "sound", context())
    assert plain.files == compared.files
    assert plain.result == compared.result
    assert compared.evaluation is not None
    header = plain.files[1].content.decode().partition("\n")[0]
    words = {*re.findall(r"[a-z_]+", published(plain)[0]), *header.split(",")}
    words |= {*map(str, plain.report.details)}
    assert not words & {"common", "common_edges", "ones", "true", "loops", "adjacent", "kept"}
    # no number in the result or the report is the true number of edges, or of what was dropped
    lines = EdgeList.from_pairs(
        GRAPH.vertices,
        np.concatenate((GRAPH.first, GRAPH.first[:7], GRAPH.first[:3])),
        np.concatenate((GRAPH.second, GRAPH.second[:7], GRAPH.first[:3])),
    )
    assert (lines.duplicates, lines.loops) == (7, 3)
    dirty = run(lines, params(), "sound", context())
    assert published(dirty) == published(plain)
    assert str(GRAPH.edges) not in re.findall(r"\d+", json.dumps(plain.result))


def test_pictures_are_of_the_release() -> None:
    plots = run(GRAPH, params(), "sound", context()).plots
    assert names_drawn("graph-der", plots) == ["regions", "degrees"]
    image = evaluation.density_map(plots[0].values)
    assert image.shape == (150, 150)
    assert np.array_equal(image, image.T, equal_nan=True)
    assert np.isfinite(image).mean() > 0.99


def test_the_sound_report() -> None:
    report = run(GRAPH, params(epsilon="3/2", k=3), "sound", context()).report
    assert PrivacyReport.model_validate_json(report.model_dump_json()) == report
    edge, group = report.verified
    assert (edge.model, edge.epsilon, edge.delta, edge.privacy_unit) == (
        "pure-dp",
        "0.5",
        "0",
        "edge",
    )
    assert (group.epsilon, group.privacy_unit) == ("1.5", None)
    assert "3 edges" in (group.description or "")
    assert report.charged is not None
    assert (report.charged.epsilon, report.charged.privacy_unit) == ("0.5", "edge")
    assert report.claimed is not None
    assert "k = 3" in (report.claimed.text or "")
    height = report.details["height"]
    spent = report.details["budget_table"]
    assert list(spent) == [str(depth) for depth in range(height + 1)]
    for row in spent.values():
        assert sum(Fraction(each) for each in row.values()) == pytest.approx(Fraction(3, 2))
    assert Fraction(report.sampler_epsilon or "") == Fraction(2 * (height + 1), 10**10)
    assert 0 < Fraction(report.sampler_delta or "") < Fraction(1, 10**9)
    assert all(each.sampler == "exact-integer" for each in report.noise)
    assert len(report.noise) == height
    assert any("degree" in each for each in report.not_protected)
    assert len(run(GRAPH, params(), "sound", context()).report.verified) == 1


def test_the_preview_promises_what_the_run_reports() -> None:
    asked = params(epsilon="2", k=2)
    planned, done = preview(asked, "sound"), run(GRAPH, asked, "sound", context()).report
    assert planned.verified == done.verified
    assert planned.charged == done.charged
    assert Fraction(planned.sampler_delta or "") >= Fraction(done.sampler_delta or "")
    assert Fraction(planned.sampler_epsilon or "") >= Fraction(done.sampler_epsilon or "")


def test_the_paper_report_verifies_nothing() -> None:
    outcome = run(GRAPH, params(labelling="first_appearance"), "paper", context())
    report = outcome.report
    (line,) = report.verified
    assert (line.model, line.epsilon) == ("none", None)
    assert report.charged is not None
    assert report.charged.outside_budget
    assert report.sampler_epsilon is None
    assert report.details["in_real_arithmetic"]["epsilon_per_edge"] == "inf"
    assert not report.details["in_real_arithmetic"]["labels_public"]
    assert any("NOT hold" in each for each in report.assumptions)
    assert all(each.sampler == "float" for each in report.noise)


def test_slack_grows_with_the_exponent() -> None:
    assert slack_of(params(), None).epsilon >= Fraction(2, 10**10)
    large = plan_of(params(epsilon="100"), "sound", 10**6)
    assert slack_of(params(epsilon="100"), large).epsilon > Fraction(2 * 25, 10**10)
    assert slack_of(params(epsilon="100"), large).delta == 1


def test_figures_of_an_evaluation() -> None:
    asked = {"queries": 200, "structure": True}
    found = run(GRAPH, params(epsilon="20", evaluate=asked), "sound", context()).evaluation
    assert found is not None
    assert found["edges"] == GRAPH.edges
    rows = found["cut_queries"]
    assert [row["sets"] for row in rows] == ["random"] * 5 + ["range"] * 5
    assert [row["largest_size"] for row in rows[:5]] == [30, 60, 90, 120, 150]
    ranges = [row for row in rows if row["sets"] == "range"]
    assert all(row["release"] < row["random"] for row in ranges)
    assert found["degree_divergence"]["release"] >= 0
    assert set(found["structure"]) == {"true", "release", "random"}
    assert 0 <= found["common_edges"] <= GRAPH.edges
    none = {"queries": 0, "degrees": False}
    short = run(GRAPH, params(evaluate=none), "sound", context()).evaluation
    assert short is not None
    assert "cut_queries" not in short
    empty = EdgeList.of([], list(range(5)))
    without = run(empty, params(evaluate={"queries": 10, "structure": True}), "sound", context())
    assert without.evaluation is not None
    assert without.evaluation["edges_ratio"] is None
