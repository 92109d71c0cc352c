"""Limits on what may be spent, for the whole deployment and for single curators.

Spec: budget, sections 3 and 5. A limit applies to one privacy unit and one collusion scenario, over
the lifetime or per period, and names its currency: what counts against it are sums of epsilon and
of delta (basic composition), or of zCDP. Both hold when later rounds depend on earlier results. It
is checked before a round is opened, in the transaction that opens it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from coordinator.budget.round_charges import ByCurator, Places, Price, Spent, place_of
from coordinator.budget.spending import Spending, most_of
from tacit.accounting.amounts import FEMTO, MICRO, Amount, format_both
from tacit.accounting.composition import LARGEST_EPSILON, Currency, ZcdpLimit, covering_within
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit
from tacit.sets import Bits
from tacit.wire import Exact, WireModel, canonical_json, require

YEAR_S = 366 * 86_400


class Limit(WireModel):
    """The largest epsilon and delta per curator.

    `period_s`: per period counted from 1970; without it, for the lifetime. The unit record has
    no periods: its windows are times themselves. `currency`: `epsilon`, whose sums are compared
    figure by figure; or `zcdp`, where the sum of all zCDP must guarantee this epsilon at this
    delta, which is then required.
    """

    unit: PrivacyUnit = PrivacyUnit.CURATOR
    scenario: Literal["assumed", "all-aggregators"] = "assumed"
    currency: Currency = Currency.EPSILON
    epsilon: Exact
    delta: Exact | None = None
    period_s: Annotated[int, Field(ge=60, le=10 * YEAR_S)] | None = None

    @field_validator("epsilon")
    @classmethod
    def _epsilon(cls, value: Fraction) -> Fraction:
        return require(0 <= value <= MICRO, value, "must lie in 0..1000000")

    @field_validator("delta")
    @classmethod
    def _delta(cls, value: Fraction | None) -> Fraction | None:
        return require(value is None or 0 <= value < 1, value, "must lie in [0, 1)")

    @model_validator(mode="after")
    def _period_fits(self) -> Limit:
        fits = self.period_s is None or self.unit is PrivacyUnit.CURATOR
        require(fits, None, "a limit of unit record has no period")
        return self

    @model_validator(mode="after")
    def _is_of_its_currency(self) -> Limit:
        if self.currency is Currency.ZCDP:
            has_delta = self.delta is not None and self.delta > 0
            require(has_delta, None, "a limit in zcdp is an epsilon at a delta above 0: give both")
            small = self.epsilon <= LARGEST_EPSILON
            require(small, None, f"the epsilon of a limit in zcdp lies in 0..{LARGEST_EPSILON}")
        return self

    @property
    def zcdp(self) -> ZcdpLimit | None:
        """The limit on sums of zCDP; None where it is in epsilon."""
        if self.currency is Currency.EPSILON:
            return None
        assert self.delta is not None
        return ZcdpLimit(self.epsilon, self.delta)

    def exceeded(self, spent: Spent) -> Bits:
        """Which of these sums it does not admit."""
        over: Bits = spent.unverified > 0
        if self.zcdp is not None:
            return over | self.zcdp.exceeded(spent.rho, spent.rho_delta)
        over |= spent.epsilon > int(self.epsilon * MICRO)
        if self.delta is not None:
            over |= spent.delta > int(self.delta * FEMTO)
        return over

    def written(self) -> dict[str, Any]:
        """As JSON has it."""
        return self.model_dump(mode="json", exclude_none=True)

    @property
    def against(self) -> Scenario:
        """The collusion scenario it is about."""
        return Scenario.ASSUMED if self.scenario == "assumed" else Scenario.EVERYONE


@dataclass(frozen=True)
class Limits:
    """The limits of the deployment, and additional ones of single curators by roster number."""

    deployment: tuple[Limit, ...] = ()
    curators: MappingProxyType[int, tuple[Limit, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )

    def changed(self, number: int | None, limits: tuple[Limit, ...]) -> Limits:
        """With these limits of one curator, or (None) of the deployment, instead of the old
        ones."""
        if number is None:
            return Limits(limits, self.curators)
        limits_of = {key: value for key, value in self.curators.items() if key != number}
        if limits:
            limits_of[number] = limits
        return Limits(self.deployment, MappingProxyType(limits_of))

    def canonical(self) -> bytes:
        """Bytes that are equal for equal limits."""
        return canonical_json(
            {
                "deployment": [item.written() for item in self.deployment],
                "curators": {
                    str(number): [item.written() for item in limits]
                    for number, limits in sorted(self.curators.items())
                },
            }
        )

    def to_bytes(self) -> bytes:
        """All of them, in the order in which curators got theirs."""
        return canonical_json(
            [
                [number, [item.written() for item in limits]]
                for number, limits in ((None, self.deployment), *self.curators.items())
            ]
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> Limits:
        """The limits of `to_bytes`. Raises ValueError for anything else."""
        (_, everyone), *curators = [
            (number, tuple(Limit.model_validate_json(json.dumps(item)) for item in limits))
            for number, limits in json.loads(content)
        ]
        return cls(everyone, MappingProxyType(dict(curators)))


@dataclass(frozen=True)
class Shortage:
    """Curators whose limit a round would exceed, and the public figures of the refusal; None: no
    finite figure."""

    limit: Limit
    members: Bits
    asked: Amount | None
    spent: Amount | None
    instant: int | None = None
    rounds: tuple[str, ...] = ()

    def figures(self) -> dict[str, Any]:
        """The figures in a refusal."""
        return {
            "limit": self.limit.written(),
            "asked": format_both(self.asked),
            "spent": format_both(self.spent),
            "curators": int(self.members.sum()),
            "rounds": list(self.rounds[:10]),
            "rounds_in_all": len(self.rounds),
        }


@dataclass(frozen=True)
class Planned:
    """A round to be opened: its price, members, window and current time, the times in microseconds
    since 1970."""

    price: Price
    members: Bits
    window: tuple[int, int]
    now: int


def shortages(limits: Limits, spending: Spending, planned: Planned) -> list[Shortage]:
    """Every limit that the round would exceed; empty if it may be opened."""
    exceeded = [
        shortage
        for limit in limits.deployment
        if (shortage := _over(limit, spending, planned, planned.members)) is not None
    ]
    for number, limits_of_curator in limits.curators.items():
        if number < planned.members.size and planned.members[number]:
            only = np.zeros_like(planned.members)
            only[number] = True
            exceeded += [
                shortage
                for limit in limits_of_curator
                if (shortage := _over(limit, spending, planned, only)) is not None
            ]
    return exceeded


def _over(limit: Limit, spending: Spending, planned: Planned, members: Bits) -> Shortage | None:
    for instant, places in _together(limit, spending, planned):
        spent = _spent(limit, spending, places)
        shortage = _shortage(limit, planned.price, members, spent)
        if shortage is not None:
            blocking = spending.charging(shortage.members, places)
            names = tuple(spending.rounds.name(int(place)) for place in blocking)
            return replace(shortage, instant=instant, rounds=names)
    return None


def _together(
    limit: Limit, spending: Spending, planned: Planned
) -> Iterator[tuple[int | None, Places | None]]:
    """The groups of earlier rounds whose costs would add up with the new one; None: all."""
    column = spending.rounds.column
    if limit.unit is PrivacyUnit.RECORD:
        yield from covering_within(column("start"), column("end"), *planned.window)
    elif limit.period_s is None:
        yield None, None
    else:
        size = limit.period_s * 10**6
        start = planned.now // size * size
        yield None, np.flatnonzero((start <= column("made")) & (column("made") < start + size))


def _spent(limit: Limit, spending: Spending, places: Places | None) -> ByCurator:
    if places is None:
        return spending.totals(limit.against)
    return spending.sums(places, limit.unit, limit.against)


def _shortage(limit: Limit, price: Price, members: Bits, by_curator: ByCurator) -> Shortage | None:
    cost = price.full.at(*place_of(limit.unit, limit.against))
    too_much = limit.exceeded(by_curator.table.plus(cost))
    if not too_much.any():
        return None
    over = members & by_curator.whose(too_much)[: members.size]
    if not over.any():
        return None
    asked = price.cost(limit.unit, limit.against)
    return Shortage(limit, over, asked, most_of(by_curator.among(over)).amount)
