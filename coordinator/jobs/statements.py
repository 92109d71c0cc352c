"""A job's privacy report: the algorithm's own, with what only the coordinator knows.

Spec: jobs, "Privacy report": its subject, the charge to the ledger, earlier releases outside the
budget, and the effect of a chosen seed.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from coordinator.jobs.prices import Price, stated
from tacit.accounting.amounts import MICRO, ROUNDED, Amount, format_amount, format_micro
from tacit.report.model import Charge, PrivacyReport, VerifiedStatement

TRUST: Final = (
    "The coordinator and its workers are trusted with the raw data: they hold it while the job "
    "runs, and the coordinator keeps it."
)
REPRODUCIBLE: Final = (
    "NO PRIVACY: the seed was chosen by the submitter, so anyone who knows it can repeat the "
    "output and take the noise away."
)


def complete(
    report: PrivacyReport,
    *,
    job_id: str,
    dataset_id: str | None,
    unit: str | None,
    price: Price,
    charged: Amount,
    earlier: Iterable[str] = (),
    seeded: bool = False,
) -> PrivacyReport:
    """The report with subject, charge and caveats. `charged`: the final charge to the ledger;
    `earlier`: jobs whose releases are outside the dataset's budget."""
    caveats = [*report.caveats]
    for other in earlier:
        caveats.append(
            f"The dataset was released outside its budget before, by job {other}: over its "
            "lifetime no finite figure holds."
        )
    if price.kind == "budget" and _is_rounded(report, unit, price.epsilon):
        caveats.append(f"{ROUNDED}. This job counts as {format_micro(price.epsilon)}.")
    changes = {
        "subject": report.subject.model_copy(update={"id": job_id, "dataset": dataset_id}),
        "charged": _charge(price, unit, charged),
        "assumptions": (*report.assumptions, TRUST),
        "caveats": tuple(caveats),
    }
    if seeded:
        changes |= {
            "reproducible": True,
            "verified": (_nothing(report),),
            "caveats": (REPRODUCIBLE, *caveats),
        }
    return PrivacyReport.model_validate_json(report.model_copy(update=changes).model_dump_json())


def _is_rounded(report: PrivacyReport, unit: str | None, epsilon: int) -> bool:
    """Whether the ledger's epsilon is above that of the line that it charges by."""
    return Fraction(stated(report, unit).line.epsilon or 0) != Fraction(epsilon, MICRO)


def _charge(price: Price, unit: str | None, charged: Amount) -> Charge:
    if price.kind == "free":
        return Charge(ledger="none")
    if price.kind == "outside":
        return Charge.model_validate(
            {"ledger": "dataset", "privacy_unit": unit, "outside_budget": True}
        )
    return Charge.model_validate(
        {
            "ledger": "dataset",
            "privacy_unit": unit,
            **format_amount(charged),
            "reserved": format_micro(price.epsilon),
        }
    )


def _nothing(report: PrivacyReport) -> VerifiedStatement:
    return VerifiedStatement(
        scenario="recipient",
        model="none",
        privacy_unit=report.privacy_unit,
        neighbouring=report.neighbouring,
        epsilon="inf",
        delta="1",
        reason="whoever knows the seed repeats every draw",
    )
