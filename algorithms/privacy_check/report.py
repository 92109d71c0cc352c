"""The privacy report of a check: nothing is released. Spec: trajectory-kcl, section 10."""

from __future__ import annotations

from typing import Final

from algorithms.privacy_check.parameters import Parameters
from tacit.report.builder import NO_FIGURE, ReportBuilder
from tacit.report.model import Charge, PrivacyReport

NAME: Final = "privacy-check"

LIMITS: Final = (
    "Partition models bound linkage under fixed knowledge of an attacker only.",
    "Composition of several tables, minimality, deFinetti and background knowledge attacks are out "
    "of scope.",
    "Satisfaction is a property of one table, not of the method that made it.",
)


def privacy_report(params: Parameters, *, attached: bool) -> PrivacyReport:
    """The same for every table. `attached`: there is an answer for the owner."""
    builder = ReportBuilder(NAME, "tacit algorithms.privacy_check", "sound", None, None)
    return builder.report(
        "check of a table",
        {"models": [model.model for model in params.models]},
        verified=(
            builder.line(
                None,
                "whoever reads the published part",
                NO_FIGURE,
                reason="nothing about the table is released: the answer is computed from raw or "
                "candidate rows and stays with their owner",
            ),
        ),
        charged=Charge(ledger="none"),
        method="none: nothing is released",
        public_parameters=("every parameter of the job",),
        not_protected=("The answer itself: it names groups and values of the table.",),
        voided_by=("publishing the answer",),
        caveats=LIMITS,
        evaluation_attached=attached,
    )
