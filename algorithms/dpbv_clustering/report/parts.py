"""What the reports of all methods of dpbv-clustering are made of.

Spec: dpbv-clustering, sections 4 and 9; jobs, "Privacy report". Nothing here depends on the data;
where the bounds were taken from the data, no figure is stated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from algorithms.contract import Stance
from tacit.encoders.dpbv_clustering.encoder import Flip
from tacit.report.builder import NOTHING_HOLDS, ReportBuilder, pure_dp
from tacit.report.figures import amount, delta_amount, epsilon_amount
from tacit.report.model import (
    Charge,
    Neighbouring,
    NoiseStatement,
    PrivacyReport,
    VerifiedStatement,
)

NAME: Final = "dpbv-clustering"
SCENARIO: Final = "recipient"
ROWS_ARE_PUBLIC: Final = "the number of rows"
OUTSIDE: Final = Charge(ledger="dataset", privacy_unit="record", outside_budget=True)
BUILDER: Final = ReportBuilder(
    NAME, "tacit tacit.accounting.randomised_response", "sound", "record", "any-two-values"
)

_ASSUMPTIONS: Final = (
    "one release per record: what each release loses adds up",
    "a record is one row: a person with several rows is protected that many times less",
    "coins and noise come from a generator that nobody can predict",
)


@dataclass(frozen=True)
class Released:
    """What the lines of a report state about a release. epsilon None: infinite."""

    lines: tuple[VerifiedStatement, ...]
    epsilon: Fraction | None
    delta: Fraction = Fraction(0)

    @property
    def charge(self) -> Charge:
        """What the data set's ledger is charged for a record."""
        return Charge(
            ledger="dataset",
            privacy_unit="record",
            epsilon=epsilon_amount(self.epsilon),
            delta=delta_amount(self.delta),
        )


def nothing(reason: str) -> Released:
    """Of what protects nobody."""
    line = BUILDER.line(SCENARIO, None, NOTHING_HOLDS, reason=reason)
    return Released((line,), None, Fraction(1))


def pure_line(
    epsilon: Fraction, neighbouring: Neighbouring = "any-two-values", *conditions: str
) -> VerifiedStatement:
    """A record's line with delta 0."""
    return BUILDER.line(
        SCENARIO, None, pure_dp(epsilon), neighbouring=neighbouring, conditions=conditions
    )


def coin(flip: Flip | None, part: str) -> NoiseStatement:
    """A coin per bit; None is a fair one."""
    probability = Fraction(1, 2) if flip is None else flip.probability
    return NoiseStatement(
        layer="bit",
        part=part,
        distribution="randomised-response",
        probability=amount(probability),
    )


def assembled(
    stance: Stance,
    mechanism: str,
    parameters: dict[str, Any],
    released: Released,
    *,
    reproducible: bool,
    evaluation: bool,
    neighbouring: Neighbouring = "any-two-values",
    sampler: Fraction = Fraction(0),
    **fields: Any,
) -> PrivacyReport:
    """A report of these parts; a seeded generator voids it. `fields`: others of a report."""
    seeded = ("the generator is seeded: the output can be repeated, hence nothing is private",)
    unit = released.lines[0].privacy_unit
    builder = replace(BUILDER, stance=stance, unit=unit, neighbouring=neighbouring)
    return builder.report(
        mechanism,
        parameters,
        verified=released.lines,
        charged=OUTSIDE if builder.paper or reproducible else released.charge,
        sampler_delta=delta_amount(sampler),
        sampler_epsilon="0",
        method="exact profile of independent randomised responses; closed forms otherwise; rounded "
        "up",
        post_processing=("distances, labels, centres and plots are made of the release",),
        not_protected=("that a record is in the data",) if neighbouring == "any-two-values" else (),
        voided_by=seeded if reproducible else (),
        assumptions=_ASSUMPTIONS,
        reproducible=reproducible,
        evaluation_attached=evaluation,
        **fields,
    )
