"""Idempotency keys: replay, reuse, under way, and one transaction with what was created."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import Column, Integer, MetaData, Table, func, insert, select
from starlette.requests import Request
from starlette.responses import Response

from common.runtime.clock import ManualClock
from common.runtime.settings import ServiceSettings
from common.store.transactions import Database
from common.web.app import build_app
from common.web.idempotency import (
    RequestKey,
    StoredAnswer,
    forget_before,
    idempotency_table,
    recall,
    remember,
    request_key,
)
from tests.common.web.serving import nothing

Running = Callable[[FastAPI], AbstractAsyncContextManager[httpx.AsyncClient]]
metadata = MetaData()
table = idempotency_table(metadata)
things = Table("thing", metadata, Column("id", Integer, primary_key=True))
KEY = RequestKey("id", "print")


@pytest.fixture
def app(store: Database, clock: ManualClock, tmp_path: Path) -> FastAPI:
    app = build_app("probe", ServiceSettings(data_dir=tmp_path), nothing, version="1")

    @app.post("/things", status_code=201)
    async def create(request: Request, required: bool = False, fail: bool = False) -> Response:
        holder = request.headers.get("x-holder", "t-1")
        key = await request_key(request, holder, required=required)
        async with store.begin() as transaction:
            if stored := await recall(transaction, table, key):
                return stored.response()
            await transaction.execute(insert(things).values())
            count = await transaction.execute(select(func.count()).select_from(things))
            answer = StoredAnswer(201, b'{"n": %d}' % count.scalar_one(), location="/things/1")
            await remember(transaction, table, key, answer, clock.now())
            await asyncio.sleep(0.02)
            if fail:
                raise RuntimeError
        return answer.response(replayed=False)

    return app


async def count(store: Database) -> int:
    async with store.reading() as transaction:
        found = await transaction.execute(select(func.count()).select_from(things))
        return int(found.scalar_one())


async def test_a_retry_gets_the_stored_answer(
    app: FastAPI, store: Database, running: Running
) -> None:
    async with running(app) as client:

        async def post(key: str | None, body: str = "a", **headers: str) -> httpx.Response:
            if key is not None:
                headers["Idempotency-Key"] = key
            return await client.post("/things", content=body, headers=headers)

        first = await post("k-1")
        again = await post('"k-1"')
        assert (first.status_code, first.json()) == (201, {"n": 1})
        assert (again.status_code, again.json()) == (201, {"n": 1})
        assert again.headers["location"] == first.headers["location"] == "/things/1"
        assert again.headers["idempotency-replayed"] == "true"
        assert "idempotency-replayed" not in first.headers
        reused = await post("k-1", "b")
        assert reused.status_code == 422
        assert reused.json()["type"] == "urn:tacit:problem:idempotency_key_reused"
        assert (await post("k-1", **{"x-holder": "t-2"})).json() == {"n": 2}
        assert (await post("k-2")).json() == {"n": 3}
        assert (await post(None)).json() == {"n": 4}
    assert await count(store) == 4


async def test_bad_and_missing_keys(app: FastAPI, running: Running) -> None:
    async with running(app) as client:
        missing = await client.post("/things?required=true")
        assert missing.status_code == 400
        assert missing.json()["type"] == "urn:tacit:problem:idempotency_key_missing"
        for key in ("", '""', "x" * 256, "\x7f"):
            bad = await client.post("/things", headers={"Idempotency-Key": key})
            assert bad.status_code == 400
            assert bad.json()["type"] == "urn:tacit:problem:idempotency_key_malformed"


async def test_a_failure_stores_nothing(app: FastAPI, store: Database, running: Running) -> None:
    headers = {"Idempotency-Key": "k"}
    async with running(app) as client:
        assert (await client.post("/things?fail=true", headers=headers)).status_code == 500
        assert await count(store) == 0
        assert (await client.post("/things?fail=true", headers=headers)).status_code == 500


async def test_at_once_creates_once(app: FastAPI, store: Database, running: Running) -> None:
    async with running(app) as client:
        answers = await asyncio.gather(
            *(client.post("/things", headers={"Idempotency-Key": "k"}) for _ in range(5))
        )
    statuses = [answer.status_code for answer in answers]
    assert 201 in statuses
    assert set(statuses) <= {201, 409}
    for answer in answers:
        if answer.status_code == 409:
            assert answer.json()["type"] == "urn:tacit:problem:idempotency_in_progress"
            assert answer.json()["retryable"] is True
    assert await count(store) == 1


async def test_keys_are_forgotten(store: Database, clock: ManualClock) -> None:
    async with store.begin() as transaction:
        assert await recall(transaction, table, KEY) is None
        await remember(transaction, table, KEY, StoredAnswer(200, b"x"), clock.now())
    async with store.begin() as transaction:
        assert await recall(transaction, table, KEY) == StoredAnswer(200, b"x")
        clock.advance(timedelta(days=1))
        assert await forget_before(transaction, table, clock.now()) == 1
        assert await recall(transaction, table, KEY) is None
