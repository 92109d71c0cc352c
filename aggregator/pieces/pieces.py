"""Accepting pieces: open the seal, store durably, then answer.

Spec: aggregation, section 6, step 4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aggregator.context import Aggregator, RoundContext
from aggregator.pieces.intake import Intake, Outcome, PiecesItem
from aggregator.pieces.unsealing import LonePiece, open_lone, open_sealed_batch
from aggregator.pieces.verify_keys import demand_key
from aggregator.store.roster import Party
from tacit.errors import DomainError
from tacit.protocol.round import Piece

_INLINE_BYTES = 256 * 1024
"""Opened by the loop itself, in a tenth of a millisecond: a thread would cost as much again."""
_IN_A_ROW = 64
"""Lone pieces opened before the loop serves others: 5 ms where every seal key must be derived."""


async def accept_batch(
    aggregator: Aggregator, intake: Intake, context: RoundContext, sender: Party, body: bytes
) -> Outcome:
    """Open and store one batch; raises its problem."""
    await demand_key(aggregator, context)
    if len(body) > _INLINE_BYTES:
        item = await asyncio.to_thread(open_sealed_batch, aggregator, context, sender, body)
    else:
        item = open_sealed_batch(aggregator, context, sender, body)
    outcome: Outcome = await intake.submit(item)
    return outcome


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
    for index, (sender, piece) in enumerate(pieces):
        if index % _IN_A_ROW == _IN_A_ROW - 1:
            await asyncio.sleep(0)
        try:
            opened.append(open_lone(aggregator, context, sender, piece))
            answers.append(None)
        except DomainError as error:
            answers.append(error)
    stored = iter(await intake.submit(PiecesItem(context, tuple(opened))) if opened else ())
    return [next(stored) if answer is None else answer for answer in answers]
