"""Queries: immutable, identified by their hash, with a privacy preview made first.

A query is refused when its sum could wrap, when the deployment does not allow its mechanism or
stance or demands proofs, or (sound stance) when what is verified is weaker than what it declares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Self

from common.runtime.apart import apart
from common.runtime.clock import Clock, uuid7
from common.store.transactions import Database, Transaction
from coordinator.errors import (
    ExactRefused,
    NotEnoughAggregators,
    PaperRefused,
    ProofRequired,
    QueryRefused,
    UnknownQuery,
)
from coordinator.queries.stops import Preview, Stop, stops
from coordinator.settings import CoordinatorSettings
from coordinator.store import queries as store
from coordinator.store.queries import QueryRow
from coordinator.store.registry import AggregatorRow, host_runs, list_aggregators
from tacit.accounting.debits import sound_refusal
from tacit.accounting.headroom import headroom_problem
from tacit.errors import FieldError
from tacit.query.proofs import is_proved, largest_parts
from tacit.query.query import Query
from tacit.query.words import Mechanism, Stance
from tacit.registers import asked_mismatch
from tacit.report.model import PrivacyReport, Subject
from tacit.report.queries import query_report


@dataclass(frozen=True)
class Permissions:
    """Which queries a deployment allows."""

    insecure_allow_exact: bool
    allow_paper: bool
    require_validity: Literal["proved"] | None

    @classmethod
    def of(cls, settings: CoordinatorSettings) -> Self:
        """Those of the settings."""
        return cls(settings.insecure_allow_exact, settings.allow_paper, settings.require_validity)


def check_query(
    query: Query, settings: CoordinatorSettings | Permissions, operators: Sequence[str]
) -> None:
    """Raise unless this deployment may run the query."""
    if (unsuited := asked_mismatch(query.register_name, query.unit)) is not None:
        raise QueryRefused(
            unsuited.detail, errors=(FieldError(f"/{unsuited.field}", unsuited.detail),)
        )
    if query.mechanism is Mechanism.EXACT and not settings.insecure_allow_exact:
        raise ExactRefused(pointer="/mechanism")
    if query.stance is Stance.PAPER and not settings.allow_paper:
        raise PaperRefused(pointer="/stance")
    if settings.require_validity is not None and not is_proved(query):
        raise ProofRequired(
            'the query declares what contributions may be; write "proved"', pointer="/validity"
        )
    if (reason := headroom_problem(query)) is not None:
        raise QueryRefused(reason, errors=(FieldError("/n_max", reason),))
    if query.stance is Stance.SOUND and query.mechanism is not Mechanism.EXACT:
        refusal = sound_refusal(query, operators or None)
        if refusal is not None:
            raise QueryRefused(refusal, errors=(FieldError("/delta", refusal),))


def operators_for(query: Query, rows: Sequence[AggregatorRow]) -> tuple[str, ...]:
    """The operators of the aggregators that a round of the query would use, as far as known."""
    chosen = rows[: query.aggregators]
    return tuple(row.operator for row in chosen) if len(chosen) == query.aggregators else ()


def urls_for(query: Query, rows: Sequence[AggregatorRow]) -> tuple[str, ...]:
    """The addresses of the aggregators that a round of the query would use, as far as known."""
    return tuple(row.url for row in rows[: query.aggregators])


async def preview(
    database: Database,
    query: Query,
    settings: CoordinatorSettings,
    epsilons: tuple[Fraction, ...] | None = None,
) -> Preview:
    """What somebody who is about to ask should see: the report of a result, or what stands in the
    way; with `epsilons` also what the query would be at each. Raises what `check_query` raises,
    NotEnoughAggregators where some are paired, but too few, and Invalid with the place of an
    epsilon. (A query itself may be made before its aggregators are paired.)"""
    async with database.reading() as transaction:
        rows = await list_aggregators(transaction)
    paired = len(rows)
    if 0 < paired < query.aggregators:
        raise NotEnoughAggregators(
            f"the query asks for {query.aggregators} aggregators, and {paired} "
            f"{'is' if paired == 1 else 'are'} paired: ask for fewer, or pair more first",
            pointer="/aggregators",
            extra={"needed": query.aggregators, "registered": paired},
        )
    digest = query.digest().hex()
    report, found = await _computed(database, query, settings, digest, epsilons)
    return Preview(**dict(report), stops=found)


async def forecast(
    database: Database, query: Query, settings: CoordinatorSettings, query_id: str
) -> PrivacyReport:
    """The report that a result of this query would carry, and the error to expect."""
    report, _ = await _computed(database, query, settings, query_id, None)
    return report


async def _computed(
    database: Database,
    query: Query,
    settings: CoordinatorSettings,
    query_id: str,
    epsilons: tuple[Fraction, ...] | None,
) -> tuple[PrivacyReport, tuple[Stop, ...] | None]:
    """`_report` with the operators and hosts that are paired and enrolled now."""
    async with database.reading() as transaction:
        rows = await list_aggregators(transaction)
        runs = tuple(await host_runs(transaction)) if is_proved(query) else ()
    permissions = Permissions.of(settings)
    operators, urls = operators_for(query, rows), urls_for(query, rows)
    return await apart(_report, query, permissions, operators, urls, runs, query_id, epsilons)


def _report(
    query: Query,
    permissions: Permissions,
    operators: tuple[str, ...],
    urls: tuple[str, ...],
    runs: tuple[tuple[int, int], ...],
    query_id: str,
    epsilons: tuple[Fraction, ...] | None,
) -> tuple[PrivacyReport, tuple[Stop, ...] | None]:
    """The report of a query that may run, and what it would be at each of some epsilons. `runs`:
    first roster number and curators of each host."""
    check_query(query, permissions, operators)
    report = query_report(
        query,
        subject=Subject(kind="query", id=query_id),
        operators=operators or None,
        urls=urls,
        hosts=[largest_parts(query, *run) for run in runs],
    )
    return report, None if epsilons is None else tuple(stops(query, epsilons, operators))


async def known(transaction: Transaction, query: Query) -> QueryRow | None:
    """The stored query of the same content."""
    return await store.find_by_hash(transaction, query.digest())


async def prepare(
    database: Database, query: Query, settings: CoordinatorSettings, clock: Clock
) -> QueryRow:
    """A query that this deployment may run, with its preview, ready to be stored."""
    query_id = str(uuid7(clock))
    report = await forecast(database, query, settings, query_id)
    body = query.canonical().decode()
    return QueryRow(query_id, query.digest(), body, report.model_dump_json(), clock.now())


async def find(transaction: Transaction, query_id: str) -> QueryRow:
    """The query of this id. Raises UnknownQuery."""
    row = await store.find(transaction, query_id)
    if row is None:
        raise UnknownQuery
    return row
