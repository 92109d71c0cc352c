"""The parts of a curator service, built once at its start.

Routes and tests name a part by its type (`common.web.parts`), so no type lists them all.
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from common.runtime.clock import Clock
from common.runtime.metrics import ServiceMetrics
from common.store.transactions import Database
from curator.files.progress import Imports
from curator.intake.batching import Gathering
from curator.intake.intake import Intake
from curator.owner.policies import Policies
from curator.participation.contribution import Contributor
from curator.participation.delivery import Delivery
from curator.participation.expiry import Expiry
from curator.participation.federated_steps import Steps
from curator.participation.loop import Participation
from curator.participation.noisy_reports import Reporting
from curator.participation.refusals import Refusing
from curator.participation.restoring import find_restore
from curator.participation.settlement import Settling
from curator.parties.anchors import Anchors
from curator.parties.coordinators import Coordinators
from curator.parties.identities import Identities
from curator.parties.keyring import Keyring
from curator.parties.parties import Enroller
from curator.parties.peers import Peers
from curator.parties.renewals import Renewals
from curator.parties.seal_keys import SealKeys
from curator.parties.successions import Successions
from curator.settings import CuratorSettings


async def build(
    database: Database,
    settings: CuratorSettings,
    clock: Clock,
    metrics: ServiceMetrics,
    transports: Mapping[str, httpx.AsyncBaseTransport] | None,
) -> tuple[object, ...]:
    """All parts that a route, the composition or a test needs; the store is migrated."""
    restore = await find_restore(database, settings, clock)
    policies = await Policies.load(database, settings)
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
        policies.current,
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
        database, peers, clock, policies.current, settings.send_window_share, restore
    )
    successions = Successions(database, peers, keyring, clock)
    participation = Participation(
        database,
        peers,
        clock,
        settings,
        contributor,
        delivery,
        Settling(database, peers, clock),
        enroller,
        reporting,
        Refusing(database, peers, clock),
        coordinators,
        successions,
        Renewals(database, peers, clock),
    )
    return (
        database,
        clock,
        settings,
        peers,
        intake,
        Gathering(intake),
        Imports(clock, settings.import_max_errors),
        policies,
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
