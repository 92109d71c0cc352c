"""Parts of a service reach routes by their type."""

from __future__ import annotations

from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI

from common.web.dependencies import part, part_of, provide


class Store:
    """A part."""

    name = "store"


class Durable(Store):
    """A part of a derived type."""

    name = "durable"


class Ledger:
    """Another part."""


async def test_a_route_gets_its_part_by_type():
    app = FastAPI()

    @app.get("/")
    async def name(store: Annotated[Store, Depends(part(Store))]) -> str:
        return store.name

    provide(app, Durable(), Ledger())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        assert (await client.get("/")).json() == "durable"


def test_no_part_and_two_parts_are_refused():
    app = FastAPI()
    with pytest.raises(LookupError, match="0 parts of type Store"):
        part_of(app, Store)
    provide(app, Store(), Durable(), Ledger())
    with pytest.raises(LookupError, match="2 parts of type Store"):
        part_of(app, Store)
    assert isinstance(part_of(app, Durable), Durable)
