"""What an attempt at a job may request of the coordinator, under its lease.

A ticket travels in the task graph and is valid for one claim: if Dask silently runs a task again,
the ticket is used already. A claim returns a session, which fetches the data and the secret seed
and submits the outcome. Once a later attempt has begun, or the job has ended, it is refused.

The job is charged in the transaction that first returns its seed: before that no noise exists, and
after it every attempt draws the same.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from common.runtime.clock import Clock
from common.store.transactions import Database, Transaction
from coordinator.datasets import ledger
from coordinator.datasets.datasets import Datasets
from coordinator.errors import AttemptOver, AttemptRefused, LeaseUsed, UnitNotProtected
from coordinator.jobs.privacy_statements import Price, complete, stated
from coordinator.models.job import Assignment, Beat, Failure, JobState, Orders, SecretSeed
from coordinator.settings import CoordinatorSettings
from coordinator.storage_keys import StorageKeys, seed_purpose
from coordinator.store import jobs as store
from coordinator.store.datasets import DatasetRow
from coordinator.store.jobs import AttemptRow, JobRow
from tacit.accounting.amounts import EpsilonDelta
from tacit.report.model import PrivacyReport

RUNNING: Final = (JobState.RUNNING,)
UNFINISHED: Final = (JobState.QUEUED, JobState.RUNNING)
RENEW_SHARE: Final = 8
"""A lease is renewed in the store after this share of it, or when there is something new."""


def digest(token: str) -> str:
    """How tickets and sessions are stored."""
    return sha256(token.encode()).hexdigest()


@dataclass(frozen=True)
class Attempts:
    """The attempts of all jobs; `changed` notifies their followers."""

    database: Database
    datasets: Datasets
    keys: StorageKeys
    settings: CoordinatorSettings
    clock: Clock
    changed: Callable[[], None]

    # --- the lease -------------------------------------------------------------------------------

    async def claim(self, attempt_id: str, ticket: str, worker: str) -> Assignment:
        """Take the lease. Raises LeaseUsed for a second claim."""
        session = secrets.token_urlsafe(32)
        async with self.database.begin() as transaction:
            attempt, job = await self._found(transaction, attempt_id, lock=True)
            if not hmac.compare_digest(attempt.ticket_hash, digest(ticket)):
                raise AttemptRefused
            if attempt.state == store.HELD:
                raise LeaseUsed
            dataset = await self._dataset(transaction, job)
            declaration = await self.datasets.declaration(transaction, dataset)
            lists = await self.datasets.lists(transaction, json.loads(job.params))
            await store.change_attempt(
                transaction,
                attempt_id,
                state=store.HELD,
                session_hash=digest(session),
                holder=worker,
                until=self._until(),
            )
            await store.change(transaction, job.id, RUNNING, stage="reading the data")
        self.changed()
        return Assignment(
            job=job.id,
            algorithm=job.algorithm,
            params_json=job.params,
            lists=lists,
            stance="paper" if job.stance == "paper" else "sound",
            declaration=declaration,
            session=session,
            block_key=self._block_key(attempt),
            memory_bytes=self.settings.job_memory_bytes,
            wall_s=self.settings.job_wall_s,
            lease_s=self.settings.job_lease_s,
        )

    async def block_key(self, attempt_id: str, ticket: str) -> bytes:
        """The key for a worker that computes a block of a running attempt."""
        async with self.database.reading() as transaction:
            attempt, _ = await self._found(transaction, attempt_id)
        if attempt.state != store.HELD or not hmac.compare_digest(
            attempt.ticket_hash, digest(ticket)
        ):
            raise AttemptRefused
        return self._block_key(attempt)

    async def beat(self, attempt_id: str, session: str, beat: Beat) -> Orders:
        """A heartbeat: it renews the lease, and the answer is whether to stop."""
        async with self.database.reading() as transaction:
            attempt, job = await self._held(transaction, attempt_id, session)
        lease = timedelta(seconds=self.settings.job_lease_s)
        stale = attempt.until - self.clock.now() < lease * (1 - 1 / RENEW_SHARE)
        if stale or beat.stage != job.stage or beat.progress - job.progress >= 0.01:
            async with self.database.begin() as transaction:
                # Read again: a delayed heartbeat must not write into a later attempt, nor undo
                # what a later one reported.
                _, job = await self._held(transaction, attempt_id, session, lock=True)
                progress = max(beat.progress, job.progress)
                await store.change(
                    transaction, job.id, RUNNING, progress=progress, stage=beat.stage
                )
                await store.change_attempt(transaction, attempt_id, until=self._until())
            self.changed()
        return Orders(cancel=job.cancelling is not None)

    async def dataset(self, attempt_id: str, session: str) -> DatasetRow:
        """The dataset that the attempt works on."""
        async with self.database.reading() as transaction:
            _, job = await self._held(transaction, attempt_id, session)
            return await self._dataset(transaction, job)

    async def seed(self, attempt_id: str, session: str) -> SecretSeed:
        """The secret seed. The first request charges the job, in the same transaction."""
        async with self.database.begin() as transaction:
            _, job = await self._held(transaction, attempt_id, session, lock=True)
            if not job.charged:
                await self._charge(transaction, job)
        if job.chosen_seed is not None:
            return SecretSeed(chosen=job.chosen_seed)
        assert job.secret is not None
        return SecretSeed(secret=self.keys.open(seed_purpose(job.id), job.secret))

    # --- its end ---------------------------------------------------------------------------------

    async def report_of(
        self, attempt_id: str, session: str, report: PrivacyReport
    ) -> tuple[JobRow, PrivacyReport, EpsilonDelta]:
        """The report of an outcome as it will be published, and the amount to credit."""
        async with self.database.reading() as transaction:
            _, job = await self._held(transaction, attempt_id, session)
            dataset = await self._dataset(transaction, job)
            outside = await ledger.released_outside(transaction, dataset.id)
            await self.keys.refresh(transaction)
        price = Price.model_validate_json(job.price)
        rest = _rest(price, report, dataset)
        charge = EpsilonDelta(price.epsilon - rest.epsilon, price.delta - rest.delta)
        finished = complete(
            report,
            job_id=job.id,
            dataset_id=dataset.id,
            unit=dataset.privacy_unit,
            price=price,
            charged=charge,
            earlier=[item.job_id for item in outside if item.job_id != job.id],
            seeded=job.chosen_seed is not None,
        )
        return job, finished, rest

    async def succeed(
        self, attempt_id: str, session: str, rest: EpsilonDelta, sealed_by: int
    ) -> None:
        """The outcome is stored: the job has succeeded, and its seed is destroyed.

        `sealed_by`: the storage key that sealed the evaluation. Raises StorageKeyUnavailable if a
        rotation has ended meanwhile: the outcome is submitted again.
        """
        now = self.clock.now()
        async with self.database.begin() as transaction:
            await self.keys.admit(transaction, sealed_by)
            _, job = await self._held(transaction, attempt_id, session, lock=True)
            if not job.charged and Price.model_validate_json(job.price).kind == "outside":
                await self._charge(transaction, job)  # it drew no noise, but releases a result
            credited = None
            if rest != EpsilonDelta(0, 0) and job.charged and job.dataset_id is not None:
                await ledger.credit(
                    transaction, job.dataset_id, job.id, rest.epsilon, rest.delta, now
                )
                credited = json.dumps({"epsilon": rest.epsilon, "delta": rest.delta})
            await self._finish(
                transaction, job, JobState.SUCCEEDED, credited=credited, progress=1.0, stage="done"
            )
        self.changed()

    async def fail(self, attempt_id: str, session: str, failure: Failure) -> None:
        """The attempt ended without an outcome, and so does the job."""
        async with self.database.begin() as transaction:
            _, job = await self._held(transaction, attempt_id, session, lock=True)
            if job.cancelling is not None:
                await self._finish(transaction, job, JobState.CANCELLED, stage="cancelled")
            elif failure.cancelled:  # the worker gave up: another attempt may succeed
                await store.end_attempts(transaction, job.id)
            else:
                error = json.dumps(failure.problem or {})
                await self._finish(transaction, job, JobState.FAILED, error=error, stage="failed")
        self.changed()

    async def end(self, job_id: str, state: JobState, problem: dict[str, Any] | None) -> bool:
        """End an unfinished job regardless of its attempt; return whether it was unfinished."""
        async with self.database.begin() as transaction:
            job = await store.find(transaction, job_id, lock=True)
            if job is None or job.state not in UNFINISHED:
                return False
            error = None if problem is None else json.dumps(problem)
            await self._finish(transaction, job, state, error=error, stage=state.value)
        self.changed()
        return True

    async def _finish(
        self, transaction: Transaction, job: JobRow, state: JobState, **values: Any
    ) -> None:
        now = self.clock.now()
        price = Price.model_validate_json(job.price)
        if price.kind == "budget" and not job.charged and job.dataset_id is not None:
            await ledger.give_back(transaction, job.dataset_id, job.id, now)
        await store.end_attempts(transaction, job.id)
        await store.change(
            transaction, job.id, UNFINISHED, state=state, finished=now, secret=None, **values
        )

    # --- parts -----------------------------------------------------------------------------------

    async def _charge(self, transaction: Transaction, job: JobRow) -> None:
        price, now = Price.model_validate_json(job.price), self.clock.now()
        assert job.dataset_id is not None
        if price.kind == "budget":
            await ledger.charge(transaction, job.dataset_id, job.id, now)
        elif price.kind == "outside":
            reason = price.reason or ""
            await ledger.release_outside_budget(transaction, job.dataset_id, job.id, reason, now)
        await store.change(transaction, job.id, RUNNING, charged=True)

    async def _found(
        self, transaction: Transaction, attempt_id: str, *, lock: bool = False
    ) -> tuple[AttemptRow, JobRow]:
        """An attempt in progress. `lock`: lock its job, always before the attempt."""
        attempt = await store.attempt(transaction, attempt_id)
        if attempt is None:
            raise AttemptRefused
        job = await store.find(transaction, attempt.job_id, lock=lock)
        if lock:
            attempt = await store.attempt(transaction, attempt_id)
        assert attempt is not None
        assert job is not None
        if attempt.state == store.OVER or job.state is not JobState.RUNNING:
            raise AttemptOver
        return attempt, job

    async def _held(
        self, transaction: Transaction, attempt_id: str, session: str, *, lock: bool = False
    ) -> tuple[AttemptRow, JobRow]:
        attempt, job = await self._found(transaction, attempt_id, lock=lock)
        session_kept = attempt.session_hash or ""
        if attempt.state != store.HELD or not hmac.compare_digest(session_kept, digest(session)):
            raise AttemptRefused
        return attempt, job

    async def _dataset(self, transaction: Transaction, job: JobRow) -> DatasetRow:
        assert job.dataset_id is not None
        return await self.datasets.find(transaction, job.dataset_id)

    def _until(self) -> datetime:
        return self.clock.now() + timedelta(seconds=self.settings.job_lease_s)

    def _block_key(self, attempt: AttemptRow) -> bytes:
        return self.keys.of(attempt.generation).derive(f"job blocks {attempt.id}")


def _rest(price: Price, report: PrivacyReport, dataset: DatasetRow) -> EpsilonDelta:
    """The amount that an algorithm did not spend because its own published rule ended it early."""
    charge = report.charged
    if price.kind != "budget" or charge is None or charge.reserved is None:
        return EpsilonDelta(0, 0)
    try:
        amount_stated = stated(report, dataset.privacy_unit).amount
    except UnitNotProtected:
        return EpsilonDelta(0, 0)
    return EpsilonDelta(
        max(0, price.epsilon - amount_stated.epsilon), max(0, price.delta - amount_stated.delta)
    )
