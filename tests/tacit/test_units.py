"""Units: exact factors, codes of UCUM, and what is said of a text that is nearly a unit."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from curator.intake.reading import to_nano
from tacit.units import (
    DIMENSIONS,
    NANO,
    OBIS,
    REGISTERS,
    UNITS,
    Kind,
    kind_mismatch,
    kind_of,
    mismatch,
    named,
    unit_named,
)


@pytest.mark.parametrize(
    ("unit", "base", "factor"),
    [
        ("MJ", "Wh", Fraction(2500, 9)),
        ("GJ", "Wh", Fraction(2_500_000, 9)),
        ("therm", "Wh", Fraction(105_505_585_262, 3_600_000)),
        ("MMBtu", "Wh", Fraction(105_505_585_262, 360_000)),
        ("Wmin", "Wh", Fraction(1, 60)),
        ("kvarh", "varh", Fraction(1000)),
        ("kVA", "VA", Fraction(1000)),
        ("mV", "V", Fraction(1, 1000)),
        ("ft3", "m3", Fraction("0.028316846592")),
        ("ccf", "m3", Fraction("2.8316846592")),
        ("gal", "m3", Fraction("0.003785411784")),
        ("l/min", "m3/h", Fraction(3, 50)),
        ("kg/s", "kg/h", Fraction(3600)),
    ],
)
def test_factors_are_exact(unit: str, base: str, factor: Fraction) -> None:
    assert (UNITS[unit].base, UNITS[unit].factor) == (base, factor)


@pytest.mark.parametrize(
    ("value", "unit", "nano"),
    [
        ("3.6", "MJ", 1000 * NANO),
        ("1", "MJ", 277_777_777_778),
        ("-1", "MJ", -277_777_777_778),
        ("0.0000000000018", "MJ", 0),  # half a nanowatt-hour, to even
        ("0.0000000000054", "MJ", 2),  # one and a half
        ("0." + "3" * 40, "MJ", 92_592_592_593),
        ("1", "therm", 29_307_107_017_222),
        ("1e-30", "therm", 0),
        ("1", "ccf", 2_831_684_659),
        ("49.98", "Hz", 49_980_000_000),
        ("1e14", "therm", None),
    ],
)
def test_values_convert_exactly_and_round_once(value: str, unit: str, nano: int | None) -> None:
    if nano is None:
        with pytest.raises(Exception, match="too large"):
            to_nano(value, unit, "value")
    else:
        assert to_nano(value, unit, "value") == nano


def test_each_dimension_has_its_base_unit_and_a_symbol_is_one_unit() -> None:
    assert all(UNITS[base] == unit_named(base) for base in DIMENSIONS)
    assert all(UNITS[base].factor == 1 for base in DIMENSIONS)
    codes = [unit.ucum for unit in UNITS.values() if unit.ucum is not None]
    assert len({*codes, *UNITS}) == len(codes) + len(UNITS)
    assert all(unit_named(unit.ucum) == unit for unit in UNITS.values() if unit.ucum is not None)
    assert all(len(base) <= 16 for base in DIMENSIONS)  # as the store keeps it


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kwh", "kwh is no unit: kWh?"),
        ("KVArh", "KVArh is no unit: kvarh?"),
        ("m³", "m³ is no unit: m3?"),
        ("°C", "°C is no unit: Cel?"),
        ("CCF", "CCF is no unit: ccf?"),
        ("°F", "is a scale with another zero"),
        ("K", "is a scale with another zero"),
        ("horse", "is no unit: one of Wh, kWh,"),
        ("", "is no unit: one of"),
    ],
)
def test_what_is_no_unit(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(words)}"):
        unit_named(text)


def test_registers_of_the_grids_state() -> None:
    for code, unit in (
        ("1-0:32.7.0", "V"),
        ("1-0:71.7.0", "mA"),
        ("1-0:14.7.0", "Hz"),
        ("1-0:3.7.0", "kvar"),
        ("1-0:9.7.0", "kVA"),
        ("1-0:33.7.0", "1"),
    ):
        assert named(code.removeprefix("1-0:")) == code
        assert (kind_of(code), mismatch(code, unit)) == (Kind.INSTANT, None)
        assert kind_mismatch(code, Kind.DELTA) is not None
        assert mismatch(code, "kWh") is not None
    assert kind_of("1-0:3.8.0") is Kind.DELTA
    assert mismatch("1-0:3.8.0", "kvarh") is None
    assert set(OBIS.values()) <= set(REGISTERS)


def test_a_register_of_ones_own_names_its_dimension() -> None:
    assert mismatch("voltage:feeder-7", "kV") is None
    assert mismatch("reactive_power:a", "kvar") is None
    assert kind_of("voltage:feeder-7") is Kind.INSTANT
    found = mismatch("voltage:feeder-7", "A")
    assert found.detail.startswith("voltage:feeder-7 is a register of voltage (V, ")
    assert kind_mismatch("energy:gas", Kind.INSTANT) is not None
    for free in ("heat-pump", "voltage", "mine:voltage"):
        assert mismatch(free, "A") is None
        assert kind_of(free) is Kind.DELTA
