"""What was published of a round that a curator answered, fetched for its owner and left as it came;
and the identities by which it is checked: those that the curator checked before it answered.

Spec: console, section 6.3.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from common.store.transactions import Database
from common.web.auth import Principal
from common.web.problems import ProblemReceived
from curator.errors import NotGiven, NothingPublished, SignerForgotten
from curator.owner import statement
from curator.parties.peers import Peers
from curator.store.parties import Coordinator, PartyRow
from tacit.crypto.signing import Signed, fingerprint
from tacit.protocol.round.agreement import DescriptorRefused, check_consistent
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.trust import Anchors, Pinned, Trust, TrustedAggregator


@dataclass(frozen=True)
class Given:
    """A round that a curator answered, as `coordinator_key` signed it, and the party that spoke for
    the curator."""

    descriptor: RoundDescriptor
    coordinator_key: bytes
    party: PartyRow

    @property
    def anchors(self) -> Anchors:
        """A party answers a round only after it has checked each identity against its join
        token."""
        trust = Trust(
            deployment=self.party.deployment,
            coordinator=(fingerprint(self.coordinator_key).hex(),),
            aggregators=tuple(
                TrustedAggregator(
                    id=entry.id, fingerprints=(Pinned(fingerprint=entry.fingerprint.hex()),)
                )
                for entry in self.descriptor.aggregators
            ),
        )
        return Anchors(
            descriptor_hash=self.descriptor.digest(),
            coordinator_key=self.coordinator_key,
            trust=trust,
        )


async def given(database: Database, curator_id: str, round_id: str, caller: Principal) -> Given:
    """Raises ForeignCurator, UnknownCurator, UnknownAnswer, NotGiven, SignerForgotten."""
    async with database.reading() as transaction:
        row, party = await statement.find(transaction, curator_id, caller)
        answer, signed = await statement.answered(transaction, row, party, round_id)
    if not answer["contributed"]:
        raise NotGiven
    return Given(signed.statement, _signer(signed, party.coordinator), party)


def _signer(signed: Signed[RoundDescriptor], coordinator: Coordinator) -> bytes:
    """The coordinator's key that signed a round, now or before it was replaced."""
    anchored = coordinator.pin.anchored
    older = () if anchored is None else anchored.documents
    for key in (coordinator.key, *(document.ed25519 for document in older)):
        with suppress(DescriptorRefused):
            check_consistent(signed, key)
            return key
    raise SignerForgotten


async def transcript(peers: Peers, of: Given) -> bytes:
    """Raises NothingPublished, PeerUnavailable."""
    party, round_id = of.party, of.descriptor.round
    try:
        return await peers.transcript(party.coordinator_url, party.coordinator_token, round_id)
    except ProblemReceived as problem:
        raise NothingPublished(extra={"problem": problem.name}) from None
