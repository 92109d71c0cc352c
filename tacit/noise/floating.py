"""Laplace noise in floating point: the thesis's own baselines, in simulations only.

It never protects anybody. A double takes only those values that its generator's rounding can
reach, and that set depends on the value under the noise: for about one in eleven releases
around 0 the low bits alone prove what the value was not, whatever epsilon says (I. Mironov,
"On significance of the least significant bits for differential privacy", CCS 2012). Jobs of
stance `paper` use it to repeat a source's figures and carry no verified epsilon. The types keep
it there: it takes `SeededRandom` and nothing else.
"""

import numpy as np
from numpy.typing import NDArray

from tacit.randomness import SeededRandom


def floating_laplace(source: SeededRandom, scale: float, count: int) -> NDArray[np.float64]:
    """`count` draws with density e^(-|x|/scale) / (2 scale), for reproducing sources only."""
    if not isinstance(source, SeededRandom):
        raise TypeError("floating-point noise is for seeded simulations")
    if not scale > 0:
        raise ValueError("a noise scale is positive")
    return source.generator.laplace(0.0, scale, count)
