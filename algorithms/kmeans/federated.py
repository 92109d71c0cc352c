"""K-means over curators: the pure steps as sums that rounds of secure aggregation answer.

Spec: kmeans, section 6. The plan is based on the noise that a round really has: `noise_share` full
discrete Laplaces. Unit `record`: all records of a curator's table count, and the noise hides one
vector: one record more or less (spec: kmeans, section 5). Where records are statistics of
registers, one reading replaces a record, and the noise hides two vectors; the plan treats that as a
larger `noise_share`. Unit `curator`: `contribution_bound` records of each count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from algorithms.contract import FederatedRounds, Outcome, PrivacyScope, by_rounds
from algorithms.kmeans.algorithm import publish
from algorithms.kmeans.parameters import (
    FEDERATED_CELLS,
    DataShape,
    Parameters,
    grid_and_plan,
)
from algorithms.kmeans.report import sound_report
from algorithms.kmeans.sound_run import State, absorb, first, next_query
from tacit.encoders.kmeans.encoder import Grid, Ints, Zone
from tacit.encoders.kmeans.sums import KmeansSum
from tacit.encoders.sums import MOST_RECORDS, SWAP, RecordSum
from tacit.report.model import PrivacyReport

TRUNCATED: Final = "an aborted round ended the job: centres of the last round that was released"


@dataclass(frozen=True, eq=False)
class FederatedState:
    """The state of the steps; `truncated`: an aborted zone round ended the run."""

    params: Parameters
    grid: Grid
    columns: tuple[str, ...]
    steps: State
    truncated: bool = False


def scope(params: Parameters) -> PrivacyScope:
    """Whom the noise hides."""
    if params.privacy_unit == "curator":
        bound = params.contribution_bound
        return PrivacyScope("curator", bound, bound)
    return PrivacyScope("record", MOST_RECORDS, 1, every_record=True)


def start(params: Parameters, columns: Sequence[str], noise_share: Fraction) -> FederatedState:
    """Before any sum. Raises BoundsMissing, SizeHintMissing, NoPlan, DataShape."""
    grid, plan = grid_and_plan(params, noise_share=noise_share, default_cells=FEDERATED_CELLS)
    if len(columns) != grid.dimension:
        raise DataShape("one pair of bounds for each column", pointer="/params/bounds")
    return FederatedState(params, grid, tuple(columns), first(plan, params.public_seed))


def next_sum(state: FederatedState) -> KmeansSum | None:
    """The next sum to open."""
    query = None if state.truncated else next_query(state.steps)
    if query is None:
        return None
    return KmeansSum.of(state.grid, query, max(SWAP, scope(state.params).hidden))


def take(state: FederatedState, asked: RecordSum, opened: Ints) -> FederatedState:
    """After a sum was opened."""
    assert isinstance(asked, KmeansSum)
    return replace(state, steps=absorb(state.steps, asked.query, opened))


def aborted(state: FederatedState, asked: RecordSum) -> FederatedState | None:
    """A zone round that fails ends the run early, any other one fails the job."""
    assert isinstance(asked, KmeansSum)
    return replace(state, truncated=True) if isinstance(asked.query, Zone) else None


def release(state: FederatedState) -> Outcome:
    """Everything that is published; a function of opened noisy sums and public choices."""
    found = publish(state.steps, state.params, state.grid, state.columns)
    report = by_rounds(found.report)
    if state.truncated:
        report = report.model_copy(update={"caveats": (*report.caveats, TRUNCATED)})
    return replace(found, result={**found.result, "truncated": state.truncated}, report=report)


def preview(params: Parameters, noise_share: Fraction) -> PrivacyReport:
    """The report of a run, before any data."""
    grid, plan = grid_and_plan(params, noise_share=noise_share, default_cells=FEDERATED_CELLS)
    return by_rounds(sound_report(params, grid, plan, None, None))


def planned(state: FederatedState) -> int:
    """Sums of the plan."""
    return state.steps.plan.queries


ROUNDS: Final = FederatedRounds(
    scope=scope,
    first=start,
    next_sum=next_sum,
    absorb=take,
    aborted=aborted,
    release=release,
    preview=preview,
    planned=planned,
    when="stance sound",
    budget=lambda params: params.epsilon,
)
