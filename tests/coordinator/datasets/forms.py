"""Files handed in as forms."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.coordinator.double import House

CSV = b"x,y\n1,2\n3,4.5\n"


async def hand_in(
    it: House, content: bytes = CSV, key: str | None = None, **fields: Any
) -> httpx.Response:
    """A form with a file; a field given as None is left out."""
    said = {"name": "test", "kind": "numeric-table", "format": "csv", **fields}
    form = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in said.items()
        if value is not None
    }
    files = {"file": ("data", content)}
    headers = {} if key is None else {"Idempotency-Key": key}
    return await it.ask("POST", "/v1/datasets", data=form, files=files, headers=headers)
