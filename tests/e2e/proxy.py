"""A reverse proxy before one service that tells a test what passes, and lets it act in between.

The test sees the moment before a request reaches the service and the moment before its answer
leaves, so it can kill any process exactly there, without a hook in the product.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

Watcher = Callable[[str, str, str], Awaitable[None]]
"""(moment "request" or "response", method, path): awaited before the message goes on."""

_HOP = {"connection", "transfer-encoding", "content-length", "content-encoding", "host"}


class Proxy:
    """Forwards everything to `target`; `watch` is asked first."""

    def __init__(self, port: int, target: str) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.target = target
        self.watch: Watcher | None = None

    async def _forward(self, request: Request) -> Response:
        return await self._sent(self._client, request)

    async def _sent(self, client: httpx.AsyncClient, request: Request) -> Response:
        method, path = request.method, request.url.path
        body = await request.body()
        await self._tell("request", method, path)
        headers = {k: v for k, v in request.headers.items() if k not in _HOP}
        try:
            answer = await client.request(
                method,
                str(request.url.replace(scheme="http", netloc="")),
                content=body,
                headers=headers,
            )
        except httpx.TransportError:
            return Response(status_code=503, headers={"Retry-After": "0"})
        await self._tell("response", method, path)
        kept = {k: v for k, v in answer.headers.items() if k not in _HOP}
        return Response(answer.content, answer.status_code, headers=kept)

    async def _tell(self, moment: str, method: str, path: str) -> None:
        if self.watch is not None:
            await self.watch(moment, method, path)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        """The proxy, listening."""
        app = Starlette(
            routes=[Route("/{path:path}", self._forward, methods=["GET", "POST", "PUT", "DELETE"])]
        )
        config = uvicorn.Config(
            app, host="127.0.0.1", port=self.port, log_level="critical", lifespan="off"
        )
        server = uvicorn.Server(config)
        self._client = httpx.AsyncClient(base_url=self.target, timeout=None, trust_env=False)
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield self
        finally:
            server.should_exit = server.force_exit = True
            with suppress(asyncio.CancelledError):
                await task
            await self._client.aclose()
