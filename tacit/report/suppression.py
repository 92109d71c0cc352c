"""Suppression of small counts in a table without noise, before it is passed on.

*Primary*: a count from 1 to below the least. *Secondary*: further figures, as a small one could
else be computed from margins. A figure is a cell or a margin; relations say which add up to which.

What holds for the result: for every primary figure there are two tables of whole numbers, none
negative, that agree with all that is published: in one that figure is 0, in the other it reaches
the least. So nobody can compute from what is published that it is above 0, or that it is below the
least. Either is the true table plus a change y with relations y = 0 and y >= -values, and what y
changes is suppressed. y is the cheapest such change (a linear programme, with whole numbers where
it has to be: Kelly, Golden and Assad, Networks 22, 1992): a figure that is suppressed already costs
nothing, another one its count. The total of what is suppressed is not the least possible.

Not covered: who knows which figures are primary, or counts from elsewhere (also its own); zeros,
which are published, and tables of the same records released apart. Whoever has opened the sum has
seen all counts: suppression protects against those to whom the table is passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Invalid, MissingExtra
from tacit.query.tables import TableColumn

Ints = NDArray[np.int64]
Bits = NDArray[np.bool_]

MOST_FIGURES: Final = 1_000
"""Cells and margins of a table that is suppressed here, at most."""


class TooManyFigures(Invalid):
    """More than this method suppresses in seconds."""

    name = "too_many_figures"
    title = f"At most {MOST_FIGURES:,} cells and margins can be suppressed: ask for fewer"


def suppressed(values: Ints, relations: Any, least: int) -> Bits:
    """Which of n figures are not published, (n,).

    `values` (n,): true counts; `relations` (m, n): a matrix, dense or sparse, with relations @
    values = 0; `least`: at least 2. Raises TooManyFigures; MissingExtra without scipy.
    """
    if values.size > MOST_FIGURES:
        raise TooManyFigures
    primary = (values > 0) & (values < least)
    hidden, reaches, vanishes = primary.copy(), ~primary, ~primary
    programme = _Programme.of(values, relations, least)
    for figure in np.flatnonzero(primary)[np.argsort(values[primary], kind="stable")]:
        for done, change in ((reaches, least - values[figure]), (vanishes, -values[figure])):
            if done[figure]:
                continue
            other = values + programme.cheapest(hidden, figure, change)
            hidden |= other != values
            reaches |= other >= least
            vanishes |= other == 0
    return hidden


@dataclass(frozen=True, eq=False)
class _Programme:
    """Changes of figures that keep all relations: variables up (n,) and down (n,), both
    non-negative; a change is up - down. `weight`: the cost of changing a published figure by 1."""

    values: Ints
    relations: Any
    weight: NDArray[np.float64]
    reach: float

    @classmethod
    def of(cls, values: Ints, relations: Any, least: int) -> _Programme:
        """Raises MissingExtra."""
        try:
            from scipy.sparse import csr_array
        except ImportError:
            raise MissingExtra("scipy", "suppression") from None
        largest = int(values.max(initial=0))
        # A zero may be known to be one (no widow is five years old), so it is the last resort.
        weight = np.where(values > 0, values, largest + 1).astype(np.float64)
        return cls(values, csr_array(relations), weight, float(largest + least))

    def cheapest(self, hidden: Bits, figure: int, change: int) -> Ints:
        """(n,): the cheapest change of the figures, in whole numbers, that moves `figure` by
        `change` and keeps all relations."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import hstack

        low = np.zeros((2, self.values.size))
        high = np.stack([np.full(self.values.size, self.reach), self.values.astype(np.float64)])
        low[:, figure] = high[:, figure] = max(change, 0), max(-change, 0)
        cost = np.tile(np.where(hidden, 0.0, self.weight), 2)
        both = hstack([self.relations, -self.relations])
        # With two columns the linear programme has whole solutions already.
        for integer in (0, 1):
            solution = milp(
                cost,
                integrality=np.full(cost.size, integer),
                bounds=Bounds(low.ravel(), high.ravel()),
                constraints=LinearConstraint(both, 0, 0),
            )
            # Possible always: every figure may change along with those of its relations.
            assert solution.x is not None, solution.message
            up, down = np.rint(solution.x).astype(np.int64).reshape(2, -1)
            moved: Ints = up - down
            is_solution = not (self.relations @ moved).any() and moved[figure] == change
            if is_solution and (self.values + moved >= 0).all():
                return moved
        raise AssertionError("an integer programme has whole solutions")


def table_relations(shape: Sequence[int]) -> Any:
    """The relations (m, n) of the figures of a table, in the order of `table_figures`: along
    every axis the categories add up to their margin. `shape`: the number of categories of each
    column."""
    from scipy.sparse import csr_array

    full = tuple(size + 1 for size in shape)
    place = np.arange(np.prod(full)).reshape(full)
    lines = [np.moveaxis(place, axis, -1).reshape(-1, size) for axis, size in enumerate(full)]
    rows, columns, entries = [], [], []
    first = 0
    for line in lines:
        count, size = line.shape
        rows.append(np.repeat(np.arange(first, first + count), size))
        columns.append(line.ravel())
        entries.append(np.tile([*[1.0] * (size - 1), -1.0], count))
        first += count
    index = np.concatenate(rows), np.concatenate(columns)
    return csr_array((np.concatenate(entries), index), shape=(first, place.size))


def suppressed_figures(columns: Sequence[TableColumn], values: Sequence[int], least: int) -> Bits:
    """Which cells and margins of a table of counts are not published, in the order of
    `table_figures`. `values`: its figures in that order. Raises as `suppressed`."""
    shape = [len(column.categories) for column in columns]
    if len(values) > MOST_FIGURES:
        raise TooManyFigures
    return suppressed(np.array(values, np.int64), table_relations(shape), least)
