"""Queries: what may be asked. Immutable, known by their hash, with a privacy preview made first.

A query is refused when its sum could wrap, when the deployment does not allow its mechanism or
stance, or (sound stance) when what is verified is weaker than what it declares.
"""

from __future__ import annotations

from collections.abc import Sequence

from common.accounting.headroom import headroom_problem
from common.accounting.scenarios import sound_refusal
from common.models.report import PrivacyReport, Subject
from common.report import query_report
from sqlalchemy.ext.asyncio import AsyncConnection

from common.errors import FieldError
from common.models.query import Mechanism, Query, Stance
from common.service.clock import Clock, uuid7
from coordinator import store
from coordinator.errors import ExactRefused, PaperRefused, QueryRefused, UnknownQuery
from coordinator.settings import CoordinatorSettings
from coordinator.store import AggregatorRow, QueryRow


def check_query(query: Query, settings: CoordinatorSettings, operators: Sequence[str]) -> None:
    """Raise unless this deployment may run the query."""
    if query.mechanism is Mechanism.EXACT and not settings.insecure_allow_exact:
        raise ExactRefused(pointer="/mechanism")
    if query.stance is Stance.PAPER and not settings.allow_paper:
        raise PaperRefused(pointer="/stance")
    if (reason := headroom_problem(query)) is not None:
        raise QueryRefused(reason, errors=(FieldError("/n_max", reason),))
    if query.stance is Stance.SOUND and query.mechanism is not Mechanism.EXACT:
        refusal = sound_refusal(query, operators or None)
        if refusal is not None:
            raise QueryRefused(refusal, errors=(FieldError("/delta", refusal),))


def operators_for(query: Query, rows: Sequence[AggregatorRow]) -> tuple[str, ...]:
    """Who runs the aggregators that a round of the query would use, as far as they are known."""
    chosen = rows[: query.aggregators]
    return tuple(row.operator for row in chosen) if len(chosen) == query.aggregators else ()


async def preview(
    connection: AsyncConnection, query: Query, settings: CoordinatorSettings, query_id: str = ""
) -> PrivacyReport:
    """The report that a result of this query would carry, and the error to expect."""
    operators = operators_for(query, await store.list_aggregators(connection))
    check_query(query, settings, operators)
    subject = Subject(kind="query", id=query_id or query.digest().hex())
    return query_report(query, subject=subject, operators=operators or None)


async def create(
    connection: AsyncConnection, query: Query, settings: CoordinatorSettings, clock: Clock
) -> tuple[QueryRow, bool]:
    """The stored query and whether it is new; the same content is the same query."""
    known = await store.query_by_hash(connection, query.digest())
    if known is not None:
        return known, False
    query_id = str(uuid7(clock))
    report = await preview(connection, query, settings, query_id)
    now = clock.now()
    await store.add_query(connection, query_id, query, report.model_dump_json(), now)
    return QueryRow(query_id, query, report.model_dump_json(), now), True


async def find(connection: AsyncConnection, query_id: str) -> QueryRow:
    """The query of this id. Raises UnknownQuery."""
    row = await store.query(connection, query_id)
    if row is None:
        raise UnknownQuery
    return row
