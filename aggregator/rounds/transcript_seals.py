"""A seal of a released round's transcript, for those who read it years later.

Spec: keys, section 4. The transcript is recomputed before it is sealed, and this aggregator's own
commitment has to be in it. Nothing is stored: the coordinator keeps what it asked for.
"""

from __future__ import annotations

import asyncio

from aggregator.context import Aggregator
from aggregator.errors import NotPaired, TranscriptRefused
from aggregator.store import admission
from aggregator.store import rounds as store
from common.web.own_identity import NoIdentityDocument
from tacit.crypto.signing import signer_of
from tacit.errors import DomainError
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL
from tacit.protocol.round.opening import check_transcript
from tacit.protocol.round.transcript import Transcript
from tacit.protocol.seals import TRANSCRIPT_SEAL_LABEL, ShownSeal, TranscriptSeal


async def seal(aggregator: Aggregator, round_id: str, transcript: Transcript) -> ShownSeal:
    """Seal a transcript of a round whose partial sum was revealed here.

    Raises UnknownRound, NotPaired, TranscriptRefused for one that is not what this aggregator took
    part in, NoIdentityDocument where its identity of then has no pair any more.
    """
    context = await aggregator.round(round_id)
    async with aggregator.database.reading() as transaction:
        coordinator = await admission.coordinator(transaction)
        revealed = await store.document(transaction, context.key, "reveal")
    own = [each for each in transcript.reveals if each.aggregator == aggregator.id]
    if (
        revealed is None
        or transcript.descriptor.statement != context.descriptor
        or [each.model_dump_json() for each in own] != [revealed]
    ):
        raise TranscriptRefused("not what this aggregator opened and revealed")
    if coordinator is None:
        raise NotPaired
    anchored = coordinator.pin.anchored
    documents = () if anchored is None else anchored.documents
    keys = (coordinator.identity_key, *(each.ed25519 for each in documents))
    signer = signer_of(DESCRIPTOR_LABEL, transcript.descriptor, keys)
    try:
        await asyncio.to_thread(check_transcript, transcript, signer)
    except (DomainError, ValueError) as error:
        raise TranscriptRefused(str(error)) from None
    entry = context.descriptor.aggregators[context.index]
    found = aggregator.identities.pair(entry.identity_key)
    if found is None:
        raise NoIdentityDocument
    pair, document = found
    statement = TranscriptSeal(
        round=round_id, transcript=transcript.digest(), time=aggregator.clock.now()
    )
    made = pair.sign(TRANSCRIPT_SEAL_LABEL, statement)
    return ShownSeal(aggregator=aggregator.id, document=document, seal=made)
