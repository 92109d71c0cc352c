"""Traces over OTLP/HTTP, only where a setting names a collector.

A span records a request's route template, its status and its duration: never a path as sent, a
query, a header, a body or an exception's message. Nothing is read from the environment but our own
setting, and the libraries' own instrumentation is not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any, Protocol

from common.runtime.extras import extra_needed


class Span(Protocol):
    """What may be recorded about a unit of work."""

    def answered(self, method: str, route: str, status: int) -> None:
        """How a request was answered."""
        ...


class Tracer(Protocol):
    """Makes spans."""

    def request(self, headers: Mapping[str, str]) -> AbstractContextManager[Span]:
        """The span of a request, within the sender's trace, if the headers name one."""
        ...

    def step(self, name: str) -> AbstractContextManager[None]:
        """The span of something that a service does by itself. `name` is one of a few words."""
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
