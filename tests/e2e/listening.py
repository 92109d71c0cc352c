"""Hears all that a deployment says: logs, metrics, traces, errors, and what its processes show."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.taint import Harvest, Taint
from tests.e2e.world import World


class Collector:
    """An OTLP/HTTP collector that keeps every body."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[str] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                collector.headers.append(f"{self.path} {self.headers}")
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[Collector]:
        """Collect."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def spans(self) -> list[Span]:
        """All spans that came."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        found = []
        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                about = {item.key: item.value.string_value for item in resource.resource.attributes}
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        keys = {item.key: item.value for item in span.attributes}
                        found.append(
                            Span(
                                about["service.name"],
                                span.name,
                                span.trace_id,
                                {
                                    key: value.string_value or value.int_value
                                    for key, value in keys.items()
                                },
                                len(span.events) + len(span.links),
                            )
                        )
        return found


@dataclass(frozen=True)
class Span:
    """What a collector is told of a unit of work."""

    service: str
    name: str
    trace: bytes
    attributes: dict[str, Any]
    extras: int


@dataclass
class Heard:
    """Everything that was said, by channel."""

    metrics: set[bytes] = field(default_factory=set)
    errors: list[bytes] = field(default_factory=list)
    processes: dict[int, bytes] = field(default_factory=dict)
    core_limits: dict[int, str] = field(default_factory=dict)
    logs: dict[str, bytes] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    traces: list[bytes] = field(default_factory=list)
    bundle: dict[str, bytes] = field(default_factory=dict)
    """The files of a support bundle, by name."""

    def channels(self) -> dict[str, bytes]:
        """The text of each channel."""
        return {
            "metrics": b"\n".join(sorted(self.metrics)),
            "errors": b"\n".join(self.errors),
            "processes": b"\n".join(self.processes.values()),
            "traces": b"\n".join(self.traces),
            "support bundle": b"\n".join(self.bundle.values()),
            **{f"log of {name}": log for name, log in self.logs.items()},
        }


class Listener:
    """Listens to a world until it is told to stop."""

    def __init__(self, it: World, taint: Taint) -> None:
        self._it = it
        self._harvest = Harvest(taint)
        self.heard = Heard()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin."""
        self._tasks = [
            asyncio.create_task(self._again(self._books, 0.1)),
            asyncio.create_task(self._again(self._processes, 0.3)),
            asyncio.create_task(self._again(self._metrics, 1.0)),
        ]

    async def stop(self) -> None:
        """Stop; an error of the listening itself is raised here."""
        for task in self._tasks:
            task.cancel()
        for found in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(found, Exception):
                raise found
        self._metrics()
        self._processes()

    async def _again(self, look: Any, pause_s: float) -> None:
        while True:
            await asyncio.to_thread(look)
            await asyncio.sleep(pause_s)

    def _books(self) -> None:
        for service in self._it.real.services:
            with suppress(sqlite3.OperationalError):
                self._harvest.take(service.kind, Path(service.directory) / f"{service.kind}.db")

    def _metrics(self) -> None:
        for service in self._it.real.services:
            text = httpx.get(f"{service.url}/metrics", timeout=60).content  # a busy machine
            self.heard.metrics |= set(text.splitlines())

    def _processes(self) -> None:
        for pid in family({process.pid for process in self._it.running.processes.values()}):
            with suppress(OSError):
                place = Path(f"/proc/{pid}")
                shown = (place / "cmdline").read_bytes() + (place / "environ").read_bytes()
                limits = (place / "limits").read_text().splitlines()
                core = next(line for line in limits if line.startswith("Max core file size"))
                if shown:  # a process at its end shows nothing
                    self.heard.processes[pid] = shown
                    self.heard.core_limits[pid] = " ".join(core.split()[4:6])


def family(ancestors: set[int]) -> set[int]:
    """These processes and all that they started."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                stat = Path(f"/proc/{name}/stat").read_text()
                parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
    found = set(ancestors)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found
