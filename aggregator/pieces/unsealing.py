"""Opens what curators and hosts sealed: checks the header, and reads the words inside.

An opened word is checked (its length, its range) and forgotten; nothing here logs or repeats one.
Spec: aggregation, section 6, step 4; validity, sections 8 and 9.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aggregator.context import Aggregator, RoundContext
from aggregator.errors import (
    NotInGroup,
    NotInRound,
    NotYourPiece,
    OutOfField,
    SealBrokenHere,
    UnknownEpochKey,
    UnknownSender,
    WrongLength,
    WrongRound,
)
from aggregator.store.roster import Party
from tacit import sets
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
    piece_context,
    read_batch_header,
    read_part_header,
    span_within,
)
from tacit.crypto.sharing import PRIME
from tacit.protocol import proved_pieces
from tacit.protocol.enrolment import PartyKind
from tacit.protocol.round import Piece

Words = NDArray[np.uint64]

_EPOCH = struct.Struct("<I")
_PREFIX = _EPOCH.size + NONCE_BYTES


@dataclass(frozen=True, slots=True)
class LonePiece:
    """A piece that was opened: its record for the store, and its owner."""

    sender: Party
    tag: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A batch that was opened."""

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


def open_lone(
    aggregator: Aggregator, context: RoundContext, sender: Party, piece: Piece
) -> LonePiece:
    """The piece as it will be stored, if it opens here and is valid; raises its problem."""
    if piece.sender != sender.id:
        raise NotYourPiece
    if piece.key_epoch is None:
        raise SealBrokenHere("it is sealed under a session, in a round of epoch keys")
    if sender.kind is not PartyKind.CURATOR:
        raise UnknownSender("a host sends sealed batches, not lone pieces")
    if sender.first >= context.descriptor.roster_size:
        raise NotInRound
    if context.invited is not None and not context.invited[sender.first]:
        raise NotInGroup
    if len(piece.sealed) != _content_bytes(context) + TAG_BYTES:
        raise WrongLength(extra=_length_named(context))
    body = b"".join(
        (_EPOCH.pack(piece.key_epoch), piece.nonce, memoryview(piece.sealed)[:-TAG_BYTES])
    )
    lone = LonePiece(sender, piece.sealed[-TAG_BYTES:], body)
    if context.own_key is not None:  # destroyed only after the last round was closed
        check_content(context, content_of(aggregator, context, sender, lone.body, lone.tag))
    return lone


def _content_bytes(context: RoundContext, curators: int = 1) -> int:
    """Bytes inside the seal of a contribution."""
    if context.proofs is None:
        return 8 * context.dimension * curators
    return context.proofs.of(curators).share_bytes(context.index)


def _length_named(context: RoundContext, curators: int = 1) -> dict[str, int]:
    """What a problem says of the right length."""
    if context.proofs is None:
        return {"dimension": context.dimension}
    return {"bytes": _content_bytes(context, curators)}


def content_of(
    aggregator: Aggregator, context: RoundContext, sender: Party, body: bytes, tag: bytes
) -> bytes:
    """What is inside a lone piece's record: little-endian words, or a share with its proof."""
    (epoch,) = _EPOCH.unpack_from(body)
    seal_key = _seal_key(aggregator, context, sender, epoch)
    placed = proved_pieces.piece_context if context.proofs is not None else piece_context
    size = context.dimension if context.proofs is None else _content_bytes(context)
    place = placed(context.digest, sender.id, aggregator.id, context.index, size)
    try:
        return open_octets(seal_key, body[_EPOCH.size : _PREFIX], body[_PREFIX:] + tag, place)
    except SealBroken:
        raise SealBrokenHere from None


def words_of(
    aggregator: Aggregator, context: RoundContext, sender: Party, body: bytes, tag: bytes
) -> Words:
    """The words of a lone piece's record, (d,)."""
    return _words(content_of(aggregator, context, sender, body, tag))


def _words(content: bytes) -> Words:
    return np.frombuffer(content, "<u8").astype(np.uint64, copy=False)


def open_sealed_batch(
    aggregator: Aggregator, context: RoundContext, sender: Party, body: bytes
) -> BatchItem:
    """The batch as it will be stored, if it opens here and is valid; raises its problem."""
    header, _offset = _header_of(context, body)
    check_place(context, sender, header)
    if context.own_key is not None:
        content = batch_content(aggregator, context, sender, body)
        check_content(context, content, header.count)
    return BatchItem(context, sender, header, body)


def _header_of(context: RoundContext, body: bytes) -> tuple[BatchHeader | PartHeader, int]:
    """The header of a batch, in a proved round of a part; and where the ciphertext begins."""
    try:
        if context.proofs is None:
            return read_batch_header(body)
        return read_part_header(body, context.descriptor.segment_size)
    except SealBroken as error:
        raise SealBrokenHere(str(error)) from None


def batch_content(
    aggregator: Aggregator, context: RoundContext, sender: Party, body: bytes
) -> bytes:
    """What is inside a batch or part: little-endian words, or one share with its proof."""
    header, offset = _header_of(context, body)
    seal_key = _seal_key(aggregator, context, sender, header.key_epoch)
    try:
        if isinstance(header, PartHeader):
            return open_part(seal_key, body, offset)
        return open_batch(seal_key, body, offset).astype("<u8", copy=False).tobytes()
    except SealBroken:
        raise SealBrokenHere from None


def batch_words(
    aggregator: Aggregator,
    context: RoundContext,
    sender: Party,
    header: BatchHeader,
    body: bytes,
    offset: int,
) -> Words:
    """The words of a batch, (count * d,)."""
    try:
        return open_batch(_seal_key(aggregator, context, sender, header.key_epoch), body, offset)
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
    if sender.first + sender.curators > context.descriptor.roster_size:
        raise NotInRound
    size, segment = context.descriptor.segment_size, header.span.segment
    if header.span != span_within(sender.first, sender.curators, size, segment):
        raise WrongRound("the span is not that of the host's run in one segment")
    if context.invited is not None:
        first, length = header.span.first, header.span.length
        outside = sets.unpack(header.presence, length) & ~context.invited[first : first + length]
        if outside.any():
            raise NotInGroup(extra={"count": int(outside.sum())})


def _check_length(context: RoundContext, header: BatchHeader | PartHeader) -> None:
    """Raise WrongLength unless each contribution of the batch, or the part, is as long as due."""
    if isinstance(header, BatchHeader):
        if header.dimension != context.dimension:
            raise WrongLength(extra=_length_named(context))
        return
    assert context.proofs is not None
    if header.count > context.proofs.largest_part:
        raise WrongLength("no part has this many curators")
    if header.plaintext_bytes != _content_bytes(context, header.count):
        raise WrongLength(extra=_length_named(context, header.count))


def check_content(context: RoundContext, content: bytes, curators: int = 1) -> None:
    """Raise OutOfField for a word that is no field element, where words have to be."""
    if context.proofs is None:
        check_words(context, _words(content))
        return
    prio3 = context.proofs.of(curators).prio3
    shares = proved_pieces.unpack(
        prio3, context.index, proved_pieces.rows_of(prio3, context.index, [content])
    )
    if not proved_pieces.in_field(prio3, context.index, shares).all():
        raise OutOfField


def check_words(context: RoundContext, words: Words) -> None:
    """Raise OutOfField for a Shamir word that is no field element."""
    if context.in_field and words.size and int(words.max()) >= PRIME:
        raise OutOfField


def _seal_key(aggregator: Aggregator, context: RoundContext, sender: Party, epoch: int) -> bytes:
    public_key = sender.keys.get(epoch)
    if public_key is None:
        raise UnknownEpochKey(extra={"key_epoch": epoch})
    assert context.own_key is not None
    try:
        return aggregator.keyring.seal_key(
            context.own_key, sender.id, public_key, Direction.CURATOR_TO_AGGREGATOR
        )
    except SealBroken:
        raise SealBrokenHere from None
