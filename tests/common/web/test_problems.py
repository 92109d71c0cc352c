"""The shape of every error, through a real app: pinned here for all services."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx
import pytest
from fastapi import FastAPI, Query
from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.exceptions import HTTPException

from common.runtime.settings import ServiceSettings
from common.web.app import build_app
from common.web.client import ServiceResponse
from common.web.problems import (
    MEDIA_TYPE,
    STATUS,
    BodyTooSlow,
    ProblemReceived,
    problem_of,
    raise_for_problem,
    status_of,
)
from tacit import errors
from tacit.errors import DomainError, FieldError
from tests.common.web.serving import nothing

Running = Callable[[FastAPI], AbstractAsyncContextManager[httpx.AsyncClient]]
CATEGORIES = list(STATUS.items())


class Inner(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    kind: Literal["a", "b"] = "a"
    watts: int = Field(default=0, ge=0, le=10)


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    items: list[Inner] = []
    note: str = ""
    choice: int | Inner = 1

    @field_validator("note")
    @classmethod
    def _talks_too_much(cls, note: str) -> str:
        if note.startswith("private"):
            raise ValueError(f"{note} cannot be accepted")
        if note == "forbidden":
            raise ValueError("must not be a rule")
        return note


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    app = build_app(
        "probe",
        ServiceSettings(data_dir=tmp_path, max_body_bytes=10_000),
        nothing,
        version="1",
        body_limits={"/large": 100_000},
    )

    @app.get("/category/{index}")
    async def category(index: int) -> None:
        kind = CATEGORIES[index][0]
        raise kind("in other words", pointer="/a/0", extra={"limit": 3, "status": 1})

    @app.post("/body")
    async def body(body: Body) -> dict[str, int]:
        return {"items": len(body.items)}

    @app.post("/large")
    async def large(body: dict[str, str]) -> dict[str, int]:
        return {"items": len(body)}

    @app.get("/query/{number}")
    async def query(
        number: Annotated[int, PathParameter()], limit: Annotated[int, Query(le=5)] = 1
    ) -> None: ...

    @app.get("/several")
    async def several() -> None:
        raise errors.Invalid(
            errors=(FieldError("/a", "too small"), FieldError("/b", "unknown", "query"))
        )

    @app.get("/unexpected")
    async def unexpected() -> None:
        raise RuntimeError("the reading was 4711")

    @app.get("/own-validation")
    async def own_validation() -> None:
        Inner.model_validate({"watts": 4711})

    @app.get("/http/{status}")
    async def http(status: int) -> None:
        raise HTTPException(status, "4711")

    return app


@pytest.mark.parametrize(("index", "status"), [(i, s) for i, (_, s) in enumerate(CATEGORIES)])
async def test_each_category_has_one_shape(
    app: FastAPI, running: Running, index: int, status: int
) -> None:
    kind = CATEGORIES[index][0]
    async with running(app) as client:
        answer = await client.get(f"/category/{index}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert answer.json() == {
        "type": f"urn:tacit:problem:{kind.name}",
        "title": kind.title,
        "status": status,
        "detail": "in other words",
        "errors": [{"pointer": "/a/0", "detail": "in other words"}],
        "retryable": kind in (BodyTooSlow, errors.TooMany, errors.Unavailable),
        "limit": 3,
    }
    assert ("retry-after" in answer.headers) == (status in (429, 503))
    assert ("www-authenticate" in answer.headers) == (status == 401)
    with pytest.raises(ProblemReceived) as received:
        raise_for_problem(ServiceResponse(answer.status_code, answer.headers, answer.content))
    assert (received.value.status, received.value.name) == (status, kind.name)
    assert received.value.problem == answer.json()
    assert received.value.retryable == (status in (408, 429, 503))


async def test_several_fields(app: FastAPI, running: Running) -> None:
    async with running(app) as client:
        problem = (await client.get("/several")).json()
    assert problem["errors"] == [
        {"pointer": "/a", "detail": "too small"},
        {"in": "query", "pointer": "/b", "detail": "unknown"},
    ]


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({"items": [{}, {"watts": 4711}]}, ["/items/1/watts"]),
        ({"items": [{"kind": "4711"}]}, ["/items/0/kind"]),
        ({"items": [{"watts": "4711"}]}, ["/items/0/watts"]),
        ({"note": "private 4711"}, ["/note"]),
        ({"other": "4711"}, ["/other"]),
        ({"choice": {"watts": 4711}}, ["/choice", "/choice/watts"]),
        (["4711"], [""]),
    ],
)
async def test_bad_body_points_and_echoes_nothing(
    app: FastAPI, running: Running, body: Any, pointers: list[str]
) -> None:
    async with running(app) as client:
        answer = await client.post("/body", json=body)
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["type"] == "urn:tacit:problem:bad_parameter"
    assert [item["pointer"] for item in problem["errors"]] == pointers
    assert "4711" not in answer.text


async def test_bad_query_and_path(app: FastAPI, running: Running) -> None:
    async with running(app) as client:
        answer = await client.get("/query/abcd", params={"limit": "4711"})
    assert answer.status_code == 422
    assert [(item["in"], item["pointer"]) for item in answer.json()["errors"]] == [
        ("path", "/number"),
        ("query", "/limit"),
    ]
    assert "4711" not in answer.text
    assert "abcd" not in answer.text


@pytest.mark.parametrize("content", [b"{", b'{"note": 4711', b"\xff", b"[" * 5000])
async def test_unparsable_json(app: FastAPI, running: Running, content: bytes) -> None:
    async with running(app) as client:
        answer = await client.post(
            "/body", content=content, headers={"content-type": "application/json"}
        )
    assert answer.status_code == 400
    assert answer.json()["type"] == "urn:tacit:problem:malformed_body"
    assert "4711" not in answer.text


@pytest.mark.parametrize(
    ("method", "path", "status", "name"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("DELETE", "/body", 405, "method_not_allowed"),
        ("GET", "/http/409", 409, "conflict"),
        ("GET", "/http/418", 418, "http_418"),
        ("GET", "/unexpected", 500, "internal_error"),
        ("GET", "/own-validation", 422, "bad_parameter"),
    ],
)
async def test_errors_of_the_framework(
    app: FastAPI,
    running: Running,
    caplog: pytest.LogCaptureFixture,
    method: str,
    path: str,
    status: int,
    name: str,
) -> None:
    async with running(app) as client:
        answer = await client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert answer.json()["type"] == f"urn:tacit:problem:{name}"
    assert "4711" not in answer.text
    assert "4711" not in caplog.text


async def test_body_too_large(app: FastAPI, running: Running) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 1000

    async with running(app) as client:
        declared = await client.post("/body", content=b" " * 10_001)
        chunked = await client.post(
            "/body", content=chunks(), headers={"content-type": "application/json"}
        )
        other_limit = await client.post("/large", json={"a": "b" * 20_000})
    for answer in (declared, chunked):
        assert answer.status_code == 413
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert answer.json()["type"] == "urn:tacit:problem:body_too_large"
        assert answer.json()["max_body_bytes"] == 10_000
    assert other_limit.status_code == 200


def test_subclasses_keep_the_status_of_their_category() -> None:
    class RoundClosed(errors.Conflict):
        name = "round_closed"
        title = "The round is closed"

    assert status_of(RoundClosed()) == 409
    assert problem_of(RoundClosed())["detail"] == "The round is closed"
    assert status_of(DomainError()) == 500
    with pytest.raises(TypeError, match="snake_case"):
        type("Bad", (errors.Conflict,), {"name": "Not Snake"})


def test_an_answer_that_is_no_problem() -> None:
    with pytest.raises(ProblemReceived, match="502 http_502"):
        raise_for_problem(ServiceResponse(502, {}, b"<html>"))
    with pytest.raises(ProblemReceived) as received:
        raise_for_problem(ServiceResponse(503, {"Retry-After": "7"}, b"x"))
    assert (received.value.name, received.value.retry_after_s) == ("unavailable", 7.0)
    raise_for_problem(ServiceResponse(304, {}, b""))
