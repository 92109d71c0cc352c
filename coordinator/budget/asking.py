"""What is asked of the budget, by routes and by pages: its figures, verification, limits."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Any

from common.store.database import exclusive
from common.store.transactions import Database, Transaction
from common.web.auth import Principal
from coordinator.budget import statement
from coordinator.budget.ledger import LOCK, Ledger
from coordinator.budget.limits import Limit
from coordinator.budget.roster import Status
from coordinator.budget.state import LedgerState
from coordinator.budget.statement import Tight
from coordinator.budget.updates import actor_of
from coordinator.errors import UnknownCurator
from coordinator.models.budget_events import Break, Draft, Kind
from coordinator.queries import queries
from coordinator.store import ledger as store
from coordinator.store.ledger import CuratorRow
from tacit.errors import FieldError, Invalid
from tacit.query.query import Query
from tacit.query.words import Function, Mechanism
from tacit.wire import WireModel, parse_exact


class LimitsBody(WireModel):
    """The limits that hold from now on, in place of those before; an empty list lifts them."""

    limits: tuple[Limit, ...]


async def overview_of(
    database: Database,
    ledger: Ledger,
    *,
    operator: bool,
    query_id: str | None = None,
    delta: str | None = None,
) -> dict[str, Any]:
    """What the sources claim, what holds of what was released, and the limits; names of curators
    and disclosures for operators alone. Raises UnknownQuery, Invalid with the field."""
    at = _delta(delta)
    async with database.reading() as transaction:
        state = await ledger.current(transaction)
        query = None if query_id is None else await _local(transaction, query_id)
        tight_at = None if at is None else Tight(at, await _queries(transaction, state))
        names = _Names()
        shown = {
            **statement.overview(state),
            "claimed": await asyncio.to_thread(
                statement.claimed, state, query, disclosures=operator
            ),
            "released": await asyncio.to_thread(
                statement.released, state, tight_at, names if operator else None
            ),
            "limits": [statement.limit(item) for item in state.limits.deployment],
        }
        await names.fill(transaction, shown["released"])
    return shown


async def verification_of(
    database: Database, ledger: Ledger, seq: int | None = None, head: str | None = None
) -> dict[str, Any]:
    """Verify every row: whether each follows from the one before, and `seq` still has the hash
    `head` that was kept."""
    async with database.reading() as transaction:
        rows, newest = await store.head(transaction)
        found = await ledger.verify(transaction)
        if found is None and seq is not None and head is not None:
            kept = await store.hash_of(transaction, seq)
            if kept is None:
                found = Break(rows + 1, f"the tail is missing: row {seq} was there once")
            elif kept.hex() != head:
                found = Break(seq, "the row has another hash than the one that was kept")
    broken = None if found is None else {"row": found.seq, "reason": found.reason}
    return {"verified": found is None, "rows": rows, "head": newest.hex(), "broken": broken}


async def change_limits(
    transaction: Transaction,
    ledger: Ledger,
    caller: Principal,
    body: LimitsBody,
    row: CuratorRow | None,
) -> None:
    """Write the limits of the deployment, or (`row`) of one curator. Raises UnknownCurator."""
    await exclusive(transaction, LOCK)
    state = await ledger.current(transaction)
    if row is not None and state.roster.status(row.number) is Status.UNKNOWN:
        raise UnknownCurator
    payload = {"limits": [item.model_dump(mode="json", exclude_none=True) for item in body.limits]}
    number = None if row is None else row.number
    count = None if row is None else 1
    draft = Draft(Kind.LIMIT_CHANGED, actor_of(caller), payload, number, count)
    await ledger.append(transaction, [draft])


class _Names:
    """Roster numbers that an answer names, and their ids, filled in when they are looked up."""

    def __call__(self, number: int) -> str | None:
        return str(number)

    async def fill(self, transaction: Transaction, released: dict[str, Any]) -> None:
        rows = [
            row["worst"]
            for unit in ("record", "curator")
            for row in released[unit]
            if "worst" in row
        ]
        names = await store.curator_names(transaction, [int(row["curator"]) for row in rows])
        for row in rows:
            row["curator"] = names.get(int(row["curator"]))


def _delta(text: str | None) -> Fraction | None:
    if text is None:
        return None
    try:
        value = parse_exact(text)
    except ValueError as error:
        raise Invalid(errors=(FieldError("/delta", str(error), place="query"),)) from None
    if not 0 <= value < 1:
        raise Invalid(errors=(FieldError("/delta", "must lie in [0, 1)", place="query"),))
    return value


async def _local(transaction: Transaction, query_id: str) -> Query:
    query = (await queries.find(transaction, query_id)).query
    if query.mechanism is not Mechanism.LOCAL or query.function not in (
        Function.SUM,
        Function.COUNT,
    ):
        problem = "the sources' bounds are about sums and counts of mechanism local"
        raise Invalid(problem, errors=(FieldError("/query_id", problem, place="query"),))
    return query


async def _queries(transaction: Transaction, state: LedgerState) -> dict[str, Query]:
    wanted = sorted(state.spending.rounds.queries())
    return {name: (await queries.find(transaction, name)).query for name in wanted}
