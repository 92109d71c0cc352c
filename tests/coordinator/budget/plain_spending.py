"""What rounds cost, the slow and plain way: every round an object, every reading a walk over all.

The product keeps columns and what instants cost; this is what it is compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from coordinator.budget.limits import Limit, Limits, Planned, Shortage, _shortage
from coordinator.budget.round_charges import (
    PARTS,
    SCENARIOS,
    UNITS,
    ByCurator,
    Price,
    RoundCharge,
    Totals,
)
from coordinator.budget.spending import Figure, worst_of
from coordinator.models.budget_ledger import MemberSet
from tacit.accounting.composition import worst_instant
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit
from tacit.sets import Bits


class PlainSpending:
    """All rounds of a ledger, and what each curator spent."""

    def __init__(self) -> None:
        self.size = 0
        self.rounds: dict[str, RoundCharge] = {}

    def debit(
        self,
        round_id: str,
        query_id: str,
        made: int,
        window: tuple[int, int],
        price: Price,
        members: MemberSet,
        operators: tuple[str, ...] = (),
    ) -> None:
        members = self.known(members)
        charge = RoundCharge(
            round_id, query_id, made, *window, price, members, operators, invited=members
        )
        self.rounds[round_id] = charge

    def settle(
        self, round_id: str, state: str, members: MemberSet | None, *, credited: bool
    ) -> None:
        old = self.rounds[round_id]
        members = None if members is None else self.known(members)
        self.rounds[round_id] = replace(
            old, members=members or old.members, state=state, credited=credited
        )

    def known(self, members: MemberSet) -> MemberSet:
        """A set names nobody who had not joined."""
        return MemberSet.of(members.bits()[: self.size]) if members.size > self.size else members

    def grow(self, size: int) -> None:
        self.size = max(self.size, size)

    def members_of(self, charge: RoundCharge) -> Bits:
        wide, bits = np.zeros(self.size, np.bool_), charge.members.bits()
        wide[: bits.size] = bits
        return wide

    def of_curator(self, number: int) -> list[RoundCharge]:
        return [charge for charge in self.rounds.values() if self.members_of(charge)[number]]

    def totals(self, scenario: Scenario) -> ByCurator:
        return self.sums(self.rounds.values(), PrivacyUnit.CURATOR, scenario)

    def sums(
        self, charges: Iterable[RoundCharge], unit: PrivacyUnit, scenario: Scenario
    ) -> ByCurator:
        totals = Totals(1, self.size)
        for charge in charges:
            amount = charge.amounts.at(UNITS.index(unit), SCENARIOS.index(scenario))
            totals.add(charge.members.bits(), amount.at(None))
        return totals.column(0)

    def worst_curator(self, scenario: Scenario) -> Figure:
        return worst_of(self.totals(scenario))

    def worst_record(self, scenario: Scenario) -> Figure:
        """The worst curator at its worst instant, unit record: of several the one at which most
        is spent by all, and then the first."""
        charges = list(self.rounds.values())

        def all_spend(instant: int) -> tuple[int, int, int]:
            epsilon, _, unverified, *_ = _costs(_covering(charges, instant), scenario).sum(axis=0)
            return -unverified, -epsilon, instant

        worst = Figure(0, 0)
        for instant in sorted({charge.start for charge in charges}, key=all_spend):
            inside = _covering(charges, instant)
            found = worst_of(self.sums(inside, PrivacyUnit.RECORD, scenario))
            worst = _worse(worst, replace(found, instant=instant))
        return worst


def _covering(charges: Sequence[RoundCharge], instant: int) -> list[RoundCharge]:
    return [charge for charge in charges if charge.start <= instant < charge.end]


def _costs(charges: Sequence[RoundCharge], scenario: Scenario) -> Any:
    """(k, 5) what each of these rounds costs a record that it touches."""
    place = UNITS.index(PrivacyUnit.RECORD), SCENARIOS.index(scenario)
    rows = [[part[place] for part in charge.amounts.parts] for charge in charges]
    return np.array(rows, np.int64).reshape(-1, PARTS)


def plain_worst_of_one(charges: Sequence[RoundCharge], scenario: Scenario) -> Figure:
    """One curator at its worst instant, unit record, over the rounds that charge it."""
    windows = np.array([(each.start, each.end) for each in charges], np.int64).reshape(-1, 2).T
    columns = _costs(charges, scenario).T
    epsilon, delta, unverified, rho, rho_delta = (worst_instant(*windows, each) for each in columns)
    return Figure(
        None if unverified.amount else epsilon.amount,
        delta.amount,
        instant=epsilon.instant,
        rho=rho.amount,
        rho_delta=rho_delta.amount,
    )


def _worse(one: Figure, other: Figure) -> Figure:
    """The larger of each figure; place and curator go with epsilon."""
    keeps = one.epsilon is None or (other.epsilon is not None and other.epsilon <= one.epsilon)
    return replace(
        one if keeps else other,
        delta=max(one.delta, other.delta),
        rho=max(one.rho, other.rho),
        rho_delta=max(one.rho_delta, other.rho_delta),
    )


def plain_shortages(limits: Limits, spending: PlainSpending, planned: Planned) -> list[Shortage]:
    """Every limit that the round would exceed; empty if it may be opened."""
    asked = [(limit, planned.members) for limit in limits.deployment]
    for number, own in limits.curators.items():
        only = planned.members & (np.arange(planned.members.size) == number)
        asked += [(limit, only) for limit in own]
    found = [_over(limit, spending, planned, members) for limit, members in asked]
    return [shortage for shortage in found if shortage is not None]


def _over(
    limit: Limit, spending: PlainSpending, planned: Planned, members: Bits
) -> Shortage | None:
    for instant, charges in _together(limit, list(spending.rounds.values()), planned):
        spent = spending.sums(charges, limit.unit, limit.against)
        shortage = _shortage(limit, planned.price, members, spent)
        if shortage is not None:
            over = shortage.members
            blocking = [each.round for each in charges if (spending.members_of(each) & over).any()]
            return replace(shortage, instant=instant, rounds=tuple(blocking))
    return None


def _together(
    limit: Limit, charges: list[RoundCharge], planned: Planned
) -> list[tuple[int | None, list[RoundCharge]]]:
    """The groups of earlier rounds that would add up with the new one."""
    if limit.unit is PrivacyUnit.RECORD:
        start, end = planned.window
        instants = {start, *(each.start for each in charges if start < each.start < end)}
        return [(instant, _covering(charges, instant)) for instant in sorted(instants)]
    if limit.period_s is None:
        return [(None, charges)]
    size = limit.period_s * 10**6
    start = planned.now // size * size
    return [(None, [each for each in charges if start <= each.made < start + size])]
