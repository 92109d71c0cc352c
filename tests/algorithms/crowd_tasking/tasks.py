"""Tasks that the tests of `crowd-tasking` share."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from algorithms.contract import Stance
from algorithms.crowd_tasking.parameters import Parameters as CrowdTaskingParams
from algorithms.crowd_tasking.task import Task, resolve
from algorithms.datasets.tables import Texts, UserSeries

HEART = {
    "name": "heart rate",
    "unit": "1/min",
    "coordinates": [{"name": "rate", "lower": 50, "upper": 150}],
}


def sensor(dimension: int, width: float = 1.0, steps: int = 1 << 16) -> dict[str, Any]:
    """A sensor of k coordinates 0..width."""
    coordinates = [{"name": f"x{j}", "lower": 0, "upper": width} for j in range(dimension)]
    return {"name": "sensor", "coordinates": coordinates, "steps": steps}


def params(**changes: Any) -> CrowdTaskingParams:
    """Parameters as they come from the wire: 20 users, heart rate."""
    given = {"sensor": HEART, "n": 20, **changes}
    return CrowdTaskingParams.model_validate_json(json.dumps(given))


def task(stance: Stance = "sound", **changes: Any) -> Task:
    """The same, resolved."""
    return resolve(params(**changes), stance)


def series(values: np.ndarray, labels: np.ndarray | None = None) -> UserSeries:
    """A data set of complete series: values (users, T, k), labels (users, T)."""
    users, rounds, dimension = values.shape
    return UserSeries(
        tuple(f"x{j}" for j in range(dimension)),
        Texts.of(range(users)).repeated(rounds),
        np.tile(np.arange(1, rounds + 1), users),
        values.reshape(-1, dimension),
        None if labels is None else Texts.of(labels.ravel().tolist()),
    )
