"""A deployment whose coordinator and aggregators run as two processes each on PostgreSQL.

A balancer before each service sends requests to its replicas in turn, so that no two steps of a
round may count on the same process. It tells a test what passes, as the proxy does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import httpx
from starlette.requests import Request
from starlette.responses import Response

from cli.services.deployment import Deployment, Running, ServiceAddress, free_ports, pair
from tests.e2e.proxy import Proxy
from tests.e2e.world import FAST, World

TOKEN = "operator-token-of-every-replica-0123456789"


class Balancer(Proxy):
    """A proxy before the processes of one service, by turns; one that is away is passed over."""

    def __init__(self, port: int, targets: list[str]) -> None:
        super().__init__(port, targets[0])
        self._targets, self._turn = targets, count()

    async def _forward(self, request: Request) -> Response:
        for _ in self._targets:
            client = self._clients[next(self._turn) % len(self._targets)]
            answer = await self._sent(client, request)
            if answer.status_code != 503:
                return answer
        return answer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Proxy]:
        """The balancer, listening."""
        self._clients = [
            httpx.AsyncClient(base_url=target, timeout=None, trust_env=False)
            for target in self._targets
        ]
        try:
            async with super().running() as it:
                yield it
        finally:
            for client in self._clients:
                await client.aclose()


class Replicated(World):
    """A world with two processes a service. A replica is named `<service>/<number>`."""

    addresses: dict[str, ServiceAddress]

    async def restart(self, name: str) -> None:
        """Start a killed replica again and wait until it is ready."""
        service = self.addresses[name]
        self.running.start_one(service)
        await asyncio.to_thread(self.running.wait_for, service)

    def alive(self, service: str) -> list[str]:
        """The replicas of a service that run."""
        return [
            name
            for name, process in self.running.processes.items()
            if name.startswith(f"{service}/") and process.poll() is None
        ]


Databases = Callable[[str], Awaitable[str]]


@asynccontextmanager
async def replicated(
    directory: Path, databases: Databases, replicated_curator: bool = False, aggregators: int = 2
) -> AsyncIterator[Replicated]:
    """`databases(service)`: the URL of an empty PostgreSQL database."""
    real = Deployment.plan(directory, aggregators)
    services = real.services if replicated_curator else real.services[:-1]
    ports = iter(free_ports(3 * len(services) + 4))
    running = Running(real, FAST)
    replicas: dict[str, list[ServiceAddress]] = {}
    balancers: dict[str, Proxy] = {}
    storage_key = "A" * 43
    for service in services:
        url = await databases(service.id)
        replicas[service.id] = [
            replace(
                service,
                id=f"{service.id}/{number}",
                url=f"http://127.0.0.1:{next(ports)}",
                directory=str(directory / f"{service.id}-{number}"),
            )
            for number in (1, 2)
        ]
        balancers[service.id] = Balancer(next(ports), [item.url for item in replicas[service.id]])
        for item in replicas[service.id]:
            running.public_urls[item.id] = balancers[service.id].url
            running.more[item.id] = {
                "TACIT_DATABASE_URL": url,
                "TACIT_OPERATOR_TOKEN": TOKEN,
                "TACIT_DATASET_DIR": str(directory / "datasets"),
                "TACIT_STORAGE_KEY": storage_key,
            }
            if service.kind == "aggregator":
                running.more[item.id] |= {
                    "TACIT_AGGREGATOR_ID": service.id,
                    "TACIT_OPERATOR": service.id,
                    "TACIT_KEY_DIR": str(directory / f"{service.id}-keys"),
                }
        (directory / service.id).mkdir(parents=True)
        (directory / service.id / "operator.token").write_text(TOKEN)
    before = {name: balancer.url for name, balancer in balancers.items()}

    def public(service: ServiceAddress) -> ServiceAddress:
        return replace(service, url=before.get(service.id, service.url))

    shown = Deployment(
        real.directory,
        public(real.coordinator),
        tuple(public(item) for item in real.aggregators),
        public(real.curator),
    )
    processes = [item for group in replicas.values() for item in group]
    if not replicated_curator:
        processes.append(real.curator)

    def start() -> None:
        for item in processes:
            running.start_one(item)
        for item in processes:
            running.wait_for(item)

    async with AsyncExitStack() as stack:
        for balancer in balancers.values():
            await stack.enter_async_context(balancer.running())
        try:
            await asyncio.to_thread(start)
            it = Replicated(shown, running, {})
            it.proxies = balancers
            it.addresses = {item.id: item for item in processes}
            await asyncio.to_thread(pair, shown)
            yield it
        finally:
            for balancer in balancers.values():
                balancer.watch = None
            await asyncio.to_thread(running.stop)
