"""Units of readings, and the catalogue of registers that a meter may have.

A reading is stored as a whole number of nano-units of its base unit (nWh, nW, ...), so that no
binary fraction ever enters a sum. 64 bits hold 9.2 GWh.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Final

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


# The catalogue of registers. A sum of readings is meaningful only if all of them measure the same
# quantity. So each known register has one dimension (that of its base unit) and the kinds of
# readings that it accepts. Operators may use other names; their dimension is that of the first
# reading that a curator stores (`curator.store.readings`).
#
# Source of the codes: OBIS identification (DLMS UA Blue Book, part 1; IEC 62056-61), groups A to E:
# medium 1 electricity, 6 heat, 7 gas, 8 cold water; C 1/2 active energy or power import and export,
# 15 sum, 16 net, 21, 22 and so on a phase; D 7 instantaneous, 8 time integral; E tariff. 0-n:24.2.1
# is the gas meter of DSMR P1.

DEFAULT: Final = "energy_import"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_CODE: Final = re.compile(r"[\d:-]*\d[.:][\d.:-]*")
"""What is written like an OBIS code: digits, a point or colon, and nothing else."""


class Kind(StrEnum):
    """`delta`: an amount, booked at its time (best: where its interval begins, as windows are
    half-open); `instant`: a state at the time; `total_increasing`: a counter."""

    DELTA = "delta"
    INSTANT = "instant"
    TOTAL_INCREASING = "total_increasing"


@dataclass(frozen=True)
class Register:
    """A register of the catalogue. The first of `kinds` is taken where a reading names none."""

    name: str
    base: str
    kinds: tuple[Kind, ...]


@dataclass(frozen=True)
class Mismatch:
    """Why a reading or query does not suit a register: the field to blame, and the rule."""

    field: str
    detail: str


_AMOUNTS: Final = (Kind.DELTA, Kind.TOTAL_INCREASING)
_STATES: Final = (Kind.INSTANT,)

_TARIFFS: Final = tuple(f"1-0:{way}.8.{rate}" for way in (1, 2) for rate in (1, 2, 3, 4))
_PHASES: Final = tuple(f"1-0:{phase}{way}.7.0" for phase in (2, 4, 6) for way in (1, 2))
"""Registers that are called by their codes: energy by tariff, power by phase."""

REGISTERS: Final[Mapping[str, Register]] = MappingProxyType(
    {
        name: Register(name, base, kinds)
        for names, base, kinds in (
            (("energy_import", "energy_export", "energy_net", "energy_total"), "Wh", _AMOUNTS),
            (("power_import", "power_export", "power_net", "power_total"), "W", _STATES),
            (("heat",), "Wh", _AMOUNTS),
            (("gas", "water"), "m3", _AMOUNTS),
            (_TARIFFS, "Wh", _AMOUNTS),
            (_PHASES, "W", _STATES),
        )
        for name in names
    }
)

OBIS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{
            prefix + code: name
            for prefix in ("1-0:", "")
            for code, name in (
                ("1.8.0", "energy_import"),
                ("2.8.0", "energy_export"),
                ("15.8.0", "energy_total"),
                ("16.8.0", "energy_net"),
                ("1.7.0", "power_import"),
                ("2.7.0", "power_export"),
                ("15.7.0", "power_total"),
                ("16.7.0", "power_net"),
            )
        },
        **{code: code for code in (*_TARIFFS, *_PHASES)},
        **{code.removeprefix("1-0:"): code for code in (*_TARIFFS, *_PHASES)},
        "6-0:1.0.0": "heat",
        "7-0:3.0.0": "gas",
        "8-0:1.0.0": "water",
        **{f"0-{channel}:24.2.1": "gas" for channel in range(1, 5)},
    }
)


def named(text: str) -> str:
    """The register of a name or an OBIS code. Raises ValueError for what is neither."""
    if not NAME.fullmatch(text):
        raise ValueError("is not a register's name (letters, digits and . _ : -, at most 64)")
    if text not in OBIS and _CODE.fullmatch(text):
        raise ValueError("is an OBIS code that is not in the catalogue: see the list of registers")
    return OBIS.get(text, text)


def units_of(base: str) -> tuple[str, ...]:
    """The units of a dimension, given its base unit."""
    return tuple(symbol for symbol, unit in UNITS.items() if unit.base == base)


def mismatch(name: str, unit: str, base: str | None = None) -> Mismatch | None:
    """Why readings in `unit` are not of a register; None if they are, or nothing is known of it.

    `base`: in which base unit a register outside the catalogue is kept.
    """
    known = REGISTERS.get(name)
    expected = known.base if known is not None else base
    got = UNITS[unit].base
    if expected is None or got == expected:
        return None
    return Mismatch(
        "unit",
        f"{name} is a register of {DIMENSIONS[expected]} ({', '.join(units_of(expected))}); "
        f"{unit} is a unit of {DIMENSIONS[got]}",
    )


def kind_mismatch(name: str, kind: Kind) -> Mismatch | None:
    """Why readings of a kind are not of a register; None if they are, or nothing is known of it."""
    known = REGISTERS.get(name)
    if known is None or kind in known.kinds:
        return None
    allowed = " or ".join(known.kinds)
    return Mismatch("kind", f"{name} takes readings of kind {allowed}, not {kind.value}")


def kind_of(name: str) -> Kind:
    """The kind of readings that name none."""
    known = REGISTERS.get(name)
    return Kind.DELTA if known is None else known.kinds[0]


def asked_mismatch(name: str, unit: str) -> Mismatch | None:
    """Why a query of a register in a unit could meet no reading, as far as the catalogue knows."""
    try:
        meant = named(name)
    except ValueError as error:
        return Mismatch("register", str(error))
    if meant != name:
        return Mismatch("register", f"readings of this code are kept as {meant}: ask for that")
    return mismatch(name, unit)
