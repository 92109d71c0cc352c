"""The routes of policies: the default one, and a curator's own."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response

from common.store.transactions import Database
from common.web.bodies import takes
from common.web.parts import part
from common.web.wire import read_body
from curator import examples
from curator.errors import UnknownCurator
from curator.owner import statement
from curator.owner.policies import Policies
from curator.policy import Policy
from curator.store import parties as store
from curator.web import CuratorId, DatabasePart, Operator, Owner, answer

Defaults = Annotated[Policies, Depends(part(Policies))]


def add_policy(app: FastAPI) -> None:
    """Add the routes to an app."""

    @app.get("/v1/policy", tags=["policy"], summary="The default policy of this process")
    async def policy(_: Operator, policies: Defaults) -> Response:
        return answer(await policies.current())

    @app.put(
        "/v1/policy",
        tags=["policy"],
        summary="Set the default policy; it holds from the next contribution on",
        openapi_extra=takes(Policy, examples.POLICY),
    )
    async def put_policy(request: Request, _: Operator, policies: Defaults) -> Response:
        body = await read_body(request, Policy)
        await policies.put(body)
        return answer(body)

    @app.get("/v1/curators/{curator_id}/policy", tags=["policy"], summary="A curator's policy")
    async def own_policy(
        curator_id: CuratorId, caller: Owner, database: DatabasePart, policies: Defaults
    ) -> Response:
        async with database.reading() as transaction:
            row, _ = await statement.find(transaction, curator_id, caller)
        if row.policy is None:
            return answer(await policies.current())
        return answer(Policy.model_validate_json(row.policy))

    @app.put(
        "/v1/curators/{curator_id}/policy",
        tags=["policy"],
        summary="Give a curator a policy of its own",
        openapi_extra=takes(Policy, examples.POLICY),
    )
    async def put_own_policy(
        request: Request, curator_id: CuratorId, _: Operator, database: DatabasePart
    ) -> Response:
        body = await read_body(request, Policy)
        await _set_policy(database, curator_id, body.model_dump_json())
        return answer(body)

    @app.delete(
        "/v1/curators/{curator_id}/policy",
        tags=["policy"],
        status_code=204,
        summary="Let the default policy hold for a curator again",
    )
    async def drop_own_policy(curator_id: CuratorId, _: Operator, database: DatabasePart) -> None:
        await _set_policy(database, curator_id, None)


async def _set_policy(database: Database, curator_id: str, text: str | None) -> None:
    async with database.begin() as transaction:
        if not await store.set_policy(transaction, curator_id, text):
            raise UnknownCurator
