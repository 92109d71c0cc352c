"""Queries: immutable, identified by their hash, previewed first; the periods of schedules.

A query is refused when its sum could wrap, or when the deployment does not allow its mechanism or
stance or demands proofs. The preview shows the same query at several epsilons, each with its error
and guarantee (spec: console, section 7 (10)). Period k of a schedule is a half-open window. Spec:
aggregation, section 2; budget, section 3.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import Field, ValidationError

from common.runtime.clock import Clock, uuid7
from common.runtime.compute_processes import apart
from common.store.transactions import Database, Transaction
from coordinator.errors import (
    ExactRefused,
    NotEnoughAggregators,
    PaperRefused,
    ProofRequired,
    QueryRefused,
    UnknownQuery,
)
from coordinator.settings import CoordinatorSettings
from coordinator.store import queries as store
from coordinator.store.queries import QueryRow
from coordinator.store.registry import AggregatorRow, host_runs, list_aggregators
from tacit.accounting.charges import headroom_problem, sound_refusal
from tacit.accounting.scenarios import Scenario
from tacit.errors import FieldError, Invalid
from tacit.query.disclosure import DisclosureRule
from tacit.query.fields import Schedule, Window
from tacit.query.mechanisms import is_gaussian
from tacit.query.proofs import is_proved, largest_parts
from tacit.query.query import Query
from tacit.query.terms import Mechanism, Stance
from tacit.report.model import PrivacyReport, Subject
from tacit.report.queries import query_report
from tacit.units import asked_mismatch
from tacit.wire import Exact, WireModel, canonical_json, format_exact


def periods_over(schedule: Schedule, now: datetime) -> int:
    """How many periods are over."""
    return max(0, (now - schedule.first_start) // timedelta(seconds=schedule.period_s))


def period_window(schedule: Schedule, number: int) -> Window:
    """The window of a period. Raises ValueError beyond the years of an instant."""
    period = timedelta(seconds=schedule.period_s)
    start = schedule.first_start + number * period
    return Window(start=start, end=start + period)


# The same query at several epsilons, each with its error and guarantee. Nothing is spent. Spec:
# console, section 7 (10).

MOST_STOPS: Final = 32


class PreviewRequest(Query):
    """A query, and values to try instead of its own: epsilons, or rhos for Gaussian noise. For
    mechanism two-layer it is the epsilon of the aggregators; that of the curators keeps its
    ratio to it."""

    epsilons: Annotated[tuple[Exact, ...], Field(max_length=MOST_STOPS)] | None = None
    rhos: Annotated[tuple[Exact, ...], Field(max_length=MOST_STOPS)] | None = None

    @property
    def query(self) -> Query:
        """The query alone."""
        fields = self.model_dump(mode="json", exclude_none=True, exclude={"epsilons", "rhos"})
        return Query.model_validate_json(canonical_json(fields))

    @property
    def tries(self) -> Tries | None:
        """What to try; None where nothing is."""
        if self.epsilons is None and self.rhos is None:
            return None
        return Tries(self.epsilons or (), self.rhos or ())


class Tries(NamedTuple):
    """What a query is tried at, in the order of the stops."""

    epsilons: tuple[Fraction, ...] = ()
    rhos: tuple[Fraction, ...] = ()


class Stop(WireModel):
    """The query at another epsilon or rho: the expected error, and the largest share of right
    guesses under the query's own assumption. `rho`: for Gaussian noise; epsilon then follows
    from it at the query's delta."""

    epsilon: Exact
    rho: Exact | None = None
    error: dict[str, Any] | None
    guess: str


class Preview(PrivacyReport):
    """The report of a result, before anything is spent; `stops`: at the requested epsilons, then
    at the requested rhos, in their order."""

    stops: tuple[Stop, ...] | None = None


def stops(query: Query, tries: Tries, operators: tuple[str, ...]) -> list[Stop]:
    """The query at each of these. Raises Invalid with the pointer of an impossible one."""
    stops_found = []
    for place, budget, change in (
        *(
            (f"/epsilons/{at}", epsilon_tried, at_epsilon)
            for at, epsilon_tried in enumerate(tries.epsilons)
        ),
        *((f"/rhos/{at}", rho_tried, at_rho) for at, rho_tried in enumerate(tries.rhos)),
    ):
        try:
            tried = change(query, budget)
        except ValidationError as error:
            raise _refused(place, error.errors()[0]["msg"]) from None
        except ValueError as error:
            raise _refused(place, str(error)) from None
        report = query_report(
            tried, subject=Subject(kind="query", id=""), operators=operators or None
        )
        promised = next(line for line in report.verified if line.key == Scenario.ASSUMED.value)
        rho = None if promised.rho is None else Fraction(promised.rho)
        epsilon = budget if change is at_epsilon else Fraction(promised.epsilon or 0)
        stops_found.append(
            Stop(epsilon=epsilon, rho=rho, error=report.error, guess=promised.guess or "1")
        )
    return stops_found


def _refused(place: str, problem: str) -> Invalid:
    return Invalid(problem, errors=(FieldError(place, problem),))


def at_rho(query: Query, rho: Fraction) -> Query:
    """The same query with another rho. Raises ValueError if its noise is not Gaussian, or cannot
    have this rho."""
    if not is_gaussian(query):
        raise ValueError("only gaussian noise is measured by rho")
    fields = json.loads(query.canonical())
    fields.pop("epsilon", None)
    return Query.model_validate_json(canonical_json(fields | {"rho": format_exact(rho)}))


def at_epsilon(query: Query, epsilon: Fraction) -> Query:
    """The same query with another epsilon. Raises ValueError if it has none, or cannot have this
    one."""
    fields = json.loads(query.canonical())
    match query.mechanism:
        case Mechanism.DISTRIBUTED:
            changed = {"epsilon": epsilon}
            fields.pop("rho", None)
        case Mechanism.LOCAL:
            changed = {"epsilon_i": epsilon}
        case Mechanism.TWO_LAYER:
            assert query.epsilon_s is not None
            assert query.epsilon_u is not None
            curators = query.epsilon_u * epsilon / query.epsilon_s
            changed = {"epsilon_s": epsilon, "epsilon_u": curators}
        case Mechanism.EXACT:
            raise ValueError("mechanism exact has no noise")
    fields |= {name: str(value) for name, value in changed.items()}
    return Query.model_validate_json(canonical_json(fields))


# Queries: immutable, identified by their hash, with a privacy preview made first.
#
# A query is refused when its sum could wrap, when the deployment does not allow its mechanism or
# stance or demands proofs, or (sound stance) when what is verified is weaker than what it declares.


@dataclass(frozen=True)
class Permissions:
    """Which queries a deployment allows."""

    exact_rule: DisclosureRule | None
    allow_paper: bool
    require_validity: Literal["proved"] | None

    @classmethod
    def of(cls, settings: CoordinatorSettings) -> Self:
        """Those of the settings."""
        return cls(settings.exact_rule, settings.allow_paper, settings.require_validity)


def check_query(
    query: Query, settings: CoordinatorSettings | Permissions, operators: Sequence[str]
) -> None:
    """Raise unless this deployment may run the query."""
    if (unsuited := asked_mismatch(query.register_name, query.unit)) is not None:
        raise QueryRefused(
            unsuited.detail, errors=(FieldError(f"/{unsuited.field}", unsuited.detail),)
        )
    if query.rule is not None:
        if settings.exact_rule is None:
            raise ExactRefused(pointer="/mechanism")
        if (weaker := query.rule.weaker_than(settings.exact_rule)) is not None:
            raise ExactRefused(weaker, pointer="/rule")
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
    """The operators of the aggregators that a round of the query would use, as far as they are
    known."""
    chosen = rows[: query.aggregators]
    return tuple(row.operator for row in chosen) if len(chosen) == query.aggregators else ()


def urls_for(query: Query, rows: Sequence[AggregatorRow]) -> tuple[str, ...]:
    """The addresses of the aggregators that a round of the query would use, as far as they are
    known."""
    return tuple(row.url for row in rows[: query.aggregators])


async def preview(
    database: Database,
    query: Query,
    settings: CoordinatorSettings,
    tries: Tries | None = None,
) -> Preview:
    """What an analyst should see before creating a query: the report of a result, or what prevents
    it; with `tries` also the query at each of these.

    Raises what `check_query` raises, NotEnoughAggregators if some are paired, but too few, and
    Invalid with the pointer of a try. (A query can be created before its aggregators are
    paired.)
    """
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
    report, computed_stops = await _computed(database, query, settings, digest, tries)
    return Preview(**dict(report), stops=computed_stops)


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
    tries: Tries | None,
) -> tuple[PrivacyReport, tuple[Stop, ...] | None]:
    """`_report` with the currently paired operators and enrolled hosts."""
    async with database.reading() as transaction:
        rows = await list_aggregators(transaction)
        runs = tuple(await host_runs(transaction)) if is_proved(query) else ()
    permissions = Permissions.of(settings)
    operators, urls = operators_for(query, rows), urls_for(query, rows)
    return await apart(_report, query, permissions, operators, urls, runs, query_id, tries)


def _report(
    query: Query,
    permissions: Permissions,
    operators: tuple[str, ...],
    urls: tuple[str, ...],
    runs: tuple[tuple[int, int], ...],
    query_id: str,
    tries: Tries | None,
) -> tuple[PrivacyReport, tuple[Stop, ...] | None]:
    """The report of a valid query, and the query at each of some tries. `runs`: first roster
    number and curators of each host."""
    check_query(query, permissions, operators)
    report = query_report(
        query,
        subject=Subject(kind="query", id=query_id),
        operators=operators or None,
        urls=urls,
        hosts=[largest_parts(query, *run) for run in runs],
    )
    return report, None if tries is None else tuple(stops(query, tries, operators))


async def known(transaction: Transaction, query: Query) -> QueryRow | None:
    """The stored query of the same content."""
    return await store.find_by_hash(transaction, query.digest())


async def prepare(
    database: Database, query: Query, settings: CoordinatorSettings, clock: Clock
) -> QueryRow:
    """A query that this deployment accepts, with its preview, ready to be stored."""
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
