"""The nearest point of a simplex, which makes noisy counts and shares consistent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def on_simplex(values: Floats) -> Floats:
    """The nearest non-negative numbers (n,) with the same sum; all 0 if the sum is not above 0."""
    total = values.sum()
    if total <= 0:
        return np.zeros(values.size)
    falling = np.sort(values)[::-1]
    excess = np.cumsum(falling) - total
    place = np.arange(1, values.size + 1)
    last = int(np.flatnonzero(falling * place >= excess)[-1])  # the first at least: total > 0
    result: Floats = np.maximum(values - excess[last] / (last + 1), 0.0)
    return result


def on_simplices(values: Floats, owner: Ints, totals: Floats) -> Floats:
    """The same group by group: the nearest non-negative numbers (n,) that add up to totals (g,),
    at least 0; owner (n,): the group of each number. A group without numbers adds nothing."""
    order = np.lexsort((-values, owner))
    falling, group = values[order], owner[order]
    starts = np.searchsorted(group, np.arange(totals.size))
    place = np.arange(1, order.size + 1) - starts[group]
    running = np.cumsum(falling)
    excess = running - np.concatenate(([0.0], running))[starts][group] - totals[group]
    lasting = np.bincount(group, falling * place >= excess, totals.size).astype(np.int64)
    level = np.zeros(totals.size)
    groups_present = np.unique(group)
    lasting[groups_present] = np.maximum(lasting[groups_present], 1)  # so it is, but for rounding
    level[groups_present] = (
        excess[starts[groups_present] + lasting[groups_present] - 1] / lasting[groups_present]
    )
    result: Floats = np.maximum(values - level[owner], 0.0)
    result[totals[owner] <= 0] = 0.0
    return result
