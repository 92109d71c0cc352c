"""The one builder of privacy reports for queries and rounds, and their plain words.

A report says what the source claims, what is verified against each adversary, and what is not
protected. Every number in it comes from `common.accounting`, rounded against us; nothing in it
comes from readings. Under the paper stance the sensitivity's value is left out: it is a private
maximum.

Spec: aggregation, sections 1, 3, 7 and 8; budget, sections 3 and 5; jobs, "Privacy report".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Final

from common.accounting.error import forecast, smallest_useful_group
from common.accounting.scenarios import (
    SMALLEST_DELTA,
    Cost,
    VerifiedLine,
    debit,
    noise_scale_problem,
    openers,
    verified_lines,
)
from common.functions import dimension, parts
from common.mechanisms import aggregator_plan, curator_plan
from common.models.query import (
    Function,
    Layer,
    Mechanism,
    PrivacyUnit,
    Query,
    Sharing,
    Stance,
)
from common.models.report import (
    AccountingStatement,
    Charge,
    Claim,
    CurvePoint,
    NoiseStatement,
    PrivacyReport,
    SensitivityStatement,
    Subject,
    VerifiedStatement,
)
from common.noise import DRAW_DISTANCE, SelfTest, sampler_delta

ACCOUNTING_VERSION: Final = "1"
USEFUL_SHARE: Final = Fraction(1, 100)
"""The relative error at which a group counts as useful in `error.smallest_useful_group`."""

_DIGITS: Final = 12
_CEILING: Final = Context(prec=_DIGITS, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
_FLOOR: Final = Context(prec=_DIGITS, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)

VALIDITY: Final = (
    "Validity is not proved: a curator can send any value, and no sum can tell. Bounds are "
    "enforced at honest curators only; a lying curator or a single lying aggregator shifts the "
    "sum by any amount."
)
PARTICIPATION: Final = (
    "Who took part is not hidden: the coordinator, the aggregators and the network see it, with "
    "times. What is protected is a curator's data, not its membership."
)


# --------------------------------------------------------------------------------------- numbers


def amount(value: Fraction | Decimal | int, context: Context = _CEILING) -> str:
    """A decimal string of at most 12 digits, rounded up unless told otherwise."""
    exact = Fraction(value)
    rounded = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    if not rounded:
        return "0"
    exponent = rounded.adjusted()
    if -7 <= exponent < _DIGITS + 4:
        text = f"{rounded:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    digits = str(rounded.as_tuple().digits[0])
    rest = "".join(str(digit) for digit in rounded.as_tuple().digits[1:]).rstrip("0")
    return f"{digits}{'.' + rest if rest else ''}e{exponent}"


def epsilon_amount(value: Fraction | None) -> str:
    """An epsilon; None is infinite."""
    return "inf" if value is None else amount(value)


def delta_amount(value: Fraction | Decimal | None) -> str:
    """A delta; None is 1, and above 0 it is never stated below 1e-30."""
    if value is None:
        return "1"
    return amount(max(Fraction(value), Fraction(SMALLEST_DELTA)) if value else 0)


# --------------------------------------------------------------------------------------- building


def query_report(
    query: Query,
    *,
    subject: Subject,
    participants: int | None = None,
    operators: Sequence[str] | None = None,
    sampler_self_test: SelfTest | None = None,
    caveats: Iterable[str] = (),
) -> PrivacyReport:
    """The report of a query (a preview) or, with `participants`, of one of its rounds.

    `operators` names who runs each aggregator; `sampler_self_test` is the outcome of the check of
    the samplers at start; further `caveats` are added as they stand.
    """
    lines = verified_lines(query, participants, operators)
    return PrivacyReport(
        subject=subject,
        stance=query.stance.value,
        mechanism=query.mechanism.value,
        privacy_unit=query.privacy_unit.value,
        neighbouring="add-remove",
        sensitivity=_sensitivity(query),
        claimed=_claim(query),
        verified=tuple(_statement(query, line) for line in lines),
        charged=_charge(query, operators),
        noise=_noise(query, participants),
        sampler_delta=_sampler_delta(query, participants, lines),
        sampler_epsilon="0",
        accounting=AccountingStatement(
            method="privacy profiles of the honest noise, rounded up: closed forms, positive sums, "
            "convex quadrature; coins by the convolved mixture or by revealing who drew; parts by "
            "basic composition",
            library="tacit common.accounting",
            version=ACCOUNTING_VERSION,
        ),
        public_parameters=(
            "every field of the query and of the round descriptor",
            "who took part, and when",
        ),
        post_processing=_post_processing(query),
        not_protected=_not_protected(query),
        source_defects=_source_defects(query),
        voided_by=_voided_by(query),
        assumptions=_assumptions(query, operators, sampler_self_test),
        caveats=(*_caveats(query, lines), *caveats),
        error=_error(query, participants),
        details=_details(query, participants),
    )


def _paper(query: Query) -> bool:
    return query.stance is Stance.PAPER


def _sensitivity(query: Query) -> tuple[SensitivityStatement, ...]:
    if _paper(query):
        return (SensitivityStatement(source="data-dependent"),)
    several = len(parts(query)) > 1
    return tuple(
        SensitivityStatement(
            value=amount(part.sensitivity),
            source="declared",
            part=part.name if several else None,
        )
        for part in parts(query)
    )


def _claim(query: Query) -> Claim | None:
    match query.mechanism:
        case Mechanism.TWO_LAYER:
            assert query.epsilon_u is not None
            assert query.epsilon_s is not None
            return Claim(
                model="pure-dp",
                epsilon=amount(query.epsilon_u + query.epsilon_s),
                delta="0",
                theorem="Lu's thesis, Proposition 4.1",
                text="max epsilon_u + max epsilon_s, whatever the probabilities are",
            )
        case Mechanism.LOCAL:
            assert query.epsilon_i is not None
            return Claim(
                model="pure-dp",
                epsilon=amount(query.epsilon_i),
                delta="0",
                theorem="Lu's thesis, Algorithm 5.1",
                text="max epsilon_i over the curators",
            )
        case _:
            return None


def _statement(query: Query, line: VerifiedLine) -> VerifiedStatement:
    return VerifiedStatement(
        scenario=line.scenario.label,
        key=line.scenario.value,
        description=line.description,
        trust_model=line.trust_model,
        model=line.model,
        privacy_unit=query.privacy_unit.value,
        neighbouring="add-remove",
        epsilon=epsilon_amount(line.epsilon),
        delta=delta_amount(line.delta),
        curve=tuple(
            CurvePoint(epsilon=amount(epsilon), delta=delta_amount(delta))
            for epsilon, delta in line.curve
        ),
        conditions=line.conditions,
        reason=line.reason,
    )


def _charge(query: Query, operators: Sequence[str] | None) -> Charge:
    assumed, everyone = debit(query, operators)

    def columns(cost: Cost) -> tuple[str, str]:
        return epsilon_amount(cost.epsilon), delta_amount(cost.delta)

    epsilon, delta = columns(assumed)
    epsilon_all, delta_all = columns(everyone)
    return Charge(
        ledger="curators",
        privacy_unit=query.privacy_unit.value,
        epsilon=epsilon,
        delta=delta,
        epsilon_all_corrupt=epsilon_all,
        delta_all_corrupt=delta_all,
    )


def _noise(query: Query, participants: int | None) -> tuple[NoiseStatement, ...]:
    statements = []
    for layer, plan, draws in (
        ("curator", curator_plan(query), participants or query.n_max),
        ("aggregator", aggregator_plan(query), query.aggregators),
    ):
        if plan is None:
            continue
        for part, scale in zip(parts(query), plan.scales, strict=True):
            statements.append(
                NoiseStatement(
                    layer=layer,
                    distribution="discrete-laplace" if plan.weight == 1 else "polya-share",
                    part=part.name,
                    scale=None if _paper(query) else amount(scale, _FLOOR),
                    weight=amount(plan.weight, _FLOOR),
                    probability=amount(plan.probability, _FLOOR),
                    draws=draws,
                )
            )
    return tuple(statements)


def _sampler_delta(
    query: Query, participants: int | None, lines: tuple[VerifiedLine, ...]
) -> str | None:
    """What imperfect draws add to every delta; None where no epsilon stands."""
    finite = [line.epsilon for line in lines if line.epsilon is not None]
    if not finite:
        return None
    parties = 0
    if curator_plan(query) is not None:
        parties += participants or query.n_max
    if aggregator_plan(query) is not None:
        parties += query.aggregators
    return amount(min(sampler_delta(parties * dimension(query), max(finite)), Fraction(1)))


def _post_processing(query: Query) -> tuple[str, ...]:
    match query.function:
        case Function.MEAN:
            return ("mean = centre + noisy sum / noisy count; null where the count is below 1",)
        case Function.VARIANCE:
            return (
                "mean and variance of the noisy sum, squares and count; null where the count is "
                "below 1, a negative variance is 0",
            )
        case _:
            return ("the total times the resolution",)


def _not_protected(query: Query) -> tuple[str, ...]:
    held = [
        PARTICIPATION,
        "A person behind several curators is protected once for each of them, not as one.",
    ]
    if query.privacy_unit is PrivacyUnit.RECORD:
        held.append(
            "The unit record hides one reading, not a household's habit: readings that go together "
            "(the same evening, day after day) are not hidden together."
        )
        held.append(
            "A reading moved in time is a removal and an addition: two changes, whose figures add. "
            "A value changed in place is covered as one."
        )
    return tuple(held)


_ATOM: Final = (
    "Proposition 4.1 overlooks the atom: with probability (1-pr_u)(1-pr_s)^h, against n-1 curators "
    "and all but h aggregators, no noise hides the victim's value and it passes exactly; its "
    "proof takes the expected noise, which is no distribution. Over continuous noise no epsilon "
    "holds with delta 0."
)
_ADDED: Final = (
    "Proposition 4.1 adds the two layers' epsilons; with both probabilities 1 the noises are added "
    "to one output, and min(epsilon_u, epsilon_s) holds while an honest aggregator exists, "
    "epsilon_u when none does."
)
_LOCAL_SENSITIVITY: Final = (
    "The noise scale is the curator's own largest reading. With 0 a possible reading no (epsilon, "
    "delta) with delta below 1 holds for a sum: all-zero readings give their sum with certainty. "
    "With readings in [lo, hi], lo above 0, no finite epsilon with delta 0 holds. For sums the "
    "scale, a private maximum, can besides be estimated from repeated rounds."
)
_COUNT_EXCEPTION: Final = (
    "In a count one reading adds 1 for every curator that has readings, so its "
    "scale is constant there; the curator without readings, which draws nothing, is the exception."
)


def _source_defects(query: Query) -> tuple[str, ...]:
    defects = []
    if query.mechanism is Mechanism.TWO_LAYER:
        assert query.pr_u is not None
        assert query.pr_s is not None
        if min(query.pr_u, query.pr_s) < 1:
            defects.append(_ATOM)
        else:
            defects.append(_ADDED)
    if _paper(query) and query.mechanism is not Mechanism.EXACT:
        defects.append(_LOCAL_SENSITIVITY)
        if query.function is Function.COUNT:
            defects.append(_COUNT_EXCEPTION)
    return tuple(defects)


def _voided_by(query: Query) -> tuple[str, ...]:
    held = [
        "participation, bounds or epsilon chosen after looking at the data",
        "aggregator keys that a curator did not get out of band",
    ]
    if query.mechanism is not Mechanism.EXACT:
        held.append("noise drawn from a source that somebody else can predict")
    if query.sharing is Sharing.ADDITIVE:
        held.append("all aggregators pooling what they hold (row d says what remains)")
    elif query.sharing is Sharing.SHAMIR:
        held.append(
            f"{openers(query)} aggregators pooling what they hold (row d says what remains)"
        )
    return tuple(held)


def _assumptions(
    query: Query, operators: Sequence[str] | None, self_test: SelfTest | None
) -> tuple[str, ...]:
    t_u, t_s = query.collusion.curators, query.collusion.aggregators
    held = []
    if query.sharing is Sharing.NONE:
        held.append(
            "The single aggregator sees every noisy contribution; what protects a curator is its "
            "own noise alone."
        )
    else:
        held.append(
            f"At most {t_u} curators (with those that add no noise, and every identity that the "
            f"adversary enrolled) and at most {t_s} of {query.aggregators} aggregators pool what "
            "they see; row e states what then holds, the other rows what holds beyond."
        )
    if query.mechanism is Mechanism.DISTRIBUTED and query.layer is not Layer.AGGREGATOR:
        held.append(
            f"At least {query.min_participants - t_u} honest curators draw their shares in every "
            "manifest."
        )
    if query.sharing is Sharing.SHAMIR and aggregator_plan(query) is not None:
        held.append(
            f"Every manifest holds the noise of at least {query.c_noise} aggregators; each "
            "aggregator checks it."
        )
    held.append(
        "Bounds, max_readings and resolution were declared without looking at the data, and honest "
        "curators clamp to them. An enrolled curator takes part whether or not it has readings."
    )
    held.append(
        "Parties may pool all they see but follow the protocol; what anchors, rosters, descriptors "
        "and commitments add against parties that deviate is described with the protocol."
    )
    if operators is None:
        held.append("The aggregators are run by different operators (not checked here).")
    elif len(set(operators)) < len(operators):
        held.append(
            f"{len(operators)} aggregators are run by {len(set(operators))} operators; an operator "
            "counts as one party that brings all its aggregators."
        )
    else:
        held.append("Every aggregator is run by an operator of its own, as declared.")
    if self_test is not None:
        outcome = "passed" if self_test.passed else "FAILED: do not rely on this report"
        held.append(
            f"The samplers' check at start: {outcome}. It cannot tell a predictable source from a "
            "secret one."
        )
    return tuple(held)


def _caveats(query: Query, lines: tuple[VerifiedLine, ...]) -> tuple[str, ...]:
    held = []
    if query.mechanism is Mechanism.EXACT:
        held.append("NO PRIVACY: mechanism exact adds no noise.")
    if _paper(query):
        held.append(
            "Stance paper: noise follows each curator's own data, as in the source. Nothing is "
            "verified; the sensitivity's value is private and not shown."
        )
    elif (problem := noise_scale_problem(query)) is not None:
        held.append(f"The noise cannot be drawn: {problem}.")
    held.append(VALIDITY)
    held.append(
        "This is one release: rounds over the same readings add up, and a curator's ledger keeps "
        "the sum. A round that aborts after pieces may have left counts as released."
    )
    if query.mechanism is not Mechanism.EXACT and not _paper(query):
        held.append(
            "To the delta of every row add sampler_delta, for draws that are not quite exact (at "
            "an epsilon further along a curve it grows as 1 + e^epsilon)."
        )
    held.append(
        "A host that holds the readings of many curators is one party that may collude with all of "
        "them; its own curators are not protected from it."
    )
    if query.sharing is not Sharing.NONE:
        held.append(
            "Inside one key epoch there is no forward secrecy: all aggregators' epoch keys "
            "together with a recording open its pieces."
        )
    weaker = [line for line in lines if line.model == "none"]
    if weaker and len(weaker) < len(lines):
        named = ", ".join(line.scenario.value for line in weaker)
        held.append(f"Nothing holds in row{'s' if len(weaker) > 1 else ''} {named}.")
    if query.mechanism is Mechanism.TWO_LAYER and not _paper(query):
        held.append(
            "Noise of two layers is hedging: while an honest aggregator draws, its noise counts; "
            "when the last one falls, only the victim's own draw is left (row d)."
        )
    if query.mechanism is Mechanism.DISTRIBUTED and query.layer is Layer.AGGREGATOR:
        held.append(
            "Curators add no noise of their own: when all aggregators collude, a contribution is "
            "read exactly."
        )
    return tuple(held)


def _error(query: Query, participants: int | None) -> dict[str, Any]:
    """The expected error of a result, from public values only; a string for every number."""
    count = participants or query.min_participants
    squared = {"squares": f"{query.unit}^2", "count": "1", "histogram": "1"}
    answer: dict[str, Any] = {
        "participants": count,
        "parts": [
            {
                "part": error.part,
                "dimension": error.dimension,
                "unit": squared.get(error.part, query.unit),
                "mean_absolute": amount(Fraction(error.mean_absolute)),
                "standard_deviation": amount(Fraction(error.standard_deviation)),
            }
            for error in forecast(query, count)
        ],
        "basis": "upper limit: declared bounds in place of each curator's own data"
        if _paper(query)
        else "the noise of all parties",
    }
    group = smallest_useful_group(query, USEFUL_SHARE)
    answer["smallest_useful_group"] = {
        "relative_error": amount(USEFUL_SHARE),
        "curators": group,
        "basis": "a typical curator contributes half of what the bounds allow",
    }
    return answer


def _details(query: Query, participants: int | None) -> dict[str, Any]:
    details: dict[str, Any] = {
        "collusion": {
            "curators": query.collusion.curators,
            "aggregators": query.collusion.aggregators,
        },
        "aggregators": query.aggregators,
        "sharing": query.sharing.value,
        "min_participants": query.min_participants,
        "participants": participants,
        "draw_distance": amount(DRAW_DISTANCE),
    }
    if query.threshold is not None:
        details["threshold"] = query.threshold
    if query.c_noise is not None:
        details["c_noise"] = query.c_noise
    if query.layer is not None:
        details["layer"] = query.layer.value
    return details


# ------------------------------------------------------------------------------------ plain words

_UNITS: Final = {
    "record": "one reading, more or less",
    "curator": "all readings of one curator (its data replaced by none; that it takes part is "
    "public)",
}
_JOB_UNITS: Final = {
    "record": "one row or record, more or less",
    "curator": "all rows of one curator",
    "reading": "one reading of one user in one round",
    "level": "the level of a user's series: a constant added to all of it",
    "user": "all readings of one user",
    "radius": "a record, against others within the declared radius",
    "sequence": "one sequence, more or less",
    "edge": "one edge, more or less",
    "path-edge": "one edge of the path",
    "vertex-pair": "whether two vertices are joined",
    "cell-entry": "one entry of the matrix",
}
_KINDS: Final = {"query": "Query", "round": "Round", "job": "Job"}


def plain_words(report: PrivacyReport) -> str:
    """The report as a page for people."""
    mechanism = report.mechanism if isinstance(report.mechanism, str) else report.mechanism.name
    page = [
        f"Privacy report: {_KINDS[report.subject.kind]} {report.subject.id}",
        f"Mechanism {mechanism}, stance {report.stance}.",
        "",
        "What is protected",
    ]
    if report.privacy_unit is None:
        page.append("  No privacy unit is named.")
    else:
        units = _JOB_UNITS if report.subject.kind == "job" else _UNITS
        unit = units.get(report.privacy_unit, report.privacy_unit)
        page.append(f"  The unit is {report.privacy_unit}: {unit}.")
    if report.not_protected:
        page += ["", "What is not protected", *(f"  - {line}" for line in report.not_protected)]
    page += ["", "What the source claims"]
    if report.claimed is None:
        page.append("  Nothing: the mechanism is not the source's.")
    else:
        claim = report.claimed
        page.append(
            f"  {claim.theorem or 'The source'}: epsilon {claim.epsilon}, delta {claim.delta}"
            f"{f' ({claim.text})' if claim.text else ''}."
        )
        if report.source_defects:
            page.append("  It does not hold as claimed:")
    page.extend(f"  - {defect}" for defect in report.source_defects)
    page += ["", "What holds, and against whom"]
    for line in report.verified:
        page.extend(_words(line))
    if report.charged is not None and report.charged.ledger != "none":
        page += ["", "What it costs", _cost_words(report.charged)]
    page += ["", "How far off the result will be", *_error_words(report.error)]
    for title, lines in (
        ("Assumptions", report.assumptions),
        ("Caveats", report.caveats),
        ("What would void this", report.voided_by),
    ):
        if lines:
            page += ["", title, *(f"  - {line}" for line in lines)]
    return "\n".join(page) + "\n"


def _cost_words(charged: Charge) -> str:
    whose = "The dataset's ledger" if charged.ledger == "dataset" else "The ledger of curators"
    if charged.outside_budget:
        return f"  {whose} is charged no figure: this is a release outside the budget."
    unit = f" per {charged.privacy_unit}" if charged.ledger == "dataset" else ""
    return f"  {whose} is charged epsilon {charged.epsilon}, delta {charged.delta}{unit}."


def _words(line: VerifiedStatement) -> list[str]:
    who = f"  ({line.key}) Against {line.description}" if line.description else f"  {line.scenario}"
    if line.trust_model:
        who += f" [{line.trust_model}]"
    if line.epsilon is None:
        return [f"{who}: no statement.", *([f"      {line.reason}."] if line.reason else [])]
    if line.model == "none":
        words = [f"{who}: nothing holds."]
    elif line.delta == "0":
        words = [f"{who}: epsilon {line.epsilon}, delta 0."]
    else:
        words = [
            f"{who}: epsilon {line.epsilon} with delta {line.delta}. (Delta is the chance that "
            "the bound epsilon says nothing; near 1 that is no protection.)"
        ]
    if line.reason:
        words.append(f"      Why: {line.reason}.")
    words.extend(f"      If: {condition}." for condition in line.conditions)
    return words


def _short(number: str) -> str:
    """Four digits, rounded up."""
    return amount(Fraction(number), Context(prec=4, rounding=ROUND_CEILING))


def _error_words(error: dict[str, Any] | None) -> list[str]:
    if error and "parts" not in error:  # an algorithm's own figures, under its own names
        plain = {name: value for name, value in error.items() if not isinstance(value, dict | list)}
        return [f"  {name.replace('_', ' ')}: {value}" for name, value in plain.items()] or [
            "  The report has the figures."
        ]
    if not error:
        return ["  No forecast."]
    words = [
        f"  {part['part']}: {_short(part['mean_absolute'])}"
        f"{'' if part['unit'] == '1' else ' ' + part['unit']} on average (standard deviation "
        f"{_short(part['standard_deviation'])}) per coordinate, "
        f"over {error['participants']} curators."
        for part in error["parts"]
    ]
    useful = error.get("smallest_useful_group")
    if useful is not None:
        count = useful["curators"]
        share = useful["relative_error"]
        words.append(
            f"  Groups of {count} curators and more have a relative error below {share}, "
            f"if {useful['basis']}."
            if count is not None
            else f"  No group of up to 10^7 curators has a relative error below {share}."
        )
    return words
