"""A coordinator looks at which rounds a curator does not report, to learn of the label column where
a number is none of the public classes: a reading, say, of a column that is no label at all.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from algorithms import catalogue
from tacit.encoders import crowd_tasking_reports
from tacit.protocol.federation import Report
from tacit.randomness import SeededRandom

TASK: dict[str, Any] = {
    "sensor": {"name": "walk", "coordinates": [{"name": "x", "lower": 0, "upper": 10}]},
    "n": 2,
    "T": 4,
    "epsilon": "2",
    "aggregate": "CLS",
    "classes": [0, 1],
    "labels_are_public": True,
}
INSIDE = np.array([[5.0, 0], [5, 0], [5, 1], [5, 0]])
OUTSIDE = np.array([[5.0, 0], [5, 321], [5, 1], [5, -7.5]])
"""The same, but for two numbers that are no class."""


def seen(rows: Any) -> list[Report]:
    """What the coordinator gets: the reports of the encoding that the job's descriptor carries."""
    algorithm = catalogue.find("crowd-tasking")
    assert algorithm.reports is not None
    params = algorithm.params.model_validate_json(json.dumps(TASK))
    encoding = crowd_tasking_reports.read(algorithm.reports.encoding(params, "sound"))
    reports = encoding.perturbed({"house": rows}, SeededRandom(1))
    assert all(encoding.refusal(each) is None for each in reports)
    return reports


def test_rows_of_no_class_are_reported_like_the_others() -> None:
    assert seen(OUTSIDE) == seen(INSIDE)


def test_leaving_them_out_shows_them() -> None:
    """The control: what was sent when such rows were not reported."""
    places = np.searchsorted([0, 1], OUTSIDE[:, 1]).clip(0, 1)
    taken = np.array([0, 1])[places] == OUTSIDE[:, 1]
    rounds = {each.round for each in seen(OUTSIDE)}
    assert rounds - set((np.flatnonzero(taken) + 1).tolist()) == {2, 4}
