"""The privacy report of a check: nothing is released. Spec: trajectory-kcl, section 10."""

from __future__ import annotations

from typing import Final

from algorithms.privacy_check.parameters import Parameters
from common.models.report import (
    AccountingStatement,
    Charge,
    MechanismStatement,
    PrivacyReport,
    Subject,
    VerifiedStatement,
)

NAME: Final = "privacy-check"
VERSION: Final = "1"

LIMITS: Final = (
    "Partition models bound linkage under fixed knowledge of an attacker only.",
    "Composition of several tables, minimality, deFinetti and background knowledge attacks are out "
    "of scope.",
    "Satisfaction is a property of one table, not of the method that made it.",
)


def privacy_report(params: Parameters, *, attached: bool) -> PrivacyReport:
    """The same for every table. `attached`: there is an answer for the owner."""
    return PrivacyReport(
        subject=Subject(kind="job", id="", algorithm=NAME, version=VERSION),
        stance="sound",
        mechanism=MechanismStatement(
            name="check of a table",
            parameters={"models": [model.model for model in params.models]},
        ),
        privacy_unit=None,
        neighbouring=None,
        verified=(
            VerifiedStatement(
                scenario="recipient",
                description="whoever reads the published part",
                model="none",
                epsilon=None,
                delta=None,
                reason="nothing about the table is released: the answer is computed from raw or "
                "candidate rows and stays with their owner",
            ),
        ),
        charged=Charge(ledger="none"),
        accounting=AccountingStatement(
            method="none: nothing is released",
            library="tacit algorithms.privacy_check",
            version=VERSION,
        ),
        public_parameters=("every parameter of the job",),
        not_protected=("The answer itself: it names groups and values of the table.",),
        voided_by=("publishing the answer",),
        caveats=LIMITS,
        evaluation_attached=attached,
    )
