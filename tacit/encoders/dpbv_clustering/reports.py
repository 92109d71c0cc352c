"""dpbv-clustering over curators: what a curator sends of each of its rows, and what it pays.

Spec: dpbv-clustering, sections 3.9 (b) and (c); jobs, "Federated jobs". By `method`:

- `grid-ldp`: a bit for every cell of a grid, pure epsilon for any two values of a row;
- `laplace-points`: coordinates with integer noise, the same;
- `dpbv`, `dpbv-exact`: flipped bits, in `dpbv_clustering_bit_reports`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from tacit.encoders.dpbv_clustering.bit_reports import BitReports, read_bits
from tacit.encoders.dpbv_clustering.cells import (
    MOST_CELLS,
    POINT_STEPS,
    Cells,
    noisy_points,
    point_scale,
    unary_reports,
)
from tacit.encoders.dpbv_clustering.encoder import (
    BLOCK_COINS,
    Box,
    Flip,
    Floats,
    Words,
    from_wire,
    pack,
)
from tacit.encoders.dpbv_clustering.rows import (
    RowReports,
    floats,
    malformed,
    packed_reports,
    positive,
    record_name,
    whole,
)
from tacit.encoders.reports import Cost, EncodingRefused
from tacit.protocol.federation import Report
from tacit.randomness import NoiseSource
from tacit.wire import format_exact

FARTHEST: Final = 60
"""Noise scales beyond the bounds: an honest coordinate passes that with probability e^-60."""
_MOST_POINTS: Final = 1 << 16


# ------------------------------------------------------------------------------ one bit for a cell


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


# ------------------------------------------------------------------------------------ noisy points


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
        found = []
        for name, values in rows.items():
            for start in range(0, len(values), _MOST_POINTS):
                part = values[start : start + _MOST_POINTS]
                steps = noisy_points(part, self.box, self.epsilon, source).tolist()
                found += [
                    Report(curator=name, record=record_name(number), values=tuple(row))
                    for number, row in enumerate(steps, start + 1)
                ]
        return found

    def refusal(self, report: Report) -> str | None:
        """Another number of coordinates, or one that no honest device sends."""
        if len(report.values) != self.columns:
            return f"a report has {self.columns} numbers"
        beyond = math.ceil(FARTHEST * point_scale(self.columns, self.epsilon))
        if not all(-beyond <= value <= POINT_STEPS + beyond for value in report.values):
            return f"a number lies more than {FARTHEST} noise scales beyond the bounds"
        return self.misplaced(report)


# ---------------------------------------------------------------------------------- from a document


def read(document: Mapping[str, Any]) -> CellReports | PointReports | BitReports:
    """The encoding of a document. Raises ValueError, TypeError or KeyError for anything else."""
    given = dict(document)
    method = given.pop("method")
    lower, upper = floats(given.pop("lower")), floats(given.pop("upper"))
    records = whole(given.pop("records"))
    found: CellReports | PointReports | BitReports
    match method:
        case "grid-ldp":
            box = Box(lower, upper)
            per_axis = whole(given.pop("per_axis"))
            found = CellReports(box, records, per_axis, positive(given.pop("epsilon")))
            if per_axis < 1 or per_axis ** len(lower) > MOST_CELLS:
                raise EncodingRefused(f"a grid has at most {MOST_CELLS} cells")
            _ = found.flip  # there is such a coin
        case "laplace-points":
            found = PointReports(Box(lower, upper), records, positive(given.pop("epsilon")))
            point_scale(found.columns, found.epsilon)
        case "dpbv" | "dpbv-exact":
            found = read_bits(given, lower, upper, records, exact=method == "dpbv-exact")
        case _:
            raise EncodingRefused("the method is not known here")
    if given:
        raise EncodingRefused("the document says more than is known here")
    return found
