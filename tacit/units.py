"""Physical units of readings, and the whole number in which a reading is kept.

A reading is stored as a whole number of nano-units of its base unit (nWh, nW, ...), so that no
binary fraction ever enters a sum. 64 bits hold 9.2 GWh.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

NANO = 10**9
MAX_QUANTITY = 2**62


@dataclass(frozen=True)
class Unit:
    """`factor` base units make one of this unit."""

    symbol: str
    base: str
    factor: Fraction


DIMENSIONS = {"Wh": "energy", "W": "power", "m3": "volume", "1": "plain numbers"}
"""What the units of each base unit measure. Nothing converts from one to another."""

UNITS: dict[str, Unit] = {
    unit.symbol: unit
    for unit in (
        Unit("Wh", "Wh", Fraction(1)),
        Unit("kWh", "Wh", Fraction(1_000)),
        Unit("MWh", "Wh", Fraction(1_000_000)),
        Unit("W", "W", Fraction(1)),
        Unit("kW", "W", Fraction(1_000)),
        Unit("m3", "m3", Fraction(1)),
        Unit("l", "m3", Fraction(1, 1_000)),
        Unit("1", "1", Fraction(1)),
    )
}
