"""Units and registers as a column map or a mapping declares them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator

from common.models.base import require
from common.units import UNITS
from curator.errors import BadItem
from curator.items import register_name


def _unit(unit: str) -> str:
    return require(unit in UNITS, unit, f"is one of {', '.join(sorted(UNITS))}")


def _register(name: str) -> str:
    try:
        return register_name(name)
    except BadItem as error:
        return require(False, name, error.detail)


Unit: TypeAlias = Annotated[str, AfterValidator(_unit)]
RegisterName: TypeAlias = Annotated[str, AfterValidator(_register)]
"""An OBIS code becomes the name it stands for."""
