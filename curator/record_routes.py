"""The routes by which an owner gives a curator its own records."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi import Query as Parameter

from common.errors import UnsupportedForm
from common.models.query import Identifier
from common.service.auth import Principal, require
from common.service.bodies import takes
from common.service.database import reading
from common.service.tokens import Scope
from common.service.wire import JSON, content_type, parse_json
from curator import examples, owner
from curator.errors import BadRecords
from curator.records import RecordTable, checked, document, read_csv
from curator.service import Service
from curator.store import records as store

CSV = "text/csv"
Owner = Annotated[Principal, Depends(require(Scope.OPERATOR, Scope.CURATOR))]
CuratorName = Annotated[
    Identifier | None, Parameter(description="Whose table a CSV body is (JSON names it itself).")
]


def add_records(app: FastAPI) -> None:
    """Add the routes to an app."""

    @app.post(
        "/v1/records",
        tags=["records"],
        summary="A curator's own table, CSV or JSON, in place of the one before",
        openapi_extra=takes(RecordTable, examples.RECORDS),
    )
    async def put(request: Request, caller: Owner, curator: CuratorName = None) -> dict[str, Any]:
        form, body = content_type(request), await request.body()
        if form == CSV:
            if curator is None:
                raise BadRecords("name the curator", pointer="/curator")
            try:
                columns, values = await asyncio.to_thread(read_csv, body.decode("utf-8-sig"))
            except UnicodeDecodeError:
                raise BadRecords("the text is not UTF-8") from None
        elif form == JSON:
            table = parse_json(body, RecordTable)
            curator, columns = table.curator, table.columns
            values = await asyncio.to_thread(checked, table)
        else:
            raise UnsupportedForm(extra={"supported": [CSV, JSON]})
        service = _service(app)
        async with service.engine.begin() as connection:
            row, _ = await owner.find(connection, curator, caller)
            await store.put_table(connection, row.key, columns, values, service.clock.now())
        return {"curator": curator, **document(columns, len(values))}

    @app.get(
        "/v1/curators/{curator_id}/records",
        tags=["records"],
        summary="Columns and number of rows of a curator's table",
    )
    async def outline(curator_id: Identifier, caller: Owner) -> dict[str, Any]:
        async with reading(_service(app).engine) as connection:
            row, _ = await owner.find(connection, curator_id, caller)
            found = await store.outline(connection, row.key)
        columns, rows = found or ((), 0)
        return {"curator": curator_id, **document(columns, rows)}

    @app.delete(
        "/v1/curators/{curator_id}/records",
        tags=["records"],
        status_code=204,
        summary="Delete a curator's table; what was contributed stays as it was",
    )
    async def drop(curator_id: Identifier, caller: Owner) -> None:
        async with _service(app).engine.begin() as connection:
            row, _ = await owner.find(connection, curator_id, caller)
            await store.drop_table(connection, row.key)


def _service(app: FastAPI) -> Service:
    service: Service = app.state.service
    return service
