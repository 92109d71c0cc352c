"""The queries of a federated job: one query for each sum that its algorithm requests.

Spec: jobs, "Federated jobs"; kmeans, section 6.1. A curator can check all of it from the step: the
query's name contains the step's hash, its fields are those of `tacit.encoders.sums`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic import ValidationError

from algorithms.contract import FederatedRounds, PrivacyScope
from algorithms.counts.forecast import Asking
from common.web.problems import invalid_from
from tacit.accounting.scenarios import Scenario
from tacit.accounting.unit_costs import job_costs
from tacit.encoders.sums import SWAP, RecordSum, query_fields
from tacit.errors import FieldError, Invalid
from tacit.protocol.federation import (
    AbortedAttempt,
    FederatedStep,
    Federation,
    JobTerms,
    registers_of,
)
from tacit.query.mechanisms import noisy_aggregators, scheme
from tacit.query.query import Query
from tacit.query.words import Layer, PrivacyUnit


@dataclass(frozen=True)
class JobPlan:
    """A job as it was requested; `digest` identifies it to curators; `universe`: the items
    of its sequences; `terms`: of a job that is debited once."""

    job: str
    algorithm: str
    digest: bytes
    federation: Federation
    universe: tuple[str, ...] | None = None
    terms: JobTerms | None = None


def step_of_sum(
    plan: JobPlan,
    number: int,
    asked: RecordSum,
    scope: PrivacyScope,
    aborted: tuple[AbortedAttempt, ...] = (),
) -> tuple[FederatedStep, Query]:
    """A step and its query; aborted: the attempts before. Raises Invalid with pointers into
    `/federation`."""
    federation = plan.federation
    step = FederatedStep(
        job=plan.job,
        algorithm=plan.algorithm,
        step=number,
        plan=plan.digest,
        columns=federation.columns,
        sum=asked.document(),
        universe=plan.universe,
        terms=plan.terms,
        aborted=aborted or None,
    )
    fields: dict[str, Any] = {
        **query_fields(
            asked,
            scope.unit,
            scope.records,
            every_record=scope.every_record and federation.of_table,
        ),
        "name": step.name,
        "job": plan.job,
        "registers": registers_of(federation.columns),
        "layer": federation.layer.value,
        "validity": None if federation.validity is None else federation.validity.value,
        "noise_tail": None if federation.noise_tail is None else str(federation.noise_tail),
        "sharing": federation.sharing,
        "aggregators": federation.aggregators,
        "threshold": federation.threshold,
        "collusion": collusion(federation),
        "min_participants": federation.min_participants,
        "n_max": federation.n_max,
        "deadline_s": federation.deadline,
        "window": federation.covers.model_dump(mode="json"),
    }
    try:
        return step, Query.model_validate_json(json.dumps(fields))
    except ValidationError as error:
        problem = invalid_from(error, fields)
        assert isinstance(problem, Invalid)
        errors = [_in_federation(item) for item in problem.errors]
        raise Invalid(problem.detail, errors=errors) from None


def _in_federation(item: FieldError) -> FieldError:
    pointer = {"/deadline_s": "/deadline", "/blocks": "", "/resolution": ""}.get(
        item.pointer, item.pointer
    )
    return FieldError(f"/federation{pointer}", item.message)


def collusion(federation: Federation) -> dict[str, int]:
    """As declared, or else all aggregators but those that must stay honest."""
    if federation.collusion is not None:
        return federation.collusion.model_dump()
    openers = federation.threshold or federation.aggregators
    return {"curators": 0, "aggregators": openers - 1}


def one_debit(
    rounds: FederatedRounds,
    params: Any,
    federation: Federation,
    query: Query,
    operators: Sequence[str] | None,
) -> Fraction | None:
    """What a job spends that is debited once; None where each of its rounds is debited.

    It needs records that stay the same for the whole job and all count, and rounds that hold a
    whole draw of noise which the colluders do not know. Spec: federated-counting, section 6.
    """
    scope = rounds.scope(params)
    if rounds.budget is None or not (scope.every_record and federation.of_table):
        return None
    epsilon = rounds.budget(params)
    cost = job_costs(query, epsilon, operators)[query.privacy_unit, Scenario.ASSUMED]
    return None if cost.epsilon is None else epsilon


def asking(query: Query, scope: PrivacyScope, federation: Federation) -> Asking:
    """What a forecast has to know of the rounds of a query."""
    return Asking(
        noise_share(query, scope),
        query.aggregators,
        scheme(query).uniform,
        query.n_max,
        federation.deadline,
        federation.n_hint,
    )


def noise_share(query: Query, scope: PrivacyScope) -> Fraction:
    """The largest noise of a released sum, in units of one full discrete Laplace that hides as many
    vectors as the scope names."""
    share = Fraction(0)
    assumed = query.collusion
    if query.layer in (Layer.AGGREGATOR, Layer.BOTH):
        honest = noisy_aggregators(query) - assumed.aggregators
        share += Fraction(query.aggregators, honest)
    if query.layer in (Layer.CURATOR, Layer.BOTH):
        share += Fraction(query.n_max, query.min_participants - assumed.curators)
    if query.privacy_unit is PrivacyUnit.RECORD:
        share *= Fraction(1 if query.every_record else SWAP, scope.hidden) ** 2
    return share
