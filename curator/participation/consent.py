"""Which of a party's curators participate in a round, which refuse, and how refusals are reported.

First stops, then the policy, then the ledger. Spec: budget, section 5. Every ground is a public
parameter (or the curator's own budget), and is recorded. Refusals are reported to the coordinator,
each with one of a few grounds; without that a round would wait for its deadline, for no visible
reason.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

import numpy as np

from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.transactions import Database, Transaction
from common.web.problems import ProblemReceived
from curator.engine import Terms
from curator.errors import (
    BudgetExceeded,
    DeadlinePassed,
    InExactSum,
    NotConcerned,
    NotInRound,
    PathOverspent,
    PeerUnavailable,
    PolicyRefused,
    SealKeyUnusable,
    StepRefused,
    Stopped,
    WindowContributed,
)
from curator.ledger import (
    LIFETIME,
    Bits,
    Charge,
    Charges,
    Debit,
    Totals,
    largest_over_instants,
    period_of,
    shortages,
)
from curator.owner.policies import holding
from curator.participation.restoring import Restore
from curator.parties.peers import Peers
from curator.policy import Limit, Limits, Policy, check_policy
from curator.store import accounts, history, outbox, stops
from curator.store import parties as party_store
from curator.store.history import Decided
from curator.store.history import Ground as HistoryGround
from curator.store.parties import PartyRow
from tacit import sets
from tacit.crypto.sealing import spans
from tacit.protocol.identities import (
    IdentityForked,
    IdentitySuperseded,
    KeyChangeUnconfirmed,
    KeyNotAnchored,
    SuccessionRefused,
)
from tacit.protocol.round.agreement import DescriptorRefused
from tacit.protocol.round.descriptor import Refusal, RefusalGround, RoundDescriptor
from tacit.query.fields import Window
from tacit.query.terms import PrivacyUnit

TOGETHER: Final = 4 * accounts.CHUNK
"""Curators whose totals are unfolded together: a million of them would take 64 MB."""


@dataclass(frozen=True)
class Ground:
    """Why some curators of a span do not participate; public words and figures."""

    members: Bits
    name: str
    detail: str
    figures: str


@dataclass
class Consent:
    """Which curators of a span participate (`present`), why others do not, and which periods to
    account."""

    present: Bits
    grounds: list[Ground] = field(default_factory=list)
    periods: set[int] = field(default_factory=set)

    def refuse(
        self, members: Bits, name: str, detail: str, figures: dict[str, object] | None = None
    ) -> None:
        """Exclude members, with the ground."""
        blocked = members & self.present
        if not blocked.any():
            return
        self.present &= ~blocked
        words = (name, detail, json.dumps(figures or {}, sort_keys=True, default=str))
        for index, ground in enumerate(self.grounds):
            if (ground.name, ground.detail, ground.figures) == words:
                self.grounds[index] = Ground(ground.members | blocked, *words)
                return
        self.grounds.append(Ground(blocked, *words))

    def within(self, part: slice) -> Consent:
        """The same, of some of the curators."""
        grounds = [
            Ground(ground.members[part], ground.name, ground.detail, ground.figures)
            for ground in self.grounds
            if ground.members[part].any()
        ]
        return Consent(self.present[part], grounds, self.periods)


def check_round(
    row: PartyRow, descriptor: RoundDescriptor, now: datetime, restore: Restore
) -> None:
    """Grounds that hold for the whole party. Raises a RoundRefused."""
    if now >= descriptor.deadline:
        raise DeadlinePassed
    if row.first is None or row.first + row.curators > descriptor.roster_size:
        raise NotInRound(extra={"roster_version": descriptor.roster_version})
    restore.check_round(descriptor)


async def consent(
    transaction: Transaction,
    row: PartyRow,
    terms: Terms,
    charges: Charges,
    default: Policy,
    span: tuple[int, int],
    now: datetime,
) -> Consent:
    """The decision for the curators offset..offset+length-1 of a party, in the transaction that
    will write their debit."""
    offset, length = span
    result = Consent(np.ones(length, np.bool_))
    descriptor = terms.descriptor
    result.refuse(
        await stops.members(transaction, row.first_key + offset, length),
        Stopped.name,
        Stopped.title,
    )
    if terms.invited is not None and row.first is not None:
        first = row.first + offset
        result.refuse(
            ~terms.invited[first : first + length],
            NotConcerned.name,
            NotConcerned.title,
            _asked_of(descriptor),
        )
    repeated = await _repeated(transaction, row, terms)
    summed = np.zeros(length, np.bool_)
    if descriptor.query.rule is not None:
        summed = await outbox.in_exact_sums(transaction, row.id, descriptor, offset, length)
    price = Asked(descriptor.query.privacy_unit, descriptor.window, charges)
    for policy, members in await holding(transaction, row, default, offset, length):
        result.periods.add(policy.period_s)
        try:
            check_policy(
                policy, descriptor, verified=price.charge.verified, anchors=len(row.anchors)
            )
        except PolicyRefused as error:
            result.refuse(members, error.name, error.detail, dict(error.extra))
            continue
        if repeated is not None and not policy.allow_repeats:
            result.refuse(
                members, WindowContributed.name, WindowContributed.title, {"round": repeated}
            )
            continue
        if not policy.allow_repeats:
            result.refuse(members & summed, InExactSum.name, InExactSum.title)
        await afford(transaction, row, price, policy, span, members, now, result)
    return result


def _asked_of(descriptor: RoundDescriptor) -> dict[str, object]:
    """Which curators a round asks: a group, or those that began a job."""
    query = descriptor.query
    return {"job": query.job} if query.group is None else {"group": query.group}


async def _repeated(transaction: Transaction, row: PartyRow, terms: Terms) -> str | None:
    """An earlier round of this query and window with our debit. Only the signed statements that
    earn a credit prove that it ended without a sum, not the coordinator's statement."""
    descriptor = terms.descriptor
    earlier = await outbox.contributed_rounds(
        transaction, row.id, terms.query_digest, descriptor.window, descriptor.round
    )
    return earlier[0] if earlier else None


@dataclass(frozen=True)
class Asked:
    """What a ledger would be charged, over which window; `unit`: the query's own."""

    unit: PrivacyUnit
    window: Window
    charges: Charges

    @property
    def charge(self) -> Charge:
        """The charge in the query's own unit."""
        return self.charges[self.unit]


async def afford(
    transaction: Transaction,
    row: PartyRow,
    price: Asked,
    policy: Policy,
    span: tuple[int, int],
    members: Bits,
    now: datetime,
    result: Consent,
) -> None:
    """Exclude the members whose limits, in either unit, the charges would exceed."""
    places = np.flatnonzero(members & result.present)
    if not places.size:
        return
    # Of a host's curators a round may concern few: the ledger is read no further than they reach.
    first, end = int(places[0]), int(places[-1]) + 1
    near = (span[0] + first, end - first)
    for unit, charge in price.charges.items():
        limits = policy.limits(unit)
        if limits == Limits():
            continue
        if not charge.verified and not policy.allow_unverified:
            detail = f"nothing is verified for the unit {unit}, which has limits"
            result.refuse(members, PolicyRefused.name, detail, {"unit": unit.value})
            continue
        overlapping: list[Debit] = []
        if unit is PrivacyUnit.RECORD:
            since = None if limits.lifetime != Limit() else period_of(now, policy.period_s)[0]
            overlapping = await accounts.list_debits(
                transaction, row.id, unit, since=since, overlapping=price.window, span=near
            )
        for some in spans(*near, TOGETHER):
            part = (some.first, some.length)
            if unit is PrivacyUnit.CURATOR:
                period = await accounts.totals(transaction, row.id, policy.period_s, now, part)
                lifetime = await accounts.totals(transaction, row.id, LIFETIME, now, part)
            else:
                period, lifetime = _record_totals(overlapping, price.window, policy, part, now)
            inside = slice(some.first - span[0], some.first - span[0] + some.length)
            for shortage in shortages(limits, charge, period, lifetime, members[inside]):
                short = np.zeros(members.size, np.bool_)
                short[inside] = shortage.members
                figures: dict[str, object] = {"unit": unit.value, **shortage.figures}
                result.refuse(short, BudgetExceeded.name, shortage.detail, figures)


def _record_totals(
    overlapping: Sequence[Debit],
    window: Window,
    policy: Policy,
    span: tuple[int, int],
    now: datetime,
) -> tuple[Totals, Totals]:
    """A record is only in rounds whose window covers it: the worst instant of this window.
    `overlapping`: all such rounds or, if no lifetime limit exists, those of the period."""
    start, _ = period_of(now, policy.period_s)
    current = [item for item in overlapping if item.made >= start]
    return (
        largest_over_instants(current, window, *span, verified_only=True),
        largest_over_instants(overlapping, window, *span, verified_only=False),
    )


# --- refusals are reported to a coordinator ------------------------------------------------------
#
# A refusal is decided before any reading is read, at the contribution's random moment. The report
# contains no more than anyone can infer from the descriptor and the policy: every ground that
# depends on a curator's ledger or history (budget, a window contributed before, a restore) is
# reported as `own`; only the curator's owner sees the grounds with their figures.

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


def refusal_of(grounds: Sequence[HistoryGround], curators: int) -> Refusal | None:
    """The report of a party's grounds; None if no round expects the refusing curators anyway."""
    refused = np.zeros(curators, np.bool_)
    counts: Counter[RefusalGround] = Counter()
    for ground in grounds:
        if ground.name in UNINVITED:
            continue
        span = refused[ground.offset : ground.offset + ground.length]
        new = sets.unpack(ground.members, ground.length) & ~span
        span |= new
        counts[GROUNDS.get(ground.name, RefusalGround.OWN)] += int(new.sum())
    refused_by_ground = {ground: count for ground, count in counts.items() if count}
    return (
        Refusal(members=sets.pack(refused), grounds=refused_by_ground)
        if refused_by_ground
        else None
    )


@dataclass(frozen=True)
class Refusing:
    """Reports refusals to coordinators, once for each decided contribution; again after a
    restart."""

    database: Database
    peers: Peers
    clock: Clock
    _told: set[int] = field(default_factory=set)
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    _awaited: list[asyncio.Event] = field(default_factory=list)
    """Set after the pass that has not begun yet, if one waits."""

    async def tell(self) -> None:
        """Send the pending reports of open rounds; a report that fails stays pending. A call
        while a pass waits to begin joins that pass."""
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
        now = self.clock.now()

        async def untold(transaction: Transaction) -> tuple[list[Decided], dict[str, PartyRow]]:
            decided = await history.decided_refusals(transaction, now, UNINVITED)
            owners = [item.party for item in decided if item.contribution not in self._told]
            return decided, await party_store.parties_by_id(transaction, owners)

        decided, parties = await self.database.read(untold)
        fresh = [decision for decision in decided if decision.contribution not in self._told]
        self._told.intersection_update(decision.contribution for decision in decided)
        by_coordinator: defaultdict[str, list[Decided]] = defaultdict(list)
        for decision in fresh:
            by_coordinator[parties[decision.party].coordinator_url].append(decision)
        await asyncio.gather(
            *(self._tell(requests, parties) for requests in by_coordinator.values())
        )

    async def _tell(self, decided: Sequence[Decided], parties: Mapping[str, PartyRow]) -> None:
        """Report to one coordinator; if it does not answer, the rest waits for the next pass."""
        for decision in decided:
            party = parties[decision.party]
            async with self.database.reading() as transaction:
                grounds = await history.grounds(transaction, decision.contribution)
            refusal = refusal_of(grounds, party.curators)
            if refusal is not None and party.coordinator_token is not None:
                try:
                    await self.peers.refuse(
                        party.coordinator_url, party.coordinator_token, decision.round, refusal
                    )
                except PeerUnavailable:
                    return
                except ProblemReceived as problem:
                    if problem.retryable or problem.status >= 500:
                        continue
                    _logger.info("refusal_not_taken", round=decision.round, problem=problem.name)
            self._told.add(decision.contribution)
