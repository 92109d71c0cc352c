"""frozen -> verified: the aggregators verify the contributions of a proved round; who was refused.

The coordinator passes on what it can neither read nor make: signed sets, sealed verifier shares,
signed verdicts. Who was refused by the proof of its contribution, and why, is shown to operators by
name, to each party for its own curators only, and to everyone else as a count. Spec: validity.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

import numpy as np
from pydantic import Field, TypeAdapter

from common.runtime.logs import get_logger
from common.store.transactions import Transaction
from common.web.problems import ProblemReceived
from coordinator.errors import AggregatorUnreachable, UnknownParty
from coordinator.registry.answers import answered, gather
from coordinator.registry.peers import Peer
from coordinator.rounds import context, differencing
from coordinator.rounds.context import (
    Conduct,
    RoundAborted,
    accepted_sets,
    failure,
    peers_of,
    salt_of,
    signed_descriptor,
)
from coordinator.store import registry
from coordinator.store import rounds as store
from coordinator.store.ledger import curator_names
from coordinator.store.rounds import RoundRow
from tacit import sets
from tacit.answers.rounds import OwnStanding, RefusedByProof, RefusedCurator
from tacit.crypto.signing import Signed
from tacit.protocol.differencing import DifferenceRefused
from tacit.protocol.proved_rounds import (
    Candidates,
    candidates_of,
    check_verdicts,
    check_verifications,
    chunk_slices,
    contradictions,
    proved_manifest_of,
    refused_curators,
    share_lengths,
)
from tacit.protocol.round.agreement import ManifestRefused
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.messages import (
    REFUSED_BY_PROOF,
    Manifest,
    ProofReason,
    Verdict,
    VerdictRequest,
    Verification,
    Verified,
)
from tacit.protocol.round.state import RoundState
from tacit.query.proofs import proof_plan
from tacit.wire import Binary, WireModel

NAMED: Final = 1000


class Refused(WireModel):
    """The stored form. `reasons`: compressed bitmaps over the round's roster of this `size`;
    `statements`: signed statements of aggregators that cannot all be true."""

    size: Annotated[int, Field(ge=0)]
    reasons: dict[ProofReason, Binary]
    statements: tuple[str, ...]

    def within(self, first: int, count: int) -> dict[int, list[str]]:
        """The refused numbers of a run, rising, with the reasons for each."""
        reasons_of: dict[int, list[str]] = {}
        for reason, bitmap in self.reasons.items():
            members = sets.unpack(sets.decompressed(bitmap, self.size), self.size)
            numbers_refused = np.flatnonzero(members[first : first + count]) + first
            for number in numbers_refused.tolist():
                reasons_of.setdefault(number, []).append(reason.value)
        return dict(sorted(reasons_of.items()))


async def own_standing(transaction: Transaction, round_id: str, party_id: str) -> OwnStanding:
    """Which curators of a party were refused. Raises UnknownRound, RoundExpired, UnknownParty."""
    head = await context.find(transaction, round_id)
    party = await registry.party(transaction, party_id)
    if party is None:
        raise UnknownParty
    refused = await _refused(transaction, round_id)
    reasons_of = {} if refused is None else refused.within(party.first, party.curators)
    listed = [_refused_curator(number, reasons) for number, reasons in reasons_of.items()]
    return OwnStanding(round=head.id, state=head.state, refused=listed)


async def whole_standing(transaction: Transaction, round_id: str) -> RefusedByProof:
    """Which curators were refused, the first of them by name; for operators."""
    head = await context.find(transaction, round_id)
    refused = await _refused(transaction, round_id)
    reasons_of = {} if refused is None else refused.within(0, refused.size)
    first = dict(list(reasons_of.items())[:NAMED])
    names = await curator_names(transaction, list(first))
    return RefusedByProof(
        round=head.id,
        state=head.state,
        count=len(reasons_of),
        refused=[
            _refused_curator(number, reasons, curator=names.get(number))
            for number, reasons in first.items()
        ],
        statements=[] if refused is None else list(refused.statements),
    )


async def _refused(transaction: Transaction, round_id: str) -> Refused | None:
    """None before the verdicts, and in a round without proofs."""
    text = await store.document(transaction, round_id, "standing")
    return None if text is None else Refused.model_validate_json(text)


def _refused_curator(number: int, reasons: list[str], **name: str | None) -> RefusedCurator:
    return RefusedCurator(number=number, reasons=reasons, detail=REFUSED_BY_PROOF, **name)


# The coordinator checks all signatures, and computes the manifest as every aggregator does. Each
# step can be repeated: after a restart the same request gets the same answer. Spec: validity,
# section 10.

log = get_logger("tacit.rounds")
_VERDICTS = TypeAdapter(list[Signed[Verdict]])


async def verify(conduct: Conduct, row: RoundRow) -> None:
    """frozen -> verified: verifications, chunks to everyone, verdicts, and the manifest."""
    descriptor = signed_descriptor(row).statement
    peers = await peers_of(conduct, descriptor)
    accepted = accepted_sets(row.accepted or "[]")
    candidates = await asyncio.to_thread(candidates_of, descriptor, accepted)
    verified = await _verifications(row, peers)
    verifications = check_verifications(
        descriptor, candidates, [item.verification for item in verified]
    )
    await _relay(conduct, descriptor, candidates, peers, verified)
    verdicts = await _verdicts(row, peers, verified)
    manifest, refused = await asyncio.to_thread(
        _agreed, descriptor, candidates, verifications, verdicts, salt_of(conduct, descriptor)
    )
    for statement in refused.statements:
        log.warning("false_statement", round=row.id, statement=statement)
    async with conduct.database.begin() as transaction:
        changed = await store.change(
            transaction,
            row.id,
            RoundState.FROZEN,
            state=RoundState.VERIFIED,
            verified_at=conduct.clock.now(),
            verdicts=_VERDICTS.dump_json(verdicts, exclude_none=True).decode(),
            manifest=manifest.model_dump_json(),
            participants=manifest.count,
            refused=candidates.curators - manifest.count,
            standing=refused.model_dump_json(),
        )
        try:
            if changed:
                await differencing.freeze(transaction, descriptor, manifest.members)
        except DifferenceRefused as error:
            raise RoundAborted(error.detail) from None


async def _verifications(row: RoundRow, peers: Sequence[Peer]) -> list[Verified]:
    request = f'{{"accepted":{row.accepted}}}'  # as it is stored: neither read nor written again
    answers = await gather(peer.verification(row.id, request) for peer in peers)
    verifications = answered(answers)
    if len(verifications) < len(peers):
        raise failure("the verification", peers, answers)
    return verifications


async def _relay(
    conduct: Conduct,
    descriptor: RoundDescriptor,
    candidates: Candidates,
    peers: Sequence[Peer],
    verified: Sequence[Verified],
) -> None:
    """Send every chunk of every aggregator to all others, unless its shares are so short that
    they came with the verification and are sent with the request for a verdict. Only a few are
    in memory at a time."""
    asked_for = [index for index, item in enumerate(verified) if item.shares is None]
    if not asked_for:
        return
    lengths = share_lengths(proof_plan(descriptor.query), candidates)

    async def relay(index: int, number: int) -> None:
        async with conduct.peers.chunk_places:
            body = await peers[index].chunk(descriptor.round, number)
            await asyncio.gather(
                *(
                    peer.put_chunk(descriptor.round, index, number, body)
                    for place, peer in enumerate(peers)
                    if place != index
                )
            )

    numbers = range(len(chunk_slices(lengths)))
    places = [(index, number) for index in asked_for for number in numbers]
    answers = await gather(relay(index, number) for index, number in places)
    if any(isinstance(item, Exception) for item in answers):
        senders = [peers[index] for index, _ in places]
        raise failure("the verifier shares", senders, answers)


async def _verdicts(
    row: RoundRow, peers: Sequence[Peer], verified: Sequence[Verified]
) -> list[Signed[Verdict]]:
    request = VerdictRequest(
        verifications=tuple(item.verification for item in verified),
        shares=tuple(item.shares for item in verified),
    ).model_dump_json()
    answers = await gather(peer.verdict(row.id, request) for peer in peers)
    verdicts = answered(answers)
    if len(verdicts) < len(peers):
        if any(_lacks_shares(item) for item in answers):  # they are passed on once more
            raise AggregatorUnreachable("verifier shares were altered in transit")
        raise failure("the verdict", peers, answers)
    return verdicts


def _lacks_shares(answer: object) -> bool:
    return isinstance(answer, ProblemReceived) and answer.name == "shares_missing"


def _agreed(
    descriptor: RoundDescriptor,
    candidates: Candidates,
    verifications: Sequence[Verification],
    signed: Sequence[Signed[Verdict]],
    salt: bytes,
) -> tuple[Manifest, Refused]:
    """The manifest, and which curators are refused. Raises RoundAborted or TooFewParticipants."""
    try:
        verdicts = check_verdicts(descriptor, candidates, signed)
        manifest = proved_manifest_of(descriptor, candidates, verdicts, salt)
    except ManifestRefused as error:
        raise RoundAborted(f"{error.title}: {error.detail}") from None
    by_reason = refused_curators(candidates, verdicts)
    return manifest, Refused(
        size=descriptor.roster_size,
        reasons={
            reason: sets.compressed(sets.pack(np.asarray(numbers)))
            for reason, numbers in by_reason.items()
        },
        statements=tuple(contradictions(verifications, verdicts)),
    )
