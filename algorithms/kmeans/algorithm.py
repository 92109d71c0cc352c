"""K-means as the catalogue knows it: run, preview, and what a result holds.

Spec: kmeans, section 2; jobs, "Catalogue" and "Result".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from algorithms.contract import Algorithm, Context, Outcome, ResultFile, Stance
from algorithms.datasets.tables import NumericTable
from algorithms.kmeans import paper
from algorithms.kmeans.evaluation import evaluate
from algorithms.kmeans.parameters import Parameters, check_start, check_table, grid_and_plan
from algorithms.kmeans.pictures import evaluation_pictures, noise_deviations, pictures, step_norms
from algorithms.kmeans.report import paper_report, planned_split, sound_report, start_name
from algorithms.kmeans.sound_run import (
    Rows,
    State,
    ZoneEstimate,
    chosen_records,
    release,
    run_central,
)
from tacit.encoders.kmeans.encoder import Floats, Grid
from tacit.randomness import SeededRandom
from tacit.records.text_files import written
from tacit.report.model import PrivacyReport
from tacit.wire import format_exact

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
    """K-means of a numeric table. Raises subclasses of Invalid where table and parameters clash."""
    check(dataset, params, stance)
    if stance == "paper":
        return _run_paper(dataset, params, context)
    grid, plan = grid_and_plan(params)
    kept = None
    if params.privacy_unit == "curator":
        assert dataset.curators is not None
        source = context.noise("records of a curator")
        kept = chosen_records(dataset.curators.codes, plan.records, source)
    rows = Rows(dataset.values, kept)
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
    """Refuse a table and parameters that do not go together. Raises what they raise."""
    if stance == "sound":
        grid_and_plan(params)
    curators = dataset.curators is not None
    check_table(params, stance, dataset.rows, len(dataset.columns), curators)


def check_outline(outline: Mapping[str, Any], params: Parameters, stance: Stance) -> None:
    """All of `check` that the rows decide: it depends on sizes and roles only."""
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
    plan, found = state.plan, release(state)
    centres = grid.raw(found.centres)
    result = {
        "centres": centres.tolist(),
        "noisy_counts": found.counts.tolist(),
        "noisy_radius": (found.distances / 2).tolist(),
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
        "trace": [_round(each, grid) for each in state.rounds],
        "spent": format_exact(state.spent),
        "ended_early": state.answered < plan.queries,
    }
    return Outcome(
        result=result,
        report=sound_report(params, grid, plan, state, found),
        files=(centres_file(centres, columns, found.counts),),
        plots=pictures(state, found, grid, columns),
        public_seeds={"public_seed": params.public_seed},
    )


def centres_file(centres: Floats, columns: Sequence[str], counts: Floats) -> ResultFile:
    """centres.csv: one row for each centre."""
    found = zip(centres.tolist(), counts.tolist(), strict=True)
    rows = [(*columns, "noisy_count"), *((*centre, count) for centre, count in found)]
    text = written(rows)
    return ResultFile("centres.csv", "text/csv", text.encode(), "centres and noisy counts")


def _round(found: ZoneEstimate, grid: Grid) -> dict[str, Any]:
    """What one zone round published; radii, steps and noise in half sides of the box."""
    zone = found.zone
    return {
        "centres": grid.raw(zone.centres / zone.steps).tolist(),
        "zone_radii": (zone.radii / zone.steps).tolist(),
        "noisy_counts": found.counts.tolist(),
        "step_norms": step_norms(found).tolist(),
        "noise_deviations": noise_deviations(found).tolist(),
        "epsilon": format_exact(zone.epsilon_sums + zone.epsilon_counts + zone.epsilon_distances),
    }


def _with_evaluation(outcome: Outcome, compared: Mapping[str, Any]) -> Outcome:
    report = outcome.report.model_copy(update={"evaluation_attached": True})
    return replace(outcome, report=report, evaluation=compared)


def _run_paper(dataset: NumericTable, params: Parameters, context: Context) -> Outcome:
    """The source's algorithm on the table. Its floats are drawn from the job's secret stream."""
    source = SeededRandom(int.from_bytes(context.noise("paper").bytes(16)))
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

    found = paper.run(points, start, settings, source.generator, progress)
    final = params.epsilon if params.final_epsilon is None else params.final_epsilon
    centres, counts = paper.final_release(points, found, float(final), source)
    raw = low + centres * widths
    result = {
        "centres": raw.tolist(),
        "noisy_counts": counts.tolist(),
        "columns": list(dataset.columns),
        "passes": found.passes,
        "iterations": paper.iterations(found.passes, params.strategy),
        "trace": [
            {
                "zone_centres": (low + each.zone_centres * widths).tolist(),
                "zone_radii_scaled": each.zone_radii.tolist(),
                "centres": (low + each.centres * widths).tolist(),
            }
            for each in found.log
        ],
        "start": (low + start * widths).tolist(),
    }
    outcome = Outcome(
        result=result,
        report=paper_report(params, found.passes),
        files=(centres_file(raw, dataset.columns, counts),),
    )
    context.progress(1.0, "releasing")
    if params.metrics is None:
        return outcome
    compared = evaluate(
        points, centres, params.metrics, lambda share: context.progress(share, "evaluating")
    )
    return _with_evaluation(outcome, compared)


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
    evaluation_pictures=evaluation_pictures,
)
