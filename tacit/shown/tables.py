"""Records as the data frame of whichever library is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A pandas data frame, a polars one without pandas, else a list of records. Figures are floats
    there, exact in the rows themselves."""
    plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
    for library in ("pandas", "polars"):
        if find_spec(library) is not None:
            return import_module(library).DataFrame(plain)
    return plain


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal | Fraction) else value
