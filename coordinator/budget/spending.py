"""What released rounds cost each curator: sums for the unit curator, a sweep for the unit record.

Spec: budget, section 3. A round has a price per privacy unit and collusion scenario. For the unit
curator all rounds of a curator add up: running totals, one column per scenario. For the unit record
only rounds whose window covers an instant add up there: the worst instant is found by an interval
sweep in which a set of curators that occurs in many rounds is examined once. Basic composition,
which also holds when later rounds depend on earlier results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from coordinator.budget.totals import ByCurator, Spent, Totals
from coordinator.models.budget_events import MemberSet
from tacit import sets
from tacit.accounting.amounts import Amount
from tacit.accounting.scenarios import Scenario
from tacit.accounting.sweep import Ints, covering, sums_at, worst_instant
from tacit.query.words import PrivacyUnit
from tacit.sets import Bits
from tacit.wire import canonical_json

UNITS: Final = tuple(PrivacyUnit)
SCENARIOS: Final = tuple(Scenario)
_SHAPE: Final = (len(UNITS), len(SCENARIOS))
READY_SETS: Final = 8
"""Sets of curators that are kept as bitmaps; all of them are kept compressed."""
MOST_PENDING: Final = 1024
_CURATOR: Final = UNITS.index(PrivacyUnit.CURATOR)


def _place(unit: PrivacyUnit, scenario: Scenario) -> tuple[int, int]:
    return UNITS.index(unit), SCENARIOS.index(scenario)


@dataclass(frozen=True)
class Price:
    """What a round costs each of its members: (unit, scenario) arrays.

    `credited`: what is left of it when the round ended before anything can have been opened.
    """

    full: Spent
    credited: Spent

    @classmethod
    def of(cls, costs: Mapping[tuple[PrivacyUnit, Scenario], Amount | None]) -> Price:
        """The price of these costs; None: nothing finite is verified."""
        full, credited = Spent.zeros(*_SHAPE), Spent.zeros(*_SHAPE)
        for (unit, scenario), cost in costs.items():
            place = _place(unit, scenario)
            for spent in (full,) if scenario is Scenario.ASSUMED else (full, credited):
                if cost is None:
                    spent.unverified[place] = 1
                else:
                    spent.epsilon[place], spent.delta[place] = cost.epsilon, cost.delta
        return cls(full, credited)

    def cost(self, unit: PrivacyUnit, scenario: Scenario) -> Amount | None:
        """One of the costs that it was made of."""
        spent = self.full.at(*_place(unit, scenario))
        return None if spent.unverified else Amount(int(spent.epsilon), int(spent.delta))

    def to_payload(self) -> dict[str, dict[str, list[int] | None]]:
        """The form used in an event."""
        return {
            unit.value: {
                scenario.value: None if cost is None else [cost.epsilon, cost.delta]
                for scenario in SCENARIOS
                for cost in (self.cost(unit, scenario),)
            }
            for unit in UNITS
        }

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Price:
        """The price of `to_payload`."""
        return cls.of(
            {
                (PrivacyUnit(unit), Scenario(scenario)): None if cost is None else Amount(*cost)
                for unit, row in payload.items()
                for scenario, cost in row.items()
            }
        )


@dataclass(frozen=True, slots=True)
class Figure:
    """The worst curator's composed guarantee; epsilon None: infinite. `instant`: microseconds since
    1970 where it is reached (unit record), `number`: the curator's roster number."""

    epsilon: int | None
    delta: int
    number: int | None = None
    instant: int | None = None


ZERO: Final = Figure(0, 0)


@dataclass(frozen=True, slots=True)
class RoundCharge:
    """A round of the ledger. Times in microseconds since 1970; `invited`: the curators charged when
    it was opened."""

    round: str
    query_id: str
    made: int
    start: int
    end: int
    price: Price
    members: MemberSet
    operators: tuple[str, ...]
    state: str = "debited"
    credited: bool = False
    invited: MemberSet | None = None

    @property
    def amounts(self) -> Spent:
        """(units, scenarios): what it currently costs each of its members."""
        return self.price.credited if self.credited else self.price.full


class Spending:
    """All rounds of a ledger, and what each curator spent."""

    def __init__(self) -> None:
        self.size = 0
        self.rounds: dict[str, RoundCharge] = {}
        self._prices: dict[bytes, Price] = {}
        self._ready: dict[MemberSet, bytes] = {}
        self._totals = Totals(len(SCENARIOS))
        self._pending: dict[MemberSet, Spent] = {}
        self._worst: dict[Scenario, Figure] = {}

    # --- changing --------------------------------------------------------------------------------

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
        """A round was opened: its members are charged until it is settled."""
        price = self._prices.setdefault(canonical_json(price.to_payload()), price)
        charge = RoundCharge(
            round_id, query_id, made, *window, price, members, operators, invited=members
        )
        self.rounds[round_id] = charge
        self._add(charge, 1)

    def settle(
        self, round_id: str, state: str, members: MemberSet | None, *, credited: bool
    ) -> None:
        """A round is over: whom it charges permanently (None: all that it charged so far)."""
        old = self.rounds[round_id]
        new = replace(old, members=members or old.members, state=state, credited=credited)
        self.rounds[round_id] = new
        self._add(old, -1)
        self._add(new, 1)

    def grow(self, size: int) -> None:
        """Grow to this many roster numbers."""
        self._worst = {}
        self.size = max(self.size, size)
        self._totals.grow(self.size)

    def _add(self, charge: RoundCharge, sign: int) -> None:
        """Record a change of the totals. Most rounds of a schedule have the same members: the
        pending amounts of a set are added to the totals together, when the totals are read."""
        self._worst = {}
        amounts = charge.amounts.at(_CURATOR).times(np.int64(sign))
        known = self._pending.get(charge.members)
        self._pending[charge.members] = amounts if known is None else known.plus(amounts)
        if len(self._pending) > MOST_PENDING:
            self._settle_pending()

    def _settle_pending(self) -> None:
        for members, amounts in self._pending.items():
            if not amounts.is_nothing:
                self._totals.add(self._members(members), amounts)
        self._pending = {}

    # --- reading ---------------------------------------------------------------------------------

    def members_of(self, charge: RoundCharge) -> Bits:
        """The charged curators, one boolean per roster number."""
        bits = self._members(charge.members)
        if bits.size == self.size:
            return bits
        wide = np.zeros(self.size, np.bool_)
        wide[: bits.size] = bits
        return wide

    def _members(self, members: MemberSet) -> Bits:
        """One boolean for each number that there was when the set was made."""
        if members not in self._ready:
            if len(self._ready) >= READY_SETS:
                self._ready.pop(next(iter(self._ready)))
            self._ready[members] = members.bitmap()
        return sets.unpack(self._ready[members], members.size)

    def of_curator(self, number: int) -> list[RoundCharge]:
        """The rounds that charge a curator, oldest first."""
        inside: dict[MemberSet, bool] = {}
        for charge in self.rounds.values():
            if charge.members not in inside:
                bits = self._members(charge.members)
                inside[charge.members] = number < bits.size and bool(bits[number])
        return [charge for charge in self.rounds.values() if inside[charge.members]]

    def totals(self, scenario: Scenario) -> ByCurator:
        """What each curator spent over its lifetime, unit curator."""
        self._settle_pending()
        return self._totals.column(SCENARIOS.index(scenario))

    def sums(
        self, charges: Iterable[RoundCharge], unit: PrivacyUnit, scenario: Scenario
    ) -> ByCurator:
        """What these rounds cost each curator together."""
        by_set: dict[MemberSet, Spent] = {}
        for charge in charges:
            amount = charge.amounts.at(*_place(unit, scenario))
            known = by_set.get(charge.members)
            by_set[charge.members] = amount if known is None else known.plus(amount)
        totals = Totals(1, self.size)
        for key, amount in by_set.items():
            totals.add(self._members(key), amount.at(None))
        return totals.column(0)

    def worst_curator(self, scenario: Scenario) -> Figure:
        """The worst curator over all its rounds, unit curator."""
        if scenario not in self._worst:
            self._worst[scenario] = worst_of(self.totals(scenario))
        return self._worst[scenario]

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
        most_delta = sums_at(starts, ends, costs.delta, instants).max()
        figure, seen = ZERO, set()
        for index in np.lexsort((-epsilons, -unverified)):
            known = figure.epsilon
            larger = known is not None and (unverified[index] > 0 or epsilons[index] > known)
            if not larger and most_delta <= figure.delta:
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
    return Spent(
        np.array([each.epsilon[place] for each in amounts], np.int64),
        np.array([each.delta[place] for each in amounts], np.int64),
        np.array([each.unverified[place] for each in amounts], np.int64),
    )


def worst_of_one(charges: Sequence[RoundCharge], scenario: Scenario) -> Figure:
    """One curator at its worst instant, unit record, over the rounds that charge it."""
    costs, windows = _record_costs(charges, scenario), windows_of(charges)
    epsilon, delta = (worst_instant(*windows, column) for column in (costs.epsilon, costs.delta))
    unbounded = bool(costs.unverified.any())
    return Figure(None if unbounded else epsilon.amount, delta.amount, instant=epsilon.instant)


def _signature(charges: Iterable[RoundCharge]) -> frozenset[Any]:
    """Equal for rounds of the same members and prices, in the same numbers."""
    kinds = Counter((item.members, id(item.price), item.credited) for item in charges)
    return frozenset(kinds.items())


def worst_of(by_curator: ByCurator) -> Figure:
    """The largest of each figure over curators; the number is of the one with most epsilon."""
    if not by_curator.places.size:
        return ZERO
    spent = by_curator.table
    unbounded = bool(spent.unverified.any())
    most = spent.unverified if unbounded else spent.epsilon
    number = int(by_curator.whose(most == most.max()).argmax())
    epsilon = None if unbounded else int(spent.epsilon.max())
    return Figure(epsilon, int(spent.delta.max()), number)


def _worse(one: Figure, other: Figure) -> Figure:
    """The larger of each figure; place and curator go with epsilon."""
    delta = max(one.delta, other.delta)
    if one.epsilon is None or (other.epsilon is not None and other.epsilon <= one.epsilon):
        return replace(one, delta=delta)
    return replace(other, delta=delta)
