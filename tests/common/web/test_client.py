"""Retries, and a real server on the loopback address."""

import asyncio
import gc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from io import StringIO
from pathlib import Path

import pytest
from fastapi import FastAPI

from common.runtime.logs import configure_logging
from common.runtime.settings import ServiceSettings
from common.web.app import build_app
from common.web.client import (
    NoAnswer,
    ServiceResponse,
    TimedOut,
    retry_after,
    service_client,
    with_retries,
)
from common.web.server import make_server
from tacit.backoff import backoff


def response(status: int, headers: Mapping[str, str] | None = None) -> ServiceResponse:
    return ServiceResponse(status, headers or {}, b"")


class Times:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def monotonic(self) -> float:
        return self.now


class Script:
    def __init__(self, *steps: ServiceResponse | Exception) -> None:
        self.steps = list(steps)

    async def __call__(self) -> ServiceResponse:
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


async def test_retries_until_an_answer() -> None:
    times = Times()
    script = Script(
        NoAnswer("refused"),
        response(503),
        response(429, {"Retry-After": "3"}),
        response(409),
    )
    answer = await with_retries(script, sleep=times.sleep, monotonic=times.monotonic)
    assert answer.status == 409
    assert len(times.pauses) == 3
    assert 0.05 <= times.pauses[0] <= 0.1
    assert times.pauses[2] == 3.0


async def test_attempts_and_deadline() -> None:
    times = Times()
    last = await with_retries(
        Script(*(response(503) for _ in range(2))),
        attempts=2,
        sleep=times.sleep,
        monotonic=times.monotonic,
    )
    assert last.status == 503
    with pytest.raises(NoAnswer):
        await with_retries(Script(NoAnswer("x")), attempts=1)
    patient = Script(response(503, {"Retry-After": "60"}))
    assert (await with_retries(patient, deadline_s=5)).status == 503
    with pytest.raises(TimedOut):
        await with_retries(Script(TimedOut("x")), deadline_s=0.0)
    with pytest.raises(ValueError, match="attempt"):
        await with_retries(Script(), attempts=0)


def test_pauses() -> None:
    assert all(5.0 <= backoff(attempt) <= 10.0 for attempt in (7, 20, 900))
    until = format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)
    assert 43_200 < retry_after(response(503, {"Retry-After": until})) < 129_600
    for value in ("", "soon", "-1"):
        assert retry_after(response(503, {"Retry-After": value})) == 0.0


async def test_a_real_server(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        events.append("start")
        yield
        events.append("stop")

    settings = ServiceSettings(data_dir=tmp_path, port=0)
    configure_logging(settings.log_level, stream=StringIO())
    server = make_server(build_app("probe", settings, lifespan, version="1"), settings)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        assert gc.get_freeze_count() > 0
        host, port = server.address
        assert host == "127.0.0.1"
        async with service_client(f"http://{host}:{port}") as client:
            answer = await with_retries(lambda: client.call("GET", "/healthz"))
            assert answer.json()["status"] == "ok"
            assert "server" not in answer.headers
    finally:
        server.should_exit = True
        await running
        gc.unfreeze()
    assert events == ["start", "stop"]
    assert capfd.readouterr().out == ""
