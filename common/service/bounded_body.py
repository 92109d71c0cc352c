"""A body whose size is decided when its first bytes arrive: after a look at who sends it."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request

from common.errors import UnsupportedForm
from common.service.body_limit import BodyTooLarge
from common.service.problems import MalformedBody
from common.service.wire import CBOR, JSON, M, content_type, parse_cbor, parse_json

READ_S: Final = 300.0
"""How long such a body may take to arrive."""


async def read_within(request: Request, model: type[M], limit: int, detail: str) -> M:
    """The body as `model`, if it ends before the limit and arrives in time; parsed in a thread.

    Raises BodyTooLarge with `detail`, and what `wire.read_body` raises.
    """
    form = content_type(request)
    if form not in (JSON, CBOR):
        raise UnsupportedForm(extra={"supported": [JSON, CBOR]})
    too_large = BodyTooLarge(detail, extra={"max_body_bytes": limit})
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    chunks, size = [], 0
    try:
        async with asyncio.timeout(READ_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise too_large
                chunks.append(chunk)
    except TimeoutError:
        raise MalformedBody("The body did not arrive in time") from None
    body = b"".join(chunks)
    chunks.clear()
    return await asyncio.to_thread(parse_json if form == JSON else parse_cbor, body, model)
