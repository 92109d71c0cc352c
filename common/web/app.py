"""Builds the FastAPI app of a service: what all three have, before their own routes.

Problems for every error, limits on bodies and on requests in progress, `/healthz`, `/readyz`,
`/metrics`, an offline `/docs`, an access log and safe headers. FastAPI's own telemetry is off: it
records what clients sent when validation fails.
"""

import asyncio
import inspect
import math
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from fastapi import FastAPI
from sqlalchemy.engine import make_url
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from common.runtime.logs import describe, get_logger
from common.runtime.settings import LAST_BACKUP, ServiceSettings
from common.runtime.tasks import Notice
from common.runtime.telemetry import ServiceMetrics, tracer_of
from common.runtime.tls import expiry, post_quantum
from common.store.failures import Cause, cause
from common.web import support
from common.web.limits import BodyLimit, Load, LoadLimit
from common.web.middleware import Access
from common.web.openapi import ServiceApp, add_docs, add_routes, gives
from common.web.problems import install_problem_handlers, openapi_responses
from common.web.server import Register
from tacit.answers.base import Health, Readiness
from tacit.errors import DomainError, StartRefused, Unavailable

Lifespan: TypeAlias = Callable[[FastAPI], AbstractAsyncContextManager[None]]
ReadinessCheck: TypeAlias = Callable[[], Awaitable[str | None]]
"""Returns None when ready, else the reason in public words."""

_logger = get_logger("tacit.start")
_TELEMETRY: Final = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


class NotReady(Unavailable):
    """A readiness check does not pass; `checks` says which."""

    name = "not_ready"
    title = "The service is not ready"


class StartFailed(RuntimeError):
    """The service could not start. The server prints the whole chain of an exception, so this
    one replaces any other, whose text could contain something private."""


def build_app(
    name: str,
    settings: ServiceSettings,
    lifespan: Lifespan,
    *,
    version: str,
    description: str = "",
    body_limits: Mapping[str, int] | None = None,
) -> ServiceApp:
    """The app of service `name`, to which the service adds its routers.

    `body_limits` gives path prefixes their own largest body. Afterwards `app.state` holds
    `settings`, `metrics` (a `ServiceMetrics`), `tracer`, `connections` (a `Register`),
    `readiness` and `polls`, which end with the server (the first is for what notifies nobody); the
    lifespan adds the rest.
    """
    metrics = ServiceMetrics(name)
    metrics.gauge("build_info", "1; the version is the label.", ("version",)).labels(version).set(1)
    if settings.tls_certificate is not None:
        ends = metrics.gauge(
            "tls_certificate_expiry_timestamp_seconds", "When the certificate that is shown ends."
        )
        ends.set_function(partial(_ends, settings.tls_certificate))
    _add_machine_metrics(metrics, settings.data_dir)
    load = Load(settings.max_requests, settings.max_held_bytes, metrics)
    tracer = tracer_of(name, version, settings.otlp_endpoint)

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        app.state.polls = [Notice()]
        async with AsyncExitStack() as stack:
            stack.push_async_callback(asyncio.to_thread, tracer.stop)
            try:
                await stack.enter_async_context(lifespan(app))
            except Exception as error:
                if not isinstance(error, StartRefused):
                    _logger.error("start_failed", **describe(error))
                raise StartFailed(_public(error, settings)) from None
            yield

    app = ServiceApp(
        title=f"Tacit {name}",
        version=version,
        description=description,
        lifespan=running,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        servers=[{"url": settings.path_prefix}] if settings.path_prefix else None,
        responses=openapi_responses(),
        middleware=[
            Middleware(Access, metrics=metrics, settings=settings, tracer=tracer),
            Middleware(LoadLimit, load=load),
            Middleware(
                BodyLimit,
                max_bytes=settings.max_body_bytes,
                exceptions=dict(body_limits or {}),
                load=load,
                grace_s=settings.transfer_grace_s,
                least_bytes_per_s=settings.transfer_least_bytes_per_s,
            ),
        ],
        **_telemetry_off(),
    )
    app.state.settings = settings
    app.state.metrics = metrics
    app.state.tracer = tracer
    app.state.connections = Register(settings, metrics)
    app.state.readiness = {}
    install_problem_handlers(app)
    _add_service_routes(app, name, version)
    add_routes(app, support.router)
    return app


def _add_machine_metrics(metrics: ServiceMetrics, data_dir: Path) -> None:
    """What a service knows of its machine and its operator's care."""
    metrics.gauge(
        "clock_timestamp_seconds", "The service's clock; the scraper compares it with its own."
    ).set_function(time.time)
    metrics.gauge(
        "data_directory_free_ratio", "Free share of the file system that holds the data directory."
    ).set_function(partial(_free, data_dir))
    metrics.gauge(
        "last_backup_timestamp_seconds", "When the service was last backed up; 0 for never."
    ).set_function(partial(_backed_up, data_dir / LAST_BACKUP))


def _free(directory: Path) -> float:
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return math.nan
    return round(usage.free / usage.total, 3) if usage.total else math.nan


def _backed_up(marker: Path) -> float:
    try:
        return marker.stat().st_mtime
    except OSError:
        return 0.0


def add_readiness(app: FastAPI, name: str, check: ReadinessCheck, *, vital: bool = True) -> None:
    """Add `check` to `/readyz`; it replaces a check of the same name. A failed check that is not
    `vital` is shown, but the service is ready."""
    app.state.readiness[name] = (check, vital)


def _telemetry_off() -> dict[str, Any]:
    """FastAPI's argument that disables its own telemetry, in the versions that have one."""
    if "telemetry" in inspect.signature(FastAPI.__init__).parameters:
        return {"telemetry": dict(_TELEMETRY)}
    return {}


def _add_service_routes(app: FastAPI, name: str, version: str) -> None:
    @app.get("/healthz", **gives(Health), tags=["service"], summary="Whether the process is alive")
    async def get_health() -> dict[str, str]:
        return {"status": "ok", "service": name, "version": version}

    @app.get(
        "/readyz",
        **gives(Readiness),
        tags=["service"],
        summary="Whether the service can do its work",
    )
    async def get_readiness() -> dict[str, object]:
        checks = {key: await _ask(check) for key, (check, _) in app.state.readiness.items()}
        shown = {"checks": {key: why or "ok" for key, why in checks.items()}}
        if any(checks[key] is not None for key, (_, vital) in app.state.readiness.items() if vital):
            raise NotReady(extra={**shown, "tls_pq": post_quantum()})
        return {"status": "ready", **shown, "tls_pq": post_quantum(), "pid": os.getpid()}

    async def metrics_text(_: Request) -> Response:
        return Response(await app.state.metrics.scrape(), media_type=ServiceMetrics.content_type)

    app.add_route("/metrics", metrics_text, include_in_schema=False)
    add_docs(app)


def _public(error: Exception, settings: ServiceSettings) -> str:
    """What may be reported about an error at startup."""
    if isinstance(error, StartRefused):
        return str(error)
    if cause(error) is Cause.DAMAGED:
        file = make_url(settings.database()).database
        return f"the database {file} is damaged: restore the data directory from a backup"
    if isinstance(error, DomainError):
        return f"{error.name}: {error.title}"
    return type(error).__name__


def _ends(certificate: Path) -> float:
    try:
        return expiry(certificate).timestamp()
    except (OSError, ValueError):
        return math.nan


async def _ask(check: ReadinessCheck) -> str | None:
    try:
        return await check()
    except Exception as error:
        return f"the check failed ({type(error).__name__})"
