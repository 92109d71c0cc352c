"""The rounds of a ledger as columns, what each costs a member, and sums over curators.

What many rounds share (sets of curators, prices, queries) is kept once: a history of a million
rounds takes a hundred bytes a round. A round charges a large set in one step, so a deployment of
millions has few different sums: a curator holds the place of its sum in a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from common.arrays import Interned, grown
from coordinator.models.budget_ledger import MemberSet
from tacit.accounting.amounts import Amount
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit
from tacit.sets import Bits
from tacit.wire import canonical_json

Ints = NDArray[np.int64]

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
PARTS: Final = 5
"""The figures of a sum: see `Spent.parts`."""
BLOCK: Final = 1 << 16
"""Curators that are processed together: this keeps intermediate arrays small."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums of prices: finite parts in both currencies, and how many rounds have no finite
    figure. Arrays of any shape, the same for all."""

    epsilon: Ints
    delta: Ints
    unverified: Ints
    rho: Ints
    rho_delta: Ints

    @classmethod
    def zeros(cls, *shape: int) -> Spent:
        return cls(*(np.zeros(shape, np.int64) for _ in range(PARTS)))

    def plus(self, other: Spent) -> Spent:
        return Spent(*(mine + more for mine, more in zip(self.parts, other.parts, strict=True)))

    def times(self, factor: Ints | np.int64) -> Spent:
        return Spent(*(part * factor for part in self.parts))

    def at(self, *index: Any) -> Spent:
        return Spent(*(part[index] for part in self.parts))

    @property
    def parts(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Epsilon, delta, unverified, rho, rho_delta."""
        return self.epsilon, self.delta, self.unverified, self.rho, self.rho_delta

    @property
    def is_nothing(self) -> bool:
        """Whether all of it is zero."""
        return not any(part.any() for part in self.parts)


@dataclass(frozen=True)
class ByCurator:
    """What each curator spent in one column: curator i has the sum `places[i]` of the table.

    The table has the distinct sums, with "nothing" at index 0.
    """

    places: NDArray[np.unsignedinteger[Any]]
    table: Spent

    def of(self, number: int) -> Spent:
        """One curator's sum."""
        return self.table.at(int(self.places[number]))

    def whose(self, chosen: Bits) -> Bits:
        """The curators whose sums are the chosen places of the table."""
        is_chosen = np.zeros(self.places.size, np.bool_)
        for start in range(0, self.places.size, BLOCK):
            here = slice(start, start + BLOCK)
            np.take(chosen, self.places[here], out=is_chosen[here])
        return is_chosen

    def columns(self) -> Iterator[Ints]:
        """Every curator's epsilons in blocks, then the deltas, and so on: see `Spent.parts`."""
        for column in self.table.parts:
            for start in range(0, self.places.size, BLOCK):
                yield column[self.places[start : start + BLOCK]]

    def among(self, members: Bits) -> Spent:
        """The sums that occur among some curators."""
        used = np.zeros(self.table.epsilon.size, np.bool_)
        for start in range(0, members.size, BLOCK):
            here = slice(start, start + BLOCK)
            used[self.places[here][members[here]]] = True
        return self.table.at(used)


class Totals:
    """Running sums of curators by number, in several columns, each a separate sum."""

    def __init__(self, columns: int, size: int = 0) -> None:
        self.size = size
        self._places: NDArray[np.unsignedinteger[Any]] = np.zeros(size, np.uint8)
        self._table = Spent.zeros(columns, 1)

    def grow(self, size: int) -> None:
        """Grow to this many curators; new ones have spent nothing."""
        self.size = max(self.size, size)
        self._places = grown(self._places, self.size)

    def column(self, column: int) -> ByCurator:
        """What each curator spent in a column; later additions do not change it."""
        return ByCurator(self._places[: self.size], self._table.at(column))

    def add(self, members: Bits, amounts: Spent) -> None:
        """Add amounts (columns,) for the members, one boolean per number from 0 on."""
        if amounts.is_nothing:
            return
        count = self._table.epsilon.shape[1]
        more = self._table.plus(amounts.at(slice(None), None))
        both = np.stack(
            [
                np.concatenate(pair, axis=1)
                for pair in zip(self._table.parts, more.parts, strict=True)
            ]
        )
        used = self._used(members, count)
        table, renamed = _distinct(both, used)
        kind = np.min_scalar_type(table.shape[2] - 1)
        places = np.zeros(self._places.size, kind)
        for here, place_of in self._blocks(members, count):
            places[here] = renamed[place_of]
        self._places, self._table = places, Spent(*table)

    def parts(self) -> dict[str, Any]:
        """What it holds, by name; later additions leave it as it is."""
        return {"places": self._places[: self.size], "table": np.stack(self._table.parts)}

    def restore(self, parts: Mapping[str, Any]) -> None:
        """Restore the state returned by `parts()`. Raises ValueError for anything else."""
        places, table = parts["places"], parts["table"]
        if places.size and int(places.max()) >= table.shape[2]:
            raise ValueError("a curator's sum is not in the table")
        self.size, self._places, self._table = places.size, places, Spent(*table)

    def _used(self, members: Bits, count: int) -> Bits:
        """Which of the sums so far, and of these with the amounts added, occur for some curator."""
        used = np.zeros(2 * count, np.bool_)
        used[0] = True  # zero, which later curators have
        for _, place_of in self._blocks(members, count):
            used[place_of] = True
        return used

    def _blocks(self, members: Bits, count: int) -> Iterator[tuple[slice, NDArray[np.intp]]]:
        """(numbers, indices in the table followed by the table with the amounts added)."""
        for start in range(0, self.size, BLOCK):
            here = slice(start, min(start + BLOCK, self.size))
            place_of = self._places[here].astype(np.intp)
            inside = members[here]
            place_of[: inside.size] += inside * np.intp(count)
            yield here, place_of


def _distinct(table: Ints, used: Bits) -> tuple[Ints, NDArray[np.intp]]:
    """The sums (5, columns, n) that are used, each once and "nothing" first, and the new index
    of each sum of the table. The table's first sum is "nothing"."""
    flat = table[:, :, used].reshape(table.shape[0] * table.shape[1], -1)
    first, places = _groups(flat)
    nothing = int(places[0])
    renamed = np.zeros(used.size, np.intp)
    renamed[used] = (places - nothing) % first.size
    distinct = flat[:, np.roll(first, -nothing)]
    return distinct.reshape(*table.shape[:2], -1), renamed


def _groups(flat: Ints) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first index of each distinct column, and which of these each column equals.

    Columns are sorted by one word each, which takes a tenth of the time of comparing them. If
    two different columns have the same word, all columns are compared.
    """
    words = np.zeros(flat.shape[1], np.uint64)
    for row in flat:
        words = words * _ODD + row.view(np.uint64)
    _, first, places = np.unique(words, return_index=True, return_inverse=True)
    if any((row != row[first][places]).any() for row in flat):
        _, first, places = np.unique(flat, axis=1, return_index=True, return_inverse=True)
    return first, places.reshape(-1)


# The rounds of a ledger as rows of columns, and what each costs a member.
#
# What many rounds share (sets of curators, prices, queries) is kept once: a history of a million
# rounds takes a hundred bytes a round.

CREDITED: Final = frozenset({Scenario.RECIPIENT, Scenario.CURATORS, Scenario.ASSUMED})
"""Against whom a credited round counts no longer: enough aggregators signed that no sum can have
been opened even if those of the query's assumption lie, so also where none of them does. Larger
groups of aggregators may have opened it. Spec: budget, section 5."""
UNITS: Final = tuple(PrivacyUnit)
SCENARIOS: Final = tuple(Scenario)
_SHAPE: Final = (len(UNITS), len(SCENARIOS))
STATES: Final = ("debited", "released", "aborted")
_COLUMNS: Final[Mapping[str, type[Any]]] = {
    "made": np.int64,
    "start": np.int64,
    "end": np.int64,
    "query": np.int32,
    "operators": np.int32,
    "price": np.int32,
    "members": np.int32,
    "invited": np.int32,
    "state": np.uint8,
    "credited": np.uint8,
}
_POOLS: Final = ("names", "queries", "operators", "prices", "sets")

Places = NDArray[np.intp]
"""Rounds, by their places in the order of their debits."""


def place_of(unit: PrivacyUnit, scenario: Scenario) -> tuple[int, int]:
    """The place of a cost in arrays of the shape (units, scenarios)."""
    return UNITS.index(unit), SCENARIOS.index(scenario)


@dataclass(frozen=True)
class Price:
    """What a round costs each of its members: (unit, scenario) arrays. `credited`: the remaining
    cost if the round ended before anything can have been opened."""

    full: Spent
    credited: Spent

    @classmethod
    def of(cls, costs: Mapping[tuple[PrivacyUnit, Scenario], Amount | None]) -> Price:
        """The price of these costs; None: nothing finite is verified."""
        full, credited = Spent.zeros(*_SHAPE), Spent.zeros(*_SHAPE)
        for (unit, scenario), cost in costs.items():
            place = place_of(unit, scenario)
            for spent in (full,) if scenario in CREDITED else (full, credited):
                if cost is None:
                    spent.unverified[place] = 1
                else:
                    spent.epsilon[place], spent.delta[place] = cost.epsilon, cost.delta
                    spent.rho[place], spent.rho_delta[place] = cost.rho, cost.rho_delta
        return cls(full, credited)

    @cached_property
    def text(self) -> bytes:
        """Equal for equal prices."""
        return canonical_json(self.to_payload())

    def cost(self, unit: PrivacyUnit, scenario: Scenario) -> Amount | None:
        """One of the costs that it was made of."""
        spent = self.full.at(*place_of(unit, scenario))
        if spent.unverified:
            return None
        figures = spent.epsilon, spent.delta, spent.rho, spent.rho_delta
        return Amount(*map(int, figures))

    def table(self) -> Ints:
        """(full or credited, `Spent.parts`, units, scenarios)."""
        return np.stack(
            [np.stack(figure_parts.parts) for figure_parts in (self.full, self.credited)]
        )

    def to_payload(self) -> dict[str, dict[str, list[int] | None]]:
        """The form used in an event."""
        return {
            unit.value: {
                scenario.value: None
                if cost is None
                else [cost.epsilon, cost.delta, cost.rho, cost.rho_delta]
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


class Rounds(Mapping[str, RoundCharge]):
    """All rounds of a ledger by name, oldest first; a charge is computed when it is first read."""

    def __init__(self) -> None:
        self.columns: dict[str, NDArray[Any]] = {
            name: np.zeros(0, kind) for name, kind in _COLUMNS.items()
        }
        self.pools = {name: Interned() for name in _POOLS}
        self.costs: Ints = np.zeros((0, 2, PARTS, *_SHAPE), np.int64)
        """(prices, full or credited, `Spent.parts`, units, scenarios)"""
        self._prices: list[Price] = []

    def __len__(self) -> int:
        return len(self.pools["names"])

    def __iter__(self) -> Iterator[str]:
        return (self.name(place) for place in range(len(self)))

    def __getitem__(self, name: str) -> RoundCharge:
        return self.charge(self.place(name))

    def place(self, name: str) -> int:
        """Where a round is; KeyError if there is none of this name."""
        place = self.pools["names"].find(name.encode())
        if place is None:
            raise KeyError(name)
        return place

    def name(self, place: int) -> str:
        """The round of a place."""
        return self.pools["names"][place].decode()

    def column(self, name: str) -> NDArray[Any]:
        """(k,) one column of all rounds."""
        return self.columns[name][: len(self)]

    def charge(self, place: int) -> RoundCharge:
        """The round of a place, as it is now."""
        row = {name: int(column[place]) for name, column in self.columns.items()}
        return RoundCharge(
            self.name(place),
            self.query(row["query"]),
            row["made"],
            row["start"],
            row["end"],
            self._prices[row["price"]],
            self.members(row["members"]),
            self.operators(row["operators"]),
            STATES[row["state"]],
            bool(row["credited"]),
            self.members(row["invited"]),
        )

    def query(self, number: int) -> str:
        """A query's id by its number."""
        return self.pools["queries"][number].decode()

    def queries(self) -> list[str]:
        """The ids of all queries that had a round."""
        return [self.query(number) for number in range(len(self.pools["queries"]))]

    def members(self, number: int) -> MemberSet:
        """A set of curators by its number."""
        size, _, text = self.pools["sets"][number].partition(b" ")
        return MemberSet(text.decode(), int(size))

    def set_size(self, number: int) -> int:
        """How many roster numbers there were when a set was made."""
        return int(self.pools["sets"][number].partition(b" ")[0])

    def operators(self, number: int) -> tuple[str, ...]:
        """The operators of a round by their number."""
        return tuple(json.loads(self.pools["operators"][number]))

    def kinds(self, places: Places) -> tuple[Ints, Ints]:
        """The distinct (members, price, credited) of these rounds, (n, 3), and how often each
        occurs."""
        words = self.column("members")[places].astype(np.int64) << 32
        words |= (
            self.column("price")[places].astype(np.int64) << 1 | self.column("credited")[places]
        )
        distinct_words, counts = np.unique(words, return_counts=True)
        kinds = np.stack(
            [distinct_words >> 32, (distinct_words & 0xFFFFFFFF) >> 1, distinct_words & 1], axis=1
        )
        return kinds, counts.astype(np.int64)

    def add(self, charge: RoundCharge) -> None:
        """A round of a new name; ValueError for one that was there."""
        place, pools = len(self), self.pools
        row = {
            "made": charge.made,
            "start": charge.start,
            "end": charge.end,
            "query": pools["queries"].add(charge.query_id.encode()),
            "operators": pools["operators"].add(json.dumps(charge.operators).encode()),
            "price": self._price(charge.price),
            "members": self.set_of(charge.members),
            "invited": self.set_of(charge.members),
        }
        if pools["names"].add(charge.round.encode()) != place:
            raise ValueError("a round is debited once")
        for name in _COLUMNS:
            self.columns[name] = grown(self.columns[name], place + 1)
            self.columns[name][place] = row.get(name, 0)

    def set_of(self, members: MemberSet) -> int:
        """The number of a set of curators."""
        return self.pools["sets"].add(f"{members.size} {members.text}".encode())

    def _price(self, price: Price) -> int:
        number = self.pools["prices"].add(price.text)
        if number == len(self._prices):
            self._prices.append(price)
            self.costs = np.concatenate([self.costs, price.table()[None]])
        return number

    def parts(self) -> dict[str, Any]:
        """What it holds, by name: views."""
        state_parts: dict[str, Any] = {name: self.column(name) for name in _COLUMNS}
        for name, pool in self.pools.items():
            state_parts[f"pool_{name}"], state_parts[f"pool_{name}_ends"] = pool.parts()
        return state_parts

    @classmethod
    def of(cls, parts: Mapping[str, Any]) -> Rounds:
        """The rounds of `parts`. Raises ValueError for invalid parts."""
        rounds = cls()
        rounds.pools = {
            name: Interned.of(parts[f"pool_{name}"], parts[f"pool_{name}_ends"]) for name in _POOLS
        }
        rounds.columns = {name: parts[name] for name in _COLUMNS}
        if any(column.shape != (len(rounds),) for column in rounds.columns.values()):
            raise ValueError("columns of different lengths")
        prices = rounds.pools["prices"]
        rounds._prices = [
            Price.from_payload(json.loads(prices[number])) for number in range(len(prices))
        ]
        tables = [price.table() for price in rounds._prices]
        rounds.costs = np.array(tables, np.int64).reshape(-1, 2, PARTS, *_SHAPE)
        return rounds
