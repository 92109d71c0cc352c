"""Prometheus metrics of one service, in its own registry: `tacit_<service>_<thing>_<unit>`,
and the process's metrics (`process_cpu_seconds_total`, `process_resident_memory_bytes`, ...).

Labels are few and bounded (a route template, a status, a reason): never an identifier of a
curator, a device, a round or a person, because telemetry can disclose data too.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from tacit.crypto.signing import checks_made

_THING = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_IDENTIFIERS: Final = frozenset(
    {"curator", "curator_id", "device", "device_id", "subject", "round_id", "host", "user"}
)
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _SignatureChecks(Collector):
    """Reads the count at each scrape; a check pays for no metric."""

    def __init__(self, service: str) -> None:
        self._name = f"tacit_{service}_signature_checks"

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The count of this moment."""
        yield CounterMetricFamily(self._name, "Signatures checked.", checks_made())


class ServiceMetrics:
    """Makes the metrics of one service and prints them; two apps in a process share nothing."""

    content_type: Final = CONTENT_TYPE_LATEST

    def __init__(self, service: str) -> None:
        self.service = service
        self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        self.registry.register(_SignatureChecks(service))
        self._refreshers: list[Callable[[], Awaitable[None]]] = []

    def counter(self, thing: str, description: str, labels: Sequence[str] = ()) -> Counter:
        """A count that only grows; the name gets `_total`."""
        name = self._name(thing, labels)
        return Counter(name, description, labels, registry=self.registry)

    def gauge(self, thing: str, description: str, labels: Sequence[str] = ()) -> Gauge:
        """A figure that goes up and down; `thing` ends in its unit."""
        return Gauge(self._name(thing, labels), description, labels, registry=self.registry)

    def histogram(
        self,
        thing: str,
        description: str,
        labels: Sequence[str] = (),
        buckets: Sequence[float] = SECONDS,
    ) -> Histogram:
        """A distribution; `thing` ends in its unit."""
        name = self._name(thing, labels)
        return Histogram(name, description, labels, registry=self.registry, buckets=buckets)

    def before_scrape(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """A gauge that is computed at each scrape, not at every change."""
        self._refreshers.append(refresh)

    async def scrape(self) -> bytes:
        """The text that Prometheus reads; a gauge that cannot be computed keeps its last value."""
        for refresh in self._refreshers:
            with suppress(Exception):
                await refresh()
        return self.render()

    def render(self) -> bytes:
        """The same, of what is known."""
        return generate_latest(self.registry)

    def _name(self, thing: str, labels: Sequence[str]) -> str:
        if _THING.fullmatch(thing) is None:
            raise ValueError("a metric is named in snake_case")
        if not _IDENTIFIERS.isdisjoint(labels):
            raise ValueError("a label never identifies a party")
        return f"tacit_{self.service}_{thing}"
