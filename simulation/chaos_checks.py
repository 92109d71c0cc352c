"""What must hold after a soak, checked against what every party says and what their stores hold.

Collected while the services still run: each curator's own history, the coordinator's ledger and
roster. Read from the stores once they have stopped: the aggregators' manifests, the curators'
running totals. The checks themselves are a pure function of this evidence.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aggregator.store import rounds as aggregator_rounds
from common.store.database import open_database
from common.store.transactions import Transaction
from curator.ledger import period_of, sum_debits
from curator.store import accounts
from curator.store import parties as curator_parties
from curator.store.parties import PartyRow
from simulation.chaos import Plan, Site, Soak
from tacit import sets
from tacit.answers.base import Answer
from tacit.protocol.round.messages import Manifest
from tacit.query.terms import PrivacyUnit

SETTLED_S: Final = 120.0
_UNDER_WAY: Final = frozenset({"planned", "prepared"})


@dataclass(frozen=True)
class Contribution:
    """A curator's own record of one round. `used`: how many of its readings counted."""

    curator: str
    round: str
    state: str
    contributed: bool
    used: int


@dataclass(frozen=True)
class Account:
    """What a curator spent in the current period: its running total, and the sum of its debits.

    Micro-epsilon and 10^-15 of delta, under the queries' own assumption.
    """

    curator: str
    running: tuple[int, int]
    debits: tuple[int, int]


@dataclass(frozen=True)
class Evidence:
    """The input of the checks. `manifests`: per round, per aggregator, the roster numbers."""

    numbers: Mapping[str, int]
    values: Mapping[str, int]
    contributions: Sequence[Contribution]
    accepted: Mapping[str, int]
    manifests: Mapping[str, Mapping[str, frozenset[int]]]
    accounts: Sequence[Account]
    ledger_verified: bool
    round_debits: Mapping[str, int]


@dataclass(frozen=True)
class Check:
    """One statement, on how many cases it was tried, and where it failed."""

    name: str
    cases: int
    failures: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the check was tried and never failed."""
        return self.cases > 0 and not self.failures


# --- collecting ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answers:
    """What the services report about themselves."""

    numbers: dict[str, int]
    contributions: tuple[Contribution, ...]
    accepted: dict[str, int]
    ledger_verified: bool
    round_debits: dict[str, int]


async def ask(site: Site) -> Answers:
    """Query every service once nothing is in progress. Raises TimeoutError."""
    await _settled(site)
    contributions, accepted = [], {}
    for host, access in site.hosts.items():
        async with access.client() as client:
            for name in site.curators[host]:
                path = f"/v1/curators/{name}/contributions"
                async for item in client.pages(path, "contributions", limit=1000):
                    contributions.append(_contribution(name, item))
                accepted[name] = int((await client.readings.counts(name))["accepted"])
    async with site.coordinator.client() as coordinator:
        numbers = {}
        async for row in coordinator.pages("/v1/curators", "curators", limit=1000):
            numbers[str(row["id"])] = int(row["number"])
        debits: Counter[str] = Counter()
        async for event in coordinator.pages("/v1/budget/events", "events", limit=1000):
            if event["kind"] == "round_debited":
                debits[str(event["payload"]["round"])] += 1
        verified = bool((await coordinator.budget.verify())["verified"])
    return Answers(numbers, tuple(contributions), accepted, verified, dict(debits))


def _contribution(curator: str, item: Answer) -> Contribution:
    used = int(item["readings"]["used"]) if item["contributed"] else 0
    return Contribution(curator, item["round"], item["state"], bool(item["contributed"]), used)


async def _settled(site: Site) -> None:
    """Wait until every host has delivered, or given up, all that it prepared."""
    end = time.monotonic() + SETTLED_S
    for host, access in site.hosts.items():
        path = f"/v1/curators/{site.curators[host][0]}/contributions"
        async with access.client() as client:
            while True:
                newest = (await client.get(path, limit=100))["contributions"]
                waiting = [item for item in newest if item["state"] in _UNDER_WAY]
                if not waiting:
                    break
                if time.monotonic() > end:
                    rounds = ", ".join(f"{item['round']} is {item['state']}" for item in waiting)
                    raise TimeoutError(f"{host} has not settled: {rounds}")
                await asyncio.sleep(0.2)


async def read_manifests(
    stores: Mapping[str, Path], rounds: Iterable[str]
) -> dict[str, dict[str, frozenset[int]]]:
    """The manifests in the aggregators' stores, which must not be running. `stores`: by id."""
    result: dict[str, dict[str, frozenset[int]]] = {name: {} for name in rounds}
    for aggregator, path in stores.items():
        database = open_database(f"sqlite:///{path}")
        try:
            async with database.reading() as transaction:
                for name, manifests in result.items():
                    row = await aggregator_rounds.round_row(transaction, name)
                    if row is None:
                        continue
                    text = await aggregator_rounds.document(transaction, row.key, "manifest")
                    if text is not None:
                        manifests[aggregator] = members_of(Manifest.model_validate_json(text))
        finally:
            await database.dispose()
    return result


def members_of(manifest: Manifest) -> frozenset[int]:
    """The roster numbers in a manifest."""
    bits = sets.unpack(manifest.members, 8 * len(manifest.members))
    return frozenset(place for place, member in enumerate(bits.tolist()) if member)


async def read_accounts(stores: Iterable[Path], period_s: int) -> list[Account]:
    """Running totals and sums of debits in the curator hosts' stores, which must not be running."""
    result = []
    now = datetime.now(UTC)
    since, _ = period_of(now, period_s)
    for path in stores:
        database = open_database(f"sqlite:///{path}")
        try:
            async with database.reading() as transaction:
                for party in await curator_parties.list_parties(transaction):
                    result += await _party_accounts(transaction, party, period_s, since, now)
        finally:
            await database.dispose()
    return result


async def _party_accounts(
    transaction: Transaction, party: PartyRow, period_s: int, since: datetime, now: datetime
) -> list[Account]:
    unit, span = PrivacyUnit.CURATOR, (0, party.curators)
    running = await accounts.totals(transaction, party.id, period_s, now, span)
    debits = await accounts.list_debits(transaction, party.id, unit, since=since)
    summed = sum_debits(debits, *span, verified_only=True)
    names = await curator_parties.curator_ids(transaction, party.id)
    return [
        Account(
            name,
            (int(running.epsilon[place]), int(running.delta[place])),
            (int(summed.epsilon[place]), int(summed.delta[place])),
        )
        for place, name in enumerate(names)
    ]


async def collect(
    site: Site,
    soak: Soak,
    answers: Answers,
    aggregator_stores: Mapping[str, Path],
    host_stores: Iterable[Path],
    period_s: int,
) -> Evidence:
    """What the services reported, and the content of their stores after they stopped."""
    return Evidence(
        answers.numbers,
        site.values(),
        answers.contributions,
        answers.accepted,
        await read_manifests(aggregator_stores, [ran.id for ran in soak.rounds]),
        await read_accounts(host_stores, period_s),
        answers.ledger_verified,
        answers.round_debits,
    )


# --- checking ------------------------------------------------------------------------------------


def checks(soak: Soak, evidence: Evidence) -> list[Check]:
    """Every statement about a soak, each with its cases and failures."""
    released = [ran for ran in soak.rounds if ran.state == "released"]
    by_curator = _by_curator(evidence.contributions)
    by_number = {number: name for name, number in evidence.numbers.items()}
    manifests = {ran.id: _manifest(evidence, ran.id) for ran in released}

    def check(name: str, cases: Iterable[tuple[str, bool]]) -> Check:
        tried = list(cases)
        return Check(name, len(tried), tuple(case for case, holds in tried if not holds))

    def expected(round_id: str) -> int:
        return sum(evidence.values[by_number[number]] for number in manifests[round_id])

    return [
        check(
            "every round ended released or aborted",
            ((ran.id, ran.state in ("released", "aborted")) for ran in soak.rounds),
        ),
        check(
            "every released sum recombines from its transcript",
            ((ran.id, ran.matches is True) for ran in released),
        ),
        check(
            "all aggregators of a released round hold one manifest, of as many curators as said",
            (
                (
                    ran.id,
                    len(set(evidence.manifests[ran.id].values())) == 1
                    and len(manifests[ran.id]) == ran.participants,
                )
                for ran in released
            ),
        ),
        check(
            "every exact sum is its manifest's, each curator counted once",
            ((ran.id, ran.total == expected(ran.id)) for ran in released if ran.exact),
        ),
        check(
            "who is in a released sum was debited for it, once",
            (
                (f"{ran.id} {by_number[number]}", len(by_curator[by_number[number], ran.id]) == 1)
                for ran in released
                for number in manifests[ran.id]
            ),
        ),
        check(
            "nobody was debited twice for a round",
            (
                (f"{name} {round_id}", len(charges) <= 1)
                for (name, round_id), charges in _all(evidence)
            ),
        ),
        check(
            "what all aggregators acknowledged is in the sum",
            (
                (f"{item.curator} {item.round}", _member(evidence, manifests, item))
                for item in evidence.contributions
                if item.state == "delivered" and item.contributed and item.round in manifests
            ),
        ),
        check(
            "every acknowledged reading is stored, once",
            (
                (name, evidence.accepted.get(name) == len(acknowledged))
                for name, acknowledged in soak.acknowledged.items()
            ),
        ),
        check(
            "every contribution holds its curator's reading",
            (
                (f"{item.curator} {item.round}", item.used == 1)
                for item in evidence.contributions
                if item.contributed
            ),
        ),
        check(
            "every curator's running total is the sum of its debits",
            ((account.curator, account.running == account.debits) for account in evidence.accounts),
        ),
        check(
            "the coordinator's ledger verifies, with one debit for each round",
            [
                ("the chain of hashes", evidence.ledger_verified),
                *((ran.id, evidence.round_debits.get(ran.id) == 1) for ran in soak.rounds),
            ],
        ),
    ]


def _manifest(evidence: Evidence, round_id: str) -> frozenset[int]:
    """The members, if any aggregator holds the manifest."""
    return next(iter(evidence.manifests[round_id].values()), frozenset())


def _by_curator(items: Iterable[Contribution]) -> dict[tuple[str, str], list[Contribution]]:
    """The debited contributions of each (curator, round)."""
    result: dict[tuple[str, str], list[Contribution]] = defaultdict(list)
    for item in items:
        if item.contributed:
            result[item.curator, item.round].append(item)
    return result


def _all(evidence: Evidence) -> Iterable[tuple[tuple[str, str], list[Contribution]]]:
    return _by_curator(evidence.contributions).items()


def _member(
    evidence: Evidence, manifests: Mapping[str, frozenset[int]], item: Contribution
) -> bool:
    return evidence.numbers[item.curator] in manifests[item.round]


def document(plan: Plan, soak: Soak, checks_made: Sequence[Check]) -> dict[str, Any]:
    """A soak and its checks as plain JSON."""
    states = Counter(ran.state for ran in soak.rounds)
    reasons = Counter(str(ran.reason) for ran in soak.rounds if ran.state == "aborted")
    return {
        "format": "tacit.soak/1",
        "seed": plan.seed,
        "seconds": round(soak.seconds, 1),
        "killed": soak.killed,
        "kills": dict(sorted(soak.kills.items())),
        "released": states["released"],
        "aborted": states["aborted"],
        "reasons": dict(reasons),
        "not_opened": dict(soak.not_opened),
        "passed": all(item.passed for item in checks_made),
        "checks": [
            {
                "name": item.name,
                "cases": item.cases,
                "passed": item.passed,
                "failures": list(item.failures),
            }
            for item in checks_made
        ],
    }
