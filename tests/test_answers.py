"""The check of all answers notices what it is there for."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute
from pydantic import ValidationError

from common.web.middleware import every_route
from docs.generate import SERVICES, api_app
from tacit.answers.base import Audit, Health, ListOfTokens
from tests.answers import SEEN, UndocumentedAnswer, check
from tests.coordinator.conftest import houses

ROW = {"id": "1", "at": "2026-01-01T00:00:00Z", "token_id": "2", "action": "a", "object": "o"}


def test_an_answer_as_it_is_told_passes() -> None:
    check(Health, b'{"status":"ok","service":"curator","version":"1"}')
    check(Audit, json.dumps({"audit": [{**ROW, "outcome": "done"}]}).encode())


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (Health, {"status": "ok", "service": "curator"}),
        (Health, {"status": "well", "service": "curator", "version": "1"}),
        (Health, {"status": "ok", "service": "curator", "version": 1}),
        (ListOfTokens, {"tokens": None}),
        (ListOfTokens, []),
    ],
)
def test_an_answer_of_other_fields_is_noticed(model: type, body: object) -> None:
    with pytest.raises(ValidationError):
        check(model, json.dumps(body).encode())


def test_a_field_that_nobody_told_is_noticed_at_its_place() -> None:
    with pytest.raises(UndocumentedAnswer, match="/audit/-/secret"):
        check(Audit, json.dumps({"audit": [{**ROW, "outcome": "done", "secret": 1}]}).encode())
    with pytest.raises(UndocumentedAnswer, match="/more"):
        check(Audit, b'{"audit":[],"more":null}')


async def test_answers_of_a_service_are_held_against_its_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with houses(tmp_path)(0) as it:
        key = ("Tacit coordinator", "GET", "/v1/rounds", 200)
        before = SEEN[key]
        assert (await it.ask("GET", "/v1/rounds")).status_code == 200
        assert SEEN[key] == before + 1
        monkeypatch.setitem(SEEN, key, 0)
        [answers] = [
            each.responses
            for each in every_route(it.app.routes)
            if isinstance(each, APIRoute) and (each.path, each.methods) == (key[2], {"GET"})
        ]
        monkeypatch.setitem(answers[200], "model", Health)
        with pytest.raises(ValidationError):
            await it.ask("GET", "/v1/rounds")


@pytest.mark.parametrize("service", SERVICES)
async def test_every_service_says_that_it_is_alive(service: str) -> None:
    transport = httpx.ASGITransport(app=api_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://it.test") as client:
        assert (await client.get("/healthz")).json()["service"] == service
    assert SEEN[f"Tacit {service}", "GET", "/healthz", 200]
