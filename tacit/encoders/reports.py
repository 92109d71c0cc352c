"""Noisy reports that a federated job asks its curators for: what a curator does on its own rows.

Spec: jobs, "Federated jobs". All is public but the rows and the noise. One module for each
algorithm reads the descriptor's document, and works out from the mechanism in it what a report
costs; a figure that the document states counts only where the mechanism proves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.protocol.federation import Report
from tacit.randomness import NoiseSource

Floats = NDArray[np.float64]
LedgerUnit = Literal["record", "curator"]

MODULES: Final = {
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
        """None: no figure is stated (the stance `paper`). May take a second.

        Raises EncodingRefused where nothing is protected, or less than the document states.
        """
        ...

    @property
    def other_cost(self) -> Cost | None:
        """What they cost in the unit that is not `ledger_unit`; None where `cost` is None."""
        ...

    def document(self) -> dict[str, Any]:
        """All of it as JSON without floating-point numbers; `read` gives the encoding back."""
        ...

    def perturbed(self, rows: Mapping[str, Any], source: NoiseSource) -> list[Report]:
        """The reports of curators' rows (n, columns), n from 1 to `most_rows`, by their names; of
        sets of items a list of one.

        In the order of curators and rows, one for each row that can be reported.
        """
        ...

    def refusal(self, report: Report) -> str | None:
        """Why the coordinator does not take a report; None: it takes it."""
        ...


def read(algorithm: str, document: Mapping[str, Any]) -> Encoding:
    """The encoding of a document. Raises EncodingRefused."""
    if algorithm not in MODULES:
        raise EncodingRefused("the algorithm collects no reports that are known here")
    module = import_module(f"tacit.encoders.{MODULES[algorithm]}")
    try:
        found: Encoding = module.read(document)
    except EncodingRefused:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise EncodingRefused("the document is not one of the algorithm's") from error
    return found
