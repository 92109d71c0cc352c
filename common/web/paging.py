"""Pages of a list: a `limit`, an opaque `cursor`, and the address of the next page in `Link`.

A cursor holds the sort key of the last item that was sent, so pages stay right while items are
added. It is opaque, not secret: it never holds what the reader may not see.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import urlencode

from fastapi import Depends, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from common.bodies import NUL
from tacit.errors import FieldError, Invalid

MAX_LIMIT: Final = 1000
DEFAULT_LIMIT: Final = 100
Key: TypeAlias = tuple[str | int, ...]


class BadCursor(Invalid):
    """The cursor was not made here."""

    name = "bad_cursor"
    title = "The cursor is not valid"


@dataclass(frozen=True, slots=True)
class Page:
    """The requested page: at most `limit` items that sort after the key `after`."""

    limit: int
    after: Key | None

    def after_text(self) -> str | None:
        """The key of a list sorted by one text column. Raises BadCursor."""
        match self.after:
            case None:
                return None
            case (str(text),):
                return text
        raise _bad_cursor()

    def after_number(self) -> int | None:
        """The key of a list sorted by one number from 0 to 2^63 - 1. Raises BadCursor."""
        match self.after:
            case None:
                return None
            case (int(number),) if 0 <= number < 2**63:
                return number
        raise _bad_cursor()

    def after_place(self) -> tuple[int, int, int] | None:
        """The key of a list sorted by three numbers from 0 to 2^63 - 1. Raises BadCursor."""
        match self.after:
            case None:
                return None
            case (int(first), int(second), int(third)) if all(
                0 <= number < 2**63 for number in (first, second, third)
            ):
                return first, second, third
        raise _bad_cursor()


def encode_cursor(*key: str | int) -> str:
    """The cursor that continues after the item with this sort key."""
    text = json.dumps(key, separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def decode_cursor(cursor: str) -> Key:
    """The sort key in a cursor; `BadCursor` if it holds none."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        key = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise _bad_cursor() from None
    if not isinstance(key, list) or not key or not all(map(_is_part, key)):
        raise _bad_cursor()
    return tuple(key)


def _is_part(part: object) -> bool:
    return type(part) is int or (isinstance(part, str) and NUL not in part)


def page(
    limit: Annotated[
        int, Query(ge=1, le=MAX_LIMIT, description="Most items in the answer.")
    ] = DEFAULT_LIMIT,
    cursor: Annotated[
        str | None, Query(max_length=1024, description="Where to continue, from `Link`.")
    ] = None,
) -> Page:
    """The dependency behind `PageQuery`."""
    return Page(limit, None if cursor is None else decode_cursor(cursor))


PageQuery: TypeAlias = Annotated[Page, Depends(page)]
"""The type of a route's parameter that takes `limit` and `cursor`."""


def page_response(
    request: Request,
    name: str,
    items: Sequence[Mapping[str, Any]],
    limit: int,
    key: str,
    *,
    total: int | None = None,
) -> Response:
    """A page of items under `name`; a full page has the address of the next one, after the `key`
    of the last item. `total`: how many there are on all pages, if stated."""
    headers = next_link(request, items[-1][key]) if len(items) == limit else None
    counted = {} if total is None else {"total": total}
    return JSONResponse({name: items, **counted}, headers=headers)


def next_link(request: Request, *key: str | int) -> dict[str, str]:
    """The header `Link` to the page after the item with this sort key; relative (RFC 8288)."""
    query = [(name, value) for name, value in request.query_params.multi_items()]
    query = [(name, value) for name, value in query if name != "cursor"]
    address = f"{request.url.path}?{urlencode([*query, ('cursor', encode_cursor(*key))])}"
    return {"Link": f'<{address}>; rel="next"'}


def _bad_cursor() -> BadCursor:
    return BadCursor(errors=(FieldError("/cursor", "This is not a cursor of this list", "query"),))
