"""Contingency tables: categories of records that everyone knows, and their cells in order.

A table has one to four columns, each with a public domain: codes (texts), or bins between edges
(numbers). A record falls into one cell, the category of each of its columns, or into none: a code
that is not in the domain, or a number outside the edges, counts nowhere. Cells are in row-major
order: those of the last column follow each other. A margin adds the released cells over some of the
columns, so margins agree with cells and cost nothing. Spec: aggregation, section 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Annotated, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from tacit.wire import Exact, WireModel, format_exact, require

Ints = NDArray[np.int64]

MOST_COLUMNS: Final = 4
"""Columns of a table, at most."""
OUTSIDE: Final = -1
"""The cell of a record that is in none."""

_MOST_ITEMS: Final = Field(max_length=65_536)

Label = Annotated[str, Field(min_length=1, max_length=128)]


class TableColumn(WireModel):
    """A column of a table and its public domain: `codes`, texts, or `edges`, ascending numbers.
    Bins are half-open [edge, next edge); if the last edge is null, the last bin has no end."""

    name: Label
    codes: Annotated[tuple[Label, ...], _MOST_ITEMS] | None = None
    edges: Annotated[tuple[Exact | None, ...], _MOST_ITEMS] | None = Field(
        None, validate_default=True
    )

    @field_validator("codes")
    @classmethod
    def _different_codes(cls, codes: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if codes is None:
            return None
        require(len(codes) > 0, codes, "needs at least one code")
        return require(len(set(codes)) == len(codes), codes, "codes must differ")

    @field_validator("edges")
    @classmethod
    def _rising_edges(
        cls, edges: tuple[Fraction | None, ...] | None, info: ValidationInfo
    ) -> tuple[Fraction | None, ...] | None:
        if "codes" in info.data:
            one = (edges is None) != (info.data["codes"] is None)
            require(one, edges, "give codes (texts) or edges (numbers, at last null): one of both")
        if edges is None:
            return None
        require(len(edges) > 1, edges, "needs at least two edges")
        finite = edges[:-1] if edges[-1] is None else edges
        numbers = [edge for edge in finite if edge is not None]
        require(len(numbers) == len(finite), edges, "only the last edge may be null")
        fits = all(abs(edge) <= 10**100 for edge in numbers)
        require(fits, edges, "no number of a record is beyond 10^100")
        # Records have floating-point numbers: two edges of one float have nothing between them.
        rising = all(a < b and float(a) < float(b) for a, b in pairwise(numbers))
        return require(rising, edges, "must rise strictly")

    @property
    def categories(self) -> tuple[str, ...]:
        """Their labels, in order: the codes, or bins such as `[0, 18)` and `[65, inf)`."""
        if self.codes is not None:
            return self.codes
        assert self.edges is not None
        texts = ["inf" if edge is None else format_exact(edge) for edge in self.edges]
        return tuple(f"[{low}, {high})" for low, high in pairwise(texts))

    def places(self, values: NDArray[np.float64], codes: Sequence[str] | None) -> Ints:
        """The category of each value (n,), OUTSIDE for none.

        `codes`: for a column of texts, to which the values are indices; None for numbers. A
        column of the other kind is outside.
        """
        if (codes is None) != (self.codes is None):
            return np.full(values.shape, OUTSIDE, np.int64)
        if self.codes is not None:
            place_of = {code: place for place, code in enumerate(self.codes)}
            places_in_order = [place_of.get(code, OUTSIDE) for code in codes or ()]
            return np.array([*places_in_order, OUTSIDE], np.int64)[values.astype(np.int64)]
        assert self.edges is not None
        ends = [math.inf if edge is None else float(edge) for edge in self.edges]
        places_found = np.searchsorted(np.array(ends), values, side="right").astype(np.int64) - 1
        places_found[places_found == len(ends) - 1] = OUTSIDE
        return places_found


Columns = Annotated[tuple[TableColumn, ...], Field(max_length=MOST_COLUMNS)]


def named_columns(value: Any) -> Any:
    """The short form of columns, `{"sex": ["f", "m"], "age": [0, 18, 65, null]}`, as the fields
    of `TableColumn`; anything else is returned unchanged, for the model to check."""
    if isinstance(value, Mapping):
        return tuple(_named(name, domain) for name, domain in value.items())
    return _tuples(value)


def _named(name: str, domain: Any) -> dict[str, Any]:
    if not isinstance(domain, list):
        return {"name": name, "codes": domain}
    if domain and all(isinstance(value, str) for value in domain):
        return {"name": name, "codes": tuple(domain)}
    is_number = (isinstance(value, int) and not isinstance(value, bool) for value in domain)
    edges = (
        str(value) if is_whole else value for value, is_whole in zip(domain, is_number, strict=True)
    )
    return {"name": name, "edges": tuple(edges)}


def _tuples(value: Any) -> Any:
    """Lists as tuples: the model is strict, and what a validator returns is no longer JSON."""
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    if isinstance(value, Mapping):
        return {name: _tuples(entry) for name, entry in value.items()}
    return value


def cells(columns: Sequence[TableColumn]) -> int:
    """How many cells the columns make."""
    return math.prod(len(column.categories) for column in columns)


def cells_of(columns: Sequence[TableColumn], places: Sequence[Ints]) -> Ints:
    """The cell of each record (n,), OUTSIDE if it has no category in some column; `places`: one
    array (n,) for each column, as `TableColumn.places` returns them."""
    cells = np.zeros(places[0].shape, np.int64)
    outside = np.zeros(places[0].shape, np.bool_)
    for column, place in zip(columns, places, strict=True):
        cells = cells * len(column.categories) + place
        outside |= place == OUTSIDE
    cells[outside] = OUTSIDE
    return cells


class TableFigure(NamedTuple):
    """A cell or a margin: the category of each column, None if it adds over all of them; the sum
    of the released cells; how many cells it adds."""

    labels: tuple[str | None, ...]
    value: Fraction
    cells: int


def table_figures(
    columns: Sequence[TableColumn], values: Sequence[Fraction]
) -> Iterator[TableFigure]:
    """All cells and margins of released cells (row-major); a margin comes after the figures that
    it adds."""
    shape = tuple(len(column.categories) for column in columns)
    exact = np.array(values, dtype=object).reshape(shape)
    for axis in range(len(shape)):  # each axis gets its total as one place more
        exact = np.concatenate([exact, exact.sum(axis=axis, keepdims=True)], axis=axis)
    for place in product(*(range(size + 1) for size in shape)):
        labels = tuple(
            column.categories[at] if at < size else None
            for column, at, size in zip(columns, place, shape, strict=True)
        )
        added = math.prod(size for at, size in zip(place, shape, strict=True) if at == size)
        yield TableFigure(labels, Fraction(exact[place]), added)


def margin_sizes(columns: Sequence[TableColumn]) -> tuple[int, ...]:
    """The distinct numbers of cells that figures add, ascending; the first is 1, a cell."""
    choices = ((1, len(column.categories)) for column in columns)
    return tuple(sorted({math.prod(sizes) for sizes in product(*choices)}))


def figure_count(columns: Sequence[TableColumn]) -> int:
    """How many cells and margins there are."""
    return math.prod(len(column.categories) + 1 for column in columns)
