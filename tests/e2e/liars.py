"""A curator service whose seven lone curators and host lie in proved rounds, each in its own way.

It is the product's service but for what it seals: honest measurements are replaced, or what is made
of them. It enrols as any other, so its lies pass everything but the proof.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from pydantic import SecretStr

import curator.engine
from cli.services.deployment import join_token
from curator.app import create_app
from curator.settings import CuratorSettings
from tacit.protocol.enrolment import PartyKind
from tacit.protocol.round import pieces as proved_pieces
from tacit.query.proofs import ContributionProof
from tacit.randomness import NoiseSource
from tacit.validity.field import Elements, Field, Rows
from tests.e2e.world import World
from tests.rules import RULE

Plaintexts = tuple[Rows, ...]
OPERATOR = "operator-token-of-a-service-of-liars-0123456789"
SETTINGS: dict[str, Any] = {
    "send_window_share": 0.0,
    "prepare_lead_s": 0.0,
    "retry_s": 0.3,
    "settle_after_s": 0.5,
}


def _first_element(value: int) -> Callable[[Field, Elements], None]:
    def lie(field: Field, measurement: Elements) -> None:
        measurement[:, 0, :] = field.elements([value])

    return lie


def _flipped(index: int, at: Callable[[ContributionProof], int]) -> Callable[..., None]:
    def lie(proof: ContributionProof, plaintexts: Plaintexts) -> None:
        plaintexts[index][:, at(proof)] ^= 1

    return lie


def _input_share(proof: ContributionProof) -> int:
    return 16 + proof.prio3.public_share_bytes


MEASUREMENTS: Mapping[str, Callable[[Field, Elements], None]] = {
    "an element that is no bit": _first_element(2),
    "a large amount in one element": _first_element(10**6),
    "a negative element": _first_element(-1),
}
PLAINTEXTS: Mapping[str, Callable[[ContributionProof, Plaintexts], None]] = {
    "a share of something else": _flipped(0, _input_share),
    "a seed of something else": _flipped(1, _input_share),
    "a seed of something else for another aggregator": _flipped(4, _input_share),
    "another nonce for one aggregator": _flipped(3, lambda _: 0),
}
OTHER_ROUND = "the proof of another round"
LIES = (*MEASUREMENTS, *PLAINTEXTS, OTHER_ROUND)
LONE = tuple(f"liar-{place}" for place in range(len(LIES) - 1))
HOST = "den"
HOSTED = tuple(f"{HOST}-{place}" for place in range(3))


class Lying:
    """Stands in for `proved_pieces.split`: each contribution is the next lie."""

    def __init__(self) -> None:
        self._lies: Iterator[str] = cycle(LIES)

    def split(
        self,
        proof: ContributionProof,
        descriptor_hash: bytes,
        values: NDArray[np.int64],
        noise: NDArray[np.int64] | None,
        source: NoiseSource,
    ) -> Plaintexts:
        """One lie for each row."""
        rows = []
        for place in range(len(values)):
            own = None if noise is None else noise[place : place + 1]
            lie = next(self._lies)
            rows.append(lied(lie, proof, descriptor_hash, values[place : place + 1], own, source))
        return tuple(np.concatenate(each) for each in zip(*rows, strict=True))


def lied(
    lie: str,
    proof: ContributionProof,
    descriptor_hash: bytes,
    values: NDArray[np.int64],
    noise: NDArray[np.int64] | None,
    source: NoiseSource,
) -> Plaintexts:
    """Plaintexts (B, length) for each aggregator, one lie of this kind for each row of values."""
    drawn = None if noise is None else proved_pieces.clamped(proof, noise)
    measurement = proof.function.encode(values, drawn).copy()
    if lie in MEASUREMENTS:
        MEASUREMENTS[lie](proof.prio3.circuit.field, measurement)
    if lie == OTHER_ROUND:
        descriptor_hash = bytes(32)
    context = proved_pieces.proof_context(descriptor_hash)
    nonces, randomness = proof.prio3.draw_randomness(source, len(values))
    found = proved_pieces.pack(nonces, proof.prio3.shard(context, measurement, nonces, randomness))
    plaintexts = tuple(rows.copy() for rows in found)
    if lie in PLAINTEXTS:
        PLAINTEXTS[lie](proof, plaintexts)
    return plaintexts


class Liars:
    """The service's operator."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client, self.names = client, (*LONE, *HOSTED)

    async def settled(self, name: str, round_id: str) -> dict[str, Any]:
        """What a liar reads of its contribution to a round, once it knows how the round ended."""
        async with asyncio.timeout(60):
            while True:
                answer = await self._client.get(f"/v1/curators/{name}/contributions")
                for item in answer.json()["contributions"]:
                    if item["round"] == round_id and item["outcome"] is not None:
                        found: dict[str, Any] = item
                        return found
                await asyncio.sleep(0.2)


@asynccontextmanager
async def liars(directory: Path, world: World) -> AsyncIterator[Liars]:
    """Seven lone liars and a host of three, enrolled; in this process, whose curators all lie as
    long as it runs."""
    honest = proved_pieces.split
    curator.engine.proved_pieces.split = Lying().split  # type: ignore[attr-defined]
    given: dict[str, Any] = {
        "data_dir": directory,
        "operator_token": SecretStr(OPERATOR),
        **SETTINGS,
    }
    app = create_app(CuratorSettings(**given))
    transport = httpx.ASGITransport(app=app)
    headers = {"Authorization": f"Bearer {OPERATOR}"}
    try:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=transport, base_url="http://liars.test", headers=headers
            ) as client,
        ):
            policy = {"min_participants": 1, "allow_repeats": True, "exact": RULE}
            assert (await client.put("/v1/policy", json=policy)).status_code == 200
            for name in (*LONE, HOST):
                hosted = list(HOSTED) if name == HOST else None
                kind = PartyKind.CURATOR if hosted is None else PartyKind.HOST
                count = 1 if hosted is None else len(hosted)
                token = await world.call(join_token, world.public, name, kind, count, 3600)
                body = {"token": token.to_text(), "curators": hosted}
                answer = await client.post("/v1/enrolments", json=body)
                assert answer.status_code == 201, answer.text
            yield Liars(client)
    finally:
        curator.engine.proved_pieces.split = honest  # type: ignore[attr-defined]
