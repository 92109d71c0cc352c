"""Crowd tasking over curators: they perturb their own readings and send reports.

Spec: crowd-tasking, section 2; jobs, "Federated jobs". The `paper` stance is not offered so: its
noise is in floating point, and a device adds exact noise only. Nor are classifiers, whose labels a
curator's table does not have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from algorithms.contract import Collected, Context, FederatedReports, Outcome, Stance
from algorithms.crowd_tasking.collection import gathered
from algorithms.crowd_tasking.job import aggregate
from algorithms.crowd_tasking.parameters import CrowdTaskingParams
from algorithms.crowd_tasking.report import privacy_report
from algorithms.crowd_tasking.task import BadTask, Task, resolve
from common.encoders.crowd_tasking_reports import Encoding
from common.models.report import PrivacyReport
from common.report import delta_amount, epsilon_amount


def encoding(params: CrowdTaskingParams, stance: Stance) -> dict[str, Any]:
    """What a device needs to know. Raises BadTask."""
    if stance == "paper":
        raise BadTask("stance", "the source's floating noise is simulated only")
    if params.aggregate == "CLS":
        raise BadTask("aggregate", "curators send no labels: AVG or HIST")
    if params.epsilon_limits is not None:
        raise BadTask("epsilon_limits", "each curator keeps its own")
    found = _encoding(resolve(params, stance))
    if not found.fresh:
        raise BadTask("components", "without a part fresh every round nothing is protected")
    return found.document()


def columns(params: CrowdTaskingParams) -> int:
    """One for each coordinate."""
    return params.dimension


def aggregated(
    params: CrowdTaskingParams, stance: Stance, collected: Collected, context: Context
) -> Outcome:
    """The aggregator's part."""
    task, reports = resolve(params, stance), collected.reports
    users = np.array([user for user, _ in reports], np.int64)
    rounds = np.array([report.round for _, report in reports], np.int64)
    numbers = np.array([report.values for _, report in reports], np.int64)
    numbers = numbers.reshape(len(reports), params.dimension)
    outcome = aggregate(task, gathered(task, users, rounds, numbers), collected.offered, context)
    return replace(outcome, report=_charged(task, outcome.report))


def preview(params: CrowdTaskingParams, stance: Stance) -> PrivacyReport:
    """The report that a result would carry. Raises BadTask."""
    task = resolve(params, stance)
    return _charged(task, privacy_report(task, collected=True))


def _encoding(task: Task) -> Encoding:
    params = task.params
    return Encoding(task.perturbation, params.rounds, params.privacy_unit, params.delta)


def _charged(task: Task, report: PrivacyReport) -> PrivacyReport:
    """With what curators' own ledgers are charged, which they work out from the mechanism alone: at
    least what is verified."""
    epsilon, delta = _encoding(task).cost
    assert report.charged is not None
    charged = report.charged.model_copy(
        update={"epsilon": epsilon_amount(epsilon), "delta": delta_amount(delta)}
    )
    return report.model_copy(update={"charged": charged})


REPORTS: Final = FederatedReports(
    encoding=encoding,
    columns=columns,
    aggregate=aggregated,
    preview=preview,
)
