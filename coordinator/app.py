"""The coordinator's routes. Each parses, calls one function of the domain, and answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import httpx
from fastapi import Depends, FastAPI, Request, Response
from fastapi import Query as Parameter
from pydantic import Field
from starlette.responses import JSONResponse

from common.models.base import Binary, WireModel, encode_binary, format_instant, parse_binary
from common.models.enrolment import Enrolment, GrantRequest
from common.models.query import Query
from common.models.round import RoundState
from common.service import idempotency
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
from common.service.database import check, exclusive, migrate, open_database, reading
from common.service.paging import PageQuery, next_link
from common.service.tokens import Scope, insert_token, list_tokens, mint, revoke_token
from common.service.wire import etag_response, read_body
from common.signing import Signed, fingerprint
from coordinator import examples, queries, registry, rounds, store
from coordinator.conductor import Conductor
from coordinator.errors import (
    FingerprintMismatch,
    NotReleased,
    RoundClosed,
    UnknownAggregator,
    UnknownParty,
    UnknownToken,
)
from coordinator.peers import Peers
from coordinator.rounds import Conduct, OpenRequest
from coordinator.settings import CoordinatorSettings
from coordinator.store import AggregatorRow, RoundRow

VERSION = "0.1.0"
MIGRATIONS = Path(__file__).parent / "migrations"
MAX_WAIT_S = 30.0
LOOK_S = 1.0

Operator = Annotated[Principal, Depends(require(Scope.OPERATOR))]
Analyst = Annotated[Principal, Depends(require(Scope.ANALYST))]
Reader = Annotated[Principal, Depends(require(Scope.ANALYST, Scope.CURATOR))]
Wait = Annotated[float, Parameter(ge=0, le=MAX_WAIT_S, description="Long poll: seconds to wait.")]


class AggregatorRequest(WireModel):
    """Pair an aggregator: its address, the token that it issued for this coordinator, and the
    fingerprint of its identity as its operator gave it."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=500)]
    token: Annotated[str, Field(min_length=32, max_length=512)]
    fingerprint: Annotated[Binary, Field(min_length=32, max_length=32)]


class TokenRequest(WireModel):
    """A new API token."""

    scope: Scope
    label: Annotated[str, Field(max_length=200)] = ""
    valid_s: Annotated[int, Field(ge=60)] | None = None


class Changes:
    """Wakes long polls when something changed in this process; others look once a second."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(min(seconds, LOOK_S)):
                await self._event.wait()
        except TimeoutError:
            return


def create_app(
    settings: CoordinatorSettings,
    *,
    clock: Clock | None = None,
    transports: Mapping[str, httpx.AsyncBaseTransport] | None = None,
) -> FastAPI:
    """The coordinator. `transports` replaces the network to given addresses (in-process use)."""
    time = clock or SystemClock()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        engine = open_database(settings.database())
        await migrate(engine, MIGRATIONS)
        await ensure_operator_token(engine, store.tokens, settings, time)
        async with engine.begin() as connection:
            await exclusive(connection, "identity")
            identity = await registry.load_identity(connection)
        peers = Peers(settings.aggregator_timeout_s, transports)
        changes = Changes()
        conduct = Conduct(engine, identity, settings.deployment, peers, time, settings.patience_s)
        conductor = Conductor(
            conduct, lease_s=settings.lease_s, poll_s=settings.poll_s, changed=changes.notify
        )
        url = settings.public_url or f"http://{settings.host}:{settings.port}"
        app.state.registry = registry.Registry(settings.deployment, identity, url, time)
        app.state.engine, app.state.conduct, app.state.conductor = engine, conduct, conductor
        app.state.changes, app.state.clock = changes, time
        app.state.authenticator = Authenticator(engine, store.tokens, time)
        install_authenticator(app, app.state.authenticator)
        add_readiness(app, "database", lambda: check(engine))
        conductor.start()
        try:
            yield
        finally:
            await conductor.stop()
            await peers.aclose()
            await engine.dispose()

    app = build_app(
        "coordinator",
        settings,
        lifespan,
        version=VERSION,
        description="Queries, rounds and results. It holds no share and no reading.",
        body_limits={"/v1/enrolments": settings.enrolment_max_body_bytes},
    )
    _add_registry(app, settings)
    _add_queries(app, settings)
    _add_rounds(app)
    return app


def _add_registry(app: FastAPI, settings: CoordinatorSettings) -> None:
    @app.get("/.well-known/tacit-coordinator", tags=["registry"], summary="Who this is")
    async def identity() -> dict[str, str]:
        key = app.state.registry.identity.public_key
        return {
            "deployment": settings.deployment,
            "identity_key": encode_binary(key),
            "fingerprint": fingerprint(key).hex(),
        }

    @app.post(
        "/v1/aggregators",
        tags=["registry"],
        status_code=201,
        summary="Pair an aggregator",
        openapi_extra=takes(AggregatorRequest),
    )
    async def pair(request: Request, _: Operator) -> dict[str, Any]:
        body = await read_body(request, AggregatorRequest)
        url = body.url.rstrip("/")
        document = await app.state.conduct.peers.identity(url)
        row = AggregatorRow(
            id=str(document["id"]),
            url=url,
            operator=str(document["operator"]),
            identity_key=parse_binary(document["identity_key"]),
            token=body.token,
        )
        if fingerprint(row.identity_key) != body.fingerprint:
            raise FingerprintMismatch
        async with app.state.engine.begin() as connection:
            await store.put_aggregator(connection, row, app.state.clock.now())
        return _aggregator(row)

    @app.get("/v1/aggregators", tags=["registry"], summary="The paired aggregators")
    async def aggregators(_: Reader) -> dict[str, Any]:
        async with reading(app.state.engine) as connection:
            rows = await store.list_aggregators(connection)
        return {"aggregators": [_aggregator(row) for row in rows]}

    @app.delete(
        "/v1/aggregators/{aggregator}", tags=["registry"], status_code=204, summary="Unpair one"
    )
    async def unpair(aggregator: str, _: Operator) -> None:
        async with app.state.engine.begin() as connection:
            if not await store.remove_aggregator(connection, aggregator, app.state.clock.now()):
                raise UnknownAggregator

    @app.post(
        "/v1/grants",
        tags=["registry"],
        status_code=201,
        summary="A one-time secret with which a party may enrol",
        openapi_extra=takes(GrantRequest, examples.GRANT),
    )
    async def grant(request: Request, _: Operator) -> Response:
        body = await read_body(request, GrantRequest)
        async with app.state.engine.begin() as connection:
            answer = await registry.issue_grant(connection, app.state.registry, body)
        return _json(answer, 201)

    @app.post(
        "/v1/enrolments",
        tags=["registry"],
        status_code=201,
        summary="Enrol a curator or a host with a one-time secret",
        openapi_extra=takes(Signed[Enrolment]),
    )
    async def enrol(request: Request) -> Response:
        body = await read_body(request, Signed[Enrolment])
        async with app.state.engine.begin() as connection:
            answer = await registry.enrol(connection, app.state.registry, body)
        return _json(answer, 201)

    @app.get("/v1/parties", tags=["registry"], summary="Curators and hosts, with their numbers")
    async def parties(request: Request, page: PageQuery, _: Operator) -> Response:
        async with reading(app.state.engine) as connection:
            found = await store.list_parties(connection, page.after_text(), page.limit)
        items = [
            {
                **item,
                "enrolled": item["enrolled"].isoformat(),
                "left": item["left"] and item["left"].isoformat(),
            }
            for item in found
        ]
        return _page(request, "parties", items, page.limit, "id")

    @app.get("/v1/curators", tags=["registry"], summary="The roster, by number")
    async def curators(request: Request, page: PageQuery, _: Operator) -> Response:
        after = None if page.after is None else int(page.after[0])
        async with reading(app.state.engine) as connection:
            found = await store.list_curators(connection, after, page.limit)
        return _page(request, "curators", found, page.limit, "number")

    @app.delete("/v1/parties/{party}", tags=["registry"], status_code=204, summary="A party leaves")
    async def leave(party: str, _: Operator) -> None:
        async with app.state.engine.begin() as connection:
            if not await store.leave(connection, party, app.state.clock.now()):
                raise UnknownParty

    @app.post(
        "/v1/tokens",
        tags=["registry"],
        status_code=201,
        summary="A new API token, shown once",
        openapi_extra=takes(TokenRequest, examples.TOKEN),
    )
    async def new_token(request: Request, _: Operator) -> dict[str, Any]:
        body = await read_body(request, TokenRequest)
        lifetime = None if body.valid_s is None else timedelta(seconds=body.valid_s)
        token, record = mint((body.scope,), app.state.clock, label=body.label, lifetime=lifetime)
        async with app.state.engine.begin() as connection:
            await insert_token(connection, store.tokens, record)
        return {"id": record.id, "token": token, "scopes": list(record.scopes)}

    @app.get("/v1/tokens", tags=["registry"], summary="Tokens, without their secrets")
    async def tokens(request: Request, page: PageQuery, _: Operator) -> Response:
        async with reading(app.state.engine) as connection:
            found = await list_tokens(
                connection, store.tokens, after=page.after_text(), limit=page.limit
            )
        items = [
            {
                "id": item.id,
                "scopes": list(item.scopes),
                "subject": item.subject,
                "label": item.label,
                "created": _time(item.created),
                "expires": _time(item.expires),
                "revoked": _time(item.revoked),
            }
            for item in found
        ]
        return _page(request, "tokens", items, page.limit, "id")

    @app.delete("/v1/tokens/{token_id}", tags=["registry"], status_code=204, summary="Revoke one")
    async def revoke(token_id: str, _: Operator) -> None:
        async with app.state.engine.begin() as connection:
            if not await revoke_token(connection, store.tokens, token_id, app.state.clock.now()):
                raise UnknownToken
        app.state.authenticator.forget()


def _add_queries(app: FastAPI, settings: CoordinatorSettings) -> None:
    @app.post(
        "/v1/queries",
        tags=["queries"],
        status_code=201,
        summary="Create a query; it is immutable",
        openapi_extra=takes(Query, examples.QUERY),
    )
    async def create(request: Request, caller: Operator) -> Response:
        body = await read_body(request, Query)
        key = await idempotency.request_key(request, caller.token_id)
        async with app.state.engine.begin() as connection:
            if stored := await idempotency.recall(connection, store.idempotency_keys, key):
                return stored.response()
            row, new = await queries.create(connection, body, settings, app.state.clock)
            content = _encode(_query(row))
            location = f"/v1/queries/{row.id}"
            answer = idempotency.StoredAnswer(201 if new else 200, content, location=location)
            await idempotency.remember(
                connection, store.idempotency_keys, key, answer, app.state.clock.now()
            )
        app.state.conductor.wake()
        return answer.response(replayed=False)

    @app.post(
        "/v1/queries/preview",
        tags=["queries"],
        summary="The privacy report and error forecast of a query, before anything is spent",
        openapi_extra=takes(Query, examples.QUERY),
    )
    async def preview(request: Request, _: Analyst) -> Response:
        body = await read_body(request, Query)
        async with reading(app.state.engine) as connection:
            return _json(await queries.preview(connection, body, settings))

    @app.get("/v1/queries", tags=["queries"], summary="All queries")
    async def listing(request: Request, page: PageQuery, _: Reader) -> Response:
        async with reading(app.state.engine) as connection:
            found = await store.list_queries(connection, page.after_text(), page.limit)
        return _page(request, "queries", [_query(row) for row in found], page.limit, "id")

    @app.get("/v1/queries/{query_id}", tags=["queries"], summary="One query with its preview")
    async def one(query_id: str, _: Reader) -> Response:
        async with reading(app.state.engine) as connection:
            row = await queries.find(connection, query_id)
        return Response(_encode(_query(row)), media_type="application/json")


def _add_rounds(app: FastAPI) -> None:
    @app.post(
        "/v1/rounds",
        tags=["rounds"],
        status_code=201,
        summary="Open a round of a query",
        openapi_extra=takes(OpenRequest, examples.ROUND),
    )
    async def open_round(request: Request, caller: Operator) -> Response:
        body = await read_body(request, OpenRequest)
        key = await idempotency.request_key(request, caller.token_id)
        keys, engine, clock = store.idempotency_keys, app.state.engine, app.state.clock
        async with engine.begin() as connection:
            if stored := await idempotency.recall(connection, keys, key):
                return stored.response()
            query = await queries.find(connection, body.query_id)
            await idempotency.reserve(connection, keys, key, clock.now())
        try:
            row = await rounds.open_round(app.state.conduct, query, body)
        except BaseException:
            async with engine.begin() as connection:
                await idempotency.release(connection, keys, key)
            raise
        answer = idempotency.StoredAnswer(
            201, _encode(_round(row)), location=f"/v1/rounds/{row.id}"
        )
        async with engine.begin() as connection:
            await idempotency.remember(connection, keys, key, answer, clock.now())
        app.state.conductor.wake()
        return answer.response(replayed=False)

    @app.get(
        "/v1/rounds",
        tags=["rounds"],
        summary="Rounds; `state=open` gives the signed descriptors, for curators",
    )
    async def listing(
        request: Request,
        page: PageQuery,
        _: Reader,
        state: RoundState | None = None,
        query_id: str | None = None,
        wait_s: Wait = 0,
    ) -> Response:
        seen = request.headers.get("if-none-match")
        end = asyncio.get_running_loop().time() + wait_s
        while True:
            async with reading(app.state.engine) as connection:
                found = await store.list_rounds(
                    connection,
                    state=state,
                    query_id=query_id,
                    announced=state is RoundState.OPEN,
                    after=page.after_text(),
                    limit=page.limit,
                )
            shown = [
                json.loads(row.descriptor) if state is RoundState.OPEN else _round(row)
                for row in found
            ]
            answer = etag_response(request, _encode({"rounds": shown}))
            left = end - asyncio.get_running_loop().time()
            unchanged = answer.status_code == 304 or (seen is None and not shown)
            if not unchanged or left <= 0:
                if len(found) == page.limit:
                    answer.headers.update(next_link(request, found[-1].id))
                return answer
            await app.state.changes.wait(left)

    @app.get("/v1/rounds/{round_id}", tags=["rounds"], summary="One round, long-polled by ETag")
    async def one(request: Request, round_id: str, _: Reader, wait_s: Wait = 0) -> Response:
        end = asyncio.get_running_loop().time() + wait_s
        while True:
            answer = etag_response(request, _encode(_round(await _find(app, round_id))))
            left = end - asyncio.get_running_loop().time()
            if answer.status_code != 304 or left <= 0:
                return answer
            await app.state.changes.wait(left)

    @app.get("/v1/rounds/{round_id}/descriptor", tags=["rounds"], summary="Signed descriptor")
    async def descriptor(request: Request, round_id: str, _: Reader) -> Response:
        row = await _find(app, round_id)
        return etag_response(request, row.descriptor.encode())

    @app.get("/v1/rounds/{round_id}/result", tags=["rounds"], summary="The released result")
    async def result(request: Request, round_id: str, caller: Analyst) -> Response:
        row = await _find(app, round_id)
        if row.result is None or row.report is None:
            raise NotReleased(extra={"state": row.state.value})
        del caller
        _, shown = rounds.descriptor_of(row)
        return etag_response(
            request,
            _encode(
                {
                    "format": "tacit.round-result/1",
                    "round": row.id,
                    "query_id": row.query_id,
                    "function": shown.query.function.value,
                    "unit": shown.query.unit,
                    "window": shown.window.model_dump(mode="json"),
                    "participants": row.participants,
                    "result": json.loads(row.result),
                    "report": json.loads(row.report),
                }
            ),
        )

    @app.get("/v1/rounds/{round_id}/report", tags=["rounds"], summary="The privacy report")
    async def report(request: Request, round_id: str, _: Analyst) -> Response:
        row = await _find(app, round_id)
        if row.report is None:
            raise NotReleased(extra={"state": row.state.value})
        return etag_response(request, row.report.encode())

    @app.get(
        "/v1/rounds/{round_id}/transcript",
        tags=["rounds"],
        summary="What anyone needs to check the sum",
    )
    async def transcript(request: Request, round_id: str, _: Reader) -> Response:
        row = await _find(app, round_id)
        if row.transcript is None:
            raise NotReleased(extra={"state": row.state.value})
        return etag_response(request, row.transcript.encode())

    @app.post("/v1/rounds/{round_id}/close", tags=["rounds"], summary="Freeze before the deadline")
    async def close(round_id: str, _: Operator) -> Response:
        async with app.state.engine.begin() as connection:
            row = await rounds.find(connection, round_id)
            if row.state is not RoundState.OPEN and not row.closing:
                raise RoundClosed(extra={"state": row.state.value})
            await store.change_round(connection, round_id, RoundState.OPEN, closing=True)
        app.state.conductor.wake()
        return _json_value(_round(await _find(app, round_id)), 202)

    @app.post("/v1/rounds/{round_id}/abort", tags=["rounds"], summary="End a round without a sum")
    async def abort(round_id: str, _: Operator) -> Response:
        row = await _find(app, round_id)
        if row.state is RoundState.RELEASED:
            raise RoundClosed(extra={"state": row.state.value})
        if row.state is not RoundState.ABORTED:
            await rounds.abort(app.state.conduct, row, "an operator aborted the round")
        return _json_value(_round(await _find(app, round_id)), 200)


# --- what is shown -------------------------------------------------------------------------------


async def _find(app: FastAPI, round_id: str) -> RoundRow:
    async with reading(app.state.engine) as connection:
        return await rounds.find(connection, round_id)


def _round(row: RoundRow) -> dict[str, Any]:
    _, descriptor = rounds.descriptor_of(row)
    return {
        "id": row.id,
        "query_id": row.query_id,
        "query": descriptor.query.name,
        "state": row.state.value,
        "reason": row.reason,
        "opened": _time(row.opened),
        "deadline": _time(row.deadline),
        "window": descriptor.window.model_dump(mode="json"),
        "descriptor_hash": descriptor.digest().hex(),
        "participants": row.participants if row.state is RoundState.RELEASED else None,
        "aggregators": [entry.id for entry in descriptor.aggregators],
        "finished": _time(row.finished),
        "aborts": [item.model_dump(mode="json") for item in rounds.aborts_of(row)],
    }


def _query(row: store.QueryRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "hash": row.query.digest().hex(),
        "created": _time(row.created),
        "query": row.query.model_dump(mode="json", exclude_none=True),
        "preview": json.loads(row.preview),
    }


def _aggregator(row: AggregatorRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "url": row.url,
        "operator": row.operator,
        "identity_key": encode_binary(row.identity_key),
        "fingerprint": fingerprint(row.identity_key).hex(),
    }


def _time(instant: datetime | None) -> str | None:
    return None if instant is None else format_instant(instant)


def _encode(value: Any) -> bytes:
    return json.dumps(value).encode()


def _json(model: WireModel, status: int = 200) -> Response:
    return Response(model.model_dump_json(), status, media_type="application/json")


def _json_value(value: Any, status: int) -> Response:
    return JSONResponse(value, status)


def _page(
    request: Request, name: str, items: list[dict[str, Any]], limit: int, key: str
) -> Response:
    headers = next_link(request, items[-1][key]) if len(items) == limit else None
    return JSONResponse({name: items}, headers=headers)
