"""Builds the aggregator: its parts in the order in which they need each other, and its routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from fastapi import FastAPI

from aggregator import audit, examples
from aggregator.context import Aggregator, Meters
from aggregator.pieces import peer_seals, unsealing
from aggregator.pieces import routes as pieces
from aggregator.pieces.intake import Intake
from aggregator.pieces.routes import PieceParts, UploadCounts
from aggregator.roster import identities as identity_routes
from aggregator.roster import peers
from aggregator.roster import routes as roster
from aggregator.roster.enrolment import SenderDirectory
from aggregator.rounds import key_rotation, restoring, state_machine
from aggregator.rounds import routes as rounds
from aggregator.rounds.routes import RoundSteps
from aggregator.rounds.verification import Verifying
from aggregator.rounds.verifier_shares import Evaluations
from aggregator.seal_keys import KeyDirectory, Periods, SealKeyring
from aggregator.settings import AggregatorSettings
from aggregator.store import tables
from common.identity.token_routes import IssuedTokens, NewToken, add_tokens
from common.principals import Scope
from common.runtime.clock import Clock, SystemClock
from common.runtime.logs import get_logger
from common.runtime.tasks import Repeating
from common.store.database import Readiness, add_store_meters, migrate, open_store
from common.store.erasure import Erasure
from common.store.own_identities import OwnIdentities, SerialFile
from common.store.transactions import Database
from common.web.app import add_readiness, build_app
from common.web.auth import Authenticator, ensure_operator_token, install_authenticator
from common.web.dependencies import part_of, provide
from common.web.middleware import add_direct, answer_directly
from common.web.openapi import add_routes
from tacit.errors import Invalid
from tacit.noise import self_test
from tacit.randomness import SecureRandom
from tacit.version import VERSION

MIGRATIONS = Path(__file__).parent / "migrations"
SETTLED_SWEEPS = 3
"""After this many sweeps every process has stored its counts of an hour."""
_logger = get_logger("tacit.aggregator")


def create_app(
    settings: AggregatorSettings,
    *,
    clock: Clock | None = None,
    intake_type: Callable[..., Intake] = Intake,
) -> FastAPI:
    """The aggregator. `intake_type`: a crash test replaces the writer by a broken one."""
    time = clock or SystemClock()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        aggregator, intake, evaluations = await _start(app, meters, settings, time, intake_type)
        app.state.polls.append(intake.changed)
        counts = part_of(app, UploadCounts)
        sweeper = Sweeper(aggregator, intake, meters, counts)
        sweeper.start()
        try:
            yield
        finally:
            await sweeper.stop()
            await evaluations.stop()
            await intake.stop()
            await counts.store()
            await aggregator.database.dispose()

    app = build_app(
        "aggregator",
        settings,
        lifespan,
        version=VERSION,
        description="Sealed pieces in, one partial sum out. It never sees a curator's value.",
        body_limits={
            "/v1/enrolments": settings.enrolment_max_body_bytes,
            "/v1/rounds": settings.round_max_body_bytes,
        },
    )
    meters = Meters(app.state.metrics)
    add_direct(app, pieces.DIRECT)
    answer_directly(app, rounds.DIRECT)
    app.plain_paths.update(examples.plain_paths())
    add_routes(app, pieces.router)
    rooms = (
        identity_routes,
        key_rotation,
        peer_seals,
        peers,
        roster,
        unsealing,
        rounds,
        audit,
    )
    add_routes(app, *(room.router for room in rooms))
    issued = IssuedTokens(
        tables.tokens,
        time,
        lambda: part_of(app, Aggregator).database,
        _operators_only,
        lambda: part_of(app, SenderDirectory).forget(),
    )
    add_tokens(app, issued, {"scope": "operator", "label": "night shift"})
    return app


async def _operators_only(token: NewToken) -> None:
    if token.scope is not Scope.OPERATOR:
        detail = "is operator: parties have theirs by enrolment, the coordinator by pairing"
        raise Invalid(detail, pointer="/scope")
    if token.subject is not None:
        raise Invalid("an operator's token belongs to no party", pointer="/subject")


async def _start(
    app: FastAPI,
    meters: Meters,
    settings: AggregatorSettings,
    clock: Clock,
    intake_type: Callable[..., Intake],
) -> tuple[Aggregator, Intake, Evaluations]:
    """Make and provide the parts; returns those that must be stopped."""
    key_dir = settings.key_dir or settings.data_dir / "keys"
    database = open_store(settings, key_dir)
    add_store_meters(app.state.metrics, database)
    await migrate(database, MIGRATIONS, tables.metadata.create_all)
    await ensure_operator_token(database, tables.tokens, settings, clock)
    identities = await OwnIdentities.of(
        database, tables.identities, SerialFile(settings.data_dir / "identity.serial")
    )
    seal_keyring = _seal_keyring(database, identities, settings, clock)
    await seal_keyring.claim()
    random = SecureRandom()
    passed = (await asyncio.to_thread(self_test, random)).passed
    erasure = Erasure(database)
    aggregator = Aggregator(
        database, settings, clock, identities, seal_keyring, random, erasure, passed
    )
    intake = intake_type(aggregator, on_batch=lambda _items, _seconds: meters.commits.inc())
    directory = SenderDirectory(
        database, clock, ttl_s=settings.sender_ttl_s, capacity=settings.cached_senders
    )
    authenticator = Authenticator(database, tables.tokens, clock)
    counts = UploadCounts(database, clock, SETTLED_SWEEPS * settings.sweep_s)
    uploads = PieceParts(aggregator, intake, directory, meters, counts)
    evaluations = Evaluations()
    verifying = Verifying(aggregator, intake, evaluations)
    steps = RoundSteps(aggregator, intake, verifying)
    provide(app, database, aggregator, intake, directory, steps, authenticator, uploads, counts)
    install_authenticator(app, authenticator)
    await restoring.recover(aggregator, intake)
    app.state.metrics.before_scrape(partial(meters.count_rounds, database))

    async def samplers() -> str | None:
        return None if passed else "the noise samplers failed their self-test"

    add_readiness(app, "database", Readiness(database).check)
    add_readiness(app, "samplers", samplers)
    add_readiness(app, "erasure", aggregator.erasure.readiness)
    add_readiness(app, "seal_keys", seal_keyring.readiness)
    return aggregator, intake, evaluations


def _seal_keyring(
    database: Database, identities: OwnIdentities, settings: AggregatorSettings, clock: Clock
) -> SealKeyring:
    periods = Periods(
        settings.seal_key_s,
        settings.seal_key_grace_s,
        settings.seal_key_hold_s,
        settings.policy_max_round_s,
    )
    return SealKeyring(
        database,
        identities,
        settings.aggregator_id,
        clock,
        KeyDirectory(settings.key_dir or settings.data_dir / "keys"),
        periods,
        capacity=settings.cached_senders,
    )


class Sweeper(Repeating):
    """The aggregator's one loop: it ends what is overdue and destroys what is no longer needed.
    Every other step of a round is a request of its coordinator."""

    def __init__(
        self, aggregator: Aggregator, intake: Intake, meters: Meters, counts: UploadCounts
    ) -> None:
        pause_s = aggregator.settings.sweep_s
        super().__init__("sweep", _logger, pause_s, first_s=pause_s)
        self._aggregator, self._intake, self._meters = aggregator, intake, meters
        self._counts = counts

    async def look(self) -> None:
        """Sweep once."""
        self._meters.expired.inc(await state_machine.sweep(self._aggregator, self._intake))
        await key_rotation.sweep_identities(self._aggregator, self._intake)
        if await key_rotation.sweep_keys(self._aggregator, self._intake):
            await self._aggregator.erasure.erase()
        await self._counts.store()
