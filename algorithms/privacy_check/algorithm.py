"""The catalogue's entry."""

from __future__ import annotations

from typing import Final

from algorithms.contract import Algorithm, Context, Outcome, Stance
from algorithms.datasets.table import Table
from algorithms.privacy_check.check import Checked, check_table
from algorithms.privacy_check.evaluation_pictures import evaluation_pictures
from algorithms.privacy_check.parameters import Parameters
from algorithms.privacy_check.report import LIMITS, NAME, privacy_report
from tacit.report.model import PrivacyReport


def run(dataset: Table, params: Parameters, stance: Stance, context: Context) -> Outcome:  # noqa: ARG001 - one stance
    """Check a table; the answer is the evaluation, for the owner alone.

    Raises EmptyTable, UnknownColumn, ValueUnknown, BadDistance.
    """
    checked = Checked(dataset, params, lambda: context.progress(0.5, "checking"))
    findings = checked.findings()
    context.progress(1.0, "done")
    return Outcome(
        result={"checked": [model.model for model in params.models], "limits": list(LIMITS)},
        report=privacy_report(params, attached=True),
        evaluation={"rows": dataset.rows, "findings": findings, "limits": list(LIMITS)},
    )


def preview(params: Parameters, stance: Stance) -> PrivacyReport:  # noqa: ARG001 - one stance
    """The report of a run, before any data."""
    return privacy_report(params, attached=False)


def check(dataset: Table, params: Parameters, stance: Stance) -> None:  # noqa: ARG001
    """Refuse a table that lacks a column or has no rows."""
    check_table(dataset, params)


ALGORITHM: Final = Algorithm(
    name=NAME,
    title="Check of a table against partition models",
    source="Chen's thesis, chapter 2; Lu's thesis, chapter 2 (t-closeness)",
    purpose="Say which k-anonymity, l-diversity, confidence, (alpha,k)-anonymity and t-closeness a "
    "table satisfies, and where it is worst. It anonymises nothing, and its answer stays with the "
    "owner.",
    dataset_kind="table",
    params=Parameters,
    stances=("sound",),
    run=run,
    preview=preview,
    result={
        "checked": "the models that were asked for; what they say is in the evaluation",
        "limits": "what satisfying a partition model does not mean",
    },
    complexity="linear in the rows but for sorting whole numbers; a matrix of distances: one "
    "linear programme for each group",
    check=check,
    evaluation_pictures=evaluation_pictures,
)
