"""Curators and operators around a real coordinator and real aggregators, all over ASGI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import numpy as np
from fastapi import FastAPI
from numpy.typing import NDArray

from common.runtime.clock import Clock
from common.runtime.tasks import Notice
from coordinator.app import create_app
from coordinator.registry.peer_requests import path_of
from coordinator.settings import CoordinatorSettings
from tacit.crypto.signing import Signed
from tacit.protocol.enrolment import ENROLMENT_LABEL, GRANT_HEADER, Enrolment, grant_hash
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.messages import Steps
from tacit.wire import encode_binary
from tests.aggregator.double import Federation, Round, Sender
from tests.built_once import migrated
from tests.in_process import in_process
from tests.rules import energy_sum

OPERATOR_TOKEN = "coordinator-operator-token-0123456789abcdef"
WINDOW = {"start": "2025-12-31T23:00:00Z", "end": "2026-01-01T00:00:00Z"}


def query(**changes: Any) -> dict[str, Any]:
    """A small query of mechanism `exact`, as JSON, with changes."""
    return energy_sum(**{"mechanism": "exact", "n_max": 100000, "deadline_s": 300, **changes})


NOISY: dict[str, Any] = {
    "mechanism": "distributed",
    "epsilon": "1",
    "collusion": {"aggregators": 2},
}
"""Changes that make it one of noise at the aggregators, of which one has to be honest."""
STEPS = "/v1/rounds/steps"


def _paths(request: httpx.Request) -> list[str]:
    """The path of a request; of one with steps of several rounds, those that they have alone."""
    if request.url.path != STEPS:
        return [request.url.path]
    return [path_of(step) for step in Steps.model_validate_json(request.content).steps]


class Wire(httpx.ASGITransport):
    """Reaches one aggregator, unless it is down; `fault(method, path)` may cut a request off
    ("request": it never arrives; "answer": it does, and the answer is lost), `lie(path, answer)`
    changes what it answers."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(app=app)
        self.down = False
        self.fault: Callable[[str, str], str | None] = lambda _method, _path: None
        self.lie: Callable[[str, Any], Any] | None = None
        self.seen: list[tuple[str, str]] = []
        self.ended: list[tuple[str, list[str]]] = []
        """Method and paths of each request that was answered or cut off."""
        self._changes = Notice()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        paths = _paths(request)
        self.seen += [(request.method, path) for path in paths]
        try:
            return await self._handle(request, paths)
        finally:
            self.ended.append((request.method, paths))
            self._changes.notify()

    async def _handle(self, request: httpx.Request, paths: list[str]) -> httpx.Response:
        method = request.method
        faults = {self.fault(method, path) for path in paths}
        if self.down or "request" in faults:
            raise httpx.ConnectError("down")
        answer = await super().handle_async_request(request)
        if "answer" in faults:
            raise httpx.ReadError("lost")
        octets = "json" not in answer.headers.get("content-type", "")
        if self.lie is None or octets or answer.status_code >= 300:
            return answer
        found = json.loads(await answer.aread())
        if request.url.path != STEPS:
            return httpx.Response(answer.status_code, json=self.lie(paths[0], found))
        for path, item in zip(paths, found["answers"], strict=True):
            if item["status"] < 300:
                item["body"] = json.dumps(self.lie(path, json.loads(item["body"])))
        return httpx.Response(answer.status_code, json=found)

    def count(self, ending: str) -> int:
        """How many POSTs to paths with this ending were seen."""
        return sum(method == "POST" and path.endswith(ending) for method, path in self.seen)

    async def heard(self, ending: str, since: int | None = None) -> None:
        """Wait until a further POST to a path with this ending was answered or cut off; one after
        the first `since` requests."""
        since = len(self.ended) if since is None else since
        while True:
            ticket = self._changes.ticket()
            if any(
                method == "POST" and any(path.endswith(ending) for path in paths)
                for method, paths in self.ended[since:]
            ):
                return
            await ticket.wait()


class House:
    """One coordinator with its aggregators, and what people and parties do with it."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        federation: Federation,
        wires: list[Wire],
        transports: Mapping[str, httpx.AsyncBaseTransport],
        clock: Clock | None,
    ) -> None:
        self.settings, self.federation, self.wires = settings, federation, wires
        self.transports, self.clock = transports, clock
        self.app: FastAPI
        self.client: httpx.AsyncClient
        self._stack: AsyncExitStack | None = None
        self._answering: set[asyncio.Task[httpx.Response]] = set()

    async def start(self, **changes: Any) -> None:
        """Start the coordinator on its database."""
        stack = AsyncExitStack()
        settings = self.settings.model_copy(update=changes)
        await migrated(settings)
        self.app, self.client = await stack.enter_async_context(self.replica(settings))
        self._stack = stack

    async def stop(self) -> None:
        """Stop the coordinator where it stands. What others asked of it is cut off: it would read
        a database whose files a test may replace."""
        stack, self._stack = self._stack, None
        for request in self._answering:
            request.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)
        if stack is not None:
            await stack.aclose()

    async def answer(self, request: httpx.Request) -> httpx.Response:
        """A request of another service, whichever process the coordinator is now."""
        if self._stack is None:
            raise httpx.ConnectError("nobody is there", request=request)
        transport = httpx.ASGITransport(app=self.app)
        answering = asyncio.create_task(transport.handle_async_request(request))
        self._answering.add(answering)
        answering.add_done_callback(self._answering.discard)
        try:
            return await answering
        except asyncio.CancelledError:
            asking = asyncio.current_task()
            if asking is not None and asking.cancelling():
                raise
            raise httpx.ReadError("it has stopped", request=request) from None

    async def restart(self, **changes: Any) -> None:
        """Drop the coordinator, and start another on the same database."""
        await self.stop()
        await self.start(**changes)

    @asynccontextmanager
    async def replica(
        self, settings: CoordinatorSettings | None = None
    ) -> AsyncIterator[tuple[FastAPI, httpx.AsyncClient]]:
        """A further coordinator process on the same database."""
        app = create_app(
            settings or self.settings, clock=self.clock, transports=in_process(self.transports)
        )
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app=app), base_url="http://house.test"
            ) as client,
        ):
            yield app, client

    async def ask(
        self, method: str, path: str, body: Any = None, token: str = OPERATOR_TOKEN, **more: Any
    ) -> httpx.Response:
        """A request with the operator's token, or another."""
        headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
        if body is not None:
            more["content"] = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        return await self.client.request(method, path, headers=headers, **more)

    async def read(self, path: str, **asked: Any) -> dict[str, Any]:
        """What an operator reads, with these parameters."""
        answer = await self.ask("GET", path, params=asked)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def pair(self) -> House:
        """Register every aggregator with the coordinator, and the reverse."""
        identity = (await self.client.get("/.well-known/tacit-coordinator")).json()
        self.federation.deployment = identity["deployment"]
        for peer in self.federation.peers:
            document = (await peer.client.get("/.well-known/tacit-aggregator")).json()
            body = {
                "deployment": identity["deployment"],
                "identity_key": identity["identity_key"],
            }
            answer = await peer.ask("PUT", "/v1/coordinator", json.dumps(body).encode())
            assert answer.status_code == 200, answer.text
            peer.id, peer.operator = document["id"], document["operator"]
            request = {
                "url": str(peer.client.base_url).rstrip("/"),
                "token": answer.json()["token"],
                "fingerprint": encode_binary(bytes.fromhex(document["fingerprint"])),
            }
            answer = await self.ask("POST", "/v1/aggregators", request)
            assert answer.status_code == 201, answer.text
        return self

    async def enrol(self, sender: Sender) -> Sender:
        """Enrol a party at the coordinator, which gives its number, and at every aggregator."""
        await self.enrolled(sender)
        return sender

    async def enrolled(self, sender: Sender) -> str:
        """The same; the token that the coordinator gives it."""
        answer = await self.send_enrolment(self.enrolment(sender, await self.grant(sender)))
        assert answer.status_code == 201, answer.text
        sender.first = answer.json()["first"]
        await self.federation.enrol(sender)
        token: str = answer.json()["token"]
        return token

    def enrolment(self, sender: Sender, secret: str, **changes: Any) -> Signed[Enrolment]:
        """A party's signed request to the coordinator."""
        values: dict[str, Any] = {
            "service": "tacit",
            "secret": secret,
            "party": sender.id,
            "kind": sender.kind,
            "identity_key": sender.identity.public_key,
            "curators": sender.curators,
        }
        return sender.identity.sign(ENROLMENT_LABEL, Enrolment(**{**values, **changes}))

    async def grant(self, sender: Sender, **changes: Any) -> str:
        """A one-time secret of the coordinator."""
        body = {
            "party": sender.id,
            "kind": sender.kind.value,
            "max_curators": len(sender.curators),
            **changes,
        }
        answer = await self.ask("POST", "/v1/grants", body)
        assert answer.status_code == 201, answer.text
        secret: str = answer.json()["grant"]["secret"]
        return secret

    async def send_enrolment(self, signed: Signed[Enrolment]) -> httpx.Response:
        """Ask the coordinator to enrol."""
        return await self.client.post(
            "/v1/enrolments",
            content=signed.model_dump_json().encode(),
            headers={
                "Content-Type": "application/json",
                GRANT_HEADER: grant_hash(signed.statement.secret),
            },
        )

    async def token(self, scope: str) -> str:
        """A new token of a scope."""
        answer = await self.ask("POST", "/v1/tokens", {"scope": scope})
        assert answer.status_code == 201, answer.text
        token: str = answer.json()["token"]
        return token

    async def host(self, name: str, count: int) -> Sender:
        """An enrolled host."""
        return await self.enrol(
            self.federation.sender(name, [f"{name}.{index}" for index in range(count)])
        )

    async def ask_for(self, asked: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Create a query and open a round of it; what the coordinator says of the round."""
        created = await self.ask("POST", "/v1/queries", asked)
        assert created.status_code in (200, 201), created.text
        body = {"query_id": created.json()["id"], "window": WINDOW, **more}
        answer = await self.ask("POST", "/v1/rounds", body)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def round_of(self, round_id: str) -> Round:
        """A stored round as the double knows it, announced or not."""
        answer = await self.ask("GET", f"/v1/rounds/{round_id}/descriptor")
        signed = Signed[RoundDescriptor].model_validate_json(answer.content)
        await self.federation.fetch_keys(signed.statement.aggregators)
        return Round(self.federation, signed)

    async def open(self, asked: dict[str, Any], **more: Any) -> Round:
        """Create a query, open a round of it, and wait until curators can see it."""
        opened = (await self.ask_for(asked, **more))["id"]
        listed: list[dict[str, Any]] = []
        while not any(item["statement"]["round"] == opened for item in listed):
            shown = (await self.ask("GET", f"/v1/rounds/{opened}")).json()
            assert shown["state"] == "open", shown
            found = await self.ask("GET", "/v1/rounds?state=open&wait_s=5")
            assert found.status_code == 200, found.text
            listed = found.json()["rounds"]
        (shown,) = [item for item in listed if item["statement"]["round"] == opened]
        signed = Signed[RoundDescriptor].model_validate_json(json.dumps(shown))
        await self.federation.fetch_keys(signed.statement.aggregators)
        return Round(self.federation, signed)

    async def finish(self, opened: Round, by: str | None = None) -> dict[str, Any]:
        """Wait until a round is finished, `by` an operator's `close` or `abort` or by itself; what
        the coordinator says of it."""
        if by is not None:
            await self.ask("POST", f"/v1/rounds/{opened.id}/{by}")
        tag = ""
        while True:
            answer = await self.ask(
                "GET", f"/v1/rounds/{opened.id}?wait_s=10", headers={"If-None-Match": tag}
            )
            tag = answer.headers.get("etag", tag)
            if answer.status_code == 304:
                continue
            found: dict[str, Any] = answer.json()
            if found["state"] in ("released", "aborted"):
                return found

    async def released(self, host: Sender, asked: dict[str, Any], **more: Any) -> Round:
        """A round to which all curators of a host contribute, to its end, which must be a sum."""
        opened = await self.open(asked, **more)
        await opened.contribute(host, integers(len(host.curators)))
        finished = await self.finish(opened)
        assert finished["state"] == "released", finished
        return opened

    async def result(self, opened: Round) -> dict[str, Any]:
        """The released result."""
        return await self.read(f"/v1/rounds/{opened.id}/result")


def problem(answer: httpx.Response) -> tuple[int, str]:
    """The status of an answer, and the name of its problem."""
    return answer.status_code, answer.json()["type"].removeprefix("urn:tacit:problem:")


def pointers(answer: httpx.Response) -> list[str]:
    """Which fields a problem blames."""
    return [item["pointer"] for item in answer.json()["errors"]]


def integers(count: int, largest: int = 20_000) -> NDArray[np.int64]:
    """Contributions (count, 1) in ring units."""
    return np.random.default_rng(count).integers(0, largest, (count, 1))
