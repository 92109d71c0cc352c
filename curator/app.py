"""Builds the curator service: its parts, its routes, the tasks of the leading process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import httpx
from fastapi import FastAPI

from common.runtime.clock import Clock, SystemClock
from common.runtime.extras import extra_needed
from common.runtime.memory import give_back
from common.store.database import Readiness, migrate, open_store
from common.store.leader import Leader
from common.store.meters import add_store_meters
from common.store.transactions import Database
from common.web.app import add_readiness, build_app
from common.web.auth import Authenticator, ensure_operator_token, install_authenticator
from common.web.parts import part_of, provide
from common.web.token_routes import NewToken, add_tokens
from curator import examples
from curator.errors import BadMapping
from curator.files.routes import add_imports
from curator.intake.intake import Intake
from curator.intake.routes import add_intake
from curator.leading import Active, connected
from curator.owner.curator_routes import add_curators
from curator.owner.ledger_routes import add_ledger
from curator.owner.policy_routes import add_policy
from curator.owner.routes import add_owner
from curator.owner.stop_routes import add_stops
from curator.participation.expiry import Expiry
from curator.participation.loop import Participation
from curator.parties.anchor_routes import add_anchors
from curator.parties.peers import Peers
from curator.parties.routes import add_identities, add_parties, check_token
from curator.parts import build
from curator.records.item_routes import add_items
from curator.records.routes import add_records
from curator.settings import CuratorSettings
from curator.store.tables import tokens as token_table
from tacit.errors import StartRefused
from tacit.version import VERSION

if TYPE_CHECKING:
    from curator.mqtt.connection import Connection

MIGRATIONS = Path(__file__).parent / "migrations"


def create_app(
    settings: CuratorSettings,
    *,
    clock: Clock | None = None,
    transports: Mapping[str, httpx.AsyncBaseTransport] | None = None,
) -> FastAPI:
    """The curator service. `transports` replaces the network to given addresses (in-process use).

    `part_of(app, ...)` finds its parts while the app runs.
    """
    time = clock or SystemClock()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        database = open_store(settings)
        add_store_meters(app.state.metrics, database)
        await migrate(database, MIGRATIONS)
        await ensure_operator_token(database, token_table, settings, time)
        parts = await build(database, settings, time, app.state.metrics, transports)
        provide(app, *parts)
        participation = part_of(app, Participation)
        authenticator = Authenticator(database, token_table, time)
        install_authenticator(app, authenticator)
        if settings.console:
            pages = await _pages().console_parts(settings, database, authenticator, time, VERSION)
            provide(app, *parts, *pages)
        add_readiness(app, "database", Readiness(database).check)
        add_readiness(app, "erasure", participation.erasure.readiness)
        meters = await _meters(app, settings, time)
        active = Active(
            participation, part_of(app, Expiry), meters, participate=settings.participate
        )
        leader = Leader(database, "curator", active.start, active.stop)
        if meters is not None:
            add_readiness(app, "mqtt", partial(connected, leader, meters))
        await leader.start()
        try:
            yield
        finally:
            await leader.stop()
            await part_of(app, Peers).aclose()
            await database.dispose()

    app = build_app(
        "curator",
        settings,
        lifespan,
        answers=Path(__file__).with_name("answers.json"),
        version=VERSION,
        description="Readings in, sealed contributions out. It keeps what it is told to itself.",
        body_limits={
            "/v1/readings/import": settings.import_max_body_bytes,
            "/console/readings/import": settings.import_max_body_bytes,
            "/v1/records": settings.import_max_body_bytes,
            "/v1/sequences": settings.import_max_body_bytes,
            "/v1/transactions": settings.import_max_body_bytes,
            "/v1/enrolments": 256 * 1024 * 1024,
        },
    )
    add_parties(app, enrolled=partial(_enrolled, app))
    add_identities(app, enrolled=partial(_enrolled, app))
    add_anchors(app)
    add_tokens(
        app,
        token_table,
        time,
        lambda: part_of(app, Database),
        check=partial(_check_token, app),
        revoked=lambda: None,
        example=examples.TOKEN,
    )
    add_policy(app)
    add_curators(app)
    add_owner(app)
    add_stops(app)
    add_ledger(app)
    add_intake(app)
    add_imports(app)
    add_records(app)
    add_items(app)
    if settings.console:
        _pages().add_console(app, time, enrolled=partial(_enrolled, app))
    return app


def _pages() -> ModuleType:
    """The console, whose templates need jinja2: only imported where it is on."""
    try:
        return import_module("curator.console.app")
    except ImportError as error:
        if error.name not in ("jinja2", "markupsafe"):
            raise
        raise StartRefused(extra_needed("TACIT_CONSOLE", "console")) from None


async def _enrolled(app: FastAPI) -> None:
    """From now on new curators may send readings, and rounds for them are polled."""
    async with part_of(app, Database).reading() as connection:
        await part_of(app, Intake).hosted.load(connection)
    await asyncio.to_thread(give_back)
    part_of(app, Participation).wake()


async def _check_token(app: FastAPI, asked: NewToken) -> None:
    await check_token(part_of(app, Database), asked)


async def _meters(app: FastAPI, settings: CuratorSettings, clock: Clock) -> Connection | None:
    """The connection to the meters' broker, if the settings name one; not started."""
    if settings.mqtt_host is None:
        return None
    try:
        from curator.mqtt.start import connection
    except ModuleNotFoundError:
        raise StartRefused(extra_needed("TACIT_MQTT_HOST", "mqtt")) from None
    try:
        return await asyncio.to_thread(
            connection, settings, part_of(app, Intake), clock, app.state.metrics
        )
    except BadMapping as error:
        raise StartRefused(error.detail) from None
