"""Opens what curators and hosts sealed: checks the header, and reads the words inside.

An opened word is checked (its length, its range) and forgotten; nothing here logs or repeats one.
Before every record is its session's key, wrapped: only the round's own key opens what is stored.
Spec: aggregation, section 6, step 4; validity, sections 8 and 9; keys, section 2.4.

Sealing sessions of parties: found by id, begun by a signed announcement, stored.

An announcement comes with the first piece under a session, and with later ones until the party has
an answer; a host sends it before its batches, by the route at the end. Spec: keys, section 2.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from fastapi import Request, Response
from numpy.typing import NDArray

from aggregator.context import Aggregator, AggregatorPart, RoundContext
from aggregator.errors import (
    NotInGroup,
    NotInRound,
    NotPaired,
    NotYourParty,
    NotYourPiece,
    OutOfField,
    SealBrokenHere,
    SealKeyGone,
    SessionRefusedHere,
    TooManySessions,
    UnknownParty,
    UnknownSealKey,
    UnknownSender,
    UnknownSession,
    WrongLength,
    WrongRound,
)
from aggregator.roster.identities import by_any_key
from aggregator.seal_keys import WRAPPED_BYTES, HeldSession, SealSecret
from aggregator.store import roster
from aggregator.store import seal_keys as key_store
from aggregator.store import seal_keys as store
from aggregator.store.roster import Party
from aggregator.store.seal_keys import KeyState, SessionRow
from aggregator.web import Curator
from common.bodies import CBOR
from common.store.database import exclusive
from common.store.transactions import Transaction
from common.web.openapi import api_router, gives, takes
from common.web.wire import answer, read_body
from tacit import sets
from tacit.answers.registry import AnnouncedSession
from tacit.crypto.sealing import (
    NONCE_BYTES,
    TAG_BYTES,
    BatchHeader,
    Direction,
    PartHeader,
    SealBroken,
    open_batch,
    open_octets,
    open_part,
    read_batch_header,
    read_part_header,
    span_within,
)
from tacit.crypto.sharing import PRIME
from tacit.crypto.signing import Signed
from tacit.protocol import sealing_sessions
from tacit.protocol.enrolment import PartyKind
from tacit.protocol.round import pieces as proved_pieces
from tacit.protocol.round.messages import ONLY_PART
from tacit.protocol.round.pieces import Piece
from tacit.protocol.sealing_sessions import Session, SessionEnds, SessionRefused, open_session
from tacit.randomness import SEED_BYTES
from tacit.wire import encode_binary

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class LonePiece:
    """A piece that was opened: its record for the store, and its owner. `session`: what it is
    sealed under."""

    sender: Party
    tag: bytes
    body: bytes
    session: HeldSession | None = None


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """A batch as received, with its header, and where its ciphertext begins."""

    body: bytes
    header: BatchHeader | PartHeader
    offset: int


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A batch that was opened. `body`: its record for the store."""

    context: RoundContext
    sender: Party
    header: BatchHeader | PartHeader
    body: bytes

    @property
    def size(self) -> int:
        return len(self.body)

    @property
    def tag(self) -> bytes:
        return self.body[-TAG_BYTES:]


LONE_PREFIX_BYTES: Final = WRAPPED_BYTES + NONCE_BYTES
"""Bytes of a lone piece's record before its ciphertext."""


def check_lone(context: RoundContext, sender: Party, piece: Piece) -> None:
    """Raise unless a piece is its sender's own, and of this round's format, roster and length."""
    if piece.sender != sender.id:
        raise NotYourPiece
    if sender.kind is not PartyKind.CURATOR:
        raise UnknownSender("a host sends sealed batches, not lone pieces")
    if sender.first >= context.descriptor.roster_size:
        raise NotInRound
    if context.invited is not None and not sets.holds(context.invited, sender.first):
        raise NotInGroup
    if len(piece.sealed) != _lone_bytes(context) + TAG_BYTES:
        raise WrongLength(extra=_length_named(context))


def open_lone(
    aggregator: Aggregator,
    context: RoundContext,
    sender: Party,
    piece: Piece,
    session: HeldSession | None,
) -> LonePiece:
    """A checked piece in its stored form, if it opens here and is valid; raises its problem.
    `session`: under which it is sealed; None if its key is destroyed."""
    opener = b"" if session is None else session.wrapped
    body = b"".join((opener, piece.nonce, memoryview(piece.sealed)[:-TAG_BYTES]))
    lone = LonePiece(sender, piece.sealed[-TAG_BYTES:], body, session)
    if session is None:  # it is not stored: the round takes nothing more
        return lone
    content = _opened(session.key, piece.nonce, piece.sealed, aggregator, context, sender)
    check_content(context, content)
    return lone


def _lone_bytes(context: RoundContext) -> int:
    """Bytes inside the seal of a lone curator's piece."""
    if context.proofs is None:
        return context.declared.content_bytes(context.index, 1, hosted=False)
    return context.proofs.of(1).share_bytes(context.index)


def _part_bytes(context: RoundContext, curators: int) -> int:
    """Bytes of the one plaintext for some of a host's curators."""
    if context.proofs is None:
        return SEED_BYTES
    return context.proofs.of(curators).share_bytes(context.index)


def _length_named(context: RoundContext, curators: int = 1) -> dict[str, int]:
    """The right length, as a problem names it."""
    if context.proofs is None:
        return {"dimension": context.dimension}
    return {"bytes": _part_bytes(context, curators)}


def content_of(
    aggregator: Aggregator, context: RoundContext, sender: Party, body: bytes, tag: bytes
) -> bytes:
    """The content of a lone piece's record: little-endian words, or a share with its proof."""
    start, prefix = WRAPPED_BYTES, LONE_PREFIX_BYTES
    seal_key = _record_key(context, sender, body[:start])
    nonce, sealed = body[start:prefix], body[prefix:] + tag
    return _opened(seal_key, nonce, sealed, aggregator, context, sender)


def _opened(
    seal_key: bytes,
    nonce: bytes,
    sealed: bytes,
    aggregator: Aggregator,
    context: RoundContext,
    sender: Party,
) -> bytes:
    try:
        return open_octets(seal_key, nonce, sealed, _place(aggregator, context, sender))
    except SealBroken:
        raise SealBrokenHere from None


def _place(aggregator: Aggregator, context: RoundContext, sender: Party) -> bytes:
    """The associated data of a sender's lone piece: it opens only there."""
    digest, index = context.digest, context.index
    if context.proofs is not None:
        length = _lone_bytes(context)
        return proved_pieces.piece_context(digest, sender.id, aggregator.id, index, length)
    return sealing_sessions.piece_context(
        digest, sender.id, aggregator.id, index, context.dimension
    )


def words_of(
    aggregator: Aggregator, context: RoundContext, sender: Party, body: bytes, tag: bytes
) -> Words:
    """The words of a lone piece's record, (d,)."""
    content = content_of(aggregator, context, sender, body, tag)
    words: Words = context.declared.opened(context.index, content, 1, hosted=False)[0]
    return words


def batch_words(
    context: RoundContext,
    sender: Party,
    record: bytes,
    header: BatchHeader | PartHeader,
) -> Words:
    """The words of a stored batch (count, d), whose header was read."""
    content = batch_content(context, sender, record)
    return context.declared.opened(context.index, content, header.count, hosted=True)


def read_batch(context: RoundContext, sender: Party, body: bytes) -> ReadBatch:
    """A batch of this round, aggregator, host and run of numbers; raises its problem."""
    batch = ReadBatch(body, *header_of(context, body))
    check_place(context, sender, batch.header)
    return batch


def open_sealed_batch(
    context: RoundContext,
    sender: Party,
    batch: ReadBatch,
    session: HeldSession | None,
) -> BatchItem:
    """The batch in its stored form, if it opens here and is valid; raises its problem."""
    if session is None:  # it is not stored: the round takes nothing more
        return BatchItem(context, sender, batch.header, batch.body)
    check_content(context, _batch_plain(session.key, batch), batch.header.count)
    return BatchItem(context, sender, batch.header, session.wrapped + batch.body)


def received(record: bytes) -> bytes:
    """A stored batch as it was received."""
    return record[WRAPPED_BYTES:]


def header_of(context: RoundContext, body: bytes) -> tuple[BatchHeader | PartHeader, int]:
    """The header of a batch, or of a part if it has one plaintext (a proved share or a seed);
    and the offset of the ciphertext."""
    try:
        if context.proofs is None and not context.declared.seeded(context.index, hosted=True):
            return read_batch_header(body)
        return read_part_header(body, context.descriptor.segment_size)
    except SealBroken as error:
        raise SealBrokenHere(str(error)) from None


def batch_content(context: RoundContext, sender: Party, record: bytes) -> bytes:
    """The content of a stored batch or part: little-endian words, or one share with its proof."""
    body = received(record)
    batch = ReadBatch(body, *header_of(context, body))
    return _batch_plain(_record_key(context, sender, record[:WRAPPED_BYTES]), batch)


def _batch_plain(seal_key: bytes, batch: ReadBatch) -> bytes:
    try:
        if isinstance(batch.header, PartHeader):
            return open_part(seal_key, batch.body, batch.offset)
        words = open_batch(seal_key, batch.body, batch.offset)
        return words.astype("<u8", copy=False).tobytes()
    except SealBroken:
        raise SealBrokenHere from None


def check_place(context: RoundContext, sender: Party, header: BatchHeader | PartHeader) -> None:
    """Raise unless the header belongs to this round, aggregator, host and run of numbers."""
    if header.host != sender.id:
        raise NotYourPiece
    if sender.kind is not PartyKind.HOST:
        raise UnknownSender("a lone curator sends pieces, not batches")
    if header.descriptor_hash != context.digest or header.share_index != context.index:
        raise WrongRound
    _check_length(context, header)
    if context.proofs is not None and header.part != ONLY_PART:
        raise WrongRound("a host's curators in one segment are one part")
    if sender.first + sender.curators > context.descriptor.roster_size:
        raise NotInRound
    size, segment = context.descriptor.segment_size, header.span.segment
    if header.span != span_within(sender.first, sender.curators, size, segment):
        raise WrongRound("the span is not that of the host's run in one segment")
    if context.invited is not None:
        start = header.span.first // 8
        invited = context.invited[start : start + len(header.presence)]
        if outside := sets.count(sets.difference(header.presence, invited)):
            raise NotInGroup(extra={"count": outside})


def _check_length(context: RoundContext, header: BatchHeader | PartHeader) -> None:
    """Raise WrongLength unless each contribution of the batch, or the part, has the required
    length."""
    if isinstance(header, BatchHeader):
        if header.dimension != context.dimension:
            raise WrongLength(extra=_length_named(context))
        return
    if context.proofs is not None and header.count > context.proofs.largest_part:
        raise WrongLength("no part has this many curators")
    if header.plaintext_bytes != _part_bytes(context, header.count):
        raise WrongLength(extra=_length_named(context, header.count))


def check_content(context: RoundContext, content: bytes, hosted: int | None = None) -> None:
    """Raise OutOfField for a word that is no field element, if the content is words; the
    expansion of a seed always consists of field elements. `hosted`: how many of a host's
    curators, None for a lone one."""
    if context.proofs is None:
        if not context.declared.seeded(context.index, hosted=hosted is not None):
            check_words(context, np.frombuffer(content, "<u8").astype(np.uint64, copy=False))
        return
    prio3 = context.proofs.of(1 if hosted is None else hosted).prio3
    shares = proved_pieces.unpack(
        prio3, context.index, proved_pieces.rows_of(prio3, context.index, [content])
    )
    if not proved_pieces.in_field(prio3, context.index, shares).all():
        raise OutOfField


def check_words(context: RoundContext, words: Words) -> None:
    """Raise OutOfField for a Shamir word that is no field element."""
    if context.in_field and words.size and int(words.max()) >= PRIME:
        raise OutOfField


def _record_key(context: RoundContext, sender: Party, opener: bytes) -> bytes:
    """The key of a record, from what it begins with."""
    try:
        return context.seal_secret.wrapping.unwrap(session_name(sender.id), opener)
    except SealBroken:
        raise SealBrokenHere from None


def session_name(party: str) -> str:
    """Under which name the keys of a party's sessions are wrapped."""
    return f"session {party}"


MOST_SESSIONS: Final = 64
"""Of one party under one seal key."""


async def session_for(
    aggregator: Aggregator,
    context: RoundContext,
    sender: Party,
    session: bytes,
    announce: Signed[Session] | None,
) -> HeldSession | None:
    """The session of a piece of this sender; None once the round's key is destroyed and nothing
    more can be stored. Raises UnknownSession or SessionRefusedHere."""
    if context.own_key is None and not context.elsewhere:
        return None
    seal_key = context.seal_secret
    cached = seal_key.sessions.get(sender.key, session)
    if cached is not None:
        return cached
    if announce is not None:
        deployment = context.descriptor.deployment
        return await begun_by(aggregator, seal_key, deployment, sender, announce)
    async with aggregator.database.reading() as transaction:
        wrapped = await store.wrapped_key(transaction, seal_key.number, sender.key, session)
    if wrapped is None:
        raise UnknownSession
    held_session = HeldSession(session, _unwrapped(seal_key, sender, wrapped), wrapped)
    seal_key.sessions.put(sender.key, held_session)
    return held_session


async def begun_by(
    aggregator: Aggregator,
    secret: SealSecret,
    deployment: str,
    sender: Party,
    announce: Signed[Session],
) -> HeldSession:
    """The session that a party announces, not stored yet, by its current key or one whose overlap
    is not over. Raises SessionRefusedHere, IdentitySuperseded."""

    def by(key: bytes) -> HeldSession:
        return begun(aggregator, secret, deployment, replace(sender, identity_key=key), announce)

    return await by_any_key(aggregator, sender, by)


def begun(
    aggregator: Aggregator,
    secret: SealSecret,
    deployment: str,
    sender: Party,
    announce: Signed[Session],
) -> HeldSession:
    """The session that a party announces, by its key. Raises SessionRefusedHere."""
    ends = SessionEnds(
        deployment=deployment,
        party=sender.id,
        party_key=sender.identity_key,
        aggregator=aggregator.id,
        aggregator_key=secret.identity_key,
        direction=Direction.CURATOR_TO_AGGREGATOR,
    )
    try:
        key = open_session(announce, ends, secret.key)
    except SessionRefused as error:
        raise SessionRefusedHere(str(error)) from None
    wrapped = secret.wrapping.wrap(session_name(sender.id), key)
    return HeldSession(announce.statement.session, key, wrapped, fresh=True)


class Beginning:
    """New sessions under one seal key inside one transaction: those that may be stored.

    If another replica has stored a session with the same id, that one is used: a piece sealed
    under other bytes does not open.
    """

    def __init__(
        self, secret: SealSecret, wrapped: dict[int, dict[bytes, bytes]], usable: bool
    ) -> None:
        self._own, self._held, self._usable = secret, wrapped, usable
        self.rows: list[SessionRow] = []
        self.added: list[tuple[int, HeldSession]] = []

    @classmethod
    async def of(
        cls, transaction: Transaction, secret: SealSecret, parties: Iterable[int]
    ) -> Beginning:
        """With what is stored of these parties."""
        stored_sessions = await store.sessions_of_parties(
            transaction, secret.number, sorted(set(parties))
        )
        row = await key_store.by_number(transaction, secret.number)
        return cls(secret, stored_sessions, row is not None and row.state is not KeyState.DESTROYED)

    def add(self, sender: Party, session: HeldSession) -> bool:
        """Store a session; returns whether it is new. Raises SealKeyGone, TooManySessions, or
        SealBrokenHere for other bytes of a known id."""
        if not self._usable:
            raise SealKeyGone
        wrapped = self._held[sender.key]
        stored = wrapped.get(session.id)
        if stored is not None:
            if _unwrapped(self._own, sender, stored) != session.key:
                raise SealBrokenHere("another session of this id is known")
            self.added.append((sender.key, replace(session, wrapped=stored, fresh=False)))
            return False
        if len(wrapped) >= MOST_SESSIONS:
            raise TooManySessions(extra={"most": MOST_SESSIONS})
        wrapped[session.id] = session.wrapped
        self.rows.append(SessionRow(self._own.number, sender.key, session.id, session.wrapped))
        self.added.append((sender.key, replace(session, fresh=False)))
        return True

    async def store(self, transaction: Transaction) -> None:
        """Write them."""
        if self.rows:
            await store.add_session(transaction, self.rows)
            self.rows = []

    def remember(self) -> None:
        """Keep them in memory: after the commit."""
        for party, session in self.added:
            self._own.sessions.put(party, session)


async def announce(aggregator: Aggregator, sender: Party, signed: Signed[Session]) -> bool:
    """Store a session that a party announces separately; returns whether it is new. Raises
    UnknownSealKey, SealKeyGone, SealKeyUnavailable, and the session's own errors."""
    async with aggregator.database.reading() as transaction:
        coordinator = await roster.coordinator(transaction)
        number = await key_store.number_of(transaction, signed.statement.key)
    if coordinator is None:
        raise NotPaired
    if number is None:
        raise UnknownSealKey
    seal_key = await aggregator.seal_keyring.of(number)
    session = await begun_by(aggregator, seal_key, coordinator.deployment, sender, signed)
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, SESSIONS_LOCK)
        beginning = await Beginning.of(transaction, seal_key, [sender.key])
        new = beginning.add(sender, session)
        await beginning.store(transaction)
    beginning.remember()
    return new


SESSIONS_LOCK: Final = "aggregator rounds"
"""That of the writer of pieces, which stores sessions, too."""


def _unwrapped(secret: SealSecret, sender: Party, wrapped: bytes) -> bytes:
    try:
        return secret.wrapping.unwrap(session_name(sender.id), wrapped)
    except SealBroken:
        raise SealKeyGone from None


router = api_router()


@router.put(
    "/v1/parties/{party}/sessions/{session}",
    **gives(AnnouncedSession, 200, 201, also=[CBOR]),
    tags=["pieces"],
    summary="Announce a session under a seal key",
    openapi_extra=takes(Signed[Session]),
)
async def announce_session(
    request: Request, party: str, session: str, aggregator: AggregatorPart, caller: Curator
) -> Response:
    if caller.subject != party:
        raise NotYourParty
    body = await read_body(request, Signed[Session])
    if encode_binary(body.statement.session) != session:
        raise SessionRefusedHere("another session than the path's", pointer="/statement/session")
    async with aggregator.database.reading() as transaction:
        sender = await roster.active_party(transaction, party)
    if sender is None:
        raise UnknownParty
    new = await announce(aggregator, sender, body)
    announced = AnnouncedSession(party=party, session=session)
    return answer(request, announced, status=201 if new else 200)
