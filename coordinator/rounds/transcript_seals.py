"""Asks the aggregators of a quorum to seal a released transcript, for who reads it years later.

Spec: keys, section 4. By setting (`TACIT_LASTING_SEALS`); it comes after the release, and an
aggregator that gives none holds nothing up.
"""

from __future__ import annotations

from common.runtime.logs import get_logger
from coordinator.registry.answers import gather
from coordinator.rounds.context import Conduct, peers_of
from coordinator.store import lasting_seals as store
from tacit.protocol.round.transcript import Transcript
from tacit.protocol.seals import SealRefused, ShownSeal, check_seal

log = get_logger("tacit.coordinator.seals")


async def ask(conduct: Conduct, transcript: Transcript) -> int:
    """Ask all aggregators of the quorum, and keep the seals that are good; how many these are."""
    descriptor = transcript.descriptor.statement
    peers = await peers_of(conduct, descriptor)
    quorum = [peers[index] for index in transcript.quorum]
    answers = await gather(peer.seal(transcript) for peer in quorum)
    good: list[ShownSeal] = []
    for peer, answer in zip(quorum, answers, strict=True):
        try:
            if isinstance(answer, Exception):
                raise answer
            check_seal(transcript, answer)
            if answer.aggregator != peer.id:
                raise SealRefused("a seal of another aggregator")
        except Exception as error:
            name = getattr(error, "name", type(error).__name__)
            log.warning("transcript_not_sealed", aggregator=peer.id, problem=name)
        else:
            good.append(answer)
    async with conduct.database.begin() as transaction:
        await store.put_transcript_seals(transaction, descriptor.round, good)
    return len(good)
