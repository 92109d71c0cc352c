"""Tokens and who may do what."""

import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI
from sqlalchemy import MetaData
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from common.principals import Principal, Scope, ScopeMissing
from common.runtime.clock import ManualClock
from common.runtime.settings import ServiceSettings
from common.store.tokens import (
    find_token,
    hash_token,
    insert_token,
    list_tokens,
    mint,
    revoke_subject,
    revoke_token,
    token_table,
)
from common.store.transactions import Database
from common.web.app import build_app
from common.web.auth import (
    Authenticator,
    TokenUnknown,
    authenticate,
    ensure_operator_token,
    install_authenticator,
    require,
)
from common.web.problems import problem_response

Running = Callable[[FastAPI], AbstractAsyncContextManager[httpx.AsyncClient]]
metadata = MetaData()
table = token_table(metadata)


async def issue(
    store: Database,
    clock: ManualClock,
    *scopes: Scope,
    subject: str | None = None,
    lifetime: timedelta | None = None,
) -> str:
    token, record = mint(scopes, clock, subject=subject, label="test", lifetime=lifetime)
    async with store.begin() as transaction:
        await insert_token(transaction, table, record)
    return token


def make_app(tmp_path: Path, authenticator: Authenticator) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        install_authenticator(app, authenticator)
        yield

    app = build_app("probe", ServiceSettings(data_dir=tmp_path), lifespan, version="1")

    @app.get("/analyst")
    async def analyst(who: Annotated[Principal, Depends(require(Scope.ANALYST))]) -> str:
        return who.subject or "nobody"

    @app.get("/pieces")
    async def pieces(
        who: Annotated[Principal, Depends(require(Scope.CURATOR, Scope.DEVICE))],
    ) -> str:
        return who.subject or "nobody"

    async def plain(request: Request) -> Response:
        try:
            who = await authenticate(request)
            who.demand(Scope.CURATOR)
        except Exception as error:
            return problem_response(error)
        return JSONResponse(who.subject)

    app.add_route("/plain", plain)
    return app


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_scopes(
    store: Database, clock: ManualClock, tmp_path: Path, running: Running
) -> None:
    operator = await issue(store, clock, Scope.OPERATOR)
    curator = await issue(store, clock, Scope.CURATOR, subject="c-1")
    app = make_app(tmp_path, Authenticator(store, table, clock))
    async with running(app) as client:
        assert (await client.get("/analyst", headers=bearer(operator))).status_code == 200
        assert (await client.get("/pieces", headers=bearer(curator))).json() == "c-1"
        assert (await client.get("/plain", headers=bearer(curator))).json() == "c-1"
        for path in ("/pieces", "/plain"):
            refused = await client.get(path, headers=bearer(operator))
            assert refused.status_code == 403
            assert refused.json()["type"] == "urn:tacit:problem:scope_missing"
        assert (await client.get("/analyst", headers=bearer(curator))).status_code == 403
        document = (await client.get("/openapi.json")).json()
    assert document["paths"]["/analyst"]["get"]["security"] == [{"HTTPBearer": []}]


async def test_who_nobody_knows(
    store: Database, clock: ManualClock, tmp_path: Path, running: Running
) -> None:
    app = make_app(tmp_path, Authenticator(store, table, clock))
    async with running(app) as client:
        for header, name in (
            (None, "token_missing"),
            ("Basic abc", "token_missing"),
            ("Bearer ", "token_missing"),
            ("Bearer tct_operator_4711", "token_unknown"),
            ("Bearer " + "x" * 600, "token_unknown"),
        ):
            for path in ("/analyst", "/plain"):
                headers = {} if header is None else {"Authorization": header}
                answer = await client.get(path, headers=headers)
                assert answer.status_code == 401
                assert answer.json()["type"] == f"urn:tacit:problem:{name}"
                assert answer.headers["www-authenticate"] == "Bearer"
                assert "4711" not in answer.text


async def test_expiry_holds_in_the_cache_too(
    store: Database, clock: ManualClock, tmp_path: Path, running: Running
) -> None:
    token = await issue(store, clock, Scope.ANALYST, lifetime=timedelta(seconds=2))
    app = make_app(tmp_path, Authenticator(store, table, clock, ttl_s=60))
    async with running(app) as client:
        assert (await client.get("/analyst", headers=bearer(token))).status_code == 200
        clock.advance(timedelta(seconds=2))
        answer = await client.get("/analyst", headers=bearer(token))
    assert answer.json()["type"] == "urn:tacit:problem:token_expired"


async def test_revocation_after_the_cache_or_at_once(store: Database, clock: ManualClock) -> None:
    near = Authenticator(store, table, clock, ttl_s=5)
    far = Authenticator(store, table, clock, ttl_s=5)
    token = await issue(store, clock, Scope.CURATOR, subject="c-1")
    principal = await near.principal(token)
    await far.principal(token)
    async with store.begin() as transaction:
        assert await revoke_token(transaction, table, principal.token_id, clock.now())
        assert not await revoke_token(transaction, table, principal.token_id, clock.now())
    near.forget()
    with pytest.raises(TokenUnknown):
        await near.principal(token)
    assert (await far.principal(token)).subject == "c-1"
    clock.advance(timedelta(seconds=5))
    with pytest.raises(TokenUnknown):
        await far.principal(token)


async def test_the_cache_is_bounded_and_spares_the_store(
    store: Database, clock: ManualClock
) -> None:
    authenticator = Authenticator(store, table, clock, capacity=2)
    tokens = [await issue(store, clock, Scope.DEVICE, subject=f"d-{n}") for n in range(3)]
    for token in tokens:
        await authenticator.principal(token)
    async with store.begin() as transaction:
        await transaction.run_sync(metadata.drop_all)
    assert (await authenticator.principal(tokens[2])).subject == "d-2"
    with pytest.raises(Exception, match="token"):
        await authenticator.principal(tokens[0])


async def test_only_the_hash_is_stored(store: Database, clock: ManualClock) -> None:
    token = await issue(store, clock, Scope.CURATOR, Scope.DEVICE, subject="c-1")
    assert token.startswith("tct_curator_")
    assert len(token) == len("tct_curator_") + 43
    clock.advance(timedelta(seconds=1))
    other = await issue(store, clock, Scope.CURATOR, subject="c-2")
    async with store.reading() as transaction:
        found = await find_token(transaction, table, hash_token(token))
        assert found is not None
        assert found.scopes == (Scope.CURATOR, Scope.DEVICE)
        assert token not in repr(found)
        first = await list_tokens(transaction, table, limit=1)
        rest = await list_tokens(transaction, table, after=first[0].id)
        assert [record.subject for record in (*first, *rest)] == ["c-1", "c-2"]
        assert len(await list_tokens(transaction, table, subject="c-2")) == 1
    async with store.begin() as transaction:
        assert await revoke_subject(transaction, table, "c-2", clock.now()) == 1
    with pytest.raises(TokenUnknown):
        await Authenticator(store, table, clock).principal(other)
    with pytest.raises(ValueError, match="scope"):
        mint((), clock)


async def test_the_operator_gets_a_token_once(
    store: Database, clock: ManualClock, tmp_path: Path
) -> None:
    settings = ServiceSettings(data_dir=tmp_path / "home")
    path = await ensure_operator_token(store, table, settings, clock)
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    token = path.read_text().strip()
    assert await ensure_operator_token(store, table, settings, clock) == path
    assert path.read_text().strip() == token
    principal = await Authenticator(store, table, clock).principal(token)
    assert principal.scopes == {Scope.OPERATOR, Scope.ANALYST}
    with pytest.raises(ScopeMissing):
        principal.demand(Scope.CURATOR)
    async with store.reading() as transaction:
        assert len(await list_tokens(transaction, table)) == 1


async def test_a_start_after_the_only_token_was_revoked_makes_another(
    store: Database, clock: ManualClock, tmp_path: Path
) -> None:
    settings = ServiceSettings(data_dir=tmp_path / "home")
    path = await ensure_operator_token(store, table, settings, clock)
    assert path is not None
    leaked = path.read_text().strip()
    async with store.begin() as transaction:
        (record,) = await list_tokens(transaction, table)
        assert await revoke_token(transaction, table, record.id, clock.now())
    assert await ensure_operator_token(store, table, settings, clock) == path
    token = path.read_text().strip()
    assert token != leaked
    authenticator = Authenticator(store, table, clock)
    assert Scope.OPERATOR in (await authenticator.principal(token)).scopes
    with pytest.raises(TokenUnknown):
        await authenticator.principal(leaked)


async def test_the_operators_own_token_and_its_rotation(
    store: Database, clock: ManualClock, tmp_path: Path
) -> None:
    first, second = "first-" + "a" * 32, "second-" + "b" * 32
    for token in (first, first, second):
        settings = ServiceSettings(data_dir=tmp_path, operator_token=token)
        assert await ensure_operator_token(store, table, settings, clock) is None
    authenticator = Authenticator(store, table, clock)
    assert (await authenticator.principal(second)).has(Scope.OPERATOR)
    with pytest.raises(TokenUnknown):
        await authenticator.principal(first)
    assert not (tmp_path / "operator.token").exists()
