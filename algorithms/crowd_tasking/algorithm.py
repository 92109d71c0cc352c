"""The central form: every user of a data set is simulated, then the aggregator does its part.

Includes the source's Algorithm 2 as printed (stance `paper`): floating-point noise, no clamp,
nothing verified. Spec: crowd-tasking.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from algorithms.contract import (
    Algorithm,
    Context,
    Outcome,
    ResultFile,
    Stance,
    ValueUnknown,
    floating_source,
)
from algorithms.crowd_tasking.aggregates import (
    Reports,
    averages,
    cross_validated,
    deconvolved,
    histogram_distance,
    shares,
    shares_by_round,
)
from algorithms.crowd_tasking.evaluation import DRAWINGS, evaluate, evaluation_pictures, task_plots
from algorithms.crowd_tasking.parameters import Parameters
from algorithms.crowd_tasking.prediction import accuracy_outlook, subset_shares
from algorithms.crowd_tasking.report import NAME, privacy_report
from algorithms.crowd_tasking.task import Task, resolve
from algorithms.datasets.tables import Texts, UserSeries
from tacit.encoders.crowd_tasking import (
    Bools,
    Component,
    Floats,
    Ints,
    admits,
    perturb,
    respond,
    series_noise,
)
from tacit.errors import Invalid
from tacit.noise import floating_laplace
from tacit.randomness import PublicRandom, SeededRandom
from tacit.records.text_files import line_of, written
from tacit.report.model import PrivacyReport


def perturb_floating(
    components: Sequence[Component],
    scales: Floats,
    persistence: float,
    users: Ints,
    rounds: Ints,
    readings: Floats,
    source: SeededRandom,
) -> Floats:
    """(n, k) reports of readings (n, k), sorted by user and round; scales b (k,), in their unit."""

    def draw(count: int) -> Floats:
        drawn = floating_laplace(source, 1.0, count * scales.size).reshape(count, -1)
        return np.asarray(drawn * scales, np.float64)

    def coins(count: int) -> Bools:
        return np.asarray(source.generator.random(count) < persistence, np.bool_)

    return readings + series_noise(components, users, rounds, draw, coins)


# Spec: crowd-tasking, sections 2 and 3.5; jobs, "Result". `run` admits, perturbs in blocks of whole
# users and hands the reports to `aggregate`, which a collection of reports from curators calls too.

BLOCK: Final = 1_000_000
"""Numbers of a block, but for a user who alone has more. Fixed: streams are named by blocks."""
_MOST_CELLS: Final = 1_000_000
"""Most cells of a table of shares by round; larger tables are omitted."""


class BadRows(Invalid):
    """A data set that does not fit the task. Only the data's custodian sees it."""

    name = "data_shape"
    title = "The data set does not fit the task"

    def __init__(self, reason: str) -> None:
        super().__init__(reason, pointer="/dataset")


def check(dataset: UserSeries, params: Parameters, stance: Stance) -> None:
    """Refuse rows that do not fit the parameters. Raises BadTask, BadRows."""
    _checked(dataset, resolve(params, stance))


@dataclass(frozen=True, eq=False)
class _Block:
    """Whole users' readings, sorted; `number` names the streams."""

    number: int
    users: Ints
    rounds: Ints
    readings: Floats
    labels: Ints | None


def run(dataset: UserSeries, params: Parameters, stance: Stance, context: Context) -> Outcome:
    """Simulate the task on a data set. Raises BadTask, BadRows, Cancelled."""
    task = resolve(params, stance)
    labels = _checked(dataset, task)
    values = dataset.values[:, _columns(dataset, params)]
    context.progress(0.0, "open")
    everyone = len(dataset.users.values)
    joined = np.flatnonzero(_willing(dataset.users, task))[: params.n]
    owners = dataset.users.codes.astype(np.int64)
    rows = np.flatnonzero(np.isin(owners, joined))
    rows = rows[np.lexsort((dataset.rounds[rows], owners[rows]))]
    users, rounds, readings = owners[rows], dataset.rounds[rows], values[rows]
    true_labels = None if labels is None else labels[rows]
    blocks = _blocks(users, rounds, readings, true_labels, task)
    context.progress(0.05, "collecting")
    if task.report == "subset":
        people = {"offered": everyone, "joined": int(joined.size)}
        return _run_subset(task, blocks, people, context)

    def collect(block: _Block) -> tuple[Floats, Ints | None]:
        result = _reports_of(block, task, context)
        context.progress(0.05 + 0.7 * (block.number + 1) / len(blocks), "collecting")
        return result

    parts = context.map_blocks(collect, blocks)
    labels_sent = [part[1] for part in parts if part[1] is not None]
    reports = Reports(
        users,
        rounds,
        np.concatenate([part[0] for part in parts]) if parts else readings,
        np.concatenate(labels_sent) if labels_sent else None,
    )
    context.progress(0.8, "aggregating")
    people = {"offered": everyone, "joined": int(joined.size)}
    outcome, estimates = _aggregated(task, reports, people, context)
    evaluation = None
    if params.evaluate:
        evaluation = evaluate(
            task,
            readings,
            true_labels,
            reports,
            estimates,
            lambda: context.progress(0.9, "evaluating"),
        )
    context.progress(1.0, "done")
    report = privacy_report(task, joined=int(joined.size), evaluated=params.evaluate)
    return replace(outcome, report=report, evaluation=evaluation)


def aggregate(task: Task, reports: Reports, offered: int, context: Context) -> Outcome:
    """The aggregator's part only, for reports that curators sent (federation `reports`).

    Reports are sorted by user and round; `offered`: users who were asked.
    """
    people = {"offered": offered, "joined": int(np.unique(reports.users).size)}
    return _aggregated(task, reports, people, context)[0]


def preview(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report that a result would carry. Raises BadTask."""
    return privacy_report(resolve(params, stance))


# ----------------------------------------------------------------------------------- collecting


def _checked(dataset: UserSeries, task: Task) -> Ints | None:
    """Labels as places in the list of classes. Raises BadRows, ValueUnknown."""
    params = task.params
    _columns(dataset, params)
    if dataset.rounds.size and int(dataset.rounds.max()) > params.rounds:
        raise BadRows(f"a round is outside 1..{params.rounds}")
    if not set(params.epsilon_limits or ()) <= set(dataset.users.values):
        raise ValueUnknown(
            "no user of the data has this id; ids are compared as they are written",
            pointer="/params/epsilon_limits",
        )
    if params.aggregate != "CLS":
        return None
    if dataset.labels is None:
        raise BadRows("a classifier needs a label for each row")
    assert params.classes is not None
    places = {str(label): place for place, label in enumerate(params.classes)}
    if not set(dataset.labels.values) <= set(places):
        raise BadRows("a label is not one of the classes, which are whole numbers")
    return np.array([places[value] for value in dataset.labels.values], np.int64)[
        dataset.labels.codes
    ]


def _columns(dataset: UserSeries, params: Parameters) -> list[int]:
    """The column of each coordinate: by name or, if no column has the name of any coordinate, by
    position (x1, x2). Raises BadRows."""
    if len(dataset.columns) != params.dimension:
        raise BadRows(f"the sensor has {params.dimension} coordinates, the rows another number")
    names = [coordinate.name for coordinate in params.sensor.coordinates]
    positions = [dataset.columns.index(name) for name in names if name in dataset.columns]
    if positions and len(positions) < len(names):
        raise BadRows("some columns have names of coordinates, others have not")
    return positions or list(range(params.dimension))


def _willing(users: Texts, task: Task) -> Bools:
    """Which users join: epsilon_u >= epsilon_a, or no limit set."""
    limits: Mapping[str, Fraction] = task.params.epsilon_limits or {}
    task_epsilon = task.asked_of_users
    return np.array(
        [admits(limits.get(user, task_epsilon), task_epsilon) for user in users.values], np.bool_
    )


def _blocks(
    users: Ints, rounds: Ints, readings: Floats, labels: Ints | None, task: Task
) -> list[_Block]:
    if not users.size:
        return []
    width = task.subset.buckets if task.report == "subset" else readings.shape[1]
    starts = np.flatnonzero(np.concatenate([[True], users[1:] != users[:-1]])).tolist()
    cuts, begin = [], 0
    for start, end in zip(starts, [*starts[1:], users.size], strict=True):
        if (end - begin) * width > BLOCK and start > begin:
            cuts.append((begin, start))
            begin = start
    cuts.append((begin, users.size))
    return [
        _Block(
            number,
            users[low:high],
            rounds[low:high],
            readings[low:high],
            None if labels is None else labels[low:high],
        )
        for number, (low, high) in enumerate(cuts)
    ]


def _reports_of(block: _Block, task: Task, context: Context) -> tuple[Floats, Ints | None]:
    """The block's reports in the form that devices send, in the sensor's unit, and reported
    labels."""
    source = context.noise("reports", block.number)
    if task.stance == "paper":
        values = perturb_floating(
            task.components,
            task.scales,
            float(task.params.p),
            block.users,
            block.rounds,
            block.readings,
            floating_source(source),
        )
    elif task.report == "window":
        values = task.windows.estimates(task.windows.reports(block.readings, source))
    else:
        mechanism = task.perturbation
        noisy = perturb(
            mechanism, block.users, block.rounds, mechanism.quantise(block.readings), source
        )
        values = mechanism.decode(noisy)
    labels_sent = block.labels
    if labels_sent is not None and task.label_epsilon:
        assert task.params.classes is not None
        labels_source = context.noise("labels", block.number)
        labels_sent = respond(
            labels_sent, len(task.params.classes), task.label_epsilon, labels_source
        )
    return values, labels_sent


def _buckets_of(block: _Block, task: Task, context: Context) -> Ints:
    """(T, d) how many subset reports of each round hold each bucket."""
    mechanism = task.subsets
    bucket_counts = mechanism.held(block.readings, context.noise("reports", block.number))
    result = np.zeros((task.params.rounds, mechanism.law.buckets), np.int64)
    np.add.at(result, block.rounds - 1, bucket_counts)
    return result


def _run_subset(
    task: Task, blocks: list[_Block], people: Mapping[str, int], context: Context
) -> Outcome:
    """A histogram from subset reports: nothing else is known of a reading."""

    def collect(block: _Block) -> Ints:
        result = _buckets_of(block, task, context)
        context.progress(0.05 + 0.7 * (block.number + 1) / len(blocks), "collecting")
        return result

    params = task.params
    counts = np.zeros((params.rounds, task.subset.buckets), np.int64)
    for part in context.map_blocks(collect, blocks):
        counts += part
    outcome, estimated = histogram_of_subsets(task, counts, people, context)
    evaluation = None
    if params.evaluate and counts.any():
        truth = np.concatenate([block.readings[:, 0] for block in blocks])
        true = shares(truth, np.array(params.bucket_edges))
        evaluation = {
            "readings": outcome.result["reports"],
            "histogram": {
                "true_shares": true.tolist(),
                "error": histogram_distance(estimated, true),
            },
        }
    context.progress(1.0, "done")
    report = privacy_report(task, joined=people["joined"], evaluated=params.evaluate)
    return replace(outcome, report=report, evaluation=evaluation)


def histogram_of_subsets(
    task: Task, counts: Ints, people: Mapping[str, int], context: Context
) -> tuple[Outcome, Floats]:
    """The aggregator's part for report `subset`, and the shares (d,), NaN without a report.
    counts (T, d): how many reports of each round contain each bucket."""
    law, params = task.subset, task.params
    reports_of_round = counts.sum(axis=1) // law.size
    total = int(reports_of_round.sum())
    edges = np.array(params.bucket_edges)
    estimated = np.full(law.buckets, np.nan)
    if total:
        estimated = subset_shares(law, counts.sum(axis=0), total)
    summary = _summary(task, total, people)
    summary["histogram"] = {
        "coordinate": params.histogram_coordinate.name,
        "estimator": "subset",
        "edges": edges.tolist(),
        "shares": [_number(share) for share in estimated],
        "standard_error_of_an_empty_bucket": _number(law.deviation(total)) if total else None,
    }
    estimates = np.stack(
        [law.shares(row, max(1, int(n))) for row, n in zip(counts, reports_of_round, strict=True)]
    )
    estimates[reports_of_round == 0] = np.nan
    files = () if estimates.size > _MOST_CELLS else (_shares_file(estimates, edges),)

    def tick() -> None:
        context.progress(0.85, "aggregating")

    nothing = Reports(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 1)))
    plots = task_plots(task, people["joined"], nothing, estimated, tick)
    report = privacy_report(task, joined=people["joined"])
    seeds = {"prediction_seed": params.prediction_seed}
    return Outcome(summary, report, files, plots, seeds), estimated


# ----------------------------------------------------------------------------------- aggregating


def _summary(task: Task, reports: int, people: Mapping[str, int]) -> dict[str, Any]:
    """The task and the number of reports, as a result states them."""
    params = task.params
    return {
        "task": {
            "aggregate": params.aggregate,
            "sensor": params.sensor.name,
            "unit": params.sensor.unit,
            "n": params.n,
            "T": params.rounds,
            "epsilon": _number(float(task.epsilon)),
            "components": list(task.components),
            "sensitivity": "per-coordinate" if task.per_coordinate else "l1",
            "descriptor": task.digest,
            **({} if task.report == "laplace" else {"report": task.report}),
        },
        "users": dict(people),
        "reports": reports,
        "predicted": _predicted(task, params.n),
        "predicted_for_joined": _predicted(task, people["joined"]),
    }


def _aggregated(
    task: Task, reports: Reports, people: Mapping[str, int], context: Context
) -> tuple[Outcome, Floats | None]:
    params = task.params

    def tick() -> None:
        context.progress(0.85, "aggregating")

    summary = _summary(task, reports.count, people)
    released_averages = averages(
        reports, params.rounds, task.scales, task.components, float(params.p)
    )
    low, high = released_averages.interval
    names = [coordinate.name for coordinate in params.sensor.coordinates]
    summary["average"] = {
        name: {
            "estimate": _number(released_averages.mean[place]),
            "standard_error": _number(released_averages.error[place]),
            "interval_95": [_number(low[place]), _number(high[place])],
        }
        for place, name in enumerate(names)
    }
    files = [
        _rounds_file(
            names, released_averages.counts, released_averages.means, released_averages.errors
        )
    ]
    estimated: Floats | None = None
    if params.aggregate == "HIST":
        estimated = _histogram(task, reports)
        edges = np.array(params.bucket_edges)
        summary["histogram"] = {
            "coordinate": params.histogram_coordinate.name,
            "estimator": params.estimator,
            "edges": edges.tolist(),
            "shares": [_number(share) for share in estimated],
        }
        if params.rounds * estimated.size <= _MOST_CELLS:
            values = reports.values[:, params.histogram_place]
            estimates = shares_by_round(values, reports.rounds, params.rounds, edges)
            files.append(_shares_file(estimates, edges))
    if params.aggregate == "CLS":
        summary["classifier"] = _classifier(task, reports, tick)
        files.append(_training_file(names, reports, task))
    plots = task_plots(task, people["joined"], reports, estimated, tick)
    report = privacy_report(task, joined=people["joined"])
    seeds = {"prediction_seed": params.prediction_seed}
    return Outcome(summary, report, tuple(files), plots, seeds), estimated


def _predicted(task: Task, n: int) -> dict[str, Any] | None:
    """The expected figures with n users."""
    if n < 1:
        return None
    expected = task.predicted(n)
    stated: dict[str, Any] = {
        "n": n,
        "mean_error": _number(expected.mean),
        "error_95": _number(expected.point_95),
        "source_bound": _number(expected.bound),
    }
    if task.params.aggregate == "CLS" and task.params.d_avg is not None:
        ratio = expected.mean / task.params.d_avg
        stated["ratio"] = _number(ratio)
        stated["outlook"] = accuracy_outlook(ratio)
    return stated


def _histogram(task: Task, reports: Reports) -> Floats:
    params = task.params
    values = reports.values[:, params.histogram_place]
    edges = np.array(params.bucket_edges)
    if params.estimator == "naive":
        return shares(values, edges)
    chosen = params.histogram_coordinate
    scale = float(task.scales[params.histogram_place])
    return deconvolved(values, edges, chosen.lower, chosen.upper, scale, task.parts)


def _classifier(task: Task, reports: Reports, tick: Callable[[], None]) -> dict[str, Any] | None:
    """Trained and tested on noisy reports only: five folds."""
    params = task.params
    if reports.labels is None or params.classes is None:
        return None
    scores = cross_validated(
        params.classifier,
        params.neighbours,
        reports.values,
        reports.labels,
        len(params.classes),
        PublicRandom(params.prediction_seed),
        tick=tick,
    )
    if scores is None:
        return None
    return {
        "kind": params.classifier,
        "classes": list(params.classes),
        "accuracy_on_noisy_reports": _number(scores.accuracy),
        "confusion_on_noisy_reports": [list(row) for row in scores.confusion],
    }


# ----------------------------------------------------------------------------------------- files


def _number(value: float | None) -> float | None:
    """A number for JSON: null for NaN."""
    return None if value is None or not math.isfinite(value) else float(value)


def _csv(
    name: str, header: list[str], first: Sequence[object], table: Floats, description: str
) -> ResultFile:
    """Rows of a first cell and numbers (n, d), empty where there is none."""
    rows = (
        [label, *("" if math.isnan(value) else f"{value:.10g}" for value in values)]
        for label, values in zip(first, table.tolist(), strict=True)
    )
    content = line_of(header) + written(rows)
    return ResultFile.csv(name, content, description)


def _rounds_file(names: list[str], counts: Ints, means: Floats, errors: Floats) -> ResultFile:
    header = ["round", "reports", *names, *(f"{name}_standard_error" for name in names)]
    numbers = range(1, counts.size + 1)
    table = np.concatenate([counts[:, None], means, errors], axis=1)
    return _csv("rounds.csv", header, numbers, table, "mean of the noisy reports of each round")


def _shares_file(shares: Floats, edges: Floats) -> ResultFile:
    header = ["round", *(f"from_{low:.10g}" for low in edges[:-1])]
    numbers = range(1, shares.shape[0] + 1)
    return _csv(
        "shares.csv", header, numbers, shares, "bucket shares of the noisy reports of each round"
    )


def _training_file(names: list[str], reports: Reports, task: Task) -> ResultFile:
    """The classifier's training data, as noisy as it was sent."""
    assert task.params.classes is not None
    classes = task.params.classes
    labels: Sequence[int] = [0] * reports.count
    if reports.labels is not None:
        labels = [classes[place] for place in reports.labels.tolist()]
    return _csv(
        "training.csv",
        ["label", *names],
        labels,
        reports.values,
        "noisy reports with labels as sent",
    )


ALGORITHM: Final = Algorithm(
    name=NAME,
    title="Predictable crowd sensing (Salus)",
    source="Predictable Privacy-Preserving Mobile Crowd Sensing: A Tale of Two Roles, book chapter "
    "12, Algorithms 1 and 2",
    purpose="averages, histograms or classifiers of sensor readings that users perturb themselves, "
    "with the error known before anything is collected",
    dataset_kind="user-series",
    params=Parameters,
    stances=("sound", "paper"),
    run=run,
    preview=preview,
    result={
        "users": "how many were offered the task and how many joined",
        "average": "estimate, standard error and 95 % interval of each coordinate, over all rounds "
        "(not with subset reports)",
        "histogram": "bucket shares (HIST)",
        "classifier": "cross-validated on noisy reports (CLS)",
        "predicted": "mean error and 95 % point before collection, and the source's bound",
        "rounds.csv": "estimates and standard errors of each round (not with subset reports)",
        "shares.csv": "bucket shares of each round (HIST)",
    },
    complexity="O(n T k) draws of noise; about 10^7 readings a second on one core",
    check=check,
    drawings=DRAWINGS,
    evaluation_pictures=evaluation_pictures,
)
"""The entry of the catalogue."""
