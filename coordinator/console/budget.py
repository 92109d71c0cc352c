"""The page of the budget: how much was released about one curator, and how long the rest lasts.

Spec: console, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, Final

from fastapi import Response
from markupsafe import Markup
from pydantic import ValidationError

from common.web.console import charts, formatting
from common.web.console.pages import console_router
from coordinator import queries
from coordinator.api.budget import overview_of
from coordinator.api.plans import history_of
from coordinator.budget.limits import Limit
from coordinator.budget.outlook import outlook_of
from coordinator.budget.plans import (
    Asked,
    History,
    HistoryRequest,
    LimitOutlook,
    OutlookRequest,
    SpentPoint,
)
from coordinator.console.visits import Person
from coordinator.queries import Stop, Tries, at_epsilon, at_rho
from coordinator.services import CoordinatorServices, Services
from coordinator.store import queries as query_store
from tacit.accounting.amounts import format_nano
from tacit.accounting.scenarios import Scenario
from tacit.answers.budget import Released, ReleasedAmount
from tacit.errors import DomainError
from tacit.noise.gaussian_privacy import zcdp_epsilon
from tacit.query.mechanisms import is_gaussian
from tacit.query.query import Query
from tacit.query.terms import Mechanism
from tacit.report.model import guess
from tacit.wire import format_exact

router = console_router()


EPSILONS: Final = tuple(
    Fraction(text)
    for text in "0.01 0.02 0.05 0.075 0.1 0.2 0.35 0.5 0.75 1 1.5 2.5 4 8".split()  # noqa: SIM905
)
"""The stops of the slider."""
RHOS: Final = tuple(
    Fraction(text)
    for text in "0.0001 0.0003 0.001 0.002 0.003 0.005 0.01 0.02 0.05 0.1 0.3 1".split()  # noqa: SIM905
)
"""Its stops where a limit, or the query itself, is in rho."""
_THREE: Final = Context(prec=3, rounding=ROUND_CEILING)
PERIODS: Final = {
    "a day": 86_400,
    "a week": 7 * 86_400,
    "30 days": 30 * 86_400,
    "365 days": 365 * 86_400,
}
EXAMPLES: Final = ("1", "4", "10")
"""Limits to show where there is none."""
SAID: Final = {
    "limits": "The limits hold from now on.",
    "recorded": "It is in the ledger.",
}


@dataclass(frozen=True)
class Choice:
    """A stop of the slider: the error of a sum, the guess, and until when the limit lasts: None
    if the schedule ends first. `rho`: what a round costs in zCDP; None if that was not computed.
    `epsilon`: for a stop in rho its epsilon at the query's delta, to three digits."""

    epsilon: str
    rho: str | None
    half_width: str | None
    unit: str
    guess: str
    until: datetime | None


@router.get("/budget")
async def show_budget(
    visit: Person,
    services: Services,
    limit: int = 0,
    query_id: str = "",
    period_s: int | None = None,
    delta: str = "",
) -> Response:
    overview = await overview_of(services, operator=visit.operator, delta=delta or None)
    async with services.database.reading() as transaction:
        query_rows = await query_store.page(transaction, None, 500)
        running = {row.id for row in await query_store.scheduled(transaction)}
    whole_outlook = await outlook_of(
        services.database, services.ledger, services.clock, OutlookRequest()
    )
    chosen = whole_outlook.limits[limit] if 0 <= limit < len(whole_outlook.limits) else None
    past = None
    if chosen is not None:
        past = await history_of(services, _past(chosen))
    row = next(
        (query_row for query_row in query_rows if query_row.id == query_id),
        next(
            (query_row for query_row in query_rows if query_row.id in running),
            query_rows[-1] if query_rows else None,
        ),
    )
    choices: list[Choice] = []
    other_rows: list[query_store.QueryRow] = []
    if row is not None and row.query.mechanism is not Mechanism.EXACT:
        schedule = row.query.schedule
        period_s = schedule.period_s if schedule else (period_s or 86_400)
        other_rows = [
            query_row
            for query_row in query_rows
            if query_row.id in running and query_row.id != row.id
        ]
        in_rho = chosen is not None and chosen.limit.zcdp is not None
        choices = await what_if(services, row.query, period_s, other_rows, chosen, in_rho=in_rho)
    return visit.show(
        "budget.html",
        overview=overview,
        outlook=whole_outlook,
        place=limit,
        chosen=chosen,
        picture=picture(past, chosen),
        unbounded=unbounded_since(past),
        past=past,
        queries=query_rows,
        row=row,
        period_s=period_s,
        periods=PERIODS,
        choices=choices,
        start=_start(choices, row),
        worst=_assumed(overview.released),
        delta=delta,
        others=len(other_rows),
        examples=EXAMPLES,
        together=together,
        guessed=guessed,
        amount=amount,
        percent=percent,
        exact=format_exact,
        said=visit.said(SAID),
    )


def together(epsilon: str, delta: str, zcdp: tuple[str, str] | None = None) -> int:
    """A composed figure as the guessing game shows it: cases of 100; `zcdp`: the same in rho
    with its delta."""
    return formatting.hundred(guess([(epsilon, delta)], zcdp))


def guessed(limit: Limit) -> int:
    """The largest share of right guesses after everything that a limit with a delta admits, as
    cases of 100."""
    zcdp = limit.zcdp
    delta = format_exact(limit.delta or Fraction(0))
    rho = None if zcdp is None else (format_nano(max(0, zcdp.most_rho())), delta)
    return together(format_exact(limit.epsilon), delta, rho)


async def what_if(
    services: CoordinatorServices,
    query: Query,
    period_s: int,
    others: Sequence[query_store.QueryRow],
    chosen: LimitOutlook | None,
    *,
    in_rho: bool,
) -> list[Choice]:
    """The query at each stop of the slider, for Gaussian noise those in rho on request; the
    other schedules are unchanged."""
    stops = _fitting(query) if in_rho and is_gaussian(query) else Tries(EPSILONS)
    try:
        preview = await queries.preview(services.database, query, services.settings, stops)
    except DomainError:
        return []
    found = []
    for stop in preview.stops or ():
        lasts: LimitOutlook | None = None
        rho = None
        if chosen is not None:
            tried = at_rho(query, stop.rho) if stop.rho in stops.rhos else None
            outlook_request = OutlookRequest(
                queries=(
                    Asked(query=tried or at_epsilon(query, stop.epsilon), period_s=period_s),
                    *(Asked(query_id=other.id) for other in others),
                ),
                limits=(chosen.limit,),
            )
            outlook = await outlook_of(
                services.database, services.ledger, services.clock, outlook_request
            )
            [lasts], rho = outlook.limits, outlook.schedules[0].rho
        found.append(_choice(stop, query, lasts, rho))
    return found


def _fitting(query: Query) -> Tries:
    """The stops in rho at which the query is valid: at large ones the noise can be too small."""
    rhos = []
    for rho in RHOS:
        with suppress(ValidationError):
            at_rho(query, rho)
            rhos.append(rho)
    return Tries(rhos=tuple(rhos))


def _choice(stop: Stop, query: Query, lasts: LimitOutlook | None, rho: str | None) -> Choice:
    parts = (stop.error or {}).get("parts", ())
    epsilon = format_exact(stop.epsilon)
    in_rho = stop.rho in RHOS and stop.epsilon not in EPSILONS
    return Choice(
        epsilon=f"{_THREE.create_decimal(epsilon):f}" if in_rho else epsilon,
        rho=format_exact(stop.rho) if in_rho and stop.rho is not None else rho,
        half_width=parts[0]["interval"]["half_width"] if parts else None,
        unit=parts[0]["unit"] if parts else query.unit,
        guess=stop.guess,
        until=None if lasts is None else lasts.exhausted,
    )


def _start(choices: Sequence[Choice], row: query_store.QueryRow | None) -> int:
    """The stop that is nearest to the query's own epsilon."""
    if row is None or not choices:
        return 0
    if row.query.rho is not None:
        own_epsilon = Fraction(zcdp_epsilon(float(row.query.rho), float(row.query.delta)))
        return min(
            range(len(choices)), key=lambda at: abs(Fraction(choices[at].epsilon) - own_epsilon)
        )
    own_epsilon = row.query.epsilon_i or row.query.epsilon_s or Fraction(1)
    return min(range(len(choices)), key=lambda at: abs(Fraction(choices[at].epsilon) - own_epsilon))


def _past(chosen: LimitOutlook) -> HistoryRequest:
    limit = chosen.limit
    fields: dict[str, Any] = {"from": chosen.begins} if chosen.begins is not None else {}
    return HistoryRequest(
        unit=limit.unit, scenario=limit.scenario, period_s=limit.period_s, **fields
    )


def unbounded_since(past: History | None) -> SpentPoint | None:
    """The first point from which on no finite bound holds."""
    if past is None:
        return None
    return next((point for point in past.points if "inf" in (point.epsilon, point.rho)), None)


def picture(past: History | None, chosen: LimitOutlook | None) -> Markup | None:
    """What was left of a limit, and what will be; None if there is no finite figure to draw."""
    if past is None or chosen is None or unbounded_since(past) is not None:
        return None
    in_rho = chosen.limit.zcdp is not None
    most = Fraction(chosen.most)

    def left(points: Sequence[SpentPoint]) -> list[tuple[datetime, float]]:
        spent = [(each.at, Fraction(each.rho if in_rho else each.epsilon)) for each in points]
        return [(at, max(0.0, float(most - spent_amount))) for at, spent_amount in spent]

    currency = "rho" if in_rho else "epsilon"
    short = chosen.limit.period_s is not None and chosen.limit.period_s < PERIODS["a day"]
    when = "%d %b %Y, %H:%M UTC" if short else "%d %b %Y"
    sentence = (
        f"{amount(chosen.left)} of {currency} {format_exact(most)} is left on "
        f"{past.points[-1].at:{when}}."
    )
    used_up = chosen.exhausted is not None and chosen.exhausted <= chosen.ends
    if used_up and chosen.exhausted is not None:
        sentence += f" At this pace it is used up on {chosen.exhausted:{when}}."
    elif chosen.limit.period_s is not None:
        sentence += f" It lasts until the period ends on {chosen.ends:{when}}."
    else:
        sentence += f" It lasts beyond {chosen.ends:%d %b %Y}."
    coming = [point for point in left(chosen.points) if point[0] >= past.points[-1].at]
    return charts.burn_down(
        left(past.points),
        coming,
        most=float(most),
        ends=chosen.ends,
        used_up=used_up,
        sentence=sentence,
    )


def percent(share: Fraction) -> str:
    """A share of 100, rounded down."""
    return amount(Decimal(share.numerator * 100) / share.denominator)


def amount(figure: str | Decimal, digits: int = 3) -> str:
    """An amount rounded down to a few significant digits, so that no more is shown than is left."""
    value = Decimal(figure)
    if not value:
        return "0"
    place = Decimal(1).scaleb(value.adjusted() - digits + 1)
    return formatting.grouped((value // place * place).normalize())


def _assumed(released: Released) -> dict[str, ReleasedAmount]:
    """The row of each unit in which the queries' own assumption holds."""
    return {
        unit: next(row for row in rows if row.key == Scenario.ASSUMED.value)
        for unit, rows in (("curator", released.curator), ("record", released.record))
    }
