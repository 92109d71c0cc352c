"""Curators and operators around a real coordinator and real aggregators, all over ASGI."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from common.models.base import encode_binary
from common.models.enrolment import ENROLMENT_LABEL, Enrolment
from common.models.round import RoundDescriptor
from common.signing import Signed
from tests.aggregator.double import Federation, Round, Sender

OPERATOR_TOKEN = "coordinator-operator-token-0123456789abcdef"
WINDOW = {"start": "2025-12-31T23:00:00Z", "end": "2026-01-01T00:00:00Z"}


def query(**changes: Any) -> dict[str, Any]:
    """A small query of mechanism `exact`, as JSON, with changes."""
    base: dict[str, Any] = {
        "name": "test",
        "function": "sum",
        "unit": "kWh",
        "bounds": ["0", "5"],
        "max_readings": 4,
        "resolution": "0.001",
        "mechanism": "exact",
        "sharing": "additive",
        "aggregators": 3,
        "n_max": 100000,
        "deadline_s": 300,
    }
    return {**base, **changes}


class House:
    """One coordinator with its aggregators, and what people and parties do with it."""

    def __init__(self, client: httpx.AsyncClient, federation: Federation) -> None:
        self.client = client
        self.federation = federation

    async def ask(
        self, method: str, path: str, body: Any = None, token: str = OPERATOR_TOKEN, **more: Any
    ) -> httpx.Response:
        """A request with the operator's token, or another."""
        headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
        if body is not None:
            more["content"] = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        return await self.client.request(method, path, headers=headers, **more)

    async def pair(self) -> House:
        """Register every aggregator with the coordinator, and the reverse."""
        identity = (await self.client.get("/.well-known/tacit-coordinator")).json()
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
        grant = {
            "party": sender.id,
            "kind": sender.kind.value,
            "max_curators": len(sender.curators),
        }
        secret = (await self.ask("POST", "/v1/grants", grant)).json()["grant"]["secret"]
        answer = await self.client.post(
            "/v1/enrolments",
            content=self.enrolment(sender, secret).model_dump_json().encode(),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code == 201, answer.text
        sender.first = answer.json()["first"]
        return await self.federation.enrol(sender)

    def enrolment(self, sender: Sender, secret: str, **changes: Any) -> Signed[Enrolment]:
        """A party's signed request to the coordinator."""
        key = sender.epoch_key()
        values: dict[str, Any] = {
            "service": "tacit",
            "secret": secret,
            "party": sender.id,
            "kind": sender.kind,
            "identity_key": sender.identity.public_key,
            "epoch_key": key.statement,
            "epoch_key_signature": key.signature,
            "curators": sender.curators,
        }
        return sender.identity.sign(ENROLMENT_LABEL, Enrolment(**{**values, **changes}))

    async def host(self, name: str, count: int) -> Sender:
        """An enrolled host."""
        return await self.enrol(
            self.federation.sender(name, [f"{name}.{index}" for index in range(count)])
        )

    async def open(self, asked: dict[str, Any]) -> Round:
        """Create a query, open a round of it, and wait until curators can see it."""
        created = await self.ask("POST", "/v1/queries", asked)
        assert created.status_code in (200, 201), created.text
        body = {"query_id": created.json()["id"], "window": WINDOW}
        answer = await self.ask("POST", "/v1/rounds", body)
        assert answer.status_code == 201, answer.text
        listed: list[dict[str, Any]] = []
        while not any(item["statement"]["round"] == answer.json()["id"] for item in listed):
            found = await self.ask("GET", "/v1/rounds?state=open&wait_s=5")
            assert found.status_code == 200, found.text
            listed = found.json()["rounds"]
        (shown,) = [item for item in listed if item["statement"]["round"] == answer.json()["id"]]
        signed = Signed[RoundDescriptor].model_validate_json(json.dumps(shown))
        return Round(self.federation, signed)

    async def finish(self, opened: Round) -> dict[str, Any]:
        """Wait until a round is finished; what the coordinator says of it."""
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

    async def result(self, opened: Round) -> dict[str, Any]:
        """The released result."""
        answer = await self.ask("GET", f"/v1/rounds/{opened.id}/result")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


def integers(count: int, largest: int = 20_000) -> NDArray[np.int64]:
    """Contributions (count, 1) in ring units."""
    return np.random.default_rng(count).integers(0, largest, (count, 1))
