"""What a field that pydantic refuses has to be, in plain words; never the value that came.

Amounts, times and octets have rules of their own (`tacit.wire`), which say it themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from tacit.errors import FieldError

Item = Mapping[str, Any]
_IDENTIFIER_OF_36: Final = "^[0-9a-f-]{36}$"


def rule(item: Item, model: type[BaseModel] | None = None) -> str:
    """What the field of one item of `ValidationError.errors()` has to be; of a `model` a field that
    it does not have gets the nearest name."""
    if model is not None and item["type"] == "extra_forbidden":
        return unknown_field(item["loc"], model)
    words = _WORDS.get(str(item["type"]))
    said = None if words is None else words(item)
    message = str(item.get("msg", "")) if said is None else said
    return message.removeprefix("Value error, ").removeprefix("Assertion failed, ")


def first_of(error: ValidationError) -> str:
    """The first field that is refused, with what it has to be: one line."""
    item = error.errors(include_url=False)[0]
    place = "/".join(str(part) for part in item["loc"])
    return f"{place}: {rule(item)}" if place else rule(item)


def errors_of(error: ValidationError, model: type[BaseModel]) -> list[FieldError]:
    """Each field of a model's JSON that is refused: its path, and what it has to be."""
    return [
        FieldError(
            "/" + "/".join(str(part) for part in item["loc"]),
            rule(item, model),
        )
        for item in error.errors(include_url=False)
    ]


def unknown_field(place: tuple[str | int, ...], model: type[BaseModel]) -> str:
    """The message on a field that a model's JSON does not have at this path, with the nearest
    name."""
    known = _names(model, place[:-1])
    near = get_close_matches(str(place[-1]), known, n=1)
    return "no such field" + (f": did you mean {near[0]}?" if near else "")


def _names(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """The names of the fields at a path of a model's JSON."""
    models: list[type[BaseModel]] = [model]
    for step in path:
        if isinstance(step, int):
            continue
        fields = [field for each in models for field in _fields(each).items()]
        inside = [_models(field.annotation) for name, field in fields if name == step]
        if inside:  # pydantic also names the branches of unions, which are no steps of the JSON
            models = [each for found in inside for each in found]
    return [name for each in models for name in _fields(each)]


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation names, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models(inner)]


def _one_of(item: Item) -> str | None:
    expected = str(item["ctx"]["expected"])
    names = re.findall(r"'([^']*)'", expected)
    if not names:
        return None
    sent = item.get("input")
    near = get_close_matches(sent, names, n=1) if isinstance(sent, str) else []
    asked = f"; did you mean {near[0]}?" if near else ""
    if len(names) == 1:
        return f"must be {names[0]}"
    return f"must be one of {', '.join(names[:-1])} or {names[-1]}{asked}"


def _size(unit: str, bound: str, words: str) -> Callable[[Item], str]:
    def told(item: Item) -> str:
        count = item["ctx"][bound]
        return f"must have at {words} {count} {unit}{'' if count == 1 else 's'}"

    return told


def _bound(name: str, words: str) -> Callable[[Item], str]:
    return lambda item: f"must be {words} {item['ctx'][name]}"


def _always(text: str) -> Callable[[Item], str]:
    return lambda _: text


def _pattern(item: Item) -> str | None:
    if item["ctx"]["pattern"] == _IDENTIFIER_OF_36:
        return "must be an id as the service gave it: 36 hexadecimal digits and dashes"
    return None


_WHOLE: Final = _always("must be a whole number")
_WORDS: Final[Mapping[str, Callable[[Item], str | None]]] = MappingProxyType(
    {
        "missing": _always("is needed"),
        "literal_error": _one_of,
        "enum": _one_of,
        "greater_than_equal": _bound("ge", "at least"),
        "greater_than": _bound("gt", "above"),
        "less_than_equal": _bound("le", "at most"),
        "less_than": _bound("lt", "below"),
        "int_type": _WHOLE,
        "int_parsing": _WHOLE,
        "int_from_float": _WHOLE,
        "float_type": _always("must be a number"),
        "float_parsing": _always("must be a number"),
        "bool_type": _always("must be true or false"),
        "bool_parsing": _always("must be true or false"),
        "string_type": _always("must be a text"),
        "list_type": _always("must be a list"),
        "tuple_type": _always("must be a list"),
        "dict_type": _always("must be an object"),
        "model_type": _always("must be an object"),
        "model_attributes_type": _always("must be an object"),
        "string_pattern_mismatch": _pattern,
        "string_too_short": _size("character", "min_length", "least"),
        "string_too_long": _size("character", "max_length", "most"),
        "too_short": _size("item", "min_length", "least"),
        "too_long": _size("item", "max_length", "most"),
    }
)
WORDED: Final = frozenset(_WORDS) - {"string_pattern_mismatch"}
"""Kinds of errors that have words of their own here, made of the rule alone."""
