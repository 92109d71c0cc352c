"""The load model has the statistics of the households it was fitted to."""

from __future__ import annotations

import numpy as np
import pytest

from simulation.populations import household_load
from tacit.randomness import SeededRandom


@pytest.fixture(scope="module")
def load() -> np.ndarray:
    return household_load(400, 49, SeededRandom(1))


@pytest.mark.parametrize(
    ("statistic", "published"),
    [
        (np.mean, 0.5251),
        (lambda x: np.quantile(x, 0.25), 0.05),
        (np.median, 0.191),
        (lambda x: np.quantile(x, 0.75), 0.66),
        (lambda x: np.quantile(x, 0.95), 1.847),
        (lambda x: (x == 0).mean(), 0.0544),
    ],
    ids=["mean", "quartile 1", "median", "quartile 3", "95 %", "zeros"],
)
def test_cells(load: np.ndarray, statistic: object, published: float) -> None:
    # Within a fifth, or 0.04 kWh: a model for demonstrations, not a forecast.
    assert statistic(load) == pytest.approx(published, rel=0.2, abs=0.04)  # type: ignore[operator]
