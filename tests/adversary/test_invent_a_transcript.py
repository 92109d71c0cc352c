"""The attacker is the coordinator, or stands in its place, and wants a false sum believed.

It signs descriptors, so it can invent aggregators and sign everything in their names; and it
publishes how many took part. The verifier is a person with the client, a trust file that came with
the join token, and nothing else.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import tacit
from tacit.crypto.sealing import segment_size
from tacit.crypto.signing import Identity
from tacit.protocol.round.agreement import manifest_hash_of, members_hash
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL, AggregatorEntry, RoundDescriptor
from tacit.protocol.round.messages import COMMITMENT_LABEL, Commitment, Reveal, Transcript
from tacit.protocol.round.opening import TranscriptNotBound, commitment_hash
from tacit.protocol.trust import Pinned, TranscriptNotAnchored, Trust, TrustedAggregator
from tacit.query.fields import Window
from tacit.query.functions import decode, dimension
from tacit.wire import encode_binary
from tests.aggregator.double import query
from tests.coordinator.conftest import Houses
from tests.coordinator.double import OPERATOR_TOKEN, integers
from tests.coordinator.double import query as query_json
from tests.seal_keys import seal_key

ROUND = "01928374-5566-7788-99aa-bbccddeeff00"
INVENTED = [Identity.generate() for _ in range(3)]
FALSE_SUM = 123_456


class Impostor:
    """A coordinator that serves one transcript, true or not, as the client asks for it."""

    def __init__(self, identity: Identity, transcript: Transcript) -> None:
        self.identity, self.transcript = identity, transcript
        self.app = Starlette(
            routes=[
                Route("/.well-known/tacit-coordinator", self._who),
                Route("/v1/rounds/{round}/transcript", self._transcript),
                Route("/v1/rounds/{round}/result", self._result),
                Route("/v1/rounds/{round}/seals", self._seals),
            ]
        )

    def client(self) -> tacit.AsyncClient:
        return tacit.AsyncClient("http://it.test", transport=httpx.ASGITransport(app=self.app))

    async def _who(self, _: Request) -> Response:
        key, shown = encode_binary(self.identity.public_key), self.identity.fingerprint.hex()
        return JSONResponse({"deployment": "test", "identity_key": key, "fingerprint": shown})

    async def _transcript(self, _: Request) -> Response:
        return Response(self.transcript.model_dump_json(), media_type="application/json")

    async def _seals(self, _: Request) -> Response:
        return JSONResponse({"seals": []})

    async def _result(self, _: Request) -> Response:
        asked = self.transcript.descriptor.statement.query
        return JSONResponse({"result": decode(asked, np.array([FALSE_SUM]))})


def entry(index: int) -> AggregatorEntry:
    identity = INVENTED[index]
    return AggregatorEntry(
        id=f"aggregator-{index}",
        operator=f"operator-{index}",
        url="http://nowhere.test",
        identity_key=identity.public_key,
        seal_key=seal_key(identity, f"aggregator-{index}", 9 + index),
    )


def invention(coordinator: Identity, participants: int = 999) -> Transcript:
    """A transcript of a round that never was: every signature in it is valid."""
    now = Window.model_validate_json(
        '{"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T01:00:00Z"}'
    )
    asked = query(aggregators=3)
    descriptor = RoundDescriptor(
        deployment="test",
        round=ROUND,
        query_id="q",
        query=asked,
        window=now,
        opened=now.end,
        deadline=now.end + timedelta(minutes=5),
        aggregators=tuple(entry(index) for index in range(3)),
        roster_version=1,
        roster_size=participants,
        segment_size=segment_size(dimension(asked)),
    )
    digest, shown = descriptor.digest(), members_hash(bytes(32), b"nobody")
    manifest = manifest_hash_of(ROUND, digest, (0, 1, 2), participants, (), shown)
    partials = [FALSE_SUM.to_bytes(8, "little"), bytes(8), bytes(8)]
    commitments, reveals = [], []
    for index, partial in enumerate(partials):
        name, nonce = f"aggregator-{index}", bytes(32)
        bound = commitment_hash(digest, manifest, name, nonce, partial)
        statement = Commitment(
            round=ROUND,
            descriptor_hash=digest,
            manifest_hash=manifest,
            aggregator=name,
            hash=bound,
        )
        commitments.append(INVENTED[index].sign(COMMITMENT_LABEL, statement))
        reveals.append(Reveal(aggregator=name, nonce=nonce, partial=partial))
    return Transcript(
        descriptor=coordinator.sign(DESCRIPTOR_LABEL, descriptor),
        members_hash=shown,
        quorum=(0, 1, 2),
        participants=participants,
        contributions=(),
        commitments=tuple(commitments),
        reveals=tuple(reveals),
    )


def true_trust(coordinator: Identity) -> Trust:
    """What the verifier was told out of band: the real aggregators, which took no part."""
    real = [Identity.generate() for _ in range(3)]
    return Trust(
        deployment="test",
        coordinator=(coordinator.fingerprint.hex(),),
        aggregators=tuple(
            TrustedAggregator(
                id=f"aggregator-{index}",
                fingerprints=(Pinned(fingerprint=identity.fingerprint.hex()),),
            )
            for index, identity in enumerate(real)
        ),
    )


async def test_invented_aggregators_are_not_those_of_the_trust_file() -> None:
    coordinator = Identity.generate()
    async with Impostor(coordinator, invention(coordinator)).client() as client:
        with pytest.raises(TranscriptNotAnchored):
            await client.rounds.verify(ROUND, trust=true_trust(coordinator))


async def test_without_a_trust_file_the_invention_is_in_order_and_not_anchored() -> None:
    """The control: every signature holds, so only what is pinned can tell."""
    coordinator = Identity.generate()
    async with Impostor(coordinator, invention(coordinator)).client() as client:
        checked = await client.rounds.verify(ROUND)
    assert checked["matches"]
    assert checked["participants"] == 999
    assert checked["anchored"] is False


async def test_another_coordinator_is_not_the_pinned_one() -> None:
    coordinator = Identity.generate()
    async with Impostor(coordinator, invention(coordinator)).client() as client:
        with pytest.raises(TranscriptNotAnchored, match="coordinator"):
            await client.rounds.verify(ROUND, trust=true_trust(Identity.generate()))


# --- a true round, with other figures ------------------------------------------------------------


class Tampering(httpx.ASGITransport):
    """A real coordinator, but for what it changes in its transcripts."""

    def __init__(self, app: Any, changes: dict[str, Any]) -> None:
        super().__init__(app=app)
        self.changes = changes

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await super().handle_async_request(request)
        if not request.url.path.endswith("/transcript"):
            return answer
        document = json.loads(await answer.aread())
        return httpx.Response(200, json={**document, **self.changes})


CHANGED: dict[str, dict[str, Any]] = {
    "fewer": {"participants": 7},
    "one more": {"participants": 17},
    "others": {"members_hash": encode_binary(bytes(32))},
}


async def test_a_changed_figure_is_not_what_the_aggregators_committed_to(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 16)
        opened = await it.open(query_json())
        await opened.contribute(host, integers(16))
        assert (await it.finish(opened))["state"] == "released"

        def client(changes: dict[str, Any]) -> tacit.AsyncClient:
            wire = Tampering(it.app, changes)
            return tacit.AsyncClient("http://it.test", OPERATOR_TOKEN, transport=wire)

        async with client({}) as honest:
            checked = await honest.rounds.verify(opened.id)
            assert checked["participants"] == 16
        for changes in CHANGED.values():
            async with client(changes) as lying:
                with pytest.raises(TranscriptNotBound):
                    await lying.rounds.verify(opened.id)
