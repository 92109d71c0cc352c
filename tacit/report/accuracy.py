"""How far off a result will be, from public values only: noise, rounding, and what neither counts.

One statement for previews, reports, the pages and the command line; each prints its `sentences`
with the figures of the noise. Spec: aggregation, section 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Any, Final

from tacit.accounting.expected_error import (
    COARSE,
    LEVEL,
    AverageError,
    PartError,
    Rounding,
    absolute_quantiles,
    all_draws,
    averages,
    forecast,
    smallest_useful_group,
)
from tacit.accounting.loss.rounding import Draws
from tacit.query.functions import parts, reads_vectors
from tacit.query.query import Query
from tacit.query.terms import Function, Stance
from tacit.report.figures import amount, part_unit, short

USEFUL_SHARE: Final = Fraction(1, 100)
"""The relative error at which a group counts as useful in `smallest_useful_group`."""
USEFUL_BASIS: Final = "a typical curator contributes half of what the bounds allow"
DOTS: Final = 40
"""How many equally likely errors a report lists, to be drawn as dots."""
_SPREAD_DIGITS: Final = Context(prec=4, rounding=ROUND_CEILING)


def error_statement(query: Query, participants: int) -> dict[str, Any]:
    """The error of a result over this many curators; a string for every amount."""
    errors, found = forecast(query, participants), averages(query, participants)
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
        "sentences": list(_sentences(query, participants, errors, found)),
    }
    if found != ():
        answer["averages"] = [_average(query, each) for each in found or ()]
    return answer


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
        "typical": amount(Fraction(rounding.typical)),
        "bounds": None if bounds is None else [_signed(each) for each in bounds],
    }


def _spread(draws: tuple[Draws, ...], worth: Fraction) -> dict[str, Any]:
    """How far the noise moves one coordinate, in its unit: in 95 of 100 cases at most `half_width`;
    and the upper half of DOTS equally likely errors, each quantile by its level (the lower half
    mirrors it)."""
    middles = [Fraction(2 * k + 1, 2 * DOTS) for k in range(DOTS // 2, DOTS)]
    levels = (LEVEL, *(2 * middle - 1 for middle in middles))
    half_width, *dots = (
        amount(Fraction(found) * worth, _SPREAD_DIGITS)
        for found in absolute_quantiles(draws, tuple(float(level) for level in levels))
    )
    return {
        "interval": {"level": amount(LEVEL), "half_width": half_width},
        "quantiles": {amount(at): dot for at, dot in zip(middles, dots, strict=True)},
    }


def _sentences(
    query: Query,
    participants: int,
    errors: tuple[PartError, ...],
    found: tuple[AverageError, ...] | None,
) -> Iterator[str]:
    units = {part.name: part_unit(query, part) for part in parts(query)}
    if found is None:
        yield (
            f"With {participants:,} curators the noise of the count is as large as the count: no "
            f"error of the {query.function.value} can be stated."
        )
    elif found:
        full = "a reading" if query.max_readings == 1 else f"{query.max_readings:,} readings"
        yield (
            f"The error of the {query.function.value} holds if every curator has {full} in the "
            "window; with fewer readings it is larger in proportion."
        )
    for each in found or errors:
        if not each.rounding.worst:
            continue
        if isinstance(each, AverageError):
            name, unit = f"the {each.name}", _average_unit(query, each.name)
        else:
            name = f"each value of {each.part}" if each.dimension > 1 else f"the {each.part}"
            unit = units[each.part]
        yield (
            f"Rounding of readings moves {name} of {participants:,} curators by at most "
            f"{_quantity(each.rounding.worst, unit)} (typically "
            f"{_quantity(Fraction(each.rounding.typical), unit)}), in addition to the noise."
        )
        if each.rounding.exceeds(each.mean_absolute):
            yield (
                f"WARNING: that is more than {amount(COARSE * 100)} % of the noise "
                f"({_quantity(Fraction(each.mean_absolute), unit)} on average): choose a finer "
                "resolution."
            )
    if query.function is Function.HISTOGRAM:
        yield "Readings outside the edges count in the first or last bin. " + _UNCOUNTED
    elif query.function is Function.COUNT:
        yield _UNCOUNTED
    else:
        yield _clamped(query, errors) + _UNCOUNTED


_UNCOUNTED: Final = (
    "Not in these figures, as it depends on data: clamped readings, readings beyond max_readings, "
    "and curators that do not answer."
)


def _clamped(query: Query, errors: tuple[PartError, ...]) -> str:
    """The bounds that hold for readings: the declared ones, rounded outward to whole steps."""
    own = {each.rounding.bounds for each in errors if each.rounding.bounds is not None}
    low, high = min(each[0] for each in own), max(each[1] for each in own)
    unit = "" if query.unit == "1" else f" {query.unit}"
    text = f"Readings are clamped to {_signed(low)} to {_signed(high)}{unit}"
    if low < query.bounds[0] or high > query.bounds[1]:
        text += ": the declared bounds, rounded outward to the resolution"
    if reads_vectors(query):
        text += ", and each vector to its L1 bound"
    return f"{text}. "


def _signed(value: Fraction) -> str:
    return f"-{amount(-value)}" if value < 0 else amount(value)


def _quantity(value: Fraction, unit: str) -> str:
    number = short(value)
    return number if unit == "1" else f"{number} {unit}"
