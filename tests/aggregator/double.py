"""A coordinator and curators in one object: a test double that drives real aggregators over HTTP.

It holds every key but the aggregators', so a test can also play a hostile party: sign what it
likes, seal what it likes, and ask for the steps of a round in any order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
from numpy.typing import NDArray

from aggregator.context import Aggregator
from aggregator.pieces.intake import Intake
from aggregator.roster.enrolment import SenderDirectory
from common.web.dependencies import Part, part_of
from tacit import sets
from tacit.crypto.sealing import (
    BatchHeader,
    Direction,
    PartHeader,
    SealPublicKey,
    seal_batch,
    seal_octets,
    seal_part,
    spans,
)
from tacit.crypto.signing import Identity, Signed
from tacit.protocol.enrolment import (
    ENROLMENT_LABEL,
    GRANT_HEADER,
    Enrolment,
    PartyKind,
    grant_hash,
)
from tacit.protocol.round.agreement import manifest_hash, manifest_of, segment_size_of
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL, AggregatorEntry, RoundDescriptor
from tacit.protocol.round.messages import (
    AcceptedSet,
    Commitment,
    Manifest,
    ManifestRequest,
    Reveal,
    RevealRequest,
    Verdict,
)
from tacit.protocol.round.opening import open_sum
from tacit.protocol.round.pieces import DeclaredForm, Piece, Seeds
from tacit.protocol.sealing_sessions import (
    OwnSession,
    SealKeyStatement,
    SessionEnds,
    begin_session,
    piece_context,
)
from tacit.query.fields import Window
from tacit.query.query import Query
from tacit.randomness import SecureRandom
from tacit.wire import encode_binary, parse_binary
from tests.rules import energy_sum

DEPLOYMENT = "test"
SALT = bytes(range(32))
OPERATOR_TOKEN = "operator-token-for-tests-0123456789abcdef"
Words = NDArray[np.uint64]
Share = Words | Seeds


def query(**changes: Any) -> Query:
    """A small additive query of mechanism `exact`, with changes."""
    base = {"mechanism": "exact", "aggregators": 1, "n_max": 1_000_000, "deadline_s": 300}
    merged = {**base, **changes}
    if merged["aggregators"] == 1 and "mechanism" not in changes:
        merged.update(mechanism="local", sharing="none", epsilon_i="1")
    return Query.model_validate_json(_json(energy_sum(**merged)))


def vector(d: int, **changes: Any) -> Query:
    """A query of d coordinates."""
    return query(
        function="vector_sum",
        dimension=d,
        coordinates="values",
        l1_bound="20",
        **changes,
    )


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def manifest_request(
    manifest: Manifest,
    accepted: Sequence[Signed[AcceptedSet]],
    verdicts: Sequence[Signed[Verdict]] | None = None,
) -> ManifestRequest:
    """What the coordinator says of a manifest, with what it follows from."""
    return ManifestRequest(
        salt=manifest.salt,
        manifest_hash=manifest_hash(manifest),
        accepted=tuple(accepted),
        verdicts=None if verdicts is None else tuple(verdicts),
    )


@dataclass
class Peer:
    """One real aggregator, seen from outside."""

    client: httpx.AsyncClient
    operator_token: str = OPERATOR_TOKEN
    id: str = ""
    operator: str = ""
    identity_key: bytes = b""
    coordinator_token: str = ""

    def part(self, kind: type[Part]) -> Part:
        """A part of the aggregator itself, where it runs in this process."""
        return part_of(self.client.app, kind)  # type: ignore[attr-defined]

    async def ask(
        self, method: str, path: str, body: Any = None, token: str | None = None, **more: Any
    ) -> httpx.Response:
        """A request with the operator's token, or another."""
        headers = {"Authorization": f"Bearer {token or self.operator_token}"}
        if body is not None:
            content = body if isinstance(body, bytes) else _dump(body)
            headers["Content-Type"] = more.pop("form", "application/json")
            more["content"] = content
        return await self.client.request(method, path, headers=headers, **more)

    async def coordinate(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """A request as the paired coordinator."""
        return await self.ask(method, path, body, self.coordinator_token)


def _dump(body: Any) -> bytes:
    if isinstance(body, list):
        return b"[" + b",".join(_dump(item) for item in body) + b"]"
    if isinstance(body, dict):
        return _json(body)
    dumped: str = body.model_dump_json()
    return dumped.encode()


@dataclass
class Sender:
    """A lone curator or a host, with its keys and its tokens at every aggregator."""

    id: str
    kind: PartyKind
    first: int
    curators: tuple[str, ...]
    identity: Identity
    tokens: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Parts:
    """The parts of an aggregator that pieces and rounds go through."""

    aggregator: Aggregator
    intake: Intake
    directory: SenderDirectory


def parts_of(federation: Federation) -> Parts:
    """Those of the first aggregator, which runs in this process."""
    peer = federation.peers[0]
    return Parts(peer.part(Aggregator), peer.part(Intake), peer.part(SenderDirectory))


class Federation:
    """The coordinator's and all curators' side of real aggregators.

    `round_keys`: each round has seal keys of its own.
    """

    round_keys = False

    def __init__(self, *clients: httpx.AsyncClient, now: datetime | None = None) -> None:
        self.peers = [Peer(client) for client in clients]
        self.deployment = DEPLOYMENT
        self.identity = Identity.generate()
        self.random = SecureRandom()
        self.next_number = 0
        self.now = now or datetime.now(UTC).replace(microsecond=0)
        self.public_keys: dict[bytes, SealPublicKey] = {}
        self.begun: dict[tuple[str, int, bytes], OwnSession] = {}
        self.senders: dict[str, Sender] = {}
        """Those that are enrolled, by id."""
        self.acknowledged: set[bytes] = set()
        """Sessions under which an aggregator has answered."""

    async def pair(self) -> Federation:
        """Learn every aggregator's identity, and become its coordinator."""
        for peer in self.peers:
            document = (await peer.client.get("/.well-known/tacit-aggregator")).json()
            peer.id, peer.operator = document["id"], document["operator"]
            peer.identity_key = parse_binary(document["identity_key"])
            body = {
                "deployment": DEPLOYMENT,
                "identity_key": encode_binary(self.identity.public_key),
            }
            answer = await peer.ask("PUT", "/v1/coordinator", body)
            assert answer.status_code == 200, answer.text
            peer.coordinator_token = answer.json()["token"]
        return self

    # --- enrolment ---

    def sender(
        self, name: str, curators: Sequence[str] | None = None, first: int | None = None
    ) -> Sender:
        """A party with fresh keys and the next free numbers."""
        kind = PartyKind.CURATOR if curators is None else PartyKind.HOST
        ids = (name,) if curators is None else tuple(curators)
        if first is None:
            first = self.next_number
            if kind is PartyKind.HOST:
                first = -(-first // 64) * 64
        self.next_number = max(self.next_number, first + len(ids))
        return Sender(name, kind, first, ids, Identity.generate())

    async def grant(self, peer: Peer, sender: Sender) -> str:
        """A one-time secret of an aggregator's operator."""
        body = {
            "party": sender.id,
            "kind": sender.kind.value,
            "max_curators": len(sender.curators),
        }
        answer = await peer.ask("POST", "/v1/grants", body)
        assert answer.status_code == 201, answer.text
        secret: str = answer.json()["grant"]["secret"]
        return secret

    def enrolment(
        self, peer: Peer, sender: Sender, secret: str, **changes: Any
    ) -> Signed[Enrolment]:
        """A party's signed request."""
        values: dict[str, Any] = {
            "service": peer.id,
            "secret": secret,
            "party": sender.id,
            "kind": sender.kind,
            "identity_key": sender.identity.public_key,
            "curators": sender.curators,
            "first": sender.first,
        }
        return sender.identity.sign(ENROLMENT_LABEL, Enrolment(**{**values, **changes}))

    async def enrol(self, sender: Sender) -> Sender:
        """Enrol a party at every aggregator."""
        for peer in self.peers:
            secret = await self.grant(peer, sender)
            body = self.enrolment(peer, sender, secret)
            headers = {"Content-Type": "application/json", GRANT_HEADER: grant_hash(secret)}
            answer = await peer.client.post("/v1/enrolments", content=_dump(body), headers=headers)
            assert answer.status_code == 201, answer.text
            sender.tokens.append(answer.json()["token"])
        self.senders[sender.id] = sender
        return sender

    async def lone(self, count: int, prefix: str = "curator") -> list[Sender]:
        """Enrolled lone curators."""
        return [await self.enrol(self.sender(f"{prefix}-{i}")) for i in range(count)]

    async def host(self, name: str, count: int) -> Sender:
        """An enrolled host."""
        return await self.enrol(self.sender(name, [f"{name}.{i}" for i in range(count)]))

    # --- a round ---

    async def descriptor(self, asked: Query, **changes: Any) -> Signed[RoundDescriptor]:
        """A signed descriptor with the aggregators' present keys."""
        round_id = changes.pop("round", str(uuid4()))
        entries = []
        for peer in self.peers:
            entries.append(
                AggregatorEntry(
                    id=peer.id,
                    operator=peer.operator,
                    url=str(peer.client.base_url),
                    identity_key=peer.identity_key,
                    seal_key=await self._key_of(peer, round_id),
                )
            )
        await self._hand_over(entries)
        values: dict[str, Any] = {
            "deployment": DEPLOYMENT,
            "round": round_id,
            "query_id": "query-1",
            "query": asked,
            "window": Window(start=self.now - timedelta(hours=1), end=self.now),
            "opened": self.now,
            "deadline": self.now + timedelta(seconds=asked.deadline_s),
            "aggregators": tuple(entries),
            "roster_version": 1,
            "roster_size": self.next_number,
            "segment_size": segment_size_of(asked),
        }
        return self.identity.sign(DESCRIPTOR_LABEL, RoundDescriptor(**{**values, **changes}))

    async def _key_of(self, peer: Peer, round_id: str) -> Signed[SealKeyStatement]:
        """The key for an aggregator's entry."""
        if self.round_keys:
            answer = await peer.coordinate("POST", "/v1/seal-keys", {"round": round_id})
        else:
            answer = await peer.client.get("/v1/seal-keys/current")
        assert answer.status_code == 200, answer.text
        return Signed[SealKeyStatement].model_validate_json(answer.content)

    async def fetch_keys(self, entries: Sequence[AggregatorEntry]) -> list[bytes]:
        """Fetch the seal keys of these entries from their aggregators; the new ones."""
        fetched = []
        peers = {peer.id: peer for peer in self.peers}
        for entry in entries:
            key_hash = entry.seal.public_key_hash
            if key_hash not in self.public_keys:
                path = f"/v1/seal-keys/{encode_binary(key_hash)}"
                raw = (await peers[entry.id].client.get(path)).content
                self.public_keys[key_hash] = SealPublicKey(raw)
                fetched.append(key_hash)
        return fetched

    async def _hand_over(self, entries: Sequence[AggregatorEntry]) -> None:
        """Fetch the seal keys of these entries, and give each aggregator those of the others."""
        owners = {entry.seal.public_key_hash: entry.id for entry in entries}
        for key_hash in await self.fetch_keys(entries):
            path = f"/v1/seal-keys/{encode_binary(key_hash)}"
            raw = self.public_keys[key_hash].raw
            for peer in self.peers:
                if peer.id != owners[key_hash]:
                    form = "application/octet-stream"
                    token = peer.coordinator_token
                    answer = await peer.ask("PUT", path, raw, token, form=form)
                    assert answer.status_code == 201, answer.text

    async def open(self, asked: Query, **changes: Any) -> Round:
        """A round that every aggregator has opened, its noise shares relayed."""
        signed = await self.descriptor(asked, **changes)
        opened = Round(self, signed)
        answers = []
        for peer in self.peers:
            answer = await peer.coordinate("POST", "/v1/rounds", signed)
            assert answer.status_code == 201, answer.text
            answers.append(answer.json())
        for index, peer in enumerate(self.peers):
            relayed = [
                {
                    "aggregator": other["contribution"]["aggregator"],
                    "piece": other["contribution"]["pieces"][index],
                }
                for place, other in enumerate(answers)
                if other.get("contribution") and place != index
            ]
            if relayed:
                path = f"/v1/rounds/{opened.id}/contributions"
                answer = await peer.coordinate("POST", path, _json(relayed))
                assert answer.status_code == 200, answer.text
        return opened

    def session(self, sender: Sender, index: int, entry: AggregatorEntry) -> OwnSession:
        """The session of a sender under an aggregator's seal key, begun once."""
        key_hash = entry.seal.public_key_hash
        place = (sender.id, index, key_hash)
        if place not in self.begun:
            ends = SessionEnds(
                deployment=self.deployment,
                party=sender.id,
                party_key=sender.identity.public_key,
                aggregator=entry.id,
                aggregator_key=entry.identity_key,
                direction=Direction.CURATOR_TO_AGGREGATOR,
            )
            self.begun[place] = begin_session(sender.identity, ends, self.public_keys[key_hash])
        return self.begun[place]

    async def announce(self, sender: Sender, index: int, own: OwnSession) -> httpx.Response:
        """Put a session to an aggregator, apart from pieces."""
        path = f"/v1/parties/{sender.id}/sessions/{encode_binary(own.id)}"
        answer = await self.peers[index].ask("PUT", path, own.announce, sender.tokens[index])
        if answer.status_code in (200, 201):
            self.acknowledged.add(own.id)
        return answer


@dataclass
class Round:
    """One round, seen from the outside."""

    federation: Federation
    signed: Signed[RoundDescriptor]

    @property
    def descriptor(self) -> RoundDescriptor:
        return self.signed.statement

    @property
    def id(self) -> str:
        return self.descriptor.round

    def path(self, step: str = "") -> str:
        return f"/v1/rounds/{self.id}/{step}".rstrip("/")

    @property
    def form(self) -> DeclaredForm:
        """What is inside the seals."""
        return DeclaredForm.of(self.descriptor)

    def split(self, values: NDArray[np.int64], *, hosted: bool = False) -> list[Share]:
        """What is sealed of (n, d) values for each aggregator; hosted: in one batch."""
        return self.form.split(values, self.federation.random, hosted=hosted)

    def piece(self, sender: Sender, index: int, share: Share) -> Piece:
        """One lone curator's sealed share for one aggregator."""
        entry = self.descriptor.aggregators[index]
        d = share.size if share.dtype == np.uint64 else self.form.dimension
        place = piece_context(self.descriptor.digest(), sender.id, entry.id, index, d)
        return self.sealed(sender, index, share.tobytes(), place)

    def sealed(self, sender: Sender, index: int, plain: bytes, context: bytes) -> Piece:
        """A piece with this content; it announces its session until an aggregator answered."""
        own = self.federation.session(sender, index, self.descriptor.aggregators[index])
        nonce, sealed = seal_octets(own.key, plain, context)
        announce = None if own.id in self.federation.acknowledged else own.announce
        return Piece(
            sender=sender.id, session=own.id, nonce=nonce, sealed=sealed, announce=announce
        )

    def batches(
        self,
        host: Sender,
        index: int,
        words: Share,
        present: NDArray[np.bool_] | None = None,
        part: int = 0,
    ) -> list[bytes]:
        """A host's sealed batches for one aggregator; `words` (n, d) of all its curators, or the
        seed of one batch (1, 32). Where a seed is due, any words give one that is theirs alone."""
        if present is None:
            present = np.ones(len(host.curators), np.bool_)
        entry = self.descriptor.aggregators[index]
        own = self.federation.session(host, index, entry)
        bodies = []
        for span in spans(host.first, len(host.curators), self.descriptor.segment_size):
            here = slice(span.first - host.first, span.first - host.first + span.length)
            chosen = present[here]
            if not chosen.any():
                continue
            place = (host.id, self.descriptor.digest(), index, part, span)
            if self.form.seeded(index, hosted=True):
                seed = words.tobytes()
                if words.dtype == np.uint64:
                    seed = sha256(words[here][chosen].tobytes()).digest()
                whole = PartHeader(*place, len(seed), own.id, sets.pack(chosen))
                bodies.append(seal_part(own.key, whole, seed))
                continue
            header = BatchHeader(*place, words.shape[1], own.id, sets.pack(chosen))
            bodies.append(seal_batch(own.key, header, words[here][chosen]))
        return bodies

    async def send(self, sender: Sender, index: int, piece: Piece) -> httpx.Response:
        """Post a lone piece."""
        peer = self.federation.peers[index]
        answer = await peer.ask("POST", self.path("pieces"), piece, sender.tokens[index])
        if answer.status_code in (200, 201):
            self.federation.acknowledged.add(piece.session)
        return answer

    async def announced(self, host: Sender, index: int) -> None:
        """Announce a host's session with an aggregator, unless it was announced before."""
        own = self.federation.session(host, index, self.descriptor.aggregators[index])
        if own.id not in self.federation.acknowledged:
            answer = await self.federation.announce(host, index, own)
            assert answer.status_code in (200, 201), answer.text

    async def send_batch(self, host: Sender, index: int, body: bytes) -> httpx.Response:
        """Post a batch, after its session."""
        await self.announced(host, index)
        return await self.federation.peers[index].ask(
            "POST",
            self.path("batches"),
            body,
            host.tokens[index],
            form="application/octet-stream",
        )

    def batches_of(
        self, host: Sender, values: NDArray[np.int64], present: NDArray[np.bool_]
    ) -> Iterator[tuple[int, bytes]]:
        """Batches of some of a host's curators, whose values (n, d) these are of all; with the
        index of the aggregator that each is for."""
        for index, share in enumerate(self.split(values[present], hosted=True)):
            words = share
            if share.dtype == np.uint64:
                words = np.zeros((len(host.curators), share.shape[1]), np.uint64)
                words[present] = share
            for body in self.batches(host, index, words, present):
                yield index, body

    async def contribute(self, sender: Sender, values: NDArray[np.int64]) -> None:
        """Send a party's values (n, d) to every aggregator; those of a host in one segment."""
        hosted = sender.kind is PartyKind.HOST
        for index, words in enumerate(self.split(values, hosted=hosted)):
            if sender.kind is PartyKind.CURATOR:
                answer = await self.send(sender, index, self.piece(sender, index, words[0]))
                assert answer.status_code == 201, answer.text
                continue
            for body in self.batches(sender, index, words):
                answer = await self.send_batch(sender, index, body)
                assert answer.status_code == 201, answer.text

    # --- the coordinator's steps ---

    async def freeze(self, quorum: Sequence[int] | None = None) -> list[Signed[AcceptedSet]]:
        """The signed accepted sets."""
        result = []
        for index in quorum if quorum is not None else range(len(self.federation.peers)):
            peer = self.federation.peers[index]
            answer = await peer.coordinate("POST", self.path("freeze"))
            assert answer.status_code == 200, answer.text
            result.append(Signed[AcceptedSet].model_validate_json(answer.content))
        return result

    async def commit(
        self, accepted: Sequence[Signed[AcceptedSet]]
    ) -> tuple[Manifest, list[Signed[Commitment]]]:
        """The manifest of these sets, and the quorum's commitments to it."""
        manifest = manifest_of(self.descriptor, accepted, SALT)
        request = manifest_request(manifest, accepted)
        result = []
        for index in manifest.quorum:
            peer = self.federation.peers[index]
            answer = await peer.coordinate("POST", self.path("commitment"), request)
            assert answer.status_code == 200, answer.text
            result.append(Signed[Commitment].model_validate_json(answer.content))
        return manifest, result

    async def reveal(
        self, manifest: Manifest, commitments: Sequence[Signed[Commitment]]
    ) -> list[Reveal]:
        """The quorum's partial sums."""
        request = RevealRequest(commitments=tuple(commitments))
        result = []
        for index in manifest.quorum:
            peer = self.federation.peers[index]
            answer = await peer.coordinate("POST", self.path("reveal"), request)
            assert answer.status_code == 200, answer.text
            result.append(Reveal.model_validate_json(answer.content))
        return result

    async def release(
        self, quorum: Sequence[int] | None = None
    ) -> tuple[NDArray[np.int64], Manifest]:
        """Freeze, commit, reveal and open: the total and the manifest."""
        accepted = await self.freeze(quorum)
        manifest, commitments = await self.commit(accepted)
        reveals = await self.reveal(manifest, commitments)
        total = open_sum(
            self.descriptor, manifest_hash(manifest), manifest.quorum, commitments, reveals
        )
        return total, manifest
