"""What the reports of all methods of dpbv-clustering are made of.

Spec: dpbv-clustering, sections 4 and 9; jobs, "Privacy report". Nothing here depends on the data;
where the bounds were taken from the data, no figure is stated.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import Stance
from common.encoders.dpbv_clustering import Flip
from common.models.report import (
    AccountingStatement,
    Charge,
    Claim,
    MechanismStatement,
    NoiseStatement,
    PrivacyReport,
    SensitivityStatement,
    Subject,
    VerifiedStatement,
)
from common.report.figures import amount, delta_amount, epsilon_amount

VERSION: Final = "1"
NAME: Final = "dpbv-clustering"
SCENARIO: Final = "recipient"
ROWS_ARE_PUBLIC: Final = "the number of rows"
OUTSIDE: Final = Charge(ledger="dataset", privacy_unit="record", outside_budget=True)

_ASSUMPTIONS: Final = (
    "one release per record: what an earlier release lost adds up",
    "a record is one row: a person with several rows is protected that many times less",
    "coins and noise come from a generator that nobody can predict",
)


@dataclass(frozen=True)
class Released:
    """What the lines of a report say of a release. epsilon None: infinite."""

    lines: tuple[VerifiedStatement, ...]
    epsilon: Fraction | None
    delta: Fraction


def nothing(reason: str) -> Released:
    """Of what protects nobody."""
    line = VerifiedStatement(
        scenario=SCENARIO,
        key=SCENARIO,
        model="none",
        privacy_unit="record",
        neighbouring="any-two-values",
        epsilon="inf",
        delta="1",
        reason=reason,
    )
    return Released((line,), None, Fraction(1))


def pure_line(
    neighbouring: str, epsilon: Fraction, conditions: tuple[str, ...]
) -> VerifiedStatement:
    """A record's line with delta 0."""
    return VerifiedStatement.model_validate(
        {
            "scenario": SCENARIO,
            "key": SCENARIO,
            "model": "pure-dp",
            "privacy_unit": "record",
            "neighbouring": neighbouring,
            "epsilon": epsilon_amount(epsilon),
            "delta": "0",
            "conditions": conditions,
        }
    )


def coin(flip: Flip | None, part: str) -> NoiseStatement:
    """A coin per bit; None is a fair one."""
    probability = Fraction(1, 2) if flip is None else flip.probability
    return NoiseStatement(
        layer="bit",
        part=part,
        distribution="randomised-response",
        probability=amount(probability) if probability else "0",
    )


def charge_of(released: Released) -> Charge:
    """What the data set's ledger is charged for a record."""
    return Charge(
        ledger="dataset",
        privacy_unit="record",
        epsilon=epsilon_amount(released.epsilon),
        delta=delta_amount(released.delta),
    )


def assembled(
    stance: Stance,
    mechanism: MechanismStatement,
    released: Released,
    *,
    details: dict[str, Any],
    public_parameters: tuple[str, ...],
    reproducible: bool,
    evaluation: bool,
    charged: Charge,
    neighbouring: str = "any-two-values",
    claimed: Claim | None = None,
    sensitivity: tuple[SensitivityStatement, ...] = (),
    noise: tuple[NoiseStatement, ...] = (),
    sampler: Fraction = Fraction(0),
    source_defects: tuple[str, ...] = (),
    error: dict[str, Any] | None = None,
) -> PrivacyReport:
    """A report of these parts; a seeded generator voids it."""
    voided = (
        ("the generator is seeded: the output can be repeated, hence nothing is private",)
        if reproducible
        else ()
    )
    return PrivacyReport.model_validate(
        {
            "subject": Subject(kind="job", id="", algorithm=NAME, version=VERSION),
            "stance": stance,
            "mechanism": mechanism,
            "privacy_unit": released.lines[0].privacy_unit,
            "neighbouring": neighbouring,
            "sensitivity": sensitivity,
            "claimed": claimed,
            "verified": released.lines,
            "charged": charged if not reproducible else OUTSIDE,
            "noise": noise,
            "sampler_delta": delta_amount(sampler),
            "sampler_epsilon": "0",
            "accounting": AccountingStatement(
                method="exact profile of independent randomised responses; closed forms otherwise; "
                "rounded up",
                library="tacit common.accounting.randomised_response",
                version=VERSION,
            ),
            "public_parameters": public_parameters,
            "post_processing": ("distances, labels, centres and plots are made of the release",),
            "not_protected": ("that a record is in the data",)
            if neighbouring == "any-two-values"
            else (),
            "source_defects": source_defects,
            "voided_by": voided,
            "assumptions": _ASSUMPTIONS,
            "reproducible": reproducible,
            "evaluation_attached": evaluation,
            "error": error,
            "details": details,
        }
    )
