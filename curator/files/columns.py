"""Columns of text into exact integers, many at once.

A plain decimal of few digits is read through a double and scaled: with magnitude below 2^50 and no
more decimals than the scale has, the product is off by less than a quarter, so rounding gives the
exact integer. Everything else takes the exact, slower way, cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import numpy as np
from numpy.typing import NDArray

from curator.errors import BadItem
from curator.intake.reading import Times, parse_time, to_nano
from tacit.units import NANO, UNITS

Ints = NDArray[np.int64]
_PLAIN: Final = b"0123456789.-"
_CLOCK: Final = b"0123456789-:TZ"
_SAFE: Final = float(1 << 50)


@dataclass(frozen=True)
class Column:
    """Integers, and what is wrong with the cells that gave none: (position, message)."""

    values: Ints
    faults: tuple[tuple[int, str], ...]


def quantities(cells: Sequence[bytes], unit: str) -> Column:
    """Nano-units of the base unit."""
    fast = _fast_quantities(cells, unit)
    if fast is not None:
        return Column(fast, ())
    values = np.zeros(len(cells), np.int64)
    faults = []
    for index, cell in enumerate(cells):
        try:
            values[index] = to_nano(cell.decode("utf-8", "replace").strip(), unit, "value")
        except BadItem as error:
            faults.append((index, f"the value {error.detail}"))
    return Column(values, tuple(faults))


def _fast_quantities(cells: Sequence[bytes], unit: str) -> Ints | None:
    scale = UNITS[unit].factor * NANO
    if scale.denominator != 1 or not cells:
        return None
    decimals = len(str(scale)) - 1
    if max(map(len, cells)) > min(15, decimals + 1) or b"".join(cells).translate(None, _PLAIN):
        return None
    try:
        scaled = np.array(list(map(float, cells))) * float(scale)
    except ValueError:
        return None
    if not (np.abs(scaled) < _SAFE).all():
        return None
    return np.rint(scaled).astype(np.int64)


def times(cells: Sequence[bytes], allowed: Times) -> Column:
    """Microseconds since 1970 of RFC 3339 texts or epoch milliseconds."""
    fast = _fast_times(cells)
    if fast is not None and allowed.hold(fast).all():
        return Column(fast, ())
    values = np.zeros(len(cells), np.int64)
    faults = []
    for index, cell in enumerate(cells):
        text = cell.decode("utf-8", "replace").strip()
        try:
            number = text.isascii() and text.isdecimal() and len(text) <= 15
            values[index] = parse_time(Decimal(text) if number else text, allowed)
        except BadItem as error:
            faults.append((index, f"the time {error.detail}"))
    return Column(values, tuple(faults))


def _fast_times(cells: Sequence[bytes]) -> Ints | None:
    joined = b"".join(cells)
    if len(joined) != 20 * len(cells) or joined.translate(None, _CLOCK):
        return None
    if joined[10::20] != b"T" * len(cells) or joined[19::20] != b"Z" * len(cells):
        return None
    try:
        texts = np.frombuffer(joined, "S20").astype("U19")
        return texts.astype("datetime64[us]").astype(np.int64)
    except ValueError:
        return None
