"""A coordinator and aggregators in one object: a test double that a real curator service talks to
over ASGI transports. The aggregators open every seal and keep the words, so a test can recombine
them, lose answers, refuse, or go down."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import httpx
import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from common.bodies import CBOR, decode_cbor, encode, parse_cbor, parse_json
from tacit import sets
from tacit.crypto.sealing import (
    Direction,
    SealKey,
    open_batch,
    open_octets,
    open_part,
    read_batch_header,
    read_part_header,
)
from tacit.crypto.signing import Identity, Signed, verify
from tacit.protocol import sealing_sessions
from tacit.protocol.enrolment import (
    ENROLMENT_LABEL,
    Enrolment,
    Grant,
    JoinToken,
    PartyKind,
)
from tacit.protocol.round import pieces as proved_pieces
from tacit.protocol.round.agreement import segment_size_of
from tacit.protocol.round.descriptor import (
    ABORT_LABEL,
    DESCRIPTOR_LABEL,
    AbortStatement,
    AggregatorEntry,
    Frozen,
    Refusal,
    RoundDescriptor,
)
from tacit.protocol.round.pieces import CarriedPiece, DeclaredForm, Piece
from tacit.protocol.sealing_sessions import (
    SEAL_KEY_LABEL,
    SealKeyStatement,
    Session,
    SessionEnds,
    open_session,
)
from tacit.query.fields import Window
from tacit.query.functions import decode, dimension
from tacit.query.mechanisms import scheme
from tacit.query.proofs import is_proved, proof_plan
from tacit.query.query import Query
from tacit.randomness import SEED_BYTES
from tacit.validity.prio3 import Outcome
from tacit.wire import encode_binary, parse_binary
from tests.in_process import InProcess, in_process

DEPLOYMENT = "test"
COORDINATOR = "http://coordinator.test"


def problem(status: int, name: str, **extra: Any) -> Response:
    document = {"type": f"urn:tacit:problem:{name}", "status": status, **extra}
    return JSONResponse(document, status, media_type="application/problem+json")


class Transport(httpx.ASGITransport):
    """Reaches one double, unless it is down."""

    def __init__(self, app: Starlette) -> None:
        super().__init__(app=app)
        self.down = False
        self.lose_answers = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            raise httpx.ConnectError("down")
        answer = await super().handle_async_request(request)
        if self.lose_answers and request.method == "POST":
            self.lose_answers -= 1
            raise httpx.ReadError("lost")
        return answer


@dataclass
class FakeAggregator:
    id: str
    world: FakeWorld
    identity: Identity = field(default_factory=Identity.generate)
    parties: dict[str, Enrolment] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    words: dict[str, dict[int, NDArray[np.uint64]]] = field(default_factory=dict)
    plaintexts: dict[str, dict[tuple[int, ...], bytes]] = field(default_factory=dict)
    """Of proved rounds, by the numbers that each is of."""
    bodies: list[tuple[str, bytes]] = field(default_factory=list)
    together: list[int] = field(default_factory=list)
    """How many pieces came in each request that had several."""
    refusals: list[Response] = field(default_factory=list)
    closed: set[str] = field(default_factory=set)
    die_after_enrolment: bool = False
    seal_key: SealKey = field(default_factory=lambda: SealKey(SealKey.new_seed()))
    seal_number: int = 1
    sessions: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    announced: list[tuple[str, bytes]] = field(default_factory=list)
    """Party and session of every announcement that was opened."""
    serves_seal_keys: bool = True
    rounds_together: list[int] = field(default_factory=list)
    """Of how many rounds requests for several were."""

    def __post_init__(self) -> None:
        self.url = f"http://{self.id}.test"
        self.app = Starlette(
            routes=[
                Route("/.well-known/tacit-aggregator", self.who),
                Route("/v1/enrolments", self.enrol, methods=["POST"]),
                Route("/v1/parties/{party}/sessions/{session}", self.session, methods=["PUT"]),
                Route("/v1/seal-keys/{hash}", self.shown_seal_key),
                Route("/v1/rounds/{round}/pieces", self.piece, methods=["POST"]),
                Route("/v1/rounds/{round}/batches", self.batch, methods=["POST"]),
                Route("/v1/pieces", self.of_rounds, methods=["POST"]),
                Route("/v1/batches", self.of_rounds, methods=["POST"]),
            ]
        )
        self.transport = Transport(self.app)

    def entry(self, made: datetime) -> AggregatorEntry:
        """What a descriptor says of it, with the seal key made then."""
        statement = SealKeyStatement(
            party=self.id,
            number=self.seal_number,
            public_key_hash=self.seal_key.public.hash,
            made=made,
            until=made + timedelta(hours=1),
        )
        return AggregatorEntry(
            id=self.id,
            operator=self.id,
            url=self.url,
            identity_key=self.identity.public_key,
            seal_key=self.identity.sign(SEAL_KEY_LABEL, statement),
        )

    def renew_seal_key(self) -> None:
        """Another hour: another key."""
        self.seal_key, self.seal_number = SealKey(SealKey.new_seed()), self.seal_number + 1

    async def shown_seal_key(self, request: Request) -> Response:
        asked = parse_binary(request.path_params["hash"])
        if not self.serves_seal_keys or asked != self.seal_key.public.hash:
            return problem(404, "unknown_seal_key")
        return Response(self.seal_key.public.raw, media_type="application/octet-stream")

    async def session(self, request: Request) -> Response:
        party = request.path_params["party"]
        self._authorise(request, party)
        signed = parse_cbor(await request.body(), Signed[Session])
        assert signed.statement.session == parse_binary(request.path_params["session"])
        return JSONResponse({}, 201 if self._begin(party, signed) else 200)

    def _begin(self, party: str, signed: Signed[Session]) -> bool:
        """Open an announced session; whether it is new."""
        name = (party, signed.statement.session)
        self.announced.append(name)
        if name in self.sessions:
            return False
        ends = SessionEnds(
            DEPLOYMENT,
            party,
            self.parties[party].identity_key,
            self.id,
            self.identity.public_key,
            Direction.CURATOR_TO_AGGREGATOR,
        )
        self.sessions[name] = open_session(signed, ends, self.seal_key)
        return True

    async def who(self, _: Request) -> Response:
        return JSONResponse(
            {"id": self.id, "identity_key": encode_binary(self.identity.public_key)}
        )

    async def enrol(self, request: Request) -> Response:
        signed = parse_json(await request.body(), Signed[Enrolment])
        body = verify(ENROLMENT_LABEL, signed, signed.statement.identity_key)
        assert body.service == self.id
        assert body.secret == self.world.secrets[self.id, body.party]
        assert body.first == self.world.numbers[body.party]
        self.parties[body.party] = body
        token = self.tokens[body.party] = secrets.token_urlsafe(32)
        if self.die_after_enrolment:
            self.die_after_enrolment = False
            return Response(status_code=500)
        return JSONResponse(
            {
                "party": body.party,
                "first": body.first,
                "curators": len(body.curators),
                "token": token,
            },
            201,
        )

    def _authorise(self, request: Request, party: str) -> None:
        assert request.headers["authorization"] == f"Bearer {self.tokens[party]}"

    def _gate(self, round_id: str, *bodies: bytes) -> Response | None:
        self.bodies += [(round_id, body) for body in bodies]
        if self.refusals:
            return self.refusals.pop(0)
        if round_id in self.closed:
            return problem(410, "round_closed", included=False)
        return None

    async def piece(self, request: Request) -> Response:
        body, round_id = await request.body(), request.path_params["round"]
        items = decode_cbor(body) if "cbor" in request.headers["content-type"] else None
        several = items if isinstance(items, list) else None
        bodies = [body] if several is None else [_without_token(item) for item in several]
        if (refused := self._gate(round_id, *bodies)) is not None:
            return refused
        if several is not None:
            if request.headers["authorization"].removeprefix("Bearer ") not in self.tokens.values():
                return problem(401, "token_unknown")
            return self._several(round_id, several)
        parse = parse_cbor if "cbor" in request.headers["content-type"] else parse_json
        piece = parse(body, Piece)
        if request.headers["authorization"] != f"Bearer {self.tokens[piece.sender]}":
            return problem(401, "token_unknown")
        return self._open(round_id, piece)

    async def of_rounds(self, request: Request) -> Response:
        """Pieces or batches of several rounds."""
        items = cast(list[dict[str, Any]], decode_cbor(await request.body()))
        self.rounds_together.append(len({item["round"] for item in items}))
        answers = []
        for index, item in enumerate(items):
            round_id = item.pop("round")
            body = item["body"] if "body" in item else _without_token(item)
            answer = self._gate(round_id, body)
            if answer is None and "body" in item:
                answer = self._batch(round_id, body, item["token"])
            elif answer is None:
                piece = CarriedPiece.model_validate_json(to_json(item, bytes_mode="base64"))
                assert piece.token == self.tokens[piece.sender]
                answer = self._open(round_id, piece)
            answers.append(_item(index, answer))
        return JSONResponse(answers)

    def _several(self, round_id: str, items: list[dict[str, Any]]) -> Response:
        """Pieces of several parties, each with its own token."""
        self.together.append(len(items))
        answers = []
        for index, item in enumerate(items):
            piece = CarriedPiece.model_validate_json(to_json(item, bytes_mode="base64"))
            if piece.token != self.tokens[piece.sender]:
                answers.append({"index": index, "status": 401, "problem": "token_unknown"})
                continue
            answers.append(_item(index, self._open(round_id, piece)))
        return JSONResponse(answers)

    def _open(self, round_id: str, piece: Piece) -> Response:
        descriptor = self.world.rounds[round_id].statement
        if piece.announce is not None:
            self._begin(piece.sender, piece.announce)
        key = self.sessions.get((piece.sender, piece.session))
        if key is None:
            return problem(409, "unknown_session", retryable=True)
        d, index = dimension(descriptor.query), descriptor.index_of(self.id)
        number = self.world.numbers[piece.sender]
        if is_proved(descriptor.query):
            length = proof_plan(descriptor.query).of(1).share_bytes(index)
            context = proved_pieces.piece_context(
                descriptor.digest(), piece.sender, self.id, index, length
            )
            plain = open_octets(key, piece.nonce, piece.sealed, context)
            return self._keep_proved(round_id, (number,), plain)
        context = sealing_sessions.piece_context(
            descriptor.digest(), piece.sender, self.id, index, d
        )
        plain = open_octets(key, piece.nonce, piece.sealed, context)
        form = DeclaredForm.of(descriptor)
        assert len(plain) == form.content_bytes(index, 1, hosted=False)
        words = form.opened(index, plain, 1, hosted=False)
        return self._keep(round_id, {number: words[0]})

    async def batch(self, request: Request) -> Response:
        body, round_id = await request.body(), request.path_params["round"]
        token = request.headers["authorization"].removeprefix("Bearer ")
        if "cbor" in request.headers["content-type"]:
            items = cast(list[dict[str, Any]], decode_cbor(body))
            self.together.append(len(items))
            if (refused := self._gate(round_id, *(item["body"] for item in items))) is not None:
                return refused
            answers = [self._batch(round_id, item["body"], item["token"]) for item in items]
            return JSONResponse([_item(index, answer) for index, answer in enumerate(answers)])
        assert request.headers["content-type"] == "application/octet-stream"
        if (refused := self._gate(round_id, body)) is not None:
            return refused
        return self._batch(round_id, body, token)

    def _batch(self, round_id: str, body: bytes, token: str) -> Response:
        descriptor = self.world.rounds[round_id].statement
        own = descriptor.index_of(self.id)
        if is_proved(descriptor.query) or DeclaredForm.of(descriptor).seeded(own, hosted=True):
            return self._part(round_id, body, token)
        header, offset = read_batch_header(body)
        assert token == self.tokens[header.host]
        key = self.sessions.get((header.host, header.sealed_under))
        if key is None:
            return problem(409, "unknown_session", retryable=True)
        assert header.descriptor_hash == descriptor.digest()
        assert header.share_index == own
        words = open_batch(key, body, offset).reshape(header.count, header.dimension)
        present = np.flatnonzero(sets.unpack(header.presence, header.span.length))
        first = header.span.first
        return self._keep(
            round_id, {int(first + p): row for p, row in zip(present, words, strict=True)}
        )

    def _part(self, round_id: str, body: bytes, token: str) -> Response:
        descriptor = self.world.rounds[round_id].statement
        header, offset = read_part_header(body, descriptor.segment_size)
        assert token == self.tokens[header.host]
        assert header.descriptor_hash == descriptor.digest()
        assert header.share_index == descriptor.index_of(self.id)
        key = self.sessions.get((header.host, header.sealed_under))
        if key is None:
            return problem(409, "unknown_session", retryable=True)
        plain = open_part(key, body, offset)
        present = np.flatnonzero(sets.unpack(header.presence, header.span.length))
        numbers = tuple((present + header.span.first).tolist())
        if is_proved(descriptor.query):
            return self._keep_proved(round_id, numbers, plain)
        assert header.plaintext_bytes == SEED_BYTES
        form = DeclaredForm.of(descriptor)
        words = form.opened(header.share_index, plain, header.count, hosted=True)
        return self._keep(round_id, dict(zip(numbers, words, strict=True)))

    def _keep_proved(self, round_id: str, numbers: tuple[int, ...], plain: bytes) -> Response:
        held = self.plaintexts.setdefault(round_id, {})
        if numbers in held:
            assert held[numbers] == plain, "another content for the same numbers"
            return JSONResponse({}, 200)
        if any(set(numbers) & set(others) for others in held):
            return problem(409, "batch_overlaps")
        held[numbers] = plain
        return JSONResponse({}, 201)

    def _keep(self, round_id: str, words: dict[int, NDArray[np.uint64]]) -> Response:
        held = self.words.setdefault(round_id, {})
        known = words.keys() & held.keys()
        if known:
            same = all(np.array_equal(held[n], words[n]) for n in known)
            assert same, "another content for the same number"
            return JSONResponse({}, 200)
        held.update(words)
        return JSONResponse({}, 201)


def _item(index: int, answer: Response) -> dict[str, Any]:
    """The answer to one of several, of that to one alone."""
    shown: dict[str, Any] = {"index": index, "status": answer.status_code}
    if answer.status_code >= 400:
        shown["problem"] = json.loads(bytes(answer.body))["type"].rpartition(":")[2]
    return shown


def _without_token(item: dict[str, Any]) -> bytes:
    """A piece of several as it would be alone."""
    return encode({name: value for name, value in item.items() if name != "token"}, CBOR)


class FakeWorld:
    """A coordinator, its aggregators, and what a curator must be told of them."""

    def __init__(self, aggregators: int = 3) -> None:
        self.identity = Identity.generate()
        self.aggregators = [FakeAggregator(f"aggregator-{i}", self) for i in range(aggregators)]
        self.secrets: dict[tuple[str, str], str] = {}
        self.numbers: dict[str, int] = {}
        self.tokens: dict[str, str] = {}
        self.rounds: dict[str, Signed[RoundDescriptor]] = {}
        self.states: dict[str, dict[str, Any]] = {}
        self.junk: list[Any] = []
        """What is listed besides rounds."""
        self.standing: dict[tuple[str, str], list[dict[str, Any]]] = {}
        """Who was refused by its proof, by round and party."""
        self.asked: list[tuple[str, str]] = []
        """Who asked for its standing."""
        self.asked_together: list[int] = []
        """Of how many rounds the states were asked in one request."""
        self.gone: dict[str, Response] = {}
        self.refusals: dict[tuple[str, str], Refusal] = {}
        """What was told, by round and party."""
        self.mirrored: dict[bytes, bytes] = {}
        self.next_number = 0
        self.die_after_enrolment = False
        self.app = Starlette(
            routes=[
                Route("/.well-known/tacit-coordinator", self._who),
                Route("/v1/enrolments", self._enrol, methods=["POST"]),
                Route("/v1/seal-keys/{hash}", self._seal_key),
                Route("/v1/rounds", self._list),
                Route("/v1/rounds/states", self._several, methods=["POST"]),
                Route("/v1/rounds/{round}", self._one),
                Route("/v1/rounds/{round}/refusal", self._refuse, methods=["PUT"]),
                Route("/v1/rounds/{round}/standing", self._standing),
            ]
        )
        self.transport = Transport(self.app)

    @property
    def transports(self) -> dict[str, InProcess]:
        wires = {item.url: item.transport for item in self.aggregators}
        return in_process({COORDINATOR: self.transport, **wires})

    def join_token(self, party: str, curators: int | None = None) -> str:
        def grant(service: str, url: str, identity: Identity) -> Grant:
            secret = self.secrets.setdefault((service, party), secrets.token_urlsafe(32))
            return Grant(party=service, url=url, fingerprint=identity.fingerprint, secret=secret)

        return JoinToken(
            party=party,
            kind=PartyKind.CURATOR if curators is None else PartyKind.HOST,
            max_curators=curators or 1,
            coordinator=grant(DEPLOYMENT, COORDINATOR, self.identity),
            aggregators=tuple(grant(a.id, a.url, a.identity) for a in self.aggregators),
            expires=datetime(2099, 1, 1, tzinfo=UTC),
        ).to_text()

    def open_round(
        self,
        query: Query,
        start: datetime,
        end: datetime,
        now: datetime,
        **changes: Any,
    ) -> RoundDescriptor:
        values: dict[str, Any] = {
            "deployment": DEPLOYMENT,
            "round": str(uuid4()),
            "query_id": "query-1",
            "query": query,
            "window": Window(start=start, end=end),
            "opened": now,
            "deadline": now + timedelta(seconds=query.deadline_s),
            "aggregators": tuple(a.entry(now) for a in self.aggregators[: query.aggregators]),
            "roster_version": 1,
            "roster_size": self.next_number,
            "segment_size": segment_size_of(query),
        }
        signer = changes.pop("signer", self.identity)
        descriptor = RoundDescriptor(**{**values, **changes})
        self.rounds[descriptor.round] = signer.sign(DESCRIPTOR_LABEL, descriptor)
        return descriptor

    def finish(self, descriptor: RoundDescriptor, state: str, statements: int = 0) -> None:
        """End a round; `statements`: how many aggregators sign "never frozen"."""
        aborts = []
        for item in self.aggregators[:statements]:
            statement = AbortStatement(
                round=descriptor.round,
                descriptor_hash=descriptor.digest(),
                aggregator=item.id,
                frozen=Frozen.NEVER,
                reason="test",
            )
            aborts.append(item.identity.sign(ABORT_LABEL, statement).model_dump(mode="json"))
        self.states[descriptor.round] = {"state": state, "aborts": aborts}

    def total(self, descriptor: RoundDescriptor) -> NDArray[np.int64]:
        """What the aggregators would open, after checking that they hold the same numbers."""
        query = descriptor.query
        if is_proved(query):
            return self._proved_total(descriptor)
        chosen = self.aggregators[: query.aggregators]
        held = [item.words.get(descriptor.round, {}) for item in chosen]
        assert all(h.keys() == held[0].keys() for h in held)
        sharing = scheme(query)
        partials = {}
        for index, words in enumerate(held):
            rows = np.array([words[n] for n in sorted(words)], np.uint64)
            zero = np.zeros(dimension(query), np.uint64)
            partials[index] = sharing.add(zero, rows.reshape(-1, zero.size))
        return sharing.combine(partials)

    def _proved_total(self, descriptor: RoundDescriptor) -> NDArray[np.int64]:
        """After checking that every proof holds."""
        plan = proof_plan(descriptor.query)
        chosen = self.aggregators[: descriptor.query.aggregators]
        held = [item.plaintexts[descriptor.round] for item in chosen]
        assert all(each.keys() == held[0].keys() for each in held)
        context = proved_pieces.proof_context(descriptor.digest())
        total = np.zeros(dimension(descriptor.query), np.int64)
        for numbers in held[0]:
            proof = plan.of(len(numbers))
            found = []
            for index, each in enumerate(held):
                rows = proved_pieces.rows_of(proof.prio3, index, [each[numbers]])
                taken = proved_pieces.unpack(proof.prio3, index, rows)
                assert proved_pieces.in_field(proof.prio3, index, taken).all()
                shares = taken.nonces, taken.public_shares, taken.input_shares
                found.append(proof.prio3.verify(bytes(32), context, index, *shares))
            decision = proof.prio3.decide(context, [each.verifier_shares for each in found])
            for each in found:
                assert proof.prio3.outcomes(each, decision).tolist() == [Outcome.ACCEPTED]
            every = np.ones(1, np.bool_)
            partials = [proof.prio3.aggregate(each.output_shares, every) for each in found]
            total += np.array(proof.prio3.unshard_centred(partials))
        numbers_of = [len(numbers) for numbers in held[0]]
        return total + np.array(plan.offset(0, numbers_of))

    def result(self, descriptor: RoundDescriptor) -> dict[str, Any]:
        return decode(descriptor.query, self.total(descriptor))

    def members(self, descriptor: RoundDescriptor) -> set[int]:
        first = self.aggregators[0]
        proved = first.plaintexts.get(descriptor.round, {})
        return set(first.words.get(descriptor.round, {})).union(*proved)

    async def _seal_key(self, request: Request) -> Response:
        """The mirror, which may lie: `mirrored` is what it serves under a hash."""
        found = self.mirrored.get(parse_binary(request.path_params["hash"]))
        return problem(404, "unknown_seal_key") if found is None else Response(found)

    async def _who(self, _: Request) -> Response:
        return JSONResponse(
            {"deployment": DEPLOYMENT, "identity_key": encode_binary(self.identity.public_key)}
        )

    async def _enrol(self, request: Request) -> Response:
        signed = parse_json(await request.body(), Signed[Enrolment])
        body = verify(ENROLMENT_LABEL, signed, signed.statement.identity_key)
        assert body.first is None
        assert body.secret == self.secrets[DEPLOYMENT, body.party]
        if body.party not in self.numbers:
            if body.kind is PartyKind.HOST:
                self.next_number = -(-self.next_number // 64) * 64
            self.numbers[body.party] = self.next_number
            self.next_number += len(body.curators)
        token = self.tokens[body.party] = secrets.token_urlsafe(32)
        if self.die_after_enrolment:
            self.die_after_enrolment = False
            return Response(status_code=500)
        return JSONResponse(
            {
                "party": body.party,
                "first": self.numbers[body.party],
                "curators": len(body.curators),
                "roster_version": 1,
                "token": token,
            },
            201,
        )

    def _known(self, request: Request) -> bool:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return token in self.tokens.values()

    async def _list(self, request: Request) -> Response:
        if not self._known(request):
            return problem(401, "token_unknown")
        shown = [r for name, r in self.rounds.items() if name not in self.states]
        document = {"rounds": [*self.junk, *(item.model_dump(mode="json") for item in shown)]}
        return Response(to_json(document), media_type="application/json")

    async def _standing(self, request: Request) -> Response:
        token = request.headers["authorization"].removeprefix("Bearer ")
        (party,) = [name for name, own in self.tokens.items() if own == token]
        self.asked.append((request.path_params["round"], party))
        found = self.standing.get((request.path_params["round"], party), [])
        return JSONResponse({"round": request.path_params["round"], "refused": found})

    async def _refuse(self, request: Request) -> Response:
        token = request.headers["authorization"].removeprefix("Bearer ")
        party = next(name for name, known in self.tokens.items() if known == token)
        body = parse_json(await request.body(), Refusal)
        self.refusals[request.path_params["round"], party] = body
        return Response(status_code=204)

    async def _several(self, request: Request) -> Response:
        ids = (await request.json())["rounds"]
        if not self._known(request) or self.gone.keys() & set(ids):
            return problem(401, "token_unknown")
        self.asked_together.append(len(ids))
        known = {"state": "open", "aborts": []}
        found = [{"id": each, **self.states.get(each, known)} for each in ids]
        return Response(to_json({"rounds": found}), media_type="application/json")

    async def _one(self, request: Request) -> Response:
        if not self._known(request):
            return problem(401, "token_unknown")
        round_id = request.path_params["round"]
        if round_id in self.gone:
            return self.gone[round_id]
        state = self.states.get(round_id, {"state": "open", "aborts": []})
        return Response(to_json(state), media_type="application/json")
