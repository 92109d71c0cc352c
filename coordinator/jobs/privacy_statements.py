"""A job's privacy report: the algorithm's own, with what only the coordinator knows.

Spec: jobs, "Privacy report": its subject, the charge to the ledger, earlier releases outside the
budget, and the effect of a seed. For a federated job: the statements of its rounds, composed; every
curator's own ledger is charged, round by round (spec: budget, section 5).

What a job costs its dataset: the verified figure for the dataset's unit, or none at all.

Spec: jobs, "A dataset's ledger". Everything here is known before any data is touched.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final, Literal

from coordinator.errors import UnitNotProtected
from coordinator.store.jobs import JobRow
from tacit.accounting.amounts import (
    MICRO,
    ROUNDED,
    Cost,
    EpsilonDelta,
    epsilon_delta,
    format_amount,
    format_micro,
)
from tacit.accounting.charges import job_costs
from tacit.accounting.scenarios import Scenario
from tacit.query.query import Query
from tacit.query.terms import PrivacyUnit
from tacit.report.figures import delta_amount, epsilon_amount
from tacit.report.model import Charge, PrivacyReport, VerifiedStatement
from tacit.wire import WireModel

PAPER = "stance paper: no figure of it is charged"
SEEDED = "the seed is known, so the output can be repeated and nothing is private"
UNVERIFIED = "the algorithm has no verified figure"


class Price(WireModel):
    """`budget`: (epsilon in 10^-6, delta in 10^-15) of the dataset's unit; `outside`: why no
    figure covers the release; `free`: nothing is released."""

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
    statement = stated(report, unit)
    return Price(kind="budget", **asdict(statement.amount))


def stated(report: PrivacyReport, unit: str | None) -> Stated:
    """The line for this unit under the report's relation, else under add/remove.

    A report can have a pure and an approximate line, both valid: the one by which the algorithm
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
    charged: EpsilonDelta,
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


def _charge(price: Price, unit: str | None, charged: EpsilonDelta) -> Charge:
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
        reason="anyone who knows the seed can repeat every draw",
    )


# Every curator's own ledger is charged, round by round; the coordinator's ledger of rounds covers
# the job, which has no separate one. Lines of one scenario add up (basic composition, which holds
# when a later sum depends on an earlier result).
#
# Spec: jobs, "Privacy report"; budget, section 5.

FEDERATED_TRUST: Final = (
    "The coordinator holds no raw data: it sees noisy sums only, and curators bound what they add "
    "themselves.",
    "Curators are trusted with being correct: a vector is not proved to come from real records.",
)
LOCAL_TRUST: Final = "The coordinator sees noisy reports only: each curator perturbs its own rows."
WHO_REPORTS: Final = (
    "which curators have rows of the asked columns, or readings in the asked hours and window, and "
    "how many rows: it shows in the reports that they send"
)
NOT_PROTECTED: Final = "which curators participate in a round, and whether a round met its quorum"


FEWER: Final = (
    "a later round had fewer than 98 % of the curators of the first one: its counts are lower by "
    "about that share, and are not rescaled"
)
TIMED_ONLY: Final = (
    "records count whose time lies in the window; a record without a time lies in no window, so a "
    "curator that has only such adds zeros and pays as the others do: its owner alone can see that"
)
_MOST_MISSING: Final = Fraction(98, 100)


def completed(
    report: PrivacyReport,
    job_id: str,
    rounds: Sequence[PrivacyReport],
    whole: PrivacyReport | None = None,
    *,
    timed_only: bool = False,
    participants: Sequence[int] = (),
    **details: Any,
) -> PrivacyReport:
    """An algorithm's report with the verified figures and charges of its rounds; whole: the
    statement of all rounds of a job that is debited once; timed_only: records count by their time;
    participants: in each round that was released, none before."""
    if participants:
        details["participants"] = list(participants)
    fewer = any(count < _MOST_MISSING * participants[0] for count in participants)
    true_sentences = [
        sentence for sentence, true in ((TIMED_ONLY, timed_only), (FEWER, fewer)) if true
    ]
    changes: dict[str, Any] = {
        "subject": report.subject.model_copy(update={"id": job_id, "dataset": None}),
        "assumptions": tuple(dict.fromkeys((*report.assumptions, *FEDERATED_TRUST))),
        "not_protected": (*report.not_protected, NOT_PROTECTED),
        "details": {**report.details, **details},
    }
    last = rounds[-1]
    changes |= {
        "verified": added(rounds) if whole is None else whole.verified,
        "neighbouring": last.neighbouring,
        "charged": _charges(rounds) if whole is None else whole.charged,
        "noise": tuple(item for one in rounds for item in one.noise),
        "sensitivity": tuple(item for one in rounds for item in one.sensitivity),
        "validity": last.validity,
        "sampler_delta": delta_amount(
            sum((Fraction(one.sampler_delta or "0") for one in rounds), Fraction(0))
        ),
        "assumptions": tuple(dict.fromkeys((*changes["assumptions"], *last.assumptions))),
        "caveats": tuple(dict.fromkeys((*report.caveats, *last.caveats, *true_sentences))),
        "not_protected": tuple(dict.fromkeys((*changes["not_protected"], *last.not_protected))),
    }
    return PrivacyReport.model_validate_json(report.model_copy(update=changes).model_dump_json())


def local(report: PrivacyReport, job_id: str, **details: Any) -> PrivacyReport:
    """The report of a job whose curators sent perturbed reports."""
    changes = {
        "subject": report.subject.model_copy(update={"id": job_id, "dataset": None}),
        "assumptions": (*report.assumptions, LOCAL_TRUST),
        "not_protected": (*report.not_protected, WHO_REPORTS),
        "details": {**report.details, **details},
    }
    if report.charged is not None:
        changes["charged"] = report.charged.model_copy(update={"ledger": "curators"})
    return PrivacyReport.model_validate_json(report.model_copy(update=changes).model_dump_json())


def foreseen(first: PrivacyReport, epsilon: Fraction, sums: int) -> PrivacyReport:
    """The predicted statement of all rounds, of `epsilon` in total, from that of the first
    query: a round's guarantee is proportional to its epsilon."""
    charged = first.charged
    assert charged is not None
    assert charged.epsilon is not None
    own_epsilon = None if charged.epsilon == "inf" else Fraction(charged.epsilon)
    factor = epsilon / own_epsilon if own_epsilon else Fraction(1)

    def epsilons(amount: str | None) -> str | None:
        return amount if amount in (None, "inf") else epsilon_amount(Fraction(amount) * factor)

    def deltas(amount: str | None) -> str | None:
        return None if amount is None else delta_amount(min(Fraction(amount) * sums, Fraction(1)))

    lines = tuple(
        line.model_copy(
            update={
                "epsilon": epsilons(line.epsilon),
                "delta": deltas(line.delta),
                "clamp_delta": deltas(line.clamp_delta),
                "curve": (),
            }
        )
        for line in first.verified
    )
    changed = charged.model_copy(
        update={
            "epsilon": epsilons(charged.epsilon),
            "delta": deltas(charged.delta),
            "epsilon_all_corrupt": epsilons(charged.epsilon_all_corrupt),
            "delta_all_corrupt": deltas(charged.delta_all_corrupt),
        }
    )
    return first.model_copy(update={"verified": lines, "charged": changed})


def under_one_debit(
    first: PrivacyReport, query: Query, epsilon: Fraction, operators: Sequence[str] | None
) -> PrivacyReport:
    """The statement of all rounds of a job that is debited once, from that of its first round:
    no record spends more than `epsilon`, whatever the later rounds ask. Only pure figures are
    stated."""
    costs = job_costs(query, epsilon, operators)
    lines = tuple(_of_job(line, costs) for line in first.verified)
    assert first.charged is not None
    unit = query.privacy_unit
    charged = first.charged.model_copy(
        update={
            "epsilon": epsilon_amount(costs[unit, Scenario.ASSUMED].epsilon),
            "delta": delta_amount(costs[unit, Scenario.ASSUMED].delta),
            "epsilon_all_corrupt": epsilon_amount(costs[unit, Scenario.EVERYONE].epsilon),
            "delta_all_corrupt": delta_amount(costs[unit, Scenario.EVERYONE].delta),
        }
    )
    return first.model_copy(update={"verified": lines, "charged": charged})


def _of_job(
    line: VerifiedStatement, costs: Mapping[tuple[PrivacyUnit, Scenario], Cost]
) -> VerifiedStatement:
    """A round's line as one of the job."""
    cost = costs[PrivacyUnit(str(line.privacy_unit)), Scenario(str(line.key))]
    is_bounded = cost.epsilon is not None
    changes: dict[str, Any] = {
        "model": "pure-dp" if is_bounded else "none",
        "epsilon": epsilon_amount(cost.epsilon),
        "delta": delta_amount(cost.delta),
        "curve": (),
    }
    if not is_bounded and line.reason is None:
        changes["reason"] = "the one debit of a job states pure figures only"
    return line.model_copy(update=changes)


def added(rounds: Sequence[PrivacyReport]) -> tuple[VerifiedStatement, ...]:
    """The lines of each scenario over all rounds."""
    by_key: dict[tuple[str, str | None], list[VerifiedStatement]] = {}
    for report in rounds:
        for line in report.verified:
            by_key.setdefault((line.scenario, line.key), []).append(line)
    return tuple(_sum(lines) for lines in by_key.values() if len(lines) == len(rounds))


def _sum(lines: Sequence[VerifiedStatement]) -> VerifiedStatement:
    epsilon, delta = _total([line.epsilon for line in lines]), _total([x.delta for x in lines])
    if epsilon is None or delta is None or delta >= 1:
        return next((line for line in lines if line.epsilon == "inf"), lines[-1])
    return lines[-1].model_copy(
        update={
            "model": "pure-dp" if delta == 0 else "approximate-dp",
            "epsilon": epsilon_amount(epsilon),
            "delta": delta_amount(delta),
            "clamp_delta": _clamped(lines),
            "curve": (),
        }
    )


def _clamped(lines: Sequence[VerifiedStatement]) -> str | None:
    """What clamping adds to delta in all rounds; None if no noise is clamped."""
    added = [Fraction(line.clamp_delta) for line in lines if line.clamp_delta is not None]
    return delta_amount(min(sum(added, Fraction(0)), Fraction(1))) if added else None


def _charges(rounds: Sequence[PrivacyReport]) -> Charge | None:
    charges = [report.charged for report in rounds if report.charged is not None]
    if not charges:
        return None

    def total(name: str, shown: Any) -> str:
        amount = _total([getattr(charge, name) for charge in charges])
        if amount is None:
            return "inf" if name.startswith("epsilon") else "1"
        return str(shown(amount))

    return charges[-1].model_copy(
        update={
            "epsilon": total("epsilon", epsilon_amount),
            "delta": total("delta", delta_amount),
            "epsilon_all_corrupt": total("epsilon_all_corrupt", epsilon_amount),
            "delta_all_corrupt": total("delta_all_corrupt", delta_amount),
        }
    )


def _total(amounts: Sequence[str | None]) -> Fraction | None:
    """None: infinite, or no statement."""
    if any(amount in (None, "inf") for amount in amounts):
        return None
    return sum((Fraction(amount) for amount in amounts if amount is not None), Fraction(0))
