"""How far off a result will be, from public values only: noise, rounding, and what neither counts.

One statement for previews, reports, the pages and the command line; each prints its `sentences`
with the figures of the noise. Spec: aggregation, section 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.expected_error import (
    COARSE,
    LEVEL,
    AverageError,
    Layers,
    PartError,
    Rounding,
    absolute_quantiles,
    added_up,
    all_draws,
    averages,
    forecast,
    released_averages,
    smallest_useful_group,
)
from tacit.query.encoding import Norm
from tacit.query.functions import part_unit, parts, reads_vectors
from tacit.query.percentiles import (
    CountNoise,
    percentile_interval,
    percentile_name,
    rank_half_width,
)
from tacit.query.query import Query
from tacit.query.tables import TableColumn, figure_count, margin_sizes
from tacit.query.terms import Function, Stance
from tacit.report.figures import amount, short

USEFUL_SHARE: Final = Fraction(1, 100)
"""The relative error at which a group counts as useful in `smallest_useful_group`."""
USEFUL_BASIS: Final = "a typical curator contributes half of what the bounds allow"
DOTS: Final = 40
"""How many equally likely errors a report lists, to be drawn as dots."""
_SPREAD_DIGITS: Final = Context(prec=4, rounding=ROUND_CEILING)


def error_statement(query: Query, participants: int) -> dict[str, Any]:
    """The error of a result over this many curators; a string for every amount."""
    errors, averages_found = forecast(query, participants), averages(query, participants)
    units = [part_unit(query, part) for part in parts(query)]
    paper = query.stance is Stance.PAPER
    answer: dict[str, Any] = {
        "participants": participants,
        "parts": [
            {
                "part": error.part,
                "dimension": error.dimension,
                "unit": unit,
                "mean_absolute": amount(Fraction(error.mean_absolute)),
                "standard_deviation": amount(Fraction(error.standard_deviation)),
                **_spread(all_draws(query, participants, index), part.value),
                "rounding": _rounding(error.rounding),
            }
            for index, (part, error, unit) in enumerate(
                zip(parts(query), errors, units, strict=True)
            )
        ],
        "basis": "upper limit: declared bounds in place of each curator's own data"
        if paper
        else "the noise of all parties",
        "smallest_useful_group": {
            "relative_error": amount(USEFUL_SHARE),
            "curators": smallest_useful_group(query, USEFUL_SHARE),
            "basis": USEFUL_BASIS,
        },
        "sentences": list(_sentences(query, participants, errors, averages_found)),
    }
    if averages_found != ():
        answer["averages"] = [_average(query, average) for average in averages_found or ()]
    if query.columns is not None:
        answer["margins"] = list(_margins(query, query.columns, participants))
        answer["sentences"].append(_margin_sentence(query, query.columns, answer["margins"]))
    if query.percentiles is not None:
        counts = answer["parts"][0]
        answer["percentiles"] = [
            {"part": percentile_name(item), "unit": query.unit, "rank": amount(rank)}
            for item, rank in _ranks(query, participants, counts)
        ]
        answer["sentences"] += _rank_sentences(query, participants, answer["percentiles"])
    return answer


def _margins(
    query: Query, columns: Sequence[TableColumn], participants: int
) -> Iterator[dict[str, Any]]:
    """How far noise moves sums of this many cells: in 95 of 100 cases that sum by itself, and in
    95 of 100 cases every cell and margin at the same time, by the union bound."""
    draws, worth = all_draws(query, participants, 0), parts(query)[0].value
    together = 1 - float(1 - LEVEL) / figure_count(columns)
    for count in margin_sizes(columns):
        alone, joint = absolute_quantiles(added_up(draws, count), (float(LEVEL), together))
        yield {
            "cells": count,
            "half_width": amount(Fraction(alone) * worth, _SPREAD_DIGITS),
            "joint_half_width": amount(Fraction(joint) * worth, _SPREAD_DIGITS),
        }


def _margin_sentence(
    query: Query, columns: Sequence[TableColumn], margins: Sequence[Mapping[str, Any]]
) -> str:
    unit = part_unit(query, parts(query)[0])
    cell, total = (
        _quantity(Fraction(margin["joint_half_width"]), unit)
        for margin in (margins[0], margins[-1])
    )
    if not Fraction(margins[0]["half_width"]):
        return "Margins are sums of the cells."
    return (
        "Margins are sums of the released cells. An interval of 95 of 100 cases is of one figure "
        f"by itself. That all {figure_count(columns):,} cells and margins are within theirs at "
        f"once in 95 of 100 cases needs wider ones: ± {cell} for a cell, ± {total} for the total."
    )


def _ranks(
    query: Query, participants: int, counts: Mapping[str, Any]
) -> Iterator[tuple[Fraction, Fraction]]:
    """Each percentile, and how far its rank errs as a share of the readings."""
    noise, readings = _noise(counts), participants * query.max_readings
    for percentile in query.percentiles or ():
        share = rank_half_width(percentile, counts["dimension"], readings, noise)
        yield percentile, Fraction(min(share, 1.0))


def _noise(part: Mapping[str, Any]) -> CountNoise:
    return CountNoise(float(part["interval"]["half_width"]), float(part["standard_deviation"]))


def _rank_sentences(
    query: Query, participants: int, percentiles: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Each percentile's error in rank, and in value if readings are spread evenly."""
    assert query.edges is not None
    readings = f"{participants * query.max_readings:,} readings"
    span = query.edges[-1] - query.edges[0]
    lines = []
    for item in percentiles:
        rank = Fraction(item["rank"])
        lines.append(
            f"The rank of {item['part']} is within {short(100 * rank)} percentage points in 95 of "
            f"100 cases, with {readings}; were they spread evenly over the edges, the value is "
            f"within {_quantity(rank * span, query.unit)}."
        )
    return [*lines, "The interval of a released percentile ends at edges of the histogram."]


def with_intervals(error: Mapping[str, Any], query: Query, counts: Sequence[int]) -> dict[str, Any]:
    """The error statement of a released histogram: each percentile with the edges `low` and
    `high` that contain it in 95 of 100 cases, null if there is no figure."""
    if query.percentiles is None or query.edges is None:
        return dict(error)
    noise = _noise(error["parts"][0])
    rows = []
    for percentile, row in zip(query.percentiles, error["percentiles"], strict=True):
        interval = percentile_interval(percentile, counts, query.edges, noise)
        low, high = (None, None) if interval is None else map(_signed, interval)
        rows.append({**row, "low": low, "high": high})
    return {**error, "percentiles": rows}


def with_averages(
    error: Mapping[str, Any], query: Query, total: NDArray[np.int64]
) -> dict[str, Any]:
    """The error statement of an opened mean or variance: figures from the released mean and
    count replace those for readings at a bound."""
    released = released_averages(query, error["participants"], total)
    rows = [
        {
            **row,
            "mean_absolute": amount(Fraction(noise.mean_absolute)),
            "standard_deviation": amount(Fraction(noise.standard_deviation)),
            "interval": {
                "level": amount(LEVEL),
                "half_width": amount(Fraction(noise.half_width), _SPREAD_DIGITS),
            },
        }
        if (noise := released.get(row["part"])) is not None
        else row
        for row in error.get("averages", ())
    ]
    if not released:
        return dict(error)
    sentence = (
        f"The error of the {query.function.value} is that of the noise, for the released count and "
        "mean."
    )
    return {**error, "averages": rows, "sentences": [sentence, *error["sentences"][1:]]}


def _average(query: Query, error: AverageError) -> dict[str, Any]:
    return {
        "part": error.name,
        "unit": _average_unit(query, error.name),
        "mean_absolute": amount(Fraction(error.mean_absolute)),
        "standard_deviation": amount(Fraction(error.standard_deviation)),
        "interval": {
            "level": amount(LEVEL),
            "half_width": amount(Fraction(error.half_width), _SPREAD_DIGITS),
        },
        "rounding": _rounding(error.rounding),
    }


def _average_unit(query: Query, name: str) -> str:
    return query.unit if name == "mean" or query.unit == "1" else f"{query.unit}^2"


def _rounding(rounding: Rounding) -> dict[str, Any]:
    bounds = rounding.bounds
    return {
        "worst": amount(rounding.worst),
        "average": amount(rounding.average),
        "typical": amount(Fraction(rounding.typical)),
        "bounds": None if bounds is None else [_signed(each) for each in bounds],
    }


def _spread(draws: Layers, worth: Fraction) -> dict[str, Any]:
    """How far the noise moves one coordinate, in its unit: at most `half_width` in 95 of 100
    cases; and the upper half of DOTS equally likely errors, each quantile by its level (the
    lower half mirrors it)."""
    middles = [Fraction(2 * k + 1, 2 * DOTS) for k in range(DOTS // 2, DOTS)]
    levels = (LEVEL, *(2 * middle - 1 for middle in middles))
    half_width, *dots = (
        amount(Fraction(quantile) * worth, _SPREAD_DIGITS)
        for quantile in absolute_quantiles(draws, tuple(float(level) for level in levels))
    )
    return {
        "interval": {"level": amount(LEVEL), "half_width": half_width},
        "quantiles": {amount(at): dot for at, dot in zip(middles, dots, strict=True)},
    }


def _sentences(
    query: Query,
    participants: int,
    errors: tuple[PartError, ...],
    averages: tuple[AverageError, ...] | None,
) -> Iterator[str]:
    units = {part.name: part_unit(query, part) for part in parts(query)}
    if averages is None:
        yield (
            f"With {participants:,} curators the noise of the count is as large as the count: no "
            f"error of the {query.function.value} can be stated."
        )
    elif averages:
        full = "a reading" if query.max_readings == 1 else f"{query.max_readings:,} readings"
        yield (
            f"The error of the {query.function.value} is at most this if every curator has {full} "
            "in the window; with fewer readings it is larger in proportion."
        )
    for error in averages or errors:
        if not error.rounding.worst:
            continue
        if isinstance(error, AverageError):
            name, unit = f"the {error.name}", _average_unit(query, error.name)
        else:
            name = f"each value of {error.part}" if error.dimension > 1 else f"the {error.part}"
            unit = units[error.part]
        rounding = error.rounding
        most = f"{_quantity(rounding.worst, unit)} "
        if rounding.slots > 1:
            average = _quantity(rounding.average, unit)
            most += f"if all readings fall into it, {average} on average over the {rounding.slots} "
        beside = ", in addition to the noise" if error.mean_absolute else ""
        yield (
            f"Rounding of readings moves {name} of {participants:,} curators by at most {most}"
            f"(typically {_quantity(Fraction(rounding.typical), unit)}){beside}."
        )
        if error.mean_absolute and error.rounding.exceeds(error.mean_absolute):
            yield (
                f"WARNING: that is more than {amount(COARSE * 100)} % of the noise "
                f"({_quantity(Fraction(error.mean_absolute), unit)} on average): choose a finer "
                "resolution."
            )
    if query.function is Function.HISTOGRAM:
        yield "Readings outside the edges count in the first or last bin. " + _UNCOUNTED
    elif query.function is Function.COUNT:
        yield _UNCOUNTED
    elif query.function is Function.TABLE and query.measure is None:
        yield _OF_NO_CELL + _UNCOUNTED
    elif query.function is Function.TABLE:
        yield _clamped(query, errors) + _OF_NO_CELL + _UNCOUNTED
    else:
        yield _clamped(query, errors) + _UNCOUNTED


_OF_NO_CELL: Final = "Records of no cell count nowhere: only their owner knows how many there are. "
_UNCOUNTED: Final = (
    "Not in these figures, as it depends on data: clamped readings and windows, readings beyond "
    "max_readings, and curators that do not answer."
)


def _clamped(query: Query, errors: tuple[PartError, ...]) -> str:
    """The effective bounds of readings: the declared ones, rounded outward to whole steps."""
    all_bounds = {each.rounding.bounds for each in errors if each.rounding.bounds is not None}
    low, high = min(bounds[0] for bounds in all_bounds), max(bounds[1] for bounds in all_bounds)
    unit = "" if query.unit == "1" else f" {query.unit}"
    text = f"Readings are clamped to {_signed(low)} to {_signed(high)}{unit}"
    if low < query.bounds[0] or high > query.bounds[1]:
        text += ": the declared bounds, rounded outward to the resolution"
    if reads_vectors(query):
        text += ", and each vector to its L1 bound"
    if windows := [part.window for part in parts(query) if part.window is not None]:
        norm = "L2" if windows[0].norm is Norm.L2 else "L1"
        most = [part.window.most * part.value for part in parts(query) if part.window is not None]
        norms_in_words = " and ".join(f"{amount(norm_bound)}{unit}" for norm_bound in most)
        text += f", and what a curator adds in a whole window to an {norm} norm of {norms_in_words}"
    return f"{text}. "


def _signed(value: Fraction) -> str:
    return f"-{amount(-value)}" if value < 0 else amount(value)


def _quantity(value: Fraction, unit: str) -> str:
    number = short(value)
    return number if unit == "1" else f"{number} {unit}"
