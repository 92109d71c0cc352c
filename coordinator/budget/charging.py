"""Charges of rounds in the ledger: a debit at the opening, and the final charge at the end.

All curators that may participate are debited at the opening. A release charges permanently those in
some aggregator's signed set; an abort charges all that were debited, since pieces may have left,
unless enough aggregators sign that nothing was frozen (spec: budget, section 5). The curators' own
ledgers are the authority; this is the coordinator's copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from common.runtime.clock import epoch_microseconds, from_epoch_microseconds
from common.store.transactions import Transaction
from coordinator.budget.ledger import SYSTEM
from coordinator.budget.limits import Planned, Shortage, shortages
from coordinator.budget.round_charges import SCENARIOS, UNITS, Price, RoundCharge
from coordinator.budget.spending import Spending
from coordinator.budget.state import LedgerState
from coordinator.errors import BudgetExceeded
from coordinator.models.budget_events import Draft, Kind, MemberSet
from coordinator.store import ledger as store
from tacit import sets
from tacit.accounting.amounts import MICRO, Amount, scaled
from tacit.accounting.credit import abort_credit
from tacit.accounting.guarantees import priced_text
from tacit.accounting.scenarios import Scenario
from tacit.accounting.unit_costs import job_costs, unit_costs
from tacit.crypto.signing import Signed
from tacit.protocol.round.accepted import AcceptedSet
from tacit.protocol.round.descriptor import AbortStatement, RoundDescriptor
from tacit.query.query import Query
from tacit.report.figures import epsilon_amount
from tacit.report.model import PrivacyReport
from tacit.sets import Bits
from tacit.wire import format_instant

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


def prices_of(asked: Sequence[tuple[Query, Sequence[str]]]) -> list[Price]:
    """`price_of` of several queries, each with the operators of its aggregators, if known."""
    return [price_of(query, operators or None) for query, operators in asked]


def price_of_job(query: Query, epsilon: Fraction, operators: Sequence[str] | None = None) -> Price:
    """What a job that is debited once costs each member, with its first round; query: of one."""
    costs = job_costs(query, epsilon, operators)
    return Price.of({key: scaled(cost) for key, cost in costs.items()})


PAID: Final = Price.of({(unit, scenario): Amount(0, 0) for unit in UNITS for scenario in SCENARIOS})
"""Of a later round of such a job."""


def as_debited(report: PrivacyReport, query: Query, charge: RoundCharge) -> PrivacyReport:
    """The report of a round with what its own debit was: a job's one debit is made with its first
    round, and pays for the others."""
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
    """The curators that may participate: those of U on the descriptor's roster, of its group."""
    active = state.roster.members()
    active[descriptor.roster_size :] = False
    invited = descriptor.invited()
    if invited is not None:
        active[: invited.size] &= invited[: active.size]
    return active


def debit(state: LedgerState, descriptor: RoundDescriptor, plan: Planned) -> Draft:
    """The event of an opening. Raises BudgetExceeded."""
    found = shortages(state.limits, state.spending, plan)
    if found:
        raise _refused(found, state.spending)
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


def released(round_id: str, size: int, accepted: Sequence[Signed[AcceptedSet]]) -> Draft:
    """The event of a release: it charges the curators in any aggregator's set."""
    union = np.zeros(sets.byte_length(size), np.uint8)
    for signed in accepted:
        union |= np.frombuffer(signed.statement.held(size), np.uint8)
    return Draft(
        Kind.ROUND_RELEASED,
        SYSTEM,
        {"round": round_id, "members": MemberSet.packed(union.tobytes(), size).text, "size": size},
    )


def aborted(
    descriptor: RoundDescriptor, statements: Sequence[Signed[AbortStatement]], reason: str
) -> Draft:
    """The event of an abort: it charges all that were debited; a credit only where it is proved."""
    return Draft(
        Kind.ROUND_ABORTED,
        SYSTEM,
        {
            "round": descriptor.round,
            "credited": abort_credit(descriptor, statements),
            "reason": reason,
        },
    )


def _refused(found: Sequence[Shortage], spending: Spending) -> BudgetExceeded:
    """With the shortages it comes from. An operator's preview names the curators; an error never
    does."""
    first = found[0].limit
    limits = [{**item.figures(), "windows": _windows(item, spending)} for item in found]
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


async def blocked(transaction: Transaction, found: Sequence[Shortage]) -> list[list[str]]:
    """For an operator: the first curators that each shortage concerns, by name."""
    result = []
    for item in found:
        numbers = [int(number) for number in np.flatnonzero(item.members)[:NAMED]]
        names = await store.curator_names(transaction, numbers)
        result.append([names[number] for number in numbers if number in names])
    return result
