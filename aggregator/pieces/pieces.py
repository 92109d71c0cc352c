"""Accepting pieces: open the seal, store durably, then answer.

Spec: aggregation, section 6, step 4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aggregator.context import Aggregator, RoundContext
from aggregator.pieces.intake import Intake, Outcome, PiecesItem
from aggregator.pieces.sessions import session_for
from aggregator.pieces.unsealing import (
    BatchItem,
    LonePiece,
    check_lone,
    open_lone,
    open_sealed_batch,
    read_batch,
)
from aggregator.pieces.verify_keys import demand_key
from aggregator.store.roster import Party
from tacit.errors import DomainError
from tacit.protocol.round.pieces import Piece

_INLINE_BYTES = 256 * 1024
"""Opened by the loop itself, in a tenth of a millisecond: a thread would cost as much again."""
_IN_A_ROW = 64
"""Lone pieces opened before the loop serves others: 5 ms where every seal key must be derived."""
_OF_A_SESSION = 6
"""A piece that begins a session takes as long as this number of other pieces."""


async def accept_batch(
    aggregator: Aggregator, intake: Intake, context: RoundContext, sender: Party, body: bytes
) -> Outcome:
    """Open and store one batch; raises its problem."""
    outcome: Outcome = await intake.submit(await open_batch(aggregator, context, sender, body))
    return outcome


async def open_batch(
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
        if work >= _IN_A_ROW:
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
