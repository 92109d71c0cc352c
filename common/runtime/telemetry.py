"""Prometheus metrics, and traces over OTLP/HTTP where a setting names a collector.

Prometheus metrics of one service, in its own registry: `tacit_<service>_<thing>_<unit>`,
and the process's metrics (`process_cpu_seconds_total`, `process_resident_memory_bytes`, ...).

Labels are few and bounded (a route template, a status, a reason): never an identifier of a
curator, a device, a round or a person, because telemetry can disclose data too.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.util import find_spec
from typing import Any, Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from common.runtime.process import extra_needed
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


# Traces over OTLP/HTTP, only where a setting names a collector.
#
# A span records a request's route template, its status and its duration: never a path as sent, a
# query, a header, a body or an exception's message. Nothing is read from the environment but our
# own setting, and the libraries' own instrumentation is not used.


class Span(Protocol):
    """What may be recorded about a unit of work."""

    def answered(self, method: str, route: str, status: int) -> None:
        """How a request was answered."""
        ...


class Tracer(Protocol):
    """Makes spans."""

    def request(self, headers: Mapping[str, str]) -> AbstractContextManager[Span]:
        """The span of a request, within the sender's trace if the headers name one."""
        ...

    def step(self, name: str) -> AbstractContextManager[None]:
        """The span of an activity that a service starts itself. `name` is one of a few words."""
        ...

    def carry(self, headers: MutableMapping[str, str]) -> None:
        """Continue the current trace in a request to another service."""
        ...

    def stop(self) -> None:
        """Send what is left."""
        ...


class _Nothing:
    def answered(self, method: str, route: str, status: int) -> None:
        pass


class Untraced:
    """No traces: the tracer without the setting."""

    def request(self, headers: Mapping[str, str]) -> AbstractContextManager[Span]:  # noqa: ARG002
        return nullcontext(_Nothing())

    def step(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def carry(self, headers: MutableMapping[str, str]) -> None:
        pass

    def stop(self) -> None:
        pass


class _OtlpSpan:
    def __init__(self, span: Any) -> None:
        self._span = span

    def answered(self, method: str, route: str, status: int) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.update_name(f"{method} {route}")
        self._span.set_attribute("http.request.method", method)
        self._span.set_attribute("http.route", route)
        self._span.set_attribute("http.response.status_code", status)
        if status >= 500:
            self._span.set_status(Status(StatusCode.ERROR))


class Otlp:
    """Spans in batches to a collector. Raises RuntimeError without the extra `tracing`."""

    def __init__(self, service: str, version: str, endpoint: str, exporter: Any = None) -> None:
        if find_spec("opentelemetry.sdk") is None:
            raise RuntimeError(extra_needed("TACIT_OTLP_ENDPOINT", "tracing"))
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        resource = Resource({"service.name": f"tacit-{service}", "service.version": version})
        self._provider = TracerProvider(
            resource=resource, span_limits=SpanLimits(max_attributes=8), shutdown_on_exit=False
        )
        traces = endpoint.rstrip("/") + "/v1/traces"
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter or OTLPSpanExporter(endpoint=traces, headers={}))
        )
        self._tracer = self._provider.get_tracer("tacit")

    @contextmanager
    def request(self, headers: Mapping[str, str]) -> Iterator[Span]:
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        parent = TraceContextTextMapPropagator().extract(
            {"traceparent": headers.get("traceparent", "")}
        )
        with self._tracer.start_as_current_span(
            "request",
            parent,
            SpanKind.SERVER,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield _OtlpSpan(span)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False
        ):
            yield

    def carry(self, headers: MutableMapping[str, str]) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        carried: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carried)
        if "traceparent" in carried:
            headers["traceparent"] = carried["traceparent"]

    def stop(self) -> None:
        self._provider.shutdown()


def tracer_of(service: str, version: str, endpoint: str | None) -> Tracer:
    """The tracer of a service."""
    return Untraced() if endpoint is None else Otlp(service, version, endpoint)
