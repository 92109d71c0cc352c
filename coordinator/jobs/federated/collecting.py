"""The long poll of curators for the jobs that collect reports now."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request, Response

from common.web.wire import etag_response
from coordinator.jobs.federated.reports import Collection
from coordinator.rounds.changes import Changes
from coordinator.web import encode


async def collecting(
    request: Request, collection: Collection, changes: Changes, wait_s: float
) -> Response:
    """The signed descriptors of the jobs that collect reports now, each with its hash."""
    first_look = request.headers.get("if-none-match") is None
    looked = changes.shared("collecting", collection.descriptors)

    async def look() -> tuple[Response, bool]:
        found = await looked()
        items: list[dict[str, Any]] = [
            {
                "id": item.statement.job,
                "algorithm": item.statement.algorithm,
                "hash": item.statement.digest().hex(),
                "descriptor": json.loads(item.model_dump_json()),
            }
            for item in found
        ]
        answer = etag_response(request, encode({"jobs": items}))
        return answer, answer.status_code == 304 or (first_look and not items)

    return await changes.poll(look, wait_s, key="collecting")
