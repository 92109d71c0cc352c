"""The seven functions: what a curator sums over its readings, and what the opened total means.

Each is a linear sum of a per-curator integer vector f(x) (spec: aggregation, section 2). The vector
is made of *parts*, groups of coordinates with one ring unit, one sensitivity and one share of
epsilon each:

    sum: [sum]              mean: [centred sum, count]    variance: [centred sum, squares, count]
    count: [count]          histogram: [bins]             vector_sum: [vector] or its blocks
    table: [cells], of which each counts records, or adds up a measure of theirs

A query that asks for its completeness has one part more, the last: 1 for a curator with a reading.

Per reading, on whole nano-units: q = round_half_even((x - centre) / resolution), clamped to
[Q_lo, Q_hi], and only then squared or added; clamping before rounding could exceed the declared
sensitivity by one ring unit. Q_lo and Q_hi are the declared bounds in steps, rounded outward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.query.encoding import (
    MILLION,
    Bounds,
    Entries,
    Linear,
    Norm,
    WindowBound,
    amounts,
    clamp,
    per_reading,
    quantise,
    root_above,
    round_half_even,
    truncate_to_l1,
)
from tacit.query.fields import QueryFields
from tacit.query.percentiles import percentile_name, percentile_of
from tacit.query.tables import OUTSIDE, cells
from tacit.query.terms import MOST_RECORDS, PRESENCE, Coordinates, Function, Noise, part_count
from tacit.units import NANO, UNITS
from tacit.wire import format_exact

Ints = NDArray[np.int64]

_BLOCK: Final = 1 << 15
TOO_FEW: Final = "the noisy count is below 1"
"""Why a result has no mean, variance or percentile."""


@dataclass(frozen=True)
class Part:
    """A group of coordinates that share a ring unit, a sensitivity and a part of epsilon.

    `value`: what one ring unit is worth, in the query's unit (squared for squares, 1 for counts).
    `sensitivity`: in ring units, for the query's privacy unit: L1; with Gaussian noise L2, rounded
    up, and `squared_sensitivity` is its exact square.
    `largest`: the largest |f| of one curator in one coordinate, in ring units.
    `epsilon_share`: this part's share of epsilon, or of rho; the shares of a query add up to 1.
    `window`: the bound on the norm of one curator's f, where the query has one.
    """

    name: str
    linear: Linear
    dimension: int
    value: Fraction
    sensitivity: int
    largest: int
    epsilon_share: Fraction
    squared_sensitivity: int | None = None
    window: WindowBound | None = None


@dataclass(frozen=True)
class Rule:
    """How a reading in nano-units of the base unit becomes a ring integer: exact integers only."""

    centre: Fraction
    resolution: int
    bounds: Bounds


@dataclass(frozen=True)
class Readings:
    """The readings of `count` curators in one window, in the order (timestamp, random id).

    `curator`: (r,) index 0..count-1 of each reading's curator. `quantity`: (r,) nano-units of the
    base unit, or (r, d) where a reading is a vector. `offset`: (r,) position in the window, in
    [0, 1) scaled to 2^32, needed by slots only; of a table's records the cell of each, or OUTSIDE.
    """

    count: int
    curator: NDArray[np.int64]
    quantity: Ints
    offset: NDArray[np.int64]

    def rows(self, which: slice | NDArray[np.int64]) -> Readings:
        """Some of the readings, of the same curators."""
        return Readings(self.count, self.curator[which], self.quantity[which], self.offset[which])


@dataclass(frozen=True)
class Encoded:
    """f(x) of each curator, (count, d) ring units; and for its owner only: how many readings
    count, how many of these were clamped, and how much was kept of a contribution that exceeded
    its bound, in millionths."""

    values: Ints
    used: NDArray[np.int64]
    clamped: NDArray[np.int64]
    kept: NDArray[np.int64]


def whole(count: int) -> NDArray[np.int64]:
    """`Encoded.kept` of this many contributions of which nothing is cut."""
    return np.full(count, MILLION, np.int64)


def reading_rule(query: QueryFields) -> Rule:
    """Centre, resolution and integer bounds of one reading at the query's own resolution.

    The blocks of a vector sum have resolutions of their own.
    """
    centred = query.function in (Function.MEAN, Function.VARIANCE)
    return _rule(query, query.resolution, centred=centred)


def _rule(query: QueryFields, resolution: Fraction, *, centred: bool = False) -> Rule:
    nano = UNITS[query.unit].factor * NANO
    low, high = query.bounds
    centre = _centre(query) if centred else Fraction(0)
    # Outward: a reading within the declared bounds is never clamped.
    bounds = Bounds(
        math.floor((low - centre) / resolution), math.ceil((high - centre) / resolution)
    )
    if centred:  # a proof of squares needs them symmetric
        bounds = Bounds(-bounds.largest, bounds.largest)
    return Rule(centre * nano, int(resolution * nano), bounds)


def _centre(query: QueryFields) -> Fraction:
    """For a mean or variance: the middle of the bounds, or the multiple of the resolution below
    it, so that a reading that is such a multiple is not rounded."""
    return math.floor(sum(query.bounds) / (2 * query.resolution)) * query.resolution


@lru_cache(maxsize=512)
def parts(query: QueryFields) -> tuple[Part, ...]:
    """The parts of a query's vector, in the order of its coordinates."""
    count = part_count(query.function, query.blocks, query.completeness)
    shares = query.split or (Fraction(1, count),) * count
    all_parts = _function_parts(query, shares)
    if query.completeness is None:
        return all_parts
    squared = 1 if query.noise is Noise.GAUSSIAN else None
    presence = Part(
        PRESENCE, Linear.PRESENCE, 1, Fraction(1), 1, 1, shares[-1], squared_sensitivity=squared
    )
    return (*all_parts, presence)


def part_unit(query: QueryFields, part: Part) -> str:
    """The unit of a part of a result; that of a count is "1"."""
    match part.linear:
        case Linear.SQUARES:
            return f"{query.unit}^2"
        case Linear.COUNT | Linear.HISTOGRAM | Linear.PRESENCE:
            return "1"
        case _:
            return query.unit


def _function_parts(query: QueryFields, shares: Sequence[Fraction]) -> tuple[Part, ...]:
    rule = reading_rule(query)

    def part(
        name: str,
        linear: Linear,
        share: Fraction,
        value: Fraction,
        dimension: int = 1,
        block: VectorBlock | None = None,
    ) -> Part:
        entries = Entries(
            linear,
            rule.bounds if block is None else block.bounds,
            query.max_readings,
            dimension,
            0 if block is None else block.l1_bound,
            several=reads_vectors(query),
            # Of a table that counts all the records that there can be, none replaces another.
            swap=not (query.every_record or (query.columns and query.max_readings >= MOST_RECORDS)),
        )
        window = _window_bound(query, value, block) if linear in _BOUNDED else None
        sensitivity, squared = _sensitivity(query, entries, window)
        reading = per_reading(linear, entries.bounds, entries.l1_bound)
        largest = query.max_readings * reading
        return Part(
            name,
            linear,
            dimension,
            value,
            sensitivity,
            largest if window is None else min(largest, window.most),
            share,
            squared,
            window,
        )

    unit, one = query.resolution, Fraction(1)
    match query.function:
        case Function.SUM:
            return (part("sum", Linear.SUM, shares[0], unit),)
        case Function.COUNT:
            return (part("count", Linear.COUNT, shares[0], one),)
        case Function.MEAN:
            return (
                part("sum", Linear.SUM, shares[0], unit),
                part("count", Linear.COUNT, shares[1], one),
            )
        case Function.VARIANCE:
            return (
                part("sum", Linear.SUM, shares[0], unit),
                part("squares", Linear.SQUARES, shares[1], unit**2),
                part("count", Linear.COUNT, shares[2], one),
            )
        case Function.HISTOGRAM:
            assert query.edges is not None
            bins = len(query.edges) - 1
            return (part("histogram", Linear.HISTOGRAM, shares[0], one, bins),)
        case Function.TABLE:
            assert query.columns is not None
            size = cells(query.columns)
            if query.measure is None:
                return (part("table", Linear.HISTOGRAM, shares[0], one, size),)
            (block,) = vector_blocks(query)
            return (part("table", Linear.VECTOR, shares[0], unit, size, block),)
        case Function.VECTOR_SUM:
            names = [block.name for block in query.blocks] if query.blocks else ["vector"]
            return tuple(
                part(name, Linear.VECTOR, share, block.resolution, block.dimension, block)
                for name, share, block in zip(names, shares, vector_blocks(query), strict=False)
            )


_BOUNDED: Final = (Linear.SUM, Linear.VECTOR)


def _window_bound(
    query: QueryFields, value: Fraction, block: VectorBlock | None
) -> WindowBound | None:
    """W of a part of which a ring unit is worth `value`."""
    bound = query.window_bound if block is None or block.window is None else block.window
    if bound is None:
        return None
    norm = Norm.L2 if query.noise is Noise.GAUSSIAN else Norm.L1
    return WindowBound(norm, math.floor(bound / value))


def _sensitivity(
    query: QueryFields, entries: Entries, window: WindowBound | None
) -> tuple[int, int | None]:
    """In the norm of the query's noise, and in L2 its exact square."""
    unit = query.privacy_unit
    if query.noise is not Noise.GAUSSIAN:
        return (entries.l1(unit) if window is None else window.sensitivity(entries, unit)), None
    squared = entries.squared_l2(unit) if window is None else window.sensitivity(entries, unit)
    return root_above(squared), squared


def vector_bound(query: QueryFields, rule: Rule) -> int:
    """B of a vector sum without blocks: the declared L1 bound, or the clamp's where that is less.

    The clamp bounds a reading that fills one slot by A, and one that is a vector by d A.
    """
    slots = query.coordinates in (None, Coordinates.SLOTS)
    clamped = rule.bounds.largest * (1 if slots else query.dimension or 1)
    if query.l1_bound is None:
        return clamped
    return min(clamped, math.ceil(query.l1_bound / query.resolution))


@dataclass(frozen=True)
class VectorBlock:
    """One block of a vector sum: its `resolution` in the query's unit; in whole steps of that
    the `bounds` of one entry of a reading, and B, the L1 bound of its entries. `window`: the
    bound on a curator's whole contribution, in the query's unit."""

    dimension: int
    resolution: Fraction
    bounds: Bounds
    l1_bound: int
    window: Fraction | None = None


def vector_blocks(query: QueryFields) -> tuple[VectorBlock, ...]:
    """The blocks of a vector sum. A vector sum without blocks is one block, and so is a table of
    sums, in which a record fills one cell."""
    if query.columns is not None:
        limits = reading_rule(query).bounds
        return (VectorBlock(cells(query.columns), query.resolution, limits, limits.largest),)
    if not query.blocks:
        assert query.dimension is not None
        rule = reading_rule(query)
        bound = vector_bound(query, rule)
        window = query.window_bound
        return (VectorBlock(query.dimension, query.resolution, rule.bounds, bound, window),)
    result = []
    for block in query.blocks:
        bounds = _rule(query, block.resolution).bounds
        bound = min(bounds.largest * block.dimension, math.ceil(block.l1_bound / block.resolution))
        result.append(
            VectorBlock(block.dimension, block.resolution, bounds, bound, block.window_bound)
        )
    return tuple(result)


def dimension(query: QueryFields) -> int:
    """d, the number of coordinates of a query's vector."""
    return sum([part.dimension for part in parts(query)])


def reads_vectors(query: QueryFields) -> bool:
    """Whether one reading is a vector: true for a vector sum of "values", hence for every one with
    blocks."""
    return query.coordinates is Coordinates.VALUES


def reading_dimension(query: QueryFields) -> int:
    """How many numbers one reading has, where a reading is a vector."""
    return dimension(query) - (query.completeness is not None)


def encode(query: QueryFields, readings: Readings) -> Encoded:
    """f(x) of every curator at once, exactly.

    Readings beyond the first `max_readings` of a curator do not count; a curator without readings
    gets zeros. Raises ValueError for readings of no listed curator, of another dimension than the
    query's, or outside the window.
    """
    counting, used = counted(readings, query.max_readings)
    groups = tuple(part for part in parts(query) if part.linear is not Linear.PRESENCE)
    width = dimension(query)
    values = np.zeros((readings.count, width), np.int64)
    clamped = np.zeros(readings.count, np.int64)
    step = max(
        1, _BLOCK // (math.prod(counting.quantity.shape[1:]) or 1)
    )  # blocks that stay in the cache
    for start in range(0, counting.curator.size, step):
        _add_to(values, clamped, groups, query, counting.rows(slice(start, start + step)))
    if query.completeness is not None:
        values[:, -1] = used > 0
    return Encoded(values, used, clamped, _shorten(values, groups))


def _shorten(values: Ints, groups: tuple[Part, ...]) -> NDArray[np.int64]:
    """Shorten, in place, contributions (count, d) to the bounds of their parts; returns (count,)
    the least share that is kept of a part, in millionths."""
    counts_kept = whole(values.shape[0])
    start = 0
    for part in groups:
        columns = slice(start, start + part.dimension)
        if part.window is not None:
            values[:, columns], of_part = part.window.scale(values[:, columns])
            np.minimum(counts_kept, of_part, out=counts_kept)
        start += part.dimension
    return counts_kept


def _add_to(
    values: Ints,
    clamped: NDArray[np.int64],
    groups: tuple[Part, ...],
    query: QueryFields,
    some: Readings,
) -> None:
    flat, width, start = values.reshape(-1), values.shape[1], 0
    row = some.curator if width == 1 else some.curator * width
    moved = np.zeros(row.size, np.bool_)
    for part, added in zip(groups, _added(query, some), strict=True):
        if added.amount.ndim == 2:
            cells = row[:, None] + np.arange(start, start + part.dimension)
            np.add.at(flat, cells.reshape(-1), added.amount.reshape(-1))
        else:
            # One flat index: numpy adds at a pair of indices eight times more slowly.
            np.add.at(flat, row + (added.column + start), added.amount)
        moved |= added.clamped
        start += part.dimension
    np.add.at(clamped, some.curator[moved], 1)


def _per_curator(owner: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    return np.bincount(owner, minlength=count).astype(np.int64, copy=False)


@dataclass(frozen=True)
class _Added:
    """What each of r readings adds to one part: `amount` (r,) at `column`, or whole rows (r, d)."""

    amount: Ints
    clamped: NDArray[np.bool_]
    column: NDArray[np.int64] | int = 0


def counted(readings: Readings, most: int) -> tuple[Readings, NDArray[np.int64]]:
    """The readings that count, the first `most` of each curator, and how many of them each has."""
    owner = readings.curator
    if owner.size and not 0 <= owner.min() <= owner.max() < readings.count:
        raise ValueError("a reading belongs to no listed curator")
    if not owner.shape[0] == readings.quantity.shape[0] == readings.offset.shape[0]:
        raise ValueError("every reading has one curator, one quantity and one offset")
    counts = _per_curator(owner, readings.count)
    if counts.max(initial=0) <= most:
        return readings, counts
    in_order = bool((owner[1:] >= owner[:-1]).all())
    order = np.arange(owner.size) if in_order else np.argsort(owner, kind="stable")
    rank = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return readings.rows(order[rank < most]), np.minimum(counts, most)


def _added(query: QueryFields, counted: Readings) -> tuple[_Added, ...]:
    """What each reading adds to each part: the one place where a function is computed."""
    quantity, none = counted.quantity, np.zeros(counted.curator.shape, np.bool_)
    one = np.ones(counted.curator.shape, np.int64)
    match query.function:
        case Function.COUNT:
            return (_Added(one, none),)
        case Function.HISTOGRAM:
            _need_columns(quantity, None)
            column, outside = _bins(query, quantity)
            return (_Added(one, outside, column),)
        case Function.VECTOR_SUM if query.coordinates is Coordinates.VALUES:
            return _blocks(query, quantity)
        case Function.TABLE if query.measure is None:
            return (_in_cells(one, none, counted.offset),)
    _need_columns(quantity, None)
    rule = reading_rule(query)
    q, clamped = clamp(quantise(quantity, rule.resolution, rule.centre), rule.bounds)
    match query.function:
        case Function.SUM:
            return (_Added(q, clamped),)
        case Function.MEAN:
            return _Added(q, clamped), _Added(one, none)
        case Function.VARIANCE:
            return _Added(q, clamped), _Added(q * q, none), _Added(one, none)
        case Function.TABLE:
            return (_in_cells(q, clamped, counted.offset),)
    return (_slots(query, q, clamped, counted.offset),)


def _bins(query: QueryFields, quantity: Ints) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The bin of each reading, and which readings lay outside all bins (they go to an end bin)."""
    assert query.edges is not None
    nano = UNITS[query.unit].factor * NANO
    # x >= edge  <=>  x >= ceil(edge), for whole x: the comparison stays exact.
    edges = np.array([math.ceil(edge * nano) for edge in query.edges], np.int64)
    last = math.floor(query.edges[-1] * nano)
    column = np.searchsorted(edges[1:-1], quantity, side="right")
    return column.astype(np.int64, copy=False), (quantity < edges[0]) | (quantity > last)


def _in_cells(amount: Ints, clamped: NDArray[np.bool_], cell: NDArray[np.int64]) -> _Added:
    """Each record adds to its cell. A record without a cell adds nothing, which its owner can
    see."""
    outside = cell == OUTSIDE
    return _Added(np.where(outside, 0, amount), clamped | outside, np.where(outside, 0, cell))


def _slots(
    query: QueryFields, q: Ints, clamped: NDArray[np.bool_], offset: NDArray[np.int64]
) -> _Added:
    """Each reading goes to the coordinate of the slot of the window in which it falls."""
    assert query.dimension is not None
    if offset.size and not 0 <= offset.min() <= offset.max() < 2**32:
        raise ValueError("an offset lies outside the window")
    bound = vector_bound(query, reading_rule(query))
    scaled = np.clip(q, -bound, bound)
    return _Added(scaled, clamped | (scaled != q), (offset * query.dimension) >> 32)


def _blocks(query: QueryFields, quantity: Ints) -> tuple[_Added, ...]:
    """Readings that are vectors themselves, block by block (or one block without a name)."""
    _need_columns(quantity, reading_dimension(query))
    result, start = [], 0
    for block in vector_blocks(query):
        rule = _rule(query, block.resolution)
        columns = quantity[:, start : start + block.dimension]
        q, clamped = clamp(quantise(columns, rule.resolution, rule.centre), rule.bounds)
        q, scaled = truncate_to_l1(q, block.l1_bound)
        result.append(_Added(q, clamped.any(axis=1) | scaled))
        start += block.dimension
    return tuple(result)


def _need_columns(quantity: Ints, columns: int | None) -> None:
    if quantity.shape[1:] != (() if columns is None else (columns,)):
        raise ValueError("readings must have the query's dimension")


def local_sensitivities(query: QueryFields, readings: Readings) -> Ints:
    """The thesis's local sensitivity of each part, (count, parts) ring units.

    The largest L1 norm that one of the curator's own counted readings adds. It depends on
    private data; `paper` only.
    """
    is_counted, used = counted(readings, query.max_readings)
    added = _added(query, is_counted)
    result = np.zeros((readings.count, len(parts(query))), np.int64)
    if query.completeness is not None:
        result[:, -1] = used > 0
    for column, item in enumerate(added):
        norms = np.abs(item.amount)
        if norms.ndim == 2:
            norms = norms.sum(axis=1)
        np.maximum.at(result[:, column], is_counted.curator, norms)
    return result


def decode(query: QueryFields, total: Ints) -> dict[str, Any]:
    """The result of an opened (noisy) total, (d,) signed ring units; post-processing only.

    Amounts are exact decimal strings in the query's unit. A noisy count below 1 gives null with
    the reason, a negative variance 0. Percentiles of a histogram have names such as `p50`, a count
    of curators with readings the name `PRESENCE`.
    """
    if query.completeness is None:
        return _decoded(query, total)
    count = format_exact(Fraction(int(total[-1])))
    without = query.model_copy(update={"completeness": None, "split": None})
    return {**_decoded(without, total[:-1]), PRESENCE: count}


def _decoded(query: QueryFields, total: Ints) -> dict[str, Any]:
    if query.function in (Function.HISTOGRAM, Function.VECTOR_SUM, Function.TABLE):
        return {**_vectors(query, total), **_percentiles(query, total)}
    groups = {
        part.name: int(word) * part.value for part, word in zip(parts(query), total, strict=True)
    }
    centre = _centre(query)
    match query.function:
        case Function.SUM:
            return {"sum": format_exact(groups["sum"])}
        case Function.COUNT:
            return {"count": format_exact(groups["count"])}
        case Function.MEAN | Function.VARIANCE:
            count = groups["count"]
            if count < 1:
                empty = ("mean",) if query.function is Function.MEAN else ("mean", "variance")
                return {"count": format_exact(count), **dict.fromkeys(empty), "reason": TOO_FEW}
            mean = groups["sum"] / count
            answer: dict[str, Any] = {
                "count": format_exact(count),
                "mean": _rounded(centre + mean),
            }
            if query.function is Function.VARIANCE:
                answer["variance"] = _rounded(max(Fraction(0), groups["squares"] / count - mean**2))
            return answer
    raise AssertionError("every function has its result")


def _vectors(query: QueryFields, total: Ints) -> dict[str, Any]:
    """The parts of a vector, each as a list of exact texts."""
    answer, start = {}, 0
    for part in parts(query):
        words = total[start : start + part.dimension].tolist()
        answer[part.name] = amounts(words, part.value)
        start += part.dimension
    return answer


def _percentiles(query: QueryFields, total: Ints) -> dict[str, str | None]:
    """The percentiles that a query asks of its histogram, each by its name."""
    if query.percentiles is None or query.edges is None:
        return {}
    counts: list[int] = total.tolist()
    answer: dict[str, str | None] = {}
    for percentile in query.percentiles:
        value = percentile_of(percentile, counts, query.edges)
        answer[percentile_name(percentile)] = None if value is None else _rounded(value)
    if sum(counts) < 1:
        answer["reason"] = TOO_FEW
    return answer


def _rounded(value: Fraction, places: int = 12) -> str:
    return format_exact(Fraction(round_half_even(value * 10**places), 10**places))
