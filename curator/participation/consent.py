"""Which of a party's curators participate in a round: who is not stopped; then the policy, then the
ledger.

Spec: budget, section 5. Every ground is a public parameter (or the curator's own budget), and is
recorded with its figures. Nothing here ever sees a reading: participation must not depend on data.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import numpy as np

from common.store.transactions import Transaction
from curator.engine import Terms
from curator.errors import (
    BudgetExceeded,
    DeadlinePassed,
    NotConcerned,
    NotInRound,
    PolicyRefused,
    Stopped,
    WindowContributed,
)
from curator.ledger.ledger import (
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
from curator.policy import Limit, Limits, Policy, check_policy
from curator.store import accounts, outbox, stops
from curator.store.parties import PartyRow
from tacit.crypto.sealing import spans
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.fields import Window
from tacit.query.words import PrivacyUnit

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
        """Leave members out, and say why."""
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
    asked = Asked(descriptor.query.privacy_unit, descriptor.window, charges)
    for policy, members in await holding(transaction, row, default, offset, length):
        result.periods.add(policy.period_s)
        try:
            check_policy(
                policy, descriptor, verified=asked.charge.verified, anchors=len(row.anchors)
            )
        except PolicyRefused as error:
            result.refuse(members, error.name, error.detail, dict(error.extra))
            continue
        if repeated is not None and not policy.allow_repeats:
            result.refuse(
                members, WindowContributed.name, WindowContributed.title, {"round": repeated}
            )
            continue
        await afford(transaction, row, asked, policy, span, members, now, result)
    return result


def _asked_of(descriptor: RoundDescriptor) -> dict[str, object]:
    """Whose round it is: a group's, or that of the curators that began a job."""
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
    asked: Asked,
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
    for unit, charge in asked.charges.items():
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
                transaction, row.id, unit, since=since, overlapping=asked.window, span=near
            )
        for some in spans(*near, TOGETHER):
            part = (some.first, some.length)
            if unit is PrivacyUnit.CURATOR:
                period = await accounts.totals(transaction, row.id, policy.period_s, now, part)
                lifetime = await accounts.totals(transaction, row.id, LIFETIME, now, part)
            else:
                period, lifetime = _record_totals(overlapping, asked.window, policy, part, now)
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
    """A record meets only rounds whose window covers it: the worst instant of this window.

    `overlapping`: all of them, or where nothing limits a lifetime those of the period.
    """
    start, _ = period_of(now, policy.period_s)
    current = [item for item in overlapping if item.made >= start]
    return (
        largest_over_instants(current, window, *span, verified_only=True),
        largest_over_instants(overlapping, window, *span, verified_only=False),
    )
