"""A policy tried on the past: which rounds of the last days a curator would have answered.

One curator that was asked in each of them, with an empty ledger at the start, is asked again in
their order. Nothing is written, and no reading is looked at. Spec: console, section 6.5.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

import numpy as np

from common.store.transactions import Database, Transaction
from curator.errors import (
    BudgetExceeded,
    NotConcerned,
    NotInRound,
    PolicyRefused,
    StepMissed,
    WindowContributed,
)
from curator.ledger import (
    LIFETIME,
    PAID,
    Charges,
    Debit,
    Totals,
    charges_of,
    for_account,
    job_charges,
    largest_over_instants,
    period_of,
    shortages,
)
from curator.policy import Limits, Policy, check_policy
from curator.store import history, records
from curator.store.parties import CuratorRow, PartyRow, list_parties
from tacit.crypto.signing import Signed
from tacit.protocol.federation import JobTerms, step_of
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.terms import PrivacyUnit
from tacit.wire import Instant, WireModel

DAYS: Final = 30
MOST: Final = 3000
"""Rounds: the newest. Every quarter of an hour for 30 days is 2,880."""
_OUTSIDE: Final = (NotConcerned.name, NotInRound.name)
"""Grounds that no policy changes."""
_ONE: Final = np.ones(1, np.bool_)


@dataclass
class Ledger:
    """Of one curator and one unit; what it has spent in the current period and in total."""

    period_s: int
    limits: Limits
    unit: PrivacyUnit
    debits: list[Debit] = field(default_factory=list)
    period: Totals = field(default_factory=lambda: Totals.zero(1))
    lifetime: Totals = field(default_factory=lambda: Totals.zero(1))
    began: datetime | None = None

    def affords(self, descriptor: RoundDescriptor, charges: Charges) -> bool:
        """Whether no limit would be exceeded."""
        start, end = period_of(descriptor.opened, self.period_s)
        if start != self.began:
            self.began, self.period = start, Totals.zero(1)
        period, lifetime = self.period, self.lifetime
        if self.unit is PrivacyUnit.RECORD:
            window = descriptor.window
            met = [
                item
                for item in self.debits
                if item.window.start < window.end and window.start < item.window.end
            ]
            recent = [item for item in met if start <= item.made < end]
            period = largest_over_instants(recent, window, 0, 1, verified_only=True)
            lifetime = largest_over_instants(met, window, 0, 1, verified_only=False)
        return not shortages(self.limits, charges[self.unit], period, lifetime, _ONE)

    def pay(self, descriptor: RoundDescriptor, charges: Charges) -> None:
        """Debit a round that `affords` allowed."""
        charge = charges[self.unit]
        self.period = self.period.plus(for_account(charge, self.period_s), _ONE)
        self.lifetime = self.lifetime.plus(for_account(charge, LIFETIME), _ONE)
        if self.unit is PrivacyUnit.RECORD:
            made = descriptor.opened
            self.debits.append(Debit(charge, 0, _ONE, descriptor.window, made, False))


def answered(
    policies: Sequence[Policy],
    rounds: Iterable[RoundDescriptor],
    anchors: int,
    jobs: Mapping[str, JobTerms] = MappingProxyType({}),
) -> Counter[str]:
    """How many rounds end with each refusal's name, and "answered" for the rest.

    `policies`: all of them must agree. `rounds`: in the order in which they were opened. `anchors`:
    how many aggregators the party's join token names. `jobs`: those that are debited once.
    """
    ledgers = [
        (policy, Ledger(policy.period_s, policy.limits(unit), unit))
        for policy in policies
        for unit in PrivacyUnit
    ]
    seen: set[tuple[bytes, str]] = set()
    begun: set[str] = set()
    outcomes: Counter[str] = Counter()
    for descriptor in rounds:
        job = descriptor.query.job or ""
        if job in jobs and _later(descriptor) and job not in begun:
            outcomes[StepMissed.name] += 1
            continue
        charges = _charges(descriptor, jobs.get(job))
        window = (descriptor.query.digest(), descriptor.window.model_dump_json())
        name = _refusal(policies, ledgers, descriptor, charges, anchors, window in seen)
        outcomes[name or "answered"] += 1
        if name is None:
            seen.add(window)
            begun.add(job)
            for _, ledger in ledgers:
                ledger.pay(descriptor, charges)
    return outcomes


def _later(descriptor: RoundDescriptor) -> bool:
    """Whether it is a later step of a job."""
    step = step_of(descriptor.query)
    return step is not None and step.step > 1


def _charges(descriptor: RoundDescriptor, terms: JobTerms | None) -> Charges:
    """Of a round; the first of a job that is debited once pays for all."""
    if terms is None:
        return charges_of(descriptor.query, descriptor.operators)
    if _later(descriptor):
        return PAID
    return job_charges(descriptor.query, terms.epsilon, descriptor.operators)


def _refusal(
    policies: Sequence[Policy],
    ledgers: Sequence[tuple[Policy, Ledger]],
    descriptor: RoundDescriptor,
    charges: Charges,
    anchors: int,
    repeated: bool,
) -> str | None:
    """The ground's name, in the order of `consent`."""
    verified = charges[descriptor.query.privacy_unit].verified
    for policy in policies:
        try:
            check_policy(policy, descriptor, verified=verified, anchors=anchors)
        except PolicyRefused as error:
            return error.name
        if repeated and not policy.allow_repeats:
            return WindowContributed.name
    for policy, ledger in ledgers:
        if ledger.limits == Limits():
            continue
        if not charges[ledger.unit].verified and not policy.allow_unverified:
            return PolicyRefused.name
        if not ledger.affords(descriptor, charges):
            return BudgetExceeded.name
    return None


async def past(
    transaction: Transaction, now: datetime, of: tuple[CuratorRow, PartyRow] | None
) -> tuple[list[RoundDescriptor], datetime]:
    """Rounds of the last days, oldest first, and since when: those that concerned a curator; of
    none, those that any party of the process was asked in."""
    since, party, outside = now - timedelta(days=DAYS), None, set[str]()
    if of is not None:
        row, party_row = of
        party, position = party_row.id, row.key - party_row.first_key
        outside = await history.left_out(transaction, party, position, since, _OUTSIDE)
    texts = await history.opened_since(transaction, since, MOST, party)
    descriptors = [
        Signed[RoundDescriptor].model_validate_json(text).statement
        for round_id, text in texts
        if round_id not in outside
    ]
    return descriptors, descriptors[0].opened if len(texts) == MOST else since


class Tried(WireModel):
    """Of `rounds` that were opened since then: how many would have been answered, and how many
    refused on grounds of each name."""

    since: Instant
    rounds: int
    answered: int
    refused: dict[str, int]


async def try_on(
    database: Database,
    policies: Sequence[Policy],
    now: datetime,
    of: tuple[CuratorRow, PartyRow] | None,
) -> Tried:
    """Try policies, which must all agree, on the past of a curator or of the whole process."""
    async with database.reading() as transaction:
        rounds, since = await past(transaction, now, of)
        anchors = len(of[1].anchors) if of else await _most_anchors(transaction)
        jobs = await records.debited_once(transaction)
    counts = await asyncio.to_thread(answered, policies, rounds, anchors, jobs)
    refused = {name: counts[name] for name in sorted(counts) if name != "answered"}
    return Tried(since=since, rounds=len(rounds), answered=counts["answered"], refused=refused)


async def _most_anchors(transaction: Transaction) -> int:
    return max((len(row.anchors) for row in await list_parties(transaction)), default=0)
