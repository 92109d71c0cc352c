"""What people ask of rounds: open one, freeze it early, end it without a sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from common.runtime.clock import Clock
from common.store.transactions import Database
from common.web import idempotency
from common.web.idempotency import RequestKey, StoredAnswer
from coordinator.errors import RoundClosed
from coordinator.queries import queries
from coordinator.rounds import context, opening, views
from coordinator.rounds.context import Conduct
from coordinator.rounds.opening import OpenRequest
from coordinator.store import rounds as store
from coordinator.store.tables import idempotency_keys
from coordinator.web import encode
from tacit.protocol.round.descriptor import RoundState

OPERATOR_ABORTS: Final = "an operator aborted the round"


@dataclass(frozen=True)
class Asked:
    """The answer to a request for a round, and whether it is one given before."""

    answer: StoredAnswer
    replayed: bool


async def open_round(conduct: Conduct, request: OpenRequest, key: RequestKey | None) -> Asked:
    """Open a round of a query; with the key of a request before, its answer again. Wake the
    conductor afterwards. Raises what `opening.prepare` and `opening.add` raise."""
    database = conduct.database
    async with database.reading() as transaction:
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return Asked(stored, replayed=True)
        query = await queries.find(transaction, request.query_id)
    prepared = await opening.prepare(conduct, query, request)
    # The round and the answer are stored together: there is no key without a round.
    async with database.begin() as transaction:
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return Asked(stored, replayed=True)
        await opening.add(conduct, transaction, prepared)
        row = await context.find(transaction, prepared.signed.statement.round)
        content = encode(views.head(row))
        answer = StoredAnswer(201, content, location=f"/v1/rounds/{row.id}")
        now = conduct.clock.now()
        await idempotency.remember(transaction, idempotency_keys, key, answer, now)
    return Asked(answer, replayed=False)


async def close(database: Database, clock: Clock, round_id: str) -> None:
    """Let an open round freeze now. Raises RoundClosed."""
    async with database.begin() as transaction:
        row = await context.find(transaction, round_id)
        now = clock.now()
        if row.state is not RoundState.OPEN or row.ending is not None:
            raise RoundClosed(extra={"state": row.state.value})
        if now < row.due:
            await store.change(transaction, round_id, RoundState.OPEN, due=now)


async def abort(database: Database, round_id: str) -> None:
    """Wish a round ended without a sum: its conductor does that. Raises RoundClosed."""
    async with database.begin() as transaction:
        row = await context.find(transaction, round_id)
        if row.state is RoundState.RELEASED:
            raise RoundClosed(extra={"state": row.state.value})
        await store.wish_end(transaction, round_id, OPERATOR_ABORTS)
