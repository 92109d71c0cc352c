"""The aggregator's routes. Each parses, calls one function of the domain, and answers.

The two routes that take pieces are plain Starlette routes, for speed (spec: hot-path, section 2).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi import Query as Parameter
from prometheus_client import Counter, Gauge
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json
from starlette.routing import Route

from aggregator import enrolment, examples, memory, pieces, restoring, rounds, store
from aggregator.context import Aggregator
from aggregator.enrolment import CoordinatorRequest
from aggregator.errors import (
    EnrolmentRefused,
    NotYourParty,
    SamplersFailed,
    TooManyPieces,
    UnknownEpochKey,
    UnknownSender,
)
from aggregator.keys import Keyring, load_identity
from aggregator.pieces import Intake, Outcome
from aggregator.rounds import RelayedPiece
from aggregator.senders import KeyWarmer, SenderDirectory
from aggregator.settings import AggregatorSettings
from aggregator.store import Party
from common.errors import DomainError, UnsupportedForm
from common.models.base import encode_binary
from common.models.enrolment import GRANT_HEADER, Enrolment, EpochKey, GrantRequest
from common.models.round import (
    AbortRequest,
    ItemAnswer,
    ManifestRequest,
    Piece,
    RevealRequest,
    RoundDescriptor,
    RoundState,
)
from common.noise import self_test
from common.randomness import SecureRandom
from common.service.app import add_readiness, build_app
from common.service.auth import (
    Authenticator,
    Principal,
    authenticate,
    ensure_operator_token,
    install_authenticator,
    require,
)
from common.service.bodies import takes
from common.service.body_limit import BodyTooLarge
from common.service.clock import Clock, SystemClock
from common.service.database import check, migrate, open_database, reading
from common.service.logs import describe, get_logger
from common.service.paging import BadCursor, PageQuery, next_link
from common.service.problems import MalformedBody, invalid_from, status_of
from common.service.tokens import Scope
from common.service.wire import (
    CBOR,
    JSON,
    answer,
    content_type,
    decode_cbor,
    encode,
    etag_response,
    parse_cbor,
    parse_json,
    read_body,
)
from common.signing import Signed, fingerprint

VERSION = "0.1.0"
MIGRATIONS = Path(__file__).parent / "migrations"
OCTETS = "application/octet-stream"
READ_S = 300.0
"""How long an enrolment's body may take to arrive."""
LARGE_BYTES = 1 << 20
"""Enrolments that may be longer than this are read one at a time."""

Operator = Annotated[Principal, Depends(require(Scope.OPERATOR))]
Coordinator = Annotated[Principal, Depends(require(Scope.COORDINATOR))]
Curator = Annotated[Principal, Depends(require(Scope.CURATOR))]
Watcher = Annotated[Principal, Depends(require(Scope.COORDINATOR, Scope.OPERATOR))]
Replace = Annotated[bool, Parameter(description="Unpin the coordinator that is pinned now.")]

_RELAYED = TypeAdapter(tuple[RelayedPiece, ...])
_STORED = encode(ItemAnswer(index=0, status=Outcome.STORED))
_KNOWN = encode(ItemAnswer(index=0, status=Outcome.KNOWN))
_logger = get_logger("tacit.aggregator")


@dataclass
class Service:
    """What the routes need; `app.state.service` after the start."""

    aggregator: Aggregator
    intake: Intake
    directory: SenderDirectory
    warmer: KeyWarmer
    samplers_passed: bool
    large: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a large enrolment is read and stored: there is memory for one."""


class Meters:
    """Coarse public metrics: no label tells one curator or round from another."""

    def __init__(self, app: FastAPI) -> None:
        metrics = app.state.metrics
        self.accepted: Counter = metrics.counter(
            "pieces_accepted", "Pieces and batches answered 200 or 201.", ("form", "status")
        )
        self.refused: Counter = metrics.counter(
            "pieces_refused", "Pieces and batches refused, by problem.", ("form", "reason")
        )
        self.rounds: Gauge = metrics.gauge("rounds", "Rounds in the store, by state.", ("state",))
        self.commits: Counter = metrics.counter("commits", "Transactions of the writer.")

    async def count_rounds(self, aggregator: Aggregator) -> None:
        """Bring the gauge of rounds up to date."""
        async with reading(aggregator.engine) as connection:
            found = await store.count_states(connection)
        for state in RoundState:
            self.rounds.labels(state.value).set(found.get(state.value, 0))


def create_app(
    settings: AggregatorSettings,
    *,
    clock: Clock | None = None,
    intake_type: Callable[..., Intake] = Intake,
) -> FastAPI:
    """The aggregator. `intake_type` lets a crash test put a broken writer in the place of ours."""
    time = clock or SystemClock()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = await _start(app, settings, time, intake_type)
        sweeper = asyncio.create_task(_sweep(app, service), name="tacit-sweep")
        try:
            yield
        finally:
            sweeper.cancel()
            await asyncio.gather(sweeper, return_exceptions=True)
            await service.warmer.stop()
            await service.intake.stop()
            await service.aggregator.engine.dispose()

    app = build_app(
        "aggregator",
        settings,
        lifespan,
        version=VERSION,
        description="Sealed pieces in, one partial sum out. It never holds a curator's value.",
        body_limits={
            "/v1/enrolments": settings.enrolment_max_body_bytes,
            "/v1/rounds": settings.round_max_body_bytes,
        },
    )
    app.state.meters = Meters(app)
    _add_pieces(app)
    _add_identity(app, settings)
    _add_enrolment(app)
    _add_rounds(app)
    return app


async def _start(
    app: FastAPI, settings: AggregatorSettings, clock: Clock, intake_type: Callable[..., Intake]
) -> Service:
    engine = open_database(settings.database())
    await migrate(engine, MIGRATIONS)
    await ensure_operator_token(engine, store.tokens, settings, clock)
    keyring = Keyring(
        engine,
        await load_identity(engine),
        settings.aggregator_id,
        clock,
        epoch_s=settings.epoch_s,
        grace_s=settings.epoch_grace_s,
        capacity=settings.cached_senders,
    )
    await keyring.current()
    random = SecureRandom()
    passed = (await asyncio.to_thread(self_test, random)).passed
    aggregator = Aggregator(engine, settings, clock, keyring, random)
    meters: Meters = app.state.meters
    intake = intake_type(aggregator, on_batch=lambda _items, _seconds: meters.commits.inc())
    directory = SenderDirectory(
        engine, clock, ttl_s=settings.sender_ttl_s, capacity=settings.cached_senders
    )
    service = Service(aggregator, intake, directory, KeyWarmer(aggregator), passed)
    app.state.service = service
    install_authenticator(app, Authenticator(engine, store.tokens, clock))
    await intake.start()
    await restoring.recover(aggregator, intake)
    await meters.count_rounds(aggregator)

    async def samplers() -> str | None:
        return None if service.samplers_passed else "the noise samplers failed their self-test"

    add_readiness(app, "database", lambda: check(engine))
    add_readiness(app, "samplers", samplers)
    return service


async def _sweep(app: FastAPI, service: Service) -> None:
    while True:
        await asyncio.sleep(service.aggregator.settings.sweep_s)
        try:
            await rounds.sweep(service.aggregator, service.intake)
            await app.state.meters.count_rounds(service.aggregator)
        except Exception as error:
            _logger.error("sweep_failed", **describe(error))


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _text(body: str, status: int = 200) -> Response:
    return Response(body, status, media_type=JSON)


# --- pieces: the hot path ------------------------------------------------------------------------


def _add_pieces(app: FastAPI) -> None:
    async def take_pieces(request: Request) -> Response:
        return await _counted(request, "lone", _pieces)

    async def take_batch(request: Request) -> Response:
        return await _counted(request, "batch", _batch)

    # first in line, so that no other route is tried before them
    app.router.routes.insert(
        0, Route("/v1/rounds/{round_id}/pieces", take_pieces, methods=["POST"])
    )
    app.router.routes.insert(
        1, Route("/v1/rounds/{round_id}/batches", take_batch, methods=["POST"])
    )
    examples.document_plain_routes(app)


async def _counted(
    request: Request, form: str, take: Callable[[Request, Service, Party], Any]
) -> Response:
    """Answer an upload and count what became of it; once more if the sender has a new key."""
    service = _service(request)
    meters: Meters = request.app.state.meters
    try:
        sender = await _sender(request, service)
        try:
            response: Response = await take(request, service, sender)
        except UnknownEpochKey:
            sender = await _sender(request, service, fresh=True)
            response = await take(request, service, sender)
    except DomainError as error:
        meters.refused.labels(form, error.name).inc()
        raise
    return response


async def _sender(request: Request, service: Service, *, fresh: bool = False) -> Party:
    """The party that the token speaks for, or the problem with the token."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        sender = await service.directory.find(token.strip(), fresh=fresh)
        if sender is not None:
            return sender
    principal = await authenticate(request)
    principal.demand(Scope.CURATOR)
    raise UnknownSender


async def _batch(request: Request, service: Service, sender: Party) -> Response:
    if content_type(request) != OCTETS:
        raise UnsupportedForm(extra={"supported": [OCTETS]})
    context = await service.aggregator.round(request.path_params["round_id"])
    body = await request.body()
    outcome = await pieces.accept_batch(service.aggregator, service.intake, context, sender, body)
    return _outcome(request, "batch", outcome)


async def _pieces(request: Request, service: Service, sender: Party) -> Response:
    form = content_type(request)
    if form not in (JSON, CBOR):
        raise UnsupportedForm(extra={"supported": [JSON, CBOR]})
    context = await service.aggregator.round(request.path_params["round_id"])
    body = await request.body()
    if _is_array(body, form):
        return await _many(request, service, sender, body, form)
    piece = parse_json(body, Piece) if form == JSON else _piece(decode_cbor(body))
    if isinstance(piece, DomainError):
        raise piece
    (outcome,) = await pieces.accept_pieces(
        service.aggregator, service.intake, context, sender, (piece,)
    )
    if isinstance(outcome, DomainError):
        raise outcome
    return _outcome(request, "lone", outcome)


def _outcome(request: Request, form: str, outcome: Outcome) -> Response:
    request.app.state.meters.accepted.labels(form, str(outcome.value)).inc()
    return Response(
        _STORED if outcome is Outcome.STORED else _KNOWN, outcome.value, media_type=JSON
    )


def _is_array(body: bytes, form: str) -> bool:
    if form == CBOR:
        return bool(body) and body[0] >> 5 == 4
    return body.lstrip()[:1] == b"["


def _piece(value: object) -> Piece | DomainError:
    try:
        return Piece.model_validate(value)
    except ValidationError as error:
        return invalid_from(error, value)


async def _many(
    request: Request, service: Service, sender: Party, body: bytes, form: str
) -> Response:
    """An answer per item; one bad item spoils no other."""
    try:
        items = decode_cbor(body) if form == CBOR else from_json(body, allow_inf_nan=False)
    except ValueError:
        raise MalformedBody from None
    if len(items) > service.aggregator.settings.max_pieces:
        raise TooManyPieces(extra={"max_pieces": service.aggregator.settings.max_pieces})
    context = await service.aggregator.round(request.path_params["round_id"])
    parsed = [_piece(item) for item in items]
    good = [item for item in parsed if isinstance(item, Piece)]
    if any(item.key_epoch not in sender.keys for item in good):
        sender = await _sender(request, service, fresh=True)
    done = iter(
        await pieces.accept_pieces(service.aggregator, service.intake, context, sender, good)
    )
    outcomes = [next(done) if isinstance(item, Piece) else item for item in parsed]
    meters: Meters = request.app.state.meters
    shown = []
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, DomainError):
            meters.refused.labels("lone", outcome.name).inc()
            shown.append(_refused(index, outcome))
        else:
            meters.accepted.labels("lone", str(outcome.value)).inc()
            shown.append({"index": index, "status": outcome.value})
    return answer(request, shown)


def _refused(index: int, error: DomainError) -> dict[str, Any]:
    detail = error.detail
    if "included" in error.extra:
        detail = "This very piece is in" if error.extra["included"] else "This piece is not in"
    shown = {"index": index, "status": status_of(error), "problem": error.name, "detail": detail}
    if "included" in error.extra:
        shown["included"] = error.extra["included"]
    return shown


# --- identity and pairing ------------------------------------------------------------------------


def _add_identity(app: FastAPI, settings: AggregatorSettings) -> None:
    @app.get("/.well-known/tacit-aggregator", tags=["identity"], summary="Who this is")
    async def identity(request: Request) -> dict[str, Any]:
        service = _service(request)
        keyring = service.aggregator.keyring
        current = await keyring.current()
        key = keyring.identity.public_key
        return {
            "id": settings.aggregator_id,
            "operator": settings.operator,
            "identity_key": encode_binary(key),
            "fingerprint": fingerprint(key).hex(),
            "fingerprint_base64url": encode_binary(fingerprint(key)),
            "epoch_s": settings.epoch_s,
            "epoch_key": current.signed.model_dump(mode="json"),
            "policy": {
                "min_participants": settings.policy_min_participants,
                "max_curators": settings.policy_max_curators,
                "max_roster": settings.policy_max_roster,
                "max_dimension": settings.policy_max_dimension,
                "max_round_s": settings.policy_max_round_s,
                "allow_exact": settings.insecure_allow_exact,
                "allow_paper": settings.allow_paper,
            },
            "self_test": "passed" if service.samplers_passed else "failed",
            "version": VERSION,
        }

    @app.get("/v1/keys/current", tags=["identity"], summary="The signed key of this epoch")
    async def current_key(request: Request) -> Response:
        current = await _service(request).aggregator.keyring.current()
        return etag_response(request, current.signed.model_dump_json().encode())

    @app.put(
        "/v1/coordinator",
        tags=["identity"],
        summary="Pair with the one coordinator",
        openapi_extra=takes(CoordinatorRequest, examples.COORDINATOR),
    )
    async def pair(request: Request, _: Operator, replace: Replace = False) -> Response:
        body = await read_body(request, CoordinatorRequest)
        answered = await enrolment.pair(_service(request).aggregator, body, replace=replace)
        app.state.authenticator.forget()
        return answer(request, answered)


async def _enrol(request: Request, service: Service, limit: int) -> Response:
    body = await _read_within(request, limit)
    enrolled, new = await enrolment.enrol(service.aggregator, body)
    if not new:  # the token of the answer that was lost is revoked
        service.directory.forget()
        request.app.state.authenticator.forget()
    return answer(request, enrolled, status=201)


async def _read_within(request: Request, limit: int) -> Signed[Enrolment]:
    """The enrolment, if its body ends before the limit and arrives in time."""
    form = content_type(request)
    if form not in (JSON, CBOR):
        raise UnsupportedForm(extra={"supported": [JSON, CBOR]})
    too_large = BodyTooLarge(
        f"{GRANT_HEADER} names no grant that allows as many curators",
        extra={"max_body_bytes": limit},
    )
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large
    chunks, size = [], 0
    try:
        async with asyncio.timeout(READ_S):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise too_large
                chunks.append(chunk)
    except TimeoutError:
        raise MalformedBody("the body did not arrive in time") from None
    body = b"".join(chunks)
    chunks.clear()
    parse = parse_json if form == JSON else parse_cbor
    return await asyncio.to_thread(parse, body, Signed[Enrolment])


def _add_enrolment(app: FastAPI) -> None:
    @app.post(
        "/v1/grants",
        tags=["roster"],
        status_code=201,
        summary="A one-time secret with which a party may enrol",
        openapi_extra=takes(GrantRequest, examples.GRANT),
    )
    async def grant(request: Request, _: Operator) -> Response:
        body = await read_body(request, GrantRequest)
        granted = await enrolment.issue_grant(_service(request).aggregator, body)
        return answer(request, granted, status=201)

    @app.post(
        "/v1/enrolments",
        tags=["roster"],
        status_code=201,
        summary="Enrol a curator or a host with a one-time secret",
        openapi_extra=takes(Signed[Enrolment]),
    )
    async def enrol(request: Request) -> Response:
        service = _service(request)
        named = request.headers.get(GRANT_HEADER)
        limit = await enrolment.largest_body(service.aggregator, named)
        if limit <= LARGE_BYTES:
            return await _enrol(request, service, limit)
        async with service.large:
            try:
                return await _enrol(request, service, limit)
            finally:
                await asyncio.to_thread(memory.give_back)

    @app.put(
        "/v1/parties/{party}/keys/{epoch}",
        tags=["roster"],
        summary="Announce a party's key of a new epoch",
        openapi_extra=takes(Signed[EpochKey]),
    )
    async def announce(request: Request, party: str, epoch: int, caller: Curator) -> Response:
        if caller.subject != party:
            raise NotYourParty
        body = await read_body(request, Signed[EpochKey])
        if body.statement.epoch != epoch:
            raise EnrolmentRefused("another epoch than the path's", pointer="/statement/epoch")
        new = await enrolment.announce_key(_service(request).aggregator, party, body)
        return answer(request, {"party": party, "epoch": epoch}, status=201 if new else 200)

    @app.delete(
        "/v1/parties/{party}", tags=["roster"], status_code=204, summary="A party leaves the roster"
    )
    async def revoke(request: Request, party: str, _: Operator) -> None:
        service = _service(request)
        await enrolment.revoke(service.aggregator, party)
        service.directory.forget()
        app.state.authenticator.forget()

    @app.get("/v1/roster", tags=["roster"], summary="Parties in the order of their enrolment")
    async def roster(request: Request, page: PageQuery, _: Operator) -> Response:
        after = None if page.after is None else page.after[0]
        if isinstance(after, str):
            raise BadCursor
        async with reading(_service(request).aggregator.engine) as connection:
            found = await store.list_parties(connection, after, page.limit)
        shown = [enrolment.public_party(item) for item in found]
        headers = next_link(request, found[-1]["key"]) if len(found) == page.limit else {}
        return etag_response(request, encode({"parties": shown}), headers=headers)


# --- rounds --------------------------------------------------------------------------------------


def _add_rounds(app: FastAPI) -> None:
    async def changed(service: Service) -> None:
        with suppress(Exception):  # a gauge is not worth a failed answer
            await app.state.meters.count_rounds(service.aggregator)

    @app.post(
        "/v1/rounds",
        tags=["rounds"],
        status_code=201,
        summary="Take part in a round",
        openapi_extra=takes(Signed[RoundDescriptor]),
    )
    async def open_round(request: Request, _: Coordinator) -> Response:
        service = _service(request)
        if not service.samplers_passed:
            raise SamplersFailed
        body = await read_body(request, Signed[RoundDescriptor])
        opening, new = await rounds.open_round(service.aggregator, body)
        if new:
            service.warmer.warm(await service.aggregator.round(body.statement.round))
            await changed(service)
        return _text(opening, 201 if new else 200)

    @app.post(
        "/v1/rounds/{round_id}/contributions",
        tags=["rounds"],
        summary="Other aggregators' shares of noise for this one",
        openapi_extra=takes(RelayedPiece),
    )
    async def contribute(request: Request, round_id: str, _: Coordinator) -> Response:
        service, form = _service(request), content_type(request)
        if form not in (JSON, CBOR):
            raise UnsupportedForm(extra={"supported": [JSON, CBOR]})
        body = await request.body()
        try:
            if form == CBOR:
                relayed = _RELAYED.validate_json(encode(decode_cbor(body)))
            else:
                relayed = _RELAYED.validate_json(body)
        except ValidationError as error:
            raise invalid_from(error) from None
        held = await rounds.add_contributions(service.aggregator, service.intake, round_id, relayed)
        return answer(request, {"contributions": held})

    @app.post("/v1/rounds/{round_id}/freeze", tags=["rounds"], summary="Sign whose pieces are in")
    async def freeze(request: Request, round_id: str, _: Coordinator) -> Response:
        service = _service(request)
        signed = await rounds.freeze(service.aggregator, service.intake, round_id)
        await changed(service)
        return _text(signed)

    @app.post(
        "/v1/rounds/{round_id}/commitment",
        tags=["rounds"],
        summary="Sum the manifest, and commit to the partial sum",
        openapi_extra=takes(ManifestRequest),
    )
    async def commit(request: Request, round_id: str, _: Coordinator) -> Response:
        service = _service(request)
        body = await read_body(request, ManifestRequest)
        signed = await rounds.commit(service.aggregator, round_id, body)
        await changed(service)
        return _text(signed)

    @app.post(
        "/v1/rounds/{round_id}/reveal",
        tags=["rounds"],
        summary="The partial sum, after everybody's commitments",
        openapi_extra=takes(RevealRequest),
    )
    async def reveal(request: Request, round_id: str, _: Coordinator) -> Response:
        service = _service(request)
        body = await read_body(request, RevealRequest)
        revealed = await rounds.reveal(service.aggregator, round_id, body)
        await changed(service)
        return _text(revealed)

    @app.post(
        "/v1/rounds/{round_id}/abort",
        tags=["rounds"],
        summary="End a round without a sum, for good",
        openapi_extra=takes(AbortRequest, examples.ABORT),
    )
    async def abort(request: Request, round_id: str, _: Watcher) -> Response:
        service = _service(request)
        body = await read_body(request, AbortRequest)
        signed = await rounds.abort(service.aggregator, service.intake, round_id, body)
        await changed(service)
        return _text(signed)

    @app.get("/v1/rounds/{round_id}", tags=["rounds"], summary="Where a round stands")
    async def one(request: Request, round_id: str, _: Watcher) -> Response:
        shown = await rounds.describe(_service(request).aggregator, round_id)
        return etag_response(request, encode(shown))
