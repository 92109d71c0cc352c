"""The privacy report of a query, or of one of its rounds.

A report says what the source claims, what is verified against each adversary, and what is not
protected. Every number in it comes from `tacit.accounting`, rounded against us; nothing in it comes
from readings. Under the paper stance the sensitivity's value is omitted: it is a private maximum.

Spec: aggregation, sections 1, 3, 7 and 8; budget, sections 3 and 5; jobs, "Privacy report".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import floor, isqrt
from typing import Any, Final, Literal

from tacit.accounting.amounts import Cost
from tacit.accounting.charges import debit
from tacit.accounting.guarantees import VerifiedLine, priced_text, verified_lines
from tacit.accounting.scenarios import Scenario
from tacit.noise import DRAW_DISTANCE, SelfTest, sampler_delta
from tacit.noise.discrete_gaussian import gaussian_sampler_delta
from tacit.protocol.round.descriptor import AggregatorEntry
from tacit.query.encoding import MILLION, root_above
from tacit.query.functions import Part, dimension, parts
from tacit.query.mechanisms import (
    GaussianPlan,
    LaplacePlan,
    NoisePlan,
    aggregator_plan,
    curator_plan,
    is_gaussian,
)
from tacit.query.query import Query
from tacit.query.terms import Mechanism
from tacit.report import statements
from tacit.report.accuracy import error_statement
from tacit.report.builder import pure_dp
from tacit.report.figures import ACCOUNTING_VERSION, FLOOR, amount, delta_amount, epsilon_amount
from tacit.report.model import (
    AccountingStatement,
    Charge,
    Claim,
    CurvePoint,
    NoiseStatement,
    Pooled,
    PrivacyReport,
    SensitivityStatement,
    Subject,
    VerifiedStatement,
)
from tacit.report.statements import is_paper
from tacit.report.validity import validity_statement


def query_report(
    query: Query,
    *,
    subject: Subject,
    participants: int | None = None,
    operators: Sequence[str] | None = None,
    urls: Sequence[str] = (),
    sampler_self_test: SelfTest | None = None,
    hosts: Iterable[Sequence[int]] = (),
    refused: int | None = None,
    aggregators: Sequence[AggregatorEntry] = (),
    caveats: Iterable[str] = (),
) -> PrivacyReport:
    """The report of a query (a preview) or, with `participants`, of one of its rounds.

    `operators` names who runs each aggregator, `urls` are their addresses; `sampler_self_test`
    is the outcome of the check of the samplers at start; `hosts` and `refused`: see
    `validity_statement`; `aggregators`: of the round's descriptor; further `caveats` are added
    unchanged.
    """
    by = None if operators is None else tuple(operators)
    report = _kept_report(priced_text(query), participants, by)
    return report.model_copy(
        update={
            "subject": subject,
            "validity": validity_statement(query, hosts, refused),
            "assumptions": statements.assumptions(query, operators, sampler_self_test, urls),
            "caveats": (
                *report.caveats,
                statements.forward_secrecy(query, aggregators),
                *caveats,
            ),
        }
    )


@lru_cache(maxsize=256)  # of small figures; hundreds of rounds ask the same
def _kept_report(
    text: str, participants: int | None, operators: tuple[str, ...] | None
) -> PrivacyReport:
    """The common part of the reports of equal queries, cached by the text on which the figures
    depend."""
    query = Query.model_validate_json(text)
    lines = verified_lines(query, participants, operators)
    sampler = _sampler_delta(query, participants, lines)
    return PrivacyReport(
        subject=Subject(kind="query", id=""),
        stance=query.stance.value,
        mechanism=query.mechanism.value,
        privacy_unit=query.privacy_unit.value,
        neighbouring="add-remove",
        sensitivity=_sensitivity(query),
        claimed=_claim(query),
        verified=tuple(_statement(query, line) for line in lines),
        charged=_charge(query, operators),
        noise=_noise(query, participants),
        sampler_delta=sampler,
        sampler_epsilon="0",
        accounting=AccountingStatement(
            method=_GAUSSIAN_METHOD if is_gaussian(query) else _METHOD,
            library="tacit tacit.accounting",
            version=ACCOUNTING_VERSION,
        ),
        public_parameters=(
            "every field of the query and of the round descriptor",
            "who took part, and when",
        ),
        post_processing=statements.post_processing(query),
        not_protected=statements.not_protected(query),
        source_defects=statements.source_defects(query),
        voided_by=statements.voided_by(query),
        caveats=statements.caveats(query, lines, sampler),
        error=error_statement(query, participants or query.min_participants),
        details=_details(query, participants),
    )


_METHOD: Final = (
    "privacy profiles of the honest noise, rounded up: closed forms, positive sums, convex "
    "quadrature; coins by the convolved mixture or by revealing who drew; parts by basic "
    "composition"
)
_GAUSSIAN_METHOD: Final = (
    "zero-concentrated differential privacy of discrete Gaussian noise and of its sums; parts and "
    "rounds add their rho; (epsilon, delta) by the best Renyi order, rounded up"
)


def verified_statements(
    query: Query, *, operators: Sequence[str] | None = None
) -> tuple[VerifiedStatement, ...]:
    """The rows a to e of a query's report: guarantees that hold for every manifest that it
    allows."""
    return tuple(_statement(query, line) for line in verified_lines(query, None, operators))


def _sensitivity(query: Query) -> tuple[SensitivityStatement, ...]:
    if is_paper(query):
        return (SensitivityStatement(source="data-dependent"),)
    several = len(parts(query)) > 1
    return tuple(
        SensitivityStatement(
            value=amount(_root(part)),
            norm="l1" if part.squared_sensitivity is None else "l2",
            source="declared",
            part=part.name if several else None,
        )
        for part in parts(query)
    )


def _root(part: Part) -> Fraction:
    """The sensitivity of a part; in L2 to six places, rounded up."""
    if part.squared_sensitivity is None:
        return Fraction(part.sensitivity)
    return Fraction(root_above(part.squared_sensitivity * MILLION**2), MILLION)


def _claim(query: Query) -> Claim | None:
    match query.mechanism:
        case Mechanism.TWO_LAYER:
            assert query.epsilon_u is not None
            assert query.epsilon_s is not None
            return Claim(
                **pure_dp(query.epsilon_u + query.epsilon_s),
                theorem="Lu's thesis, Proposition 4.1",
                text="max epsilon_u + max epsilon_s, whatever the probabilities are",
            )
        case Mechanism.LOCAL:
            assert query.epsilon_i is not None
            return Claim(
                **pure_dp(query.epsilon_i),
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
        pooled=Pooled(
            curators=_pooled_curators(query, line.scenario),
            aggregators=line.corrupt_aggregators,
            of=query.aggregators,
        ),
        rho=None if line.rho is None else amount(line.rho),
        clamp_delta=None if line.clamp_delta is None else delta_amount(line.clamp_delta),
        curve=tuple(
            CurvePoint(epsilon=amount(epsilon), delta=delta_amount(delta))
            for epsilon, delta in line.curve
        ),
        conditions=line.conditions,
        reason=line.reason,
    )


def _pooled_curators(query: Query, scenario: Scenario) -> int | Literal["all-others"]:
    match scenario:
        case Scenario.RECIPIENT:
            return 0
        case Scenario.ASSUMED:
            return query.collusion.curators
        case _:
            return "all-others"


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
        outside_budget=query.mechanism is Mechanism.EXACT,
    )


def _noise(query: Query, participants: int | None) -> tuple[NoiseStatement, ...]:
    statements = []
    for layer, plan, draws in (
        ("curator", curator_plan(query), participants or query.n_max),
        ("aggregator", aggregator_plan(query), query.aggregators),
    ):
        if plan is None:
            continue
        for part, scale in zip(parts(query), _scales(plan), strict=True):
            statements.append(
                NoiseStatement(
                    layer=layer,
                    distribution=_distribution(plan),
                    part=part.name,
                    scale=None if is_paper(query) else amount(scale, FLOOR),
                    weight=amount(plan.weight, FLOOR),
                    probability=amount(plan.probability, FLOOR),
                    draws=draws,
                )
            )
    return tuple(statements)


def _scales(plan: NoisePlan) -> tuple[Fraction, ...]:
    """The scale of each part's noise; for Gaussian noise the deviation, rounded down."""
    if isinstance(plan, LaplacePlan):
        return plan.scales
    return tuple(
        Fraction(isqrt(floor(variance * MILLION**2)), MILLION) for variance in plan.variances
    )


def _distribution(plan: NoisePlan) -> str:
    if isinstance(plan, GaussianPlan):
        return "discrete-gaussian"
    return "discrete-laplace" if plan.weight == 1 else "polya-share"


def _sampler_delta(
    query: Query, participants: int | None, lines: tuple[VerifiedLine, ...]
) -> str | None:
    """What imperfect draws add to every delta; None if no epsilon is stated."""
    finite = [line.epsilon for line in lines if line.epsilon is not None]
    if not finite:
        return None
    parties = 0
    if curator_plan(query) is not None:
        parties += participants or query.n_max
    if aggregator_plan(query) is not None:
        parties += query.aggregators
    draws = parties * dimension(query)
    if is_gaussian(query):
        return amount(max(gaussian_sampler_delta(draws, max(finite)), _LEAST_STATED))
    return amount(min(sampler_delta(draws, max(finite)), Fraction(1)))


_LEAST_STATED: Final = Fraction(1, 10**99)


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
    if query.validity is not None:
        details["validity"] = query.validity.value
    return details
