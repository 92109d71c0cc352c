"""A million curators in the ledger, then ten thousand mixed events.

    python -m bench.ledger [--curators 1000000] [--events 10000]

Loads curators that declare and disclose figures of their own, all different, and measures CPU per
event: making and hashing it, folding it, and reading the three bounds after it. Beside it, in the
same run, the naive way: the bounds from scratch over all curators after an event. Storage is
measured apart, by appending the events to SQLite (`synchronous=FULL`) in batches, and by verifying
and folding all rows again, as at a start of the service. Memory is the peak of the process.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import statistics
import tempfile
import time
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from common.runtime.clock import SystemClock
from common.store.database import migrate, open_database
from coordinator.budget.ledger import Ledger
from coordinator.budget.roster import Status
from coordinator.budget.round_charges import Price
from coordinator.budget.state import LedgerState
from coordinator.models.budget_ledger import (
    NANO,
    Declaration,
    Disclosure,
    Draft,
    Event,
    Kind,
    MemberSet,
    Scaled,
    ScaledDisclosure,
    chain,
    exact_figures,
)
from coordinator.services import MIGRATIONS
from coordinator.store import ledger as store
from tacit.accounting.amounts import Amount
from tacit.accounting.bounds import aggregate, source_bounds
from tacit.accounting.scenarios import Scenario
from tacit.crypto.signing import Identity
from tacit.query.terms import PrivacyUnit

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
PRICE = Price.of(
    {(unit, scenario): Amount(500, 1, 500, 1) for unit in PrivacyUnit for scenario in Scenario}
)
KINDS = (
    (Kind.REFRESHED, 40),
    (Kind.LEFT, 15),
    (Kind.JOINED, 15),
    (Kind.FLAGGED, 10),
    (Kind.CLEANSED, 8),
    (Kind.NON_COMPLIANT, 5),
    (Kind.REINSTATED, 6),
    (Kind.ROUND_DEBITED, 1),
)


class Load:
    """A state with a population, and the mixed events that happen to it."""

    def __init__(self, curators: int, seed: int = 1) -> None:
        self.curators, self.chance = curators, random.Random(seed)
        self.disclosures: dict[str, Disclosure] = {}
        self.state = LedgerState(self.disclosures.__getitem__)
        self.events: list[Event] = []
        self.rounds = 0

    def fill(self) -> None:
        """Everybody joins in one event, and declares and discloses figures of its own."""
        self.add(Draft(Kind.JOINED, "bench", {"party": "gateway"}, 0, self.curators))
        drawn = np.random.default_rng(1).integers(1, 10**12, (self.curators, 3))
        for number in range(self.curators):
            one, two, three = drawn[number].tolist()
            largest = min(one, two)
            declared = Scaled(1 + three % 5_000_000, largest, largest * 96)
            disclosed = ScaledDisclosure(largest, largest + max(one, two), 96, False)
            self.state.roster.declare((number,), declared, disclosed)

    def add(self, draft: Draft) -> None:
        """Append and fold one event."""
        for event in chain([draft], self.state.seq, self.state.head, NOON):
            self.events.append(event)
            self.state.fold(event)

    def draft(self) -> Draft:
        """The next event; it may follow."""
        kinds, weights = zip(*KINDS, strict=True)
        while True:
            (kind,) = self.chance.choices(kinds, weights)
            if kind is Kind.ROUND_DEBITED:
                return self._round()
            number = self.chance.randrange(self.state.roster.size)
            if self.state.allows(kind, number, 1) is None:
                return Draft(kind, "bench", self._payload(kind), number, 1)

    def _payload(self, kind: Kind) -> dict[str, Any]:
        if kind not in (Kind.REFRESHED, Kind.CLEANSED):
            return {}
        largest = Fraction(self.chance.randrange(1, NANO), NANO)
        declaration = Declaration(epsilon=Fraction(1, 2), sensitivity=largest, max_readings=96)
        key = f"{len(self.disclosures)}"
        self.disclosures[key] = Disclosure(largest_reading=largest, total=2 * largest, readings=96)
        shown = declaration.model_dump(mode="json", exclude_none=True)
        return {"declared": shown, "disclosed": key}

    def _round(self) -> Draft:
        self.rounds += 1
        members = self.state.roster.members()
        payload = {
            "round": f"{self.rounds}",
            "query": "bench",
            "made": self.rounds,
            "window": [self.rounds, self.rounds + 2],
            "price": PRICE.to_payload(),
            "members": MemberSet.of(members).text,
            "size": int(members.size),
            "operators": ["a", "b", "c"],
        }
        return Draft(Kind.ROUND_DEBITED, "bench", payload)


def scratch(state: LedgerState) -> float:
    """CPU seconds of the bounds from scratch, over all curators."""
    began = time.process_time()
    roster = state.roster
    figures = (
        exact_figures(declared, roster.disclosed(number), compliant=status is not Status.LEFT)
        for number in range(roster.size)
        if (status := roster.status(number)) not in (Status.LEFT, Status.UNKNOWN)
        and (declared := roster.declared(number)) is not None
    )
    source_bounds(aggregate(figures))
    return time.process_time() - began


async def stored(events: list[Event], disclosures: dict[str, Disclosure]) -> tuple[float, float]:
    """CPU microseconds an event: appending to SQLite by the thousand, and a start's check."""
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(f"sqlite:///{Path(folder) / 'ledger.db'}")
        await migrate(database, MIGRATIONS)
        began = time.process_time()
        for start in range(0, len(events), 1000):
            async with database.begin() as transaction:
                await store.add(transaction, events[start : start + 1000])
        wrote = time.process_time() - began
        ledger = Ledger(database, SystemClock(), Identity.generate)
        ledger._disclosures.update(disclosures)
        began = time.process_time()
        async with database.reading() as transaction:
            assert await ledger.verify(transaction) is None
        checked = time.process_time() - began
        await database.dispose()
    return wrote / len(events) * 1e6, checked / len(events) * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--curators", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=10_000)
    asked = parser.parse_args()
    load = Load(asked.curators)
    began = time.process_time()
    load.fill()
    loaded = time.process_time() - began
    times: dict[Kind, list[float]] = {}
    for _ in range(asked.events):
        draft = load.draft()
        began = time.process_time()
        load.add(draft)
        source_bounds(load.state.roster.aggregates())
        times.setdefault(draft.kind, []).append(time.process_time() - began)
    everything = [item for kind in times.values() for item in kind]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    naive = scratch(load.state)
    median = statistics.median(everything)
    print(f"{asked.curators} curators loaded in {loaded:.1f} CPU s; peak memory {peak:.0f} MiB")
    print(f"{asked.events} events, median {median * 1e6:.0f} us CPU each (fold, hash, bounds)")
    for kind, found in sorted(times.items()):
        print(
            f"  {kind.value:15s} {len(found):6d}  median {statistics.median(found) * 1e6:8.0f} us"
        )
    print(f"bounds from scratch: {naive:.2f} CPU s, {naive / median:,.0f} times an event")
    began = time.process_time()
    worst = load.state.spending.worst_record(Scenario.ASSUMED)
    taken = time.process_time() - began
    print(f"worst record over {load.rounds} rounds: {taken * 1e3:.0f} ms ({worst.epsilon} micro)")
    wrote, checked = asyncio.run(stored(load.events, load.disclosures))
    print(f"stored: {wrote:.0f} us an event in batches; verified at a start: {checked:.0f} us")


if __name__ == "__main__":
    main()
