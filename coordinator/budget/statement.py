"""The coordinator's budget statement: what the sources claim, together with the verified guarantee.

Spec: budget, sections 2 and 3. Private figures (the bounds over disclosures) and names of curators
are for operators only; everyone else sees the guarantee that holds for any admissible data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from common.runtime.clock import from_epoch_microseconds
from coordinator.budget.limits import Limit
from coordinator.budget.round_charges import CREDITED, Places, Rounds
from coordinator.budget.spending import Figure, Spending, most_of, worst_of_one
from coordinator.budget.state import LedgerState
from coordinator.models.budget_ledger import ScaledDisclosure
from coordinator.store.ledger import CuratorRow
from tacit.accounting.amounts import FEMTO, MICRO, Amount, format_both, format_micro
from tacit.accounting.bounds import (
    NOT_A_GUARANTEE,
    Bound,
    LocalFigures,
    Theorem52,
    local_figures,
    source_bounds,
)
from tacit.accounting.charges import unit_cost
from tacit.accounting.composition import (
    FIXED_SCHEDULE,
    round_loss,
    stated_epsilon,
    tight,
    tight_at_worst_instant,
)
from tacit.accounting.scenarios import Scenario
from tacit.answers import datasets as answers
from tacit.answers.budget import (
    Claimed,
    CuratorBudget,
    Declared,
    Disclosed,
    LedgerPosition,
    OneRelease,
    Released,
    ReleasedAmount,
    ScenarioAmount,
    SourceBound,
    SpendingLimit,
    Spent,
    Standings,
    Theorem,
    Worst,
)
from tacit.query.query import Query
from tacit.query.terms import PrivacyUnit
from tacit.report.figures import amount, delta_amount, epsilon_amount
from tacit.wire import format_exact, format_instant

TRUST_MODELS: Final = {
    Scenario.BLIND_AGGREGATORS: "OAOC",
    Scenario.EVERYONE: "OC",
    Scenario.ASSUMED: "OAMC",
}
_LOCAL: Final = (
    "One release, with declared bounds, clamping and noise that each curator adds, against the "
    "aggregator and all other curators together. A curator that adds no noise bares itself; these "
    "figures hold for the others. Under the paper stance nothing holds."
)
_ENFORCED: Final = (
    "Enforced, adaptive: sums over all rounds that were opened, in two currencies, which also hold "
    "when later rounds depend on earlier results, and which limits are checked against: epsilon "
    "and delta (basic composition), and rho with its delta (zCDP). Fixed beforehand are the limit, "
    "what counts as one person's data, and each round's cost as a function of its query and of "
    "earlier results. A limit that was raised in the light of results has only the figure of what "
    "was spent; a limit with periods bounds one period. The unit record bounds one reading at one "
    "instant; a reading moved in time is a removal and an addition: epsilons add, and a rho is "
    "(sqrt(rho_1) + sqrt(rho_2))^2."
)


def overview(state: LedgerState) -> tuple[LedgerPosition, Standings]:
    """The newest row of the ledger, and the number of curators by standing."""
    counts = {status.name.lower(): count for status, count in state.roster.counts().items()}
    standings = Standings(**counts, undeclared=state.roster.undeclared)
    return LedgerPosition(seq=state.seq, head=state.head.hex()), standings


# --- what the sources claim ----------------------------------------------------------------------


def claimed(state: LedgerState, query: Query | None, *, disclosures: bool) -> Claimed:
    """The three bounds over U, and the verified guarantee for local noise.

    `query`: its figures are used for curators that declare none (mechanism local). `disclosures`:
    whether the answer may use what curators disclose.
    """
    sums = state.roster.aggregates()
    disclosed = sums.curators - sums.undisclosed
    if not disclosures:
        sums = sums.without_disclosures()
    holds = local_figures(sums)
    if state.roster.undeclared:
        if query is None:
            return Claimed(
                bounds=[],
                reason=f"{state.roster.undeclared} curators declare no epsilon; name a query of "
                "mechanism local whose epsilon is used for theirs",
            )
        assert query.epsilon_i is not None
        below_zero = query.bounds[0] < 0
        sums = sums.with_uniform(state.roster.undeclared, query.epsilon_i, negative=below_zero)
        holds = _with_query(holds, query)
    found = source_bounds(sums)
    return Claimed(
        stance="paper" if disclosures and disclosed else "sound",
        bounds=[_bound(item) for item in found.bounds],
        theorem_5_2=None if found.theorem_5_2 is None else _theorem(found.theorem_5_2),
        sentence=NOT_A_GUARANTEE,
        holds=OneRelease(
            record=_exact(holds.record),
            curator=_exact(holds.curator),
            sentence=_LOCAL,
        ),
    )


def _with_query(holds: LocalFigures, query: Query) -> LocalFigures:
    """With the cost of a local release of this query for curators that declare nothing."""
    costs = [unit_cost(query, Scenario.CURATORS, unit).epsilon for unit in PrivacyUnit]
    record, curator = (
        None if already is None or cost is None else max(already, cost)
        for already, cost in zip((holds.record, holds.curator), costs, strict=True)
    )
    return LocalFigures(record, curator)


def _bound(bound: Bound) -> SourceBound:
    shown = "inf" if bound.infinite else None
    return SourceBound(
        name=bound.name,
        epsilon=shown if bound.value is None else _exact(bound.value),
        applies=bound.applies,
        reason=bound.reason,
    )


def _theorem(theorem: Theorem52) -> Theorem:
    return Theorem(
        largest_total=format_exact(theorem.largest_total),
        limit=format_exact(theorem.limit),
        holds=theorem.holds,
    )


def _exact(value: Fraction | None) -> str:
    """Exact where that is short, else rounded up; None is infinite."""
    if value is None:
        return "inf"
    text = format_exact(value)
    return text if "/" not in text else amount(value)


# --- the verified guarantee of what was released -------------------------------------------------


@dataclass(frozen=True)
class Tight:
    """What is needed to compose numerically: delta, and the query of an id."""

    delta: Fraction
    queries: Mapping[str, Query]


def released(
    state: LedgerState, tight_at: Tight | None, exact: Collection[str], *, numbers: bool
) -> Released:
    """The composed guarantee of all rounds, per unit and scenario: the worst curator's. `exact`:
    the queries that add no noise; `numbers`: with the curator's roster number."""
    spending = state.spending
    return Released(
        rounds=len(spending.rounds),
        exact_answers=_count_exact(spending.rounds, np.arange(len(spending.rounds)), exact),
        record=_rows(spending, PrivacyUnit.RECORD, tight_at, numbers=numbers),
        curator=_rows(spending, PrivacyUnit.CURATOR, tight_at, numbers=numbers),
        sentence=_ENFORCED,
        **({} if tight_at is None else {"tight_sentence": f"The tight figure {FIXED_SCHEDULE}."}),
    )


def _count_exact(rounds: Rounds, places: Places, exact: Collection[str]) -> int:
    """How many of the rounds at some indices are sums without noise that may have been opened."""
    kinds = rounds.column("query")[places]
    numbers = [kind for kind in np.unique(kinds).tolist() if rounds.query(kind) in exact]
    opened = rounds.column("credited")[places] == 0
    return int((np.isin(kinds, numbers) & opened).sum())


_WITHIN: Final = {
    Scenario.RECIPIENT: tuple(
        scenario for scenario in Scenario if scenario is not Scenario.RECIPIENT
    ),
    Scenario.CURATORS: (Scenario.BLIND_AGGREGATORS, Scenario.EVERYONE),
    Scenario.BLIND_AGGREGATORS: (Scenario.EVERYONE,),
    Scenario.ASSUMED: (Scenario.EVERYONE,),
    Scenario.EVERYONE: (),
}
"""The groups that each group is certainly a part of: it knows no more than these."""


def _tighter(own: Figure, others: Iterable[Figure]) -> Figure:
    """The least of several valid bounds, among those with no larger epsilon and no larger delta."""

    def size(figure: Figure) -> tuple[bool, int, int]:
        return figure.epsilon is None, figure.epsilon or 0, figure.delta

    rho, rho_delta = own.rho, own.rho_delta
    for other in others:
        if size(other) < size(own) and other.delta <= own.delta:
            own = replace(other, rho=rho, rho_delta=rho_delta)
        if other.epsilon is not None and other.rho <= rho and other.rho_delta <= rho_delta:
            rho, rho_delta = other.rho, other.rho_delta
    return replace(own, rho=rho, rho_delta=rho_delta)


def _counted(scenario: Scenario, credited: int) -> str:
    """Which rounds a row counts, in words."""
    if not credited:
        return "all rounds"
    if scenario in CREDITED:
        return f"all rounds but {credited} credited: nothing of these can have been opened"
    return f"all rounds, also {credited} credited: this group may have opened them"


def _rows(
    spending: Spending, unit: PrivacyUnit, tight_at: Tight | None, *, numbers: bool
) -> list[ReleasedAmount]:
    record = unit is PrivacyUnit.RECORD
    figures = {
        scenario: spending.worst_record(scenario) if record else spending.worst_curator(scenario)
        for scenario in Scenario
    }
    credited = int(spending.rounds.column("credited").sum())
    rows = []
    for scenario in Scenario:
        worst = _tighter(figures[scenario], (figures[other] for other in _WITHIN[scenario]))
        more: dict[str, Any] = {}
        if tight_at is not None:
            more["tight"] = _tight(spending, unit, scenario, worst, tight_at)
        if numbers and worst.number is not None and spending.rounds:
            more["worst"] = _worst(worst)
        rows.append(
            ReleasedAmount(
                scenario=scenario.label,
                key=scenario.value,
                trust_model=TRUST_MODELS.get(scenario),
                counts=_counted(scenario, credited),
                **zcdp_shown(worst.amount),
                **more,
            )
        )
    return rows


def zcdp_shown(amount: Amount | None) -> dict[str, str]:
    """An amount in both currencies, and the epsilon that its rho guarantees at `STATED_DELTA`."""
    stated = None if amount is None else stated_epsilon(amount.rho, amount.rho_delta)
    return {**format_both(amount), "zcdp_epsilon": epsilon_amount(stated)}


def _worst(figure: Figure) -> Worst:
    if figure.instant is None:
        return Worst(curator=str(figure.number))
    instant = format_instant(from_epoch_microseconds(figure.instant))
    return Worst(curator=str(figure.number), instant=instant)


def _tight(
    spending: Spending, unit: PrivacyUnit, scenario: Scenario, worst: Figure, at: Tight
) -> answers.Amount:
    """An upper bound for every curator: the numerical figure of all rounds, as if it had been in
    each."""
    rounds = spending.rounds
    kinds = np.stack([rounds.column("query"), rounds.column("operators")], axis=1)
    if scenario in CREDITED:
        counted = np.flatnonzero(rounds.column("credited") == 0)
    else:
        counted = np.arange(len(rounds))
    query_of = rounds.column("query")[counted]
    noisy = [
        kind for kind in np.unique(query_of).tolist() if at.queries[rounds.query(kind)].rule is None
    ]
    counted = counted[np.isin(query_of, noisy)]  # those without noise are listed apart
    distinct_kinds, of_round, times = np.unique(
        kinds[counted], axis=0, return_inverse=True, return_counts=True
    )
    losses = [
        round_loss(at.queries[rounds.query(query)], scenario, unit, rounds.operators(operators))
        for query, operators in distinct_kinds.tolist()
    ]
    if unit is PrivacyUnit.CURATOR:
        tightest = tight(zip(losses, times.tolist(), strict=True), at.delta)
    else:
        windows = rounds.column("start")[counted], rounds.column("end")[counted]
        round_losses = [losses[kind] for kind in of_round.reshape(-1).tolist()]
        tightest = tight_at_worst_instant(*windows, round_losses, at.delta)
    enough = worst.epsilon is not None and worst.delta <= at.delta * FEMTO
    basic = Fraction(worst.epsilon, MICRO) if worst.epsilon is not None and enough else None
    best = min((value for value in (tightest, basic) if value is not None), default=None)
    return answers.Amount(epsilon=epsilon_amount(best), delta=delta_amount(at.delta))


# --- one curator ---------------------------------------------------------------------------------


def curator(
    state: LedgerState, row: CuratorRow, exact: Collection[str], *, disclosures: bool
) -> CuratorBudget:
    """A curator's status, declarations and spending, and the limits that apply to it: its own,
    and those of the deployment. `exact`: the queries that add no noise."""
    roster, spending, number = state.roster, state.spending, row.number
    declared = roster.declared(number)
    places = spending.of_curator(number)
    disclosed = roster.disclosed(number) if disclosures else None
    more = {} if disclosed is None else {"disclosed": _disclosed(disclosed)}
    return CuratorBudget(
        curator=row.id,
        party=row.party,
        number=number,
        status=roster.status(number).name.lower(),
        refreshed=roster.refreshed(number),
        declared=None
        if declared is None
        else Declared(
            epsilon=format_micro(declared.epsilon),
            sensitivity=_nano(declared.sensitivity),
            largest_contribution=_nano(declared.largest),
        ),
        spent=Spent(
            rounds=int(places.size),
            exact_answers=_count_exact(spending.rounds, places, exact),
            record=_own(spending, places, PrivacyUnit.RECORD, number),
            curator=_own(spending, places, PrivacyUnit.CURATOR, number),
        ),
        limits=[limit(item) for item in state.limits.curators.get(number, ())],
        deployment_limits=[limit(item) for item in state.limits.deployment],
        **more,
    )


def _disclosed(figures: ScaledDisclosure) -> Disclosed:
    return Disclosed(
        largest_reading=_nano(figures.largest_reading),
        total=_nano(figures.total),
        readings=figures.readings,
        negative_readings=figures.negative,
    )


def _nano(value: int) -> str:
    return format_exact(Fraction(value, 10**9))


def _own(
    spending: Spending, places: Places, unit: PrivacyUnit, number: int
) -> list[ScenarioAmount]:
    rows = []
    for scenario in Scenario:
        if unit is PrivacyUnit.CURATOR:
            figure = most_of(spending.totals(scenario).of(number))
        else:
            figure = worst_of_one(spending.rounds, places, scenario)
        rows.append(
            ScenarioAmount(scenario=scenario.label, key=scenario.value, **zcdp_shown(figure.amount))
        )
    return rows


def limit(item: Limit) -> SpendingLimit:
    """A limit as it is shown."""
    return SpendingLimit(**item.written())
