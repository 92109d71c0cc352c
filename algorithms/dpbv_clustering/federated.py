"""The noisy grid over curators: one sum of cell counts, or the sums of the plan of k-means.

Spec: dpbv-clustering, sections 3.9 (a) and 3.10. The noise hides a record that is replaced, which
moves two counts. Curators label their own rows by what is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.contract import FederatedRounds, Outcome, PrivacyScope
from algorithms.dpbv_clustering.adaptive import grid_of, is_adaptive, outcome_of, plan_of
from algorithms.dpbv_clustering.outcome import grid_outcome
from algorithms.dpbv_clustering.parameters import (
    METHOD_OF_ROUNDS,
    Parameters,
    check_stance,
    resolve_method,
)
from algorithms.dpbv_clustering.problems import BadParameter
from algorithms.dpbv_clustering.report.adaptive import adaptive_report
from algorithms.dpbv_clustering.report.sound import grid_core_report
from algorithms.dpbv_clustering.steps import State, absorb, first, next_query, release
from algorithms.kmeans.federated import TRUNCATED
from algorithms.kmeans.parameters import FEDERATED_CELLS
from algorithms.kmeans.steps import State as KmeansState
from algorithms.kmeans.steps import absorb as absorb_of_kmeans
from algorithms.kmeans.steps import first as first_of_kmeans
from algorithms.kmeans.steps import next_query as next_of_kmeans
from tacit.encoders.dpbv_clustering.encoder import Ints
from tacit.encoders.dpbv_clustering.sums import CellSum
from tacit.encoders.kmeans.encoder import Grid, Zone
from tacit.encoders.kmeans.sums import KmeansSum
from tacit.encoders.sums import MOST_RECORDS, SWAP, RecordSum
from tacit.report.model import PrivacyReport


@dataclass(frozen=True, eq=False)
class FixedState:
    """One grid: the state of the steps, and the names of the columns."""

    columns: tuple[str, ...]
    steps: State


@dataclass(frozen=True, eq=False)
class AdaptiveState:
    """The plan of k-means; truncated: an aborted zone round ended the run."""

    params: Parameters
    columns: tuple[str, ...]
    grid: Grid
    steps: KmeansState
    truncated: bool = False


FederatedState = FixedState | AdaptiveState


def scope(_params: Parameters) -> PrivacyScope:
    """A record, replaced or gone."""
    return PrivacyScope("record", MOST_RECORDS, SWAP)


def start(params: Parameters, columns: Sequence[str], noise_share: Fraction) -> FederatedState:
    """Before any sum. Raises BadParameter."""
    per_axis = _per_axis(params)
    assert params.bounds is not None
    if len(params.bounds) != len(columns):
        raise BadParameter("bounds", "one pair for every attribute")
    if not _adaptive(params):
        return FixedState(tuple(columns), first(params, per_axis, noise_share))
    assert params.n_hint is not None
    plan = plan_of(params, params.n_hint, noise_share, FEDERATED_CELLS)
    steps = first_of_kmeans(plan, params.public_seed)
    return AdaptiveState(params, tuple(columns), grid_of(params, plan), steps)


def next_sum(state: FederatedState) -> CellSum | KmeansSum | None:
    """What to count next."""
    if isinstance(state, FixedState):
        cells = next_query(state.steps)
        return None if cells is None else CellSum(cells, state.steps.params.epsilon)
    query = None if state.truncated else next_of_kmeans(state.steps)
    return None if query is None else KmeansSum.of(state.grid, query, SWAP)


def take(state: FederatedState, asked: RecordSum, opened: Ints) -> FederatedState:
    """After a sum was opened."""
    if isinstance(state, FixedState):
        return replace(state, steps=absorb(state.steps, opened))
    assert isinstance(asked, KmeansSum)
    return replace(state, steps=absorb_of_kmeans(state.steps, asked.query, opened))


def aborted(state: FederatedState, asked: RecordSum) -> FederatedState | None:
    """A zone round that fails ends the run early; without the counts of a grid there is nothing."""
    if isinstance(state, AdaptiveState) and isinstance(asked, KmeansSum):
        return replace(state, truncated=True) if isinstance(asked.query, Zone) else None
    return None


def finish(state: FederatedState) -> Outcome:
    """What is published."""
    if isinstance(state, AdaptiveState):
        report = preview(state.params)
        if state.truncated:
            report = report.model_copy(update={"caveats": (*report.caveats, TRUNCATED)})
        found = outcome_of(state.steps, state.grid, state.columns, state.params, report)
        return replace(found, result={**found.result, "truncated": state.truncated})
    steps = state.steps
    assert steps.counts is not None
    counts = steps.counts.astype(np.float64)
    report = preview(steps.params)
    return grid_outcome(steps.cells, counts, release(steps), state.columns, steps.params, report)


def preview(params: Parameters) -> PrivacyReport:
    """The report of a run, before any data. Raises BadParameter."""
    per_axis = _per_axis(params)
    assert params.bounds is not None
    if _adaptive(params):
        return adaptive_report(params, reproducible=False, over_curators=True)
    return grid_core_report(params, per_axis, len(params.bounds), reproducible=False)


def planned(state: FederatedState) -> int:
    """Sums of the plan; one of a fixed grid."""
    return state.steps.plan.queries if isinstance(state, AdaptiveState) else 1


def _adaptive(params: Parameters) -> bool:
    """Whether the plan of k-means is followed. Raises BadParameter."""
    if params.n_hint is None:
        if params.grid == "adaptive":
            raise BadParameter("n_hint", "grid adaptive over curators needs it")
        return False
    return is_adaptive(params)


def _per_axis(params: Parameters) -> int:
    check_stance(params, "sound")
    if params.columns is not None:
        raise BadParameter("columns", "a federation names the columns")
    method, per_axis = resolve_method(params, None)
    if method != METHOD_OF_ROUNDS:
        raise BadParameter("method", f"rounds answer {METHOD_OF_ROUNDS} only")
    return per_axis


ROUNDS: Final = FederatedRounds(
    scope=scope,
    first=start,
    next_sum=next_sum,
    absorb=take,
    aborted=aborted,
    release=finish,
    preview=lambda params, _share: preview(params),
    planned=planned,
    when=f"stance sound, method {METHOD_OF_ROUNDS}",
)
