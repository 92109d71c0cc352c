"""Rounds: opening one, and the state machine of one round (spec: aggregation, section 6).

    open -> frozen -> committed -> released
       \\_______\\________\\________-> aborted(reason)

One function per transition, each durable before the next begins and each safe to repeat: every
aggregator answers a repeated request with the same bytes. The coordinator holds no share; it
forwards signed sets, commitments and partial sums, and checks them as any other party would.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import structlog
from common.models.report import Subject
from common.report import query_report
from pydantic import TypeAdapter
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from common.agreement import (
    CommitmentRefused,
    RevealRefused,
    TooFewParticipants,
    check_commitments,
    check_descriptor,
    manifest_of,
    open_sum,
)
from common.errors import DomainError
from common.functions import decode, dimension
from common.mechanisms import noisy_aggregators, shares_its_noise
from common.models.base import WireModel
from common.models.enrolment import EPOCH_KEY_LABEL, EpochKey
from common.models.query import Identifier, Sharing, Window
from common.models.round import (
    ABORT_LABEL,
    DESCRIPTOR_LABEL,
    AbortStatement,
    AcceptedSet,
    AggregatorEntry,
    Commitment,
    Contribution,
    Manifest,
    ManifestRequest,
    Reveal,
    RevealRequest,
    RoundDescriptor,
    RoundState,
    Transcript,
)
from common.sealing import segment_size
from common.service.clock import Clock, uuid7
from common.service.database import reading
from common.service.problems import ProblemReceived
from common.signing import Identity, SignatureBroken, Signed, verify
from coordinator import store
from coordinator.errors import (
    AggregatorUnreachable,
    NotEnoughAggregators,
    UnknownAggregator,
    UnknownRound,
    WindowMissing,
)
from coordinator.peers import Peer, Peers, RelayedPiece
from coordinator.store import AggregatorRow, QueryRow, RoundRow

log = structlog.get_logger("tacit.rounds")
Answer = TypeVar("Answer")

_ACCEPTED = TypeAdapter(list[Signed[AcceptedSet]])
_COMMITMENTS = TypeAdapter(list[Signed[Commitment]])
_ABORTS = TypeAdapter(list[Signed[AbortStatement]])


class OpenRequest(WireModel):
    """Open a round of a query, now. `aggregators`: which ones (default: the first by id)."""

    query_id: Identifier
    window: Window | None = None
    deadline_s: int | None = None
    aggregators: tuple[Identifier, ...] | None = None


@dataclass(frozen=True)
class Conduct:
    """What every transition needs."""

    engine: AsyncEngine
    identity: Identity
    deployment: str
    peers: Peers
    clock: Clock
    patience_s: float


class RoundAborted(Exception):
    """The round cannot go on; the reason is public."""


async def open_round(
    conduct: Conduct, query_row: QueryRow, request: OpenRequest, slot: int | None = None
) -> RoundRow:
    """Make, sign and store a round's descriptor; the conductor announces it afterwards."""
    query = query_row.query
    window = query.window or request.window
    if window is None or (query.window is not None and request.window not in (None, window)):
        raise WindowMissing("give the window of a query that fixes none", pointer="/window")
    async with reading(conduct.engine) as connection:
        rows = _chosen(query.aggregators, request, await store.list_aggregators(connection))
        version, size = await store.roster_state(connection)
    entries = await asyncio.gather(*(_entry(conduct.peers.of(row)) for row in rows))
    now = conduct.clock.now()
    opened = now.replace(microsecond=now.microsecond // 1000 * 1000)
    descriptor = RoundDescriptor(
        deployment=conduct.deployment,
        round=str(uuid7(conduct.clock)),
        query_id=query_row.id,
        query=query,
        window=window,
        opened=opened,
        deadline=opened + timedelta(seconds=request.deadline_s or query.deadline_s),
        aggregators=tuple(entries),
        roster_version=version,
        roster_size=size,
        segment_size=segment_size(dimension(query)),
    )
    signed = conduct.identity.sign(DESCRIPTOR_LABEL, descriptor)
    check_descriptor(signed, conduct.identity.public_key)
    async with conduct.engine.begin() as connection:
        await store.add_round(
            connection,
            descriptor.round,
            query_row.id,
            descriptor.opened,
            descriptor.deadline,
            signed.model_dump_json(),
            slot,
        )
        return await find(connection, descriptor.round)


def _chosen(count: int, request: OpenRequest, rows: Sequence[AggregatorRow]) -> list[AggregatorRow]:
    if request.aggregators is None:
        chosen = list(rows[:count])
    else:
        by_id = {row.id: row for row in rows}
        missing = [name for name in request.aggregators if name not in by_id]
        if missing:
            raise UnknownAggregator(f"unknown aggregator {missing[0]}", pointer="/aggregators")
        chosen = [by_id[name] for name in request.aggregators]
    if len(chosen) != count or len({row.id for row in chosen}) != count:
        raise NotEnoughAggregators(extra={"needed": count, "registered": len(rows)})
    return chosen


async def _entry(peer: Peer) -> AggregatorEntry:
    key: Signed[EpochKey] = await peer.epoch_key()
    try:
        verify(EPOCH_KEY_LABEL, key, peer.row.identity_key)
    except SignatureBroken:
        raise AggregatorUnreachable(f"{peer.id} shows a key of another identity") from None
    return AggregatorEntry(
        id=peer.id,
        operator=peer.row.operator,
        url=peer.row.url,
        identity_key=peer.row.identity_key,
        epoch_key=key,
    )


async def find(connection: AsyncConnection, round_id: str) -> RoundRow:
    """The round of this id. Raises UnknownRound."""
    row = await store.round_row(connection, round_id)
    if row is None:
        raise UnknownRound
    return row


# --- transitions ---------------------------------------------------------------------------------


async def announce(conduct: Conduct, row: RoundRow) -> None:
    """Show the descriptor to every aggregator and relay their noise contributions.

    Additive sharing needs all of them; a Shamir quorum may start without some, as long as those
    whose noise must be in the sum are there.
    """
    signed, descriptor = descriptor_of(row)
    query = descriptor.query
    peers = await _peers(conduct, descriptor)
    answers = await _gather(peer.open(signed) for peer in peers)
    opened = [item for item in answers if not isinstance(item, Exception)]
    needed = query.threshold if query.sharing is Sharing.SHAMIR else query.aggregators
    if len(opened) < (needed or 1):
        raise _failure("the descriptor", peers, answers)
    contributions = [item.contribution for item in opened if item.contribution is not None]
    if shares_its_noise(query):
        if len(contributions) < noisy_aggregators(query):
            raise RoundAborted("fewer aggregators contribute noise than c_noise")
        await _relay(descriptor, peers, contributions)
    async with conduct.engine.begin() as connection:
        await store.change_round(connection, row.id, RoundState.OPEN, announced=True)


async def _relay(
    descriptor: RoundDescriptor, peers: list[Peer], contributions: list[Contribution]
) -> None:
    def for_peer(index: int) -> list[RelayedPiece]:
        return [
            RelayedPiece(aggregator=item.aggregator, piece=item.pieces[index])
            for item in contributions
            if item.aggregator != descriptor.aggregators[index].id
        ]

    answers = await _gather(
        peer.relay(descriptor.round, for_peer(index)) for index, peer in enumerate(peers)
    )
    reached = sum(not isinstance(item, Exception) for item in answers)
    if reached < (descriptor.query.threshold or len(peers)):
        raise _failure("the noise contributions", peers, answers)


async def all_delivered(conduct: Conduct, row: RoundRow) -> bool:
    """Whether every aggregator holds a piece of every enrolled curator."""
    _, descriptor = descriptor_of(row)
    async with reading(conduct.engine) as connection:
        enrolled = await store.active_curators(connection)
    answers = await _gather(peer.progress(row.id) for peer in await _peers(conduct, descriptor))
    return enrolled > 0 and all(
        not isinstance(item, Exception) and item.accepted >= enrolled for item in answers
    )


async def freeze(conduct: Conduct, row: RoundRow) -> None:
    """open -> frozen: signed accepted sets, and the manifest that they give."""
    _, descriptor = descriptor_of(row)
    peers = await _peers(conduct, descriptor)
    answers = await _gather(peer.freeze(row.id) for peer in peers)
    accepted = [item for item in answers if not isinstance(item, Exception)]
    waited = conduct.clock.now() - row.deadline
    if len(accepted) < len(peers) and not _goes_on_without(conduct, descriptor, accepted, waited):
        raise _failure("the freeze", peers, answers)
    manifest = manifest_of(descriptor, accepted)
    async with conduct.engine.begin() as connection:
        await store.change_round(
            connection,
            row.id,
            RoundState.OPEN,
            state=RoundState.FROZEN,
            accepted=_ACCEPTED.dump_json(accepted).decode(),
            manifest=manifest.model_dump_json(),
            participants=manifest.count,
        )


def _goes_on_without(
    conduct: Conduct, descriptor: RoundDescriptor, accepted: Sequence[Any], waited: timedelta
) -> bool:
    query = descriptor.query
    return (
        query.sharing is Sharing.SHAMIR
        and query.threshold is not None
        and len(accepted) >= query.threshold
        and waited.total_seconds() >= min(5.0, conduct.patience_s / 4)
    )


async def commit(conduct: Conduct, row: RoundRow) -> None:
    """frozen -> committed: one signed commitment from each aggregator of the quorum."""
    _, descriptor = descriptor_of(row)
    manifest = manifest_in(row)
    request = ManifestRequest(
        manifest=manifest, accepted=tuple(_ACCEPTED.validate_json(row.accepted or "[]"))
    )
    peers = await _peers(conduct, descriptor)
    quorum = [peers[index] for index in manifest.quorum]
    answers = await _gather(peer.commit(row.id, request) for peer in quorum)
    commitments = _whole("the commitment", quorum, answers)
    check_commitments(descriptor, manifest.digest(), manifest.quorum, commitments)
    async with conduct.engine.begin() as connection:
        await store.change_round(
            connection,
            row.id,
            RoundState.FROZEN,
            state=RoundState.COMMITTED,
            commitments=_COMMITMENTS.dump_json(commitments).decode(),
        )


async def release(conduct: Conduct, row: RoundRow) -> None:
    """committed -> released: reveal, recombine, report."""
    signed, descriptor = descriptor_of(row)
    manifest = manifest_in(row)
    commitments = _COMMITMENTS.validate_json(row.commitments or "[]")
    peers = await _peers(conduct, descriptor)
    quorum = [peers[index] for index in manifest.quorum]
    request = RevealRequest(commitments=tuple(commitments))
    answers = await _gather(peer.reveal(row.id, request) for peer in quorum)
    reveals: list[Reveal] = _whole("the reveal", quorum, answers)
    digest = manifest.digest()
    total = open_sum(descriptor, digest, manifest.quorum, commitments, reveals)
    query = descriptor.query
    report = query_report(
        query,
        subject=Subject(kind="round", id=row.id),
        participants=manifest.count,
        operators=tuple(entry.operator for entry in descriptor.aggregators),
    )
    transcript = Transcript(
        descriptor=signed,
        manifest_hash=digest,
        quorum=manifest.quorum,
        participants=manifest.count,
        contributions=manifest.contributions,
        commitments=tuple(commitments),
        reveals=tuple(reveals),
    )
    async with conduct.engine.begin() as connection:
        await store.change_round(
            connection,
            row.id,
            RoundState.COMMITTED,
            state=RoundState.RELEASED,
            result=json.dumps(decode(query, total)),
            report=report.model_dump_json(),
            transcript=transcript.model_dump_json(),
            finished=conduct.clock.now(),
        )


async def abort(conduct: Conduct, row: RoundRow, reason: str) -> None:
    """Any state -> aborted, for good; the aggregators' signed statements are kept as they come."""
    _, descriptor = descriptor_of(row)
    peers = await _peers(conduct, descriptor)
    answers = await _gather(peer.abort(row.id, reason) for peer in peers)
    statements = []
    for peer, item in zip(peers, answers, strict=True):
        if isinstance(item, Exception):
            continue
        try:
            verify(ABORT_LABEL, item, peer.row.identity_key)
            statements.append(item)
        except SignatureBroken:
            log.warning("abort_statement_broken", round=row.id, aggregator=peer.id)
    async with conduct.engine.begin() as connection:
        await store.change_round(
            connection,
            row.id,
            row.state,
            state=RoundState.ABORTED,
            reason=reason[:256],
            aborts=_ABORTS.dump_json(statements).decode(),
            finished=conduct.clock.now(),
        )
    log.info("round_aborted", round=row.id, reason=reason, statements=len(statements))


# --- reading a row -------------------------------------------------------------------------------


def descriptor_of(row: RoundRow) -> tuple[Signed[RoundDescriptor], RoundDescriptor]:
    """The signed descriptor of a stored round, and the descriptor."""
    signed = Signed[RoundDescriptor].model_validate_json(row.descriptor)
    return signed, signed.statement


def manifest_in(row: RoundRow) -> Manifest:
    """The manifest of a frozen round."""
    assert row.manifest is not None
    return Manifest.model_validate_json(row.manifest)


def aborts_of(row: RoundRow) -> list[Signed[AbortStatement]]:
    """The abort statements of an aborted round."""
    return _ABORTS.validate_json(row.aborts or "[]")


# --- asking all ----------------------------------------------------------------------------------


async def _peers(conduct: Conduct, descriptor: RoundDescriptor) -> list[Peer]:
    async with reading(conduct.engine) as connection:
        rows = await store.list_aggregators(connection, also_removed=True)
    by_id = {row.id: row for row in rows}
    return [conduct.peers.of(by_id[entry.id]) for entry in descriptor.aggregators]


async def _gather(calls: Any) -> list[Any]:
    """All answers in order; what failed with a problem or without an answer is the exception."""

    async def one(call: Awaitable[Answer]) -> Answer | Exception:
        try:
            return await call
        except (AggregatorUnreachable, ProblemReceived) as error:
            return error

    return list(await asyncio.gather(*(one(call) for call in calls)))


def _whole(step: str, peers: list[Peer], answers: list[Any]) -> list[Any]:
    if any(isinstance(item, Exception) for item in answers):
        raise _failure(step, peers, answers)
    return answers


def _failure(step: str, peers: list[Peer], answers: list[Any]) -> Exception:
    """RoundAborted if an aggregator refuses for good, else AggregatorUnreachable (try again)."""
    for peer, item in zip(peers, answers, strict=True):
        if isinstance(item, ProblemReceived) and item.status < 500 and not item.retryable:
            if item.status in (401, 404, 429):
                continue
            return RoundAborted(f"{peer.id} refuses {step}: {item.name}")
    missing = [
        peer.id for peer, item in zip(peers, answers, strict=True) if isinstance(item, Exception)
    ]
    return AggregatorUnreachable(f"{', '.join(missing)}: no answer to {step}")


ENDINGS: tuple[type[DomainError], ...] = (
    TooFewParticipants,
    CommitmentRefused,
    RevealRefused,
)
"""Errors of the agreement that end a round: asking again would give the same answer."""
