"""Quantiles of the error of a released sum, from public values only.

The law of a sum of whole draws X is symmetric, and its characteristic function phi is real
(`tacit.accounting.error`). On a circle of n points

    P(X = x mod n) = 1/n sum_j phi(2 pi j / n) cos(2 pi j x / n),

exactly; the circle is so large that what goes round it has a probability below 2^-50. A law that
is wide is taken on a lattice that is as much coarser: an error of at most one step, below a
hundredth of the deviation or of the widest scale.

Spec: console, sections 4.3 and 7. numpy and the standard library only.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.error import log_characteristic, standard_deviation
from tacit.accounting.loss.draws import Draws

Floats = NDArray[np.float64]

_MOST_POINTS: Final = 1 << 15
_SCALES: Final = 40
_DEVIATIONS: Final = 9


@lru_cache(maxsize=256)
def absolute_quantiles(layers: tuple[Draws, ...], levels: tuple[float, ...]) -> tuple[float, ...]:
    """For each level from 0 to 1 the least k with P(|X| <= k) at or above it, in ring units.

    X is the sum of all draws; without any it is 0. By symmetry the quantile of X at 1/2 + level/2
    is that of |X| at `level`. Raises ValueError for a level that is not between 0 and 1.
    """
    if any(not 0 < level < 1 for level in levels):
        raise ValueError("a level lies between 0 and 1")
    deviation = standard_deviation(layers)
    if deviation == 0:
        return (0.0,) * len(levels)
    widest = max(float(layer.scale) for layer in layers)
    reach = _SCALES * max(widest, 1.0) + _DEVIATIONS * deviation
    step = max(1.0, 2 * reach / _MOST_POINTS)
    points = 1 << math.ceil(math.log2(2 * reach / step))
    coarser = tuple(
        replace(layer, scale=layer.scale / Fraction(step)) if step > 1 else layer
        for layer in layers
    )
    cumulated = np.cumsum(_folded(coarser, points))
    return tuple(float(place) * step for place in np.searchsorted(cumulated, levels))


def _folded(layers: tuple[Draws, ...], points: int) -> Floats:
    """P(|X| = k mod points) for k from 0 to points/2 - 1."""
    sine = np.sin(np.pi / points * np.arange(points // 2 + 1)) ** 2
    exponent = np.zeros(sine.size)
    for layer in layers:
        exponent += log_characteristic(layer, sine)
    masses: Floats = np.fft.irfft(np.exp(exponent), points)[: points // 2]
    masses[1:] *= 2
    return masses
