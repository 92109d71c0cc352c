"""An answer of the API as an object: items are the JSON as it came, attributes Python values.

    found["participants"], found["window"]["start"]     what the API says, word by word
    found.participants, found.window.start               an int, a datetime

Amounts are exact: an attribute is a Decimal, or a Fraction where the figure is one ("1/3"). Fields
that a newer service adds are there too, as they came.
"""

from __future__ import annotations

import functools
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

Number: TypeAlias = Decimal | Fraction


def number(text: str) -> Number:
    """The exact figure of a text of the API: a decimal, a fraction, or `inf`."""
    return Fraction(text) if "/" in text else Decimal(text)


class Shown(dict[str, Any]):
    """A dictionary of the API whose fields are attributes too; a subclass declares their types."""

    if not TYPE_CHECKING:  # so that a type checker sees a field that does not exist

        def __getattr__(self, name: str) -> Any:
            try:
                value = self[name]
            except KeyError:
                raise AttributeError(
                    f"{type(self).__name__} has no {name!r}", name=name, obj=self
                ) from None
            return _made(_fields(type(self)).get(name, Any), value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self})


@functools.cache
def _fields(kind: type[Shown]) -> dict[str, Any]:
    return get_type_hints(kind)


def _made(kind: Any, value: Any) -> Any:
    """A value of JSON as the type that a field declares."""
    if value is None:
        return None
    if get_origin(kind) in (Union, UnionType):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if kind is Decimal:  # the first of a Number
        return number(value)
    if get_origin(kind) is list:
        return [_made(get_args(kind)[0], each) for each in value]
    if kind is datetime:
        return datetime.fromisoformat(value)
    if isinstance(kind, type) and issubclass(kind, Shown):
        return kind(value)
    return value
