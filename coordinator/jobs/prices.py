"""What a job costs its dataset: the verified figure for the dataset's unit, or none at all.

Spec: jobs, "A dataset's ledger". Everything here is known before any data is touched.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Literal

from coordinator.errors import UnitNotProtected
from coordinator.store.jobs import JobRow
from tacit.accounting.amounts import Cost, EpsilonDelta, epsilon_delta
from tacit.report.model import PrivacyReport, VerifiedStatement
from tacit.wire import WireModel

PAPER = "stance paper: no figure of it is charged"
SEEDED = "the seed is known, so the output can be repeated and nothing is private"
UNVERIFIED = "the algorithm has no verified figure"


class Price(WireModel):
    """`budget`: (epsilon in 10^-6, delta in 10^-15) of the dataset's unit; `outside`: why no figure
    covers the release; `free`: nothing is released."""

    kind: Literal["budget", "outside", "free"]
    epsilon: int = 0
    delta: int = 0
    reason: str | None = None

    @property
    def amount(self) -> EpsilonDelta:
        """In the ledger's units."""
        return EpsilonDelta(self.epsilon, self.delta)


@dataclass(frozen=True, slots=True)
class Stated:
    """The line of a report by which a ledger is charged, as scaled integers."""

    line: VerifiedStatement
    amount: EpsilonDelta


def price_of(report: PrivacyReport, unit: str | None, *, seeded: bool) -> Price:
    """What a job with this report costs a dataset with this unit. Raises UnitNotProtected."""
    charged = report.charged
    if charged is not None and charged.ledger == "none" and not charged.outside_budget:
        return Price(kind="free")
    if report.stance == "paper":
        return Price(kind="outside", reason=PAPER)
    if seeded:
        return Price(kind="outside", reason=SEEDED)
    if charged is None or charged.outside_budget:
        return Price(kind="outside", reason=UNVERIFIED)
    found = stated(report, unit)
    return Price(kind="budget", **asdict(found.amount))


def stated(report: PrivacyReport, unit: str | None) -> Stated:
    """The line for this unit under the report's relation, else under add/remove.

    A report may have a pure and an approximate line that both hold: the one by which the algorithm
    charges is used. Raises UnitNotProtected if no line has finite figures.
    """
    lines = []
    for line in report.verified:
        amount = _amount(line)
        if line.privacy_unit == unit and unit is not None and amount is not None:
            lines.append(Stated(line, amount))
    charged = report.charged

    def rank(item: Stated) -> tuple[bool, bool, bool]:
        line = item.line
        named = charged is not None and charged.privacy_unit == unit
        same = charged is not None and (line.epsilon, line.delta) == (
            charged.epsilon,
            charged.delta,
        )
        return (
            not (named and same),
            line.neighbouring != report.neighbouring,
            (line.neighbouring != "add-remove"),
        )

    if not lines:
        raise UnitNotProtected(
            "the report has no verified line for the dataset's unit of privacy",
            pointer="/dataset",
            extra={
                "privacy_unit": unit,
                "protected": sorted({str(line.privacy_unit) for line in report.verified}),
            },
        )
    return min(lines, key=rank)


def _amount(line: VerifiedStatement) -> EpsilonDelta | None:
    if line.epsilon in (None, "inf") or line.delta is None:
        return None
    return epsilon_delta(Cost(Fraction(line.epsilon), Fraction(line.delta)))


def spent(row: JobRow) -> EpsilonDelta | None:
    """What the ledger charges for a job; None if it holds no figure."""
    price = Price.model_validate_json(row.price)
    if price.kind != "budget" or not row.charged:
        return None
    credited = json.loads(row.credited) if row.credited else {"epsilon": 0, "delta": 0}
    return EpsilonDelta(price.epsilon - credited["epsilon"], price.delta - credited["delta"])
