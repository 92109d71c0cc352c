"""How the coordinator speaks to aggregators: one method per step of a round, models in and out."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from common.models.base import WireModel
from common.models.enrolment import EpochKey
from common.models.round import (
    AbortRequest,
    AbortStatement,
    AcceptedSet,
    Commitment,
    Contribution,
    ManifestRequest,
    Piece,
    Reveal,
    RevealRequest,
    RoundDescriptor,
)
from common.service.client import service_client
from common.service.problems import raise_for_problem
from common.signing import Signed
from coordinator.errors import AggregatorUnreachable
from coordinator.store import AggregatorRow

Model = TypeVar("Model", bound=BaseModel)


class Opening(WireModel):
    """An aggregator's answer to a round descriptor."""

    round: str
    descriptor_hash: str
    contribution: Contribution | None = None


class RelayedPiece(WireModel):
    """A noise contribution's piece for one aggregator, as the coordinator passes it on."""

    aggregator: str
    piece: Piece


class Progress(WireModel):
    """What an aggregator tells of a round: its state, and how many curators it accepted."""

    round: str
    state: str
    accepted: int


class Peer:
    """One aggregator, over HTTP. Answers are validated; what is no answer is unreachable."""

    def __init__(self, row: AggregatorRow, client: httpx.AsyncClient) -> None:
        self.id = row.id
        self.row = row
        self._client = client

    async def epoch_key(self) -> Signed[EpochKey]:
        """The current epoch key, signed; the caller verifies it."""
        return await self._ask("GET", "/v1/keys/current", Signed[EpochKey])

    async def open(self, descriptor: Signed[RoundDescriptor]) -> Opening:
        """Announce a round; the answer may hold the aggregator's noise contribution."""
        return await self._ask("POST", "/v1/rounds", Opening, descriptor)

    async def relay(self, round_id: str, pieces: list[RelayedPiece]) -> None:
        """Pass on other aggregators' noise contributions."""
        body = b"[" + b",".join(piece.model_dump_json().encode() for piece in pieces) + b"]"
        await self._send("POST", f"/v1/rounds/{round_id}/contributions", body)

    async def progress(self, round_id: str) -> Progress:
        """Where the aggregator stands."""
        answer = await self._send("GET", f"/v1/rounds/{round_id}")
        body = answer.json()
        return Progress(
            round=round_id, state=str(body["state"]), accepted=int(body.get("accepted", 0))
        )

    async def freeze(self, round_id: str) -> Signed[AcceptedSet]:
        """Close the round to pieces; the signed set of what is in."""
        return await self._ask("POST", f"/v1/rounds/{round_id}/freeze", Signed[AcceptedSet])

    async def commit(self, round_id: str, request: ManifestRequest) -> Signed[Commitment]:
        """Have the manifest summed and committed to."""
        path = f"/v1/rounds/{round_id}/commitment"
        return await self._ask("POST", path, Signed[Commitment], request)

    async def reveal(self, round_id: str, request: RevealRequest) -> Reveal:
        """The partial sum, after everybody's commitments."""
        return await self._ask("POST", f"/v1/rounds/{round_id}/reveal", Reveal, request)

    async def abort(self, round_id: str, reason: str) -> Signed[AbortStatement]:
        """The aggregator's signed word that the round is over without a sum."""
        path = f"/v1/rounds/{round_id}/abort"
        return await self._ask("POST", path, Signed[AbortStatement], AbortRequest(reason=reason))

    async def _ask(
        self, method: str, path: str, model: type[Model], body: BaseModel | None = None
    ) -> Model:
        content = None if body is None else body.model_dump_json().encode()
        answer = await self._send(method, path, content)
        try:
            return model.model_validate_json(answer.content)
        except ValidationError:
            raise AggregatorUnreachable(f"{self.id} gives answers of another form") from None

    async def _send(self, method: str, path: str, content: bytes | None = None) -> httpx.Response:
        headers = {"Content-Type": "application/json"} if content is not None else None
        try:
            answer = await self._client.request(method, path, content=content, headers=headers)
        except httpx.TransportError:
            raise AggregatorUnreachable(f"{self.id} does not answer") from None
        raise_for_problem(answer)
        return answer


class Peers:
    """Clients of the aggregators, one for each address and token."""

    def __init__(
        self, timeout_s: float, transports: Mapping[str, httpx.AsyncBaseTransport] | None = None
    ) -> None:
        self._timeout_s = timeout_s
        self._transports = dict(transports or {})
        self._clients: dict[tuple[str, str], httpx.AsyncClient] = {}

    def of(self, row: AggregatorRow) -> Peer:
        """The aggregator of a registry row."""
        key = (row.url, row.token)
        if key not in self._clients:
            self._clients[key] = service_client(
                row.url,
                row.token,
                timeout_s=self._timeout_s,
                transport=self._transports.get(row.url),
            )
        return Peer(row, self._clients[key])

    async def identity(self, url: str) -> dict[str, Any]:
        """What an aggregator says of itself at its well-known address."""
        transport = self._transports.get(url)
        async with service_client(url, timeout_s=self._timeout_s, transport=transport) as client:
            try:
                answer = await client.get("/.well-known/tacit-aggregator")
            except httpx.TransportError:
                raise AggregatorUnreachable(f"nothing answers at {url}") from None
            raise_for_problem(answer)
            document: dict[str, Any] = answer.json()
            return document

    async def aclose(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(client.aclose() for client in self._clients.values()))
