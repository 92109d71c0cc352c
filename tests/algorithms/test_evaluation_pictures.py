"""What an operator is shown of an evaluation: plots from its own document, and nothing published.

The same job with the same seed publishes the same bytes, whether an evaluation is asked for or not.
"""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from algorithms import catalogue
from algorithms.contract import Outcome, SequentialContext
from algorithms.datasets.declaration import DatasetDeclaration
from algorithms.datasets.kinds import read, written
from algorithms.drawing import can_draw
from tacit.randomness import SeededRandom

BOX = [[0, 10], [0, 10]]


def _points() -> list[list[float]]:
    """Rows around (2, 2) and (7, 7), with their side as the label."""
    offsets = SeededRandom(1).generator.normal(0, 0.5, (200, 2)).round(4).tolist()
    return [
        [x + 2 + 5 * (row % 2), y + 2 + 5 * (row % 2), row % 2]
        for row, (x, y) in enumerate(offsets)
    ]


def _ring() -> list[list[int]]:
    """Two rings of twelve with some chords, and a bridge."""
    edges = [[1, 13]]
    for first in (1, 13):
        for place in range(12):
            edges += [[first + place, first + (place + step) % 12] for step in (1, 3)]
    return edges


POINTS: dict[str, Any] = {
    "kind": "numeric-table",
    "format": "csv",
    "columns": ["a", "b", "side"],
    "rows": _points(),
    "roles": {"label": "side"},
}
SERIES: dict[str, Any] = {
    "kind": "user-series",
    "format": "csv",
    "columns": ["user", "round", "x1"],
    "rows": [[user, number, user / 10] for user in range(10) for number in (1, 2)],
}
HEART: dict[str, Any] = {
    "sensor": {"name": "heart", "coordinates": [{"name": "rate", "lower": 0, "upper": 1}]},
    "n": 10,
    "epsilon": "2",
    "T": 2,
}
LINKS: dict[str, Any] = {"kind": "edge-list", "format": "snap", "columns": None, "rows": _ring()}
KMEANS: dict[str, Any] = {"k": 2, "epsilon": "1", "bounds": BOX, "n_hint": 200}
SHARES = {"aggregate": "HIST", "buckets": {"edges": [0, 0.25, 0.5, 0.75, 1]}}
JOBS: dict[str, tuple[str, dict[str, Any], dict[str, Any], str, set[str]]] = {
    "kmeans": ("kmeans", POINTS, KMEANS, "sound", {"sizes", "shifts"}),
    "kmeans, paper": ("kmeans", POINTS, {"k": 2, "epsilon": "1"}, "paper", {"sizes", "shifts"}),
    "grid": ("dpbv-clustering", POINTS, {"k": 2, "bounds": BOX}, "sound", {"agreement", "sizes"}),
    "bits": (
        "dpbv-clustering",
        POINTS,
        {"k": 2, "bounds": BOX, "s": 64, "baselines": ["kmeans", "adp"]},
        "paper",
        {"agreement", "scores"},
    ),
    "average": ("crowd-tasking", SERIES, HEART, "sound", {"average", "risk"}),
    "histogram": (
        "crowd-tasking",
        SERIES,
        HEART | SHARES | {"report": "laplace"},
        "sound",
        {"histogram", "risk"},
    ),
    "subset": ("crowd-tasking", SERIES, HEART | SHARES, "sound", {"histogram"}),
    "graph-der": (
        "graph-der",
        LINKS,
        {"epsilon": "1"},
        "sound",
        {"cut-queries", "structure"},
    ),
    "graph-random-matrix": (
        "graph-random-matrix",
        LINKS,
        {"k": 2, "m": 8, "mode": "spectral", "estimator": "range"},
        "sound",
        {"eigenvectors", "overlap", "clusters"},
    ),
}


def outcome(name: str, *, evaluate: bool) -> Outcome:
    """Of one of the jobs, with a fixed seed."""
    algorithm, data, params, stance, _ = JOBS[name]
    wanted = evaluate and ({"structure": True} if algorithm == "graph-der" else True)
    found = catalogue.find(algorithm)
    declaration = DatasetDeclaration(
        kind=data["kind"], format=data["format"], roles=data.get("roles", {})
    )
    content = written(data["format"], data["columns"], data["rows"])
    dataset = read(declaration, io.BytesIO(content))
    model = found.params.model_validate_json(json.dumps({**params, "evaluate": wanted}))
    context = SequentialContext(seed=bytes(32))
    done: Outcome = found.run(dataset, model, stance, context)  # type: ignore[arg-type]
    return done


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.slow
def test_an_evaluation_is_drawn_from_its_own_document(name: str) -> None:
    """And the pictures that are published are the same without one."""
    assert can_draw()
    done = outcome(name, evaluate=True)
    assert done.plots == outcome(name, evaluate=False).plots
    evaluation, summary = json.loads(json.dumps([done.evaluation, done.result], default=float))
    found = catalogue.find(JOBS[name][0])
    drawn = found.evaluation_pictures(evaluation, summary)
    assert {plot.name for plot in drawn} == JOBS[name][-1]
    for plot in drawn:
        assert b"<svg" in plot.svg
        assert plot.png.startswith(b"\x89PNG")
    assert drawn == found.evaluation_pictures(evaluation, summary)


@pytest.mark.parametrize("name", JOBS)
def test_nothing_of_an_evaluation_is_published(name: str) -> None:
    plain, looked = outcome(name, evaluate=False), outcome(name, evaluate=True)
    assert "rows" not in (plain.evaluation or {})
    assert looked.evaluation
    assert (looked.result, looked.files, looked.plots) == (plain.result, plain.files, plain.plots)
    changed = looked.report.model_dump(), plain.report.model_dump()
    for report in changed:
        del report["evaluation_attached"], report["caveats"], report["mechanism"]
    assert changed[0] == changed[1]


def test_true_sizes_of_clusters() -> None:
    found: Any = outcome("kmeans", evaluate=True).evaluation
    assert sorted(each["rows"] for each in found["clusters"]) == [100, 100]
    assert all(0 <= each["mean_distance_off"] < 0.2 for each in found["clusters"])
    table: Any = outcome("grid", evaluate=True).evaluation
    assert table["agreement"]["reference"] == ["0", "1"]
    assert sum(map(sum, table["agreement"]["rows"])) == sum(table["rows"].values()) == 200
