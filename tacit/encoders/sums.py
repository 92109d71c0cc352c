"""What a federated job asks its curators for: sums over records, as vectors of whole numbers, and
noisy reports on a curator's own rows.

Spec: jobs, "Federated jobs"; kmeans, section 6.1; dpbv-clustering, section 3.9 (a). All is public.
Each record adds one vector, made of blocks with an L1 bound and a share of epsilon each; the bound
is enforced where the vector is made (`tacit.query.functions.encode` truncates to it again), so
privacy does not depend on the caller. What curator and coordinator must agree on, the fields of the
query that carries a sum, is derived here from the sum alone: a curator refuses a query that
declares less.

Of a curator with more records than `max_readings` some are omitted. Another one may then replace a
removed one; the query's sensitivity for the unit `record` counts that (spec: aggregation,
section 3), and so it holds for a record replaced by another one too. A query with `every_record`
counts all `MOST_RECORDS` that a table can hold, so that no other record replaces a removed one, and
only one vector changes. It is for rows of tables: a statistic of a register changes if one reading
is removed.

Of a noisy report all is public but the rows and the noise. One module for each algorithm reads the
descriptor's document, and works out from the mechanism in it what a report costs; a figure that the
document states counts only where the mechanism proves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tacit.protocol.federation import Report
from tacit.query.functions import Encoded, Readings, encode, whole
from tacit.query.query import Query
from tacit.query.terms import MOST_RECORDS
from tacit.randomness import NoiseSource
from tacit.units import NANO
from tacit.wire import format_exact

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SWAP: Final = 2
"""How many records' vectors the noise hides for the unit `record`: one leaves, another comes."""
MODULES: Final = {
    "kmeans": "kmeans_sums",
    "dpbv-clustering": "dpbv_clustering",
    "graph-der": "graph_der_blocks",
    "sequential-ngram": "sequential_ngram_counts",
    "sequential-prefix-tree": "sequential_prefix_tree_counts",
    "set-valued": "set_valued_counts",
}
_NUMBERS: Final = 1 << 21
"""Numbers of the vectors that are held at a time."""


class SumRefused(ValueError):
    """The document of a sum is invalid, or does not fit its query."""


@dataclass(frozen=True)
class SumBlock:
    """Coordinates of a sum: the L1 norm that one record adds is at most `bound`; `share` of the
    sum's epsilon."""

    name: str
    dimension: int
    bound: int
    share: Fraction


class RecordSum(Protocol):
    """What is summed."""

    @property
    def columns(self) -> int:
        """How many numbers a record has."""
        ...

    @property
    def epsilon(self) -> Fraction:
        """What it spends."""
        ...

    @property
    def blocks(self) -> tuple[SumBlock, ...]:
        """In the order of the coordinates."""
        ...

    def document(self) -> dict[str, Any]:
        """All of it as JSON without floating-point numbers; `read` gives the sum back."""
        ...

    def restored(self, opened: Ints) -> Ints:
        """An opened sum (length,) in the order and the units of the algorithm's own steps."""
        ...


@runtime_checkable
class RowSum(RecordSum, Protocol):
    """A sum over records that are rows of numbers."""

    def vectors(self, rows: Floats) -> Ints:
        """What each record (n, columns) adds, (n, length)."""
        ...


def read(algorithm: str, document: Mapping[str, Any]) -> RecordSum:
    """The sum of a document. Raises SumRefused."""
    if algorithm not in MODULES:
        raise SumRefused("the algorithm asks for no sums")
    module = import_module(f"tacit.encoders.{MODULES[algorithm]}")
    try:
        record_sum: RecordSum = module.read(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise SumRefused("the document is not one of the algorithm's") from error
    return record_sum


def length(record_sum: RecordSum) -> int:
    """Coordinates of a sum."""
    return sum(block.dimension for block in record_sum.blocks)


def query_fields(
    record_sum: RecordSum, unit: str, records: int, *, every_record: bool = False
) -> dict[str, Any]:
    """The fields of the query that follow from the sum, the privacy unit, how many records of a
    curator count and whether those are all: JSON values."""
    blocks = record_sum.blocks
    largest = max(block.bound for block in blocks)
    return {
        "function": "vector_sum",
        "register": "records",
        "unit": "1",
        "bounds": [str(-largest), str(largest)],
        "max_readings": records,
        "resolution": "1",
        "coordinates": "values",
        "blocks": [
            {
                "name": block.name,
                "dimension": block.dimension,
                "l1_bound": str(block.bound),
                "resolution": "1",
            }
            for block in blocks
        ],
        "split": [format_exact(block.share) for block in blocks],
        "privacy_unit": unit,
        "mechanism": "distributed",
        "epsilon": format_exact(record_sum.epsilon),
        "every_record": True if every_record else None,
    }


def check_query(query: Query, record_sum: RecordSum, records: int | None = None) -> None:
    """Check that a query agrees with the sum. Raises SumRefused. `records`: how many must count,
    None for as many as the query says."""
    document = query.model_dump(mode="json", exclude_none=True)
    counted = query.max_readings if records is None else records
    every = query.every_record is not None
    if every and counted < MOST_RECORDS:
        raise SumRefused("the query omits records, but states that it does not")
    expected = query_fields(record_sum, query.privacy_unit.value, counted, every_record=every)
    for name, value in expected.items():
        if document.get(name) != value:
            raise SumRefused(f"the query's {name} is not that of the sum")


def moved(row_sum: RowSum, rows: Floats) -> Ints:
    """What each row (n, columns) adds to each block of a sum, in L1 norm (n, blocks): at most the
    block's bound, to which `encoded` cuts it."""
    blocks = row_sum.blocks
    ends = np.cumsum([0, *(block.dimension for block in blocks)])
    bounds = np.array([block.bound for block in blocks])
    step = max(1, _NUMBERS // int(ends[-1]))
    parts = [np.zeros((0, len(blocks)), np.int64)]
    for start in range(0, len(rows), step):
        vectors = np.abs(row_sum.vectors(rows[start : start + step]))
        parts.append(np.minimum(np.add.reduceat(vectors, ends[:-1], axis=1), bounds))
    return np.concatenate(parts)


def encoded(query: Query, row_sum: RowSum, rows: Floats) -> Encoded:
    """One curator's rows (n, columns), n at most `max_readings`, as the vector it contributes."""
    total = np.zeros((1, length(row_sum)), np.int64)
    clamped = np.zeros(1, np.int64)
    step = max(1, _NUMBERS // total.size)
    for start in range(0, len(rows), step):
        vectors = row_sum.vectors(rows[start : start + step])
        nothing = np.zeros(len(vectors), np.int64)
        part = encode(query, Readings(1, nothing, vectors * NANO, nothing))
        total += part.values
        clamped += part.clamped
    return Encoded(total, np.array([len(rows)], np.int64), clamped, whole(1))


LedgerUnit = Literal["record", "curator"]

REPORT_MODULES: Final = {
    "crowd-tasking": "crowd_tasking_reports",
    "dpbv-clustering": "dpbv_clustering_reports",
    "graph-random-matrix": "graph_random_matrix",
}
OF_ITEMS: Final = frozenset({"graph-random-matrix"})
"""Algorithms whose rows are sets of items, one for each curator: no numbers."""


class EncodingRefused(ValueError):
    """The document is no encoding, or one under which nothing is protected."""


class Cost(NamedTuple):
    """What a curator's ledger is charged for all of its reports, for one `ledger_unit`."""

    epsilon: Fraction
    delta: Fraction


class Encoding(Protocol):
    """How rows become reports."""

    @property
    def columns(self) -> int:
        """How many numbers a row has."""
        ...

    @property
    def labelled(self) -> bool:
        """Whether the last of them is a label, which is sent as it is."""
        ...

    @property
    def most_rows(self) -> int:
        """How many rows of a curator count: its first ones."""
        ...

    @property
    def ledger_unit(self) -> LedgerUnit:
        """What the cost protects: one row, or all of a curator's."""
        ...

    @property
    def cost(self) -> Cost | None:
        """None: no figure is stated (the stance `paper`). May take a second. Raises
        EncodingRefused if nothing is protected, or less than the document states."""
        ...

    @property
    def other_cost(self) -> Cost | None:
        """The cost in the unit that is not `ledger_unit`; None if `cost` is None."""
        ...

    def document(self) -> dict[str, Any]:
        """All of it as JSON without floating-point numbers; `read_encoding` reads it."""
        ...

    def perturbed(self, rows: Mapping[str, Any], source: NoiseSource) -> list[Report]:
        """The reports of curators' rows (n, columns), n from 1 to `most_rows`, by their names; for
        sets of items a list of one.

        In the order of curators and rows, one for each row that can be reported.
        """
        ...

    def refusal(self, report: Report) -> str | None:
        """Why the coordinator does not take a report; None: it takes it."""
        ...


def read_encoding(algorithm: str, document: Mapping[str, Any]) -> Encoding:
    """The encoding of a document. Raises EncodingRefused."""
    if algorithm not in REPORT_MODULES:
        raise EncodingRefused("the algorithm collects no reports that are known here")
    module = import_module(f"tacit.encoders.{REPORT_MODULES[algorithm]}")
    try:
        encoding: Encoding = module.read(document)
    except EncodingRefused:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise EncodingRefused("the document is not one of the algorithm's") from error
    return encoding
