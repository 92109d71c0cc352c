"""A budget's past as a line, and how long a limit lasts if the running schedules continue.

At each instant of the past it is the largest sum of any one curator. Each coming round is taken to
charge the curator that has spent most, so that no limit is reached earlier than forecast.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coordinator.budget.limits import Limit
from coordinator.budget.round_charges import PARTS, Price, Spent, Totals, place_of
from coordinator.budget.spending import ZERO, Figure, Spending, most_of, worst_of
from tacit.accounting.amounts import MICRO
from tacit.accounting.composition import Ints, covering, sums_at
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit


@dataclass(frozen=True, slots=True)
class Point:
    """An instant in microseconds since 1970; what the worst curator had spent by then (under a
    limit with periods: within the instant's period); and in how many rounds."""

    at: int
    worst: Figure
    rounds: int


def history(
    spending: Spending,
    unit: PrivacyUnit,
    scenario: Scenario,
    times: Sequence[int],
    period: int | None = None,
) -> list[Point]:
    """A point for each of these ascending instants. `period`: microseconds, unit curator only.
    Raises ValueError for a period of unit record."""
    if unit is PrivacyUnit.RECORD and period is not None:
        raise ValueError("the unit record has no periods")
    with spending.lock:
        walk = _records(spending, scenario, times)
        if unit is PrivacyUnit.CURATOR:
            walk = _curators(spending, scenario, times, period)
        return list(walk)


def period_start(at: int, period: int | None) -> int:
    """The start of the period of an instant; periods count from 1970. Without periods there is
    none."""
    return np.iinfo(np.int64).min if period is None else at // period * period


def _curators(
    spending: Spending, scenario: Scenario, times: Sequence[int], period: int | None
) -> Iterator[Point]:
    """All rounds of a curator add up, in their period."""
    made_at = spending.rounds.column("made")
    totals, begun, counted_until, rounds = Totals(1, spending.size), None, 0, 0
    for at in times:
        start = period_start(at, period)
        if start != begun:
            totals, begun, counted_until, rounds = Totals(1, spending.size), start, start, 0
            new = np.flatnonzero((start <= made_at) & (made_at <= at))
        else:
            new = np.flatnonzero((counted_until < made_at) & (made_at <= at))
        spending.add_to(totals, new, PrivacyUnit.CURATOR, scenario)
        counted_until, rounds = at, rounds + new.size
        yield Point(at, worst_of(totals.column(0)), rounds)


def _records(spending: Spending, scenario: Scenario, times: Sequence[int]) -> Iterator[Point]:
    """Costs of rounds whose windows cover an instant add up there. Only instants that a new
    round covers can become worse."""
    made_at, starts, ends = (spending.rounds.column(name) for name in ("made", "start", "end"))
    figure_of_rounds: dict[bytes, Figure] = {}
    worst, counted_until = ZERO, np.iinfo(np.int64).min
    for at in times:
        there = np.flatnonzero(made_at <= at)
        new = there[made_at[there] > counted_until]
        for instant in _covered(starts[there], starts[new], ends[new]):
            here = there[covering(starts[there], ends[there], int(instant))]
            kinds, counts = spending.rounds.kinds(here)
            key = kinds.tobytes() + counts.tobytes()
            if key not in figure_of_rounds:
                figure_of_rounds[key] = worst_of(spending.sums(here, PrivacyUnit.RECORD, scenario))
            worst = _larger(worst, figure_of_rounds[key])
        counted_until = at
        yield Point(at, worst, there.size)


def _covered(instants: Ints, starts: Ints, ends: Ints) -> NDArray[np.int64]:
    """Those of these instants that one of the windows covers, each once."""
    distinct_instants = np.unique(instants)
    begun = np.searchsorted(np.sort(starts), distinct_instants, side="right")
    over = np.searchsorted(np.sort(ends), distinct_instants, side="right")
    return distinct_instants[begun > over]


def _larger(one: Figure, other: Figure) -> Figure:
    """The larger of each figure."""
    unbounded = one.epsilon is None or other.epsilon is None
    return Figure(
        None if unbounded else max(one.epsilon or 0, other.epsilon or 0),
        max(one.delta, other.delta),
        rho=max(one.rho, other.rho),
        rho_delta=max(one.rho_delta, other.rho_delta),
    )


# A limit that is forecast to be exhausted may still admit rounds of groups that spent less. All in
# the limit's own currency: sums of epsilon, or of zCDP. Spec: budget, sections 3 and 5; console,
# section 7 (6).

MOST_ROUNDS: Final = 200_000
"""Of all schedules together: five and a half years of a round every quarter of an hour."""
POINTS: Final = 61


@dataclass(frozen=True, slots=True)
class Coming:
    """A schedule's future rounds: when the first opens, and the time between two, in
    microseconds. `window`: of every round, if the query fixes it; else each round has the period
    before its opening."""

    price: Price
    first: int
    period: int
    window: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """What would make the limit last: only every `every`-th round of each schedule (None:
    nothing would); or for each round at most this share of its price (rounded down)."""

    every: int | None
    share: Fraction


@dataclass(frozen=True, slots=True)
class Step:
    """What the worst curator will have spent by an instant (under a limit with periods: within
    that period); `rounds`: how many will have opened from now on."""

    at: int
    spent: Figure
    rounds: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """One limit. `spent`: now; `exhausted`: when the first round is refused, None if none is;
    `ends`: the last instant examined; for a limit with periods the start of the next one."""

    limit: Limit
    spent: Figure
    steps: tuple[Step, ...]
    exhausted: int | None
    ends: int
    advice: Advice | None


def count_rounds(schedules: Sequence[Coming], until: int) -> int:
    """How many rounds open until an instant."""
    return sum(max(0, (until - schedule.first) // schedule.period + 1) for schedule in schedules)


def outlook(
    limit: Limit, spending: Spending, schedules: Sequence[Coming], now: int, until: int
) -> Outlook:
    """The limit under these schedules, between two instants in microseconds since 1970.

    Raises ValueError beyond `MOST_ROUNDS` rounds.
    """
    if count_rounds(schedules, until) > MOST_ROUNDS:
        raise ValueError(f"more than {MOST_ROUNDS} rounds: look less far ahead")
    rounds = _Rounds.of(limit, schedules, until)

    def against(some: _Rounds) -> _Meeting:
        if limit.unit is PrivacyUnit.RECORD:
            return _Records(limit, spending, some)
        return _Curators(limit, spending, some, now)

    meet = against(rounds)
    period = None if limit.period_s is None else limit.period_s * 10**6
    ends = until if period is None else period_start(now, period) + period
    final = until if period is None else min(until, ends - 1)
    first = meet.first_refused()
    exhausted = None if first is None else int(rounds.at[first])
    last = final if exhausted is None else min(final, exhausted)
    steps = [
        Step(at, meet.spent_after(count), count)
        for at in np.linspace(now, last, POINTS).astype(np.int64).tolist()
        for count in (int(np.searchsorted(rounds.at, at, side="right")),)
        if first is None or count <= first
    ]
    if exhausted is not None and first is not None and exhausted <= final:
        steps.append(Step(exhausted, meet.spent_after(first), first))
    share = None if exhausted is None else meet.share()
    advice = None
    if share is not None and share > 0:
        least = max(2, math.ceil(1 / (share + Fraction(1, MICRO))))  # share is rounded down
        fits = (n for n in range(least, least + 10) if against(rounds.thinned(n)).fits)
        thousandths = Fraction(math.floor(share * 1000), 1000)
        advice = Advice(next(fits, None), thousandths or share)
    return Outlook(limit, meet.spent_after(0), tuple(steps), exhausted, ends, advice)


@dataclass(frozen=True, slots=True)
class _Rounds:
    """The coming rounds in order of time: (n,) columns. `price`: in `Spent.parts`, (parts, n);
    `number`: from 1 on within its schedule."""

    at: Ints
    price: Ints
    starts: Ints
    ends: Ints
    number: Ints

    def thinned(self, n: int) -> _Rounds:
        """Of each schedule only every n-th round."""
        is_kept = self.number % n == 0
        return _Rounds(*(getattr(self, name)[..., is_kept] for name in self.__slots__))

    @classmethod
    def of(cls, limit: Limit, schedules: Sequence[Coming], until: int) -> _Rounds:
        columns: list[Ints] = []
        for schedule in schedules:
            at = np.arange(schedule.first, until + 1, schedule.period, dtype=np.int64)
            price = schedule.price.full.at(*place_of(limit.unit, limit.against))
            starts, ends = at - schedule.period, at
            if schedule.window is not None:
                starts, ends = (np.full_like(at, bound) for bound in schedule.window)
            prices = [np.full_like(at, amount) for amount in price.parts]
            columns.append(np.stack([at, *prices, starts, ends, np.arange(1, at.size + 1)]))
        joined = np.concatenate(columns, axis=1) if columns else np.zeros((4 + PARTS, 0), np.int64)
        at, *prices, starts, ends, number = joined[:, np.argsort(joined[0], kind="stable")]
        return cls(at, np.stack(prices), starts, ends, number)


class _Meeting(ABC):
    """A limit that meets the coming rounds."""

    @abstractmethod
    def first_refused(self) -> int | None:
        """The first round that the limit refuses; None if it admits all."""

    @abstractmethod
    def spent_after(self, count: int) -> Figure:
        """What the worst curator has spent after this many rounds."""

    @abstractmethod
    def share(self) -> Fraction | None:
        """How much of what is planned fits; None where it has no finite price."""

    @property
    def fits(self) -> bool:
        return self.first_refused() is None


class _Curators(_Meeting):
    """Unit curator: all costs add up, within a period if the limit has periods."""

    def __init__(self, limit: Limit, spending: Spending, rounds: _Rounds, now: int) -> None:
        self._limit, self._rounds = limit, rounds
        self._period = None if limit.period_s is None else limit.period_s * 10**6
        begun = period_start(now, self._period)
        if self._period is None:
            base = spending.worst_curator(limit.against)
        else:
            made_at = spending.rounds.column("made")
            places = np.flatnonzero((begun <= made_at) & (made_at <= now))
            base = worst_of(spending.sums(places, limit.unit, limit.against))
        self._base = base
        period_of = np.zeros_like(rounds.at) if self._period is None else rounds.at // self._period
        here = period_of == (0 if self._period is None else begun // self._period)
        self._here = here
        self._sums = Spent(
            *(
                _within(column, period_of) + here * amount
                for column, amount in zip(rounds.price, _parts(base), strict=True)
            )
        )

    def first_refused(self) -> int | None:
        over = self._limit.exceeded(self._sums)
        return int(over.argmax()) if over.any() else None

    def spent_after(self, count: int) -> Figure:
        if count == 0:
            return self._base
        return most_of(self._sums.at(np.array([count - 1])))

    def share(self) -> Fraction | None:
        if self._sums.unverified.any() or self._base.epsilon is None:
            return None
        here = self._rounds.price[:, self._here].sum(axis=1)
        later = [part[~self._here].max(initial=0) for part in self._sums.parts]
        planned = Spent(*np.stack([here, later], axis=1))
        spent = np.array(_parts(self._base), np.int64)
        return _share(self._limit, Spent(*np.stack([spent, 0 * spent], axis=1)), planned)


class _Records(_Meeting):
    """Unit record: rounds whose windows cover one instant add up."""

    def __init__(self, limit: Limit, spending: Spending, rounds: _Rounds) -> None:
        self._limit, self._rounds = limit, rounds
        self._base = spending.worst_record(limit.against)
        round_table = spending.rounds
        columns = [round_table.column(name) for name in ("start", "end")]
        near = np.zeros(len(round_table), np.bool_)
        if rounds.at.size:
            near = (columns[0] < rounds.ends.max()) & (rounds.starts.min() < columns[1])
        places = np.flatnonzero(near)
        prices = round_table.column("price")[places], round_table.column("credited")[places]
        costs = round_table.costs[(*prices, slice(None), *place_of(limit.unit, limit.against))]
        # All of them, whomever they charge: at least what the worst curator has.
        self._before = tuple(column[places] for column in columns)
        self._costs = tuple(costs.T)

    def _sums(self, count: int, instants: Ints | None = None) -> Spent:
        """What instants cost with the first rounds. By default the instants that these rounds
        cover and at which the sum can be largest."""
        rounds = self._rounds
        coming = rounds.starts[:count], rounds.ends[:count]
        starts, ends = (np.concatenate(pair) for pair in zip(self._before, coming, strict=True))
        if instants is None:
            instants = np.unique(starts)
            instants = instants[sums_at(*coming, np.ones(count, np.int64), instants) > 0]
        return Spent(
            *(
                sums_at(starts, ends, np.concatenate([old, new[:count]]), instants)
                for old, new in zip(self._costs, rounds.price, strict=True)
            )
        )

    def first_refused(self) -> int | None:
        low, high = 0, self._rounds.at.size  # a prefix of `low` rounds is admitted
        if not self._limit.exceeded(self._sums(high)).any():
            return None
        while high - low > 1:
            middle = (low + high) // 2
            refused = bool(self._limit.exceeded(self._sums(middle)).any())
            low, high = (low, middle) if refused else (middle, high)
        return low

    def spent_after(self, count: int) -> Figure:
        if count == 0:
            return self._base
        sums = self._sums(count)
        return _larger(self._base, most_of(sums)) if sums.epsilon.size else self._base

    def share(self) -> Fraction | None:
        rounds = self._rounds
        instants = np.unique(np.concatenate([self._before[0], rounds.starts]))
        before, after = self._sums(0, instants), self._sums(rounds.at.size, instants)
        if after.unverified.any():
            return None
        planned = Spent(*(new - old for old, new in zip(before.parts, after.parts, strict=True)))
        touched = np.any(planned.parts, axis=0)
        return _share(self._limit, before.at(touched), planned.at(touched))


def _parts(figure: Figure) -> tuple[int, int, int, int, int]:
    """A figure as `Spent.parts`."""
    unverified = int(figure.epsilon is None)
    return figure.epsilon or 0, figure.delta, unverified, figure.rho, figure.rho_delta


def _within(amounts: Ints, groups: Ints) -> Ints:
    """Running sums, begun again with each group; groups rise."""
    sums = np.cumsum(amounts)
    firsts = np.searchsorted(groups, groups)  # where each one's group begins
    before: Ints = sums - (sums[firsts] - amounts[firsts])
    return before


def _share(limit: Limit, spent: Spent, planned: Spent) -> Fraction:
    """The share of the planned amounts that fits in addition to the spent ones, in every place
    (n,); in millionths, rounded down."""

    def fits(share: int) -> bool:
        parts = zip(spent.parts, planned.parts, strict=True)
        sums = Spent(*(old + _part(new, share) for old, new in parts))
        return not limit.exceeded(sums).any()

    low, high = -1, MICRO  # all of it does not fit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return Fraction(max(low, 0), MICRO)


def _part(amounts: Ints, share: int) -> Ints:
    """This share, in millionths, of each amount, rounded up, without exceeding 64 bits."""
    whole_micro, rest = np.divmod(amounts, MICRO)
    part: Ints = whole_micro * share - (-rest * share) // MICRO
    return part
