"""Units of readings, and the catalogue of registers that a meter may have.

A reading is stored as a whole number of nano-units of its base unit (nWh, nW, ...), so that no
binary fraction ever enters a sum. 64 bits hold 9.2 GWh.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Final

NANO = 10**9
MAX_QUANTITY = 2**62


class Kind(StrEnum):
    """`delta`: an amount, recorded at its time (best: the start of its interval, as windows are
    half-open); `instant`: a state at the time; `total_increasing`: a counter."""

    DELTA = "delta"
    INSTANT = "instant"
    TOTAL_INCREASING = "total_increasing"


_AMOUNTS: Final = (Kind.DELTA, Kind.TOTAL_INCREASING)
_STATES: Final = (Kind.INSTANT,)


@dataclass(frozen=True)
class Unit:
    """`factor` base units make one of this unit; `ucum` is its code in UCUM, if that differs."""

    symbol: str
    base: str
    factor: Fraction
    ucum: str | None = None


@dataclass(frozen=True)
class Dimension:
    """What the units of a base unit measure, and which kinds of readings it has."""

    name: str
    kinds: tuple[Kind, ...]


# Every factor is exact. 1 Wh is 3600 J. A foot is 0.3048 m, a US gallon 231 cubic inches; a therm
# is 100,000 Btu of the International Table (1 Btu = 1055.05585262 J); that of US law is 0.024 %
# smaller. Temperatures are kept in degrees Celsius only: a scale with another zero (Fahrenheit,
# Kelvin) has no factor, and a sum or bound could not be converted. UCUM has no var and no therm.

_BTU_WH: Final = Fraction("1055.05585262") / 3600
_CUBIC_FOOT: Final = Fraction("0.3048") ** 3

_CATALOGUE: Final[
    tuple[tuple[str, Dimension, tuple[tuple[str, Fraction | int, str | None], ...]], ...]
] = (
    (
        "Wh",
        Dimension("energy", _AMOUNTS),
        (
            ("Wh", 1, "W.h"),
            ("kWh", 10**3, "kW.h"),
            ("MWh", 10**6, "MW.h"),
            ("GWh", 10**9, "GW.h"),
            ("J", Fraction(1, 3600), None),
            ("MJ", Fraction(10**6, 3600), None),
            ("GJ", Fraction(10**9, 3600), None),
            ("therm", 10**5 * _BTU_WH, None),
            ("MMBtu", 10**6 * _BTU_WH, None),
            ("Wmin", Fraction(1, 60), "W.min"),
        ),
    ),
    ("W", Dimension("power", _STATES), (("W", 1, None), ("kW", 10**3, None), ("MW", 10**6, None))),
    (
        "varh",
        Dimension("reactive energy", _AMOUNTS),
        (("varh", 1, None), ("kvarh", 10**3, None), ("Mvarh", 10**6, None)),
    ),
    (
        "var",
        Dimension("reactive power", _STATES),
        (("var", 1, None), ("kvar", 10**3, None), ("Mvar", 10**6, None)),
    ),
    (
        "VAh",
        Dimension("apparent energy", _AMOUNTS),
        (("VAh", 1, "V.A.h"), ("kVAh", 10**3, "kV.A.h"), ("MVAh", 10**6, "MV.A.h")),
    ),
    (
        "VA",
        Dimension("apparent power", _STATES),
        (("VA", 1, "V.A"), ("kVA", 10**3, "kV.A"), ("MVA", 10**6, "MV.A")),
    ),
    (
        "V",
        Dimension("voltage", _STATES),
        (("V", 1, None), ("mV", Fraction(1, 10**3), None), ("kV", 10**3, None)),
    ),
    (
        "A",
        Dimension("current", _STATES),
        (("A", 1, None), ("mA", Fraction(1, 10**3), None), ("kA", 10**3, None)),
    ),
    ("Hz", Dimension("frequency", _STATES), (("Hz", 1, None), ("mHz", Fraction(1, 10**3), None))),
    (
        "m3",
        Dimension("volume", _AMOUNTS),
        (
            ("m3", 1, None),
            ("l", Fraction(1, 10**3), "L"),
            ("ft3", _CUBIC_FOOT, "[cft_i]"),
            ("ccf", 100 * _CUBIC_FOOT, None),
            ("gal", 231 * Fraction("0.0254") ** 3, "[gal_us]"),
        ),
    ),
    (
        "m3/h",
        Dimension("volume flow", _STATES),
        (
            ("m3/h", 1, None),
            ("l/h", Fraction(1, 10**3), "L/h"),
            ("l/min", Fraction(60, 10**3), "L/min"),
            ("l/s", Fraction(3600, 10**3), "L/s"),
            ("m3/s", 3600, None),
        ),
    ),
    (
        "kg/h",
        Dimension("mass flow", _STATES),
        (("kg/h", 1, None), ("t/h", 10**3, None), ("kg/s", 3600, None)),
    ),
    ("Cel", Dimension("temperature", _STATES), (("Cel", 1, None),)),
    ("K.d", Dimension("degree days", _AMOUNTS), (("K.d", 1, None),)),
    ("1", Dimension("plain numbers", tuple(Kind)), (("1", 1, None),)),
)

DIMENSIONS: Final[Mapping[str, Dimension]] = MappingProxyType(
    {base: dimension for base, dimension, _ in _CATALOGUE}
)
"""By base unit. Nothing converts from one to another."""

UNITS: Final[dict[str, Unit]] = {
    symbol: Unit(symbol, base, Fraction(factor), ucum)
    for base, _, listed in _CATALOGUE
    for symbol, factor, ucum in listed
}

_OWN: Final = {dimension.name.replace(" ", "_"): base for base, dimension in DIMENSIONS.items()}
"""What a register of one's own may begin with (`voltage:feeder-7`), and the base unit of it."""

_UCUM: Final = {unit.ucum: unit for unit in UNITS.values() if unit.ucum is not None}


def _plain(text: str) -> str:
    folded = text.casefold().translate(str.maketrans("³", "3", " ·°._^"))
    return {"c": "cel", "degc": "cel", "litre": "l", "liter": "l", "gallon": "gal"}.get(
        folded, folded
    )


_NEAR: Final = {_plain(code): unit.symbol for code, unit in (_UCUM | UNITS).items()}
_OTHER_ZERO: Final = frozenset({"k", "f", "degf", "[degf]"})


def no_unit(text: str) -> str:
    """Why a text is not the symbol of a unit. The text is repeated only if it is similar to one."""
    near = _plain(text[:20])
    if near in _OTHER_ZERO:
        return "is a scale with another zero: convert temperatures to Cel"
    if near in _NEAR:
        return f"{text} is no unit: {_NEAR[near]}?"
    return f"is no unit: one of {', '.join(UNITS)}"


def unit_named(text: str) -> Unit:
    """The unit of a symbol or UCUM code. Raises ValueError."""
    unit = UNITS.get(text) or _UCUM.get(text)
    if unit is None:
        raise ValueError(no_unit(text))
    return unit


# The catalogue of registers. A sum of readings is meaningful only if all of them measure the same
# quantity. So each known register has one dimension (that of its base unit) and the kinds of
# readings that it accepts. Operators may use other names, which begin with their dimension
# (`voltage:feeder-7`); of one that does not, it is that of the first reading that a curator stores
# (`curator.store.readings`).
#
# Source of the codes: OBIS identification (DLMS UA Blue Book, part 1; IEC 62056-61), groups A to E:
# medium 1 electricity, 6 heat, 7 gas, 8 cold water; C 1/2 active energy or power import and export,
# 15 sum, 16 net, 21, 22 and so on a phase; 3/4 reactive, 5 to 8 its quadrants, 9/10 apparent, 11
# current, 12 voltage, 13 power factor, 14 frequency, each + 20, 40, 60 for a phase, 91 the neutral
# conductor; D 7 instantaneous, 8 time integral; E tariff. 0-n:24.2.1 is the gas meter of DSMR P1.

DEFAULT: Final = "energy_import"
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_CODE: Final = re.compile(r"[\d:-]*\d[.:][\d.:-]*")
"""What is written like an OBIS code: digits, a point or colon, and nothing else."""


@dataclass(frozen=True)
class Register:
    """A register of the catalogue. A reading that names no kind has the first of `kinds`."""

    name: str
    base: str
    kinds: tuple[Kind, ...]


@dataclass(frozen=True)
class Mismatch:
    """Why a reading or query does not fit a register: the offending field, and the rule."""

    field: str
    detail: str


def _codes(groups: Sequence[int | str], rest: str = "7.0") -> tuple[str, ...]:
    return tuple(f"1-0:{group}.{rest}" for group in groups)


_CODED: Final = (
    (tuple(f"1-0:{way}.8.{rate}" for way in (1, 2) for rate in (1, 2, 3, 4)), "Wh"),
    (_codes((3, 4, 5, 6, 7, 8), "8.0"), "varh"),
    (_codes((9, 10), "8.0"), "VAh"),
    (_codes((21, 22, 41, 42, 61, 62)), "W"),
    (_codes((3, 4, 23, 24, 43, 44, 63, 64)), "var"),
    (_codes((9, 10, 29, 30, 49, 50, 69, 70)), "VA"),
    (_codes((12, 32, 52, 72)), "V"),
    (_codes((11, 31, 51, 71, 91)), "A"),
    (_codes((14,)), "Hz"),
)
"""Registers that are called by their codes, by base unit."""
_FACTORS: Final = _codes((13, 33, 53, 73))
"""Power factors: plain numbers, and states."""
_ALL_CODES: Final = (*(code for codes, _ in _CODED for code in codes), *_FACTORS)

REGISTERS: Final[Mapping[str, Register]] = MappingProxyType(
    {
        name: Register(name, base, kinds)
        for names, base, kinds in (
            (("energy_import", "energy_export", "energy_net", "energy_total"), "Wh", _AMOUNTS),
            (("power_import", "power_export", "power_net", "power_total"), "W", _STATES),
            (("heat",), "Wh", _AMOUNTS),
            (("gas", "water"), "m3", _AMOUNTS),
            *((codes, base, DIMENSIONS[base].kinds) for codes, base in _CODED),
            (_FACTORS, "1", _STATES),
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
        **{code: code for code in _ALL_CODES},
        **{code.removeprefix("1-0:"): code for code in _ALL_CODES},
        "6-0:1.0.0": "heat",
        "7-0:3.0.0": "gas",
        "8-0:1.0.0": "water",
        **{f"0-{channel}:24.2.1": "gas" for channel in range(1, 5)},
    }
)


def named(text: str) -> str:
    """The register of a name or an OBIS code. Raises ValueError for any other text."""
    if not NAME.fullmatch(text):
        raise ValueError("is not a register's name (letters, digits and . _ : -, at most 64)")
    if text not in OBIS and _CODE.fullmatch(text):
        raise ValueError("is an OBIS code that is not in the catalogue: see the list of registers")
    return OBIS.get(text, text)


def units_of(base: str) -> tuple[str, ...]:
    """The units of a dimension, given its base unit."""
    return tuple(symbol for symbol, unit in UNITS.items() if unit.base == base)


def register_of(name: str) -> Register | None:
    """What is known of a register: from the catalogue, or by the dimension with which its name
    begins."""
    register = REGISTERS.get(name)
    base = _OWN.get(name.partition(":")[0]) if register is None and ":" in name else None
    return register if base is None else Register(name, base, DIMENSIONS[base].kinds)


def smallest(base: str) -> str:
    """The smallest unit of a dimension: a value that is too large in it is too large in any
    other."""
    return min(units_of(base), key=lambda symbol: UNITS[symbol].factor)


def mismatch(name: str, unit: str, base: str | None = None) -> Mismatch | None:
    """Why readings in `unit` do not fit a register; None if they do, or if nothing is known of
    it. `base`: the base unit in which a register outside the catalogue is stored."""
    register = register_of(name)
    expected = register.base if register is not None else base
    got = UNITS[unit].base
    if expected is None or got == expected:
        return None
    return Mismatch(
        "unit",
        f"{name} is a register of {DIMENSIONS[expected].name} ({', '.join(units_of(expected))}); "
        f"{unit} is a unit of {DIMENSIONS[got].name}",
    )


def kind_mismatch(name: str, kind: Kind) -> Mismatch | None:
    """Why readings of a kind do not fit a register; None if they do, or if nothing is known of
    it."""
    register = register_of(name)
    if register is None or kind in register.kinds:
        return None
    allowed = " or ".join(register.kinds)
    return Mismatch("kind", f"{name} takes readings of kind {allowed}, not {kind.value}")


def kind_of(name: str) -> Kind:
    """The kind of readings that name none."""
    register = register_of(name)
    return Kind.DELTA if register is None else register.kinds[0]


def asked_mismatch(name: str, unit: str) -> Mismatch | None:
    """Why a query of a register in a unit can match no reading, as far as the catalogue knows."""
    try:
        meant = named(name)
    except ValueError as error:
        return Mismatch("register", str(error))
    if meant != name:
        return Mismatch("register", f"readings of this code are kept as {meant}: ask for that")
    return mismatch(name, unit)
