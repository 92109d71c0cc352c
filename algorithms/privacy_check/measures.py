"""What a partition satisfies: one number for each group, for each model.

Spec: trajectory-kcl, section 10.1. Sources: Chen's thesis, chapter 2; for t-closeness Lu's thesis,
chapter 2. All take the entries of `Counts` and give an array (g,).
"""

from __future__ import annotations

import numpy as np

from algorithms.privacy_check.groups import Counts, Floats, Ints


def distinct(counts: Counts) -> Ints:
    """Different sensitive values of each group."""
    return np.diff(counts.starts)


def entropy_diversity(counts: Counts) -> Floats:
    """exp of the entropy of each group's distribution: 1 where there is one value."""
    shares = counts.shares
    entropies = np.add.reduceat(-shares * np.log(shares), counts.starts[:-1])
    found: Floats = np.exp(entropies)
    return found


def recursive_factor(counts: Counts, least: int) -> Floats:
    """The infimum of c for which a group is recursive (c, l)-diverse with l = `least`.

    f_1 / (f_l + ... + f_m), frequencies in falling order; infinite where there are fewer than l.
    """
    groups = counts.groups
    order = np.lexsort((-counts.counts, groups))
    falling = counts.counts[order]
    rank = np.arange(len(falling)) - counts.starts[groups]
    rest = np.add.reduceat(np.where(rank >= least - 1, falling, 0), counts.starts[:-1])
    most = falling[counts.starts[:-1]]
    found: Floats = np.divide(most, rest, out=np.full(len(most), np.inf), where=rest > 0)
    return found


def confidences(counts: Counts, value: int) -> tuple[Ints, Ints]:
    """Rows of each group with the value, and rows of each group."""
    found = np.zeros(len(counts.sizes), np.int64)
    chosen = counts.values == value
    found[counts.groups[chosen]] = counts.counts[chosen]
    return found, counts.sizes


def discernibility(sizes: Ints) -> int:
    """DM: the sum of the squares of the groups' sizes."""
    return sum(size * size for size in sizes.tolist())


def outside_majority(counts: Counts) -> float:
    """Classification metric: the share of rows outside the largest class of their group."""
    most = np.maximum.reduceat(counts.counts, counts.starts[:-1])
    return 1 - int(most.sum()) / int(counts.sizes.sum())
