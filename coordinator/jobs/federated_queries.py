"""The queries of a federated job: each sum that its algorithm asks for, as one query.

Spec: jobs, "Federated jobs"; kmeans, section 6.1. Whatever a curator must be able to check follows
from the step: the query's name holds its hash, its fields are those of `common.encoders.sums`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic import ValidationError

from algorithms.contract import PrivacyScope
from common.encoders.sums import SWAP, RecordSum, query_fields
from common.errors import FieldError, Invalid
from common.mechanisms import noisy_aggregators
from common.models.federation import FederatedStep, Federation
from common.models.query import Layer, PrivacyUnit, Query
from common.service.problems import invalid_from


@dataclass(frozen=True)
class JobPlan:
    """A job as it was asked for; `digest` is what curators know it by."""

    job: str
    algorithm: str
    digest: bytes
    federation: Federation


def step_of_sum(
    plan: JobPlan, number: int, asked: RecordSum, scope: PrivacyScope
) -> tuple[FederatedStep, Query]:
    """A step and the query that carries it. Raises Invalid with pointers into `/federation`."""
    federation = plan.federation
    step = FederatedStep(
        job=plan.job,
        algorithm=plan.algorithm,
        step=number,
        plan=plan.digest,
        columns=federation.columns,
        sum=asked.document(),
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
        "layer": federation.layer.value,
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
    """Declared, or all aggregators but those that must stay honest."""
    if federation.collusion is not None:
        return federation.collusion.model_dump()
    openers = federation.threshold or federation.aggregators
    return {"curators": 0, "aggregators": openers - 1}


def noise_share(query: Query, scope: PrivacyScope) -> Fraction:
    """The noise of a released sum, at most, in units of one full discrete Laplace that hides so
    many vectors as the scope says."""
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
