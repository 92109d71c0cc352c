"""Answers about the coordinator's ledger: what was spent, and what limits allow (spec: budget).

Epsilon and delta bound how much more probable an outcome is with one curator's data, or one
reading, than without; a scenario says who pools what they see.
"""

from __future__ import annotations

from typing import Any, Literal

from tacit.answers.base import Answer, Figure, Time
from tacit.answers.datasets import Amount

Unit = Literal["record", "curator"]


class SpendingLimit(Answer):
    """The largest epsilon and delta of a unit. `period_s`: in each such period counted from 1970;
    without it, for the lifetime. `currency`: `epsilon`, where epsilons and deltas are summed; or
    `zcdp`, where the sum of all zCDP guarantees this epsilon at this delta."""

    unit: Unit
    scenario: str
    currency: Literal["epsilon", "zcdp"]
    epsilon: Figure
    delta: Figure | None = None
    period_s: int | None = None


class Limits(Answer):
    """The limits of the deployment."""

    limits: list[SpendingLimit]


class CuratorLimits(Answer):
    """The limits of one curator."""

    curator: str
    limits: list[SpendingLimit]


class LedgerPosition(Answer):
    """The newest row of the ledger, and its hash in hex."""

    seq: int
    head: str


class Standings(Answer):
    """How many curators have each status. `undeclared`: how many declare no epsilon."""

    active: int
    flagged: int
    non_compliant: int
    left: int
    undeclared: int


class SourceBound(Answer):
    """A bound of the sources. `applies`: null where that cannot be known."""

    name: str
    epsilon: Figure | None
    applies: bool | None
    reason: str | None


class Theorem(Answer):
    """The condition of theorem 5.2: whether the largest total lies below the limit."""

    largest_total: Figure
    limit: Figure
    holds: bool


class OneRelease(Answer):
    """What one release really guarantees, a unit each."""

    record: Figure
    curator: Figure
    sentence: str


class Claimed(Answer):
    """What the sources claim, and the verified guarantee. `reason`: why there are no bounds."""

    stance: str | None = None
    bounds: list[SourceBound]
    reason: str | None = None
    theorem_5_2: Theorem | None = None
    sentence: str | None = None
    holds: OneRelease | None = None


class ScenarioAmount(Answer):
    """An amount under one scenario; `key` is its letter. In both currencies: (epsilon, delta), and
    zCDP as (rho, rho_delta), which guarantees `zcdp_epsilon` at delta 10^-6."""

    scenario: str
    key: str
    epsilon: Figure
    delta: Figure
    rho: Figure
    rho_delta: Figure
    zcdp_epsilon: Figure


class Worst(Answer):
    """Who spent most; `instant`: of the unit record, when its reading lies."""

    curator: str | None
    instant: Time | None = None


class ReleasedAmount(Answer):
    """What the curator that spent most has spent, in the rounds that `counts` describes; at most
    the amount of any larger group. `tight`: composed numerically, at the requested delta;
    `worst`: for operators. In both currencies: (epsilon, delta), and zCDP as (rho, rho_delta),
    which guarantees `zcdp_epsilon` at delta 10^-6."""

    scenario: str
    key: str
    trust_model: str | None
    counts: str
    epsilon: Figure
    delta: Figure
    rho: Figure
    rho_delta: Figure
    zcdp_epsilon: Figure
    tight: Amount | None = None
    worst: Worst | None = None


class Released(Answer):
    """The composed guarantee of all rounds, by unit. `exact_answers`: how many of them are sums
    without noise; the guarantee holds only against people who do not have those."""

    rounds: int
    exact_answers: int
    record: list[ReleasedAmount]
    curator: list[ReleasedAmount]
    sentence: str
    tight_sentence: str | None = None


class Budget(Answer):
    """The budget of the deployment."""

    ledger: LedgerPosition
    curators: Standings
    claimed: Claimed
    released: Released
    limits: list[SpendingLimit]


class Declared(Answer):
    """What a curator declares of its data and protection."""

    epsilon: Figure
    sensitivity: Figure
    largest_contribution: Figure


class Disclosed(Answer):
    """What a curator discloses of its data to operators."""

    largest_reading: Figure
    total: Figure
    readings: int
    negative_readings: bool


class Spent(Answer):
    """What a curator spent in its rounds, by unit. `exact_answers`: how many of them are sums
    without noise; the amounts hold only against people who do not have those."""

    rounds: int
    exact_answers: int
    record: list[ScenarioAmount]
    curator: list[ScenarioAmount]


class CuratorBudget(Answer):
    """A curator's status and spending. `refreshed`: how often it declared again; `disclosed`: for
    operators."""

    curator: str
    party: str
    number: int
    status: str
    refreshed: int
    declared: Declared | None
    spent: Spent
    limits: list[SpendingLimit]
    deployment_limits: list[SpendingLimit]
    disclosed: Disclosed | None = None


class LedgerEvent(Answer):
    """A row of the ledger; `hash` covers it and the row before. `first` and `count`: the
    curators that it concerns, by number."""

    seq: int
    time: Time
    kind: str
    actor: str
    first: int | None
    count: int | None
    payload: dict[str, Any]
    previous: str
    hash: str


class LedgerEvents(Answer):
    """A page of the ledger, the oldest rows first."""

    events: list[LedgerEvent]


class BrokenRow(Answer):
    """The first row that is not as it was written."""

    row: int
    reason: str


class LedgerVerification(Answer):
    """Whether each row follows from the one before."""

    verified: bool
    rows: int
    head: str
    broken: BrokenRow | None


class LedgerAmount(Amount):
    """An amount in both currencies of the ledger: (epsilon, delta), and zCDP as (rho,
    rho_delta)."""

    rho: Figure
    rho_delta: Figure


class Shortage(Answer):
    """A limit that a round would exceed, and for how many curators. For operators only:
    `rounds`, the newest that were charged against it, and `blocked`, the first of the curators."""

    limit: SpendingLimit
    asked: LedgerAmount
    spent: LedgerAmount
    curators: int
    rounds: list[str] | None = None
    rounds_in_all: int
    blocked: list[str] | None = None


class Costs(Answer):
    """What a round costs each of its curators, by unit."""

    record: list[ScenarioAmount]
    curator: list[ScenarioAmount]


class BudgetPreview(Answer):
    """What a round would cost, and which limits would refuse it."""

    curators: int
    costs: Costs
    allowed: bool
    refusals: list[Shortage]


class ForecastRow(Answer):
    """What a horizon composes to. `touching`: the most rounds that use the data of one unit;
    `zcdp`: the epsilon that the sum of their `rho` guarantees at the forecast's delta."""

    horizon: str
    days: int
    rounds: int
    unit: Unit
    scenario: str
    key: str
    touching: int
    basic: Amount
    tight: Figure
    rho: Figure
    zcdp: Figure


class ForecastPoint(Answer):
    """What had been spent after some days of a schedule; figures as of `ForecastRow`."""

    day: int
    at: Time | None
    rounds: int
    unit: Unit
    basic: Amount
    tight: Figure
    rho: Figure
    zcdp: Figure


class BudgetForecast(Answer):
    """The composed guarantee of a schedule."""

    period_s: int
    days: int
    delta: Figure
    sentence: str
    rows: list[ForecastRow]
    curve: list[ForecastPoint]


class SomeCurators(Answer):
    """How many curators, and the first of them by name."""

    curators: int
    some: list[str]


class DebitDifferences(Answer):
    """Differences between what a round charges here and what the parties report as debited.
    `credited`: how many it no longer charges under the query's own assumption, as its sum cannot
    have been opened."""

    round: str
    state: str
    charged: int
    credited: int
    acknowledged_by: list[str]
    acknowledged: int
    not_acknowledged_yet: int
    debited_but_not_charged: SomeCurators
    charged_but_not_debited: SomeCurators


class Screened(Answer):
    """What was screened. `alpha`: the probability that anyone is proposed for missed rounds if
    rounds are missed at random."""

    declaring: int
    rounds: int
    most_rounds: int
    alpha: float


class Proposed(Answer):
    """How many are proposed, by reason."""

    far_bounds: int
    missed_rounds: int


class Proposal(Answer):
    """A curator that an operator may want to examine. `field`: the declared bound that is an
    outlier."""

    curator: str | None
    number: int
    status: str
    reason: str
    field: str | None
    figures: dict[str, float]


class BudgetProposals(Answer):
    """Curators with unusual figures in the ledger."""

    screened: Screened
    proposed: Proposed
    proposals: list[Proposal]
    sentence: str
