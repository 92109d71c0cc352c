"""The nearest point of a simplex, which makes noisy counts and shares consistent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def on_simplex(values: Floats) -> Floats:
    """The nearest numbers (n,), none below 0, with the same sum; all 0 where it is not above 0."""
    total = values.sum()
    if total <= 0:
        return np.zeros(values.size)
    falling = np.sort(values)[::-1]
    excess = np.cumsum(falling) - total
    place = np.arange(1, values.size + 1)
    last = int(np.flatnonzero(falling * place > excess)[-1])
    found: Floats = np.maximum(values - excess[last] / (last + 1), 0.0)
    return found
