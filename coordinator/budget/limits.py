"""Limits on what may be spent, for the whole deployment and for single curators.

Spec: budget, sections 3 and 5. A limit applies to one privacy unit and one collusion scenario, over
the lifetime or per period; what counts against it is basic composition. It is checked before a
round is opened, in the transaction that opens it.
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

from coordinator.budget.round_charges import ByCurator, Places, Price
from coordinator.budget.spending import Spending
from tacit.accounting.amounts import FEMTO, MICRO, Amount, format_amount
from tacit.accounting.composition import covering_within
from tacit.accounting.scenarios import Scenario
from tacit.query.terms import PrivacyUnit
from tacit.sets import Bits
from tacit.wire import Exact, WireModel, canonical_json, require

YEAR_S = 366 * 86_400


class Limit(WireModel):
    """The largest epsilon and delta per curator. `period_s`: per period counted from 1970; without
    it, for the lifetime. The unit record has no periods: its windows are times themselves."""

    unit: PrivacyUnit = PrivacyUnit.CURATOR
    scenario: Literal["assumed", "all-aggregators"] = "assumed"
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
        whole = self.period_s is None or self.unit is PrivacyUnit.CURATOR
        require(whole, None, "a limit of unit record has no period")
        return self

    @property
    def against(self) -> Scenario:
        """The collusion scenario it is about."""
        return Scenario.ASSUMED if self.scenario == "assumed" else Scenario.EVERYONE


@dataclass(frozen=True)
class Limits:
    """The limits of the deployment, and further ones of single curators by roster number."""

    deployment: tuple[Limit, ...] = ()
    curators: MappingProxyType[int, tuple[Limit, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )

    def changed(self, number: int | None, limits: tuple[Limit, ...]) -> Limits:
        """With these limits of one curator, or (None) of the deployment, in place of the old."""
        if number is None:
            return Limits(limits, self.curators)
        others = {key: value for key, value in self.curators.items() if key != number}
        if limits:
            others[number] = limits
        return Limits(self.deployment, MappingProxyType(others))

    def canonical(self) -> bytes:
        """Bytes that are equal for equal limits."""
        return canonical_json(
            {
                "deployment": [item.model_dump(mode="json") for item in self.deployment],
                "curators": {
                    str(number): [item.model_dump(mode="json") for item in limits]
                    for number, limits in sorted(self.curators.items())
                },
            }
        )

    def to_bytes(self) -> bytes:
        """All of them, in the order in which curators got theirs."""
        return canonical_json(
            [
                [number, [item.model_dump(mode="json") for item in limits]]
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
    """Curators whose limit a round would exceed, and the public figures of the refusal; None:
    without a finite figure."""

    limit: Limit
    members: Bits
    asked: Amount | None
    spent: Amount | None
    instant: int | None = None
    rounds: tuple[str, ...] = ()

    def figures(self) -> dict[str, Any]:
        """The figures in a refusal."""
        return {
            "limit": self.limit.model_dump(mode="json", exclude_none=True),
            "asked": format_amount(self.asked),
            "spent": format_amount(self.spent),
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
    """The groups of earlier rounds that would add up with the new one; None: all."""
    column = spending.rounds.column
    if limit.unit is PrivacyUnit.RECORD:
        start, end = planned.window
        # Only to save time: the sweep leaves out what covers no instant of the window.
        near = np.flatnonzero((column("start") < end) & (start < column("end")))
        windows = column("start")[near], column("end")[near]
        for instant, places in covering_within(*windows, start, end):
            yield instant, near[places]
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
    cost = price.cost(limit.unit, limit.against)
    spent = by_curator.table
    if cost is None:
        over = members.copy()
    else:
        most_epsilon = int(limit.epsilon * MICRO)
        too_much = (spent.unverified > 0) | (spent.epsilon + cost.epsilon > most_epsilon)
        if limit.delta is not None:
            too_much |= spent.delta + cost.delta > int(limit.delta * FEMTO)
        if not too_much.any():
            return None
        over = members & by_curator.whose(too_much)[: members.size]
    if not over.any():
        return None
    found = by_curator.among(over)
    most = Amount(int(found.epsilon.max()), int(found.delta.max()))
    return Shortage(limit, over, cost, None if found.unverified.any() else most)
