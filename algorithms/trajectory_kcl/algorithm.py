"""The catalogue's entry."""

from __future__ import annotations

from typing import Final

from algorithms.contract import Algorithm, Stance
from algorithms.datasets.trajectories import Trajectories
from algorithms.trajectory_kcl.mining import check_size
from algorithms.trajectory_kcl.parameters import Parameters
from algorithms.trajectory_kcl.report import NAME, privacy_report
from algorithms.trajectory_kcl.run import run
from algorithms.trajectory_kcl.table import check_values, code
from tacit.report.model import PrivacyReport


def preview(params: Parameters, stance: Stance) -> PrivacyReport:
    """The report of a run, before any data."""
    return privacy_report(params, stance)


def check(dataset: Trajectories, params: Parameters, stance: Stance) -> None:  # noqa: ARG001
    """Refuse records that lack a named attribute, values that none has, a bad grid, and more
    sequences than can be enumerated."""
    table = code(dataset, params.sensitive_values, params.grid).table
    check_values(table)
    check_size(table, params.model)


ALGORITHM: Final = Algorithm(
    name=NAME,
    title="Trajectories under (K,C)_L-privacy",
    source="Chen's thesis, chapter 5, Algorithms 5.1 to 5.3; Chen, Fung, Mohammed, Desai, Wang, "
    "Privacy-preserving trajectory data publishing by local suppression",
    purpose="Publish truthful trajectories with some pairs removed, so that every sequence of at "
    "most L pairs fits K records or none, and tells no listed value with confidence above C. A "
    "syntactic property: not differentially private.",
    dataset_kind="trajectories",
    params=Parameters,
    stances=("sound", "paper"),
    run=run,
    preview=preview,
    result={
        "records": "published records",
        "instances": "published pairs of all records",
        "suppressed": "instances, by kind of operation; operations; empty paths",
        "instance_loss": "share of instances that were suppressed",
        "verification": "what the independent check of the published table found",
        "violations": "up to 100 sequences that still break the model (paper)",
    },
    complexity="mining and checking: the sum over records of C(length, <= L); an operation: "
    "the records of its sequence times length^(L - 1)",
    check=check,
)
