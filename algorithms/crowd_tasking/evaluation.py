"""What only the operator of a simulated task may see: errors and risks against the true readings.

Spec: crowd-tasking, sections 2, 3.3 and 9; jobs, "Parameters" (`evaluate`). Never published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from algorithms.crowd_tasking.aggregates import (
    Classified,
    Reports,
    cross_validated,
    histogram_distance,
    shares,
)
from algorithms.crowd_tasking.attacks import Prior, Risk, risk
from algorithms.crowd_tasking.noise_law import mean_shift
from algorithms.crowd_tasking.prediction import class_distance
from algorithms.crowd_tasking.task import Task
from tacit.encoders.crowd_tasking.encoder import Floats, Ints
from tacit.randomness import PublicRandom

MOST_ATTACKED: Final = 100
MOST_ROUNDS: Final = 1_000
"""Longer series are attacked in their first rounds."""


def evaluate(
    task: Task,
    truth: Floats,
    true_labels: Ints | None,
    reports: Reports,
    found: Floats | None,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Realised error, clamped readings, attacks; rows of `truth` (n, k) as those of the reports.

    `tick` is called between steps.
    """
    lower, upper = np.array(task.grid.lower), np.array(task.grid.upper)
    known: dict[str, Any] = {
        "readings": reports.count,
        "clamped": int(((truth < lower) | (truth > upper)).any(axis=1).sum()),
    }
    if not reports.count:
        return known
    match task.params.aggregate:
        case "AVG":
            known["average"] = _average(task, truth, reports)
        case "HIST":
            assert found is not None
            edges = np.array(task.params.bucket_edges)
            true_shares = shares(truth[:, task.params.histogram_place], edges)
            known["histogram"] = {
                "true_shares": true_shares.tolist(),
                "error": histogram_distance(found, true_shares),
            }
        case "CLS":
            if true_labels is not None and reports.labels is not None:
                known["classifier"] = _classifier(task, truth, true_labels, reports, tick)
    known["risk"] = _risks(task, np.clip(truth, lower, upper), reports, tick)
    return known


def _average(task: Task, truth: Floats, reports: Reports) -> dict[str, Any]:
    rounds = task.params.rounds
    counts = np.bincount(reports.rounds - 1, minlength=rounds)
    wrong = np.stack(
        [
            np.bincount(reports.rounds - 1, weights=column, minlength=rounds)
            for column in (reports.values - truth).T
        ],
        axis=1,
    )
    seen = counts > 0
    return {
        "true_mean": truth.mean(axis=0).tolist(),
        "error": np.abs((reports.values - truth).mean(axis=0)).tolist(),
        "mean_error_of_a_round": np.abs(wrong[seen] / counts[seen, None]).mean(axis=0).tolist(),
    }


def _classifier(
    task: Task, truth: Floats, true_labels: Ints, reports: Reports, tick: Callable[[], None]
) -> dict[str, Any]:
    params = task.params
    assert params.classes is not None
    assert reports.labels is not None

    def measured(training: Floats, labels: Ints) -> float | None:
        found: Classified | None = cross_validated(
            params.classifier,
            params.neighbours,
            training,
            labels,
            len(params.classes or ()),
            PublicRandom(params.prediction_seed),
            truth,
            tick,
        )
        return None if found is None else found.accuracy

    distance = class_distance(truth, true_labels)
    shift = float(task.scales.max()) * mean_shift(params.dimension, task.parts)
    return {
        "accuracy_without_noise": measured(truth, true_labels),
        "accuracy_on_true_readings": measured(reports.values, reports.labels),
        "d_avg": distance,
        "ratio": shift / distance if distance else None,
    }


def _risks(
    task: Task, truth: Floats, reports: Reports, tick: Callable[[], None]
) -> dict[str, Any] | None:
    """Attacks on the complete series of every second user, with the others' as the prior."""
    _, starts, sizes = np.unique(reports.users, return_index=True, return_counts=True)
    whole = starts[sizes == task.params.rounds]
    if whole.size < 2:
        return None
    length = min(task.params.rounds, MOST_ROUNDS)
    rows = whole[:, None] + np.arange(length)
    attacked, others = rows[::2][:MOST_ATTACKED], rows[1::2][: 10 * MOST_ATTACKED]
    found = {}
    for place, coordinate in enumerate(task.params.sensor.coordinates):
        tick()
        measured = risk(
            truth[attacked, place],
            reports.values[attacked, place],
            Prior(truth[others, place]),
            float(task.scales[place]),
            task.components,
            float(task.params.p),
            (coordinate.lower, coordinate.upper),
        )
        found[coordinate.name] = _stated(measured)
    return found


def _stated(measured: Risk) -> dict[str, Any]:
    name, best = measured.shown
    return {
        "prior_only": measured.prior,
        "best_attack": best,
        "attack_name": name,
        "source_ane": measured.source,
        "raw": measured.raw,
        "pca": measured.pca,
        "sf": measured.sf,
        "mid_range": measured.mid_range,
        "wiener": measured.wiener,
    }
