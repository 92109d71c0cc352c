"""K-means as the catalogue knows it: run, preview, what a result holds, and its evaluation.

An evaluation compares with the true data; it is visible only to the operator and never published.
Squared distances are of the box (`sound`) or of the data's own extremes (`paper`), scaled to [0, 1]
in every column. Spec: kmeans, section 2; jobs, "Catalogue" and "Result".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from algorithms.contract import (
    Algorithm,
    Context,
    Drawing,
    FederatedRounds,
    Outcome,
    Picture,
    Plot,
    PrivacyScope,
    ResultFile,
    Stance,
    by_rounds,
    floating_source,
)
from algorithms.datasets.tables import NumericTable
from algorithms.drawing import BLUE, compared_bars, floats, picture
from algorithms.kmeans import paper
from algorithms.kmeans.parameters import (
    FEDERATED_CELLS,
    DataShape,
    Parameters,
    check_start,
    check_table,
    grid_and_plan,
)
from algorithms.kmeans.report import paper_report, planned_split, sound_report, start_name
from algorithms.kmeans.sound_run import (
    Release,
    Rows,
    State,
    ZoneEstimate,
    absorb,
    chosen_records,
    first,
    next_query,
    release,
    run_central,
)
from tacit.encoders.kmeans import Floats, Grid, Ints, Zone
from tacit.encoders.kmeans_sums import KmeansSum
from tacit.encoders.sums import SWAP, RecordSum
from tacit.query.terms import MOST_RECORDS
from tacit.records.text_files import written
from tacit.report.model import PrivacyReport
from tacit.wire import format_exact, parse_exact

if TYPE_CHECKING:
    from matplotlib.axes import Axes

from collections.abc import Callable
from functools import partial

from algorithms.kmeans.parameters import Metrics
from algorithms.kmeans.starts import lloyd as weighted_lloyd
from algorithms.kmeans.starts import public, spread_start
from tacit.encoders.kmeans import nearest


def cost(points: Floats, centres: Floats) -> float:
    """The sum of squared distances to the nearest centre."""
    return float(np.square(points - centres[nearest(points, centres)]).sum())


RESTARTS: Final = 20


def best_cost(
    points: Floats,
    clusters: int,
    restarts: int = RESTARTS,
    progress: Callable[[float], None] = lambda _share: None,
) -> float:
    """The lowest cost of this many non-private runs, each from a greedy k-means++ start."""
    weights = np.ones(len(points))
    generator = public(0, "evaluation").generator
    best = np.inf
    for done in range(restarts):
        beat = partial(progress, done / restarts)
        start = spread_start(points, weights, clusters, generator, beat)
        best = min(best, weighted_lloyd(points, weights, start, beat).cost)
    return best


def evaluate(
    points: Floats,
    centres: Floats,
    metrics: Metrics,
    progress: Callable[[float], None] = lambda _share: None,
) -> dict[str, Any]:
    """The metrics of centres (k, d) on points (n, d), both scaled to [0, 1]; null without points.

    `inertia_ratio` is null where the best cost is 0.
    """
    result: dict[str, Any] = {}
    inertia = cost(points, centres) if len(points) else None
    if metrics.inertia:
        result["inertia"] = inertia
    if metrics.inertia_ratio:
        best = best_cost(points, len(centres), progress=progress) if len(points) else 0.0
        result["inertia_ratio"] = None if inertia is None or best == 0 else inertia / best
    labels = nearest(points, centres)
    if metrics.clusters:
        result["clusters"] = clusters_of(points, labels, centres)
    if metrics.labels:
        result["labels"] = labels.tolist()
    return result


def clusters_of(points: Floats, labels: Ints, centres: Floats) -> list[dict[str, Any]]:
    """How many points (n, d) each centre (k, d) has, and how far their mean is from it (null
    without points): Euclidean, in sides of the box."""
    rows = np.bincount(labels, minlength=len(centres))
    means = (
        np.stack(
            [np.bincount(labels, weights=column, minlength=len(centres)) for column in points.T],
            axis=1,
        )
        / np.maximum(rows, 1)[:, None]
    )
    off = np.linalg.norm(means - centres, axis=1)
    return [
        {"rows": count, "mean_distance_off": distance if count else None}
        for count, distance in zip(rows.tolist(), off.tolist(), strict=True)
    ]


RESULT: Final = {
    "centres": "k centres, each with one number for each column, in the column's unit",
    "noisy_counts": "records of each cluster, with noise; 0 where noise made it negative",
    "noisy_radius": "mean distance of a cluster's records from its centre, with noise: the sum "
    "over columns of |difference| / (hi - lo)",
    "columns": "names of the columns",
    "plan": "mode, rounds, start, cells a side (two-level: coarse ones), and the budget of each "
    "query (sound)",
    "trace": "what each round published",
    "passes": "passes of the source's algorithm (paper)",
}


def run(dataset: NumericTable, params: Parameters, stance: Stance, context: Context) -> Outcome:
    """K-means of a numeric table. Raises subclasses of Invalid if the table does not fit the
    parameters."""
    check(dataset, params, stance)
    if stance == "paper":
        return _run_paper(dataset, params, context)
    grid, plan = grid_and_plan(params)
    chosen = None
    if params.privacy_unit == "curator":
        assert dataset.curators is not None
        source = context.noise("records of a curator")
        chosen = chosen_records(dataset.curators.codes, plan.records, source)
    rows = Rows(dataset.values, chosen)
    state = run_central(rows, grid, plan, params.public_seed, context)
    published = publish(state, params, grid, dataset.columns)
    if params.metrics is None:
        return published
    low, high = np.array(grid.lower), np.array(grid.upper)
    scaled = np.clip((dataset.values - low) / (high - low), 0, 1)
    compared = evaluate(
        scaled,
        (release(state).centres + 1) / 2,
        params.metrics,
        lambda share: context.progress(share, "evaluating"),
    )
    return _with_evaluation(published, compared)


def check(dataset: NumericTable, params: Parameters, stance: Stance) -> None:
    """Refuse a table that does not fit the parameters. Raises what they raise."""
    if stance == "sound":
        grid_and_plan(params)
    curators = dataset.curators is not None
    check_table(params, stance, dataset.rows, len(dataset.columns), curators)


def check_outline(outline: Mapping[str, Any], params: Parameters, stance: Stance) -> None:
    """The part of `check` that concerns the rows: it depends on sizes and roles only."""
    columns, curators = len(outline["columns"]), outline["has_curator"]
    check_table(params, stance, outline["rows"], columns, curators)


def preview(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report of a run, before any data. Raises what `grid_and_plan` raises."""
    check_start(params, stance)
    if stance == "paper":
        return paper_report(params, None)
    grid, plan = grid_and_plan(params)
    return sound_report(params, grid, plan, None, None)


def publish(state: State, params: Parameters, grid: Grid, columns: Sequence[str]) -> Outcome:
    """Everything that leaves a sound run: a function of opened noisy sums and public choices."""
    plan, release_made = state.plan, release(state)
    centres = grid.raw(release_made.centres)
    result = {
        "centres": centres.tolist(),
        "noisy_counts": release_made.counts.tolist(),
        "noisy_radius": (release_made.distances / 2).tolist(),
        "columns": list(columns),
        "plan": {
            "mode": plan.mode,
            "rounds": plan.rounds,
            "start": start_name(plan),
            "cells_per_side": plan.per_side,
            "grid_steps": plan.steps,
            "levels": plan.levels,
            "split": planned_split(plan),
        },
        "trace": [_round(zone, grid) for zone in state.rounds],
        "spent": format_exact(state.spent),
        "ended_early": state.answered < plan.queries,
    }
    return Outcome(
        result=result,
        report=sound_report(params, grid, plan, state, release_made),
        files=(centres_file(centres, columns, release_made.counts),),
        plots=plots_of(state, release_made, grid, columns),
        public_seeds={"public_seed": params.public_seed},
    )


def centres_file(centres: Floats, columns: Sequence[str], counts: Floats) -> ResultFile:
    """centres.csv: one row for each centre."""
    rows_of_centres = zip(centres.tolist(), counts.tolist(), strict=True)
    rows = [(*columns, "noisy_count"), *((*centre, count) for centre, count in rows_of_centres)]
    text = written(rows)
    return ResultFile.csv("centres.csv", text, "centres and noisy counts")


def _round(estimate: ZoneEstimate, grid: Grid) -> dict[str, Any]:
    """What one zone round published; radii, steps and noise in half sides of the box."""
    zone = estimate.zone
    return {
        "centres": grid.raw(zone.centres / zone.steps).tolist(),
        "zone_radii": (zone.radii / zone.steps).tolist(),
        "noisy_counts": estimate.counts.tolist(),
        "step_norms": step_norms(estimate).tolist(),
        "noise_deviations": noise_deviations(estimate).tolist(),
        "epsilon": format_exact(zone.epsilon_sums + zone.epsilon_counts + zone.epsilon_distances),
    }


def _with_evaluation(outcome: Outcome, compared: Mapping[str, Any]) -> Outcome:
    report = outcome.report.model_copy(update={"evaluation_attached": True})
    return replace(outcome, report=report, evaluation=compared)


def _run_paper(dataset: NumericTable, params: Parameters, context: Context) -> Outcome:
    """The source's algorithm on the table. Its floats are drawn from the job's secret stream."""
    source = floating_source(context.noise("paper"))
    points, low, widths = paper.normalised(dataset.values)
    start = paper.drawn_start(points, params.k, source.generator)
    settings = paper.Settings(
        float(params.epsilon),
        params.strategy,
        params.stop,
        params.measure,
        params.max_passes,
        params.move_tolerance,
    )

    def progress(number: int) -> None:
        context.progress(number / (number + 20), f"pass {number}")

    paper_run = paper.run(points, start, settings, source.generator, progress)
    final = params.epsilon if params.final_epsilon is None else params.final_epsilon
    centres, counts = paper.final_release(points, paper_run, float(final), source)
    raw = low + centres * widths
    result = {
        "centres": raw.tolist(),
        "noisy_counts": counts.tolist(),
        "columns": list(dataset.columns),
        "passes": paper_run.passes,
        "iterations": paper.iterations(paper_run.passes, params.strategy),
        "trace": [
            {
                "zone_centres": (low + entry.zone_centres * widths).tolist(),
                "zone_radii_scaled": entry.zone_radii.tolist(),
                "centres": (low + entry.centres * widths).tolist(),
            }
            for entry in paper_run.log
        ],
        "start": (low + start * widths).tolist(),
    }
    outcome = Outcome(
        result=result,
        report=paper_report(params, paper_run.passes),
        files=(centres_file(raw, dataset.columns, counts),),
    )
    context.progress(1.0, "releasing")
    if params.metrics is None:
        return outcome
    compared = evaluate(
        points, centres, params.metrics, lambda share: context.progress(share, "evaluating")
    )
    return _with_evaluation(outcome, compared)


# --- plots ---------------------------------------------------------------------------------------


_INCHES: Final = (5.4, 4.2)
_CENTRE: Final = "#c8553d"
_BLUE: Final = "#1b6ca8"
_GREY: Final = "#8c8c8c"


def plots_of(
    state: State, release_made: Release, grid: Grid, columns: Sequence[str]
) -> tuple[Plot, ...]:
    """All plots of a sound run."""
    plots, split = [], planned_split(state.plan)
    if grid.dimension > 1 and state.start is not None:
        plots.append(_plot_of_centres(state, grid, grid.raw(release_made.centres), columns))
    if len(split) > 1:  # one bar says nothing
        names = [f"{place + 1} {query['kind']}" for place, query in enumerate(split)]
        epsilons = [float(parse_exact(query["epsilon"])) for query in split]
        plots.append(Plot.of("budget", queries=names, epsilons=epsilons, spent=state.answered))
    if state.rounds:
        moved = [step_norms(zone) for zone in state.rounds]
        noise = [noise_deviations(zone) for zone in state.rounds]
        plots.append(Plot.of("steps", moved=moved, noise=noise))
    return tuple(plots)


def _plot_of_centres(state: State, grid: Grid, centres: Floats, columns: Sequence[str]) -> Plot:
    """The first two columns: centres, and the released cells, summed over further columns."""
    cells = None
    if state.histogram is not None and state.view is None:
        side = round(state.histogram.size ** (1 / grid.dimension))
        table = state.histogram.reshape((side,) * grid.dimension)
        cells = np.maximum(table.sum(axis=tuple(range(2, grid.dimension))), 0)
    return Plot.of(
        "centres",
        columns=list(columns),
        lower=grid.lower[:2],
        upper=grid.upper[:2],
        centres=centres[:, :2],
        cells=cells,
    )


def step_norms(estimate: ZoneEstimate) -> Floats:
    """How far each centre (k,) moved in a round: Euclidean, in half sides of the box."""
    norms: Floats = np.linalg.norm(
        estimate.centres - estimate.zone.centres / estimate.zone.steps, axis=1
    )
    return norms


def noise_deviations(estimate: ZoneEstimate) -> Floats:
    """The length of each step's noise (k,): standard deviation over all coordinates."""
    deviations: Floats = np.sqrt(estimate.zone.centres.shape[1] * estimate.variances)
    return deviations


def _centres(axes: Axes, values: Mapping[str, Any]) -> None:
    columns, lower, upper = values["columns"], values["lower"], values["upper"]
    shown = "" if len(columns) == 2 else ", first two columns"
    axes.set_title(f"Centres over the noisy histogram{shown}")
    if values["cells"] is not None:
        cells = floats(values["cells"])
        axes.pcolormesh(
            np.linspace(lower[0], upper[0], len(cells) + 1),
            np.linspace(lower[1], upper[1], len(cells) + 1),
            cells.T,
            cmap="Blues",
            rasterized=True,
        )
    centres = floats(values["centres"])
    axes.plot(centres[:, 0], centres[:, 1], "o", color=_CENTRE, markersize=6)
    axes.set_xlim(lower[0], upper[0])
    axes.set_ylim(lower[1], upper[1])
    axes.set_xlabel(columns[0])
    axes.set_ylabel(columns[1])


def _steps(axes: Axes, values: Mapping[str, Any]) -> None:
    axes.set_title("Steps and their noise")
    moved, noise = floats(values["moved"]), floats(values["noise"])
    numbers = np.arange(1, len(moved) + 1)
    for place in range(moved.shape[1]):
        axes.plot(numbers, moved[:, place], "o-", color=_BLUE, markersize=4, linewidth=0.8)
        axes.plot(numbers, noise[:, place], "_--", color=_GREY, markersize=8, linewidth=0.8)
    axes.plot([], [], "o-", color=_BLUE, label="step of a centre")
    axes.plot([], [], "_--", color=_GREY, label="standard deviation of its noise")
    axes.set_xticks(numbers)
    axes.set_xlabel("zone round")
    axes.set_ylabel("length (half sides of the box)")
    axes.legend(frameon=False)


def _budget(axes: Axes, values: Mapping[str, Any]) -> None:
    axes.set_title("Budget by query")
    names, epsilons, spent = values["queries"], values["epsilons"], values["spent"]
    colours = [_BLUE if place < spent else "#dddddd" for place in range(len(names))]
    axes.barh(names[::-1], epsilons[::-1], color=colours[::-1])
    axes.set_xlabel("epsilon (grey: not spent)" if spent < len(names) else "epsilon")


DRAWINGS: Final = {
    "centres": Drawing(_centres, _INCHES),
    "budget": Drawing(_budget, _INCHES),
    "steps": Drawing(_steps, _INCHES),
}


# Spec: jobs, section "Result". Visible only to the operator; drawn where the evaluation is read.

_EVALUATION_INCHES: Final = (5.4, 4.0)


def evaluation_pictures(
    evaluation: Mapping[str, Any], summary: Mapping[str, Any]
) -> tuple[Picture, ...]:
    """Both plots, where the evaluation has `clusters`."""
    clusters = evaluation.get("clusters")
    if not clusters:
        return ()
    true = [cluster["rows"] for cluster in clusters]
    shifts = [cluster["mean_distance_off"] for cluster in clusters]
    released = summary["noisy_counts"]
    return (
        picture("kmeans", "sizes", lambda axes: _sizes(axes, true, released), _EVALUATION_INCHES),
        picture("kmeans", "shifts", lambda axes: _shifts(axes, shifts), _EVALUATION_INCHES),
    )


def _sizes(axes: Axes, true: Sequence[float], released: Sequence[float]) -> None:
    axes.set_title("Rows of each cluster (private)")
    names = [str(place) for place in range(len(true))]
    compared_bars(axes, names, {"true": true, "released": released})
    axes.set_xlabel("cluster")
    axes.set_ylabel("rows")


def _shifts(axes: Axes, shifts: Sequence[float | None]) -> None:
    axes.set_title("Released centres against their rows' means (private)")
    known_shifts = [(place, shift) for place, shift in enumerate(shifts) if shift is not None]
    axes.bar([place for place, _ in known_shifts], [shift for _, shift in known_shifts], color=BLUE)
    axes.set_xticks(range(len(shifts)))
    axes.set_xlabel("cluster")
    axes.set_ylabel("distance (sides of the box)")


# --- over curators --------------------------------------------------------------------------------


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
    """The unit that the noise hides."""
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


def take(state: FederatedState, record_sum: RecordSum, opened: Ints) -> FederatedState:
    """The state after a sum was opened."""
    assert isinstance(record_sum, KmeansSum)
    return replace(state, steps=absorb(state.steps, record_sum.query, opened))


def aborted(state: FederatedState, record_sum: RecordSum) -> FederatedState | None:
    """A failed zone round ends the run early, any other one fails the job."""
    assert isinstance(record_sum, KmeansSum)
    return replace(state, truncated=True) if isinstance(record_sum.query, Zone) else None


def release_rounds(state: FederatedState) -> Outcome:
    """Everything that is published; a function of opened noisy sums and public choices."""
    outcome = publish(state.steps, state.params, state.grid, state.columns)
    report = by_rounds(outcome.report)
    if state.truncated:
        report = report.model_copy(update={"caveats": (*report.caveats, TRUNCATED)})
    return replace(outcome, result={**outcome.result, "truncated": state.truncated}, report=report)


def preview_rounds(params: Parameters, noise_share: Fraction) -> PrivacyReport:
    """The report of a run, before any data."""
    grid, plan = grid_and_plan(params, noise_share=noise_share, default_cells=FEDERATED_CELLS)
    return by_rounds(sound_report(params, grid, plan, None, None))


def planned(state: FederatedState) -> int:
    """The number of sums of the plan."""
    return state.steps.plan.queries


ROUNDS: Final = FederatedRounds(
    scope=scope,
    first=start,
    next_sum=next_sum,
    absorb=take,
    aborted=aborted,
    release=release_rounds,
    preview=preview_rounds,
    planned=planned,
    when="stance sound",
    budget=lambda params: params.epsilon,
)


ALGORITHM: Final = Algorithm(
    name="kmeans",
    title="K-means clustering",
    source="Lu's thesis, chapter 7, Algorithms 7.1 and 7.2",
    purpose="k cluster centres of numeric records, with noisy cluster sizes, so that no record "
    "can be inferred",
    dataset_kind="numeric-table",
    params=Parameters,
    stances=("sound", "paper"),
    run=run,
    preview=preview,
    result=RESULT,
    complexity="time O(n d) for the synopsis and O(n k d) for each zone round, one to three passes "
    "over the data; memory O(cells)",
    check=check,
    check_outline=check_outline,
    drawings=DRAWINGS,
    evaluation_pictures=evaluation_pictures,
    rounds=ROUNDS,
)
