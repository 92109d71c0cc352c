"""Register, unit and kind of readings as a column map or an MQTT mapping declares them."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from tacit import registers
from tacit.registers import Kind
from tacit.units import UNITS
from tacit.wire import Checked, WireModel, require


def _unit(unit: str) -> str:
    return require(unit in UNITS, unit, f"is one of {', '.join(sorted(UNITS))}")


def _register(name: str) -> str:
    try:
        return registers.named(name)
    except ValueError as error:
        return require(False, name, str(error))


Unit: TypeAlias = Annotated[str, AfterValidator(_unit)]
RegisterName: TypeAlias = Annotated[str, AfterValidator(_register)]
"""An OBIS code becomes the register name that it denotes."""


class Declared(WireModel):
    """What readings are, once for all of them: unit and kind are those of the register."""

    register_name: RegisterName = Field(registers.DEFAULT, alias="register")
    unit: Unit
    kind: Kind = Field(None, validate_default=True)
    """By default the first kind that the register takes."""
    rollover: Annotated[str, Field(max_length=40)] | None = None

    @field_validator("unit")
    @classmethod
    def _unit_of_the_register(cls, unit: str, info: ValidationInfo) -> str:
        return _suited(unit, registers.mismatch(info.data.get("register_name", ""), unit))

    @field_validator("kind", mode="before")
    @classmethod
    def _own_kind(cls, kind: Any, info: ValidationInfo) -> Any:
        return kind or registers.kind_of(info.data.get("register_name", ""))

    @field_validator("kind")
    @classmethod
    def _kind_of_the_register(cls, kind: Kind, info: ValidationInfo) -> Kind:
        return _suited(kind, registers.kind_mismatch(info.data.get("register_name", ""), kind))


def _suited(value: Checked, found: registers.Mismatch | None) -> Checked:
    return value if found is None else require(False, value, found.detail)
