"""Rows equal on all quasi-identifiers, and how often each has each sensitive value.

Spec: trajectory-kcl, section 10. Cells are equal where they are written alike: a suppressed
cell `*` equals only `*`, and `07` is not `7`. Columns are whole numbers, rows one number each,
equal numbers one group. Time is linear in the rows, but for one sort of whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.texts import Texts

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_WIDEST: Final = 1 << 62


@dataclass(frozen=True, eq=False)
class Groups:
    """of (n,): the group of each row; sizes (g,); `first` (g,): a row of each."""

    of: Ints
    sizes: Ints
    first: Ints


@dataclass(frozen=True, eq=False)
class Counts:
    """How often groups have values: entries (group, value, count), by group, then value.

    starts (g + 1,): the entries of group i are starts[i]..starts[i + 1]. totals (m,): of the table.
    """

    starts: Ints
    values: Ints
    counts: Ints
    sizes: Ints
    totals: Ints

    @property
    def groups(self) -> Ints:
        """The group of each entry."""
        return np.repeat(np.arange(len(self.sizes)), np.diff(self.starts))

    @property
    def shares(self) -> Floats:
        """Of each entry: its share of its group."""
        found: Floats = self.counts / self.sizes[self.groups]
        return found

    def dense(self, start: int, stop: int) -> Floats:
        """Shares (stop - start, m) of all values in these groups."""
        found = np.zeros((stop - start, len(self.totals)))
        part = slice(self.starts[start], self.starts[stop])
        found[self.groups[part] - start, self.values[part]] = self.shares[part]
        return found


def grouped(columns: Sequence[Texts], rows: int) -> Groups:
    """The groups of these columns; without columns all rows are one."""
    keys = np.zeros(rows, np.int64)
    size = 1
    for column in columns:
        width = max(len(column.values), 1)
        if size * width >= _WIDEST:
            different, keys = np.unique(keys, return_inverse=True)
            size = len(different)
        keys = keys * width + column.codes
        size *= width
    _, first, of, sizes = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    return Groups(of.reshape(-1), sizes, first)


def counted(groups: Groups, sensitive: Texts) -> Counts:
    """How often each group has each value."""
    width = len(sensitive.values)
    keys, counts = np.unique(groups.of * width + sensitive.codes, return_counts=True)
    starts = np.searchsorted(keys // width, np.arange(len(groups.sizes) + 1))
    totals = np.bincount(sensitive.codes, minlength=width)
    return Counts(starts, keys % width, counts, groups.sizes, totals)
