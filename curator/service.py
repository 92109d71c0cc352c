"""The parts of a curator service, made once and handed to the routes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import httpx
from sqlalchemy.ext.asyncio import AsyncEngine

from common.models.base import format_instant
from common.service.clock import Clock
from common.service.database import reading
from common.service.logs import get_logger
from common.service.metrics import ServiceMetrics
from curator.contribution import Contributor
from curator.delivery import Delivery
from curator.gathering import Gathering
from curator.participation import Participation
from curator.parties import Enroller, Keyring
from curator.peers import Peers
from curator.policy import Policy, initial_policy
from curator.progress import Progress
from curator.readings import Intake
from curator.refusing import Refusing
from curator.reporting import Reporting
from curator.restoring import Restore
from curator.settings import CuratorSettings
from curator.settling import Settling
from curator.steps import Steps
from curator.store import parties as store

POLICY = "policy"
RESTORED = "restored_at"
MARKER = "restored"
_logger = get_logger("tacit.curator")


@dataclass
class Service:
    """All parts; `policy` is the process's default."""

    engine: AsyncEngine
    clock: Clock
    settings: CuratorSettings
    peers: Peers
    intake: Intake
    enroller: Enroller
    keyring: Keyring
    contributor: Contributor
    delivery: Delivery
    settling: Settling
    participation: Participation
    policies: Policies
    imports: dict[str, Progress]
    reporting: Reporting
    gathering: Gathering


class Policies:
    """The default policy, kept in the store."""

    def __init__(self, engine: AsyncEngine, current: Policy) -> None:
        self._engine, self._current = engine, current

    async def current(self) -> Policy:
        """The default policy. Where other processes may have replaced it, it is read again."""
        if self._engine.dialect.name == "postgresql":
            async with reading(self._engine) as connection:
                text = await store.fact(connection, POLICY)
            if text is not None:
                self._current = Policy.model_validate_json(text)
        return self._current

    async def put(self, policy: Policy) -> None:
        """Replace it, durably."""
        async with self._engine.begin() as connection:
            await store.put_fact(connection, POLICY, policy.model_dump_json())
        self._current = policy


async def find_restore(engine: AsyncEngine, settings: CuratorSettings, clock: Clock) -> Restore:
    """When this store was last restored from a backup: the file `<data_dir>/restored`, put there by
    whoever restores, becomes a fact at the next start. Rounds opened before it are refused: a
    debit and its sealed bytes may have been lost, and fresh noise would let them be averaged."""
    marker = settings.data_dir / MARKER
    async with engine.begin() as connection:
        if marker.exists():
            await store.put_fact(connection, RESTORED, format_instant(clock.now()))
            _logger.warning("restored_from_backup")
        text = await store.fact(connection, RESTORED)
    marker.unlink(missing_ok=True)
    at = None if text is None else datetime.fromisoformat(text)
    return Restore(at, timedelta(seconds=settings.restore_quiet_s))


async def build(
    engine: AsyncEngine,
    settings: CuratorSettings,
    clock: Clock,
    metrics: ServiceMetrics,
    transports: Mapping[str, httpx.AsyncBaseTransport] | None,
) -> Service:
    """Make all parts of a service whose store is migrated."""
    restore = await find_restore(engine, settings, clock)
    async with reading(engine) as connection:
        text = await store.fact(connection, POLICY)
    policy = initial_policy(settings) if text is None else Policy.model_validate_json(text)
    policies = Policies(engine, policy)
    contributed = metrics.counter(
        "contributions", "Contributions by what became of them.", ("outcome",)
    )
    delivered = metrics.counter("deliveries", "Deliveries by how they ended.", ("outcome",))
    peers = Peers(settings.peer_timeout_s, transports, settings.trust())
    intake = Intake(engine, clock, settings)
    async with reading(engine) as connection:
        await intake.hosted.load(connection)
    enroller = Enroller(engine, peers, clock)
    keyring = Keyring(engine, peers, clock, settings.key_epoch_s)
    contributor = Contributor(
        engine,
        keyring,
        clock,
        policies.current,
        restore,
        lambda outcome: contributed.labels(outcome).inc(),
        Steps(engine, peers, clock),
    )
    delivery = Delivery(
        engine,
        peers,
        keyring,
        clock,
        in_flight=settings.requests_per_aggregator,
        retry_s=settings.retry_s,
        grace_s=settings.deliver_grace_s,
        counted=lambda outcome: delivered.labels(outcome).inc(),
    )
    settling = Settling(engine, peers, clock)
    reporting = Reporting(
        engine, peers, clock, policies.current, settings.send_window_share, restore
    )
    participation = Participation(
        engine,
        peers,
        clock,
        settings,
        keyring,
        contributor,
        delivery,
        settling,
        enroller,
        reporting,
        Refusing(engine, peers, clock),
    )
    return Service(
        engine,
        clock,
        settings,
        peers,
        intake,
        enroller,
        keyring,
        contributor,
        delivery,
        settling,
        participation,
        policies,
        {},
        reporting,
        Gathering(intake),
    )
