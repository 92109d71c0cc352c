"""Algorithm 2 as printed: floating-point noise, no clamp, nothing verified.

Source: chapter 12, Algorithms 1 and 2. Readings outside the bounds go in as they are (the source
has no clamp, so that its sensitivity is not bounded), and the noise is a double's (see
`tacit.noise.floating`). For the stance `paper` and for reproductions only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit.encoders.crowd_tasking.encoder import Bools, Component, Floats, Ints, series_noise
from tacit.noise import floating_laplace
from tacit.randomness import SeededRandom


def perturb_floating(
    components: Sequence[Component],
    scales: Floats,
    persistence: float,
    users: Ints,
    rounds: Ints,
    readings: Floats,
    source: SeededRandom,
) -> Floats:
    """(n, k) reports of readings (n, k), sorted by user and round; scales b (k,), in their unit."""

    def draw(count: int) -> Floats:
        drawn = floating_laplace(source, 1.0, count * scales.size).reshape(count, -1)
        return np.asarray(drawn * scales, np.float64)

    def coins(count: int) -> Bools:
        return np.asarray(source.generator.random(count) < persistence, np.bool_)

    return readings + series_noise(components, users, rounds, draw, coins)
