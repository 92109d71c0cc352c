"""Runs an app under uvicorn until SIGINT or SIGTERM, with limits of idle and stalled connections.

Limits of idle and stalled connections: their number, their duration and their size.

uvicorn closes an idle connection after an answer, but waits without limit for the first byte, for
the end of a header, for a trailer and for a reader of its answer. Here one register per server
knows which connections wait for a request (oldest first) and on which an answer is stalled. Once a
second it closes those past their limit, without a timer for each. Slow bodies: `body_limit`.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import math
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn, TypeVar

import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError
from pydantic_settings.exceptions import SettingsError
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from common.runtime.logs import configure_logging
from common.runtime.process import (
    allow_open_files,
    give_back,
    leave_no_core,
    open_files,
    return_large_blocks,
)
from common.runtime.settings import LimitSettings, ServiceSettings
from common.runtime.telemetry import ServiceMetrics
from common.runtime.tls import renew, server_options, use_groups

LOOK_S: Final = 1.0
_TITLES: Final = {
    408: ("header_too_slow", "The request header arrives too slowly"),
    431: ("header_too_large", "The request header is too large"),
    503: ("overloaded", "The service has as many connections as it can"),
}


class Register:
    """The connections of one server, and their limits."""

    def __init__(self, limits: LimitSettings, metrics: ServiceMetrics) -> None:
        self.limits = limits
        self.max_connections = limits.max_connections
        self.open: set[Connection] = set()
        self.waiting: dict[Connection, float] = {}
        """Connections without a complete request header, since when; in the order of time."""
        self.unread: dict[Connection, Unread] = {}
        """Connections with an answer that the client does not read fast enough."""
        self._closed = metrics.counter(
            "connections_closed",
            "Connections closed because they used too many resources.",
            ("reason",),
        )
        metrics.gauge("connections_open", "Open connections.").set_function(
            lambda: float(len(self.open))
        )

    def protocol(self) -> type[HttpToolsProtocol]:
        """What uvicorn makes for each connection."""
        return type("RegisteredConnection", (Connection,), {"register": self})

    def admit(self, connection: Connection, now: float) -> bool:
        """Add a connection; at the limit, close the longest waiting one or refuse this one."""
        if len(self.open) >= self.max_connections:
            oldest = next(iter(self.waiting), None)
            if oldest is None:
                self._closed.labels("full").inc()
                return False
            self._closed.labels("displaced").inc()
            oldest.drop()
        self.open.add(connection)
        self.wait(connection, now)
        return True

    def wait(self, connection: Connection, now: float) -> None:
        """A connection has no request in progress from now on."""
        self.waiting.pop(connection, None)
        self.waiting[connection] = now

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        self.open.discard(connection)
        self.waiting.pop(connection, None)
        self.unread.pop(connection, None)

    def look(self, now: float) -> None:
        """Close the connections past their limit."""
        while self.waiting:
            connection, since = next(iter(self.waiting.items()))
            if now - since < self.limits.header_timeout_s:
                break
            self._closed.labels("header").inc()
            connection.expire()
        for connection, then in list(self.unread.items()):
            if now - then.since < self.limits.transfer_grace_s:
                continue
            unsent = connection.transport.get_write_buffer_size()
            moved = self.limits.transfer_least_bytes_per_s * (now - then.since)
            if unsent > then.bytes - moved:
                self._closed.labels("answer").inc()
                connection.drop()
            else:
                self.unread[connection] = Unread(now, unsent)

    def too_large(self) -> None:
        """Account for a header that was too large."""
        self._closed.labels("header_size").inc()

    async def keep_looking(self, every_s: float = LOOK_S) -> None:
        """Check all connections once a second, without end."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(every_s)
            self.look(loop.time())


@dataclass(frozen=True, slots=True)
class Unread:
    """How much of an answer was still unsent, and when."""

    since: float
    bytes: int


class Connection(HttpToolsProtocol):
    """uvicorn's connection, which reports its state to its register."""

    register: ClassVar[Register]
    _unparsed = 0
    """Bytes since the parser last completed a header, a piece of a body or a message: limits a
    header, a trailer or an extension of a chunk without end."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if not self.register.admit(self, self.loop.time()):
            self._answer(503)

    def connection_lost(self, exc: Exception | None) -> None:
        self.register.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._unparsed += len(data)
        super().data_received(data)
        if self._unparsed > self.register.limits.max_header_bytes:
            self.register.too_large()
            self._answer(431)

    def on_headers_complete(self) -> None:
        self._unparsed = 0
        self.register.waiting.pop(self, None)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and self in self.register.open:
            self.register.wait(self, self.loop.time())

    def pause_writing(self) -> None:
        super().pause_writing()
        self.register.unread[self] = Unread(
            self.loop.time(), self.transport.get_write_buffer_size()
        )

    def resume_writing(self) -> None:
        self.register.unread.pop(self, None)
        super().resume_writing()

    def expire(self) -> None:
        """End a wait for a request: with a problem, if a part of it arrived."""
        if self._unparsed:
            self._answer(408)
        elif self.transport.get_write_buffer_size():
            self.drop()
        else:
            self._leave()
            self.transport.close()

    def drop(self) -> None:
        """Close immediately; unsent data is lost."""
        self._leave()
        self.transport.abort()

    def _leave(self) -> None:
        self.register.forget(self)
        self._unset_keepalive_if_required()

    def _answer(self, status: int) -> None:
        """Send a problem to a client that has no request in progress, then close."""
        under_way = self.cycle is not None and not self.cycle.response_complete
        if under_way or self.transport.is_closing() or self.transport.get_write_buffer_size():
            self.drop()
            return
        name, title = _TITLES[status]
        body = json.dumps(
            {
                "type": f"urn:tacit:problem:{name}",
                "title": title,
                "status": status,
                "detail": title,
                "errors": [],
                "retryable": status != 431,
            }
        ).encode()
        again = b"retry-after: 1\r\n" if status == 503 else b""
        self.transport.write(
            STATUS_LINE[status]
            + b"content-type: application/problem+json\r\ncontent-length: %d\r\n" % len(body)
            + again
            + b"connection: close\r\n\r\n"
            + body
        )
        self.transport.close()
        # A client that does not read this answer is dropped when its time is over.
        self.register.wait(self, self.loop.time())


# Runs an app under uvicorn, in this process, until SIGINT or SIGTERM.
#
# Nothing is printed: messages go to the log. After start freed memory is returned to the system,
# and the objects made so far are excluded from garbage collection, which would otherwise visit them
# in every full collection.

S = TypeVar("S", bound=ServiceSettings)
GRACE_S: Final = 30
DATE_S: Final = 1.0
RESERVE: Final = 256
"""Open files reserved for the database, other services and logs when connections are many."""
GARBAGE: Final = 20_000
"""Objects made, less those freed, between two searches for cycles: a request makes thousands."""


class Server(uvicorn.Server):
    """uvicorn's server with frozen start-up objects, limits of idle connections, and a renewable
    certificate. It ends when notified, while uvicorn checks ten times a second."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, groups: str | None = None) -> None:
        self._ending, self._woken = False, asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        super().__init__(config)
        self._app, self._groups = app, groups
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def should_exit(self) -> bool:
        """Whether the server is ending, or has ended. A signal and any thread can set it."""
        return self._ending

    @should_exit.setter
    def should_exit(self, ending: bool) -> None:  # uvicorn has an attribute here
        self._ending = ending
        if ending and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    async def main_loop(self) -> None:
        """Renew the date of answers every second until the server ends."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DATE_S):
                    await self._woken.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then freeze what start-up made."""
        if self.config.ssl is not None and self._groups is not None:
            use_groups(self.config.ssl, self._groups)
        await super().startup(sockets)
        if self.config.ssl is not None:
            certificate, key = self.config.ssl_certfile, self.config.ssl_keyfile
            assert certificate is not None
            assert key is not None
            renewal = renew(self.config.ssl, Path(certificate), Path(key))
            self._tasks.append(asyncio.create_task(renewal))
        self._tasks.append(asyncio.create_task(self._app.state.connections.keep_looking()))
        gc.collect()
        give_back()
        gc.freeze()
        gc.set_threshold(GARBAGE, 20, 50)
        gc.enable()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; long polls answer now, other requests have `GRACE_S` to finish."""
        for task in self._tasks:
            task.cancel()
        for notice in self._app.state.polls:
            notice.end()
        await super().shutdown(sockets)

    @property
    def address(self) -> tuple[str, int]:
        """Where a started server listens: useful after asking for port 0."""
        listening = self.servers[0].sockets[0].getsockname()
        return str(listening[0]), int(listening[1])


def make_server(app: FastAPI, settings: ServiceSettings) -> Server:
    """A server that is not running yet: `await server.serve()`; `server.should_exit` ends it."""
    connections: Register = app.state.connections
    connections.max_connections = min(settings.max_connections, max(1, open_files() - RESERVE))
    return Server(
        uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            loop="uvloop",
            http=connections.protocol(),
            ws="none",
            lifespan="on",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=math.ceil(settings.header_timeout_s),
            timeout_graceful_shutdown=GRACE_S,
            **server_options(
                settings.tls_certificate, settings.tls_key, settings.tls_client_authority
            ),
        ),
        app,
        settings.tls_groups,
    )


def serve(app: FastAPI, settings: ServiceSettings) -> None:
    """Configure logging and run `app` until a signal; open requests have `GRACE_S` to finish."""
    leave_no_core()
    return_large_blocks(settings.kept_bytes)
    allow_open_files(settings.max_connections + RESERVE)
    configure_logging(settings.log_level, settings.log_format)
    make_server(app, settings).run()


def main(kind: type[S], create_app: Callable[[S], FastAPI]) -> None:
    """A service with settings from the environment; one line and exit code 2 if they are
    invalid."""
    try:
        settings = kind()
    except ValidationError as error:
        faults = [
            f"{'.'.join(str(part) for part in fault['loc']) or 'settings'}: {fault['msg']}"
            for fault in error.errors()
        ]
        _refuse("; ".join(faults))
    except SettingsError as error:
        _refuse(str(error))
    serve(create_app(settings), settings)


def _refuse(why: str) -> NoReturn:
    print(f"tacit: the settings are refused: {why}", file=sys.stderr)
    raise SystemExit(2)
