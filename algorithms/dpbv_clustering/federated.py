"""The noisy grid over curators: one sum of cell counts, which one round answers.

Spec: dpbv-clustering, section 3.9 (a). The noise hides a record that is replaced, which moves two
counts. Curators label their own rows by what is released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.contract import FederatedRounds, Outcome, PrivacyScope
from algorithms.dpbv_clustering.outcome import grid_outcome
from algorithms.dpbv_clustering.parameters import (
    METHOD_OF_ROUNDS,
    Parameters,
    check_stance,
    resolve_method,
)
from algorithms.dpbv_clustering.problems import BadParameter
from algorithms.dpbv_clustering.report.sound import grid_core_report
from algorithms.dpbv_clustering.steps import State, absorb, first, next_query, release
from tacit.encoders.dpbv_clustering.encoder import Ints
from tacit.encoders.dpbv_clustering.sums import CellSum
from tacit.encoders.sums import MOST_RECORDS, SWAP, RecordSum
from tacit.report.model import PrivacyReport


@dataclass(frozen=True, eq=False)
class FederatedState:
    """The state of the steps, and the names of the columns."""

    columns: tuple[str, ...]
    steps: State


def scope(_params: Parameters) -> PrivacyScope:
    """A record, replaced or gone."""
    return PrivacyScope("record", MOST_RECORDS, SWAP)


def start(params: Parameters, columns: Sequence[str], noise_share: Fraction) -> FederatedState:
    """Before the sum. Raises BadParameter."""
    per_axis = _per_axis(params)
    assert params.bounds is not None
    if len(params.bounds) != len(columns):
        raise BadParameter("bounds", "one pair for every attribute")
    return FederatedState(tuple(columns), first(params, per_axis, noise_share))


def next_sum(state: FederatedState) -> CellSum | None:
    """The grid to count on."""
    cells = next_query(state.steps)
    return None if cells is None else CellSum(cells, state.steps.params.epsilon)


def take(state: FederatedState, _asked: RecordSum, opened: Ints) -> FederatedState:
    """After the counts were opened."""
    return replace(state, steps=absorb(state.steps, opened))


def aborted(_state: FederatedState, _asked: RecordSum) -> FederatedState | None:
    """There is one round: without it, nothing."""
    return None


def finish(state: FederatedState) -> Outcome:
    """What is published."""
    steps = state.steps
    assert steps.counts is not None
    counts = steps.counts.astype(np.float64)
    report = preview(steps.params)
    return grid_outcome(steps.cells, counts, release(steps), state.columns, steps.params, report)


def preview(params: Parameters) -> PrivacyReport:
    """The report of a run, before any data. Raises BadParameter."""
    per_axis = _per_axis(params)
    assert params.bounds is not None
    return grid_core_report(params, per_axis, len(params.bounds), reproducible=False)


def planned(_state: FederatedState) -> int:
    """One."""
    return 1


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
