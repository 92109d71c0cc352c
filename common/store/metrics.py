"""How much a service asks its database, as metrics."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from common.runtime.telemetry import ServiceMetrics
from common.store.transactions import Counts, Database


class _StoreCollector(Collector):
    """Reads the counts at each scrape; a statement pays for no metric."""

    def __init__(self, prefix: str, counts: Counts) -> None:
        self._prefix, self._counts = prefix, counts

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The counts of this moment."""
        transactions = CounterMetricFamily(
            f"{self._prefix}_transactions", "Transactions begun, by kind.", labels=("kind",)
        )
        transactions.add_metric(("reading",), self._counts.reading)
        transactions.add_metric(("writing",), self._counts.writing)
        yield transactions
        yield CounterMetricFamily(
            f"{self._prefix}_statements", "Statements executed.", self._counts.statements
        )


def add_store_meters(metrics: ServiceMetrics, database: Database) -> None:
    """Add the transactions and statements of a service's database to its metrics."""
    metrics.registry.register(_StoreCollector(f"tacit_{metrics.service}_store", database.counts))
