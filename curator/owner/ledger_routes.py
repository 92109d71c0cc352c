"""The route that verifies the ledger of a whole process, for its operator."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI
from fastapi import Query as Parameter

from common.web.bodies import gives
from common.web.storable import LARGEST
from curator.owner import chain
from curator.web import DatabasePart, Operator
from tacit.answers.budget import LedgerVerification


def add_ledger(app: FastAPI) -> None:
    """Add the route to an app."""

    @app.get(
        "/v1/ledger/verification",
        **gives(LedgerVerification),
        tags=["owner"],
        summary="Look at every row of this process's ledger, also at a checkpoint that was kept",
    )
    async def verify_ledger(
        _: Operator,
        database: DatabasePart,
        seq: Annotated[
            int | None,
            Parameter(ge=0, le=LARGEST, description="The rows of a checkpoint that you kept."),
        ] = None,
        head: Annotated[
            str | None, Parameter(pattern="^[0-9a-f]{64}$", description="Its hash.")
        ] = None,
    ) -> dict[str, Any]:
        kept = None if seq is None or head is None else (seq, bytes.fromhex(head))
        async with database.reading() as transaction:
            found = await chain.verify(transaction, kept)
        broken = None
        if found.broken is not None:
            broken = {"row": found.broken[0], "reason": found.broken[1]}
        return {
            "verified": broken is None,
            "rows": found.rows,
            "head": found.head.hex(),
            "broken": broken,
        }
