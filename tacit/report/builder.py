"""The builder of the reports of jobs: what follows from a stance and a relation is stated here.

An algorithm names its stance and its relation (privacy unit and neighbouring data) once; lines,
charge, noise and caveats follow, and the sentences that several algorithms need are below. `sound`
draws whole numbers and states figures; `paper` draws in floating point, states none and lies
outside the budget.

Spec: jobs, "Privacy report".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypedDict

from tacit.report.figures import ACCOUNTING_VERSION, amount, delta_amount, epsilon_amount, short
from tacit.report.model import (
    AccountingStatement,
    Charge,
    MechanismStatement,
    Model,
    Neighbouring,
    NoiseStatement,
    PrivacyReport,
    Stance,
    Subject,
    Unit,
    VerifiedStatement,
)

VERSION: Final = "1"
"""Of every algorithm, so far."""

RECIPIENT: Final = "anyone who reads the result"
FLOATING: Final = (
    "floating-point Laplace: epsilon-DP holds in real arithmetic only, and the low bits of a "
    "double can show what a count was not. No figure is stated."
)
ONE_RELEASE: Final = "This is one release: other releases from the same data add up."
NOT_VERIFIED: Final = "Stance paper: floating-point noise; nothing is verified."
OUTSIDE_BUDGET: Final = "This release lies outside the budget of its data set."
ADD_SAMPLER_DELTA: Final = (
    "To the delta of every line add sampler_delta, for draws not quite exact."
)
"""In a report its value follows: `ReportBuilder.report`."""
OPERATORS_EVALUATION: Final = (
    "An evaluation against the true data is attached for the operator's eyes only"
)
EVALUATED: Final = f"{OPERATORS_EVALUATION}; it is not differentially private."
NOISE_SOURCE: Final = "The noise comes from a secret random source."
RUN_TIME_UNSEEN: Final = "Nobody who is not trusted sees how long the run takes."
FOR_SUBMITTER: Final = "Run time, memory and progress are for the submitter."


class Figures(TypedDict):
    """The figures of a claim or a verified line: its model, epsilon and delta."""

    model: Model
    epsilon: str | None
    delta: str | None


NOTHING_HOLDS: Final[Figures] = {"model": "none", "epsilon": "inf", "delta": "1"}
NO_FIGURE: Final[Figures] = {"model": "none", "epsilon": None, "delta": None}


def pure_dp(epsilon: Fraction | None) -> Figures:
    """Epsilon-differential privacy; None is infinite."""
    return {"model": "pure-dp", "epsilon": epsilon_amount(epsilon), "delta": "0"}


def voided_by(*further: str) -> tuple[str, ...]:
    """What would make the lines of a job with noise false, including `further`."""
    return (
        "a seed given: the noise can be repeated",
        *further,
        "the evaluation published",
    )


@dataclass(frozen=True)
class ReportBuilder:
    """Makes the report of a job of `algorithm` in a `stance`, and its statements.

    `unit` and `neighbouring`: the relation of two data sets to which its figures apply, None if
    there is none; `library`: the module that computes them.
    """

    algorithm: str
    library: str
    stance: Stance
    unit: Unit | None
    neighbouring: Neighbouring | None = "add-remove"

    @property
    def paper(self) -> bool:
        """Whether no figure is stated."""
        return self.stance == "paper"

    def report(
        self,
        mechanism: str,
        parameters: dict[str, Any],
        *,
        method: str,
        sampler: Fraction | None = None,
        **fields: Any,
    ) -> PrivacyReport:
        """The report of these parts; the service that runs the job fills in its id and data set.

        `method`: of the accounting; `sampler`: what imperfect draws add to every delta, stated with
        the figures; `fields`: any others of PrivacyReport. Raises pydantic's ValidationError for a
        field that it does not have.
        """
        stated = None if self.paper or sampler is None else amount(min(sampler, Fraction(1)))
        followed = {
            "subject": Subject(kind="job", id="", algorithm=self.algorithm, version=VERSION),
            "stance": self.stance,
            "mechanism": MechanismStatement(name=mechanism, parameters=parameters),
            "privacy_unit": self.unit,
            "neighbouring": self.neighbouring,
            "sampler_delta": stated,
            "sampler_epsilon": None if stated is None else "0",
            "accounting": AccountingStatement(
                method=method, library=self.library, version=ACCOUNTING_VERSION
            ),
        }
        content = followed | fields
        if content["sampler_delta"] is not None:
            valued = ADD_SAMPLER_DELTA.replace(",", f", {short(content['sampler_delta'])},", 1)
            content["caveats"] = tuple(
                valued if caveat == ADD_SAMPLER_DELTA else caveat
                for caveat in content.get("caveats", ())
            )
        return PrivacyReport.model_validate(content)

    def line(
        self, key: str | None, description: str | None, figures: Figures, **fields: Any
    ) -> VerifiedStatement:
        """The guarantee in this relation against everyone who reads the result; `fields`: any
        others of VerifiedStatement, also in place of the relation's."""
        followed = {
            "scenario": "recipient",
            "key": key,
            "description": description,
            "privacy_unit": self.unit,
            "neighbouring": self.neighbouring,
        }
        return VerifiedStatement.model_validate(followed | figures | fields)

    def laplace_line(
        self,
        key: str,
        change: str,
        epsilon: Fraction,
        reason: str | None = None,
        floating: str = FLOATING,
        **fields: Any,
    ) -> VerifiedStatement:
        """What Laplace noise hides about a `change` (in words), with delta 0; `paper` has no
        figure, and `floating` is the reason."""
        return self.line(
            key,
            f"{RECIPIENT}; {change}",
            NO_FIGURE if self.paper else pure_dp(epsilon),
            reason=floating if self.paper else reason,
            **fields,
        )

    def neighbour_lines(
        self,
        epsilon: Fraction,
        added: str,
        replaced: str,
        why: str = "a removal and an addition",
        **fields: Any,
    ) -> tuple[VerifiedStatement, ...]:
        """The guarantee if one unit is `added` (in words) or removed, and, at twice epsilon and
        `why`, if one is `replaced`."""
        swapped = {**fields, "neighbouring": "replace"}
        return (
            self.laplace_line("a", added, epsilon, **fields),
            self.laplace_line("b", replaced, 2 * epsilon, why, **swapped),
        )

    def charge(
        self,
        epsilon: Fraction = Fraction(0),
        delta: Fraction = Fraction(0),
        reserved: Fraction | None = None,
    ) -> Charge:
        """What the data set's ledger is charged for one unit: no figure in `paper`. `reserved`
        before the run: the same epsilon unless another is given."""
        if self.paper:
            return Charge(ledger="dataset", privacy_unit=self.unit, outside_budget=True)
        return Charge(
            ledger="dataset",
            privacy_unit=self.unit,
            epsilon=epsilon_amount(epsilon),
            delta=delta_amount(delta),
            reserved=epsilon_amount(epsilon if reserved is None else reserved),
        )

    def noise(
        self, part: str | None, scale: Fraction | None, law: str = "Laplace", **fields: Any
    ) -> NoiseStatement:
        """The noise of each number of a part, by one draw of the coordinator; scale None: not
        yet known."""
        followed = {
            "layer": "coordinator",
            "distribution": law if self.paper else f"discrete {law}",
            "part": part,
            "scale": None if scale is None else amount(scale),
            "weight": "1",
            "draws": 1,
            "sampler": "float" if self.paper else "exact-integer",
        }
        return NoiseStatement.model_validate(followed | fields)

    def caveats(self, *further: str, evaluated: bool) -> tuple[str, ...]:
        """What a reader of the lines must know; `further` comes before the caveat about an
        evaluation."""
        stance = (NOT_VERIFIED, OUTSIDE_BUDGET) if self.paper else (ADD_SAMPLER_DELTA,)
        return (ONE_RELEASE, *stance, *further, *((EVALUATED,) if evaluated else ()))
