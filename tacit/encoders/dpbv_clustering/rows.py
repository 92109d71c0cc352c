"""What the reports of dpbv-clustering share: one for each of a curator's first rows, numbered.

Spec: dpbv-clustering, section 2; jobs, "Federated jobs". How many rows a curator has is public.
Rows are clipped to the public box, silently: a refusal would disclose information.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

from tacit.encoders.dpbv_clustering.encoder import (
    Box,
    Floats,
    MalformedBits,
    Words,
    from_wire,
    to_wire,
)
from tacit.encoders.reports import Cost, EncodingRefused, LedgerUnit
from tacit.encoders.sums import MOST_RECORDS
from tacit.protocol.federation import Report
from tacit.wire import parse_exact

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
        """Why a report is none of a row's."""
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
    found = []
    for name, values in rows.items():
        number = 0
        for block in packed(values):
            for record in block:
                number += 1
                bits = to_wire(record)
                found.append(Report(curator=name, record=record_name(number), bits=bits))
    return found


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
    found = parse_exact(value)
    if found <= 0:
        raise EncodingRefused("an epsilon is above 0")
    return found
