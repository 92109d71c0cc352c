"""Reports refusals to a coordinator: which curators refuse a round, on which of a few grounds.

Without it a round would wait for its deadline, for no visible reason. A refusal is decided before
any reading is read (`consent`), at the contribution's random moment, and reveals no more than
anyone can infer from the descriptor and the policy: every ground that depends on a curator's own
ledger or past (budget, a window contributed before, a restore) is reported as `own`. The grounds
themselves, with their figures, are visible only to the curator's owner.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.transactions import Database
from common.web.problems import ProblemReceived
from curator.errors import (
    DeadlinePassed,
    NotConcerned,
    NotInRound,
    PathOverspent,
    PeerUnavailable,
    PolicyRefused,
    SealKeyUnusable,
    StepRefused,
)
from curator.parties.peers import Peers
from curator.store import history
from curator.store import parties as party_store
from curator.store.history import Decided, Ground
from curator.store.parties import PartyRow
from tacit import sets
from tacit.protocol.identities import (
    IdentityForked,
    IdentitySuperseded,
    KeyChangeUnconfirmed,
    KeyNotAnchored,
    SuccessionRefused,
)
from tacit.protocol.round.agreement import DescriptorRefused
from tacit.protocol.round.descriptor import Refusal, RefusalGround

GROUNDS: Final[Mapping[str, RefusalGround]] = MappingProxyType(
    {
        PolicyRefused.name: RefusalGround.POLICY,
        StepRefused.name: RefusalGround.DESCRIPTOR,
        PathOverspent.name: RefusalGround.DESCRIPTOR,
        DescriptorRefused.name: RefusalGround.DESCRIPTOR,
        KeyNotAnchored.name: RefusalGround.DESCRIPTOR,
        IdentityForked.name: RefusalGround.DESCRIPTOR,
        IdentitySuperseded.name: RefusalGround.DESCRIPTOR,
        KeyChangeUnconfirmed.name: RefusalGround.DESCRIPTOR,
        SuccessionRefused.name: RefusalGround.DESCRIPTOR,
        SealKeyUnusable.name: RefusalGround.DESCRIPTOR,
    }
)
UNINVITED: Final = frozenset({NotConcerned.name, NotInRound.name, DeadlinePassed.name})
"""Grounds of curators that no round awaits."""
_logger = get_logger("tacit.curator.refusing")


def refusal_of(grounds: Sequence[Ground], curators: int) -> Refusal | None:
    """The report of a party's grounds; None if no round awaits the refusing curators anyway."""
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
    """Reports to coordinators, once for each decided contribution; again after a restart."""

    database: Database
    peers: Peers
    clock: Clock
    _told: set[int] = field(default_factory=set)
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    _awaited: list[asyncio.Event] = field(default_factory=list)
    """Set after the pass that has not begun yet, if one waits."""

    async def tell(self) -> None:
        """Send the pending reports of open rounds; a report that fails stays pending. Who comes
        while a pass has not begun waits for that one."""
        if self._awaited:
            await self._awaited[0].wait()
            return
        told = asyncio.Event()
        self._awaited.append(told)
        try:
            async with self._alone:
                self._awaited.clear()
                await self._tell_all()
        finally:
            if told in self._awaited:  # it was cancelled before it began
                self._awaited.clear()
            told.set()

    async def _tell_all(self) -> None:
        async with self.database.reading() as transaction:
            decided = await history.decided_refusals(transaction, self.clock.now(), UNINVITED)
            fresh = [each for each in decided if each.contribution not in self._told]
            parties = await party_store.parties_by_id(transaction, [e.party for e in fresh])
        self._told.intersection_update(each.contribution for each in decided)
        by_coordinator: defaultdict[str, list[Decided]] = defaultdict(list)
        for each in fresh:
            by_coordinator[parties[each.party].coordinator_url].append(each)
        await asyncio.gather(*(self._tell(own, parties) for own in by_coordinator.values()))

    async def _tell(self, decided: Sequence[Decided], parties: Mapping[str, PartyRow]) -> None:
        """Report to one coordinator; if it does not answer, the rest waits for the next pass."""
        for each in decided:
            party = parties[each.party]
            async with self.database.reading() as transaction:
                grounds = await history.grounds(transaction, each.contribution)
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
