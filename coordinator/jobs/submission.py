"""A job is checked against its schema and its dataset, priced, and only then queued.

Spec: jobs, "Parameters" and "Jobs". Every error is reported before a row is stored. The result of
the check against the rows depends on raw data and is returned only to the operator who submits.
"""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from algorithms import catalogue
from algorithms.contract import Algorithm
from algorithms.datasets.declaration import DatasetDeclaration
from algorithms.datasets.kinds import WrongKind, read
from common.bodies import invalid_from
from common.runtime.clock import uuid7
from common.runtime.compute_processes import apart
from common.store.transactions import Transaction
from coordinator.datasets import ledger
from coordinator.datasets.datasets import Datasets
from coordinator.errors import (
    AlgorithmRefused,
    SeedNotAllowed,
    StanceRefused,
    UnverifiedNotAcknowledged,
)
from coordinator.jobs.federated.preparation import Asked, FederatedAsking
from coordinator.jobs.privacy_statements import Price, complete, price_of
from coordinator.models.job import JobRequest, JobState
from coordinator.storage_keys import StorageKeys, seed_purpose
from coordinator.store import jobs as store
from coordinator.store.datasets import DatasetRow
from coordinator.store.jobs import JobRow
from tacit.errors import DomainError, FieldError, Invalid
from tacit.randomness import SEED_BYTES
from tacit.report.model import PrivacyReport, Stance
from tacit.wire import WireModel

CHECKED_BYTES: Final = 256 * 1024 * 1024
"""Of a larger dataset only the sizes are checked before a job is queued. The worker checks the rest
before any noise is drawn: a job that does not fit fails there with the same problem, and its
reservation is released."""


@dataclass(frozen=True)
class Prepared:
    """A job that may be queued or previewed."""

    id: str
    request: JobRequest
    algorithm: Algorithm
    params: WireModel
    dataset: DatasetRow
    report: PrivacyReport
    price: Price


Ready = Prepared | Asked


class Submission:
    """Checks and queues jobs: on a stored dataset, or by `federated` at curators."""

    def __init__(self, datasets: Datasets, keys: StorageKeys, federated: FederatedAsking) -> None:
        self._datasets, self._keys, self._federated = datasets, keys, federated
        self._one_check = asyncio.Semaphore(1)

    async def prepare(self, request: JobRequest) -> Ready:
        """Make every check that needs no ledger."""
        if request.algorithm not in catalogue.NAMES:
            raise AlgorithmRefused(catalogue.none_such(request.algorithm), pointer="/algorithm")
        algorithm = await asyncio.to_thread(catalogue.find, request.algorithm)
        if request.stance not in algorithm.stances:
            raise StanceRefused(pointer="/stance")
        if request.dataset is not None:
            return await self._prepare_on(request.dataset, algorithm, request)
        if request.federation is not None and request.federation.schedule is not None:
            reason = "a job is asked once, by a window; POST /v1/job-schedules asks repeatedly"
            raise Invalid(reason, pointer="/federation/schedule")
        params = validated(algorithm, request.params)
        return await self._federated.prepare(algorithm, params, request)

    async def _prepare_on(
        self, dataset_id: str, algorithm: Algorithm, request: JobRequest
    ) -> Prepared:
        """Check a job on a dataset that is stored here."""
        seeded = request.seed is not None
        if seeded and not self._seed_allowed(request):
            raise SeedNotAllowed(pointer="/seed")
        job_id = str(uuid7(self._datasets.clock))
        async with self._datasets.database.reading() as transaction:
            dataset = await self._datasets.find(transaction, dataset_id)
            params_json = _with_declared_universe(algorithm, request, dataset.declaration)
            params = validated(algorithm, params_json)
            outside = await ledger.released_outside(transaction, dataset.id)
            declaration = await self._datasets.declaration(transaction, dataset)
            lists = await self._datasets.lists(transaction, params_json)
        if dataset.kind != algorithm.dataset_kind:
            raise WrongKind(
                f"the algorithm takes a dataset of kind {algorithm.dataset_kind}",
                pointer="/dataset",
            )
        full = params.model_copy(update=lists)
        report = await apart(_preview, request.algorithm, full, request.stance)
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
        if dataset.bytes > CHECKED_BYTES:
            algorithm.check_outline(dataset.outline, full, request.stance)
        else:
            async with self._one_check:
                content = await asyncio.to_thread(self._content, dataset, declaration)
                await asyncio.to_thread(algorithm.check, content, full, request.stance)
        return Prepared(job_id, request, algorithm, params, dataset, report, price)

    def _seed_allowed(self, request: JobRequest) -> bool:
        return request.stance == "paper" or self._datasets.settings.insecure_allow_seed

    def _content(self, dataset: DatasetRow, declaration: DatasetDeclaration) -> Any:
        with self._datasets.open_content(dataset) as stream:
            return read(declaration, stream)

    async def add(self, transaction: Transaction, prepared: Ready) -> JobRow:
        """Reserve and queue, in the caller's transaction. Raises what `ledger.reserve` raises."""
        if isinstance(prepared, Asked):
            return await self._federated.add(transaction, prepared)
        now, price, request = self._datasets.clock.now(), prepared.price, prepared.request
        if price.kind == "budget":
            await ledger.reserve(
                transaction, prepared.dataset.id, prepared.id, price.epsilon, price.delta, now
            )
        await self._keys.hold(transaction)
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
            stage="queued",
            created=now,
            secret=self._keys.seal(seed_purpose(prepared.id), seed),
        )
        await store.add(transaction, row)
        return row


def _with_declared_universe(
    algorithm: Algorithm, request: JobRequest, declaration: DatasetDeclaration
) -> dict[str, Any]:
    """The parameters; a sound job without a universe gets the one that its dataset declares.
    `paper` takes it from the data, as its source does."""
    needs_one = "universe" in algorithm.params.model_fields and "universe" not in request.params
    if not needs_one or request.stance == "paper" or declaration.universe is None:
        return request.params
    return request.params | declaration.model_dump(mode="json", include={"universe"})


def _preview(name: str, params: WireModel, stance: Stance) -> PrivacyReport:
    return catalogue.find(name).preview(params, stance)


def validated(algorithm: Algorithm, params: dict[str, Any]) -> WireModel:
    """The parameters with their defaults. Raises Invalid with pointers into `/params`."""
    try:
        return algorithm.params.model_validate_json(json.dumps(params))
    except ValidationError as error:
        raise _below_params(invalid_from(error, params)) from None


def _below_params(error: DomainError) -> DomainError:
    """The same problem, with pointers into the whole request."""
    if not isinstance(error, Invalid):
        return error
    errors_found = [FieldError(f"/params{item.pointer}", item.message) for item in error.errors]
    return Invalid(error.detail, errors=errors_found)
