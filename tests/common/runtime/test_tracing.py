"""Traces: what a span tells, how a trace goes on elsewhere, and nothing without the setting."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from common.runtime.settings import ServiceSettings
from common.runtime.telemetry import Otlp, Untraced, tracer_of
from common.web import app as service_app
from common.web.app import build_app
from tests.common.web.serving import nothing

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    made = InMemorySpanExporter()
    yield made
    made.shutdown()


async def test_a_span_knows_a_template_a_status_and_its_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exporter: InMemorySpanExporter
) -> None:
    tracer = Otlp("probe", "1", "http://collector.test", exporter)
    monkeypatch.setattr(service_app, "tracer_of", lambda *_: tracer)
    app = build_app("probe", ServiceSettings(data_dir=tmp_path), nothing, version="1")
    carried: dict[str, str] = {}

    @app.get("/v1/rounds/{round_id}")
    async def one(round_id: str) -> None:
        tracer.carry(carried)

    @app.get("/v1/fails")
    async def fails() -> None:
        raise RuntimeError("the reading was 8675309")

    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://it.test") as client:
        headers = {"traceparent": PARENT, "tracestate": "reading=8675309", "x-a": "8675309"}
        await client.get("/v1/rounds/8675309?at=8675309", headers=headers)
        await client.get("/v1/fails")
        await client.get("/nowhere/8675309")
        await client.get("/healthz")
    tracer.stop()
    first, second, third = exporter.get_finished_spans()
    assert first.name == "GET /v1/rounds/{round_id}"
    assert dict(first.attributes or {}) == {
        "http.request.method": "GET",
        "http.route": "/v1/rounds/{round_id}",
        "http.response.status_code": 200,
    }
    assert first.context is not None
    assert f"{first.context.trace_id:032x}" == PARENT.split("-")[1]
    assert carried["traceparent"].split("-")[1] == PARENT.split("-")[1]
    assert carried.keys() == {"traceparent"}
    assert second.name == "GET /v1/fails"
    assert not second.events
    assert second.status.description is None
    assert third.name == "GET unmatched"
    assert "8675309" not in "".join(span.to_json() for span in (first, second, third))


def test_without_the_setting_there_is_nothing() -> None:
    tracer = tracer_of("probe", "1", None)
    assert isinstance(tracer, Untraced)
    headers: dict[str, str] = {}
    with tracer.request({"traceparent": PARENT}) as span, tracer.step("freeze"):
        span.answered("GET", "/v1", 200)
        tracer.carry(headers)
    assert headers == {}


@pytest.mark.slow
def test_the_libraries_own_variables_start_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from common.runtime.settings import ServiceSettings;"
        "from common.web.app import build_app;"
        "build_app('probe', ServiceSettings(), None, version='1');"
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')"
        " or 'otlp' in name])"
    )
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_TRACES_EXPORTER": "otlp",
        "TACIT_DATA_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.strip() == "[]"
