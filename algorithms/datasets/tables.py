"""Numeric tables and series of users: rows of finite numbers with public column names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.texts import Texts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class NumericTable:
    """Kind `numeric-table`: values (n, d), finite; zero rows are legal.

    `labels` (n,): a reference for evaluation only, never an input of a mechanism; `curators` (n,):
    the id of the owner of each row. Raises ValueError for shapes that do not fit.
    """

    columns: tuple[str, ...]
    values: Floats
    labels: Texts | None = None
    curators: Texts | None = None

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[1] != len(self.columns):
            raise ValueError("one column of values for each name")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError("column names differ")
        if not np.isfinite(self.values).all():
            raise ValueError("values are finite")
        for role in (self.labels, self.curators):
            if role is not None and role.codes.shape != (self.rows,):
                raise ValueError("a role has one entry for each row")

    @property
    def rows(self) -> int:
        """How many rows; private."""
        return int(self.values.shape[0])


@dataclass(frozen=True)
class UserSeries:
    """Kind `user-series`: one row of k values for each (user, round), rounds 1..T.

    users (n,): ids; rounds (n,), values (n, k), labels (n,) or none. Raises ValueError for shapes
    that do not fit and for a (user, round) that occurs twice.
    """

    columns: tuple[str, ...]
    users: Texts
    rounds: Ints
    values: Floats
    labels: Texts | None = None

    def __post_init__(self) -> None:
        count = self.users.codes.size
        if self.values.shape != (count, len(self.columns)) or self.rounds.shape != (count,):
            raise ValueError("one user, one round and one row of values each")
        if not np.isfinite(self.values).all():
            raise ValueError("values are finite")
        if count and self.rounds.min() < 1:
            raise ValueError("rounds are counted from 1")
        pairs = np.stack((self.users.codes, self.rounds), axis=1)
        if np.unique(pairs, axis=0).shape[0] != count:
            raise ValueError("a user has one row in a round")
        if self.labels is not None and self.labels.codes.shape != (count,):
            raise ValueError("a label for each row")
