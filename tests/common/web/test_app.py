"""What every app has before its own routes."""

import io
import json
import logging
import math
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.responses import StreamingResponse
from starlette.requests import Request
from starlette.responses import Response

from common.runtime.logs import configure_logging, denied, get_logger, redact
from common.runtime.settings import LAST_BACKUP, ServiceSettings
from common.runtime.telemetry import ServiceMetrics
from common.runtime.tls import post_quantum
from common.web.app import add_readiness, build_app
from common.web.middleware import ResponseAborted
from common.web.problems import problem_response
from tests.common.web.serving import nothing

Running = Callable[[FastAPI], AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    app = build_app("probe", ServiceSettings(data_dir=tmp_path), nothing, version="1.2")
    router = APIRouter(prefix="/v1")

    @router.get("/rounds/{round_id}", summary="One <round>")
    async def one(round_id: str) -> dict[str, str]:
        return {"round": round_id}

    @router.get("/broken")
    async def broken() -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            yield b"a"
            raise RuntimeError("the reading was 4711081547")

        return StreamingResponse(body())

    @router.get("/fails/{round_id}")
    async def fails(round_id: str) -> None:
        raise RuntimeError("the reading was 4711081547")

    async def plain(request: Request) -> Response:
        return problem_response(KeyError("4711081547"))

    app.include_router(router)
    app.add_route("/plain/{thing}", plain)
    return app


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    root = logging.getLogger()
    before = root.level
    configure_logging("debug", "json", stream=stream)
    yield stream
    for handler in list(root.handlers):
        if getattr(handler, "stream", None) is stream:
            root.removeHandler(handler)
    root.setLevel(before)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def test_health_and_readiness(app: FastAPI, running: Running) -> None:
    async def well() -> str | None:
        return None

    async def ill() -> str | None:
        return "no key is loaded"

    async def broken() -> str | None:
        raise RuntimeError("4711081547")

    async with running(app) as client:
        alive = await client.get("/healthz")
        assert alive.json() == {"status": "ok", "service": "probe", "version": "1.2"}
        add_readiness(app, "store", well)
        ready = await client.get("/readyz")
        assert ready.json() == {
            "status": "ready",
            "checks": {"store": "ok"},
            "tls_pq": post_quantum(),
            "pid": os.getpid(),
        }
        add_readiness(app, "keys", ill)
        add_readiness(app, "other", broken)
        answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert answer.json()["type"] == "urn:tacit:problem:not_ready"
    assert answer.json()["tls_pq"] == post_quantum()
    assert answer.json()["checks"] == {
        "store": "ok",
        "keys": "no key is loaded",
        "other": "the check failed (RuntimeError)",
    }


async def test_what_is_wrong_elsewhere_is_shown_and_leaves_it_ready(
    app: FastAPI, running: Running
) -> None:
    async def ill() -> str | None:
        return "another does not answer"

    add_readiness(app, "others", ill, vital=False)
    async with running(app) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["checks"]) == (200, {"others": await ill()})


async def test_metrics_know_disk_clock_and_backup(
    app: FastAPI, running: Running, tmp_path: Path
) -> None:
    async def figures() -> dict[str, float]:
        text = (await client.get("/metrics")).text
        lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    async with running(app) as client:
        before = await figures()
        assert 0 <= before["tacit_probe_data_directory_free_ratio"] <= 1
        assert before["tacit_probe_last_backup_timestamp_seconds"] == 0
        assert before["tacit_probe_clock_timestamp_seconds"] > 1_700_000_000  # seconds since 1970
        marker = tmp_path / LAST_BACKUP
        marker.touch()
        os.utime(marker, (1_700_000_000, 1_700_000_000))
        assert (await figures())["tacit_probe_last_backup_timestamp_seconds"] == 1_700_000_000
        marker.unlink()
        tmp_path.rmdir()  # no directory, no answer: never "all is well"
        gone = await figures()
    assert math.isnan(gone["tacit_probe_data_directory_free_ratio"])


async def test_metrics_and_log_know_templates_only(
    app: FastAPI, running: Running, log: io.StringIO
) -> None:
    async with running(app) as client:
        await client.get("/v1/rounds/r-4711081547?secret=4711081547")
        await client.get("/v1/fails/4711081547")
        await client.get("/plain/4711081547")
        await client.get("/nowhere/4711081547")
        metrics = (await client.get("/metrics")).text
    count = "tacit_probe_http_requests_total"
    assert f'{count}{{route="/v1/rounds/{{round_id}}",status="200"}} 1.0' in metrics
    assert f'{count}{{route="/v1/fails/{{round_id}}",status="500"}} 1.0' in metrics
    assert f'{count}{{route="/plain/{{thing}}",status="500"}} 1.0' in metrics
    assert f'{count}{{route="unmatched",status="404"}} 1.0' in metrics
    assert "tacit_probe_http_request_duration_seconds_bucket" in metrics
    assert "4711081547" not in metrics
    assert "4711081547" not in log.getvalue()
    entries = lines(log)
    request = next(line for line in entries if line["event"] == "request")
    assert (request["method"], request["route"], request["status"]) == (
        "GET",
        "/v1/rounds/{round_id}",
        200,
    )
    error = next(line for line in entries if line["event"] == "internal_error")
    assert error["error"] == "builtins.RuntimeError"
    assert error["place"].startswith("test_app.py:fails:")


async def test_a_response_that_breaks_off(app: FastAPI, running: Running, log: io.StringIO) -> None:
    async with running(app) as client:
        with pytest.raises(ResponseAborted) as aborted:
            await client.get("/v1/broken")
    assert aborted.value.__context__ is None
    assert "4711081547" not in log.getvalue()


async def test_security_headers(app: FastAPI, running: Running) -> None:
    async with running(app) as client:
        for path in ("/healthz", "/v1/rounds/1", "/nowhere", "/v1/fails/1", "/docs"):
            headers = (await client.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert headers["cache-control"] == "no-store"
            assert "server" not in headers


async def test_docs_are_offline(app: FastAPI, running: Running) -> None:
    async with running(app) as client:
        page = await client.get("/docs")
        assert (await client.get("/redoc")).status_code == 404
        needed = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert "docs/swagger-ui-bundle.js" in needed  # relative: a proxy may add a prefix
        for each in needed:
            assert each.startswith("docs/") or each in ("data:,", "openapi.json")
            if each.startswith("docs/"):
                answer = await client.get(f"/{each}")
                assert answer.status_code == 200
                assert answer.headers["content-type"].startswith(("text/javascript", "text/css"))
        assert (await client.get("/docs/..%2f__init__.py")).status_code == 404
    assert "script-src 'self';" in page.headers["content-security-policy"]


def test_denied_keys_never_reach_the_log(log: io.StringIO) -> None:
    for key in ("reading", "readings", "token_hash", "myShare", "noise_seed", "sealed", "values"):
        assert denied(key)
    for key in ("round", "event", "status", "shared", "evaluation"):
        assert not denied(key)
    get_logger("probe").info(
        "something",
        reading=4711081547,
        inner={"shares": [4711081547]},
        deep=[{"value": "4711081547"}],
        blob=b"4711081547",
    )
    assert "4711081547" not in log.getvalue()
    assert lines(log)[-1]["inner"] == {"shares": "[redacted]"}
    assert redact({"a": b"xy"}) == {"a": "[2 bytes]"}


def test_the_standard_library_is_routed_without_tracebacks(log: io.StringIO) -> None:
    try:
        raise ValueError("the reading was 4711081547")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
        get_logger("probe").exception("own")
    assert "4711081547" not in log.getvalue()
    first, second = lines(log)
    assert first["event"] == "Exception in ASGI application"
    assert first["error"] == second["error"] == "builtins.ValueError"
    assert first["level"] == "error"


def test_metric_names() -> None:
    metrics = ServiceMetrics("probe")
    metrics.counter("pieces", "Pieces.", ("reason",)).labels("late").inc()
    metrics.gauge("queue_items", "Items.").set(3)
    text = metrics.render().decode()
    assert 'tacit_probe_pieces_total{reason="late"} 1.0' in text
    assert "tacit_probe_queue_items 3.0" in text
    with pytest.raises(ValueError, match="identifies"):
        metrics.counter("other", "x", ("curator_id",))
    with pytest.raises(ValueError, match="snake_case"):
        metrics.counter("Other-Thing", "x")
