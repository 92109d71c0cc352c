"""What released rounds cost each curator: sums for the unit curator, a sweep for the unit record.

Spec: budget, section 3. A round has a price per privacy unit and collusion scenario. What the
rounds around each instant cost a record is kept from one reading to the next: a round that is
debited or settled touches only the instants of its own window.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from common.arrays import Interned
from coordinator.budget.round_charges import (
    BLOCK,
    PARTS,
    SCENARIOS,
    STATES,
    UNITS,
    ByCurator,
    Places,
    Price,
    RoundCharge,
    Rounds,
    Spent,
    Totals,
    place_of,
)
from coordinator.models.budget_ledger import MemberSet
from tacit import sets
from tacit.accounting.amounts import Amount
from tacit.accounting.composition import Ints, covering, covering_each, sums_at, worst_instant
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit
from tacit.sets import Bits

MOST_TOUCHED: Final = 4096
"""Windows that are remembered as touched one by one."""
UNKNOWN: Final = -1
ALL_UNVERIFIED, ALL_EPSILON, EPSILON, DELTA, UNVERIFIED, RHO, RHO_DELTA = range(7)
"""The rows of what an instant costs, (7, scenarios): summed over its rounds, rounds without a
finite figure and epsilons; then the most of any one curator, in the order of `Spent.parts`."""
_ROWS: Final = 2 + PARTS

Look = Callable[[Ints], Ints]
"""(n, 7, scenarios): what each of n instants costs, as it is now."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The worst curator's composed guarantee, the largest of each figure; epsilon None: it is
    not finite. `instant`: microseconds since 1970 at which epsilon is reached (unit record);
    `number`: the roster number of the curator with that epsilon."""

    epsilon: int | None
    delta: int
    number: int | None = None
    instant: int | None = None
    rho: int = 0
    rho_delta: int = 0

    @property
    def amount(self) -> Amount | None:
        """As a charge; None: infinite."""
        if self.epsilon is None:
            return None
        return Amount(self.epsilon, self.delta, self.rho, self.rho_delta)


ZERO: Final = Figure(0, 0)


class Instants:
    """The instants (n,) at which some window starts, ascending, and what each costs."""

    def __init__(self, scenarios: int) -> None:
        self._scenarios = scenarios
        self._times: Ints = np.zeros(0, np.int64)
        self._costs: NDArray[np.int32] = np.zeros(0, np.int32)
        self._known = Interned()
        self._touched: set[tuple[int, int]] = set()

    def touch(self, start: int, end: int) -> None:
        """What a round of this window charges has changed."""
        self._touched.add((start, end))
        if len(self._touched) > MOST_TOUCHED:
            self._forget()

    def _forget(self) -> None:
        """Forget what the instants of the touched windows cost."""
        if not self._touched:
            return
        starts, ends = np.array(sorted(self._touched), np.int64).T
        times = np.union1d(self._times, starts)
        costs = np.full(times.size, UNKNOWN, np.int32)
        costs[np.searchsorted(times, self._times)] = self._costs
        costs[sums_at(starts, ends, np.ones_like(starts), times) > 0] = UNKNOWN
        self._times, self._costs, self._touched = times, costs, set()

    def refresh(self, look: Look) -> None:
        """Look at the instants whose costs are not known."""
        self._forget()
        unknown = np.flatnonzero(self._costs == UNKNOWN)
        if unknown.size:
            costs = look(self._times[unknown])
            self._costs[unknown] = [self._known.add(cost.tobytes()) for cost in costs]
            self._drop_unused()

    def worst(self, scenario: int) -> Figure:
        """The largest figures of one curator at one instant, each by itself, and the instant with
        the largest epsilon, None if it is 0.

        Of several such instants it is the one whose rounds have the most without a finite figure
        in total, then the one with the largest total epsilon, then the first. All costs must be
        known.
        """
        used = np.unique(self._costs)
        if not used.size:
            return ZERO
        cost = self._table()[used, :, scenario].T
        unbounded = bool(cost[UNVERIFIED].any())
        most = cost[UNVERIFIED] > 0 if unbounded else cost[EPSILON] == cost[EPSILON].max()
        figure = Figure(
            None if unbounded else int(cost[EPSILON].max()),
            int(cost[DELTA].max()),
            rho=int(cost[RHO].max()),
            rho_delta=int(cost[RHO_DELTA].max()),
        )
        if figure.epsilon == 0:
            return figure
        for row in (ALL_UNVERIFIED, ALL_EPSILON):
            most &= cost[row] == cost[row][most].max()
        instant = int(self._times[np.isin(self._costs, used[most]).argmax()])
        return replace(figure, instant=instant)

    def _table(self) -> Ints:
        """(k, 7, scenarios) all costs by number; drop it before the next `add`."""
        table: Ints = np.frombuffer(self._known.parts()[0], np.int64).reshape(
            -1, _ROWS, self._scenarios
        )
        return table

    def _drop_unused(self) -> None:
        used, renamed = np.unique(self._costs, return_inverse=True)
        if len(self._known) > 2 * used.size + MOST_TOUCHED:
            remaining_costs = Interned()
            for number in used.tolist():
                remaining_costs.add(self._known[number])
            self._known, self._costs = remaining_costs, renamed.reshape(-1).astype(np.int32)

    def parts(self) -> dict[str, Any]:
        """What it holds, by name: views."""
        self._forget()
        costs_known, ends = self._known.parts()
        return {
            "times": self._times,
            "costs": self._costs,
            "known": costs_known,
            "known_ends": ends,
        }

    def restore(self, parts: Mapping[str, Any]) -> None:
        """Restore the state returned by `parts()`."""
        self._times, self._costs = parts["times"], parts["costs"]
        self._known = Interned.of(parts["known"], parts["known_ends"])


# What released rounds cost each curator: sums for the unit curator, a sweep for the unit record.
#
# Spec: budget, section 3. A round has a price per privacy unit and collusion scenario. For the unit
# curator all rounds of a curator add up: running totals, one column per scenario. For the unit
# record only rounds whose window covers an instant add up there: what the instants cost is kept,
# and only those that a changed round covers are recomputed. Basic composition, which also
# holds when later rounds depend on earlier results.
#
# The lock is for readers in other threads than the one that changes it.

READY_BYTES: Final = 1 << 24
"""How much of the sets of curators is kept unpacked; all of them are kept compressed."""
MOST_PENDING: Final = 1024
_CURATOR: Final = UNITS.index(PrivacyUnit.CURATOR)
_RECORD: Final = UNITS.index(PrivacyUnit.RECORD)
_NOBODY: Final = np.zeros(0, np.int64)


class Spending:
    """All rounds of a ledger, and what each curator spent."""

    def __init__(self) -> None:
        self.size = 0
        self.rounds = Rounds()
        self.lock = threading.RLock()
        self._ready: dict[int, NDArray[Any]] = {}
        self._ready_bytes = 0
        self._totals = Totals(len(SCENARIOS))
        self._pending: dict[int, Spent] = {}
        self._instants = Instants(len(SCENARIOS))
        self._worst: dict[tuple[PrivacyUnit, Scenario], Figure] = {}

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
        """A round was opened: it charges everyone who can participate. Raises ValueError for a
        round that was debited before."""
        with self.lock:
            member_set = self._known(members)
            charge = RoundCharge(round_id, query_id, made, *window, price, member_set, operators)
            self.rounds.add(charge)
            self._add(len(self.rounds) - 1, 1)

    def settle(
        self, round_id: str, state: str, members: MemberSet | None, *, credited: bool
    ) -> None:
        """A round is over: whom it charges permanently (None: everyone charged so far)."""
        with self.lock:
            place, columns = self.rounds.place(round_id), self.rounds.columns
            remaining = columns["members"][place]
            if members is not None:
                remaining = self.rounds.set_of(self._known(members))
            columns["state"][place] = STATES.index(state)
            if (remaining, credited) != (columns["members"][place], columns["credited"][place]):
                self._add(place, -1)
                columns["members"][place], columns["credited"][place] = remaining, credited
                self._add(place, 1)

    def _known(self, members: MemberSet) -> MemberSet:
        """The members that have joined: a restored coordinator skips numbers, so a round's
        roster can be longer than the ledger's."""
        if members.size <= self.size:
            return members
        return MemberSet.of(members.bits()[: self.size])

    def grow(self, size: int) -> None:
        """Grow to this many roster numbers."""
        with self.lock:
            self._worst = {}
            self.size = max(self.size, size)
            self._totals.grow(self.size)

    def _add(self, place: int, sign: int) -> None:
        """Record a change of the totals. Most rounds of a schedule have the same members: the
        pending amounts of a set are added to the totals together, when the totals are read."""
        self._worst = {}
        members, price, credited, start, end = (
            int(self.rounds.columns[name][place])
            for name in ("members", "price", "credited", "start", "end")
        )
        amounts = Spent(*(self.rounds.costs[price, credited, :, _CURATOR] * sign))
        pending = self._pending.get(members)
        self._pending[members] = amounts if pending is None else pending.plus(amounts)
        self._instants.touch(start, end)
        if len(self._pending) > MOST_PENDING:
            self._settle_pending()

    def _settle_pending(self) -> None:
        for number, amounts in self._pending.items():
            if not amounts.is_nothing:
                self._totals.add(self._members(number), amounts)
        self._pending = {}

    # --- reading ---------------------------------------------------------------------------------

    def members_of(self, charge: RoundCharge) -> Bits:
        """The charged curators, one boolean per roster number."""
        bits, wide = charge.members.bits(), np.zeros(self.size, np.bool_)
        wide[: bits.size] = bits
        return wide

    def _members(self, number: int) -> Bits:
        """One boolean for each number that there was when the set was made."""
        size, where = self._where(number)
        bits = np.zeros(size, np.bool_)
        bits[where] = True
        return bits

    def _where(self, number: int) -> tuple[int, NDArray[Any]]:
        """How many numbers there were when a set was made, and an index of its curators: their
        numbers, or of a dense set one boolean each."""
        size = self.rounds.set_size(number)
        ready = self._ready.get(number)
        if ready is None:
            bits = self.rounds.members(number).bits()
            numbers = np.flatnonzero(bits).astype(np.int32)
            sparse = numbers.nbytes * 8 < size
            ready = numbers if sparse else np.frombuffer(sets.pack(bits), np.uint8)
            if self._ready_bytes + ready.nbytes > READY_BYTES:
                self._ready, self._ready_bytes = {}, 0
            self._ready[number] = ready
            self._ready_bytes += ready.nbytes
        return size, ready if ready.dtype == np.int32 else sets.unpack(ready.tobytes(), size)

    def charging(self, members: Bits, places: Places | None = None) -> Places:
        """The rounds of these (None: all) that charge one of some curators, oldest first."""
        with self.lock:
            column = self.rounds.column("members")
            column = column if places is None else column[places]
            inside = np.zeros(len(self.rounds.pools["sets"]), np.bool_)
            for number in np.unique(column):
                mine = self._members(int(number))[: members.size]
                inside[number] = (mine & members[: mine.size]).any()
            charged_places = np.flatnonzero(inside[column])
            return charged_places if places is None else places[charged_places]

    def of_curator(self, number: int) -> Places:
        """The rounds that charge a curator, oldest first."""
        only = np.zeros(number + 1, np.bool_)
        only[number] = True
        return self.charging(only)

    def totals(self, scenario: Scenario) -> ByCurator:
        """What each curator spent over its lifetime, unit curator."""
        with self.lock:
            self._settle_pending()
            return self._totals.column(SCENARIOS.index(scenario))

    def sums(self, places: Places, unit: PrivacyUnit, scenario: Scenario) -> ByCurator:
        """What these rounds cost each curator together."""
        totals = Totals(1, self.size)
        self.add_to(totals, places, unit, scenario)
        return totals.column(0)

    def add_to(self, totals: Totals, places: Places, unit: PrivacyUnit, scenario: Scenario) -> None:
        """Add what these rounds cost each curator to totals of one column."""
        with self.lock:
            numbers, amounts = self._by_set(*self.rounds.kinds(places), UNITS.index(unit))
            for number, amount in zip(numbers.tolist(), amounts, strict=True):
                totals.add(self._members(number), Spent(*amount[:, [SCENARIOS.index(scenario)]]))

    def _by_set(self, kinds: Ints, counts: Ints, unit: int) -> tuple[Ints, Ints]:
        """The different sets (n,) and what they are charged, (n, 5, scenarios)."""
        members, price, credited = kinds.T
        costs = self.rounds.costs[price, credited, :, unit] * counts[:, None, None]
        numbers, places = np.unique(members, return_inverse=True)
        sums = np.zeros((numbers.size, *costs.shape[1:]), np.int64)
        np.add.at(sums, places.reshape(-1), costs)
        return numbers, sums

    def worst_curator(self, scenario: Scenario) -> Figure:
        """The worst curator over all its rounds, unit curator."""
        with self.lock:
            key = PrivacyUnit.CURATOR, scenario
            if key not in self._worst:
                self._worst[key] = worst_of(self.totals(scenario))
            return self._worst[key]

    def worst_record(self, scenario: Scenario) -> Figure:
        """The worst curator at its worst instant, unit record."""
        with self.lock:
            key = PrivacyUnit.RECORD, scenario
            if key not in self._worst:
                self._instants.refresh(self._look)
                bearers: dict[int, Ints] = {}
                for place, each in enumerate(SCENARIOS):
                    figure = self._instants.worst(place)
                    if figure.instant is not None:
                        if figure.instant not in bearers:
                            bearers[figure.instant] = self._bearers(figure.instant)
                        figure = replace(figure, number=int(bearers[figure.instant][place]))
                    self._worst[PrivacyUnit.RECORD, each] = figure
            return self._worst[key]

    def _bearers(self, instant: int) -> Ints:
        """(scenarios,) the first curator with the most at an instant."""
        windows = self.rounds.column("start"), self.rounds.column("end")
        kinds = self.rounds.kinds(covering(*windows, instant))
        sums, first = self._by_curator(*self._by_set(*kinds, _RECORD), named=True)
        epsilon, _, unverified, *_ = sums
        most = np.where(unverified.any(axis=1, keepdims=True), unverified, epsilon)
        bears = most == most.max(axis=1, keepdims=True)
        first_bearer: Ints = np.where(bears, first, self.size).min(axis=1)
        return first_bearer

    def _look(self, instants: Ints) -> Ints:
        """(n, 7, scenarios) what each of these instants costs (see `Instants`)."""
        figures = np.zeros((instants.size, _ROWS, len(SCENARIOS)), np.int64)
        figure_of_key: dict[bytes, Ints] = {}
        windows = self.rounds.column("start"), self.rounds.column("end")
        for place, inside in covering_each(*windows, instants):
            kinds, counts = self.rounds.kinds(inside)
            key = kinds.tobytes() + counts.tobytes()
            if key not in figure_of_key:
                if len(figure_of_key) >= MOST_PENDING:
                    figure_of_key.clear()
                figure_of_key[key] = self._cost(kinds, counts)
            figures[place] = figure_of_key[key]
        return figures

    def _cost(self, kinds: Ints, counts: Ints) -> Ints:
        """(7, scenarios) what an instant costs that rounds of these kinds cover."""
        if not counts.size:
            return np.zeros((_ROWS, len(SCENARIOS)), np.int64)
        numbers, amounts = self._by_set(kinds, counts, _RECORD)
        sums, _ = self._by_curator(numbers, amounts, named=False)
        epsilon, _, unverified, *_ = amounts.sum(axis=0)
        return np.stack([unverified, epsilon, *sums.max(axis=2, initial=0)])

    def _by_curator(self, numbers: Ints, amounts: Ints, *, named: bool) -> tuple[Ints, Ints]:
        """The sums charged to curators by these sets, (5, scenarios, k), and (k,) the first
        curator with each, if `named`."""
        index = [self._where(number) for number in numbers.tolist()]
        apart = self._apart(index)
        if apart is not None:
            filled = np.flatnonzero(apart < self.size)
            return np.moveaxis(amounts[filled], 0, 2), apart[filled]
        if self.size <= BLOCK:
            sums = np.zeros((*amounts.shape[1:], self.size), np.int64)
            for (size, where), amount in zip(index, amounts, strict=True):
                sums[:, :, :size][:, :, where] += amount[:, :, None]
            return sums, np.arange(self.size)
        totals = Totals(len(SCENARIOS), self.size)
        for number, amount in zip(numbers.tolist(), amounts, strict=True):
            totals.add(self._members(number), Spent(*amount))
        parts = totals.parts()
        used, first = np.unique(parts["places"], return_index=named) if named else (..., _NOBODY)
        return parts["table"][:, :, used], first

    def _apart(self, index: Sequence[tuple[int, NDArray[Any]]]) -> Ints | None:
        """The first curator of each of these sets (of an empty one: how many curators there are),
        if no curator is in two of them; else None."""
        is_seen, first = np.zeros(self.size, np.bool_), np.full(len(index), self.size)
        for place, (size, where) in enumerate(index):
            here = is_seen[:size]
            if here[where].any():
                return None
            here[where] = True
            if where.dtype == np.bool_:
                first[place] = where.argmax() if where.any() else self.size
            elif where.size:
                first[place] = where[0]
        return first

    # --- keeping ---------------------------------------------------------------------------------

    def parts(self) -> dict[str, Any]:
        """What it holds, by name: views, to be read while the lock is held."""
        with self.lock:
            self._settle_pending()
            return {
                "size": np.array([self.size]),
                **{f"rounds_{name}": part for name, part in self.rounds.parts().items()},
                **{f"totals_{name}": part for name, part in self._totals.parts().items()},
                **{f"instants_{name}": part for name, part in self._instants.parts().items()},
            }

    @classmethod
    def of(cls, parts: Mapping[str, Any]) -> Spending:
        """The spending of `parts`. Raises KeyError, ValueError for invalid parts."""

        def own(group: str) -> dict[str, Any]:
            return {
                name.removeprefix(group): part
                for name, part in parts.items()
                if name.startswith(group)
            }

        spending = cls()
        spending.size = int(parts["size"][0])
        spending.rounds = Rounds.of(own("rounds_"))
        spending._totals.restore(own("totals_"))
        spending._totals.grow(spending.size)
        spending._instants.restore(own("instants_"))
        return spending


def worst_of_one(rounds: Rounds, places: Places, scenario: Scenario) -> Figure:
    """One curator at its worst instant, unit record, over the rounds that charge it."""
    kinds = rounds.column("price")[places], rounds.column("credited")[places]
    costs = rounds.costs[(*kinds, slice(None), *place_of(PrivacyUnit.RECORD, scenario))]
    windows = rounds.column("start")[places], rounds.column("end")[places]
    epsilon, delta, unverified, rho, rho_delta = costs.T
    worst, *other_worst = (
        worst_instant(*windows, part) for part in (epsilon, delta, rho, rho_delta)
    )
    return Figure(
        None if unverified.any() else worst.amount,
        other_worst[0].amount,
        instant=worst.instant,
        rho=other_worst[1].amount,
        rho_delta=other_worst[2].amount,
    )


def worst_of(by_curator: ByCurator) -> Figure:
    """The largest of each figure over curators; the number is of the curator with the largest
    epsilon."""
    if not by_curator.places.size:
        return ZERO
    spent = by_curator.table
    unbounded = bool(spent.unverified.any())
    most = spent.unverified if unbounded else spent.epsilon
    number = int(by_curator.whose(most == most.max()).argmax())
    return replace(most_of(spent), number=number)


def most_of(spent: Spent) -> Figure:
    """The largest of each figure among sums, of which there is one at least."""
    return Figure(
        None if spent.unverified.any() else int(spent.epsilon.max()),
        int(spent.delta.max()),
        rho=int(spent.rho.max()),
        rho_delta=int(spent.rho_delta.max()),
    )
