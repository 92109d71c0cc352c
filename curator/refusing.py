"""What a coordinator is told of a refused round: which curators stay out, on which of few grounds.

Without it a round would wait for its deadline, and nobody would know why. What is told was decided
before any reading was looked at (`consent`), at the contribution's random moment, and says no more
than the descriptor and the policy let anyone guess: whatever depends on a curator's own ledger or
past (budget, a window contributed before, a restore) goes by the one name `own`. The grounds
themselves, with their figures, are for the curator's owner.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np
from sqlalchemy.ext.asyncio import AsyncEngine

from common import sets
from common.agreement import DescriptorRefused, KeyNotAnchored
from common.models.round import Refusal, RefusalGround
from common.service.clock import Clock
from common.service.database import reading
from common.service.logs import get_logger
from common.service.problems import ProblemReceived
from curator.errors import (
    DeadlinePassed,
    NotConcerned,
    NotInRound,
    PeerUnavailable,
    PolicyRefused,
    StepRefused,
)
from curator.peers import Peers
from curator.store import history
from curator.store import parties as party_store
from curator.store.history import Decided, Ground
from curator.store.parties import PartyRow

GROUNDS: Final[Mapping[str, RefusalGround]] = MappingProxyType(
    {
        PolicyRefused.name: RefusalGround.POLICY,
        StepRefused.name: RefusalGround.DESCRIPTOR,
        DescriptorRefused.name: RefusalGround.DESCRIPTOR,
        KeyNotAnchored.name: RefusalGround.DESCRIPTOR,
    }
)
UNINVITED: Final = frozenset({NotConcerned.name, NotInRound.name, DeadlinePassed.name})
"""Nobody waits for these curators."""
_logger = get_logger("tacit.curator.refusing")


def refusal_of(grounds: Sequence[Ground], curators: int) -> Refusal | None:
    """What is told of a party's grounds; None if all that stay out were not awaited anyway."""
    refused = np.zeros(curators, np.bool_)
    counts: Counter[RefusalGround] = Counter()
    for each in grounds:
        if each.name in UNINVITED:
            continue
        span = refused[each.offset : each.offset + each.length]
        new = sets.unpack(each.members, each.length) & ~span
        span |= new
        counts[GROUNDS.get(each.name, RefusalGround.OWN)] += int(new.sum())
    found = {ground: count for ground, count in counts.items() if count}
    return Refusal(members=sets.pack(refused), grounds=found) if found else None


@dataclass(frozen=True)
class Refusing:
    """Tells coordinators, once for each contribution that is decided; again after a restart."""

    engine: AsyncEngine
    peers: Peers
    clock: Clock
    _told: set[int] = field(default_factory=set)
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def tell(self) -> None:
        """Tell what is not told yet of rounds that are open; what does not get through stays."""
        async with self._alone:
            async with reading(self.engine) as connection:
                decided = await history.decided_refusals(connection, self.clock.now())
                fresh = [each for each in decided if each.contribution not in self._told]
                parties = await party_store.parties_by_id(connection, [e.party for e in fresh])
            self._told.intersection_update(each.contribution for each in decided)
            by_coordinator: defaultdict[str, list[Decided]] = defaultdict(list)
            for each in fresh:
                by_coordinator[parties[each.party].coordinator_url].append(each)
            await asyncio.gather(*(self._tell(own, parties) for own in by_coordinator.values()))

    async def _tell(self, decided: Sequence[Decided], parties: Mapping[str, PartyRow]) -> None:
        """Tell one coordinator; the rest is for the next time once it does not answer."""
        for each in decided:
            party = parties[each.party]
            async with reading(self.engine) as connection:
                grounds = await history.grounds(connection, each.contribution)
            refusal = refusal_of(grounds, party.curators)
            if refusal is not None and party.coordinator_token is not None:
                try:
                    await self.peers.refuse(
                        party.coordinator_url, party.coordinator_token, each.round, refusal
                    )
                except PeerUnavailable:
                    return
                except ProblemReceived as problem:
                    if problem.retryable or problem.status >= 500:
                        continue
                    _logger.info("refusal_not_taken", round=each.round, problem=problem.name)
            self._told.add(each.contribution)
