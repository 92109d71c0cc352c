"""Charges of rounds in the ledger: a debit at the opening, the final charge at the end.

All curators that may participate are debited at the opening; a release charges those in some
aggregator's set permanently. The debits that parties report for a round are compared with these
charges: the curators' own ledgers are the authority; a difference is shown, never settled here.
Spec: budget, section 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Final

import numpy as np
from pydantic import Field

from common.arrays import grown
from common.runtime.clock import Clock, epoch_microseconds, from_epoch_microseconds
from common.store.transactions import Transaction
from coordinator.budget.ledger import SYSTEM
from coordinator.budget.limits import Planned, Shortage, shortages
from coordinator.budget.round_charges import SCENARIOS, UNITS, Price, RoundCharge
from coordinator.budget.spending import Spending
from coordinator.budget.state import LedgerState
from coordinator.errors import BudgetExceeded, UnknownParty, UnknownRound
from coordinator.models.budget_ledger import Draft, Kind, MemberSet
from coordinator.store import ledger as store
from coordinator.store import registry
from tacit import sets
from tacit.accounting.amounts import MICRO, NOTHING, scaled
from tacit.accounting.charges import abort_credit, job_costs, unit_costs
from tacit.accounting.guarantees import priced_text
from tacit.accounting.scenarios import Scenario
from tacit.answers.budget import DebitDifferences, SomeCurators
from tacit.crypto.signing import Signed
from tacit.errors import Invalid
from tacit.protocol.round.descriptor import AbortStatement, RoundDescriptor, RoundId
from tacit.query.query import Query
from tacit.report.figures import epsilon_amount
from tacit.report.model import PrivacyReport
from tacit.sets import Bits
from tacit.wire import Binary, WireModel, format_instant

ONE_DEBIT: Final = (
    "The round is one of a job that is debited once, with its first round: curators let no record "
    "spend more than the job's epsilon in all rounds together."
)
NAMED = 10
"""At most this many curators and rounds are named in a refusal."""


@lru_cache(maxsize=1024)
def _price(text: str, operators: tuple[str, ...] | None) -> Price:
    costs = unit_costs(Query.model_validate_json(text), operators)
    return Price.of({key: scaled(cost) for key, cost in costs.items()})


def price_of(query: Query, operators: Sequence[str] | None = None) -> Price:
    """What a round of this query costs each member. May take a second, once."""
    return _price(priced_text(query), None if operators is None else tuple(operators))


def prices_of(queries: Sequence[tuple[Query, Sequence[str]]]) -> list[Price]:
    """`price_of` of several queries, each with the operators of its aggregators, if known."""
    return [price_of(query, operators or None) for query, operators in queries]


def price_of_job(query: Query, epsilon: Fraction, operators: Sequence[str] | None = None) -> Price:
    """What a job that is debited once costs each member, with its first round; query: of one
    round."""
    costs = job_costs(query, epsilon, operators)
    return Price.of({key: scaled(cost) for key, cost in costs.items()})


PAID: Final = Price.of({(unit, scenario): NOTHING for unit in UNITS for scenario in SCENARIOS})
"""Of a later round of such a job."""


def as_debited(report: PrivacyReport, query: Query, charge: RoundCharge) -> PrivacyReport:
    """The report of a round with its own debit: a job is debited once, with its first round,
    which pays for the others."""
    if charge.price.text == price_of(query, charge.operators).text:
        return report
    assumed = charge.price.cost(query.privacy_unit, Scenario.ASSUMED)
    assert assumed is not None
    assert report.charged is not None
    charged = report.charged.model_copy(
        update={
            "epsilon": epsilon_amount(Fraction(assumed.epsilon, MICRO)),
            "delta": "0",
            "epsilon_all_corrupt": "inf" if assumed.epsilon else "0",
            "delta_all_corrupt": "1" if assumed.epsilon else "0",
        }
    )
    return report.model_copy(
        update={"charged": charged, "assumptions": (*report.assumptions, ONE_DEBIT)}
    )


def planned(state: LedgerState, descriptor: RoundDescriptor, price: Price) -> Planned:
    """The round of a descriptor as the limits see it."""
    window = descriptor.window
    return Planned(
        price,
        members(state, descriptor),
        (epoch_microseconds(window.start), epoch_microseconds(window.end)),
        epoch_microseconds(descriptor.opened),
    )


def members(state: LedgerState, descriptor: RoundDescriptor) -> Bits:
    """The curators that can participate: those of U on the descriptor's roster and in its group."""
    active = state.roster.members()
    active[descriptor.roster_size :] = False
    invited = descriptor.invited()
    if invited is not None:
        active[: invited.size] &= invited[: active.size]
    return active


def debit(state: LedgerState, descriptor: RoundDescriptor, plan: Planned) -> Draft:
    """The event of an opening. Raises BudgetExceeded."""
    exceeded = shortages(state.limits, state.spending, plan)
    if exceeded:
        raise _refused(exceeded, state.spending)
    start, end = plan.window
    return Draft(
        Kind.ROUND_DEBITED,
        SYSTEM,
        {
            "round": descriptor.round,
            "query": descriptor.query_id,
            "made": plan.now,
            "window": [start, end],
            "price": plan.price.to_payload(),
            "members": MemberSet.of(plan.members).text,
            "size": int(plan.members.size),
            "operators": [entry.operator for entry in descriptor.aggregators],
        },
    )


def released(round_id: str, size: int, member_sets: Iterable[bytes]) -> Draft:
    """The event of a release: it charges the curators in any of these bitmaps, one from each
    aggregator."""
    union = np.zeros(sets.byte_length(size), np.uint8)
    for members in member_sets:
        union |= np.frombuffer(members, np.uint8)
    return Draft(
        Kind.ROUND_RELEASED,
        SYSTEM,
        {"round": round_id, "members": MemberSet.packed(union.tobytes(), size).text, "size": size},
    )


def aborted(
    descriptor: RoundDescriptor, statements: Sequence[Signed[AbortStatement]], reason: str
) -> Draft:
    """The event of an abort: it charges all that were debited; a credit needs proof."""
    return Draft(
        Kind.ROUND_ABORTED,
        SYSTEM,
        {
            "round": descriptor.round,
            "credited": abort_credit(descriptor, statements),
            "reason": reason,
        },
    )


def _refused(exceeded: Sequence[Shortage], spending: Spending) -> BudgetExceeded:
    """The refusal with the shortages that cause it. An operator's preview names the curators; an
    error never does."""
    first = exceeded[0].limit
    limits = [{**item.figures(), "windows": _windows(item, spending)} for item in exceeded]
    detail = f"a limit on the unit {first.unit.value} ({first.scenario}) would be passed"
    return BudgetExceeded(detail, extra={"limits": limits})


def _windows(item: Shortage, spending: Spending) -> list[dict[str, str]]:
    """The windows of the rounds that a shortage comes from, the first few."""
    charges = [spending.rounds[name] for name in item.rounds[:NAMED]]
    return [
        {
            "round": charge.round,
            "start": format_instant(from_epoch_microseconds(charge.start)),
            "end": format_instant(from_epoch_microseconds(charge.end)),
        }
        for charge in charges
    ]


async def blocked(transaction: Transaction, exceeded: Sequence[Shortage]) -> list[list[str]]:
    """For an operator: the first curators that each shortage concerns, by name."""
    result = []
    for item in exceeded:
        numbers = [int(number) for number in np.flatnonzero(item.members)[:NAMED]]
        names = await store.curator_names(transaction, numbers)
        result.append([names[number] for number in numbers if number in names])
    return result


# The curators' own ledgers are the authority: a difference is shown, never settled here. Spec:
# budget, section 5.

NAMED_DIFFERENCES = 100


class Acknowledgement(WireModel):
    """Which of its curators a party debited: a bitmap in the order of its numbers."""

    members: Annotated[Binary, Field(max_length=1_250_000)]


class CarriedAcknowledgement(Acknowledgement):
    """One party's acknowledgement of one round, among several in one request: with its own
    token."""

    round: RoundId
    token: Annotated[str, Field(max_length=512)]


class Acknowledgements(WireModel):
    """What the parties of one process say of rounds."""

    reports: Annotated[tuple[CarriedAcknowledgement, ...], Field(min_length=1, max_length=1000)]


async def acknowledge(
    transaction: Transaction,
    state: LedgerState,
    round_id: str,
    party_id: str,
    body: Acknowledgement,
    clock: Clock,
) -> None:
    """Store a party's report. Raises UnknownRound, UnknownParty, Invalid."""
    if round_id not in state.spending.rounds:
        raise UnknownRound
    party = await registry.party(transaction, party_id)
    if party is None:
        raise UnknownParty
    try:
        sets.unpack(body.members, party.curators)
    except ValueError as error:
        raise Invalid(str(error), pointer="/members") from None
    await store.put_acknowledgement(transaction, round_id, party_id, body.members, clock.now())


async def differences(
    transaction: Transaction, state: LedgerState, round_id: str
) -> DebitDifferences:
    """Curators reported as debited that are not charged here, and the reverse."""
    charge = state.spending.rounds.get(round_id)
    if charge is None:
        raise UnknownRound
    parties = await store.list_acknowledgements(transaction, round_id)
    # A party that enrolled after the round may say that it was in it.
    size = max((first + count for _, first, count, _ in parties), default=0)
    charged = grown(state.spending.members_of(charge), size)
    stated, with_statement = np.zeros_like(charged), np.zeros_like(charged)
    for _, first, count, members in parties:
        with_statement[first : first + count] = True
        stated[first : first + count] = sets.unpack(members, count)
    only_there, only_here = with_statement & stated & ~charged, with_statement & charged & ~stated
    numbers = [
        *np.flatnonzero(only_there)[:NAMED_DIFFERENCES],
        *np.flatnonzero(only_here)[:NAMED_DIFFERENCES],
    ]
    names = await store.curator_names(transaction, [int(number) for number in numbers])
    return DebitDifferences(
        round=round_id,
        state=charge.state,
        charged=0 if charge.credited else int(charged.sum()),
        credited=int(charged.sum()) if charge.credited else 0,
        acknowledged_by=[party for party, *_ in parties],
        acknowledged=int(stated.sum()),
        not_acknowledged_yet=int((charged & ~with_statement).sum()),
        debited_but_not_charged=_part(only_there, names),
        charged_but_not_debited=_part(only_here, names),
    )


def _part(members: sets.Bits, names: dict[int, str]) -> SomeCurators:
    numbers = np.flatnonzero(members)
    return SomeCurators(
        curators=int(numbers.size),
        some=[names[int(number)] for number in numbers[:NAMED_DIFFERENCES] if int(number) in names],
    )
