"""The first step of a round: its descriptor to every aggregator, and what they share before any
curator is shown it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coordinator.registry.answers import Opening, RelayedPiece, answered, gather, refuses
from coordinator.registry.peers import Peer
from coordinator.rounds import quorum
from coordinator.rounds.context import (
    Conduct,
    RoundAborted,
    change,
    failure,
    peers_of,
    signed_descriptor,
)
from coordinator.store.rounds import RoundRow
from tacit.protocol.round.agreement import is_proved
from tacit.protocol.round.descriptor import RoundDescriptor, RoundState
from tacit.protocol.round.pieces import Contribution
from tacit.protocol.round.verdicts import RelayedKeyShares
from tacit.query.mechanisms import noisy_aggregators, shares_its_noise


async def announce(conduct: Conduct, row: RoundRow) -> bool:
    """Show the descriptor to every aggregator and relay their noise contributions; whether all
    have heard (or refuse).

    Additive sharing needs all of them; a Shamir quorum may start without some, as long as those
    whose noise must be in the sum are there. The others may still come while the round is open.
    """
    signed = signed_descriptor(row)
    query, peers = signed.statement.query, await peers_of(conduct, signed.statement)
    await conduct.identities.hand_over(peers)
    if shares_its_noise(query) or is_proved(query):
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
        now = conduct.clock.now()
        announced = {"announced": True, "announced_at": now}
        await change(conduct, row.id, RoundState.OPEN, **announced)
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
