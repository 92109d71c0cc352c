"""A coordinator that deviates, before real aggregators and real curator services.

It holds every key but the aggregators' and the curators': it signs whatever descriptor it likes,
shows each party what it likes, and asks for the steps of a round in any order (`Federation`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from pydantic import SecretStr
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from aggregator.app import create_app as create_aggregator
from common.bodies import parse_json
from common.runtime.clock import ManualClock
from common.web.dependencies import part_of
from curator.app import create_app as create_curator
from curator.participation.loop import Participation
from curator.participation.noisy_reports import Reporting
from curator.settings import CuratorSettings
from tacit.crypto.signing import Signed
from tacit.protocol.enrolment import Enrolment, Grant, JoinToken, PartyKind
from tacit.protocol.federation import DESCRIPTOR_LABEL as COLLECTION_LABEL
from tacit.protocol.federation import Descriptor as Collection
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL, RoundDescriptor
from tacit.protocol.round.messages import Manifest, RevealRequest
from tacit.query.fields import ALWAYS, Window
from tacit.wire import encode_binary
from tests.aggregator.conftest import settings as aggregator_settings
from tests.aggregator.double import DEPLOYMENT, Federation, Round, manifest_request, query
from tests.built_once import migrated
from tests.in_process import in_process
from tests.rules import RULE

COORDINATOR = "http://coordinator.test"
CURATOR_OPERATOR = "operator-token-of-hosted-curators-0123456789"
Descriptor = Signed[RoundDescriptor]
Deviating = Callable[[int], AbstractAsyncContextManager["Hostile"]]
PLAIN = query(aggregators=3)
SHAMIR = query(sharing="shamir", aggregators=5, threshold=3)
NOISY = query(
    aggregators=3, mechanism="distributed", epsilon="1", collusion={"curators": 0, "aggregators": 2}
)
SHARED_NOISE = query(
    sharing="shamir",
    aggregators=5,
    threshold=3,
    mechanism="distributed",
    epsilon="1",
    collusion={"curators": 0, "aggregators": 2},
)


class Hostile:
    """What the parties take for their coordinator."""

    def __init__(self, federation: Federation, clock: ManualClock) -> None:
        self.federation, self.clock = federation, clock
        self.tokens: dict[str, str] = {}
        self.shown: dict[str, list[Descriptor]] = {}
        self.told: dict[str, dict[str, Any]] = {}
        self.collecting: list[Signed[Collection]] = []
        self.reports: list[dict[str, Any]] = []
        self.transports: dict[str, httpx.AsyncBaseTransport] = {}
        app = Starlette(
            routes=[
                Route("/.well-known/tacit-coordinator", self._who),
                Route("/v1/enrolments", self._enrol, methods=["POST"]),
                Route("/v1/rounds", self._list),
                Route("/v1/rounds/{round}", self._one),
                Route("/v1/jobs", self._collecting),
                Route("/v1/jobs/{job}/reports", self._take_reports, methods=["POST"]),
            ]
        )
        self.transports[COORDINATOR] = httpx.ASGITransport(app=app)

    async def descriptor(self, asked: Any, **changes: Any) -> Descriptor:
        """A descriptor as an honest coordinator would sign it now, with changes."""
        self.federation.now = self.clock.now()
        return await self.federation.descriptor(asked, **changes)

    def collect(self, algorithm: str, encoding: dict[str, Any], **changes: Any) -> None:
        """List a collection of reports, signed, as it likes."""
        now = self.clock.now()
        fields = {
            "deployment": DEPLOYMENT,
            "job": f"job-{len(self.collecting)}",
            "algorithm": algorithm,
            "stance": "sound",
            "window": ALWAYS,
            "min_participants": 2,
            "n_max": 100,
            "opened": now,
            "deadline": now + timedelta(hours=1),
            "encoding": encoding,
            "parameters": "{}",
        }
        descriptor = Collection(**{**fields, **changes})
        self.collecting.append(self.federation.identity.sign(COLLECTION_LABEL, descriptor))

    async def announce(self, signed: Descriptor) -> Round:
        """Have every aggregator open a round, without relaying anybody's noise."""
        for peer in self.federation.peers:
            answer = await peer.coordinate("POST", "/v1/rounds", signed)
            assert answer.status_code == 201, answer.text
        return Round(self.federation, signed)

    def show(self, party: str, *signed: Descriptor) -> None:
        """What a party sees as the open rounds."""
        self.shown[party] = list(signed)

    async def join_token(self, party: str) -> str:
        """A join token with the aggregators' own grants: out of band, beyond this one's reach."""
        kind = {"party": party, "kind": "curator", "max_curators": 1}
        grants = []
        for peer in self.federation.peers:
            answer = await peer.ask("POST", "/v1/grants", kind)
            grants.append(Grant.model_validate_json(json.dumps(answer.json()["grant"])))
        own = Grant(
            party=DEPLOYMENT,
            url=COORDINATOR,
            fingerprint=self.federation.identity.fingerprint,
            secret=secrets.token_urlsafe(32),
        )
        return JoinToken(
            party=party,
            kind=PartyKind.CURATOR,
            max_curators=1,
            coordinator=own,
            aggregators=tuple(grants),
            expires=self.clock.now() + timedelta(days=1),
        ).to_text()

    async def _who(self, _: Request) -> Response:
        key = encode_binary(self.federation.identity.public_key)
        return JSONResponse({"deployment": DEPLOYMENT, "identity_key": key})

    async def _enrol(self, request: Request) -> Response:
        body = parse_json(await request.body(), Signed[Enrolment]).statement
        token = secrets.token_urlsafe(32)
        self.tokens[token] = body.party
        first = self.federation.next_number
        self.federation.next_number += len(body.curators)
        answer = {"party": body.party, "first": first, "curators": 1, "token": token}
        return JSONResponse(answer, 201)

    def _party(self, request: Request) -> str:
        return self.tokens[request.headers["authorization"].removeprefix("Bearer ")]

    async def _list(self, request: Request) -> Response:
        rounds = self.shown.get(self._party(request), [])
        content = {"rounds": [item.model_dump(mode="json") for item in rounds]}
        return Response(to_json(content), media_type="application/json")

    async def _collecting(self, _: Request) -> Response:
        content = {
            "jobs": [{"descriptor": item.model_dump(mode="json")} for item in self.collecting]
        }
        return Response(to_json(content), media_type="application/json")

    async def _take_reports(self, request: Request) -> Response:
        found = json.loads(await request.body())["reports"]
        self.reports += found
        return JSONResponse({"reports": [{"status": 201} for _ in found]})

    async def _one(self, request: Request) -> Response:
        nothing: dict[str, Any] = {"state": "open", "aborts": []}
        return JSONResponse(self.told.get(request.path_params["round"], nothing))


class Home:
    """A real curator service of one party."""

    def __init__(self, party: str, app: FastAPI, client: httpx.AsyncClient) -> None:
        self.party, self.app, self.client = party, app, client

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """A request of its operator."""
        answer = await self.client.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def read(self, value: str, time: str) -> None:
        """Store one reading."""
        item = {"curator": self.party, "time": time, "value": value, "unit": "kWh"}
        answer = await self.ask("POST", "/v1/readings", [item])
        assert answer["items"][0]["status"] == "accepted", answer

    async def take_part(self) -> None:
        """One turn of its loop: discover, contribute, deliver."""
        assert await part_of(self.app, Participation).discover(COORDINATOR)
        await part_of(self.app, Participation).contribute_due()
        await part_of(self.app, Participation).tell_refusals()

    async def report(self) -> None:
        """One turn of its loop: discover collections, decide, send."""
        participation = part_of(self.app, Participation)
        assert await participation.discover_collections(COORDINATOR)
        await part_of(self.app, Reporting).turn()

    async def history(self) -> list[dict[str, Any]]:
        """Its contributions, oldest first."""
        answer = await self.ask("GET", f"/v1/curators/{self.party}/contributions")
        found: list[dict[str, Any]] = answer["contributions"]
        return found[::-1]

    async def ledger(self) -> dict[str, Any]:
        """The owner's statement."""
        found: dict[str, Any] = await self.ask("GET", f"/v1/curators/{self.party}/budget")
        return found

    async def debits(self) -> list[dict[str, Any]]:
        """The rows of its own ledger."""
        found: list[dict[str, Any]] = (await self.ledger())["units"]["curator"]["debits"]
        return found

    async def agree(self, **policy: Any) -> None:
        """Replace its policy."""
        await self.ask("PUT", "/v1/policy", policy)


@asynccontextmanager
async def hostile(folder: Path, clock: ManualClock, aggregators: int) -> AsyncIterator[Hostile]:
    """Real aggregators, paired with a coordinator that deviates."""
    async with AsyncExitStack() as stack:
        clients, transports = [], {}
        for index in range(aggregators):
            address = f"http://aggregator-{index}.test"
            own = aggregator_settings(index, folder, public_url=address)
            await migrated(own)
            app = create_aggregator(own, clock=clock)
            await stack.enter_async_context(app.router.lifespan_context(app))
            transports[address] = httpx.ASGITransport(app=app)
            client = httpx.AsyncClient(transport=transports[address], base_url=address)
            clients.append(await stack.enter_async_context(client))
        it = Hostile(await Federation(*clients, now=clock.now()).pair(), clock)
        it.transports.update(transports)
        yield it


@asynccontextmanager
async def home(
    party: str,
    folder: Path,
    clock: ManualClock,
    transports: Mapping[str, httpx.AsyncBaseTransport],
    token: str,
) -> AsyncIterator[Home]:
    """A curator service that has enrolled one lone curator."""
    settings = CuratorSettings(
        data_dir=folder / party,
        operator_token=SecretStr(CURATOR_OPERATOR),
        participate=False,
        send_window_share=0,
        retry_s=0.01,
        deliver_grace_s=0,
        settle_after_s=0,
        policy_epsilon="10",
    )
    await migrated(settings)
    app = create_curator(settings, clock=clock, transports=in_process(transports))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app),
            base_url="http://curator.test",
            headers={"Authorization": f"Bearer {CURATOR_OPERATOR}"},
        ) as client,
    ):
        it = Home(party, app, client)
        await it.ask("PUT", "/v1/policy", {"allow_unverified": True, "exact": RULE})
        await it.ask("POST", "/v1/enrolments", {"token": token})
        yield it


# --- what a deviating coordinator asks for -------------------------------------------------------


def problem(answer: httpx.Response) -> tuple[int, str]:
    """The status of an answer, and the name of its problem."""
    return answer.status_code, answer.json()["type"].removeprefix("urn:tacit:problem:")


def resigned(it: Hostile, signed: Descriptor, **changes: Any) -> Descriptor:
    """Another descriptor for the same round."""
    other = signed.statement.model_copy(update=changes)
    return it.federation.identity.sign(DESCRIPTOR_LABEL, other)


def moved(signed: Descriptor) -> Window:
    """A longer window than the descriptor's."""
    window = signed.statement.window
    return Window(start=window.start - timedelta(hours=1), end=window.end)


async def commit(opened: Round, index: int, manifest: Manifest, accepted: Any) -> httpx.Response:
    """Ask one aggregator to commit to a manifest."""
    request = manifest_request(manifest, accepted)
    peer = opened.federation.peers[index]
    return await peer.coordinate("POST", opened.path("commitment"), request)


async def reveal(opened: Round, index: int, commitments: Any) -> httpx.Response:
    """Ask one aggregator for its partial sum."""
    request = RevealRequest(commitments=tuple(commitments))
    return await opened.federation.peers[index].coordinate("POST", opened.path("reveal"), request)


async def state(opened: Round, index: int) -> str:
    """Where one aggregator stands."""
    found = await opened.federation.peers[index].ask("GET", opened.path())
    text: str = found.json()["state"]
    return text
