"""The curator's own ledger, which is authoritative: cost of a round, spent and remaining budget.

Spec: budget, sections 3 and 5. Every round and every collection costs something in *both* privacy
units and in both currencies, epsilon and zCDP, by window and collusion scenario. The totals of a
host's curators are nearly always equal, so they are kept as run lengths: a million of them take a
few bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from math import ceil
from operator import attrgetter
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from common.runtime.clock import epoch_microseconds, from_epoch_microseconds
from curator.policy import Limit, Limits
from tacit import sets
from tacit.accounting.amounts import FEMTO, MICRO, NANO, Cost
from tacit.accounting.charges import job_costs, unit_cost
from tacit.accounting.composition import covering_within, stated_epsilon
from tacit.accounting.guarantees import priced_text
from tacit.accounting.scenarios import Scenario
from tacit.answers import curator as answers
from tacit.answers.curator import AgreedLimits, ChargedAmount, PeriodCharge, UnitStatement
from tacit.query.fields import Window
from tacit.query.query import Query
from tacit.query.terms import PrivacyUnit
from tacit.report.figures import epsilon_amount
from tacit.wire import format_exact, format_instant

Ints = NDArray[np.int64]
Bits = NDArray[np.bool_]

INFINITE: Final = 1 << 50
"""Totals stop here: no finite epsilon reaches 10^9, no useful delta 1."""
LIFETIME: Final = 0
FOREVER: Final = datetime.fromisoformat("9999-01-01T00:00:00+00:00")
BEGINNING: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True)
class Charge:
    """What one round costs in one privacy unit, in both currencies: columns (e) and (d)."""

    epsilon: int
    delta: int
    epsilon_all: int
    delta_all: int
    rho: int
    rho_delta: int
    rho_all: int
    rho_delta_all: int

    def amounts(self) -> tuple[int, ...]:
        """All of them, in the order of the fields."""
        return tuple(vars(self).values())

    @classmethod
    def of(cls, assumed: Cost, everyone: Cost) -> Charge:
        """Of exact costs, rounded up."""
        pure = *_scaled(assumed), *_scaled(everyone)
        return cls(*pure, *_scaled_zcdp(assumed), *_scaled_zcdp(everyone))

    @property
    def everyones(self) -> Charge:
        """With column (d) alone."""
        return replace(self, epsilon=0, delta=0, rho=0, rho_delta=0)

    @property
    def assumed(self) -> Charge:
        """With column (e) alone."""
        return replace(self, epsilon_all=0, delta_all=0, rho_all=0, rho_delta_all=0)

    @property
    def verified(self) -> bool:
        """Whether column (e) is a figure that holds."""
        return self.epsilon < INFINITE


Charges = Mapping[PrivacyUnit, Charge]
"""What one round costs, in both units."""


@lru_cache(maxsize=1024)
def _charges(text: str, operators: tuple[str, ...] | None) -> Charges:
    query = Query.model_validate_json(text)

    def cost(unit: PrivacyUnit, scenario: Scenario) -> Cost:
        return unit_cost(query, scenario, unit, operators)

    return MappingProxyType(
        {
            unit: Charge.of(cost(unit, Scenario.ASSUMED), cost(unit, Scenario.EVERYONE))
            for unit in PrivacyUnit
        }
    )


def charges_of(query: Query, operators: Sequence[str] | None = None) -> Charges:
    """The cost of a round of this query; the same for every curator. May take a second, once.

    `operators`: those of its aggregators (two of one operator count as one aggregator).
    """
    return _charges(priced_text(query), None if operators is None else tuple(operators))


def job_charges(query: Query, epsilon: Fraction, operators: Sequence[str] | None = None) -> Charges:
    """The one debit of a job whose records spend `epsilon` at most in all its rounds, which are
    like this one. Spec: federated-counting, section 6."""
    costs = job_costs(query, epsilon, operators)
    return {
        unit: Charge.of(costs[unit, Scenario.ASSUMED], costs[unit, Scenario.EVERYONE])
        for unit in PrivacyUnit
    }


PAID: Final[Charges] = MappingProxyType(
    dict.fromkeys(PrivacyUnit, Charge(*(0 for _ in fields(Charge))))
)
"""Of a later round of such a job."""


def _scaled(cost: Cost) -> tuple[int, int]:
    if cost.epsilon is None or cost.delta is None:
        return INFINITE, 0
    return min(ceil(cost.epsilon * MICRO), INFINITE), min(ceil(cost.delta * FEMTO), INFINITE)


def _scaled_zcdp(cost: Cost) -> tuple[int, int]:
    if cost.zcdp is None:
        return INFINITE, 0
    rho, delta = cost.zcdp
    return min(ceil(rho * NANO), INFINITE), min(ceil(delta * FEMTO), INFINITE)


@dataclass(frozen=True)
class Totals:
    """Sums of debits of consecutive curators, one element each; columns as of `Charge`."""

    epsilon: Ints
    delta: Ints
    epsilon_all: Ints
    delta_all: Ints
    rho: Ints
    rho_delta: Ints
    rho_all: Ints
    rho_delta_all: Ints

    @classmethod
    def zero(cls, count: int) -> Totals:
        """Nothing spent by `count` curators."""
        return cls(*np.zeros((len(fields(cls)), count), np.int64))

    def columns(self) -> tuple[Ints, ...]:
        """The arrays, in the order of a charge's fields."""
        return _COLUMNS(self)

    def plus(self, charge: Charge, members: Bits, *, factor: int = 1) -> Totals:
        """With the charge added for the members; `factor` -1 subtracts it. Infinite sums stay
        infinite."""
        amounts = charge.amounts()

        def added(column: Ints, amount: int) -> Ints:
            if amount == 0:
                return column
            moved = np.clip(column + members * np.int64(factor * amount), 0, INFINITE)
            return np.where(column >= INFINITE, column, moved)

        return Totals(*(added(*pair) for pair in zip(self.columns(), amounts, strict=True)))

    def plus_times(self, charge: Charge, times: Ints) -> Totals:
        """With the charge added `times` times for each curator, or for all of them."""
        amounts = charge.amounts()

        def added(column: Ints, amount: int) -> Ints:
            if amount == 0:
                return column
            enough = np.minimum(times, INFINITE // amount + 1)  # the product stays below 2^63
            return np.minimum(column + enough * np.int64(amount), INFINITE)

        return Totals(*(added(*pair) for pair in zip(self.columns(), amounts, strict=True)))

    def spread(self, count: int) -> Totals:
        """For `count` curators, also if a column has one element for all of them."""
        return Totals(*(np.broadcast_to(column, count) for column in self.columns()))

    def maximum(self, other: Totals) -> Totals:
        """The larger of the two, elementwise."""
        pairs = zip(self.columns(), other.columns(), strict=True)
        return Totals(*(np.maximum(a, b) for a, b in pairs))

    def part(self, start: int, stop: int) -> Totals:
        """Those of some of the curators."""
        return Totals(*(column[start:stop] for column in self.columns()))


_COLUMNS: Final[Callable[[Totals], tuple[Ints, ...]]] = attrgetter(
    *(field.name for field in fields(Totals))
)


@dataclass(frozen=True)
class Debit:
    """One row of the ledger, in one unit: a round's charge for the members of a span of curators.

    `offset` counts from the party's first curator; `members` has one bit per curator of the
    span. `contribution`: the one that was paid for; None for reports.
    """

    charge: Charge
    offset: int
    members: Bits
    window: Window
    made: datetime
    credited: bool
    contribution: int | None = None

    def over(self, offset: int, length: int) -> Bits:
        """Its members as seen from another span."""
        return members_over((self.offset, self.members), offset, length)

    @property
    def counted(self) -> Charge:
        """The charge with column (e) taken back if it was credited."""
        if not self.credited or not self.charge.verified:
            return self.charge
        return self.charge.everyones


def members_over(members: tuple[int, Bits], offset: int, length: int) -> Bits:
    """Members (the offset of their span, and their bits) relative to another span (offset,
    length)."""
    first, bits = members
    result = np.zeros(length, np.bool_)
    start, stop = max(offset, first), min(offset + length, first + len(bits))
    if start < stop:
        result[start - offset : stop - offset] = bits[start - first : stop - first]
    return result


def period_of(now: datetime, period_s: int) -> tuple[datetime, datetime]:
    """The period (fixed, counted from 1970) that contains an instant; `LIFETIME` never ends."""
    if period_s == LIFETIME:
        return BEGINNING, FOREVER
    size = period_s * 10**6
    start = epoch_microseconds(now) // size * size
    return from_epoch_microseconds(start), from_epoch_microseconds(start + size)


def sum_debits(debits: Iterable[Debit], offset: int, length: int, *, verified_only: bool) -> Totals:
    """Basic composition of some debits for the curators of a span."""
    return _sum(debits, offset, length, verified_only=verified_only).spread(length)


def _sum(debits: Iterable[Debit], offset: int, length: int, *, verified_only: bool) -> Totals:
    """The same sum; a column has one element if it is the same for all curators, as most debits are
    of all curators of a span, or of none.

    Debits of one charge are counted, and added once: a proved round has hundreds of rows that
    differ only in their curators.
    """
    alike: dict[Charge, list[Debit]] = {}
    for item in debits:
        if item.offset < offset + length and offset < item.offset + len(item.members):
            alike.setdefault(_for_account(item.counted, verified_only), []).append(item)
    total = Totals.zero(1)
    for charge, some in alike.items():
        total = total.plus_times(charge, _times(some, offset, length))
    return total


def _times(debits: Iterable[Debit], offset: int, length: int) -> Ints:
    """How many of these debits, which all meet the span, charge each of its curators; one
    element if that is the same for all."""
    of_all, times = 0, np.zeros(0, np.int64)
    for item in debits:
        first = max(offset - item.offset, 0)
        covered = item.members[first : offset + length - item.offset]
        if len(covered) == length and covered.all():
            of_all += 1
            continue
        if not times.size:
            times = np.zeros(length, np.int64)
        start = item.offset + first - offset
        times[start : start + len(covered)] += covered
    if not times.size or (times == times[0]).all():
        times = times[:1] if times.size else np.zeros(1, np.int64)
    return times + of_all


def for_account(charge: Charge, period_s: int) -> Charge:
    """The part of a charge that counts in an account: in a period only column (e) of verified
    rounds."""
    return _for_account(charge, period_s != LIFETIME)


def _for_account(charge: Charge, verified_only: bool) -> Charge:
    if verified_only and not charge.verified:
        return charge.everyones
    return charge


def largest_over_instants(
    debits: Sequence[Debit], window: Window, offset: int, length: int, *, verified_only: bool
) -> Totals:
    """The largest sum over the instants of `window` of the debits that cover them (a sweep)."""
    starts = np.array([epoch_microseconds(item.window.start) for item in debits], np.int64)
    ends = np.array([epoch_microseconds(item.window.end) for item in debits], np.int64)
    bounds = epoch_microseconds(window.start), epoch_microseconds(window.end)
    worst = Totals.zero(1)
    for _, places in covering_within(starts, ends, *bounds):
        inside = [debits[place] for place in places]
        worst = worst.maximum(_sum(inside, offset, length, verified_only=verified_only))
    return worst.spread(length)


# --- limits --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shortage:
    """Curators whose budget a round would exceed, with the public figures of the refusal."""

    members: Bits
    detail: str
    figures: dict[str, str]


def shortages(
    limits: Limits, charge: Charge, period: Totals, lifetime: Totals, members: Bits
) -> list[Shortage]:
    """Which of the members cannot afford the charge, limit by limit; empty if all can.

    A round without a verified figure costs no finite amount: it never fits a finite lifetime
    limit, and always fits a period's limit (the policy decides whether such rounds are allowed).
    """
    exceeded = [
        *_over(limits.period, "period", for_account(charge, 1), period, ""),
        *_over(limits.lifetime, "lifetime", charge, lifetime, ""),
        *_over(limits.all_aggregators, "all aggregators", charge, period, "_all"),
    ]
    result, members_left = [], members.copy()
    for over, detail, figures in exceeded:
        blocked = members_left & over
        if blocked.any():
            members_left &= ~blocked
            result.append(Shortage(blocked, detail, figures))
    return result


def _over(
    limit: Limit, name: str, charge: Charge, spent: Totals, column: str
) -> Iterable[tuple[Bits, str, dict[str, str]]]:
    """`column`: "" for (e), "_all" for (d)."""

    def both(figure: str) -> tuple[int, Ints]:
        cost, before = getattr(charge, figure + column), getattr(spent, figure + column)
        if figure != "delta":
            return cost, before
        # What has no verified figure has none at any delta.
        epsilon, epsilons = both("epsilon")
        unbounded = np.where(epsilons >= INFINITE, INFINITE, before)
        return INFINITE if epsilon >= INFINITE else cost, unbounded

    for figure, most, scale in (("epsilon", limit.epsilon, MICRO), ("delta", limit.delta, FEMTO)):
        if most is None:
            continue
        cost, before = both(figure)
        over = before + cost > int(most * scale)
        if over.any():
            figures = {"limit": format_exact(most), **_asked(cost, before[over], scale)}
            yield over, f"the {name} limit on {figure} would be exceeded", figures
    if limit.zcdp is None:
        return
    (rho, rho_before), (delta, delta_before) = both("rho"), both("rho_delta")
    over = limit.zcdp.limit.exceeded(rho_before + rho, delta_before + delta)
    if over.any():
        figures = {
            "limit": format_exact(limit.zcdp.epsilon),
            "limit_delta": format_exact(limit.zcdp.delta),
            "limit_rho": format_scaled(max(0, limit.zcdp.limit.most_rho()), NANO),
            **_asked(rho, rho_before[over], NANO),
            "asked_delta": format_scaled(delta, FEMTO),
            "spent_delta_at_most": format_scaled(int(delta_before[over].max()), FEMTO),
        }
        yield over, f"the {name} limit on zcdp would be exceeded", figures


def _asked(cost: int, spent: Ints, scale: int) -> dict[str, str]:
    return {
        "asked": format_scaled(cost, scale),
        "spent_at_most": format_scaled(int(spent.max()), scale),
    }


def format_scaled(amount: int, scale: int) -> str:
    """An amount as a decimal string, or "inf"."""
    return "inf" if amount >= INFINITE else format_exact(Fraction(amount, scale))


def format_charge(charge: Charge) -> dict[str, str]:
    """All columns of a charge, or of sums of charges, as decimal strings."""
    return {
        "epsilon": format_scaled(charge.epsilon, MICRO),
        "delta": format_scaled(charge.delta, FEMTO),
        "epsilon_all_aggregators": format_scaled(charge.epsilon_all, MICRO),
        "delta_all_aggregators": format_scaled(charge.delta_all, FEMTO),
        "rho": format_scaled(charge.rho, NANO),
        "rho_delta": format_scaled(charge.rho_delta, FEMTO),
        "rho_all_aggregators": format_scaled(charge.rho_all, NANO),
        "rho_delta_all_aggregators": format_scaled(charge.rho_delta_all, FEMTO),
        "zcdp_epsilon": epsilon_amount(stated_epsilon(charge.rho, charge.rho_delta)),
    }


def presence_bits(bitmap: bytes, length: int) -> Bits:
    """The members of a stored bitmap."""
    return sets.unpack(bitmap, length)


def statement_of(
    debits: Sequence[Debit],
    position: int,
    now: datetime,
    period_s: int,
    limits: Limits,
    shown: list[answers.Debit],
) -> UnitStatement:
    """One unit's part of a curator's ledger statement; `shown`: its newest debits."""
    start, end = period_of(now, period_s)
    current = [item for item in debits if start <= item.made < end]
    period = sum_debits(current, position, 1, verified_only=True)
    lifetime = sum_debits(debits, position, 1, verified_only=False)
    mine = [item for item in debits if item.over(position, 1)[0]]
    return UnitStatement(
        limits=AgreedLimits.model_validate(limits.model_dump(mode="json", exclude_none=True)),
        period=PeriodCharge(
            start=format_instant(start), seconds=period_s, **format_charge(_charge_of(period))
        ),
        lifetime=ChargedAmount(**format_charge(_charge_of(lifetime))),
        rounds=len(mine),
        unverified_rounds=sum(not item.charge.verified for item in mine),
        debits=shown,
    )


def worst_instant(debits: Sequence[Debit], position: int) -> ChargedAmount:
    """The record unit's figure: the largest sum over all instants that any round covers."""
    mine = [item for item in debits if item.over(position, 1)[0]]
    worst = Totals.zero(1)
    if mine:
        hull = Window(
            start=min(item.window.start for item in mine),
            end=max(item.window.end for item in mine) + timedelta(microseconds=1),
        )
        worst = largest_over_instants(mine, hull, position, 1, verified_only=False)
    return ChargedAmount(**format_charge(_charge_of(worst)))


def _charge_of(totals: Totals) -> Charge:
    """The totals of one curator."""
    return Charge(*(int(column[0]) for column in totals.columns()))


# Run lengths: uint32 count of runs, then an int64 value per run, then a uint32 length per run
# (little-endian).


def pack_run_lengths(values: Ints) -> bytes:
    """The runs of a one-dimensional array."""
    if values.size == 0:
        return pack_runs(values, values)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(values)) + 1))
    return pack_runs(values[starts], np.diff(np.concatenate((starts, [values.size]))))


def unpack_run_lengths(packed: bytes) -> Ints:
    """The array of `pack`; raises ValueError for other bytes."""
    return np.repeat(*unpack_runs(packed))


def pack_runs(values: Ints, lengths: Ints) -> bytes:
    """The same of runs that are known: the value and the length of each."""
    head = np.array([values.size], "<u4").tobytes()
    return head + values.astype("<i8").tobytes() + lengths.astype("<u4").tobytes()


def unpack_runs(packed: bytes) -> tuple[Ints, Ints]:
    """The values and lengths of the runs; raises ValueError for other bytes than `pack`'s."""
    if len(packed) < 4:
        raise ValueError("not a packed array")
    count = int(np.frombuffer(packed, "<u4", 1)[0])
    if len(packed) != 4 + 12 * count:
        raise ValueError("not a packed array")
    values = np.frombuffer(packed, "<i8", count, 4)
    lengths = np.frombuffer(packed, "<u4", count, 4 + 8 * count)
    return values.astype(np.int64, copy=False), lengths.astype(np.int64)
