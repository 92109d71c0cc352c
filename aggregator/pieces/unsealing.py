"""Opens what curators and hosts sealed: checks the header, and reads the words inside.

Spec: aggregation, section 6, step 4. An opened word is checked (its length, its range) and
forgotten; nothing here logs or repeats one.
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
    SealBroken,
    open_batch,
    open_words,
    piece_context,
    read_batch_header,
    spans,
)
from tacit.crypto.sharing import PRIME
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
    header: BatchHeader
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
    if sender.kind is not PartyKind.CURATOR:
        raise UnknownSender("a host sends sealed batches, not lone pieces")
    if sender.first >= context.descriptor.roster_size:
        raise NotInRound
    if context.invited is not None and not context.invited[sender.first]:
        raise NotInGroup
    if len(piece.sealed) != 8 * context.dimension + TAG_BYTES:
        raise WrongLength(extra={"dimension": context.dimension})
    body = b"".join(
        (_EPOCH.pack(piece.key_epoch), piece.nonce, memoryview(piece.sealed)[:-TAG_BYTES])
    )
    lone = LonePiece(sender, piece.sealed[-TAG_BYTES:], body)
    if context.own_key is not None:  # destroyed only after the last round was closed
        check_words(context, words_of(aggregator, context, sender, lone.body, lone.tag))
    return lone


def words_of(
    aggregator: Aggregator, context: RoundContext, sender: Party, body: bytes, tag: bytes
) -> Words:
    """The words of a lone piece's record, (d,)."""
    (epoch,) = _EPOCH.unpack_from(body)
    seal_key = _seal_key(aggregator, context, sender, epoch)
    place = piece_context(
        context.digest, sender.id, aggregator.id, context.index, context.dimension
    )
    try:
        return open_words(seal_key, body[_EPOCH.size : _PREFIX], body[_PREFIX:] + tag, place)
    except SealBroken:
        raise SealBrokenHere from None


def open_sealed_batch(
    aggregator: Aggregator, context: RoundContext, sender: Party, body: bytes
) -> BatchItem:
    """The batch as it will be stored, if it opens here and is valid; raises its problem."""
    try:
        header, offset = read_batch_header(body)
    except SealBroken as error:
        raise SealBrokenHere(str(error)) from None
    check_place(context, sender, header)
    if context.own_key is not None:
        check_words(context, batch_words(aggregator, context, sender, header, body, offset))
    return BatchItem(context, sender, header, body)


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


def check_place(context: RoundContext, sender: Party, header: BatchHeader) -> None:
    """Raise unless the header belongs to this round, aggregator, host and run of numbers."""
    if header.host != sender.id:
        raise NotYourPiece
    if sender.kind is not PartyKind.HOST:
        raise UnknownSender("a lone curator sends pieces, not batches")
    if header.descriptor_hash != context.digest or header.share_index != context.index:
        raise WrongRound
    if header.dimension != context.dimension:
        raise WrongLength(extra={"dimension": context.dimension})
    if sender.first + sender.curators > context.descriptor.roster_size:
        raise NotInRound
    own = spans(sender.first, sender.curators, context.descriptor.segment_size)
    if header.span not in own:
        raise WrongRound("the span is not that of the host's run in one segment")
    if context.invited is not None:
        first, length = header.span.first, header.span.length
        outside = sets.unpack(header.presence, length) & ~context.invited[first : first + length]
        if outside.any():
            raise NotInGroup(extra={"count": int(outside.sum())})


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
