"""The routes that take pieces, and their acceptance: open the seal, store durably, answer.

The hot path (spec: hot-path, section 2; aggregation, section 6, step 4): its routes are answered
before the framework's router, for speed (`common.web.middleware`). `UploadCounts` counts the
outcome of uploads by hour (spec: console, section 7); no metric distinguishes curators.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Request, Response
from fastapi import Query as Parameter
from pydantic import ValidationError
from pydantic_core import from_json

from aggregator.context import Aggregator, Meters, RoundContext
from aggregator.errors import TooManyPieces, UnknownRound, UnknownSender
from aggregator.pieces.intake import Intake, Outcome, PiecesItem
from aggregator.pieces.peer_seals import demand_key
from aggregator.pieces.unsealing import (
    BatchItem,
    LonePiece,
    check_lone,
    open_lone,
    open_sealed_batch,
    read_batch,
    session_for,
)
from aggregator.roster.enrolment import SenderDirectory
from aggregator.store import pieces as store
from aggregator.store.pieces import UploadKey
from aggregator.store.roster import Party
from aggregator.web import Watcher
from common.bodies import CBOR, JSON, MalformedBody, decode_cbor, encode, invalid_from, parse_json
from common.principals import Scope
from common.runtime.clock import Clock
from common.store.transactions import Database
from common.web.auth import TokenUnknown, authenticate
from common.web.dependencies import part, part_of
from common.web.middleware import Answer
from common.web.openapi import api_router
from common.web.problems import status_of
from common.web.wire import answer, content_type, json_response
from tacit.errors import DomainError, Invalid, UnsupportedForm
from tacit.protocol.round.messages import KEPT, Flow, FlowHour, hour_of, reported
from tacit.protocol.round.pieces import CarriedBatch, CarriedPiece, ItemAnswer, Piece
from tacit.wire import Instant, WireModel

_INLINE_BYTES = 256 * 1024
"""Opened by the loop itself, in a tenth of a millisecond: a thread would cost as much again."""
_PIECES_IN_A_ROW = 64
"""Lone pieces opened before the loop serves others: 5 ms where every seal key must be derived."""
_OF_A_SESSION = 6
"""A piece that begins a session takes as long as this number of other pieces."""


async def accept_batch(
    aggregator: Aggregator, intake: Intake, context: RoundContext, sender: Party, body: bytes
) -> Outcome:
    """Open and store one batch; raises its problem."""
    outcome: Outcome = await intake.submit(await open_received(aggregator, context, sender, body))
    return outcome


async def open_received(
    aggregator: Aggregator, context: RoundContext, sender: Party, body: bytes
) -> BatchItem:
    """One batch as it will be stored; raises its problem."""
    await demand_key(aggregator, context)
    batch = read_batch(context, sender, body)
    session = await session_for(aggregator, context, sender, batch.header.sealed_under, None)
    if len(body) > _INLINE_BYTES:
        return await asyncio.to_thread(open_sealed_batch, context, sender, batch, session)
    return open_sealed_batch(context, sender, batch, session)


async def accept_pieces(
    aggregator: Aggregator,
    intake: Intake,
    context: RoundContext,
    pieces: Sequence[tuple[Party, Piece]],
) -> list[Outcome | DomainError]:
    """Open and store lone pieces, each with its sender; an answer for each."""
    await demand_key(aggregator, context)
    answers: list[Outcome | DomainError | None] = []
    opened: list[LonePiece] = []
    work = 0
    for sender, piece in pieces:
        if work >= _PIECES_IN_A_ROW:
            work = 0
            await asyncio.sleep(0)
        try:
            check_lone(context, sender, piece)
            session = await session_for(aggregator, context, sender, piece.session, piece.announce)
            opened.append(open_lone(aggregator, context, sender, piece, session))
            answers.append(None)
            work += _OF_A_SESSION if session is not None and session.fresh else 1
        except DomainError as error:
            answers.append(error)
            work += 1 if piece.announce is None else _OF_A_SESSION
    stored = iter(await intake.submit(PiecesItem(context, tuple(opened))) if opened else ())
    return [next(stored) if answer is None else answer for answer in answers]


# --- uploads counted by hour ---------------------------------------------------------------------
#
# Counts wait in memory, so that an upload costs no row; a process that is killed loses those since
# the last sweep.

Begin = Annotated[
    Instant | None,
    Parameter(alias="from", description="In the first hour; without it the last 24 hours."),
]
End = Annotated[Instant | None, Parameter(alias="to", description="In the hour after the last.")]


class UploadCounts:
    """Uploads of this process by hour, form and outcome; `settled_s`: how long after an hour the
    counts of all processes are stored."""

    def __init__(self, database: Database, clock: Clock, settled_s: float) -> None:
        self._database, self._clock = database, clock
        self._settled = timedelta(seconds=settled_s)
        self._waiting: Counter[UploadKey] = Counter()

    def add(self, form: str, outcome: str) -> None:
        """Count one upload."""
        self._waiting[hour_of(self._clock.now()), form, outcome] += 1

    async def store(self) -> None:
        """Store the waiting counts, and delete old ones."""
        counts, self._waiting = self._waiting, Counter()
        try:
            async with self._database.begin() as transaction:
                await store.add_uploads(transaction, counts)
                await store.forget_uploads(transaction, self._clock.now() - KEPT)
        except BaseException:
            self._waiting.update(counts)
            raise

    async def reported(self, start: datetime | None, end: datetime | None) -> Flow:
        """The hours from `start` to `end` that are over; without them the last 24."""
        over = hour_of(self._clock.now() - self._settled)
        oldest = over - KEPT
        until = over if end is None else max(oldest, min(over, hour_of(end)))
        first = until - timedelta(days=1) if start is None else max(oldest, hour_of(start))
        async with self._database.reading() as transaction:
            uploads = await store.uploads_between(transaction, first, until)
        hours = (
            FlowHour(hour=hour, form=form, outcomes=shown)  # type: ignore[arg-type]
            for (hour, form), counts in uploads.items()
            if (shown := reported(counts))
        )
        return Flow(until=until, hours=tuple(hours))


router = api_router()


@router.get(
    "/v1/flow",
    tags=["pieces"],
    summary="Uploads by hour, form and outcome: hours that are over, no count below five",
    response_model=Flow,
)
async def get_flow(
    counts: Annotated[UploadCounts, Depends(part(UploadCounts))],
    _: Watcher,
    start: Begin = None,
    end: End = None,
) -> Response:
    return json_response((await counts.reported(start, end)).model_dump_json())


# --- the routes that take pieces -----------------------------------------------------------------

AnyPiece = TypeVar("AnyPiece", bound=WireModel)

OCTETS = "application/octet-stream"
_IN_A_ROW = 16
"""Batches opened before the loop serves others: 4 ms where each is as long as is opened here."""
_STORED = encode(ItemAnswer(index=0, status=Outcome.STORED))
_KNOWN = encode(ItemAnswer(index=0, status=Outcome.KNOWN))


@dataclass(frozen=True, slots=True)
class PieceParts:
    """What the routes need, as one object: a lone piece takes one look-up, not four."""

    aggregator: Aggregator
    intake: Intake
    directory: SenderDirectory
    meters: Meters
    counts: UploadCounts

    def taken(self, form: str, outcome: Outcome) -> None:
        """Count an upload that was answered 200 or 201."""
        self.meters.accepted.labels(form, str(outcome.value)).inc()
        self.counts.add(form, outcome.name.lower())

    def refused(self, form: str, error: DomainError) -> None:
        """Count an upload that was refused."""
        self.meters.refused.labels(form, error.name).inc()
        self.counts.add(form, error.name)


async def take_pieces(request: Request) -> Response:
    """Take lone pieces."""
    return await _counted(request, "lone", _pieces)


async def take_batch(request: Request) -> Response:
    """Take batches of hosts."""
    return await _counted(request, "batch", _batch)


DIRECT: Final[Mapping[str, Answer]] = {
    "/v1/rounds/{round_id}/pieces": take_pieces,
    "/v1/rounds/{round_id}/batches": take_batch,
    "/v1/pieces": take_pieces,
    "/v1/batches": take_batch,
}
"""These POSTs are answered before the framework's router."""


async def _counted(
    request: Request, form: str, take: Callable[[Request, PieceParts, Party], Awaitable[Response]]
) -> Response:
    """Answer an upload and count its outcome; once more if the sender has a new key."""
    parts = part_of(request.app, PieceParts)
    try:
        return await take(request, parts, await _sender(request, parts))
    except DomainError as error:
        parts.refused(form, error)
        raise


async def _sender(
    request: Request, parts: PieceParts, carried: str | None = None, *, fresh: bool = False
) -> Party:
    """The party of the token in a piece, or else of the request's; or the token's problem."""
    if carried is not None:
        party = await parts.directory.find(carried, fresh=fresh)
        if party is None:
            raise TokenUnknown
        return party
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        sender = await parts.directory.find(token.strip(), fresh=fresh)
        if sender is not None:
            return sender
    principal = await authenticate(request)
    principal.demand(Scope.CURATOR)
    raise UnknownSender


async def _batch(request: Request, parts: PieceParts, sender: Party) -> Response:
    form = content_type(request)
    if form not in (OCTETS, CBOR):
        raise UnsupportedForm(extra={"supported": [OCTETS, CBOR]})
    context = await _named(request, parts)
    body = await request.body()
    if form == CBOR:
        return await _batches(request, parts, sender, body)
    if context is None:
        raise UnsupportedForm(extra={"supported": [CBOR]})
    outcome = await accept_batch(parts.aggregator, parts.intake, context, sender, body)
    return _outcome(parts, "batch", outcome)


async def _pieces(request: Request, parts: PieceParts, sender: Party) -> Response:
    form = content_type(request)
    if form not in (JSON, CBOR):
        raise UnsupportedForm(extra={"supported": [JSON, CBOR]})
    context = await _named(request, parts)
    body = await request.body()
    if context is None or _is_array(body, form):
        return await _many(request, parts, sender, body, form)
    piece = parse_json(body, Piece) if form == JSON else _parsed(decode_cbor(body), Piece)
    if isinstance(piece, DomainError):
        raise piece
    (outcome,) = await accept_pieces(parts.aggregator, parts.intake, context, ((sender, piece),))
    if isinstance(outcome, DomainError):
        raise outcome
    return _outcome(parts, "lone", outcome)


async def _named(request: Request, parts: PieceParts) -> RoundContext | None:
    """The round in the path; None if each item names its own. Raises UnknownRound."""
    round_id = request.path_params.get("round_id")
    return None if round_id is None else await parts.aggregator.round(round_id)


async def _round_of(
    request: Request, parts: PieceParts, item: CarriedPiece | CarriedBatch
) -> RoundContext:
    """The round of one item. Raises Invalid or UnknownRound."""
    in_path = request.path_params.get("round_id")
    if item.round is None and in_path is None:
        raise Invalid("an item of a request for several rounds names its round", pointer="/round")
    if None not in (item.round, in_path) and item.round != in_path:
        raise Invalid("the item names another round than the path", pointer="/round")
    return await parts.aggregator.round(item.round or in_path or "")


def _outcome(parts: PieceParts, form: str, outcome: Outcome) -> Response:
    parts.taken(form, outcome)
    return json_response(_STORED if outcome is Outcome.STORED else _KNOWN, outcome.value)


def _is_array(body: bytes, form: str) -> bool:
    if form == CBOR:
        return bool(body) and body[0] >> 5 == 4
    return body.lstrip()[:1] == b"["


def _parsed(value: object, kind: type[AnyPiece]) -> AnyPiece | DomainError:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        return invalid_from(error, value)


async def _many(
    request: Request, parts: PieceParts, sender: Party, body: bytes, form: str
) -> Response:
    """An answer per item; a bad item does not affect the others.

    An item with a token belongs to the token's party, any other to the request's sender. The
    items of one round are stored together.
    """
    items = _items(parts, body, form)
    outcomes: list[Outcome | DomainError] = [UnknownRound()] * len(items)
    by_round: dict[str, list[int]] = {}
    carried: dict[int, _Carried] = {}
    for index, piece in enumerate(
        await asyncio.gather(*(_carried(request, parts, sender, item) for item in items))
    ):
        if isinstance(piece, DomainError):
            outcomes[index] = piece
        else:
            carried[index] = piece
            by_round.setdefault(piece.context.id, []).append(index)

    async def take(places: Sequence[int]) -> None:
        context = carried[places[0]].context
        pieces_carried = [(carried[place].sender, carried[place].piece) for place in places]
        try:
            done = await accept_pieces(parts.aggregator, parts.intake, context, pieces_carried)
        except DomainError as error:
            if len(by_round) == 1:
                raise
            done = [error] * len(places)
        for place, outcome in zip(places, done, strict=True):
            outcomes[place] = outcome

    await asyncio.gather(*map(take, by_round.values()))
    return _answered(request, parts, "lone", outcomes)


async def _batches(request: Request, parts: PieceParts, sender: Party, body: bytes) -> Response:
    """The same for batches, in an array of CBOR; they share a transaction."""

    async def opened(value: object) -> BatchItem | DomainError:
        batch = _parsed(value, CarriedBatch)
        if isinstance(batch, DomainError):
            return batch
        try:
            context = await _round_of(request, parts, batch)
            open_batch = partial(open_received, parts.aggregator, context)
            batch_sender = (
                sender if batch.token is None else await _sender(request, parts, batch.token)
            )
            return await open_batch(batch_sender, batch.body)
        except DomainError as error:
            return error

    batches: list[BatchItem | DomainError] = []
    for number, value in enumerate(_items(parts, body, CBOR), 1):
        batches.append(await opened(value))
        if number % _IN_A_ROW == 0:
            await asyncio.sleep(0)  # the loop serves others meanwhile
    stored = iter(
        await parts.intake.submit_all([item for item in batches if isinstance(item, BatchItem)])
    )
    outcomes = [item if isinstance(item, DomainError) else next(stored) for item in batches]
    for outcome in outcomes:
        if not isinstance(outcome, Outcome | DomainError):
            raise outcome
    return _answered(request, parts, "batch", outcomes)


def _items(parts: PieceParts, body: bytes, form: str) -> list[object]:
    """The items of an array. Raises MalformedBody or TooManyPieces."""
    try:
        items = decode_cbor(body) if form == CBOR else from_json(body, allow_inf_nan=False)
    except ValueError:
        raise MalformedBody from None
    if not isinstance(items, list):
        raise MalformedBody
    if len(items) > parts.aggregator.settings.max_pieces:
        raise TooManyPieces(extra={"max_pieces": parts.aggregator.settings.max_pieces})
    return items


def _answered(
    request: Request, parts: PieceParts, form: str, outcomes: Sequence[Outcome | DomainError]
) -> Response:
    shown = []
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, DomainError):
            parts.refused(form, outcome)
            shown.append(_refused(index, outcome))
        else:
            parts.taken(form, outcome)
            shown.append({"index": index, "status": outcome.value})
    return answer(request, shown)


@dataclass(frozen=True, slots=True)
class _Carried:
    """A piece of an array, with its sender and its round."""

    sender: Party
    piece: Piece
    context: RoundContext


async def _carried(
    request: Request, parts: PieceParts, sender: Party, value: object
) -> _Carried | DomainError:
    """A piece of an array with its sender, who may have a new key; or its problem."""
    piece = _parsed(value, CarriedPiece)
    if isinstance(piece, DomainError):
        return piece
    try:
        context = await _round_of(request, parts, piece)
        if piece.token is not None:
            sender = await _sender(request, parts, piece.token)
    except DomainError as error:
        return error
    return _Carried(sender, piece, context)


def _refused(index: int, error: DomainError) -> dict[str, Any]:
    detail = error.detail
    if "included" in error.extra:
        detail = "This very piece is in" if error.extra["included"] else "This piece is not in"
    shown = {"index": index, "status": status_of(error), "problem": error.name, "detail": detail}
    if "included" in error.extra:
        shown["included"] = error.extra["included"]
    return shown
