"""dpbv-clustering over curators, by rounds or by reports.

Rounds: the noisy grid as one sum of cell counts, or as the sums of the plan of k-means. Reports:
noisy cells, noisy points, or flipped bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np

from algorithms.contract import (
    Collected,
    Context,
    FederatedReports,
    FederatedRounds,
    Outcome,
    PrivacyScope,
    Stance,
)
from algorithms.dpbv_clustering.grid import (
    GridState,
    absorb,
    cluster_grid,
    first,
    grid_of,
    is_adaptive,
    next_query,
    outcome_of,
    plan_of,
    release_grid,
    unary_estimate,
)
from algorithms.dpbv_clustering.outcome import (
    cluster_points,
    grid_outcome,
    labelled_outcome,
    points_outcome,
)
from algorithms.dpbv_clustering.paper import cluster_bits, cluster_exact
from algorithms.dpbv_clustering.parameters import (
    FINE,
    METHOD_OF_ROUNDS,
    METHODS_OF_REPORTS,
    BadParameter,
    BitPlan,
    Parameters,
    check_rows,
    check_stance,
    make_box,
    plan_bits,
    resolve_method,
)
from algorithms.dpbv_clustering.report import (
    ROWS_ARE_PUBLIC,
    adaptive_report,
    exact_cost,
    exact_report,
    grid_core_report,
    paper_report,
    sound_report,
)
from algorithms.kmeans.algorithm import TRUNCATED
from algorithms.kmeans.parameters import FEDERATED_CELLS
from algorithms.kmeans.sound_run import State as KmeansState
from algorithms.kmeans.sound_run import absorb as absorb_of_kmeans
from algorithms.kmeans.sound_run import first as first_of_kmeans
from algorithms.kmeans.sound_run import next_query as next_of_kmeans
from tacit.encoders.dpbv_clustering import (
    BLOCK_COINS,
    MOST_CELLS,
    Box,
    CellSum,
    Ints,
    unpack,
)
from tacit.encoders.dpbv_clustering_reports import BitReports, CellReports, PointReports
from tacit.encoders.kmeans import Grid, Zone
from tacit.encoders.kmeans_sums import KmeansSum
from tacit.encoders.sums import SWAP, RecordSum
from tacit.protocol.federation import Report
from tacit.query.terms import MOST_RECORDS
from tacit.report.figures import delta_amount, epsilon_amount
from tacit.report.model import Charge, PrivacyReport


@dataclass(frozen=True, eq=False)
class FixedState:
    """One grid: the state of the steps, and the names of the columns."""

    columns: tuple[str, ...]
    steps: GridState


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
    """One record, replaced or removed."""
    return PrivacyScope("record", MOST_RECORDS, SWAP)


def start(params: Parameters, columns: Sequence[str], noise_share: Fraction) -> FederatedState:
    """The state before any sum. Raises BadParameter."""
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
    """The next sum to open; None: no more."""
    if isinstance(state, FixedState):
        cells = next_query(state.steps)
        return None if cells is None else CellSum(cells, state.steps.params.epsilon)
    query = None if state.truncated else next_of_kmeans(state.steps)
    return None if query is None else KmeansSum.of(state.grid, query, SWAP)


def take(state: FederatedState, record_sum: RecordSum, opened: Ints) -> FederatedState:
    """The state after a sum was opened."""
    if isinstance(state, FixedState):
        return replace(state, steps=absorb(state.steps, opened))
    assert isinstance(record_sum, KmeansSum)
    return replace(state, steps=absorb_of_kmeans(state.steps, record_sum.query, opened))


def aborted(state: FederatedState, record_sum: RecordSum) -> FederatedState | None:
    """A failed zone round ends the run early; without the counts of a grid there is no result."""
    if isinstance(state, AdaptiveState) and isinstance(record_sum, KmeansSum):
        return replace(state, truncated=True) if isinstance(record_sum.query, Zone) else None
    return None


def finish(state: FederatedState) -> Outcome:
    """The result."""
    if isinstance(state, AdaptiveState):
        report = preview_rounds(state.params, state.steps.plan.noise_share)
        if state.truncated:
            report = report.model_copy(update={"caveats": (*report.caveats, TRUNCATED)})
        outcome = outcome_of(
            state.steps, state.grid, state.columns, state.params, report, state.params.n_hint
        )
        return replace(outcome, result={**outcome.result, "truncated": state.truncated})
    steps = state.steps
    assert steps.counts is not None
    counts = steps.counts.astype(np.float64)
    report = preview_rounds(steps.params, steps.noise_share)
    return grid_outcome(
        steps.cells, counts, release_grid(steps), state.columns, steps.params, report
    )


def preview_rounds(params: Parameters, noise_share: Fraction) -> PrivacyReport:
    """The report of a run, before any data. Raises BadParameter."""
    per_axis = _per_axis(params)
    assert params.bounds is not None
    if _adaptive(params):
        return adaptive_report(params, reproducible=False, noise_share=noise_share)
    return grid_core_report(
        params,
        per_axis,
        len(params.bounds),
        params.n_hint,
        reproducible=False,
        noise_share=noise_share,
    )


def planned(state: FederatedState) -> int:
    """The number of sums of the plan; 1 for a fixed grid."""
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
    preview=preview_rounds,
    planned=planned,
    when=f"stance sound, method {METHOD_OF_ROUNDS}",
)


# Spec: dpbv-clustering, sections 2 and 3.9; jobs, "Federated jobs". A curator encodes its own rows
# with the functions of the central form (`tacit.encoders.dpbv_clustering_reports`); from then on
# both forms are the same. The coordinator's operator sees single reports: the privacy report's
# figures hold against this operator. `grid-core` is for rounds, which add up before anyone sees a
# count.

Encoding: TypeAlias = CellReports | PointReports | BitReports

SCENARIO: Final = "coordinator and all other curators"
_ADVERSARY: Final = "the coordinator, which sees each report alone, with all other curators' data"
_PUBLIC: Final = "how many records each curator reports"
_HONEST: Final = "a curator's own software clips its rows and tosses its coins"
_NOT_PROTECTED: Final = "which curators report, and how many records each of them has"


def encoding(params: Parameters, stance: Stance) -> dict[str, Any]:
    """What a curator needs to know. Raises BadParameter."""
    return _encoding(params, stance).document()


def columns(params: Parameters) -> int:
    """One column for each pair of bounds."""
    return len(_bounded(params))


def preview_reports(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report that a result would carry. Raises BadParameter."""
    encoding = _encoding(params, stance)
    plan = _bit_plan(params, stance, None) if isinstance(encoding, BitReports) else None
    return _report(params, stance, encoding, plan)


def aggregate(
    params: Parameters, stance: Stance, collected: Collected, context: Context
) -> Outcome:
    """Cluster what was collected. Raises BadParameter; in `paper` also for fewer records than
    clusters."""
    encoding = _encoding(params, stance)
    reports = [report for _, report in collected.reports]
    check_rows(params, stance, len(reports))
    owners = [(report.curator, report.record) for report in reports]
    names = collected.columns
    context.progress(0.4, "reading reports")
    if isinstance(encoding, CellReports):
        counts, deviation = unary_estimate(
            _ones(encoding, reports, context), len(reports), encoding.flip
        )
        context.progress(0.7, "clustering")
        clustering = cluster_grid(encoding.cells, counts, deviation, params)
        report = _report(params, stance, encoding, None)
        return grid_outcome(encoding.cells, counts, clustering, names, params, report, local=True)
    if isinstance(encoding, PointReports):
        steps = np.array([report.values for report in reports], np.int64)
        steps = steps.reshape(len(reports), encoding.box.dimension)
        context.progress(0.6, "clustering")
        points = cluster_points(steps, encoding.box, params)
        report = _report(params, stance, encoding, None)
        return points_outcome(points, names, params, report, owners)
    plan = _bit_plan(params, stance, len(reports))
    words = np.stack([encoding.words(report) for report in reports])
    cluster = cluster_bits if stance == "paper" else cluster_exact
    labels = cluster(words, params, plan, context)
    report = _report(params, stance, encoding, plan)
    return labelled_outcome(names, params, plan, labels, report, owners)


# ------------------------------------------------------------------------------------ questions


def _encoding(params: Parameters, stance: Stance) -> Encoding:
    bounds = _bounded(params)
    for field, empty, reason in (
        ("columns", None, "a federation names the columns"),
        ("partition", "horizontal", "a curator holds whole records"),
        ("baselines", (), "nobody holds the true rows together"),
        ("evaluate", False, "nobody holds the true rows together"),
    ):
        if getattr(params, field) != empty:
            raise BadParameter(field, reason)
    resolved = params if stance == "paper" else _with_method(params)
    check_stance(resolved, stance)
    method, per_axis = ("dpbv", 0) if stance == "paper" else resolve_method(resolved, None)
    box = make_box(params, bounds)
    if method == METHOD_OF_ROUNDS:
        raise BadParameter("method", f"{method} is for rounds: its counts are sums")
    match method:
        case "grid-ldp":
            return CellReports(box, MOST_RECORDS, per_axis, params.epsilon)
        case "laplace-points":
            return PointReports(box, MOST_RECORDS, params.epsilon)
    return _bit_reports(resolved, stance, box)


def _bounded(params: Parameters) -> tuple[tuple[float, float], ...]:
    if params.bounds is None:
        raise BadParameter("bounds", "curators need the public range of every attribute")
    return params.bounds


def _with_method(params: Parameters) -> Parameters:
    """The default without aggregators: cells while they fit, else points."""
    if params.method is not None:
        return params
    fits = (params.cells_per_axis or FINE) ** columns(params) <= MOST_CELLS
    return params.model_copy(update={"method": "grid-ldp" if fits else "laplace-points"})


def _bit_plan(params: Parameters, stance: Stance, rows: int | None) -> BitPlan:
    return plan_bits(params, stance, make_box(params, _bounded(params)), rows)


def _bit_reports(params: Parameters, stance: Stance, box: Box) -> BitReports:
    plan = _bit_plan(params, stance, None)
    return BitReports(
        box,
        MOST_RECORDS,
        tuple(code.half_window for code in plan.codes),
        params.s,
        params.r_design or ("uniform" if stance == "paper" else "grid"),
        params.r_seed,
        plan.flip,
        params.tight_k,
        None if stance == "paper" else exact_cost(params, plan),
    )


# ------------------------------------------------------------------------------------ what came


def _ones(encoding: CellReports, reports: Sequence[Report], context: Context) -> Ints:
    """The ones of each cell (cells,)."""
    cells = encoding.cells.count
    total = np.zeros(cells, np.int64)
    step = max(1, BLOCK_COINS // cells)
    for start in range(0, len(reports), step):
        context.progress(0.4 + 0.3 * start / len(reports), "reading reports")
        words = np.concatenate([encoding.words(report) for report in reports[start : start + step]])
        total += unpack(words, cells).sum(axis=0, dtype=np.int64)
    return total


def _report(
    params: Parameters, stance: Stance, encoding: Encoding, plan: BitPlan | None
) -> PrivacyReport:
    """The report of the central form, against anyone who sees single reports."""
    if isinstance(encoding, BitReports):
        assert plan is not None
        make = paper_report if stance == "paper" else exact_report
        report = make(params, plan, reproducible=False)
    elif isinstance(encoding, CellReports):
        report = sound_report(params, "grid-ldp", encoding.per_axis, None, reproducible=False)
    else:
        report = sound_report(params, "laplace-points", 0, None, reproducible=False)
    cost = encoding.cost
    charged = Charge(ledger="curators", privacy_unit="record", outside_budget=True)
    if cost is not None:
        charged = Charge(
            ledger="curators",
            privacy_unit="record",
            epsilon=epsilon_amount(cost.epsilon),
            delta=delta_amount(cost.delta),
        )
    place = {"scenario": SCENARIO, "key": None, "description": _ADVERSARY}
    public = [
        public_parameter
        for public_parameter in report.public_parameters
        if public_parameter != ROWS_ARE_PUBLIC
    ]
    return report.model_copy(
        update={
            "verified": tuple(line.model_copy(update=place) for line in report.verified),
            "charged": charged,
            "public_parameters": (*public, _PUBLIC),
            "not_protected": (*report.not_protected, _NOT_PROTECTED),
            "assumptions": (*report.assumptions, _HONEST),
        }
    )


REPORTS: Final = FederatedReports(
    encoding=encoding,
    columns=columns,
    aggregate=aggregate,
    preview=preview_reports,
    when=f"stance sound, method {', '.join(METHODS_OF_REPORTS)}; stance paper",
)
