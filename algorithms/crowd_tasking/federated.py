"""Crowd tasking over curators: they perturb their own readings, send reports, and the reports are
collected.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from algorithms.contract import Collected, Context, FederatedReports, Outcome, Stance
from algorithms.crowd_tasking.aggregates import Reports
from algorithms.crowd_tasking.algorithm import aggregate, histogram_of_subsets
from algorithms.crowd_tasking.parameters import Parameters
from algorithms.crowd_tasking.report import privacy_report
from algorithms.crowd_tasking.task import BadTask, Task, resolve
from tacit.encoders.crowd_tasking import Ints
from tacit.encoders.crowd_tasking_reports import Encoding
from tacit.report.figures import delta_amount, epsilon_amount
from tacit.report.model import PrivacyReport


def gathered(
    task: Task, users: Ints, rounds: Ints, numbers: Ints, labels: Ints | None = None
) -> Reports:
    """Stored reports in any order, sorted by user and round and converted to the sensor's unit.

    users, rounds (n,), numbers (n, k) as sent (not of subsets), labels (n,) indices in the list
    of classes.
    """
    order = np.lexsort((rounds, users))
    windows = task.report == "window"
    decode = task.windows.estimates if windows else task.perturbation.decode
    return Reports(
        users[order],
        rounds[order],
        decode(numbers[order]),
        None if labels is None else labels[order],
    )


# Spec: crowd-tasking, section 2; jobs, "Federated jobs". A device clamps and draws exact noise in
# both stances: the source's floating noise is simulated only. In `paper` it adds the source's parts
# at the source's scale, and its ledger is charged no figure. A classifier's labels are sent as they
# are: only from a column that the curator's own policy declares public, whatever the task says.


def encoding(params: Parameters, stance: Stance) -> dict[str, Any]:
    """What a device needs to know. Raises BadTask."""
    if params.label_epsilon is not None:
        raise BadTask("label_epsilon", "curators send labels as they are: labels_are_public")
    if labelled(params) and not params.labels_are_public:
        raise BadTask("labels_are_public", "curators send labels as they are: declare them public")
    if params.epsilon_limits is not None:
        raise BadTask("epsilon_limits", "each curator keeps its own")
    sum_encoding = _encoding(_task(params, stance))
    if not sum_encoding.fresh:
        raise BadTask("components", "without a part fresh every round nothing is protected")
    return sum_encoding.document()


def columns(params: Parameters) -> int:
    """One column for each coordinate."""
    return params.dimension


def labelled(params: Parameters) -> bool:
    """Whether labels are needed: classifiers learn from them."""
    return params.aggregate == "CLS"


def aggregated(
    params: Parameters, stance: Stance, collected: Collected, context: Context
) -> Outcome:
    """The result of collected reports."""
    task, reports = _task(params, stance), collected.reports
    users = np.array([user for user, _ in reports], np.int64)
    rounds = np.array([report.round for _, report in reports], np.int64)
    numbers = np.array([report.values for _, report in reports], np.int64)
    if task.report == "subset":
        places = numbers.reshape(len(reports), task.subset.size)
        counts = task.subsets.counts(rounds, places, params.rounds)
        people = {"offered": collected.offered, "joined": int(np.unique(users).size)}
        outcome = histogram_of_subsets(task, counts, people, context)[0]
        return replace(outcome, report=_charged(task, outcome.report))
    numbers = numbers.reshape(len(reports), params.dimension)
    labels = None
    if labelled(params):
        labels = np.array([report.label for _, report in reports], np.int64)
    sent = gathered(task, users, rounds, numbers, labels)
    outcome = aggregate(task, sent, collected.offered, context)
    return replace(outcome, report=_charged(task, outcome.report))


def preview(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report that a result would carry. Raises BadTask."""
    task = _task(params, stance)
    return _charged(task, privacy_report(task))


def _task(params: Parameters, stance: Stance) -> Task:
    return resolve(params, stance, on_devices=True)


def _encoding(task: Task) -> Encoding:
    params = task.params
    return Encoding(
        task.mechanism,
        params.rounds,
        params.privacy_unit,
        params.delta,
        task.stance,
        (params.classes or ()) if labelled(params) else (),
    )


def _charged(task: Task, report: PrivacyReport) -> PrivacyReport:
    """With the charge to curators' own ledgers, which they compute from the mechanism alone: at
    least what is verified; `paper` has no figure."""
    cost = _encoding(task).cost
    if cost is None:
        return report
    assert report.charged is not None
    charged = report.charged.model_copy(
        update={"epsilon": epsilon_amount(cost.epsilon), "delta": delta_amount(cost.delta)}
    )
    return report.model_copy(update={"charged": charged})


REPORTS: Final = FederatedReports(
    encoding=encoding,
    columns=columns,
    labelled=labelled,
    aggregate=aggregated,
    preview=preview,
    when="every stance; CLS with labels_are_public",
)
