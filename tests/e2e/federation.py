"""A coordinator, its aggregators and one curator service of many lone curators, over ASGI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
from fastapi import FastAPI
from pydantic import SecretStr

from aggregator.app import create_app as create_aggregator
from common.runtime.clock import SystemClock
from coordinator.settings import CoordinatorSettings
from curator.app import create_app as create_curator
from curator.settings import CuratorSettings
from tacit.protocol.enrolment import Grant, JoinToken, PartyKind
from tests.aggregator.conftest import settings as aggregator_settings
from tests.aggregator.double import Federation
from tests.built_once import migrated
from tests.coordinator.double import OPERATOR_TOKEN, House, Wire
from tests.in_process import in_process

CURATOR_OPERATOR = "operator-token-of-hosted-curators-0123456789"
COORDINATOR = "http://coordinator.test"


class Following(httpx.AsyncBaseTransport):
    """Reaches the coordinator, whichever process it is now."""

    def __init__(self, house: House) -> None:
        self._house = house

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._house.answer(request)


COLLECTING_S: Final = 600
"""How long a collection stays open, by a clock that is moved when everyone has reported."""


class MovableClock(SystemClock):
    """The machine's clock, moved ahead."""

    ahead = timedelta(0)

    def now(self) -> datetime:
        """The present, later by `ahead`."""
        return super().now() + self.ahead


class Site:
    """Everybody, and what an operator and the owners do."""

    def __init__(
        self, house: House, curators: httpx.AsyncClient, app: FastAPI, clock: MovableClock
    ) -> None:
        self.house, self.curators, self.app, self.clock = house, curators, app, clock

    async def own(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """A request to the curator service."""
        return await self.curators.request(method, path, json=body, **more)

    async def enrol(self, party: str, names: Sequence[str] | None = None) -> None:
        """Enrol a lone curator, or a host of several."""
        await self.enrol_by(await self.join_token(party, names), names)

    async def enrol_by(self, token: JoinToken, names: Sequence[str] | None = None) -> None:
        """Enrol with a join token."""
        body = {"token": token.to_text()} | ({} if names is None else {"curators": list(names)})
        answer = await self.own("POST", "/v1/enrolments", body)
        assert answer.status_code == 201, answer.text

    async def join_token(
        self, party: str, names: Sequence[str] | None = None, *, replaces: bool = False
    ) -> JoinToken:
        """A join token: a grant of each service."""
        kind = PartyKind.CURATOR if names is None else PartyKind.HOST
        asked = {
            "party": party,
            "kind": kind.value,
            "max_curators": len(names or "1"),
            "replaces": replaces,
        }
        answers = [await self.house.ask("POST", "/v1/grants", asked)]
        for peer in self.house.federation.peers:
            answers.append(await peer.ask("POST", "/v1/grants", asked))
        own, *others = [
            Grant.model_validate_json(json.dumps(answer.json()["grant"])) for answer in answers
        ]
        return JoinToken(
            party=party,
            kind=kind,
            max_curators=len(names or "1"),
            coordinator=own.model_copy(update={"url": COORDINATOR}),
            aggregators=tuple(others),
            expires=datetime.now(UTC) + timedelta(hours=1),
        )

    async def agree(self, *algorithms: str, **changes: Any) -> None:
        """The policy of all curators."""
        answer = await self.own("PUT", "/v1/policy", {"algorithms": list(algorithms), **changes})
        assert answer.status_code == 200, answer.text

    async def give(self, curator: str, columns: Sequence[str], rows: Any) -> None:
        """A curator's own table."""
        body = {"curator": curator, "columns": list(columns), "rows": rows}
        answer = await self.own("POST", "/v1/records", body)
        assert answer.status_code == 200, answer.text

    async def ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Ask for a job that must be accepted."""
        answer = await self.house.ask("POST", "/v1/jobs", asked)
        assert answer.status_code == 202, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def shown(self, job_id: str) -> dict[str, Any]:
        """A job."""
        found: dict[str, Any] = (await self.house.ask("GET", f"/v1/jobs/{job_id}")).json()
        return found

    async def collected(self, parties: Sequence[str], *jobs: str) -> None:
        """Move the clock past these collections' deadline once these curators' parties have decided
        and delivered what they report."""
        async with asyncio.timeout(300):
            for name in parties:
                done = 0
                while done < len(jobs):
                    await asyncio.sleep(0.05)
                    reports = (await self.own("GET", f"/v1/curators/{name}/reports")).json()
                    states = [each["state"] for each in reports["reports"] if each["job"] in jobs]
                    done = sum(state not in ("planned", "prepared") for state in states)
        self.clock.ahead += timedelta(seconds=COLLECTING_S)

    async def finished(self, job_id: str, timeout_s: float = 300) -> dict[str, Any]:
        """A job at its end."""
        async with asyncio.timeout(timeout_s):
            while (found := await self.shown(job_id))["state"] in ("queued", "running"):
                await asyncio.sleep(0.05)
        return found

    async def result(self, job_id: str) -> dict[str, Any]:
        """The result of a job that must succeed."""
        ended = await self.finished(job_id)
        assert ended["state"] == "succeeded", ended
        answer = await self.house.ask("GET", f"/v1/jobs/{job_id}/result")
        found: dict[str, Any] = answer.json()
        return found

    async def report(self, job_id: str) -> dict[str, Any]:
        """The privacy report of a job."""
        found: dict[str, Any] = (await self.house.ask("GET", f"/v1/jobs/{job_id}/report")).json()
        return found

    async def ledger(self, curator: str) -> dict[str, Any]:
        """A curator's own ledger, by unit."""
        answer = await self.own("GET", f"/v1/curators/{curator}/budget")
        found: dict[str, Any] = answer.json()["units"]
        return found


@asynccontextmanager
async def site(folder: Path, aggregators: int = 3, **changes: Any) -> AsyncIterator[Site]:
    """Running services; nothing is left of them afterwards."""
    clock = MovableClock()
    async with AsyncExitStack() as stack:
        wires: dict[str, Wire] = {}
        clients = []
        for index in range(aggregators):
            address = f"http://aggregator-{index}.test"
            peer = aggregator_settings(index, folder, public_url=address)
            await migrated(peer)
            app = create_aggregator(peer, clock=clock)
            await stack.enter_async_context(app.router.lifespan_context(app))
            wires[address] = Wire(app)
            direct = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=address)
            clients.append(await stack.enter_async_context(direct))
        own = CoordinatorSettings(
            data_dir=folder / "coordinator",
            operator_token=SecretStr(OPERATOR_TOKEN),
            public_url=COORDINATOR,
            poll_s=0.05,
            patience_s=20.0,
        )
        house = House(own, Federation(*clients), list(wires.values()), wires, clock)
        await house.start()
        stack.push_async_callback(house.stop)
        await house.pair()
        values: dict[str, Any] = {
            "send_window_share": 0,
            "prepare_lead_s": 0,
            "retry_s": 0.1,
            "poll_wait_s": 1,
            "settle_after_s": 1,
            "policy_epsilon": "10",
            **changes,
        }
        settings = CuratorSettings(
            data_dir=folder / "curators", operator_token=SecretStr(CURATOR_OPERATOR), **values
        )
        transports: dict[str, httpx.AsyncBaseTransport] = {COORDINATOR: Following(house), **wires}
        await migrated(settings)
        app = create_curator(settings, clock=clock, transports=in_process(transports))
        await stack.enter_async_context(app.router.lifespan_context(app))
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url="http://curators.test",
            headers={"Authorization": f"Bearer {CURATOR_OPERATOR}"},
        )
        await stack.enter_async_context(client)
        yield Site(house, client, app, clock)
