"""A job is checked against its schema and its dataset, priced, and only then queued.

Spec: jobs, "Parameters" and "Jobs". Whatever is wrong is an error before a row exists; what the
check against the rows says depends on raw data and goes to the operator who submits.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from algorithms import catalogue
from algorithms.contract import Algorithm
from common.datasets.kinds import WrongKind, read
from common.errors import DomainError, FieldError, Invalid
from common.models.base import WireModel
from common.models.dataset import DatasetDeclaration
from common.models.job import JobRequest, JobState
from common.models.report import PrivacyReport
from common.randomness import SEED_BYTES
from common.service.clock import Clock, uuid7
from common.service.database import reading
from common.service.problems import invalid_from
from coordinator.datasets import ledger
from coordinator.datasets.holding import Datasets
from coordinator.errors import (
    AlgorithmRefused,
    FederationUnsupported,
    SeedNotAllowed,
    StanceRefused,
    UnverifiedNotAcknowledged,
)
from coordinator.jobs.federated_asking import Asked, FederatedAsking
from coordinator.jobs.prices import Price, price_of
from coordinator.jobs.statements import complete
from coordinator.settings import CoordinatorSettings
from coordinator.storage_key import StorageKey
from coordinator.store import jobs as store
from coordinator.store.datasets import DatasetRow
from coordinator.store.jobs import JobRow

CHECKED_BYTES: Final = 256 * 1024 * 1024
"""Of a larger dataset only the sizes are checked before a job is queued; the rest is checked by the
worker, before any noise is drawn: a job that does not fit fails there with the same problem, and
its reservation is given back."""


def seed_purpose(job_id: str) -> str:
    """What a job's sealed seed is bound to."""
    return f"job seed {job_id}"


@dataclass(frozen=True)
class Prepared:
    """A job that may be queued, or only looked at."""

    id: str
    request: JobRequest
    algorithm: Algorithm
    params: WireModel
    dataset: DatasetRow
    report: PrivacyReport
    price: Price


Ready = Prepared | Asked


class Submission:
    """Checks and queues jobs. One dataset at a time is looked through here."""

    def __init__(
        self,
        engine: AsyncEngine,
        datasets: Datasets,
        key: StorageKey,
        settings: CoordinatorSettings,
        clock: Clock,
        federated: FederatedAsking | None = None,
    ) -> None:
        self._engine, self._datasets, self._key = engine, datasets, key
        self._federated = federated
        self._settings, self._clock = settings, clock
        self._one_look = asyncio.Semaphore(1)

    async def prepare(self, request: JobRequest) -> Ready:
        """Everything that can be refused without the ledger."""
        if request.algorithm not in catalogue.NAMES:
            raise AlgorithmRefused(pointer="/algorithm")
        algorithm = await asyncio.to_thread(catalogue.find, request.algorithm)
        if request.stance not in algorithm.stances:
            raise StanceRefused(pointer="/stance")
        if request.dataset is None:
            if self._federated is None:
                raise FederationUnsupported(pointer="/federation")
            if request.federation is not None and request.federation.schedule is not None:
                reason = "a job is asked once, by a window; POST /v1/job-schedules asks repeatedly"
                raise Invalid(reason, pointer="/federation/schedule")
            params = validated(algorithm, request.params)
            return await self._federated.prepare(algorithm, params, request)
        if request.seed is not None and not self._seed_allowed(request):
            raise SeedNotAllowed(pointer="/seed")
        params = validated(algorithm, request.params)
        job_id = str(uuid7(self._clock))
        async with reading(self._engine) as connection:
            dataset = await self._datasets.find(connection, request.dataset)
            outside = await ledger.released_outside(connection, dataset.id)
            declaration = await self._datasets.declaration(connection, dataset)
            lists = await self._datasets.lists(connection, request.params)
        if dataset.kind != algorithm.dataset_kind:
            raise WrongKind(
                f"the algorithm takes a dataset of kind {algorithm.dataset_kind}",
                pointer="/dataset",
            )
        full = params.model_copy(update=lists)
        report = await asyncio.to_thread(algorithm.preview, full, request.stance)
        seeded = request.seed is not None
        price = price_of(report, dataset.privacy_unit, seeded=seeded)
        production = dataset.purpose == "production"
        if price.kind == "outside" and production and not request.acknowledge_unverified:
            raise UnverifiedNotAcknowledged(price.reason or "", pointer="/acknowledge_unverified")
        report = complete(
            report,
            job_id=job_id,
            dataset_id=dataset.id,
            unit=dataset.privacy_unit,
            price=price,
            charged=price.amount,
            earlier=[item.job_id for item in outside],
            seeded=seeded,
        )
        if dataset.bytes <= CHECKED_BYTES:
            async with self._one_look:
                await asyncio.to_thread(self._look, algorithm, full, request, dataset, declaration)
        else:
            algorithm.check_outline(dataset.outline, full, request.stance)
        return Prepared(job_id, request, algorithm, params, dataset, report, price)

    def _seed_allowed(self, request: JobRequest) -> bool:
        return request.stance == "paper" or self._settings.insecure_allow_seed

    def _look(
        self,
        algorithm: Algorithm,
        params: WireModel,
        request: JobRequest,
        dataset: DatasetRow,
        declaration: DatasetDeclaration,
    ) -> None:
        with self._datasets.open_content(dataset) as stream:
            content = read(declaration, stream)
        algorithm.check(content, params, request.stance)

    async def add(self, connection: AsyncConnection, prepared: Ready) -> JobRow:
        """Reserve and queue, in the caller's transaction. Raises what `ledger.reserve` raises."""
        if isinstance(prepared, Asked):
            assert self._federated is not None
            return await self._federated.add(connection, prepared)
        now, price, request = self._clock.now(), prepared.price, prepared.request
        if price.kind == "budget":
            await ledger.reserve(
                connection, prepared.dataset.id, prepared.id, price.epsilon, price.delta, now
            )
        seed = os.urandom(SEED_BYTES)
        row = JobRow(
            id=prepared.id,
            algorithm=request.algorithm,
            version=prepared.report.subject.version or "1",
            dataset_id=prepared.dataset.id,
            federation=None,
            stance=request.stance,
            params=prepared.params.model_dump_json(),
            chosen_seed=request.seed,
            preview=prepared.report.model_dump_json(),
            price=price.model_dump_json(),
            state=JobState.QUEUED,
            progress=0.0,
            stage="queued",
            created=now,
            started=None,
            finished=None,
            error=None,
            secret=self._key.seal(seed_purpose(prepared.id), seed),
            charged=False,
            credited=None,
            cancelling=None,
            attempts=0,
        )
        await store.add(connection, row)
        return row


def validated(algorithm: Algorithm, params: dict[str, Any]) -> WireModel:
    """The parameters with their defaults. Raises Invalid with pointers into `/params`."""
    try:
        return algorithm.params.model_validate_json(json.dumps(params))
    except ValidationError as error:
        raise _inside(invalid_from(error, params)) from None


def _inside(error: DomainError) -> DomainError:
    if not isinstance(error, Invalid):
        return error
    found = [FieldError(f"/params{item.pointer}", item.message) for item in error.errors]
    return Invalid(error.detail, errors=found)
