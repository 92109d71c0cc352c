"""Validates a federated job, including its first query, and begins it; the queries of its sums.

Spec: jobs, "Federated jobs"; kmeans, section 6.1. There is no dataset and no dataset ledger: each
curator's own policy and ledger decide. One query for each sum that the algorithm requests; a
curator can check all of it from the step.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final

from pydantic import ValidationError

from algorithms import catalogue
from algorithms.contract import Algorithm, FederatedRounds, PrivacyScope
from algorithms.counts.rounds import Asking
from common.bodies import invalid_from
from common.runtime.clock import uuid7
from common.runtime.compute_processes import apart
from common.store.transactions import Transaction
from coordinator import queries
from coordinator.errors import FederationUnsupported, SeedNotAllowed, StanceRefused
from coordinator.jobs.privacy_statements import Price, completed, foreseen, local, under_one_debit
from coordinator.models.job import JobRequest, JobState
from coordinator.rounds.context import Conduct
from coordinator.settings import CoordinatorSettings
from coordinator.store import jobs as store
from coordinator.store.jobs import JobRow, StepRow
from coordinator.store.registry import AggregatorRow, list_aggregators
from tacit.accounting.charges import job_costs
from tacit.accounting.scenarios import Scenario
from tacit.encoders.sums import OF_ITEMS, SWAP, RecordSum, query_fields
from tacit.errors import FieldError, Invalid
from tacit.protocol.federation import (
    DESCRIPTOR_LABEL,
    AbortedAttempt,
    Descriptor,
    FederatedStep,
    Federation,
    JobTerms,
    RegisterStatistic,
    registers_of,
)
from tacit.query.mechanisms import noisy_aggregators, scheme
from tacit.query.query import Query
from tacit.query.terms import Layer, PrivacyUnit
from tacit.report.model import PrivacyReport, Stance, Subject
from tacit.report.queries import query_report
from tacit.units import asked_mismatch
from tacit.wire import WireModel


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
    record_sum: RecordSum,
    scope: PrivacyScope,
    aborted: tuple[AbortedAttempt, ...] = (),
) -> tuple[FederatedStep, Query]:
    """A step and its query; aborted: the earlier attempts. Raises Invalid with pointers into
    `/federation`."""
    federation = plan.federation
    step = FederatedStep(
        job=plan.job,
        algorithm=plan.algorithm,
        step=number,
        plan=plan.digest,
        columns=federation.columns,
        sum=record_sum.document(),
        universe=plan.universe,
        terms=plan.terms,
        aborted=aborted or None,
    )
    fields: dict[str, Any] = {
        **query_fields(
            record_sum,
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
    """What a job that is debited once spends; None if each of its rounds is debited.

    It requires that records do not change during the job and all count, and that every round has
    a whole draw of noise that the colluders do not know. Spec: federated-counting, section 6.
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
    """The largest noise of a released sum, in units of one full discrete Laplace that protects
    as many vectors as the scope names."""
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


NO_ONE_DEBIT: Final = (
    "one debit for all rounds needs a whole draw of noise that the colluders do not know"
)


@dataclass(frozen=True)
class Asked:
    """A federated job that may begin or be previewed."""

    id: str
    request: JobRequest
    params: WireModel
    report: PrivacyReport
    price: Price
    descriptor: str | None


class FederatedAsking:
    """Validates and begins federated jobs."""

    def __init__(self, conduct: Conduct, settings: CoordinatorSettings) -> None:
        self._conduct, self._settings = conduct, settings

    async def prepare(self, algorithm: Algorithm, params: WireModel, request: JobRequest) -> Asked:
        """Make every check that needs no curator."""
        federation = request.federation
        assert federation is not None
        if request.seed is not None:
            raise SeedNotAllowed(pointer="/seed")
        _check_registers(federation)
        job_id = str(uuid7(self._conduct.clock))
        plan = plan_of(job_id, request, params)
        if federation.collect == "rounds" and algorithm.rounds is not None:
            report, descriptor = await self._rounds(algorithm, params, request, plan), None
        elif federation.collect == "reports" and algorithm.reports is not None:
            report, descriptor = await self._reports(algorithm, params, request, plan)
        else:
            raise FederationUnsupported(
                "the algorithm does not collect so", pointer="/federation/collect"
            )
        return Asked(job_id, request, params, report, Price(kind="free"), descriptor)

    async def _rounds(
        self, algorithm: Algorithm, params: WireModel, request: JobRequest, plan: JobPlan
    ) -> PrivacyReport:
        """The preview. It builds the first query, so that an impossible round is reported now."""
        rounds = algorithm.rounds
        assert rounds is not None
        if request.stance != "sound":
            raise StanceRefused("rounds are for the sound stance", pointer="/stance")
        if plan.federation.label is not None:
            raise FederationUnsupported("rounds take no labels", pointer="/federation/label")
        _check_kind(plan.federation, None if rounds.universe is None else algorithm.dataset_kind)
        async with self._conduct.database.reading() as transaction:
            aggregators = await list_aggregators(transaction)
        permissions = queries.Permissions.of(self._settings)
        return await apart(_first_round, request.algorithm, params, plan, aggregators, permissions)

    async def _reports(
        self, algorithm: Algorithm, params: WireModel, request: JobRequest, plan: JobPlan
    ) -> tuple[PrivacyReport, str]:
        reports, federation = algorithm.reports, plan.federation
        assert reports is not None
        _check_kind(federation, "transactions" if request.algorithm in OF_ITEMS else None)
        encoding = await apart(_encoding, request.algorithm, params, request.stance)
        if len(federation.columns) != reports.columns(params):
            raise FederationUnsupported(
                f"the algorithm takes {reports.columns(params)} columns",
                pointer="/federation/columns",
            )
        if reports.labelled(params) != (federation.label is not None):
            reason = "the job takes no labels"
            if federation.label is None:
                reason = "the job learns from labels: name the column that has them"
            raise FederationUnsupported(reason, pointer="/federation/label")
        now = self._conduct.clock.now()
        opened = now.replace(microsecond=now.microsecond // 1000 * 1000)
        descriptor = Descriptor(
            deployment=self._conduct.deployment,
            job=plan.job,
            algorithm=request.algorithm,
            stance=request.stance,
            columns=federation.columns,
            label=federation.label,
            window=federation.covers,
            min_participants=federation.min_participants,
            n_max=federation.n_max,
            opened=opened,
            deadline=opened + timedelta(seconds=federation.deadline),
            encoding=encoding,
            parameters=params.model_dump_json(),
        )
        await self._conduct.own.load()
        signed = self._conduct.own.current.sign(DESCRIPTOR_LABEL, descriptor)
        report = await apart(_preview, request.algorithm, params, request.stance)
        digest = descriptor.digest().hex()
        return local(report, plan.job, descriptor=digest), signed.model_dump_json()

    async def add(self, transaction: Transaction, asking: Asked) -> JobRow:
        """Begin, in the caller's transaction: curators can see the job from then on."""
        now, request = self._conduct.clock.now(), asking.request
        assert request.federation is not None
        row = JobRow(
            id=asking.id,
            algorithm=request.algorithm,
            version=asking.report.subject.version or "1",
            dataset_id=None,
            federation=request.federation.model_dump_json(exclude_none=True),
            stance=request.stance,
            params=asking.params.model_dump_json(),
            chosen_seed=None,
            preview=asking.report.model_dump_json(),
            price=asking.price.model_dump_json(),
            state=JobState.RUNNING,
            stage="open",
            created=now,
            started=now,
        )
        await store.add(transaction, row)
        if asking.descriptor is not None:
            step = StepRow(asking.id, 0, asking.descriptor, None, None, now)
            await store.add_step(transaction, step)
        return row


def _first_round(
    name: str,
    params: WireModel,
    plan: JobPlan,
    aggregators: Sequence[AggregatorRow],
    permissions: queries.Permissions,
) -> PrivacyReport:
    """The preview of a job of rounds, from its first query."""
    rounds = catalogue.find(name).rounds
    assert rounds is not None
    if rounds.universe is not None:
        plan = replace(plan, universe=rounds.universe(params))
    names, scope = plan.federation.names, rounds.scope(params)
    state = rounds.first(params, names, Fraction(1))
    sum_asked = rounds.next_sum(state)
    assert sum_asked is not None
    _, query = step_of_sum(plan, 1, sum_asked, scope)
    share = noise_share(query, scope)
    state = rounds.first(params, names, share)
    sum_asked = rounds.next_sum(state)
    assert sum_asked is not None
    _, query = step_of_sum(plan, 1, sum_asked, scope)
    operators = queries.operators_for(query, aggregators)
    queries.check_query(query, permissions, operators)
    epsilon = one_debit(rounds, params, plan.federation, query, operators or None)
    if epsilon is None and rounds.universe is not None:
        raise FederationUnsupported(NO_ONE_DEBIT, pointer="/federation/collusion")
    subject = Subject(kind="query", id=plan.job)
    urls = queries.urls_for(query, aggregators)
    first = query_report(query, subject=subject, operators=operators or None, urls=urls)
    report = rounds.preview(params, share)
    charged = report.charged
    assert charged is not None
    assert charged.epsilon is not None
    if epsilon is None:
        whole_statement = foreseen(first, Fraction(charged.epsilon), rounds.planned(state))
    else:
        whole_statement = under_one_debit(first, query, epsilon, operators or None)
    if rounds.forecast is not None:
        error = rounds.forecast(params, asking(query, scope, plan.federation))
        report = report.model_copy(update={"error": error})
    return completed(report, plan.job, [whole_statement], timed_only=plan.federation.timed_only)


def _encoding(name: str, params: WireModel, stance: Stance) -> dict[str, Any]:
    reports = catalogue.find(name).reports
    assert reports is not None
    return reports.encoding(params, stance)


def _preview(name: str, params: WireModel, stance: Stance) -> PrivacyReport:
    reports = catalogue.find(name).reports
    assert reports is not None
    return reports.preview(params, stance)


def plan_of(job_id: str, request: JobRequest, params: WireModel) -> JobPlan:
    """What identifies a job to curators."""
    assert request.federation is not None
    return plan_from(
        job_id, request.algorithm, request.stance, params.model_dump_json(), request.federation
    )


def plan_from(
    job_id: str, algorithm: str, stance: str, params: str, federation: Federation
) -> JobPlan:
    """The same for a stored job."""
    content = {
        "algorithm": algorithm,
        "stance": stance,
        "params": json.loads(params),
        "federation": federation.model_dump(mode="json", exclude_none=True),
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return JobPlan(job_id, algorithm, sha256(text.encode()).digest(), federation)


def _check_kind(federation: Federation, kind: str | None) -> None:
    """Raise FederationUnsupported for records of another kind; None: rows of numbers."""
    if federation.items == kind:
        return
    reason = "the algorithm takes numbers"
    if kind is not None:
        reason = f'the algorithm takes {kind}: [{{"{kind}": "their name"}}]'
    raise FederationUnsupported(reason, pointer="/federation/columns")


def _check_registers(federation: Federation) -> None:
    """Raise FederationUnsupported for a register in a unit that it does not have."""
    for index, column in enumerate(federation.columns):
        if isinstance(column, RegisterStatistic):
            mismatch = asked_mismatch(column.register_name, column.unit)
            if mismatch is not None:
                place = f"/federation/columns/{index}/{mismatch.field}"
                raise FederationUnsupported(mismatch.detail, pointer=place)
