"""The baseline `basic`: a noisy histogram over all itemsets, and sums over supersets.

Spec: set-valued, section 3.6. Itemset m is the cell of its bit mask (bit i: item i of the
universe); a record is in one cell, so the sensitivity is 1. Cell 0 is no itemset and stays 0.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context, Stance
from algorithms.set_valued.records import Itemsets
from algorithms.set_valued.settings import Row
from tacit.noise import DiscreteLaplace, floating_laplace
from tacit.randomness import SeededRandom
from tacit.records.transactions import Ints

BLOCK: Final = 1 << 18
_HALF: Final = 11
"""Bits of half a mask; 22 items are the most."""


def exact_histogram(sets: Itemsets, items: int, weights: Ints | None = None) -> Ints:
    """How many records (or how much weight) are exactly each itemset (2^items,)."""
    if not sets.count:
        return np.zeros(1 << items, np.int64)
    bits = np.left_shift(1, sets.places.astype(np.int64))
    masks = np.bitwise_or.reduceat(bits, sets.offsets[:-1])
    return np.bincount(masks, weights, minlength=1 << items).astype(np.int64)


def noisy_histogram(
    exact: Ints, epsilon: Fraction, stance: Stance, context: Context
) -> NDArray[Any]:
    """Every cell but 0 with noise: integers in `sound`, floats in `paper`."""
    noisy: NDArray[Any] = exact.astype(np.float64 if stance == "paper" else np.int64)
    for block, start in enumerate(range(1, noisy.size, BLOCK)):
        context.progress(0.3 + 0.5 * start / noisy.size, "drawing noise")
        part, secret = noisy[start : start + BLOCK], context.noise("cells", block)
        if stance == "sound":
            part += DiscreteLaplace(1 / epsilon).draw(secret, part.size)
        else:
            seeded = SeededRandom(int.from_bytes(secret.bytes(16)))
            part += floating_laplace(seeded, float(1 / epsilon), part.size)
    return noisy


def clipped(noisy: NDArray[Any]) -> Ints:
    """The publishable variant: whole counts, none below 0."""
    return np.maximum(np.floor(noisy + 0.5), 0).astype(np.int64)


def rows_of(cells: Ints, beat: Callable[[], None] = lambda: None) -> tuple[Row, ...]:
    """The cells above 0 as itemsets, sorted by (length, items)."""
    masks = np.flatnonzero(cells > 0)
    turned = np.zeros_like(masks)
    for bit in range(_HALF * 2):  # of two sets of one length the one with the lower item is first
        turned = turned << 1 | (masks >> bit & 1)
    order = masks[np.lexsort((-turned, np.bitwise_count(masks)))]
    half = [tuple(bit for bit in range(_HALF) if mask >> bit & 1) for mask in range(1 << _HALF)]
    high = [tuple(bit + _HALF for bit in items) for items in half]
    rows: list[Row] = []
    for start in range(0, order.size, BLOCK):
        beat()
        part = order[start : start + BLOCK]
        rows += [
            (half[mask & (1 << _HALF) - 1] + high[mask >> _HALF], count)
            for mask, count in zip(part.tolist(), cells[part].tolist(), strict=True)
        ]
    return tuple(rows)


def superset_sums(cells: NDArray[Any]) -> NDArray[Any]:
    """For each mask the sum over all masks that contain it (zeta transform), (2^items,)."""
    sums = cells.copy()
    width = 1
    while width < sums.size:
        pairs = sums.reshape(-1, 2, width)
        pairs[:, 0] += pairs[:, 1]
        width *= 2
    return sums
