"""What no store of ours keeps, refused in one place before anything is asked of the store.

PostgreSQL keeps no NUL in a text, and both databases whole numbers of 64 bits with a sign.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from common.web.problems import pointer
from tacit.errors import FieldError, Invalid

NUL: Final = "\0"
LARGEST: Final = 2**63 - 1
_NO_NUL: Final = "must not contain the character U+0000"
_NO_SUCH_NUMBER: Final = "must be a number of 64 bits"
_ESCAPED: Final = b"\\u0000"
_DIGITS_AS_ONE: Final = bytes(ord("0") if chr(each).isdecimal() else each for each in range(256))
_LONG: Final = b"0" * 19
"""Digits of the least number that does not fit."""


def may_be_unstorable(body: bytes) -> bool:
    """Whether a JSON text could hold such a value: two searches, far cheaper than to parse it."""
    return _ESCAPED in body or _LONG in body.translate(_DIGITS_AS_ONE)


def refuse_unstorable(value: object) -> None:
    """Raise Invalid with the places of such values in what was parsed from a body."""
    found: list[FieldError] = []
    pending: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    while pending:
        place, here = pending.pop()
        inner: Iterable[tuple[str | int, object]] = ()
        if isinstance(here, str):
            _note_text(found, place, here)
        elif isinstance(here, int) and not -LARGEST - 1 <= here <= LARGEST:
            found.append(FieldError(pointer(place), _NO_SUCH_NUMBER))
        elif isinstance(here, dict):
            for key in here:
                _note_text(found, place, key)
            inner = here.items()
        elif isinstance(here, list):
            inner = enumerate(here)
        pending.extend(((*place, key), item) for key, item in inner)
    _refuse(found)


def refuse_unstorable_address(scope: Scope, routes: Iterable[BaseRoute]) -> None:
    """Raise Invalid for a NUL in the path or the query of a request, naming the parameter."""
    if NUL not in scope["path"] and b"%00" not in scope["query_string"]:
        return
    found = [
        FieldError(pointer([name]), _NO_NUL, "query")
        for name, text in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if NUL in text
    ]
    for route in routes:
        match, below = route.matches(scope)
        if match is Match.FULL:
            named: Mapping[str, Any] = below.get("path_params", {})
            found += [
                FieldError(pointer([name]), _NO_NUL, "path")
                for name, text in named.items()
                if NUL in str(text)
            ]
            break
    _refuse(found)


def refuse_unstorable_fields(fields: Mapping[str, str]) -> None:
    """The same for the fields of a form."""
    _refuse([FieldError(pointer([name]), _NO_NUL) for name, text in fields.items() if NUL in text])


def _note_text(found: list[FieldError], place: tuple[str | int, ...], text: object) -> None:
    if isinstance(text, str) and NUL in text:
        found.append(FieldError(pointer(place), _NO_NUL))


def _refuse(found: list[FieldError]) -> None:
    if found:
        raise Invalid("a value of the request cannot be stored", errors=found)
