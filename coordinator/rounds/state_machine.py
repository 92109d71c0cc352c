"""The state machine of one round (spec: aggregation, section 6).

    open -> frozen -> (proved rounds: verified ->) committed -> released
       \\_______\\__________________________\\________-> aborted(reason)

One function per transition, each durable before the next begins and each safe to repeat: every
aggregator answers a repeated request with the same bytes. Only the conductor calls them. The
coordinator holds no share; it forwards signed sets, commitments and partial sums, and checks them
as any other party would.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.database import exclusive
from common.store.own_identities import OwnIdentities
from common.store.transactions import Database, Transaction
from common.web.problems import ProblemReceived
from coordinator.budget import charging
from coordinator.budget.ledger import LOCK, Ledger
from coordinator.errors import (
    AggregatorUnreachable,
    RoundExpired,
    StillVerifying,
    UnknownRound,
)
from coordinator.models.budget_events import Draft
from coordinator.registry import suites
from coordinator.registry.answers import (
    Opening,
    Progress,
    RelayedPiece,
    answered,
    gather,
    refusal,
    refuses,
    silence,
)
from coordinator.registry.identities import Identities
from coordinator.registry.peers import Peer, Peers
from coordinator.registry.seal_keys import SealKeyMirror
from coordinator.registry.suites import Formats
from coordinator.rounds import differencing, hosts, quorum
from coordinator.rounds.figures import figures
from coordinator.store import registry
from coordinator.store import rounds as store
from coordinator.store.rounds import RoundHead, RoundRow
from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.protocol.agreement import (
    ManifestRefused,
    check_commitments,
    is_proved,
    manifest_hash,
    members_hash,
    open_sum,
)
from tacit.protocol.differencing import DifferenceRefused
from tacit.protocol.round import (
    ABORT_LABEL,
    ACCEPTED_LABEL,
    AbortStatement,
    AcceptedSet,
    Commitment,
    Contribution,
    Manifest,
    RelayedKeyShares,
    Reveal,
    RevealRequest,
    RoundDescriptor,
    RoundState,
    Transcript,
)
from tacit.protocol.verification import candidates_of
from tacit.query.functions import decode
from tacit.query.mechanisms import noisy_aggregators, shares_its_noise
from tacit.query.words import Sharing
from tacit.report.model import Subject
from tacit.report.queries import query_report
from tacit.report.validity import with_total
from tacit.sets import Bits
from tacit.wire import format_instant

REASON_CHARACTERS = 256
log = get_logger("tacit.rounds")

ACCEPTED_SETS = TypeAdapter(list[Signed[AcceptedSet]])
_COMMITMENTS = TypeAdapter(list[Signed[Commitment]])


@dataclass(frozen=True)
class Conduct:
    """What every transition needs."""

    database: Database
    own: OwnIdentities
    salt_key: bytes
    deployment: str
    peers: Peers
    clock: Clock
    patience_s: float
    ledger: Ledger
    formats: Formats
    mirror: SealKeyMirror
    identities: Identities


class RoundAborted(Exception):
    """The round cannot continue; the reason is public."""


async def find(transaction: Transaction, round_id: str) -> RoundHead:
    """What is shown of a round. Raises UnknownRound or RoundExpired."""
    row = await store.head(transaction, round_id)
    if row is None:
        raise UnknownRound
    if row.expired is not None:
        raise RoundExpired(extra={"state": row.state.value, "expired": format_instant(row.expired)})
    return row


# --- open ----------------------------------------------------------------------------------------


async def announce(conduct: Conduct, row: RoundRow) -> bool:
    """Show the descriptor to every aggregator and relay their noise contributions; whether all
    have heard (or refuse).

    Additive sharing needs all of them; a Shamir quorum may start without some, as long as those
    whose noise must be in the sum are there. The others may still come while the round is open.
    """
    signed = signed_descriptor(row)
    query, peers = signed.statement.query, await peers_of(conduct, signed.statement)
    await conduct.identities.hand_over(peers)
    if signed.statement.sessions and (shares_its_noise(query) or is_proved(query)):
        await conduct.mirror.hand_over(peers, signed.statement)
    answers = await gather(peer.open(signed) for peer in peers)
    needed = quorum.quorum_size(query)
    opened = [index for index, item in enumerate(answers) if not isinstance(item, Exception)]
    if len(opened) < needed:
        raise failure("the descriptor", peers, answers)
    heard = sum(index in opened or refuses(item) for index, item in enumerate(answers))
    if shares_its_noise(query):
        contributions = [
            item.contribution for item in answered(answers) if item.contribution is not None
        ]
        if len(contributions) < noisy_aggregators(query):
            raise RoundAborted("fewer aggregators contribute noise than c_noise")
        reached_peers = [peers[index] for index in opened]
        relays = await gather(
            peer.relay(row.id, _for_peer(index, peer.id, contributions))
            for index, peer in zip(opened, reached_peers, strict=True)
        )
        reached = len(answered(relays))
        if reached < needed:
            raise failure("the noise contributions", reached_peers, relays)
        heard = min(heard, len(peers) - len(opened) + reached)
    if is_proved(query):
        await _fix_keys(signed.statement, peers, answered(answers))
    if not row.announced:
        async with conduct.database.begin() as transaction:
            now = conduct.clock.now()
            await store.change(
                transaction, row.id, RoundState.OPEN, announced=True, announced_at=now
            )
    return heard == len(peers)


async def _fix_keys(
    descriptor: RoundDescriptor, peers: Sequence[Peer], opened: Sequence[Opening]
) -> None:
    """Give each aggregator the others' shares of the verify key; all must make the same key of
    them, before any curator is shown the round (spec: validity, section 7)."""
    shares = [share for answer in opened for share in answer.key_shares or ()]
    answers = await gather(
        peer.fix_key(
            descriptor.round,
            RelayedKeyShares(shares=tuple(share for share in shares if share.receiver == peer.id)),
        )
        for peer in peers
    )
    checks = answered(answers)
    if len(checks) < len(peers):
        raise failure("the verification keys", peers, answers)
    digest = descriptor.digest()
    if len({item.key_check for item in checks}) > 1 or any(
        item.descriptor_hash != digest for item in checks
    ):
        raise RoundAborted("verify_keys_differ: the aggregators made different verify keys")


def _for_peer(index: int, name: str, contributions: Iterable[Contribution]) -> list[RelayedPiece]:
    return [
        RelayedPiece(aggregator=item.aggregator, piece=item.pieces[index])
        for item in contributions
        if item.aggregator != name
    ]


async def invited_curators(conduct: Conduct, row: RoundRow) -> Bits:
    """The curators that the round awaits: those charged at its opening, which were in U then and on
    its roster, or of its group. A curator that enrolled later is in no round opened before."""
    async with conduct.database.reading() as transaction:
        state = await conduct.ledger.current(transaction)
        members = state.spending.members_of(state.spending.rounds[row.id])
    invited = np.zeros(signed_descriptor(row).statement.roster_size, np.bool_)
    invited[: members.size] = members[: invited.size]
    return invited


@dataclass(frozen=True)
class Delivered:
    """Whether every aggregator holds a piece of every awaited curator, and how many pieces the
    first one holds, as far as it is known. `accepted`: the sets that all of them have shown with
    that, in their order and not checked yet."""

    whole: bool
    count: int | None = None
    accepted: Sequence[Signed[AcceptedSet]] = ()


async def delivered(
    peers: Sequence[Peer],
    descriptor: RoundDescriptor,
    awaited: Bits,
    wait_s: float,
    *,
    all_invited: bool,
) -> Delivered:
    """Whether all awaited curators have delivered.

    The first aggregator is asked alone, until it holds this many or `wait_s` is over, and the
    others only then. Where `all_invited` are awaited a count suffices, and who holds that many
    freezes at once: nobody could come later. Otherwise it does not, as curators that refuse may
    deliver all the same, and each aggregator is asked which are missing. A round that will be
    aborted freezes nowhere, so that its curators get their credit. It may be cancelled at any
    moment.
    """
    expected = int(awaited.sum())
    if expected == 0:
        return Delivered(not all_invited)
    if not all_invited or expected < descriptor.query.min_participants:
        return await _delivered_by_number(peers, descriptor.round, awaited, expected, wait_s)
    first, *others = peers
    round_id = descriptor.round
    [answer] = await gather([first.freeze_once_held(round_id, expected, wait_s)])
    if not isinstance(answer, Signed):
        return Delivered(False, answer.accepted if isinstance(answer, Progress) else None)
    rest = await gather(peer.freeze_once_held(round_id, expected, wait_s) for peer in others)
    shown = [answer, *(item for item in rest if isinstance(item, Signed))]
    whole = len(shown) == len(peers)
    return Delivered(whole, expected, shown if whole else ())


async def _delivered_by_number(
    peers: Sequence[Peer], round_id: str, awaited: Bits, expected: int, wait_s: float
) -> Delivered:
    [progress] = await gather([peers[0].progress(round_id, expected, wait_s)])
    if isinstance(progress, Exception):
        return Delivered(False)
    if progress.accepted < expected:
        return Delivered(False, progress.accepted)
    missing = await gather(peer.missing(round_id, awaited) for peer in peers)
    found = answered(missing)
    return Delivered(len(found) == len(peers) and not any(found), progress.accepted)


# --- transitions ---------------------------------------------------------------------------------


async def freeze(
    conduct: Conduct, row: RoundRow, shown: Sequence[Signed[AcceptedSet]] = ()
) -> None:
    """open -> frozen: signed accepted sets, and the manifest that they give. `shown`: what all
    aggregators have answered to this step already."""
    descriptor = signed_descriptor(row).statement
    accepted = await _accepted_sets(conduct, row, descriptor, shown)
    if is_proved(descriptor.query):
        await _freeze_proved(conduct, row, descriptor, accepted)
        return
    try:
        manifest, chosen = await asyncio.to_thread(
            quorum.agree, descriptor, accepted, salt_of(conduct, descriptor)
        )
    except ManifestRefused as error:
        raise RoundAborted(f"{error.title}: {error.detail}") from None
    async with conduct.database.begin() as transaction:
        frozen = await store.change(
            transaction,
            row.id,
            RoundState.OPEN,
            state=RoundState.FROZEN,
            frozen_at=conduct.clock.now(),
            accepted=ACCEPTED_SETS.dump_json(chosen).decode(),
            manifest=manifest.model_dump_json(),
            participants=manifest.count,
        )
        try:
            if frozen:
                await differencing.freeze(transaction, descriptor, manifest.members)
        except DifferenceRefused as error:
            raise RoundAborted(error.detail) from None


async def _freeze_proved(
    conduct: Conduct,
    row: RoundRow,
    descriptor: RoundDescriptor,
    accepted: Sequence[Signed[AcceptedSet]],
) -> None:
    """open -> frozen, without a manifest: that follows from verdicts. With too few candidates
    nothing is verified."""
    try:
        await asyncio.to_thread(candidates_of, descriptor, accepted)
    except ManifestRefused as error:
        raise RoundAborted(f"{error.title}: {error.detail}") from None
    async with conduct.database.begin() as transaction:
        await store.change(
            transaction,
            row.id,
            RoundState.OPEN,
            state=RoundState.FROZEN,
            frozen_at=conduct.clock.now(),
            accepted=ACCEPTED_SETS.dump_json(list(accepted)).decode(),
        )


def salt_of(conduct: Conduct, descriptor: RoundDescriptor) -> bytes:
    """The salt of a round's members, always the same: a coordinator that was restored from a backup
    of before the freeze makes the manifest again to which the aggregators have committed."""
    return hmac.digest(conduct.salt_key, b"tacit manifest salt v1" + descriptor.digest(), "sha256")


async def _note_due(conduct: Conduct, row: RoundRow) -> None:
    """A freeze before the deadline that some miss: it is final, and their grace time begins."""
    if conduct.clock.now() < row.due:
        async with conduct.database.begin() as transaction:
            await store.change(transaction, row.id, RoundState.OPEN, due=conduct.clock.now())


async def _accepted_sets(
    conduct: Conduct,
    row: RoundRow,
    descriptor: RoundDescriptor,
    shown: Sequence[Signed[AcceptedSet]],
) -> list[Signed[AcceptedSet]]:
    """Those of all aggregators, or of a quorum that may go on without the others."""
    peers = await peers_of(conduct, descriptor)
    answers = await gather(
        _accepted_set(peer, descriptor, known) for peer, known in zip_longest(peers, shown)
    )
    accepted = answered(answers)
    if len(accepted) < len(peers) and not _goes_on_without(conduct, row, descriptor, answers):
        await _note_due(conduct, row)
        raise failure("the freeze", peers, answers)
    return accepted


async def _accepted_set(
    peer: Peer, descriptor: RoundDescriptor, shown: Signed[AcceptedSet] | None
) -> Signed[AcceptedSet]:
    """An aggregator's set, if it is its own and of this round: a bad one must not spoil others'."""
    signed = shown or await peer.freeze(descriptor.round)
    item, place = signed.statement, descriptor.index_of(peer.id)
    try:
        verify(ACCEPTED_LABEL, signed, descriptor.aggregators[place].identity_key)
    except SignatureBroken:
        raise AggregatorUnreachable(f"{peer.id} signs with another identity") from None
    if item.aggregator != peer.id or item.descriptor_hash != descriptor.digest():
        raise AggregatorUnreachable(f"{peer.id} signs another round's set")
    return signed


def _goes_on_without(
    conduct: Conduct, row: RoundRow, descriptor: RoundDescriptor, answers: Sequence[object]
) -> bool:
    """Whether a Shamir quorum is there, and the others refuse or have had their time."""
    query = descriptor.query
    missing = [item for item in answers if isinstance(item, Exception)]
    if query.sharing is not Sharing.SHAMIR:
        return False
    if len(answers) - len(missing) < quorum.quorum_size(query):
        return False
    waited = conduct.clock.now() - min(row.due, conduct.clock.now())
    grace = timedelta(seconds=min(5.0, conduct.patience_s / 4))
    return waited >= grace or all(refuses(item) for item in missing)


async def commit(conduct: Conduct, row: RoundRow) -> None:
    """frozen (in proved rounds verified) -> committed: one signed commitment from each aggregator
    of the quorum."""
    descriptor = signed_descriptor(row).statement
    manifest = _manifest(row)
    # as it is stored: neither read nor written again; who verified has all of the sets that counts
    if row.verdicts is None:
        request = f'{{"manifest":{row.manifest},"accepted":{row.accepted or "[]"}}}'
    else:
        request = f'{{"manifest":{row.manifest},"accepted":[],"verdicts":{row.verdicts}}}'
    peers = await _quorum(conduct, descriptor, manifest)
    answers = await gather(peer.commit(row.id, request) for peer in peers)
    commitments = answered(answers)
    if len(commitments) < len(peers):
        raise failure("the commitment", peers, answers)
    check_commitments(descriptor, manifest_hash(manifest), manifest.quorum, commitments)
    async with conduct.database.begin() as transaction:
        await store.change(
            transaction,
            row.id,
            row.state,
            state=RoundState.COMMITTED,
            committed_at=conduct.clock.now(),
            commitments=_COMMITMENTS.dump_json(commitments).decode(),
        )


async def release(conduct: Conduct, row: RoundRow) -> None:
    """committed -> released: report, reveal, recombine. What can fail here fails before the sum is
    opened."""
    signed = signed_descriptor(row)
    descriptor, manifest = signed.statement, _manifest(row)
    query, digest = descriptor.query, manifest_hash(manifest)
    commitments = _COMMITMENTS.validate_json(row.commitments or "[]")
    host_parts: tuple[int, ...] | None = None
    if manifest.parts is not None:
        async with conduct.database.reading() as transaction:
            host_parts = await hosts.parts_of_largest(transaction, manifest.parts)
    report = await asyncio.to_thread(
        query_report,
        query,
        subject=Subject(kind="round", id=row.id),
        participants=manifest.count,
        operators=tuple(entry.operator for entry in descriptor.aggregators),
        host_parts=host_parts,
        refused=row.refused,
    )
    if query.job is not None:
        async with conduct.database.reading() as transaction:
            charge = (await conduct.ledger.current(transaction)).spending.rounds[row.id]
        report = await asyncio.to_thread(charging.as_debited, report, query, charge)
    peers = await _quorum(conduct, descriptor, manifest)
    request = RevealRequest(commitments=tuple(commitments))
    answers = await gather(peer.reveal(row.id, request) for peer in peers)
    reveals: list[Reveal] = answered(answers)
    if len(reveals) < len(peers):
        raise failure("the reveal", peers, answers)
    total = await asyncio.to_thread(
        open_sum, descriptor, digest, manifest.quorum, commitments, reveals
    )
    transcript = Transcript(
        descriptor=signed,
        **_manifest_fields(manifest),
        quorum=manifest.quorum,
        participants=manifest.count,
        contributions=manifest.contributions,
        commitments=tuple(commitments),
        reveals=tuple(reveals),
    )
    accepted = ACCEPTED_SETS.validate_json(row.accepted or "[]")
    event = charging.released(row.id, descriptor.roster_size, accepted)
    result = decode(query, total)
    async with conduct.database.begin() as transaction:
        await _conclude(
            conduct,
            transaction,
            row,
            event,
            state=RoundState.RELEASED,
            result=json.dumps(result),
            figures=json.dumps(figures(query, report, result)),
            report=with_total(report, query, total).model_dump_json(),
            transcript=transcript.model_dump_json(),
            finished=conduct.clock.now(),
        )
        await suites.note_delivered(
            transaction, manifest.members, descriptor.roster_size, conduct.clock.now()
        )


async def abort(conduct: Conduct, row: RoundRow, reason: str) -> None:
    """Any state -> aborted, permanently; the aggregators' signed statements are stored."""
    descriptor, reason = signed_descriptor(row).statement, reason[:REASON_CHARACTERS]
    peers = await peers_of(conduct, descriptor)
    answers = await gather(peer.abort(row.id, reason) for peer in peers)
    statements: list[Signed[AbortStatement]] = []
    for peer, entry, item in zip(peers, descriptor.aggregators, answers, strict=True):
        if isinstance(item, Exception):
            continue
        try:
            verify(ABORT_LABEL, item, entry.identity_key)
            statements.append(item)
        except SignatureBroken:
            log.warning("abort_statement_broken", round=row.id, aggregator=peer.id)
    event = charging.aborted(descriptor, statements, reason)
    async with conduct.database.begin() as transaction:
        await _conclude(
            conduct,
            transaction,
            row,
            event,
            state=RoundState.ABORTED,
            reason=reason,
            aborts=json.dumps([_shown(item) for item in statements]),
            finished=conduct.clock.now(),
        )
    log.info("round_aborted", round=row.id, reason=reason, statements=len(statements))


async def _conclude(
    conduct: Conduct, transaction: Transaction, row: RoundRow, event: Draft, **values: Any
) -> None:
    """A round's last change, with its event in the ledger; both once, also under concurrency."""
    await exclusive(transaction, LOCK)
    if await store.change(transaction, row.id, row.state, **values):
        await conduct.ledger.append(transaction, [event])


def _shown(statement: Signed[AbortStatement]) -> dict[str, Any]:
    shown: dict[str, Any] = statement.model_dump(mode="json")
    return shown


# --- reading a row -------------------------------------------------------------------------------


@lru_cache(maxsize=128)
def _signed(text: str) -> Signed[RoundDescriptor]:
    return Signed[RoundDescriptor].model_validate_json(text)


def signed_descriptor(row: RoundRow) -> Signed[RoundDescriptor]:
    """The signed descriptor of a stored round."""
    return _signed(row.descriptor)


def _manifest_fields(manifest: Manifest) -> dict[str, Any]:
    """A transcript's manifest fields other than figures; format 1 for an earlier version."""
    if manifest.salt is None:
        return {"format": "tacit.transcript/1", "manifest_hash": manifest_hash(manifest)}
    return {"members_hash": members_hash(manifest.salt, manifest.members, manifest.parts)}


def _manifest(row: RoundRow) -> Manifest:
    assert row.manifest is not None
    return Manifest.model_validate_json(row.manifest)


# --- the aggregators of a round ------------------------------------------------------------------


async def peers_of(conduct: Conduct, descriptor: RoundDescriptor) -> list[Peer]:
    """The aggregators of a round, in its order."""
    async with conduct.database.reading() as transaction:
        rows = await registry.list_aggregators(transaction, also_removed=True)
    by_id = {row.id: row for row in rows}
    return [conduct.peers.of(by_id[entry.id]) for entry in descriptor.aggregators]


async def _quorum(conduct: Conduct, descriptor: RoundDescriptor, manifest: Manifest) -> list[Peer]:
    peers = await peers_of(conduct, descriptor)
    return [peers[index] for index in manifest.quorum]


def failure(step: str, peers: Sequence[Peer], answers: Sequence[object]) -> Exception:
    """RoundAborted if an aggregator refuses permanently, else StillVerifying if one is at work for
    it, else AggregatorUnreachable: both are retried."""
    reason = refusal(step, peers, answers)
    if reason is not None:
        return RoundAborted(reason)
    if any(_is_at_work(item) for item in answers):
        return StillVerifying()
    return silence(step, peers, answers)


def _is_at_work(answer: object) -> bool:
    return isinstance(answer, ProblemReceived) and answer.name == StillVerifying.name
