"""Builds the aggregator: its parts in the order in which they need each other, and its routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from fastapi import FastAPI

from aggregator import restoring, rounds
from aggregator.audit_routes import add_audit
from aggregator.context import Aggregator
from aggregator.enrolment_routes import add_enrolment
from aggregator.identity_routes import add_identity
from aggregator.intake import Intake
from aggregator.keys import Keyring, load_identity
from aggregator.piece_routes import add_pieces
from aggregator.round_routes import add_rounds
from aggregator.senders import KeyWarmer, SenderDirectory
from aggregator.settings import AggregatorSettings
from aggregator.store.tables import tokens
from aggregator.web import Meters, Service
from common.errors import Invalid
from common.noise import self_test
from common.randomness import SecureRandom
from common.service.app import add_readiness, build_app
from common.service.auth import Authenticator, ensure_operator_token, install_authenticator
from common.service.clock import Clock, SystemClock
from common.service.database import check, migrate, open_store
from common.service.erasure import Erasure
from common.service.logs import describe, get_logger
from common.service.token_routes import NewToken, add_tokens
from common.service.tokens import Scope

VERSION = "0.1.0"
MIGRATIONS = Path(__file__).parent / "migrations"
_logger = get_logger("tacit.aggregator")


def create_app(
    settings: AggregatorSettings,
    *,
    clock: Clock | None = None,
    intake_type: Callable[..., Intake] = Intake,
) -> FastAPI:
    """The aggregator. `intake_type` lets a crash test put a broken writer in the place of ours."""
    time = clock or SystemClock()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = await _start(app, settings, time, intake_type)
        sweeper = asyncio.create_task(_sweep(service), name="tacit-sweep")
        try:
            yield
        finally:
            sweeper.cancel()
            await asyncio.gather(sweeper, return_exceptions=True)
            await service.warmer.stop()
            await service.intake.stop()
            await service.aggregator.engine.dispose()

    app = build_app(
        "aggregator",
        settings,
        lifespan,
        version=VERSION,
        description="Sealed pieces in, one partial sum out. It never holds a curator's value.",
        body_limits={
            "/v1/enrolments": settings.enrolment_max_body_bytes,
            "/v1/rounds": settings.round_max_body_bytes,
        },
    )
    app.state.meters = Meters(app)
    add_pieces(app)
    add_identity(app, settings)
    add_enrolment(app)
    add_rounds(app)
    add_audit(app)
    add_tokens(
        app,
        tokens,
        time,
        lambda: _service(app).aggregator.engine,
        check=_operators_only,
        revoked=lambda: _service(app).directory.forget(),
        example={"scope": "operator", "label": "night shift"},
    )
    return app


def _service(app: FastAPI) -> Service:
    service: Service = app.state.service
    return service


async def _operators_only(asked: NewToken) -> None:
    if asked.scope is not Scope.OPERATOR:
        detail = "is operator: parties have theirs by enrolment, the coordinator by pairing"
        raise Invalid(detail, pointer="/scope")
    if asked.subject is not None:
        raise Invalid("an operator's token belongs to no party", pointer="/subject")


async def _start(
    app: FastAPI, settings: AggregatorSettings, clock: Clock, intake_type: Callable[..., Intake]
) -> Service:
    engine = open_store(settings)
    await migrate(engine, MIGRATIONS)
    await ensure_operator_token(engine, tokens, settings, clock)
    keyring = Keyring(
        engine,
        await load_identity(engine),
        settings.aggregator_id,
        clock,
        epoch_s=settings.epoch_s,
        grace_s=settings.epoch_grace_s,
        capacity=settings.cached_senders,
    )
    await keyring.current()
    random = SecureRandom()
    passed = (await asyncio.to_thread(self_test, random)).passed
    aggregator = Aggregator(engine, settings, clock, keyring, random, Erasure(engine))
    meters: Meters = app.state.meters
    intake = intake_type(aggregator, on_batch=lambda _items, _seconds: meters.commits.inc())
    directory = SenderDirectory(
        engine, clock, ttl_s=settings.sender_ttl_s, capacity=settings.cached_senders
    )
    service = Service(aggregator, intake, directory, KeyWarmer(aggregator), passed)
    app.state.service = service
    install_authenticator(app, Authenticator(engine, tokens, clock))
    await intake.start()
    await restoring.recover(aggregator, intake)
    app.state.metrics.before_scrape(partial(meters.count_rounds, aggregator))

    async def samplers() -> str | None:
        return None if service.samplers_passed else "the noise samplers failed their self-test"

    add_readiness(app, "database", lambda: check(engine))
    add_readiness(app, "samplers", samplers)
    add_readiness(app, "erasure", aggregator.erasure.readiness)
    return service


async def _sweep(service: Service) -> None:
    while True:
        await asyncio.sleep(service.aggregator.settings.sweep_s)
        try:
            await rounds.sweep(service.aggregator, service.intake)
        except Exception as error:
            _logger.error("sweep_failed", **describe(error))
