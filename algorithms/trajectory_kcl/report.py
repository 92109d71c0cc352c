"""The privacy report of a (K,C)_L job. Spec: trajectory-kcl, sections 4 and 9.

It says first what the model is not: a syntactic property of one table, no differential privacy.
"""

from __future__ import annotations

from typing import Any, Final

from algorithms.contract import Stance, by_error, with_verdict, without_verdict
from algorithms.trajectory_kcl.checker import Verdict
from algorithms.trajectory_kcl.parameters import Parameters
from tacit.report.builder import (
    NOTHING_HOLDS,
    OPERATORS_EVALUATION,
    RECIPIENT,
    Figures,
    ReportBuilder,
)
from tacit.report.figures import amount
from tacit.report.model import Charge, Claim, PrivacyReport, VerifiedStatement
from tacit.wire import format_exact

NAME: Final = "trajectory-kcl"
SYNTACTIC: Final[Figures] = {"model": "syntactic", "epsilon": None, "delta": None}

NOT_PROTECTED: Final = (
    "More than L pairs: anyone who knows more may find one record alone.",
    "Absence and whole paths: 'was here and there, never at that place' may fit one record alone.",
    "Values that sensitive_values does not list: their confidence is unbounded.",
    "Other locations: what the records of a known sequence share besides is told with certainty.",
    "Suppressed sequences: for one that no longer occurs nothing is promised, though the person is "
    "in the table.",
    "Minimality: a suppressed pair tells that a support was below K or a confidence above C.",
    "Composition: two tables that both satisfy the model may tell everything together.",
    "Skew: C bounds what is believed afterwards, not the step from what was believed before.",
    "Membership: that someone is in the table.",
    "Relational quasi-identifiers, and inference from maps, timetables and other outside sources.",
)
DEFECTS: Final = (
    "B1: Algorithm 5.1 prunes against the level before alone; from L = 4 on it returns sequences "
    "that are not minimal.",
    "B2: Algorithm 5.3 counts as gained only sequences with the same records, not those with "
    "fewer, which vanish too.",
    "B3: Algorithm 5.2 (Theorem 5.4) is wrong from L = 3 on: it deletes the members of longer "
    "sequences one by one and never tests shorter sequences with the pair. Of a1a2a3, a1a3, a2a3, "
    "a1a2a4 with K = 2 it leaves a1a2 and a1a3 with one record each.",
    "B4: Algorithm 5.3 refreshes too few scores: an operation that was valid may no longer be, at "
    "L = 2 already (a2a4, a1a4, a1a2a4, a2a3a4, a3, a2a3 with K = 2).",
    "Theorem 5.2: the reduction runs in the wrong direction; hardness is shown for global "
    "suppression of the fewest pairs only.",
    "K-anonymity, l-diversity and confidence bounding are not special cases as stated: the model "
    "counts records that contain a sequence, not records equal to it.",
)
CAVEATS: Final = (
    "NOT DIFFERENTIALLY PRIVATE: (K,C)_L is a syntactic property of this one table. No parameter "
    "makes it more. Where synthetic or aggregate data would do, prefer sequential-prefix-tree or "
    "sequential-ngram, or noisy counts over (cell, slot).",
    "This release is outside the budget of its data set; later accounting says nothing about "
    "what is released here.",
)
LOCAL: Final = (
    "Forecast of method local: it omits less than global where many records share their routes: on "
    "80,000 generated records of 300 routes 0.4 % of the pairs, global 85 %, at K = 30. Where they "
    "share few, both omit about as much, on 3,079 real trajectories of check-ins 63 % at K = 10 "
    "and 86 % at K = 30, and local takes longer, on as many generated check-ins two to six times, "
    "without numba more. None of these figures comes from this data set."
)
ASSUMPTIONS: Final = (
    "An attacker knows at most L pairs of a person, all of them present and exact.",
    "An attacker knows neither how the table was made nor other releases from the same data.",
    "A person has one record.",
    "The coordinator keeps the records and is trusted with them.",
)


def privacy_report(
    params: Parameters,
    stance: Stance,
    verdict: Verdict | None = None,
    suppressed: dict[str, int] | None = None,
    loss: float = 0.0,
) -> PrivacyReport:
    """The report of a run; without verdict and counts, of one that is planned. loss: share of the
    instances that were suppressed, published with the result."""
    corrections = ["B1", "B2", "B3", "B4"] if stance == "sound" else []
    details: dict[str, Any] = {
        "not_differentially_private": True,
        "claimed": _claimed(params),
        "algorithm": {
            "method": params.method,
            "stance": stance,
            "utility": params.utility,
            "corrections": corrections,
        },
        "alternatives": ["DP sequential release", "DP counts over (cell, slot)"],
        "trust": "trusted service: the coordinator holds the records",
    }
    if stance == "paper":
        details["paper_stance"] = "literal algorithm; guarantee only if violating_left = 0"
    if verdict is not None:
        details["verification"] = verification(verdict, params)
        details["suppressed"] = suppressed or {}
    caveats: tuple[str, ...] = CAVEATS
    if params.method == "local":
        caveats += (LOCAL,)
    if params.evaluate is not False:
        caveats += (f"{OPERATORS_EVALUATION}.",)
    builder = ReportBuilder(NAME, "tacit algorithms.trajectory_kcl", stance, "record", None)
    return builder.report(
        "local and global suppression" if params.method == "local" else "global suppression",
        {
            "K": params.K,
            "C": format_exact(params.C),
            "L": params.L,
            "utility": params.utility,
            "empty_paths": params.empty_paths,
        },
        claimed=Claim(
            **SYNTACTIC,
            theorem="Chen's thesis, chapter 5, Definition 5.1, Theorems 5.1, 5.3 and 5.4",
            text="(K,C)_L-privacy: identity linkage succeeds with probability at most 1/K, "
            "attribute linkage with at most C, for who knows at most L pairs",
        ),
        verified=(_verified(params, builder, verdict),),
        charged=Charge(ledger="dataset", privacy_unit="record", outside_budget=True),
        method="independent enumeration of all sequences of the published table",
        public_parameters=("every parameter of the job",),
        post_processing=("record ids are removed; rows are shuffled with secret randomness",),
        not_protected=NOT_PROTECTED,
        source_defects=DEFECTS,
        voided_by=("another release from the same or overlapping records",),
        assumptions=ASSUMPTIONS,
        caveats=caveats,
        evaluation_attached=verdict is not None and params.evaluate is not False,
        error=None if stance == "paper" else _error(loss if verdict is not None else None),
        details=details,
    )


def _error(loss: float | None) -> dict[str, Any]:
    """Nothing is noisy: what is published is true, and what is suppressed is missing."""
    if loss is None:
        return without_verdict({}, "what is suppressed depends on the data; nothing is noisy")
    if loss == 1:
        return with_verdict({}, "noise", "everything was suppressed")
    return with_verdict({}, by_error(loss), f"{loss:.2g} of all instances were suppressed")


def verification(verdict: Verdict, params: Parameters) -> dict[str, Any]:
    """The result of the independent check."""
    return {
        "checker": "independent enumeration",
        "max_len_checked": params.L,
        "longest_sequence": verdict.length,
        "sequences": verdict.sequences,
        "violating_left": verdict.violating,
        "min_group": verdict.smallest,
        "max_confidence": None if verdict.confidence is None else amount(verdict.confidence),
    }


def _claimed(params: Parameters) -> dict[str, Any]:
    return {
        "model": "(K,C)_L-privacy",
        "K": params.K,
        "C": format_exact(params.C),
        "L": params.L,
        "sensitive_values": [list(sensitive_value) for sensitive_value in params.sensitive_values],
        "linkage_bounds": {"identity": f"1/{params.K}", "attribute": format_exact(params.C)},
    }


def _verified(
    params: Parameters, builder: ReportBuilder, verdict: Verdict | None
) -> VerifiedStatement:
    if verdict is not None and not verdict.holds:
        return builder.line(
            "a",
            RECIPIENT,
            NOTHING_HOLDS,
            reason=f"violated ({verdict.violating} sequences): the published table does not "
            "satisfy the model that was requested",
        )
    if verdict is not None:
        reason = "the independent check found no violating sequence in the published table"
    elif builder.paper:
        reason = "the literal algorithm may leave violating sequences; the result says how many"
    else:
        reason = "every result is checked by enumeration before it is published"
    return builder.line(
        "a",
        f"{RECIPIENT} and knows at most {params.L} pairs of a person",
        SYNTACTIC,
        conditions=ASSUMPTIONS,
        reason=reason,
    )
