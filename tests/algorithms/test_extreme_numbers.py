"""Finite numbers of any size: readers take 0 and sizes from 1e-100 to 1e100, and every algorithm
that takes numbers answers for what they take, in both stances, or says what is wrong."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from pydantic import ValidationError

from algorithms import catalogue
from algorithms.contract import SequentialContext, Stance, own_sample
from algorithms.datasets.declaration import DatasetDeclaration
from algorithms.datasets.kinds import read, written
from tacit.errors import DomainError
from tacit.records.text_files import MalformedRow
from tests.algorithms.outcomes import leaves, names_drawn

TOO_LARGE = [1e308, -1e308, 1.01e100]
TOO_SMALL = [5e-324, -1e-320, 9.9e-101]
TAKEN = [1e100, -1e100, 1e-100, -1e-100, 0.0, 1.0]
WIDE, NARROW = [-1e100, 1e100], [-1e-100, 1e-100]


def dataset(kind: str, form: str, columns: list[str] | None, rows: Any) -> Any:
    declaration = DatasetDeclaration(kind=kind, format=form)
    return read(declaration, io.BytesIO(written(form, columns, rows)))


def table(values: list[float]) -> Any:
    rows = [[one, other] for one, other in product(values, values)]
    return dataset("numeric-table", "csv", ["a", "b"], rows)


def series(values: list[float]) -> Any:
    rows = [
        [user, number, value] for number in (1, 2) for user, value in enumerate([*values, *values])
    ]
    return dataset("user-series", "csv", ["user", "round", "x1"], rows)


def routes(values: list[float]) -> Any:
    places = [[x, y] for x, y in product(values, values)]
    paths = [{"path": [[place, 1], [places[0], 2]], "sensitive": {}} for place in places]
    return dataset("trajectories", "ndjson", None, paths)


def patients(values: list[float]) -> Any:
    rows = [[number % 2, value] for number, value in enumerate([*values, *values])]
    return dataset("table", "csv", ["ward", "dose"], rows)


@pytest.mark.parametrize("value", [*TOO_LARGE, *TOO_SMALL], ids=repr)
@pytest.mark.parametrize("make", [table, series, routes])
def test_a_number_of_another_size_is_refused_with_its_place(make: Any, value: float) -> None:
    with pytest.raises(MalformedRow, match=r"row \d+, column .*: a number is 0, or its size"):
        make([1.0, 2.0, value])


def test_a_table_takes_any_content() -> None:
    assert patients([1.0, 1e308]).column("dose").values == ("1", "1" + "0" * 308)


@pytest.mark.parametrize("end", [*TOO_LARGE, *TOO_SMALL], ids=repr)
@pytest.mark.parametrize(
    ("name", "field"),
    [("kmeans", "bounds"), ("dpbv-clustering", "bounds"), ("dpbv-clustering", "rescale_to")],
)
def test_ends_of_a_range_are_such_numbers_too(name: str, field: str, end: float) -> None:
    pair = [0, end] if end > 0 else [end, 0]
    asked = {"k": 2, "n_hint": 9} if name == "kmeans" else {"k": 2, "bounds": [[0, 1]]}
    asked[field] = pair if field == "rescale_to" else [pair]
    with pytest.raises(ValidationError, match="a number is 0, or its size") as refused:
        catalogue.find(name).params.model_validate_json(json.dumps(asked))
    assert refused.value.errors()[0]["loc"][0] == field


def kmeans() -> Iterator[dict[str, Any]]:
    for bounds, mode in product((WIDE, NARROW, [0, 1]), ("synopsis", "auto")):
        yield {"k": 2, "bounds": [bounds] * 2, "n_hint": 30, "mode": mode, "evaluate": True}


def clustering() -> Iterator[dict[str, Any]]:
    methods = ("grid-core", "grid-ldp", "laplace-points", "dpbv-exact")
    for bounds, method, rescale in product((WIDE, NARROW), methods, ([0, 50], None)):
        yield {
            "k": 2,
            "bounds": [bounds] * 2,
            "method": method,
            "rescale_to": rescale,
            "s": 64,
            "n_init": 1,
            "evaluate": True,
            "epsilon": "8",
        }
    yield {"k": 2, "s": 64, "evaluate": True, "baselines": ["kmeans", "adp", "rsp"]}
    yield {"k": 2, "s": 64, "rescale_to": None, "metric": "manhattan", "rescale_global": False}
    yield {"s": 64, "clusterer": "dbscan", "dbscan_radius": 1.0, "min_samples": 2}
    yield {"k": 2, "s": 64, "partition": "vertical-plain", "alice_columns": 1}
    yield {"k": 2, "s": 64, "partition": "vertical-decomposed", "alice_columns": 1}
    yield {"k": 2, "s": 64, "rescale_to": None, "clusterer": "agglomerative"}


def tasking() -> Iterator[dict[str, Any]]:
    for bounds, unit in product(((0, 1), (-1e15, 1e15)), ("reading", "user")):
        coordinates = [{"name": "x", "lower": bounds[0], "upper": bounds[1]}]
        asked = {
            "sensor": {"name": "s", "coordinates": coordinates},
            "n": 12,
            "T": 2,
            "epsilon": "2",
            "privacy_unit": unit,
            "evaluate": True,
        }
        yield asked
        edges = [bounds[0], sum(bounds) / 2, bounds[1]]
        yield {**asked, "aggregate": "HIST", "buckets": {"edges": edges}}


def anonymising() -> Iterator[dict[str, Any]]:
    for cell, slot in product((1.0, 1e100, 1e-100), (1.0, 1e-100)):
        yield {
            "K": 2,
            "sensitive_values": [],
            "grid": {"cell": cell, "slot": slot},
            "evaluate": {"mfs": False},
        }


def checking() -> Iterator[dict[str, Any]]:
    for ground in ("equal", "ordered"):
        yield {
            "qid": ["ward"],
            "sensitive": ["dose"],
            "ground_distance": {"dose": {"kind": ground}},
        }
    yield {"qid": ["dose"], "sensitive": ["ward"]}


ASKED: dict[str, tuple[Any, Any]] = {
    "kmeans": (table, kmeans),
    "dpbv-clustering": (table, clustering),
    "crowd-tasking": (series, tasking),
    "trajectory-kcl": (routes, anonymising),
    "privacy-check": (patients, checking),
}


def of_its_sample(name: str) -> tuple[Any, Any]:
    """For an algorithm that is not above: its own sample's columns and parameters."""
    samples, job = own_sample(name)
    (sample,) = (each for each in samples() if each.file_name == job.file_name)
    assert sample.kind == "numeric-table", "another kind with numbers needs an entry in ASKED"
    columns = sample.content.decode().splitlines()[0].split(",")

    def content(values: list[float]) -> Any:
        return dataset(sample.kind, "csv", columns, [[value] * len(columns) for value in values])

    return content, lambda: [dict(job.params)]


WITHOUT_NUMBERS = {"transactions", "sequences", "edge-list", "network-path", "universe"}
"""Kinds whose entries are names: texts, or whole numbers that stand for themselves."""
KINDS_OF = {name: catalogue.find(name).dataset_kind for name in catalogue.NAMES}
ASKED |= {
    name: of_its_sample(name)
    for name, kind in KINDS_OF.items()
    if kind not in WITHOUT_NUMBERS and name not in ASKED
}
CASES = [
    pytest.param(name, stance, params, id=f"{name}-{stance}-{number}")
    for name, (_, every) in ASKED.items()
    for stance in catalogue.find(name).stances
    for number, params in enumerate(every())
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "values",
    [
        pytest.param(TAKEN, marks=pytest.mark.slow),
        pytest.param([1e100, -1e100], marks=pytest.mark.release),
        pytest.param([1e-100, -1e-100, 0.0], marks=pytest.mark.release),
    ],
    ids=str,
)
@pytest.mark.parametrize(("name", "stance", "params"), CASES)
def test_what_readers_take_is_answered(
    name: str, stance: Stance, params: dict[str, Any], values: list[float]
) -> None:
    algorithm, content = catalogue.find(name), ASKED[name][0](values)
    model = algorithm.params.model_validate_json(json.dumps(params))
    try:
        algorithm.preview(model, stance)
        algorithm.check(content, model, stance)
    except DomainError:
        return  # before anything is queued, with its own words
    context = SequentialContext(None if stance == "paper" else bytes(32))
    outcome = algorithm.run(content, model, stance, context)
    json.dumps((outcome.result, outcome.evaluation), allow_nan=False)
    assert all(math.isfinite(each) for each in leaves(outcome.result) if isinstance(each, float))
    names_drawn(name, outcome.plots)
