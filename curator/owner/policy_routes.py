"""The routes of policies: the default one, and a curator's own."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, FastAPI, Query, Request, Response

from common.runtime.clock import Clock
from common.store.transactions import Transaction
from common.web.auth import Principal
from common.web.bodies import gives, takes
from common.web.parts import part
from common.web.tokens import Scope
from common.web.wire import read_body
from curator import examples
from curator.owner import statement, tried
from curator.owner.policies import Policies
from curator.owner.stricter import check_stricter
from curator.owner.tried import Tried
from curator.policy import Policy, agreed
from curator.store import parties as store
from curator.store.parties import CuratorRow
from curator.web import CuratorId, DatabasePart, Operator, Owner, answer

Defaults = Annotated[Policies, Depends(part(Policies))]
ClockPart = Annotated[Clock, Depends(part(Clock))]
Of = Annotated[
    Literal["operator", "owner"] | None,
    Query(description="Whose; else the caller's own. Of an owner without one: the operator's."),
]


def add_policy(app: FastAPI) -> None:
    """Add the routes to an app."""

    @app.get(
        "/v1/policy", **gives(Policy), tags=["policy"], summary="The default policy of this process"
    )
    async def get_policy(_: Operator, policies: Defaults) -> Response:
        return answer(await policies.current())

    @app.put(
        "/v1/policy",
        **gives(Policy),
        tags=["policy"],
        summary="Set the default policy; it holds from the next contribution on",
        openapi_extra=takes(Policy, examples.POLICY),
    )
    async def put_policy(request: Request, _: Operator, policies: Defaults) -> Response:
        body = await read_body(request, Policy)
        await policies.put(body)
        return answer(body)

    @app.post(
        "/v1/policy/preview",
        tags=["policy"],
        summary="Which rounds of the last 30 days a policy would have answered",
        openapi_extra=takes(Policy, examples.POLICY),
        response_model=Tried,
    )
    async def preview_policy(
        request: Request, _: Operator, database: DatabasePart, clock: ClockPart
    ) -> Response:
        body = await read_body(request, Policy)
        return answer(await tried.try_on(database, (body,), clock.now(), None))

    @app.get(
        "/v1/curators/{curator_id}/policy",
        **gives(Policy),
        tags=["policy"],
        summary="A curator's policy",
    )
    async def get_own_policy(
        curator_id: CuratorId,
        caller: Owner,
        database: DatabasePart,
        policies: Defaults,
        of: Of = None,
    ) -> Response:
        async with database.reading() as transaction:
            row, _ = await statement.find(transaction, curator_id, caller)
        operators, *owners = agreed(await policies.current(), row.policy, row.owner_policy)
        by_owner = _by_owner(caller) if of is None else of == "owner"
        return answer(owners[0] if owners and by_owner else operators)

    @app.put(
        "/v1/curators/{curator_id}/policy",
        **gives(Policy),
        tags=["policy"],
        summary="Give a curator a policy of its own; an owner's is no wider than the operator's",
        openapi_extra=takes(Policy, examples.POLICY),
    )
    async def put_own_policy(
        request: Request,
        curator_id: CuratorId,
        caller: Owner,
        database: DatabasePart,
        policies: Defaults,
    ) -> Response:
        body = await read_body(request, Policy)
        default = await policies.current()
        async with database.begin() as transaction:
            await set_own(transaction, curator_id, caller, default, body)
        return answer(body)

    @app.delete(
        "/v1/curators/{curator_id}/policy",
        tags=["policy"],
        status_code=204,
        summary="Delete your override of a curator's policy",
    )
    async def drop_own_policy(
        curator_id: CuratorId, caller: Owner, database: DatabasePart, policies: Defaults
    ) -> None:
        default = await policies.current()
        async with database.begin() as transaction:
            await set_own(transaction, curator_id, caller, default, None)

    @app.post(
        "/v1/curators/{curator_id}/policy/preview",
        tags=["policy"],
        summary="Which rounds of the last 30 days a curator would have answered with a policy",
        openapi_extra=takes(Policy, examples.POLICY),
        response_model=Tried,
    )
    async def preview_own_policy(
        request: Request,
        curator_id: CuratorId,
        caller: Owner,
        database: DatabasePart,
        policies: Defaults,
        clock: ClockPart,
    ) -> Response:
        body = await read_body(request, Policy)
        async with database.reading() as transaction:
            of = await statement.find(transaction, curator_id, caller)
        both = beside(body, of[0], caller, await policies.current())
        return answer(await tried.try_on(database, both, clock.now(), of))


def _by_owner(caller: Principal) -> bool:
    return not caller.has(Scope.OPERATOR)


def beside(
    asked: Policy, row: CuratorRow, caller: Principal, default: Policy
) -> tuple[Policy, ...]:
    """A caller's policy for a curator beside that of the other, as both would hold."""
    text = asked.model_dump_json()
    if _by_owner(caller):
        return agreed(default, row.policy, text)
    return agreed(default, text, row.owner_policy)


async def set_own(
    transaction: Transaction,
    curator_id: str,
    caller: Principal,
    default: Policy,
    asked: Policy | None,
) -> None:
    """Set the caller's own policy for a curator, or take it back.

    Raises ForeignCurator, UnknownCurator, WiderThanTheOperators.
    """
    row, _ = await statement.find(transaction, curator_id, caller)
    by_owner = _by_owner(caller)
    if asked is not None and by_owner:
        check_stricter(asked, agreed(default, row.policy, None)[0])
    text = None if asked is None else asked.model_dump_json()
    await store.set_policy(transaction, row.key, text, by_owner=by_owner)
