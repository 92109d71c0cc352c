"""Queries and readings to test with: one valid query of each kind, and changes to it."""

import json
from typing import Any

import numpy as np

from tacit.query.functions import Readings
from tacit.query.query import Query
from tests.rules import ruled

PLAIN: dict[str, Any] = {
    "name": "feeder-7",
    "function": "sum",
    "unit": "1",
    "bounds": ["-2", "3"],
    "max_readings": 2,
    "resolution": "1",
    "mechanism": "exact",
    "sharing": "additive",
    "aggregators": 3,
    "n_max": 1000,
    "deadline_s": 60,
}

METERED: dict[str, Any] = {
    "unit": "kWh",
    "bounds": ["0", "2"],
    "max_readings": 4,
    "resolution": "0.001",
    "mechanism": "distributed",
    "epsilon": "1",
}
"""Changes that make a noisy sum of kWh of it."""

VARIANTS: dict[str, dict[str, Any]] = {
    "sum": {},
    "count": {"function": "count"},
    "mean": {"function": "mean"},
    "variance": {"function": "variance"},
    "histogram": {"function": "histogram", "edges": ["-1", "0.5", "2"]},
    "slots": {"function": "vector_sum", "dimension": 2},
    "slots with a bound": {"function": "vector_sum", "dimension": 2, "l1_bound": "2"},
    "vectors": {"function": "vector_sum", "dimension": 2, "coordinates": "values"},
    "vectors with a bound": {
        "function": "vector_sum",
        "dimension": 2,
        "coordinates": "values",
        "l1_bound": "4",
    },
    "blocks": {
        "function": "vector_sum",
        "coordinates": "values",
        "blocks": [
            {"name": "near", "dimension": 1, "l1_bound": "2", "resolution": "1"},
            {"name": "far", "dimension": 1, "l1_bound": "3", "resolution": "0.5"},
        ],
    },
}


def fields(**changes: Any) -> dict[str, Any]:
    """The fields of a valid query with some changed; a change to None leaves the field out."""
    given = {key: value for key, value in {**PLAIN, **changes}.items() if value is not None}
    return ruled(given)


def query(**changes: Any) -> Query:
    """A query as it comes from the wire."""
    return Query.model_validate_json(json.dumps(fields(**changes)))


def readings(
    curators: int, rows: list[tuple[int, Any, int]], columns: int | None = None
) -> Readings:
    """Readings from rows (curator, quantity in nano-units, offset)."""
    shape = (len(rows),) if columns is None else (len(rows), columns)
    return Readings(
        curators,
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.int64).reshape(shape),
        np.array([row[2] for row in rows], np.int64),
    )
