"""Texts, numbers and times that no store keeps, in every place where a request may have them.

Each route of each service is asked with its own example, changed in one place. The control is the
example itself, which is refused for no such reason.
"""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from tests.adversary.test_start_with_a_lost_database import app_of

TOKEN = "tct_operator_" + "a" * 43
SERVICES = ["coordinator", "aggregator", "curator"]
SAFE = "01928374-5566-7788-99aa-bbccddeeff00"
NUMBERS = [2**63, -(2**63) - 1]
TIMES = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "9900-01-01T00:00:00Z"]


@asynccontextmanager
async def running(
    service: str, directory: Path, url: str
) -> AsyncIterator[tuple[FastAPI, httpx.AsyncClient]]:
    more: dict[str, Any] = {"participate": False} if service == "curator" else {}
    more |= {"database_url": SecretStr(url), "operator_token": SecretStr(TOKEN)}
    app = app_of(service, directory, **more)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url="http://it.test",
            headers={"Authorization": f"Bearer {TOKEN}"},
        ) as client,
    ):
        yield app, client


class Call:
    """One operation of a document: its address, and an example of its body."""

    def __init__(self, document: dict[str, Any], path: str, method: str) -> None:
        self.document, self.path, self.method = document, path, method
        operation = document["paths"][path][method]
        self.parameters = [
            (each["in"], each["name"], list(self._kinds(each["schema"])))
            for each in operation.get("parameters", [])
            if each["in"] in ("path", "query")
        ]
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        self.body = content.get("example")
        if self.body is None and content.get("examples"):
            self.body = next(iter(content["examples"].values()))["value"]

    def _kinds(self, schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
        while "$ref" in schema:
            schema = self.document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        for each in schema.get("anyOf", [schema]):
            yield each.get("type", ""), each.get("format", "")

    def address(self, **values: str) -> tuple[str, dict[str, str]]:
        """Path and query with these parameters; those of the path that are not given are safe."""
        path, query = self.path, {}
        for place, name, kinds in self.parameters:
            text = values.get(name, "1" if ("integer", "") in kinds else SAFE)
            if place == "path":
                path = path.replace(f"{{{name}}}", text)
            elif name in values:
                query[name] = text
        return path, query

    async def ask(
        self, client: httpx.AsyncClient, body: Any = None, **values: str
    ) -> httpx.Response:
        path, query = self.address(**values)
        content = None if body is None else json.dumps(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        url = (
            httpx.URL(path.replace("\0", "%00"), params=query)
            if query
            else path.replace("\0", "%00")
        )
        return await client.request(self.method.upper(), url, content=content, headers=headers)


def calls(app: FastAPI) -> Iterator[Call]:
    document = app.openapi()
    for path, item in document["paths"].items():
        for method in item:
            if "wait" not in path and path != "/v1/storage-key/rotation":
                yield Call(document, path, method)


def changed(body: Any, place: tuple[str | int, ...], value: Any) -> Any:
    """A body with another value at a place."""
    found = copy.deepcopy(body)
    here = found
    for step in place[:-1]:
        here = here[step]
    here[place[-1]] = value
    return found


def leaves(body: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, Any]]:
    items = body.items() if isinstance(body, dict) else enumerate(body)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from leaves(value, (*place, key))
        else:
            yield (*place, key), value


def refused(answer: httpx.Response, call: Call, name: str) -> None:
    """Said with the place, by 422; a route of a scope that an operator has not says that first."""
    if answer.status_code == 403:
        return
    assert answer.status_code == 422, (
        call.method,
        call.path,
        name,
        answer.status_code,
        answer.text,
    )
    places = [each["pointer"] for each in answer.json()["errors"]]
    assert any(name in place for place in places), (call.path, name, answer.text)


@pytest.mark.parametrize("service", SERVICES)
async def test_an_end_in_an_address(service: str, tmp_path: Path, database_url: str) -> None:
    async with running(service, tmp_path, database_url) as (app, client):
        for call in calls(app):
            for _, name, kinds in call.parameters:
                ends = ["a\0b"] if ("string", "") in kinds else []
                ends += [str(number) for number in NUMBERS] if ("integer", "") in kinds else []
                ends += TIMES if ("string", "date-time") in kinds else []
                for end in ends:
                    refused(await call.ask(client, call.body, **{name: end}), call, name)


@pytest.mark.parametrize("service", SERVICES)
async def test_a_value_in_a_body(service: str, tmp_path: Path, database_url: str) -> None:
    async with running(service, tmp_path, database_url) as (app, client):
        for call in calls(app):
            if not isinstance(call.body, dict | list):
                continue
            control = await call.ask(client, call.body)
            assert "cannot be stored" not in control.text
            for place, value in leaves(call.body):
                ends: list[Any] = []
                if isinstance(value, str):
                    ends = [
                        f"{value}\0",
                        *(TIMES[:1] if value[:2] == "20" and "T" in value else []),
                    ]
                elif isinstance(value, int) and not isinstance(value, bool):
                    ends = NUMBERS[:1]
                for end in ends:
                    answer = await call.ask(client, changed(call.body, place, end))
                    said = (call.method, call.path, place, end, answer.status_code, answer.text)
                    # Items of a bulk are answered one by one.
                    assert answer.status_code < 500, said
                    assert answer.status_code >= 400 or "rejected" in answer.text, said
