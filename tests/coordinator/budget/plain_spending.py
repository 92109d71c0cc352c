"""What rounds cost, the slow and plain way: every round an object, every reading a walk over all.

The product keeps columns and what instants cost; this is what it is compared with.
"""

from __future__ import annotations

from collections import Counter
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
    Spent,
    Totals,
)
from coordinator.budget.spending import Figure, worst_of
from coordinator.models.budget_ledger import MemberSet
from tacit.accounting.composition import Ints, covering, covering_within, sums_at, worst_instant
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit
from tacit.sets import Bits

ZERO = Figure(0, 0)


def _place(unit: PrivacyUnit, scenario: Scenario) -> tuple[int, int]:
    return UNITS.index(unit), SCENARIOS.index(scenario)


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
        by_set: dict[MemberSet, Spent] = {}
        for charge in charges:
            amount = charge.amounts.at(*_place(unit, scenario))
            known = by_set.get(charge.members)
            by_set[charge.members] = amount if known is None else known.plus(amount)
        totals = Totals(1, self.size)
        for key, amount in by_set.items():
            totals.add(key.bits(), amount.at(None))
        return totals.column(0)

    def worst_curator(self, scenario: Scenario) -> Figure:
        return worst_of(self.totals(scenario))

    def worst_record(self, scenario: Scenario) -> Figure:
        """The worst curator at its worst instant, unit record.

        Instants are tried in falling order of what they cost a curator that is in all rounds there,
        until that cost is no more than the maximum found.
        """
        charges = list(self.rounds.values())
        if not charges:
            return ZERO
        starts, ends = windows_of(charges)
        costs = _record_costs(charges, scenario)
        instants = np.unique(starts)
        unverified = sums_at(starts, ends, costs.unverified, instants)
        epsilons = sums_at(starts, ends, costs.epsilon, instants)
        most = {
            name: int(sums_at(starts, ends, getattr(costs, name), instants).max())
            for name in ("delta", "rho", "rho_delta")
        }
        figure, seen = ZERO, set()
        for index in np.lexsort((-epsilons, -unverified)):
            known = figure.epsilon
            larger = known is not None and (unverified[index] > 0 or epsilons[index] > known)
            if not larger and all(value <= getattr(figure, name) for name, value in most.items()):
                break
            instant = int(instants[index])
            inside = [charges[place] for place in covering(starts, ends, instant)]
            signature = _signature(inside)
            if signature not in seen:
                seen.add(signature)
                found = worst_of(self.sums(inside, PrivacyUnit.RECORD, scenario))
                figure = _worse(figure, replace(found, instant=instant))
        return figure


def windows_of(charges: Sequence[RoundCharge]) -> tuple[Ints, Ints]:
    """(k,) the starts and the ends of these rounds' windows, in microseconds since 1970."""
    starts = np.array([charge.start for charge in charges], np.int64)
    return starts, np.array([charge.end for charge in charges], np.int64)


def _record_costs(charges: Sequence[RoundCharge], scenario: Scenario) -> Spent:
    """(k,) what each of these rounds costs a record that it touches."""
    place = _place(PrivacyUnit.RECORD, scenario)
    amounts = [charge.amounts for charge in charges]
    rows = [[part[place] for part in each.parts] for each in amounts]
    return Spent(*np.array(rows, np.int64).reshape(-1, PARTS).T)


def plain_worst_of_one(charges: Sequence[RoundCharge], scenario: Scenario) -> Figure:
    """One curator at its worst instant, unit record, over the rounds that charge it."""
    costs, windows = _record_costs(charges, scenario), windows_of(charges)
    columns = costs.epsilon, costs.delta, costs.rho, costs.rho_delta
    epsilon, delta, rho, rho_delta = (worst_instant(*windows, column) for column in columns)
    return Figure(
        None if costs.unverified.any() else epsilon.amount,
        delta.amount,
        instant=epsilon.instant,
        rho=rho.amount,
        rho_delta=rho_delta.amount,
    )


def _signature(charges: Iterable[RoundCharge]) -> frozenset[Any]:
    """Equal for rounds of the same members and prices, in the same numbers."""
    kinds = Counter((item.members, id(item.price), item.credited) for item in charges)
    return frozenset(kinds.items())


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
    found = [
        shortage
        for limit in limits.deployment
        if (shortage := _over(limit, spending, planned, planned.members)) is not None
    ]
    for number, own in limits.curators.items():
        if number < planned.members.size and planned.members[number]:
            only = np.zeros_like(planned.members)
            only[number] = True
            found += [
                shortage
                for limit in own
                if (shortage := _over(limit, spending, planned, only)) is not None
            ]
    return found


def _over(
    limit: Limit, spending: PlainSpending, planned: Planned, members: Bits
) -> Shortage | None:
    for instant, charges in _together(limit, spending, planned):
        spent = _spent(limit, spending, charges)
        shortage = _shortage(limit, planned.price, members, spent)
        if shortage is not None:
            blocking = _names(spending, charges, shortage.members)
            return replace(shortage, instant=instant, rounds=blocking)
    return None


def _together(
    limit: Limit, spending: PlainSpending, planned: Planned
) -> list[tuple[int | None, list[RoundCharge] | None]]:
    """The groups of earlier rounds that would add up with the new one; None: all."""
    charges = spending.rounds.values()
    if limit.unit is PrivacyUnit.CURATOR:
        if limit.period_s is None:
            return [(None, None)]
        size = limit.period_s * 10**6
        start = planned.now // size * size
        return [(None, [item for item in charges if start <= item.made < start + size])]
    start, end = planned.window
    # Only to save time: the sweep leaves out what covers no instant of the window.
    overlapping = [item for item in charges if item.start < end and start < item.end]
    return [
        (instant, [overlapping[place] for place in places])
        for instant, places in covering_within(*windows_of(overlapping), start, end)
    ]


def _spent(limit: Limit, spending: PlainSpending, charges: list[RoundCharge] | None) -> ByCurator:
    if charges is None:
        return spending.totals(limit.against)
    return spending.sums(charges, limit.unit, limit.against)


def _names(
    spending: PlainSpending, charges: list[RoundCharge] | None, over: Bits
) -> tuple[str, ...]:
    """Which earlier rounds the blocked curators paid for."""
    known = list(spending.rounds.values()) if charges is None else charges
    blocked: dict[MemberSet, bool] = {}
    for item in known:
        if item.members not in blocked:
            blocked[item.members] = bool((spending.members_of(item) & over).any())
    return tuple(item.round for item in known if blocked[item.members])
