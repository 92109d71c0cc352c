"""Whom an open round awaits, and whether all of them have delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.registry.answers import Progress, answered, gather
from coordinator.registry.peers import Peer
from coordinator.rounds.context import Conduct, signed_descriptor
from coordinator.store.rounds import RoundRow
from tacit.crypto.signing import Signed
from tacit.protocol.round.accepted import AcceptedSet
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.sets import Bits


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
