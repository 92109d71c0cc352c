"""How many true ones an arrangement keeps: Fisher's noncentral hypergeometric law.

Spec: graph-der, section 3.1 (arrangement). An arrangement of `asked` ones on `cells` cells, of
which `ones` are true ones, is drawn with weight e^(budget / (2 sensitivity) (cells - Hamming
distance)). Arrangements that keep w true ones are equally likely, and there are C(ones, w)
C(cells - ones, asked - w): w follows Fisher's law with odds e^(budget / sensitivity). It is
log-concave, so that only the range of 12 standard deviations (and 40) on either side of its mode is
examined; the truncated mass is below 1e-30.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.graph_der.geometry import Ints
from tacit.randomness import NoiseSource

Floats = NDArray[np.float64]

DEVIATIONS: Final = 12
BESIDE: Final = 40
CUT_MASS: Final = 1e-30
_BATCH: Final = 1 << 20
"""Numbers in one block of logarithms."""


def support(cells: Ints, ones: Ints, asked: Ints) -> tuple[Ints, Ints]:
    """The least and the largest number of true ones that can be kept."""
    return np.maximum(0, asked - (cells - ones)), np.minimum(ones, asked)


def _step(cells: Ints, ones: Ints, asked: Ints, log_odds: Floats, kept: Ints) -> Floats:
    """log P(kept + 1) / P(kept)."""
    with np.errstate(divide="ignore"):
        up = np.log((ones - kept).astype(float)) + np.log((asked - kept).astype(float))
        down = np.log(kept + 1.0) + np.log((cells - ones - asked + kept + 1).astype(float))
    held: Floats = log_odds + up - down
    return held


def mode(cells: Ints, ones: Ints, asked: Ints, log_odds: Floats) -> Ints:
    """The most likely number, by bisection on the ratio of neighbours, which falls."""
    low, high = support(cells, ones, asked)
    while (low < high).any():
        middle = (low + high) // 2
        rises = (low < high) & (_step(cells, ones, asked, log_odds, middle) > 0)
        low, high = np.where(rises, middle + 1, low), np.where(rises, high, middle)
    return low


def window(cells: Ints, ones: Ints, asked: Ints, log_odds: Floats) -> tuple[Ints, Ints]:
    """First number that is examined, and how many are."""
    low, high = support(cells, ones, asked)
    top = mode(cells, ones, asked, log_odds)
    curved = (
        1 / (ones - top + 0.5)
        + 1 / (asked - top + 0.5)
        + 1 / (top + 0.5)
        + 1 / (cells - ones - asked + top + 0.5)
    )
    beside = np.ceil(DEVIATIONS / np.sqrt(curved)).astype(np.int64) + BESIDE
    first = np.maximum(low, top - beside)
    return first, np.minimum(high, top + beside) - first + 1


def weights(
    cells: Ints, ones: Ints, asked: Ints, log_odds: Floats, first: Ints, size: int
) -> Floats:
    """(n, size) masses from `first` on, the largest of a row 1; 0 beyond the support."""
    kept = first[:, None] + np.arange(size)
    beyond = kept > support(cells, ones, asked)[1][:, None]
    steps = _step(
        cells[:, None],
        ones[:, None],
        asked[:, None],
        log_odds[:, None],
        np.where(beyond, first[:, None], kept),
    )
    logs = np.zeros(kept.shape)
    np.cumsum(np.where(beyond, -np.inf, steps)[:, :-1], axis=1, out=logs[:, 1:])
    logs[beyond] = -np.inf
    held: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    return held


def draw(
    cells: Ints,
    ones: Ints,
    asked: Ints,
    log_odds: Floats,
    source: NoiseSource,
    beat: Callable[[], None] = lambda: None,
) -> Ints:
    """(n,) numbers of true ones that are kept; all arguments (n,), 0 <= asked <= cells.

    By the inverse of the distribution function, in extended precision and with 64-bit uniforms.
    """
    first, sizes = window(cells, ones, asked, log_odds)
    uniform = source.words(len(cells)).astype(np.longdouble) / np.longdouble(2.0**64)
    drawn = first.copy()
    # rows of about the same width together
    widths = np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64)
    for width in np.unique(widths[sizes > 1]).tolist():
        rows = np.flatnonzero((widths == width) & (sizes > 1))
        size = int(sizes[rows].max())
        for start in range(0, rows.size, max(1, _BATCH // size)):
            beat()
            own = rows[start : start + max(1, _BATCH // size)]
            mass = weights(cells[own], ones[own], asked[own], log_odds[own], first[own], size)
            mass[np.arange(size) >= sizes[own, None]] = 0
            sums = np.cumsum(mass, axis=1, dtype=np.longdouble)
            target = uniform[own] * sums[:, -1]
            place = (sums <= target[:, None]).sum(axis=1)
            drawn[own] += np.minimum(place, sizes[own] - 1)
    return drawn
