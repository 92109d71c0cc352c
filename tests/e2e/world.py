"""A whole deployment of real processes on loopback, with a proxy before each service."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cli.services.deployment import (
    Deployment,
    Running,
    ServiceAddress,
    free_ports,
    join_token,
    pair,
)
from tacit.protocol.enrolment import PartyKind
from tacit.wire import format_instant
from tests.e2e.proxy import Proxy
from tests.rules import RULE

FAST = {
    "coordinator": {
        "TACIT_EXACT_RULE": '{"min_participants": 2}',
        "TACIT_POLL_S": "0.1",
        "TACIT_PATIENCE_S": "20",
        "TACIT_LEASE_S": "1.1",
    },
    "aggregator": {
        "TACIT_EXACT_RULE": '{"min_participants": 2}',
        "TACIT_POLICY_MIN_PARTICIPANTS": "1",
    },
    "curator": {
        "TACIT_RETRY_S": "0.3",
        "TACIT_SETTLE_AFTER_S": "1",
        "TACIT_SEND_WINDOW_SHARE": "0",
        "TACIT_PREPARE_LEAD_S": "0",
        "TACIT_POLICY_EPSILON": "10",
    },
}
HOUR = timedelta(hours=1)


class World:
    """The processes of a deployment, whose public addresses are those of the proxies."""

    def __init__(self, real: Deployment, running: Running, proxies: dict[str, Proxy]) -> None:
        self.real = real
        self.running = running
        self.proxies = proxies
        self.public = Deployment(
            real.directory,
            self._before(real.coordinator),
            tuple(self._before(item) for item in real.aggregators),
            real.curator,
        )
        self.window_end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)

    @property
    def window(self) -> dict[str, str]:
        """The last full hour."""
        return {
            "start": format_instant(self.window_end - HOUR),
            "end": format_instant(self.window_end),
        }

    def service(self, name: str) -> ServiceAddress:
        """A service by its id."""
        return next(item for item in self.real.services if item.id == name)

    def kill(self, name: str) -> None:
        """kill -9."""
        process = self.running.processes[name]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    async def restart(self, name: str) -> None:
        """Start a killed service again and wait until it is ready."""
        service = self.service(name)
        self.running.start_one(service)
        await asyncio.to_thread(self.running.wait_for, service)

    async def call(self, function: Any, *arguments: Any, **named: Any) -> Any:
        """A blocking call beside the proxies' event loop."""
        return await asyncio.to_thread(function, *arguments, **named)

    async def enrol(self, party: str, curators: list[str] | None) -> None:
        """Enrol a host of these curators, or a lone curator."""
        kind = PartyKind.CURATOR if curators is None else PartyKind.HOST
        count = 1 if curators is None else len(curators)
        token = await self.call(join_token, self.public, party, kind, count, 3600)
        body: dict[str, Any] = {"token": token.to_text()}
        if curators is not None:
            body["curators"] = curators
        await self.call(self._curator, "POST", "/v1/enrolments", body)

    async def allow_everything(self, **but: Any) -> None:
        """A policy under which every round is contributed to, noise or not, and again; `but` in
        these."""
        policy = await self.call(self._curator, "GET", "/v1/policy")
        policy |= {"allow_unverified": True, "min_participants": 1, "exact": RULE}
        policy |= {"allow_repeats": True, **but}
        await self.call(self._curator, "PUT", "/v1/policy", policy)

    async def demand(self, curator: str, participants: int) -> None:
        """Let a curator refuse rounds of fewer."""
        path = f"/v1/curators/{curator}/policy"
        policy = await self.call(self._curator, "GET", path)
        await self.call(self._curator, "PUT", path, {**policy, "min_participants": participants})

    async def give(self, values_kwh: dict[str, str]) -> None:
        """One reading for each curator, in the middle of the window."""
        readings = [
            {
                "curator": curator,
                "device": f"meter-{curator}",
                "time": format_instant(self.window_end - HOUR / 2),
                "value": value,
                "unit": "kWh",
                "kind": "delta",
            }
            for curator, value in values_kwh.items()
        ]
        await self.call(self._curator, "POST", "/v1/readings", readings)

    async def open(self, query: dict[str, Any]) -> str:
        """Open a round of a query; its id."""

        def work() -> str:
            with self.real.coordinator.client() as client:
                created = client.queries.create(query)
                opened: str = client.rounds.open(created["id"], window=self.window)["id"]
                return opened

        found: str = await self.call(work)
        return found

    async def finish(self, round_id: str, timeout_s: float = 300) -> dict[str, Any]:
        """Follow a round to its end, however often the coordinator is restarted."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        while loop.time() < end:
            try:
                found: dict[str, Any] = await self.call(self._round, round_id)
            except Exception:
                found = {"state": "unknown"}
            if found["state"] in ("released", "aborted"):
                return found
            await asyncio.sleep(0.1)
        raise TimeoutError(f"round {round_id} is not finished")

    async def descriptor(self, round_id: str) -> dict[str, Any]:
        """What the coordinator signed of a round."""

        def work() -> dict[str, Any]:
            with self.real.coordinator.client() as client:
                found: dict[str, Any] = client.rounds.descriptor(round_id)["statement"]
                return found

        found: dict[str, Any] = await self.call(work)
        return found

    async def result(self, round_id: str) -> dict[str, Any]:
        """A released result."""

        def work() -> dict[str, Any]:
            with self.real.coordinator.client() as client:
                return client.rounds.result(round_id)

        found: dict[str, Any] = await self.call(work)
        return found

    async def debits(self, curator: str, round_id: str) -> int:
        """How often a curator's own ledger was debited for a round."""
        statement = await self.call(self._curator, "GET", f"/v1/curators/{curator}/contributions")
        return sum(item["round"] == round_id for item in statement["contributions"])

    async def delivered(self, curators: Sequence[str], round_id: str) -> set[str]:
        """Which curators' own statements say that their pieces were taken, once each is final."""
        taken = set()
        async with asyncio.timeout(120):
            for curator in curators:
                while (state := await self._state(curator, round_id)) in ("planned", "prepared"):
                    await asyncio.sleep(0.1)
                if state == "delivered":
                    taken.add(curator)
        return taken

    async def _state(self, curator: str, round_id: str) -> str | None:
        path = f"/v1/curators/{curator}/contributions"
        statement = await self.call(self._curator, "GET", path)
        states = [i["state"] for i in statement["contributions"] if i["round"] == round_id]
        return states[0] if states else None

    def _before(self, service: ServiceAddress) -> ServiceAddress:
        """A service at the address of its proxy, where it has one."""
        proxy = self.proxies.get(service.id)
        return service if proxy is None else replace(service, url=proxy.url)

    def _round(self, round_id: str) -> dict[str, Any]:
        with self.real.coordinator.client() as client:
            return client.rounds.get(round_id)

    def _curator(self, method: str, path: str, body: Any = None) -> Any:
        with self.real.curator.client() as client:
            return client.request(method, path, body).json()


@asynccontextmanager
async def world(directory: Path, aggregators: int = 3) -> AsyncIterator[World]:
    """A running world; nothing is left of it afterwards."""
    real = Deployment.plan(directory, aggregators)
    real.save()
    ports = free_ports(aggregators + 1)
    named = (real.coordinator, *real.aggregators)
    proxies = {item.id: Proxy(port, item.url) for item, port in zip(named, ports, strict=True)}
    running = Running(real, FAST)
    # The addresses that services give of themselves are the proxies'.
    running.public_urls = {name: proxy.url for name, proxy in proxies.items()}
    async with AsyncExitStack() as stack:
        for proxy in proxies.values():
            await stack.enter_async_context(proxy.running())
        try:
            await asyncio.to_thread(running.start)
            it = World(real, running, proxies)
            await asyncio.to_thread(pair, it.public)
            yield it
        finally:
            for proxy in proxies.values():
                proxy.watch = None
            await asyncio.to_thread(running.stop)
