"""dpbv-clustering over curators: the report of each row, its flipped bits, and what a curator pays.

What the reports of dpbv-clustering share: one for each of a curator's first rows, numbered.

Spec: dpbv-clustering, section 2; jobs, "Federated jobs". How many rows a curator has is public.
Rows are clipped to the public box, silently: a refusal would disclose information.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final

from tacit.accounting.randomised_response import MOST_RESPONSES, delta_of_responses
from tacit.encoders.dpbv_clustering import (
    BLOCK_COINS,
    MOST_CELLS,
    POINT_STEPS,
    Box,
    Cells,
    Code,
    Design,
    Flip,
    Floats,
    MalformedBits,
    Words,
    encode,
    from_wire,
    make_codes,
    most_differing,
    noisy_points,
    pack,
    point_scale,
    to_wire,
    unary_reports,
    words_per_value,
)
from tacit.encoders.sums import Cost, EncodingRefused, LedgerUnit
from tacit.protocol.federation import MOST_REPORT_BYTES, Report
from tacit.query.terms import MOST_RECORDS
from tacit.randomness import NoiseSource
from tacit.wire import format_exact, parse_exact

_DIGITS: Final = 5


def record_name(number: int) -> str:
    """Of a curator's row, counted from 1; as text in the order of numbers."""
    return f"{number:0{_DIGITS}d}"


@dataclass(frozen=True)
class RowReports(ABC):
    """What the forms share: one report a row, of the first `records` of a curator."""

    box: Box
    records: int
    ledger_unit: ClassVar[LedgerUnit] = "record"
    labelled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 1 <= self.records <= MOST_RECORDS:
            raise EncodingRefused(f"at most {MOST_RECORDS} rows of a curator count")

    @property
    def columns(self) -> int:
        """d."""
        return self.box.dimension

    @property
    def most_rows(self) -> int:
        """As the document says."""
        return self.records

    @property
    @abstractmethod
    def cost(self) -> Cost | None:
        """Of one row."""

    @property
    def other_cost(self) -> Cost | None:
        """Of all rows that count: each report has independent noise, so their costs add up."""
        one = self.cost
        if one is None:
            return None
        return Cost(self.records * one.epsilon, min(self.records * one.delta, Fraction(1)))

    def misplaced(self, report: Report) -> str | None:
        """Why a report cannot be that of a row."""
        if report.label is not None or report.round != 1:
            return "a row has one report, without a label"
        names = range(1, self.records + 1)
        if not (report.record.isascii() and report.record.isdecimal()):
            return "a record is named by its number"
        number = int(report.record)
        if number not in names or record_name(number) != report.record:
            return f"a record's number has {_DIGITS} digits and is at most {self.records}"
        return None

    def bounds(self) -> dict[str, Any]:
        """The document's part."""
        return {
            "lower": [repr(value) for value in self.box.lower],
            "upper": [repr(value) for value in self.box.upper],
            "records": self.records,
        }


def packed_reports(
    rows: Mapping[str, Floats], packed: Callable[[Floats], Iterator[Words]]
) -> list[Report]:
    """Reports of curators' rows by name; `packed`: words (n, d, w) of rows, block by block."""
    reports_of_curators = []
    for name, values in rows.items():
        number = 0
        for block in packed(values):
            for record in block:
                number += 1
                bits = to_wire(record)
                reports_of_curators.append(
                    Report(curator=name, record=record_name(number), bits=bits)
                )
    return reports_of_curators


def malformed(report: Report, dimension: int, bits: int) -> str | None:
    """Why a report does not have this many bits in each of this many parts."""
    if report.bits is None:
        return "a report has bits"
    try:
        from_wire(report.bits, dimension, bits)
    except MalformedBits as error:
        return str(error)
    return None


def floats(values: Any) -> tuple[float, ...]:
    """Numbers that a document has as texts."""
    return tuple(float(value) for value in values)


def whole(value: Any) -> int:
    """A whole number of a document. Raises EncodingRefused."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise EncodingRefused("a count is whole")
    return value


def positive(value: Any) -> Fraction:
    """An epsilon of a document. Raises EncodingRefused."""
    number = parse_exact(value)
    if number <= 0:
        raise EncodingRefused("an epsilon is above 0")
    return number


# DPBV over curators: the flipped bits of every row, and the proof of what they are worth.
#
# Spec: dpbv-clustering, sections 2, 3.1, 3.2 and 4.3; jobs, "Federated jobs". `dpbv-exact` states
# (epsilon, delta) of a row; a curator proves it from the coins and the points, or refuses. `dpbv`,
# of the stance `paper`, states nothing.


@dataclass(frozen=True)
class BitReports(RowReports):
    """`dpbv` and `dpbv-exact`. half_windows: t of every attribute, after the box's map; `stated`:
    (epsilon, delta) of a row, None for `dpbv`; `tight`: only bits that can differ are counted."""

    half_windows: tuple[float, ...]
    bits: int
    design: Design
    seed: int
    flip: Flip
    tight: bool
    stated: Cost | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.half_windows) != self.columns:
            raise EncodingRefused("one half window for every attribute")
        if not all(half > 0 and math.isfinite(half) for half in self.half_windows):
            raise EncodingRefused("half windows are positive and finite")
        if not 0 <= self.seed < 1 << 64:
            raise EncodingRefused("a seed has 64 bits")
        if self.bits < 8 or self.bits * self.columns > MOST_RESPONSES:
            raise EncodingRefused(f"a row has at most {MOST_RESPONSES} bits")
        if 8 * self.columns * words_per_value(self.bits) > MOST_REPORT_BYTES:
            raise EncodingRefused(f"a report has at most {MOST_REPORT_BYTES} bytes")

    @cached_property
    def codes(self) -> tuple[Code, ...]:
        """Of every attribute."""
        return make_codes(self.box.ranges, self.half_windows, self.bits, self.design, self.seed)

    @cached_property
    def cost(self) -> Cost | None:
        """The stated cost, if the coins prove it. Raises EncodingRefused otherwise."""
        if self.stated is None:
            return None
        differing = self.bits * self.columns
        if self.tight:
            differing = sum(most_differing(code) for code in self.codes)
        if not _proven(differing, self.flip, self.stated):
            raise EncodingRefused("the coins protect less than is stated")
        return self.stated

    def document(self) -> dict[str, Any]:
        """As JSON."""
        target = self.box.target
        content = {
            "method": "dpbv" if self.stated is None else "dpbv-exact",
            **self.bounds(),
            "rescale_to": None if target is None else [repr(value) for value in target],
            "one_factor": self.box.one_factor,
            "half_windows": [repr(value) for value in self.half_windows],
            "s": self.bits,
            "r_design": self.design,
            "r_seed": str(self.seed),
            "flip_threshold": self.flip.threshold,
            "tight_k": self.tight,
        }
        if self.stated is not None:
            content["epsilon"] = format_exact(self.stated.epsilon)
            content["delta"] = format_exact(self.stated.delta)
        return content

    def perturbed(self, rows: Mapping[str, Floats], source: NoiseSource) -> list[Report]:
        """Packed bits, the attributes one after the other."""
        step = max(1, BLOCK_COINS // (self.bits * self.columns))

        def packed(values: Floats) -> Iterator[Words]:
            for start in range(0, len(values), step):
                mapped = self.box.apply(values[start : start + step])
                yield encode(mapped, self.codes, self.flip, source)

        return packed_reports(rows, packed)

    def refusal(self, report: Report) -> str | None:
        """Bits of another length, or with pad bits that are not zero."""
        return self.misplaced(report) or malformed(report, self.columns, self.bits)

    def words(self, report: Report) -> Words:
        """The bits of a report that was taken, (d, ceil(s/64))."""
        assert report.bits is not None
        return from_wire(report.bits, self.columns, self.bits)


def _proven(differing: int, flip: Flip, stated: Cost) -> bool:
    """Whether this many flipped bits are (epsilon, delta)-private for any two values."""
    if not flip.threshold or not differing:
        return not differing
    try:
        needed = Flip.of_epsilon(stated.epsilon / differing)
    except ValueError:  # a coin as fair as that does not exist
        return False
    if flip.threshold >= needed.threshold:
        return True
    flip_epsilon = Fraction(flip.epsilon)
    return delta_of_responses(differing, flip_epsilon, stated.epsilon) <= stated.delta


def read_bits(
    fields: dict[str, Any],
    lower: tuple[float, ...],
    upper: tuple[float, ...],
    records: int,
    *,
    exact: bool,
) -> BitReports:
    """The rest of a document, removed from `given`. Raises ValueError, TypeError or KeyError if
    it is missing."""
    target = fields.pop("rescale_to")
    one_factor, tight = fields.pop("one_factor"), fields.pop("tight_k")
    design = fields.pop("r_design")
    if design not in ("uniform", "grid") or not {one_factor, tight} <= {True, False}:
        raise EncodingRefused("the document is not one of dpbv-clustering's")
    ends = None
    if target is not None:
        low, high = floats(target)
        ends = (low, high)
    stated = None
    if exact:
        stated = Cost(positive(fields.pop("epsilon")), parse_exact(fields.pop("delta")))
        if not 0 <= stated.delta < 1:
            raise EncodingRefused("a delta lies in [0, 1)")
    return BitReports(
        Box(lower, upper, ends, one_factor),
        records,
        floats(fields.pop("half_windows")),
        whole(fields.pop("s")),
        design,
        int(fields.pop("r_seed")),
        Flip(whole(fields.pop("flip_threshold"))),
        tight,
        stated,
    )


# dpbv-clustering over curators: what a curator sends of each of its rows, and what it pays.
#
# Spec: dpbv-clustering, sections 3.9 (b) and (c); jobs, "Federated jobs". By `method`:
#
# - `grid-ldp`: a bit for every cell of a grid, pure epsilon for any two values of a row;
# - `laplace-points`: coordinates with integer noise, the same;
# - `dpbv`, `dpbv-exact`: flipped bits, in `dpbv_clustering_bit_reports`.

FARTHEST: Final = 60
"""Noise scales beyond the bounds: an honest coordinate passes that with probability e^-60."""
_MOST_POINTS: Final = 1 << 16


@dataclass(frozen=True)
class CellReports(RowReports):
    """`grid-ldp`: unary encoding of the cell of a row."""

    per_axis: int
    epsilon: Fraction

    @cached_property
    def cells(self) -> Cells:
        """The grid."""
        return Cells(self.box, self.per_axis)

    @cached_property
    def flip(self) -> Flip:
        """q of every other cell."""
        return Flip.of_epsilon(self.epsilon)

    @property
    def cost(self) -> Cost:
        """Two rows differ in two bits; see `unary_reports`."""
        return Cost(self.epsilon, Fraction(0))

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "method": "grid-ldp",
            **self.bounds(),
            "per_axis": self.per_axis,
            "epsilon": format_exact(self.epsilon),
        }

    def perturbed(self, rows: Mapping[str, Floats], source: NoiseSource) -> list[Report]:
        """Packed bits."""
        step = max(1, BLOCK_COINS // self.cells.count)

        def packed(values: Floats) -> Iterator[Words]:
            places = self.cells.places(values)
            for start in range(0, len(places), step):
                part = places[start : start + step]
                yield pack(unary_reports(part, self.cells.count, self.flip, source))

        return packed_reports(rows, packed)

    def refusal(self, report: Report) -> str | None:
        """Bits of another number of cells."""
        return self.misplaced(report) or malformed(report, 1, self.cells.count)

    def words(self, report: Report) -> Words:
        """The bits of a report that was taken, (1, ceil(cells/64))."""
        assert report.bits is not None
        return from_wire(report.bits, 1, self.cells.count)


@dataclass(frozen=True)
class PointReports(RowReports):
    """`laplace-points`: noisy steps of every coordinate."""

    epsilon: Fraction

    @property
    def cost(self) -> Cost:
        """The scale of `noisy_points` covers all coordinates together."""
        return Cost(self.epsilon, Fraction(0))

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "method": "laplace-points",
            **self.bounds(),
            "epsilon": format_exact(self.epsilon),
        }

    def perturbed(self, rows: Mapping[str, Floats], source: NoiseSource) -> list[Report]:
        """Whole numbers."""
        perturbed_records = []
        for name, values in rows.items():
            for start in range(0, len(values), _MOST_POINTS):
                part = values[start : start + _MOST_POINTS]
                steps = noisy_points(part, self.box, self.epsilon, source).tolist()
                perturbed_records += [
                    Report(curator=name, record=record_name(number), values=tuple(row))
                    for number, row in enumerate(steps, start + 1)
                ]
        return perturbed_records

    def refusal(self, report: Report) -> str | None:
        """Another number of coordinates, or one that no honest device sends."""
        if len(report.values) != self.columns:
            return f"a report has {self.columns} numbers"
        beyond = math.ceil(FARTHEST * point_scale(self.columns, self.epsilon))
        if not all(-beyond <= value <= POINT_STEPS + beyond for value in report.values):
            return f"a number lies more than {FARTHEST} noise scales beyond the bounds"
        return self.misplaced(report)


def read(document: Mapping[str, Any]) -> CellReports | PointReports | BitReports:
    """The encoding of a document. Raises ValueError, TypeError or KeyError for anything else."""
    fields = dict(document)
    method = fields.pop("method")
    lower, upper = floats(fields.pop("lower")), floats(fields.pop("upper"))
    records = whole(fields.pop("records"))
    reports: CellReports | PointReports | BitReports
    match method:
        case "grid-ldp":
            box = Box(lower, upper)
            per_axis = whole(fields.pop("per_axis"))
            reports = CellReports(box, records, per_axis, positive(fields.pop("epsilon")))
            if per_axis < 1 or per_axis ** len(lower) > MOST_CELLS:
                raise EncodingRefused(f"a grid has at most {MOST_CELLS} cells")
            _ = reports.flip  # there is such a coin
        case "laplace-points":
            reports = PointReports(Box(lower, upper), records, positive(fields.pop("epsilon")))
            point_scale(reports.columns, reports.epsilon)
        case "dpbv" | "dpbv-exact":
            reports = read_bits(fields, lower, upper, records, exact=method == "dpbv-exact")
        case _:
            raise EncodingRefused("the method is not known here")
    if fields:
        raise EncodingRefused("the document has unknown fields")
    return reports
