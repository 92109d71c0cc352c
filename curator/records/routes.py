"""The routes that an owner uses to give a curator its own records."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi import Query as Parameter

from common.runtime.clock import Clock
from common.web.bodies import gives, takes
from common.web.parts import part
from common.web.wire import JSON, content_type, parse_json
from curator import examples
from curator.errors import BadRecords
from curator.owner import statement
from curator.records.records import RecordTable, checked, document, read_csv
from curator.store import records as store
from curator.web import DatabasePart, Owner
from tacit.answers.hosting import KeptTable
from tacit.errors import UnsupportedForm
from tacit.query.words import Identifier

CSV = "text/csv"
CuratorName = Annotated[
    Identifier | None, Parameter(description="Whose table a CSV body is (JSON names it itself).")
]


def add_records(app: FastAPI) -> None:
    """Add the routes to an app."""

    @app.post(
        "/v1/records",
        **gives(KeptTable),
        tags=["records"],
        summary="A curator's own table, CSV or JSON, in place of the one before",
        openapi_extra=takes(RecordTable, examples.RECORDS),
    )
    async def put_records(
        request: Request,
        caller: Owner,
        database: DatabasePart,
        clock: Annotated[Clock, Depends(part(Clock))],
        curator: CuratorName = None,
    ) -> dict[str, Any]:
        form, body = content_type(request), await request.body()
        if form == CSV:
            if curator is None:
                raise BadRecords("name the curator", pointer="/curator")
            columns, values = await asyncio.to_thread(read_csv, body)
        elif form == JSON:
            table = parse_json(body, RecordTable)
            curator, columns = table.curator, table.columns
            values = await asyncio.to_thread(checked, table)
        else:
            raise UnsupportedForm(extra={"supported": [CSV, JSON]})
        async with database.begin(large=True) as transaction:
            row, _ = await statement.find(transaction, curator, caller)
            await store.put_table(transaction, row.key, columns, values, clock.now())
        return {"curator": curator, **document(columns, len(values))}

    @app.get(
        "/v1/curators/{curator_id}/records",
        **gives(KeptTable),
        tags=["records"],
        summary="Columns and number of rows of a curator's table",
    )
    async def get_records(
        curator_id: Identifier, caller: Owner, database: DatabasePart
    ) -> dict[str, Any]:
        async with database.reading() as transaction:
            row, _ = await statement.find(transaction, curator_id, caller)
            found = await store.outline(transaction, row.key)
        columns, rows = found or ((), 0)
        return {"curator": curator_id, **document(columns, rows)}

    @app.delete(
        "/v1/curators/{curator_id}/records",
        tags=["records"],
        status_code=204,
        summary="Delete a curator's table; what was contributed stays as it was",
    )
    async def drop_records(curator_id: Identifier, caller: Owner, database: DatabasePart) -> None:
        async with database.begin() as transaction:
            row, _ = await statement.find(transaction, curator_id, caller)
            await store.drop_table(transaction, row.key)
