"""A small service behind real sockets, with the limits that a test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from common.runtime.settings import ServiceSettings
from common.web.app import build_app
from common.web.server import Register, Server, make_server


@asynccontextmanager
async def nothing(_: FastAPI) -> AsyncIterator[None]:
    yield


@dataclass(frozen=True)
class Serving:
    """A running service; `gate` holds back `/held` and the long poll until it is set."""

    app: FastAPI
    server: Server
    port: int
    gate: asyncio.Event

    @property
    def register(self) -> Register:
        found: Register = self.app.state.connections
        return found

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection on which nothing was sent."""
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, request: bytes) -> bytes:
        """All that is answered to these bytes until the service closes the connection."""
        reader, writer = await self.connect()
        writer.write(request)
        try:
            return await rest(reader)
        finally:
            writer.close()

    async def get(self, path: str = "/small") -> bytes:
        """The answer to a request of a client that behaves."""
        return await self.ask(
            f"GET {path} HTTP/1.1\r\nhost: it\r\nconnection: close\r\n\r\n".encode()
        )


async def rest(reader: asyncio.StreamReader, patience_s: float = 120) -> bytes:
    """What comes until the end of a connection; a reset is an end too."""
    found = b""
    async with asyncio.timeout(patience_s):
        try:
            while piece := await reader.read(65536):
                found += piece
        except ConnectionResetError:
            pass
    return found


def upload(length: int, path: str = "/length", more: str = "") -> bytes:
    """The header of an upload."""
    return (f"POST {path} HTTP/1.1\r\nhost: it\r\ncontent-length: {length}\r\n{more}\r\n").encode()


@asynccontextmanager
async def serving(directory: Path, **limits: Any) -> AsyncIterator[Serving]:
    """Serve on a free port of the loopback address."""
    settings = ServiceSettings(data_dir=directory, port=0, **limits)
    app = build_app("probe", settings, nothing, version="1")
    gate = asyncio.Event()

    async def small(_: Request) -> Response:
        return PlainTextResponse("small")

    async def large(_: Request) -> Response:
        return PlainTextResponse("x" * 32 * 1024 * 1024)

    async def length(request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    async def held(request: Request) -> Response:
        size = len(await request.body())
        await gate.wait()
        return PlainTextResponse(str(size))

    app.add_route("/small", small)
    app.add_route("/large", large)
    app.add_route("/length", length, methods=["POST"])
    app.add_route("/held", held, methods=["GET", "POST"])
    server = make_server(app, settings)
    task = asyncio.create_task(server.serve())
    try:
        async with asyncio.timeout(120):
            while not server.started:
                await asyncio.sleep(0.01)
        yield Serving(app, server, server.address[1], gate)
    finally:
        gate.set()
        server.should_exit = True
        await task
