"""The queries of k-means as sums over records, with the second histogram of start `two-level`.

Parts of the cells of a coarse grid that stand out: the second histogram of start `two-level`.

Spec: kmeans, section 5.7. The list of cells and how finely each is cut are public: a function of
the counts that the coarse histogram released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from tacit.encoders.kmeans import (
    Floats,
    Grid,
    Histogram,
    Ints,
    Lift,
    Marginals,
    NoiseBlock,
    Projection,
    Steps,
    Zone,
)
from tacit.encoders.sums import SumBlock
from tacit.noise import SCALE_LIMIT
from tacit.wire import format_exact, parse_exact

MOST_COARSE: Final = 4_096
MOST_PARTS: Final = 16
"""On each side of a coarse cell."""


@dataclass(frozen=True, eq=False)
class FineCells:
    """How many records each part of the kept cells of a coarse grid holds.

    kept (c,): places of coarse cells, rising; sides (c,): each is cut into sides^d parts.
    Raises ValueError for a list that does not fit the grid or is longer than max_cells.
    """

    per_side: int
    dimension: int
    steps: int
    kept: Ints
    sides: Ints
    epsilon: Fraction
    max_cells: int

    kind: Literal["fine"] = "fine"

    def __post_init__(self) -> None:
        cells = self.per_side**self.dimension if self.per_side <= MOST_COARSE else 0
        if not 1 <= cells <= MOST_COARSE:
            raise ValueError(f"a coarse grid has between 1 and {MOST_COARSE} cells")
        if not (self.kept.size and self.kept.shape == self.sides.shape):
            raise ValueError("every kept cell has a side")
        if (np.diff(self.kept) <= 0).any() or self.kept[0] < 0 or self.kept[-1] >= cells:
            raise ValueError("kept cells are different ones of the grid")
        if self.sides.min() < 1 or self.sides.max() > MOST_PARTS:
            raise ValueError(f"a cell is cut into 1 to {MOST_PARTS} on each side")
        if self.sides.max() > 1 and self.length > self.max_cells:
            raise ValueError("more parts than are allowed")

    @cached_property
    def starts(self) -> Ints:
        """(c + 1,) where the parts of each kept cell begin."""
        return np.concatenate(([0], np.cumsum(self.sides**self.dimension)))

    @property
    def length(self) -> int:
        """All parts."""
        return int(self.starts[-1])

    @cached_property
    def blocks(self) -> tuple[NoiseBlock, ...]:
        """A record is in one part, or in none."""
        return (NoiseBlock("cells", self.length, 1, self.epsilon),)

    def sums(self, records: Steps) -> Ints:
        """Counts (length,) of records (n, d) on the grid, cell by cell; a cell's last coordinate
        runs fastest."""
        places = self.places(records)
        return np.bincount(places[places >= 0], minlength=self.length)

    def places(self, records: Steps) -> Ints:
        """(n,) the part of each record; -1 where its cell is not kept."""
        slots = np.full(self.per_side**self.dimension, -1, np.int64)
        slots[self.kept] = np.arange(self.kept.size)
        raised = records.astype(np.int64) + self.steps
        coarse = np.minimum(raised * self.per_side // (2 * self.steps), self.per_side - 1)
        flat = np.zeros(len(records), np.int64)
        for column in coarse.T:
            flat *= self.per_side
            flat += column
        slot = slots[flat]
        inside = np.flatnonzero(slot >= 0)
        slot = slot[inside]
        side = self.sides[slot]
        places = np.zeros(inside.size, np.int64)
        for column in range(self.dimension):
            lines = self.per_side * side
            part = np.minimum(raised[inside, column] * lines // (2 * self.steps), lines - 1)
            places *= side
            places += part - coarse[inside, column] * side
        cell_of = np.full(len(records), -1, np.int64)
        cell_of[inside] = self.starts[slot] + places
        return cell_of

    def middles(self) -> tuple[Floats, Floats]:
        """Middles (length, d) and half sides (length,) of all parts, in half sides of the box."""
        owner = np.repeat(np.arange(self.kept.size), np.diff(self.starts))
        side = self.sides[owner]
        rest = np.arange(self.length) - self.starts[owner]
        coarse = np.stack(np.unravel_index(self.kept, (self.per_side,) * self.dimension), axis=1)
        coordinates = np.empty((self.length, self.dimension))
        for column in reversed(range(self.dimension)):
            rest, part = np.divmod(rest, side)
            lines = self.per_side * side
            coordinates[:, column] = (2 * (coarse[owner, column] * side + part) + 1) / lines - 1
        return coordinates, 1 / (self.per_side * side)


# The queries as sums over records, one vector a record (spec: kmeans, sections 5.2 and 6.1).
# Coordinates are grouped by kind, so that a record touches each
# block by at most its bound: all offsets, then all counts, then all distances. Each cluster has its
# own noise scale (R_i / e_s): its offsets are multiplied by a public `weight`, floor(M / R_i), so
# that one bound M serves them all; the opened sums are divided by it. Without noise that is exact;
# with noise a cluster gets at most R_i / M more of it, and a rounding of half a step.

Query: TypeAlias = Histogram | FineCells | Marginals | Lift | Zone

MOST_CELLS: Final = 1 << 20
FINEST: Final = 16
"""M is this multiple of the largest radius, unless the noise gets too large to be drawn."""


@dataclass(frozen=True, eq=False)
class KmeansSum:
    """A query over rows in raw units; `weights` (k,) of a zone's offsets, empty otherwise."""

    grid: Grid
    query: Query
    weights: tuple[int, ...] = ()

    @classmethod
    def of(cls, grid: Grid, query: Query, records: int) -> KmeansSum:
        """A sum with weights for which the noise can be drawn; it hides this many records
        together."""
        if not isinstance(query, Zone):
            return cls(grid, query)
        widest, finest = int(query.radii.max()), FINEST
        while finest > 1 and widest * finest * records / query.epsilon_sums > SCALE_LIMIT:
            finest //= 2
        return cls(grid, query, tuple((widest * finest // query.radii).tolist()))

    def __post_init__(self) -> None:
        clusters = len(self.query.centres) if isinstance(self.query, Zone) else 0
        if len(self.weights) != clusters or any(weight < 1 for weight in self.weights):
            raise ValueError("every cluster of a zone has a weight of at least 1")

    @property
    def columns(self) -> int:
        """d."""
        return self.grid.dimension

    @property
    def epsilon(self) -> Fraction:
        """Of the query."""
        return sum(self._parts, Fraction(0))

    @cached_property
    def blocks(self) -> tuple[SumBlock, ...]:
        """Kind by kind."""
        shares = [part / self.epsilon for part in self._parts]
        query = self.query
        match query:
            case Histogram() | FineCells():
                return (SumBlock("cells", query.length, 1, shares[0]),)
            case Marginals():
                return (SumBlock("bins", query.length, 2, shares[0]),)
            case Lift():
                k, d = len(query.centres), len(query.view.matrix)
                return (
                    SumBlock("offsets", k * d, query.radius, shares[0]),
                    SumBlock("counts", k, 1, shares[1]),
                )
            case Zone():
                k, d = query.centres.shape
                bound = int((query.radii * np.array(self.weights)).max())
                return (
                    SumBlock("offsets", k * d, bound, shares[0]),
                    SumBlock("counts", k, 1, shares[1]),
                    SumBlock("distances", k, query.levels, shares[2]),
                )

    @property
    def _parts(self) -> tuple[Fraction, ...]:
        """Epsilon of each block."""
        query = self.query
        match query:
            case Histogram() | FineCells() | Marginals():
                return (query.epsilon,)
            case Lift():
                return (query.epsilon_sums, query.epsilon_counts)
            case Zone():
                return (query.epsilon_sums, query.epsilon_counts, query.epsilon_distances)

    def vectors(self, rows: Floats) -> Ints:
        """(n, length): the query's own vector of each record, put together by kind."""
        records = self.grid.quantise(rows)
        if isinstance(self.query, FineCells):
            inside = self.query.places(records)[:, None] == np.arange(self.query.length)
            return np.asarray(inside, np.int64)
        sums_of_records = np.empty((len(records), self.query.length), np.int64)
        for place in range(len(records)):
            sums_of_records[place] = self.query.sums(records[place : place + 1])
        if isinstance(self.query, Histogram | Marginals):
            return sums_of_records
        clusters = len(self.query.centres)
        table = sums_of_records.reshape(len(sums_of_records), clusters, -1)
        offsets = table[:, :, : self.columns]
        if self.weights:
            offsets = offsets * np.array(self.weights)[:, None]
        rest = [table[:, :, place] for place in range(self.columns, table.shape[2])]
        return np.concatenate([offsets.reshape(len(sums_of_records), -1), *rest], axis=1)

    def restored(self, opened: Ints) -> Ints:
        """(length,) as the query's `sums` gives it."""
        if isinstance(self.query, Histogram | FineCells | Marginals):
            return opened
        clusters = len(self.query.centres)
        end = clusters * self.columns
        offsets = opened[:end].reshape(clusters, self.columns)
        if self.weights:
            weights = np.array(self.weights)[:, None]
            offsets = (2 * offsets + weights) // (2 * weights)
        rest = opened[end:].reshape(-1, clusters).T
        return np.concatenate([offsets, rest], axis=1).ravel()

    def document(self) -> dict[str, Any]:
        """Grid and query; numbers that are not whole are texts."""
        content: dict[str, Any] = {
            "lower": [repr(value) for value in self.grid.lower],
            "upper": [repr(value) for value in self.grid.upper],
            "steps": self.grid.steps,
            "kind": self.query.kind,
        }
        query = self.query
        match query:
            case Histogram():
                content |= {"per_side": query.per_side, "epsilon": format_exact(query.epsilon)}
                if query.view is not None:
                    content["view"] = _view_document(query.view)
            case FineCells():
                content |= {
                    "per_side": query.per_side,
                    "kept": query.kept.tolist(),
                    "sides": query.sides.tolist(),
                    "max_cells": query.max_cells,
                    "epsilon": format_exact(query.epsilon),
                }
            case Marginals():
                content |= {
                    "bins": query.bins,
                    "epsilon": format_exact(query.epsilon),
                    "view": _view_document(query.view),
                }
            case Lift():
                content |= {
                    "view": _view_document(query.view),
                    "centres": query.centres.tolist(),
                    "radius": query.radius,
                    "epsilons": [format_exact(part) for part in self._parts],
                }
            case Zone():
                content |= {
                    "centres": query.centres.tolist(),
                    "radii": query.radii.tolist(),
                    "levels": query.levels,
                    "weights": list(self.weights),
                    "epsilons": [format_exact(part) for part in self._parts],
                }
        return content


def read(document: Mapping[str, Any]) -> KmeansSum:
    """The sum of a document. Raises ValueError, TypeError or KeyError for anything else."""
    fields = dict(document)
    lower, upper = (tuple(map(float, _texts(fields.pop(name)))) for name in ("lower", "upper"))
    grid = Grid(lower, upper, _whole(fields.pop("steps")))
    query, weights = _query(fields.pop("kind"), fields, grid)
    if fields:
        raise ValueError("a document has no other fields")
    return KmeansSum(grid, query, weights)


def _query(kind: str, fields: dict[str, Any], grid: Grid) -> tuple[Query, tuple[int, ...]]:
    steps, dimension = grid.steps, grid.dimension
    view = _view(fields.pop("view"), grid) if "view" in fields else None
    if kind == "hist":
        per_side, epsilon = _whole(fields.pop("per_side")), parse_exact(fields.pop("epsilon"))
        if not (1 <= per_side <= MOST_CELLS and epsilon > 0):
            raise ValueError("a histogram has cells and an epsilon")
        columns = dimension if view is None else 2
        return Histogram(per_side, columns, steps, epsilon, view), ()
    if kind == "fine" and view is None:
        per_side, most = _whole(fields.pop("per_side")), _whole(fields.pop("max_cells"))
        kept, sides = (
            np.array([_whole(value) for value in fields.pop(name)], np.int64)
            for name in ("kept", "sides")
        )
        epsilon = parse_exact(fields.pop("epsilon"))
        if not (0 < most <= MOST_CELLS and epsilon > 0):
            raise ValueError("parts of cells have a cap and an epsilon")
        return FineCells(per_side, dimension, steps, kept, sides, epsilon, most), ()
    if kind == "marginal" and view is not None:
        epsilon, bins = parse_exact(fields.pop("epsilon")), _whole(fields.pop("bins"))
        if not (1 <= bins <= MOST_CELLS and epsilon > 0):
            raise ValueError("marginals have bins and an epsilon")
        return Marginals(view, epsilon, bins), ()
    epsilons = [parse_exact(part) for part in _texts(fields.pop("epsilons"))]
    if any(part <= 0 for part in epsilons):
        raise ValueError("every part of epsilon lies above 0")
    centres = _table(fields.pop("centres"), dimension if view is None else 2)
    if kind == "lift" and view is not None:
        sums, counts = epsilons
        return Lift(view, centres, _whole(fields.pop("radius")), sums, counts), ()
    if kind != "zone" or view is not None:
        raise ValueError("there is no such query")
    radii = np.array([_whole(radius) for radius in fields.pop("radii")], np.int64)
    levels = _whole(fields.pop("levels"))
    if levels < 1:
        raise ValueError("distances have at least one level")
    weights = tuple(_whole(weight) for weight in fields.pop("weights"))
    sums, counts, distances = epsilons
    return Zone(centres, radii, steps, sums, counts, distances, levels), weights


def _view_document(view: Projection) -> dict[str, Any]:
    box = None if view.box is None else [list(side) for side in view.box]
    return {"matrix": view.matrix.tolist(), "box": box}


def _view(fields: Mapping[str, Any], grid: Grid) -> Projection:
    matrix = _table(fields["matrix"], 2)
    if len(matrix) != grid.dimension:
        raise ValueError("a projection takes every column")
    box = fields["box"]
    if box is not None:
        (a, b), (c, d) = box
        box = ((_whole(a), _whole(b)), (_whole(c), _whole(d)))
    return Projection(matrix, grid.steps, box)


def _table(rows: Sequence[Sequence[int]], columns: int) -> Ints:
    table = np.array([[_whole(value) for value in row] for row in rows], np.int64)
    if table.ndim != 2 or table.shape[1] != columns or not len(table):
        raise ValueError("rows have one number for each column")
    return table


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("a whole number")
    return value


def _texts(values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError("texts")
    return values
