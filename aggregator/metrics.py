"""Coarse public metrics: no label distinguishes curators or rounds."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from aggregator.store import rounds as store
from common.runtime.telemetry import ServiceMetrics
from common.store.transactions import Database
from tacit.protocol.round.descriptor import RoundState


class Meters:
    """Pieces as they are answered, and rounds as they are stored."""

    def __init__(self, metrics: ServiceMetrics) -> None:
        self.accepted: Counter = metrics.counter(
            "pieces_accepted", "Pieces and batches answered 200 or 201.", ("form", "status")
        )
        self.refused: Counter = metrics.counter(
            "pieces_refused", "Pieces and batches refused, by problem.", ("form", "reason")
        )
        self.rounds: Gauge = metrics.gauge("rounds", "Rounds in the store, by state.", ("state",))
        self.expired: Counter = metrics.counter(
            "rounds_expired", "Rounds that this process deleted after their retention."
        )
        self.commits: Counter = metrics.counter("commits", "Transactions of the writer.")

    async def count_rounds(self, database: Database) -> None:
        """Bring the gauge of rounds up to date."""
        async with database.reading() as transaction:
            found = await store.count_states(transaction)
        for state in RoundState:
            self.rounds.labels(state.value).set(found.get(state.value, 0))
