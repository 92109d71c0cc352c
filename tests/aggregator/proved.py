"""Proved rounds, driven from the outside: contributions that hold, lies of every kind, and the
coordinator's steps one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from tacit import sets
from tacit.crypto.sealing import PartHeader, Span, seal_part, spans
from tacit.crypto.signing import Signed
from tacit.protocol.enrolment import PartyKind
from tacit.protocol.proved_rounds import candidates_of, check_verdicts, proved_manifest_of
from tacit.protocol.round.agreement import manifest_hash
from tacit.protocol.round.messages import (
    AcceptedSet,
    Commitment,
    Manifest,
    ManifestRequest,
    RelayedKeyShares,
    SealedKeyShare,
    Verdict,
    VerdictRequest,
    Verification,
    VerificationRequest,
    Verified,
)
from tacit.protocol.round.opening import open_sum
from tacit.protocol.round.pieces import Piece, pack, piece_context, proof_context
from tacit.query.proofs import proof_plan
from tacit.query.query import Query
from tacit.validity.field import Elements
from tests.aggregator.double import SALT, Federation, Peer, Round, Sender, manifest_request, query

OCTETS = "application/octet-stream"
Lie = Callable[[list[bytearray]], None]
"""Changes the plaintexts of one contribution, one per aggregator, before they are sealed."""


def proved(**changes: Any) -> Query:
    """A small proved query, with changes; readings in [0, 10], two of them at most."""
    base: dict[str, Any] = {
        "validity": "proved",
        "aggregators": 3,
        "mechanism": "exact",
        "bounds": ["0", "10"],
        "resolution": "1",
        "max_readings": 2,
        "n_max": 10_000,
    }
    return query(**{**base, **changes})


@dataclass
class ProvedRound(Round):
    """A proved round whose verify key is fixed, seen from the outside."""

    openings: list[dict[str, Any]] = field(default_factory=list)

    # --- keys ---

    def key_shares(self, index: int) -> RelayedKeyShares:
        """The shares of all others for one aggregator."""
        name = self.federation.peers[index].id
        shares = [share for answer in self.openings for share in answer["key_shares"]]
        return RelayedKeyShares(
            shares=tuple(
                SealedKeyShare.model_validate_json(json.dumps(share))
                for share in shares
                if share["receiver"] == name
            )
        )

    async def relay_keys(self, index: int) -> httpx.Response:
        """Give an aggregator the others' shares of the key."""
        peer = self.federation.peers[index]
        return await peer.coordinate("POST", self.path("verification-keys"), self.key_shares(index))

    # --- contributions ---

    def plaintexts(
        self, coordinates: NDArray[np.int64], curators: int = 1, context: bytes | None = None
    ) -> list[bytearray]:
        """An honest contribution (d,) of a lone curator or a part, one text per aggregator."""
        proof = proof_plan(self.descriptor.query).of(curators)
        measurement: Elements = proof.function.encode(coordinates[np.newaxis], self.noise(curators))
        return self.shared(measurement, curators, context)

    def noise(self, curators: int) -> NDArray[np.int64] | None:
        """Zeros, where curators draw noise."""
        bounds = proof_plan(self.descriptor.query).of(curators).function.noise_bounds
        return np.zeros((1, len(bounds)), np.int64) if bounds else None

    def shared(
        self, measurement: Elements, curators: int = 1, context: bytes | None = None
    ) -> list[bytearray]:
        """Whatever measurement, with the proof that the engine makes of it."""
        prio3 = proof_plan(self.descriptor.query).of(curators).prio3
        nonces, randomness = prio3.draw_randomness(self.federation.random, 1)
        bound = context or proof_context(self.descriptor.digest())
        made = prio3.shard(bound, measurement, nonces, randomness)
        return [bytearray(rows[0].tobytes()) for rows in pack(nonces, made)]

    def proved_piece(self, sender: Sender, index: int, plain: bytes) -> Piece:
        """A lone curator's sealed share."""
        entry = self.descriptor.aggregators[index]
        place = piece_context(self.descriptor.digest(), sender.id, entry.id, index, len(plain))
        return self.sealed(sender, index, plain, place)

    async def prove(
        self, sender: Sender, coordinates: NDArray[np.int64], lie: Lie | None = None
    ) -> None:
        """A lone curator's contribution (d,) to every aggregator, with a lie or without."""
        plain = self.plaintexts(coordinates)
        if lie is not None:
            lie(plain)
        await self.deliver(sender, plain)

    async def deliver(self, sender: Sender, plain: Sequence[bytes | bytearray]) -> None:
        """Seal and send these plaintexts."""
        for index, content in enumerate(plain):
            answer = await self.send(
                sender, index, self.proved_piece(sender, index, bytes(content))
            )
            assert answer.status_code == 201, answer.text

    def part(
        self,
        host: Sender,
        index: int,
        plain: bytes,
        present: NDArray[np.bool_] | None = None,
        segment: int = 0,
        part: int = 0,
        span: Span | None = None,
    ) -> bytes:
        """A host's sealed part for one aggregator: of its span number `segment`, or of `span`."""
        run = spans(host.first, len(host.curators), self.descriptor.segment_size)
        span = span or run[segment]
        chosen = np.ones(span.length, np.bool_) if present is None else present
        own = self.federation.session(host, index, self.descriptor.aggregators[index])
        header = PartHeader(
            host.id,
            self.descriptor.digest(),
            index,
            part,
            span,
            len(plain),
            own.id,
            sets.pack(chosen),
        )
        return seal_part(own.key, header, plain)

    async def prove_parts(self, host: Sender, values: NDArray[np.int64]) -> None:
        """All parts of a host: the totals of its curators' values (n, d)."""
        assert host.kind is PartyKind.HOST
        run = spans(host.first, len(host.curators), self.descriptor.segment_size)
        for place, span in enumerate(run):
            start = span.first - host.first
            total = values[start : start + span.length].sum(axis=0)
            for index, plain in enumerate(self.plaintexts(total, span.length)):
                body = self.part(host, index, bytes(plain), segment=place)
                answer = await self.send_batch(host, index, body)
                assert answer.status_code == 201, answer.text

    # --- the coordinator's steps ---

    async def verify(self, accepted: Sequence[Signed[AcceptedSet]]) -> list[Signed[Verification]]:
        """Have every aggregator verify."""
        request = VerificationRequest(accepted=tuple(accepted))
        found = []
        for peer in self.federation.peers:
            answer = await peer.coordinate("POST", self.path("verification"), request)
            while answer.status_code == 503:  # it goes on, and is asked again
                answer = await peer.coordinate("POST", self.path("verification"), request)
            assert answer.status_code == 200, answer.text
            found.append(Verified.model_validate_json(answer.content).verification)
        return found

    async def chunks(self, index: int) -> list[bytes]:
        """All chunks of an aggregator."""
        found: list[bytes] = []
        while True:
            path = self.path(f"verification/{len(found)}")
            answer = await self.federation.peers[index].coordinate("GET", path)
            if answer.status_code == 404:
                return found
            assert answer.status_code == 200, answer.text
            found.append(answer.content)

    async def put_chunk(self, peer: Peer, index: int, number: int, body: bytes) -> httpx.Response:
        """Pass a chunk on."""
        path = self.path(f"verification/{index}/{number}")
        return await peer.ask("PUT", path, body, peer.coordinator_token, form=OCTETS)

    async def exchange(self) -> None:
        """Every aggregator's chunks to all others."""
        peers = self.federation.peers
        for index in range(len(peers)):
            for number, body in enumerate(await self.chunks(index)):
                for other, peer in enumerate(peers):
                    if other != index:
                        answer = await self.put_chunk(peer, index, number, body)
                        assert answer.status_code == 204, answer.text

    async def decide(self, verifications: Sequence[Signed[Verification]]) -> list[Signed[Verdict]]:
        """Every aggregator's verdict."""
        request = VerdictRequest(verifications=tuple(verifications))
        found = []
        for peer in self.federation.peers:
            answer = await peer.coordinate("POST", self.path("verdict"), request)
            assert answer.status_code == 200, answer.text
            found.append(Signed[Verdict].model_validate_json(answer.content))
        return found

    def manifest(
        self, accepted: Sequence[Signed[AcceptedSet]], verdicts: Sequence[Signed[Verdict]]
    ) -> Manifest:
        """The one manifest that follows from these."""
        candidates = candidates_of(self.descriptor, accepted)
        checked = check_verdicts(self.descriptor, candidates, verdicts)
        return proved_manifest_of(self.descriptor, candidates, checked, SALT)

    def request(
        self, accepted: Sequence[Signed[AcceptedSet]], verdicts: Sequence[Signed[Verdict]]
    ) -> ManifestRequest:
        """What the coordinator says of that manifest."""
        return manifest_request(self.manifest(accepted, verdicts), accepted, verdicts)

    async def commit_to(self, request: ManifestRequest) -> list[Signed[Commitment]]:
        """All commitments."""
        found = []
        for peer in self.federation.peers:
            answer = await peer.coordinate("POST", self.path("commitment"), request)
            assert answer.status_code == 200, answer.text
            found.append(Signed[Commitment].model_validate_json(answer.content))
        return found

    async def verdicts(self) -> tuple[list[Signed[AcceptedSet]], list[Signed[Verdict]]]:
        """Freeze, verify, exchange and decide."""
        accepted = await self.freeze()
        verifications = await self.verify(accepted)
        await self.exchange()
        return accepted, await self.decide(verifications)

    async def opened(
        self, accepted: Sequence[Signed[AcceptedSet]], verdicts: Sequence[Signed[Verdict]]
    ) -> tuple[NDArray[np.int64], Manifest]:
        """Commit, reveal and open: the total and the manifest."""
        manifest = self.manifest(accepted, verdicts)
        commitments = await self.commit_to(manifest_request(manifest, accepted, verdicts))
        reveals = await self.reveal(manifest, commitments)
        digest = manifest_hash(manifest)
        total = open_sum(self.descriptor, digest, manifest.quorum, commitments, reveals)
        return total, manifest

    async def proved_release(self) -> tuple[NDArray[np.int64], Manifest]:
        """All steps from the freeze on."""
        return await self.opened(*await self.verdicts())


async def announce(federation: Federation, asked: Query, **changes: Any) -> ProvedRound:
    """A proved round that every aggregator has opened, without its key."""
    signed = await federation.descriptor(asked, **changes)
    answers = []
    for peer in federation.peers:
        answer = await peer.coordinate("POST", "/v1/rounds", signed)
        assert answer.status_code == 201, answer.text
        answers.append(answer.json())
    return ProvedRound(federation, signed, answers)


async def keyed(federation: Federation, asked: Query, **changes: Any) -> ProvedRound:
    """A proved round that takes contributions."""
    opened = await announce(federation, asked, **changes)
    checks = set()
    for index in range(len(federation.peers)):
        answer = await opened.relay_keys(index)
        assert answer.status_code == 200, answer.text
        checks.add(answer.json()["key_check"])
    assert len(checks) == 1
    return opened
