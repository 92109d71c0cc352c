"""Runs an app under uvicorn, in this process, until SIGINT or SIGTERM.

Nothing is printed: messages go to the log. After start freed memory is returned to the system, and
the objects made so far are excluded from garbage collection, which would otherwise visit them in
every full collection.
"""

import asyncio
import contextlib
import gc
import math
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn, TypeVar

import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError
from pydantic_settings.exceptions import SettingsError

from common.runtime.logs import configure_logging
from common.runtime.memory import give_back, return_large_blocks
from common.runtime.process import allow_open_files, leave_no_core, open_files
from common.runtime.settings import ServiceSettings
from common.runtime.tls import renew, server_options, use_groups
from common.web.connections import Register

S = TypeVar("S", bound=ServiceSettings)
GRACE_S: Final = 30
DATE_S: Final = 1.0
RESERVE: Final = 256
"""Open files reserved for the database, other services and logs when connections are many."""
GARBAGE: Final = 20_000
"""Objects made, less those freed, between two searches for cycles: a request makes thousands."""


class Server(uvicorn.Server):
    """uvicorn's server with frozen start-up objects, limits of idle connections, and a certificate
    that may be renewed. It is woken to end, where uvicorn looks ten times a second."""

    def __init__(
        self, config: uvicorn.Config, connections: Register, groups: str | None = None
    ) -> None:
        self._ending, self._woken = False, asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        super().__init__(config)
        self._connections, self._groups = connections, groups
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def should_exit(self) -> bool:
        """Whether the server ends, or has ended. A signal and any thread may set it."""
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
        self._tasks.append(asyncio.create_task(self._connections.keep_looking()))
        gc.collect()
        give_back()
        gc.freeze()
        gc.set_threshold(GARBAGE, 20, 50)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop."""
        for task in self._tasks:
            task.cancel()
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
        connections,
        settings.tls_groups,
    )


def serve(app: FastAPI, settings: ServiceSettings) -> None:
    """Configure logging and run `app` until a signal; open requests get `GRACE_S` to finish."""
    leave_no_core()
    return_large_blocks(settings.kept_bytes)
    allow_open_files(settings.max_connections + RESERVE)
    configure_logging(settings.log_level, settings.log_format)
    make_server(app, settings).run()


def main(kind: type[S], create_app: Callable[[S], FastAPI]) -> None:
    """A service with settings from the environment; one line and exit code 2 where they are bad."""
    try:
        settings = kind()
    except ValidationError as error:
        found = [
            f"{'.'.join(str(part) for part in each['loc']) or 'settings'}: {each['msg']}"
            for each in error.errors()
        ]
        _refuse("; ".join(found))
    except SettingsError as error:
        _refuse(str(error))
    serve(create_app(settings), settings)


def _refuse(why: str) -> NoReturn:
    print(f"tacit: the settings are refused: {why}", file=sys.stderr)
    raise SystemExit(2)
