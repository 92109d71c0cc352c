"""Pages of a list: a `limit`, an opaque `cursor`, and the address of the next page in `Link`.

A cursor holds the sort key of the last item that was sent, so pages stay right while items are
added. It is opaque, not secret: it never holds what the reader may not see.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias
from urllib.parse import urlencode

from fastapi import Depends, Query
from starlette.requests import Request

from common.errors import FieldError, Invalid

MAX_LIMIT: Final = 1000
DEFAULT_LIMIT: Final = 100
Key: TypeAlias = tuple[str | int, ...]


class BadCursor(Invalid):
    """The cursor was not made here."""

    name = "bad_cursor"
    title = "The cursor is not valid"


@dataclass(frozen=True, slots=True)
class Page:
    """Which page is asked for: at most `limit` items that sort after the key `after`."""

    limit: int
    after: Key | None

    def after_text(self) -> str | None:
        """The key of a list sorted by one text column."""
        if self.after is None:
            return None
        if len(self.after) != 1 or not isinstance(self.after[0], str):
            raise _bad_cursor()
        return self.after[0]


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
    if not isinstance(key, list) or not key or not all(type(part) in (str, int) for part in key):
        raise _bad_cursor()
    return tuple(key)


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


def next_link(request: Request, *key: str | int) -> dict[str, str]:
    """The header `Link` to the page after the item with this sort key; relative (RFC 8288)."""
    query = [(name, value) for name, value in request.query_params.multi_items()]
    query = [(name, value) for name, value in query if name != "cursor"]
    address = f"{request.url.path}?{urlencode([*query, ('cursor', encode_cursor(*key))])}"
    return {"Link": f'<{address}>; rel="next"'}


def _bad_cursor() -> BadCursor:
    return BadCursor(errors=(FieldError("/cursor", "This is not a cursor of this list", "query"),))
