"""The sources' own methods give what they gave before there were better ones beside them.

Spec: utility, section 2, check 5. The digests were made from the last revision without `blocks`,
`flip`, `diffpart+rest`, `two-level`, `window`, `subset` and the root's threshold; `golden.json` in
`tests/algorithms/counts` has more of the counting algorithms, `set_valued/test_rest.py` what
`set-valued` refuses. Figures are rounded to six digits, as processors add in different orders.
"""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import numpy as np
import pytest

from algorithms import catalogue
from algorithms.contract import MethodNeedsSound, SequentialContext
from algorithms.datasets.declaration import DatasetDeclaration
from algorithms.datasets.kinds import read, written
from algorithms.datasets.tables import NumericTable
from reproduction.stand_in_data import power_law
from simulation.stand_in_data import metro
from tacit.errors import Invalid

TABLE = NumericTable(("a", "b"), np.random.default_rng(4).random((400, 2)) * 10)
GRAPH = power_law(120, 500, 2)
HEART = {"name": "heart", "coordinates": [{"name": "rate", "lower": 0, "upper": 1}]}
READINGS = [
    [user, time, (user * 37 + time * 11) % 100 / 100] for user in range(30) for time in (1, 2)
]
TASK = {"sensor": HEART, "n": 40, "epsilon": "2", "T": 2}
BOX = {"k": 3, "bounds": [[0, 10], [0, 10]]}
SEQUENCES = metro(500).dataset


def series() -> Any:
    kind = DatasetDeclaration(kind="user-series", format="csv", universe=None)
    return read(kind, io.BytesIO(written("csv", ["user", "round", "x1"], READINGS)))


CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "der": ("graph-der", GRAPH, {"epsilon": "1", "labelling": "id"}),
    "der, k": ("graph-der", GRAPH, {"epsilon": "2", "labelling": "random", "k": 2}),
    "spectra": (
        "graph-random-matrix",
        GRAPH,
        {"epsilon": "2", "delta": "1/1000000", "mode": "spectral", "k": 2, "m": 20},
    ),
    "kmeans": ("kmeans", TABLE, {**BOX, "n_hint": 400}),
    "kmeans, 2": ("kmeans", TABLE, {**BOX, "epsilon": "2"}),
    "average": ("crowd-tasking", series(), TASK),
    "histogram": (
        "crowd-tasking",
        series(),
        {**TASK, "aggregate": "HIST", "buckets": {"width": 0.1}},
    ),
    "grid": ("dpbv-clustering", TABLE, {**BOX, "method": "grid-core", "epsilon": "2"}),
    "n-grams": (
        "sequential-ngram",
        SEQUENCES,
        {"epsilon": "20", "universe": list(SEQUENCES.universe), "generation": "literal"},
    ),
}
DIGESTS = {
    "der": "dc3606fb240d5d89",
    "der, k": "e50690fe2d5b6788",
    "spectra": "b1180d3f52247a57",
    "kmeans": "4f6b9dda8794d896",
    "kmeans, 2": "74dd769bab42b9bd",
    "average": "15aba93c3fa183f0",
    "histogram": "c302072a52c2d63b",
    "grid": "37460a24afd894a9",
    "n-grams": "ccc20ed861251402",
}


def rounded(value: Any) -> Any:
    """Numbers to six digits, at any depth."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return value


def digest(name: str) -> str:
    """Of the released JSON; of the files, too, where they hold whole numbers."""
    algorithm, data, asked = CASES[name]
    found = catalogue.find(algorithm)
    params = found.params.model_validate_json(json.dumps(asked))
    found.check(data, params, "paper")
    outcome = found.run(data, params, "paper", SequentialContext(test_seed=7))
    whole = hashlib.sha256(json.dumps(rounded(outcome.result), sort_keys=True).encode())
    if algorithm in ("graph-der", "sequential-ngram"):
        for file in outcome.files:
            whole.update(f"{file.name} {len(file.content)}\n".encode() + file.content)
    return whole.hexdigest()[:16]


@pytest.mark.parametrize("name", CASES)
def test_the_sources_method_is_what_it_was(name: str) -> None:
    assert digest(name) == DIGESTS[name]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("der", {"method": "blocks"}),
        ("der", {"method": "auto"}),
        ("spectra", {"estimator": "flip"}),
        ("spectra", {"estimator": "auto"}),
        ("kmeans", {"start": "two-level"}),
        ("average", {"report": "window"}),
        ("average", {"report": "auto"}),
        ("histogram", {"report": "subset"}),
        ("n-grams", {"root": "threshold"}),
        ("n-grams", {"aim": "items"}),
        ("grid", {"grid": "adaptive"}),
    ],
)
def test_paper_refuses_each_new_name(name: str, changes: dict[str, Any]) -> None:
    """In the preview, before anything is spent."""
    algorithm = catalogue.find(CASES[name][0])
    asked = {**CASES[name][2], **changes}
    with pytest.raises(Invalid) as wrong:
        algorithm.preview(algorithm.params.model_validate_json(json.dumps(asked)), "paper")
    assert isinstance(wrong.value, MethodNeedsSound)
    assert wrong.value.pointer == f"/params/{next(iter(changes))}"
