"""A federated job is checked, down to its first query, and begun.

Spec: jobs, "Federated jobs". There is no dataset and no dataset ledger: each curator's own policy
and ledger decide, and the coordinator's limit when a round is opened.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from hashlib import sha256

from sqlalchemy.ext.asyncio import AsyncConnection

from algorithms.contract import Algorithm
from common.models.base import WireModel
from common.models.federation import (
    DESCRIPTOR_LABEL,
    Descriptor,
    Federation,
    RegisterStatistic,
)
from common.models.job import JobRequest, JobState
from common.models.report import PrivacyReport, Subject
from common.registers import asked_mismatch
from common.report.building import query_report
from common.service.clock import uuid7
from common.service.database import reading
from coordinator import queries
from coordinator.errors import FederationUnsupported, SeedNotAllowed, StanceRefused
from coordinator.jobs.federated_queries import JobPlan, noise_share, step_of_sum
from coordinator.jobs.federated_statements import completed, foreseen, local
from coordinator.jobs.prices import Price
from coordinator.rounds import Conduct
from coordinator.settings import CoordinatorSettings
from coordinator.store import job_steps
from coordinator.store import jobs as store
from coordinator.store.job_steps import StepRow
from coordinator.store.jobs import JobRow
from coordinator.store.registry import list_aggregators


@dataclass(frozen=True)
class Asked:
    """A federated job that may begin, or only be looked at."""

    id: str
    request: JobRequest
    params: WireModel
    report: PrivacyReport
    price: Price
    descriptor: str | None


class FederatedAsking:
    """Checks and begins federated jobs."""

    def __init__(self, conduct: Conduct, settings: CoordinatorSettings) -> None:
        self._conduct, self._settings = conduct, settings

    async def prepare(self, algorithm: Algorithm, params: WireModel, request: JobRequest) -> Asked:
        """Everything that can be refused before anybody is asked."""
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
        """The preview. The first query is made, so that what no round could answer is told now."""
        rounds = algorithm.rounds
        assert rounds is not None
        if request.stance != "sound":
            raise StanceRefused("rounds are for the sound stance", pointer="/stance")
        if plan.federation.label is not None:
            raise FederationUnsupported("rounds take no labels", pointer="/federation/label")
        async with reading(self._conduct.engine) as connection:
            aggregators = await list_aggregators(connection)

        def work() -> PrivacyReport:
            names, scope = plan.federation.names, rounds.scope(params)
            state = rounds.first(params, names, Fraction(1))
            asked = rounds.next_sum(state)
            assert asked is not None
            _, query = step_of_sum(plan, 1, asked, scope)
            state = rounds.first(params, names, noise_share(query, scope))
            asked = rounds.next_sum(state)
            assert asked is not None
            _, query = step_of_sum(plan, 1, asked, scope)
            operators = queries.operators_for(query, aggregators)
            queries.check_query(query, self._settings, operators)
            subject = Subject(kind="query", id=plan.job)
            first = query_report(query, subject=subject, operators=operators or None)
            report = rounds.preview(params)
            charged = report.charged
            assert charged is not None
            assert charged.epsilon is not None
            whole = foreseen(first, Fraction(charged.epsilon), rounds.planned(state))
            return completed(report, plan.job, [whole])

        return await asyncio.to_thread(work)

    async def _reports(
        self, algorithm: Algorithm, params: WireModel, request: JobRequest, plan: JobPlan
    ) -> tuple[PrivacyReport, str]:
        reports, federation = algorithm.reports, plan.federation
        assert reports is not None
        encoding = await asyncio.to_thread(reports.encoding, params, request.stance)
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
        signed = self._conduct.identity.sign(DESCRIPTOR_LABEL, descriptor)
        report = await asyncio.to_thread(reports.preview, params, request.stance)
        digest = descriptor.digest().hex()
        return local(report, plan.job, descriptor=digest), signed.model_dump_json()

    async def add(self, connection: AsyncConnection, asked: Asked) -> JobRow:
        """Begin, in the caller's transaction: from now on curators may be asked."""
        now, request = self._conduct.clock.now(), asked.request
        assert request.federation is not None
        row = JobRow(
            id=asked.id,
            algorithm=request.algorithm,
            version=asked.report.subject.version or "1",
            dataset_id=None,
            federation=request.federation.model_dump_json(exclude_none=True),
            stance=request.stance,
            params=asked.params.model_dump_json(),
            chosen_seed=None,
            preview=asked.report.model_dump_json(),
            price=asked.price.model_dump_json(),
            state=JobState.RUNNING,
            progress=0.0,
            stage="open",
            created=now,
            started=now,
            finished=None,
            error=None,
            secret=None,
            charged=False,
            credited=None,
            cancelling=None,
            attempts=0,
        )
        await store.add(connection, row)
        if asked.descriptor is not None:
            step = StepRow(asked.id, 0, asked.descriptor, None, None, now)
            await job_steps.add(connection, step)
        return row


def plan_of(job_id: str, request: JobRequest, params: WireModel) -> JobPlan:
    """What curators know a job by."""
    assert request.federation is not None
    return plan_from(
        job_id, request.algorithm, request.stance, params.model_dump_json(), request.federation
    )


def plan_from(
    job_id: str, algorithm: str, stance: str, params: str, federation: Federation
) -> JobPlan:
    """The same of a stored job."""
    asked = {
        "algorithm": algorithm,
        "stance": stance,
        "params": json.loads(params),
        "federation": federation.model_dump(mode="json", exclude_none=True),
    }
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    return JobPlan(job_id, algorithm, sha256(text.encode()).digest(), federation)


def _check_registers(federation: Federation) -> None:
    """Raise FederationUnsupported for a unit in which a register cannot be asked."""
    for index, column in enumerate(federation.columns):
        if isinstance(column, RegisterStatistic):
            found = asked_mismatch(column.register_name, column.unit)
            if found is not None:
                place = f"/federation/columns/{index}/{found.field}"
                raise FederationUnsupported(found.detail, pointer=place)
