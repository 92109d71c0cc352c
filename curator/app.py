"""The curator's routes. Each parses, calls one function of the domain, and answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import httpx
from fastapi import Depends, FastAPI, Request, Response
from fastapi import Path as PathParameter
from fastapi import Query as Parameter
from pydantic import Field
from starlette.responses import JSONResponse

from common.errors import StartRefused
from common.models.base import WireModel, format_instant
from common.models.query import Identifier
from common.service.app import add_readiness, build_app
from common.service.auth import (
    Authenticator,
    Principal,
    ensure_operator_token,
    install_authenticator,
    require,
)
from common.service.bodies import takes
from common.service.clock import Clock, SystemClock
from common.service.database import check, migrate, open_store, reading
from common.service.leader import Leader
from common.service.memory import give_back
from common.service.paging import PageQuery, next_link
from common.service.token_routes import NewToken, add_tokens
from common.service.tokens import Scope
from common.service.wire import read_body
from curator import chain, examples, owner
from curator.active import Active, connected
from curator.errors import BadItem, BadMapping, UnknownCurator
from curator.intake_routes import add_intake
from curator.policy import Policy
from curator.record_routes import add_records
from curator.service import Service, build
from curator.settings import CuratorSettings
from curator.store import parties as party_store
from curator.store.parties import PartyRow
from curator.store.tables import tokens as token_table

if TYPE_CHECKING:
    from curator.mqtt.connection import Connection

VERSION = "0.1.0"
MIGRATIONS = Path(__file__).parent / "migrations"

Operator = Annotated[Principal, Depends(require(Scope.OPERATOR))]
Owner = Annotated[Principal, Depends(require(Scope.OPERATOR, Scope.CURATOR))]
CuratorId = Annotated[str, PathParameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$")]


class EnrolmentRequest(WireModel):
    """A join token; a host names its curators, in the order of their roster numbers."""

    token: Annotated[str, Field(min_length=16, max_length=100_000)]
    curators: tuple[Identifier, ...] | None = None


def create_app(
    settings: CuratorSettings,
    *,
    clock: Clock | None = None,
    transports: Mapping[str, httpx.AsyncBaseTransport] | None = None,
) -> FastAPI:
    """The curator service. `transports` replaces the network to given addresses (in-process use).

    `app.state.service` holds its parts while the app runs.
    """
    time = clock or SystemClock()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = open_store(settings)
        await migrate(engine, MIGRATIONS)
        await ensure_operator_token(engine, token_table, settings, time)
        service = await build(engine, settings, time, app.state.metrics, transports)
        app.state.service = service
        install_authenticator(app, Authenticator(engine, token_table, time))
        add_readiness(app, "database", lambda: check(engine))
        add_readiness(app, "erasure", service.participation.erasure.readiness)
        meters = await _meters(app, service)
        part = Active(service, meters)
        leader = Leader(engine, "curator", part.start, part.stop)
        if meters is not None:
            add_readiness(app, "mqtt", partial(connected, leader, meters))
        await leader.start()
        try:
            yield
        finally:
            await leader.stop()
            await service.peers.aclose()
            await engine.dispose()

    app = build_app(
        "curator",
        settings,
        lifespan,
        version=VERSION,
        description="Readings in, sealed contributions out. It keeps what it is told to itself.",
        body_limits={
            "/v1/readings/import": settings.import_max_body_bytes,
            "/v1/records": settings.import_max_body_bytes,
            "/v1/enrolments": 256 * 1024 * 1024,
        },
    )
    _add_parties(app)
    add_tokens(
        app,
        token_table,
        time,
        lambda: _service(app).engine,
        check=partial(_check_token, app),
        revoked=lambda: None,
        example=examples.TOKEN,
    )
    _add_policy(app)
    _add_owner(app)
    _add_ledger(app)
    add_intake(app, settings)
    add_records(app)
    return app


async def _meters(app: FastAPI, service: Service) -> Connection | None:
    """The connection to the meters' broker, running, if the settings name one."""
    if service.settings.mqtt_host is None:
        return None
    try:
        from curator.mqtt.start import connection
    except ModuleNotFoundError:
        raise StartRefused("TACIT_MQTT_HOST needs the extra `mqtt`") from None
    try:
        meters = await asyncio.to_thread(connection, service, app.state.metrics)
    except BadMapping as error:
        raise StartRefused(error.detail) from None
    return meters


def _service(app: FastAPI) -> Service:
    service: Service = app.state.service
    return service


def _add_parties(app: FastAPI) -> None:
    @app.post(
        "/v1/enrolments",
        tags=["parties"],
        status_code=201,
        summary="Enrol a curator or a host with its join token; safe to repeat",
        openapi_extra=takes(EnrolmentRequest, examples.ENROLMENT),
    )
    async def enrol(request: Request, _: Operator) -> dict[str, Any]:
        body = await read_body(request, EnrolmentRequest)
        service = _service(app)
        row = await service.enroller.enrol(body.token, body.curators)
        async with reading(service.engine) as connection:
            await service.intake.hosted.load(connection)
        await asyncio.to_thread(give_back)
        service.participation.wake()
        return _party(row)

    @app.get("/v1/parties", tags=["parties"], summary="The parties that are hosted here")
    async def parties(_: Operator) -> dict[str, Any]:
        async with reading(_service(app).engine) as connection:
            found = await party_store.list_parties(connection)
        return {"parties": [_party(row) for row in found]}


async def _check_token(app: FastAPI, asked: NewToken) -> None:
    if asked.scope not in (Scope.OPERATOR, Scope.DEVICE, Scope.CURATOR):
        raise BadItem("is operator, device or curator", pointer="/scope")
    if asked.scope is Scope.OPERATOR:
        if asked.subject is not None:
            raise BadItem("an operator's token belongs to no curator", pointer="/subject")
        return
    intake = _service(app).intake
    await intake.look()
    if asked.subject is None or intake.hosted.curator(asked.subject) is None:
        raise UnknownCurator(pointer="/subject")


def _add_policy(app: FastAPI) -> None:
    @app.get("/v1/policy", tags=["policy"], summary="The default policy of this process")
    async def policy(_: Operator) -> Response:
        return _model(await _service(app).policies.current())

    @app.put(
        "/v1/policy",
        tags=["policy"],
        summary="Set the default policy; it holds from the next contribution on",
        openapi_extra=takes(Policy, examples.POLICY),
    )
    async def put_policy(request: Request, _: Operator) -> Response:
        body = await read_body(request, Policy)
        await _service(app).policies.put(body)
        return _model(body)

    @app.get("/v1/curators/{curator_id}/policy", tags=["policy"], summary="A curator's policy")
    async def own_policy(curator_id: CuratorId, caller: Owner) -> Response:
        service = _service(app)
        async with reading(service.engine) as connection:
            row, _ = await owner.find(connection, curator_id, caller)
        if row.policy is None:
            return _model(await service.policies.current())
        return _model(Policy.model_validate_json(row.policy))

    @app.put(
        "/v1/curators/{curator_id}/policy",
        tags=["policy"],
        summary="Give a curator a policy of its own",
        openapi_extra=takes(Policy, examples.POLICY),
    )
    async def put_own_policy(request: Request, curator_id: CuratorId, _: Operator) -> Response:
        body = await read_body(request, Policy)
        await _set_policy(app, curator_id, body.model_dump_json())
        return _model(body)

    @app.delete(
        "/v1/curators/{curator_id}/policy",
        tags=["policy"],
        status_code=204,
        summary="Let the default policy hold for a curator again",
    )
    async def drop_own_policy(curator_id: CuratorId, _: Operator) -> None:
        await _set_policy(app, curator_id, None)


async def _set_policy(app: FastAPI, curator_id: str, text: str | None) -> None:
    async with _service(app).engine.begin() as connection:
        if not await party_store.set_policy(connection, curator_id, text):
            raise UnknownCurator


def _add_owner(app: FastAPI) -> None:
    @app.get(
        "/v1/curators/{curator_id}/budget",
        tags=["owner"],
        summary="The ledger statement: what was spent, what is left",
    )
    async def budget(curator_id: CuratorId, caller: Owner) -> dict[str, Any]:
        service = _service(app)
        async with reading(service.engine) as connection:
            row, party = await owner.find(connection, curator_id, caller)
            return await owner.budget(
                connection, row, party, await service.policies.current(), service.clock.now()
            )

    @app.get(
        "/v1/curators/{curator_id}/contributions",
        tags=["owner"],
        summary="Rounds this curator contributed to or refused, newest first",
    )
    async def contributions(
        request: Request, curator_id: CuratorId, page: PageQuery, caller: Owner
    ) -> Response:
        after = None if page.after is None else int(page.after[0])
        async with reading(_service(app).engine) as connection:
            row, party = await owner.find(connection, curator_id, caller)
            items, following = await owner.contributions(connection, row, party, after, page.limit)
        headers = None if following is None else next_link(request, following)
        return JSONResponse({"contributions": items}, headers=headers)

    @app.get(
        "/v1/curators/{curator_id}/readings",
        tags=["owner"],
        summary="How many readings were accepted, refused, used, clamped",
    )
    async def readings(curator_id: CuratorId, caller: Owner) -> dict[str, Any]:
        async with reading(_service(app).engine) as connection:
            row, party = await owner.find(connection, curator_id, caller)
            return await owner.reading_counts(connection, row, party)


def _add_ledger(app: FastAPI) -> None:
    @app.get(
        "/v1/ledger/verification",
        tags=["owner"],
        summary="Look at every row of this process's ledger, also at a checkpoint that was kept",
    )
    async def verification(
        _: Operator,
        seq: Annotated[
            int | None, Parameter(ge=0, description="The rows of a checkpoint that somebody kept.")
        ] = None,
        head: Annotated[
            str | None, Parameter(pattern="^[0-9a-f]{64}$", description="Its hash.")
        ] = None,
    ) -> dict[str, Any]:
        kept = None if seq is None or head is None else (seq, bytes.fromhex(head))
        async with reading(_service(app).engine) as connection:
            found = await chain.verify(connection, kept)
        broken = None
        if found.broken is not None:
            broken = {"row": found.broken[0], "reason": found.broken[1]}
        return {
            "verified": broken is None,
            "rows": found.rows,
            "head": found.head.hex(),
            "broken": broken,
        }


def _party(row: PartyRow) -> dict[str, Any]:
    return {
        "party": row.id,
        "kind": row.kind.value,
        "state": row.state,
        "deployment": row.deployment,
        "coordinator": row.coordinator_url,
        "first": row.first,
        "curators": row.curators,
        "aggregators": [
            {"id": a.aggregator, "url": a.url, "fingerprint": a.fingerprint.hex()}
            for a in row.anchors
        ],
        "enrolled": None if row.enrolled is None else format_instant(row.enrolled),
    }


def _model(value: WireModel) -> Response:
    return Response(value.model_dump_json(exclude_none=True), media_type="application/json")
