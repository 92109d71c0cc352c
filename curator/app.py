"""Builds the curator service: its parts, its routes, the tasks of the leading process.

Routes and tests name a part by its type (`common.web.dependencies`), so no type lists them all. The
leading process participates in rounds and is connected to the meters' broker; the others accept
readings, enrol parties and answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI

from common.identity.token_routes import IssuedTokens, NewToken, add_tokens
from common.runtime.clock import Clock, SystemClock
from common.runtime.process import extra_needed, give_back
from common.runtime.telemetry import ServiceMetrics
from common.store.database import Readiness, add_store_meters, migrate, open_store
from common.store.leader import Leader
from common.store.transactions import Database
from common.web.app import add_readiness, build_app
from common.web.auth import Authenticator, ensure_operator_token, install_authenticator
from common.web.client import Transport
from common.web.dependencies import part_of, provide
from common.web.openapi import add_routes
from curator import examples
from curator.errors import BadMapping
from curator.files import routes as files
from curator.files.upload import Imports
from curator.intake import routes as intake_routes
from curator.intake.intake import Intake
from curator.intake.routes import Batching
from curator.owner import curators, policies, statement, stopping
from curator.owner import routes as owner
from curator.owner.policies import Policies
from curator.participation.consent import Refusing
from curator.participation.contribution import Contributor
from curator.participation.delivery import Delivery
from curator.participation.federated_steps import Steps
from curator.participation.loop import Answering, Participation, PartyUpkeep
from curator.participation.noisy_reports import Reporting
from curator.participation.restoring import find_restore
from curator.participation.settlement import Expiry, Settling
from curator.parties import identities as anchors
from curator.parties import routes as parties
from curator.parties.enrolment import Enroller
from curator.parties.identities import Anchors, Coordinators, Identities
from curator.parties.keys import Keyring, Renewals, SealKeys, Successions
from curator.parties.peers import Peers
from curator.parties.routes import AfterEnrolment, check_token
from curator.records import routes as records
from curator.settings import CuratorSettings
from curator.store.tables import metadata
from curator.store.tables import tokens as token_table
from tacit.errors import StartRefused
from tacit.version import VERSION

if TYPE_CHECKING:
    from curator.mqtt.connection import Connection


async def build_parts(
    database: Database,
    settings: CuratorSettings,
    clock: Clock,
    metrics: ServiceMetrics,
    transports: Mapping[str, Transport] | None,
) -> tuple[object, ...]:
    """All parts that a route, the composition or a test needs; the store is migrated."""
    restore = await find_restore(database, settings, clock)
    policy = await Policies.load(database, settings)
    contributed = metrics.counter("contributions", "Contributions by outcome.", ("outcome",))
    delivered = metrics.counter("deliveries", "Deliveries by outcome.", ("outcome",))
    expired = metrics.counter(
        "rounds_expired", "Rounds whose refusals and deliveries were dropped after their retention."
    )
    peers = Peers(settings.peer_timeout_s, transports, settings.trust())
    intake = Intake(database, clock, settings)
    async with database.reading() as transaction:
        await intake.hosted.load(transaction)
    enroller = Enroller(database, peers, clock, settings.confirmed_keys)
    coordinators = Coordinators(database, peers, clock, settings.confirmed_keys)
    identities = Identities(database, peers, clock, settings.confirmed_keys)
    keyring = Keyring()
    contributor = Contributor(
        database,
        keyring,
        clock,
        policy.current,
        restore,
        SealKeys(peers, database if settings.require_pq_signatures else None),
        identities,
        lambda outcome: contributed.labels(outcome).inc(),
        Steps(database, peers, clock, restore),
    )
    delivery = Delivery(
        database,
        peers,
        keyring,
        clock,
        in_flight=settings.requests_per_aggregator,
        retry_s=settings.retry_s,
        grace_s=settings.deliver_grace_s,
        counted=lambda outcome: delivered.labels(outcome).inc(),
    )
    reporting = Reporting(
        database, peers, clock, policy.current, settings.send_window_share, restore
    )
    successions = Successions(database, peers, keyring, clock)
    answering = Answering(
        contributor,
        delivery,
        reporting,
        Refusing(database, peers, clock),
        Settling(database, peers, clock),
    )
    renewals = Renewals(database, peers, clock)
    upkeep = PartyUpkeep(enroller, coordinators, successions, renewals)
    participation = Participation(database, peers, clock, settings, answering, upkeep)
    return (
        database,
        clock,
        settings,
        peers,
        intake,
        Batching(intake),
        Imports(clock, settings.import_max_errors),
        policy,
        enroller,
        successions,
        coordinators,
        identities,
        Anchors(database, coordinators, identities),
        contributor,
        delivery,
        reporting,
        participation,
        Expiry(database, clock, settings.retention_s, expired),
    )


class Active:
    """The leader's part of a service. Without `participate`, it joins no round by itself."""

    def __init__(
        self,
        participation: Participation,
        expiry: Expiry,
        meters: Connection | None,
        *,
        participate: bool,
    ) -> None:
        self._participation, self._expiry, self._meters = participation, expiry, meters
        self._participate = participate

    async def start(self) -> None:
        """Begin."""
        if self._participate:
            self._participation.start()
        self._expiry.start()
        if self._meters is not None:
            self._meters.start()

    async def stop(self) -> None:
        """End; the next start continues from the stored state, here or elsewhere."""
        if self._meters is not None:
            await self._meters.stop()
        await self._expiry.stop()
        await self._participation.stop()


async def connected(leader: Leader, meters: Connection) -> str | None:
    """For `/readyz`: only the leader keeps a connection to the broker."""
    return await meters.check() if leader.leads else None


MIGRATIONS = Path(__file__).parent / "migrations"
VALUE_BYTES: Final = 24
"""Of a number in a vector's body, at most: the longest vector arrives whole."""


def create_app(
    settings: CuratorSettings,
    *,
    clock: Clock | None = None,
    transports: Mapping[str, Transport] | None = None,
) -> FastAPI:
    """The curator service. `transports` replaces the network to the given addresses (in-process
    use).

    `part_of(app, ...)` finds its parts while the app runs.
    """
    time = clock or SystemClock()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        database = open_store(settings)
        add_store_meters(app.state.metrics, database)
        await migrate(database, MIGRATIONS, metadata.create_all)
        await ensure_operator_token(database, token_table, settings, time)
        parts = (
            *await build_parts(database, settings, time, app.state.metrics, transports),
            AfterEnrolment(partial(_enrolled, app)),
        )
        provide(app, *parts)
        participation = part_of(app, Participation)
        authenticator = Authenticator(database, token_table, time)
        install_authenticator(app, authenticator)
        if settings.console:
            pages = await _pages().console_parts(
                settings, database, authenticator, time, VERSION, transports
            )
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
        version=VERSION,
        description="Readings in, sealed contributions out.",
        body_limits={
            "/v1/readings/import": settings.import_max_body_bytes,
            "/console/readings/import": settings.import_max_body_bytes,
            "/v1/readings": max(settings.max_body_bytes, VALUE_BYTES * settings.max_values),
            "/v1/records": settings.import_max_body_bytes,
            "/v1/sequences": settings.import_max_body_bytes,
            "/v1/transactions": settings.import_max_body_bytes,
            "/v1/enrolments": 256 * 1024 * 1024,
        },
    )
    add_routes(app, parties.router, anchors.router)
    issued = IssuedTokens(
        token_table, time, lambda: part_of(app, Database), partial(_check_token, app)
    )
    add_tokens(app, issued, examples.TOKEN)
    rooms = (
        policies,
        curators,
        owner,
        stopping,
        statement,
        intake_routes,
        files,
        records,
    )
    add_routes(app, *(room.router for room in rooms))
    if settings.console:
        _pages().add_console(app, settings)
    return app


def _pages() -> ModuleType:
    """The console, whose templates need jinja2, which is imported only if the console is on."""
    try:
        return import_module("curator.console.app")
    except ImportError as error:
        if error.name not in ("jinja2", "joserfc", "markupsafe"):
            raise
        raise StartRefused(extra_needed("TACIT_CONSOLE", "console")) from None


async def _enrolled(app: FastAPI) -> None:
    """Let new curators send readings, and poll for their rounds."""
    async with part_of(app, Database).reading() as connection:
        await part_of(app, Intake).hosted.load(connection)
    await asyncio.to_thread(give_back)
    part_of(app, Participation).wake()


async def _check_token(app: FastAPI, token: NewToken) -> None:
    await check_token(part_of(app, Database), token)


async def _meters(app: FastAPI, settings: CuratorSettings, clock: Clock) -> Connection | None:
    """The connection to the meters' broker, if the settings have one; not started."""
    if settings.mqtt_host is None:
        return None
    try:
        from curator.mqtt.connection import connection
    except ModuleNotFoundError:
        raise StartRefused(extra_needed("TACIT_MQTT_HOST", "mqtt")) from None
    try:
        return await asyncio.to_thread(
            connection, settings, part_of(app, Intake), clock, app.state.metrics
        )
    except BadMapping as error:
        raise StartRefused(error.detail) from None
