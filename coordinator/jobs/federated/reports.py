"""A federated job by reports: curators perturb their own rows and send the result.

Spec: jobs, "Federated jobs"; crowd-tasking, section 2. A report is stored as received, once for
each (curator, record, round). The same report again is accepted; a different one is refused, since
its fresh noise could be averaged with the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from common.store.database import exclusive
from common.store.transactions import Transaction
from coordinator.errors import (
    CollectionOver,
    DescriptorUnknown,
    TooFewReports,
    UnknownJob,
)
from coordinator.jobs.federated.computing import Computing, aggregated
from coordinator.jobs.federated.lifecycle import Desk, Ending, JobEnded
from coordinator.jobs.privacy_statements import local
from coordinator.models.job import JobState
from coordinator.store import jobs as store
from coordinator.store import registry
from coordinator.store.jobs import JobRow, ReportRow, StepRow
from tacit.crypto.signing import Signed
from tacit.encoders.sums import read_encoding
from tacit.protocol.federation import Descriptor, Federation, Report, Reports

COLLECTING_SHARE: Final = 0.9
NOT_YOURS: Final = "the caller does not speak for this curator"
OTHER_BYTES: Final = "another report was sent for this record and round"
FULL: Final = "as many curators as the job takes have reported"


@dataclass(frozen=True)
class Answer:
    """The outcome of one report: 201 stored, 200 known, or 403, 409, 422 with the reason."""

    status: int
    detail: str | None = None


class Collection:
    """Stores reports, and advances the jobs that collect them."""

    def __init__(self, desk: Desk, computing: Computing) -> None:
        self._desk, self._conduct, self._computing = desk, desk.conduct, computing

    async def descriptors(self) -> list[Signed[Descriptor]]:
        """The descriptors of all jobs that collect now."""
        now = self._conduct.clock.now()

        async def steps(transaction: Transaction) -> list[StepRow | None]:
            jobs = await store.federated(transaction)
            return [await store.find_step(transaction, job.id, 0) for job in jobs]

        rows = await self._conduct.database.read(steps)
        descriptors_found = [_signed(row.document) for row in rows if row is not None]
        return [item for item in descriptors_found if now < item.statement.deadline]

    # --- taking ----------------------------------------------------------------------------------

    async def take(self, job_id: str, party: str, body: Reports) -> list[Answer]:
        """One answer for each report. Raises UnknownJob, CollectionOver, DescriptorUnknown."""
        async with self._conduct.database.reading() as transaction:
            job = await store.find(transaction, job_id)
            row = await store.find_step(transaction, job_id, 0)
            speaks = set(await registry.curators_of(transaction, party))
        if job is None or row is None:
            raise UnknownJob
        descriptor = _signed(row.document).statement
        if descriptor.digest() != body.descriptor:
            raise DescriptorUnknown(pointer="/descriptor")
        refusals = await asyncio.to_thread(_refusals, descriptor, body.reports)
        async with self._conduct.database.begin() as transaction:
            await exclusive(transaction, f"reports {job_id}")
            job = await store.find(transaction, job_id)
            now = self._conduct.clock.now()
            if job is None or job.state is not JobState.RUNNING or now >= descriptor.deadline:
                raise CollectionOver
            keys = [(item.curator, item.record, item.round) for item in body.reports]
            bodies = await store.known_reports(transaction, job_id, keys)
            reporting = await store.reporting_curators(transaction, job_id)
            answers, new = [], []
            for item, refusal in zip(body.reports, refusals, strict=True):
                answer = _answer(item, refusal, speaks, bodies, reporting, descriptor.n_max)
                answers.append(answer)
                if answer.status == 201:
                    stored = ReportRow(item.curator, item.record, item.round, _body(item))
                    bodies[stored.key] = stored.body
                    reporting.add(item.curator)
                    new.append(stored)
            await store.add_reports(transaction, job_id, new, now)
        return answers

    # --- carrying --------------------------------------------------------------------------------

    async def drop(self, job: JobRow) -> None:
        """Delete the received reports: they are no longer needed."""
        async with self._conduct.database.begin() as transaction:
            await store.forget_reports(transaction, job.id)

    async def carry(self, job: JobRow) -> bool:
        """Make the transition that is due; return whether there was one."""
        if job.id in self._computing:
            return await self._finished(job)
        descriptor = await self._descriptor(job.id)
        now = self._conduct.clock.now()
        if now < descriptor.deadline:
            await self._desk.tell(job, "collecting", _share(descriptor, now))
            return False
        await self._desk.tell(job, "aggregating", COLLECTING_SHARE)
        async with self._conduct.database.begin() as transaction:
            await exclusive(transaction, f"reports {job.id}")  # no report is being stored now
            rows = await store.reports_of_job(transaction, job.id)
            _, size = await registry.roster_state(transaction)
            offered = await registry.active_curators(transaction, size, now)
        reported = len({row.curator for row in rows})
        if reported < descriptor.min_participants:
            await self.drop(job)
            raise JobEnded(TooFewReports(extra={"min_participants": descriptor.min_participants}))
        federation = Federation.model_validate_json(job.federation or "")
        self._computing.begin(
            job.id,
            aggregated,
            job.algorithm,
            job.params,
            "paper" if job.stance == "paper" else "sound",
            federation.names,
            [(row.curator, row.record, row.body) for row in rows],
            max(offered, reported),
        )
        return True

    async def _finished(self, job: JobRow) -> bool:
        """Whether the aggregation has ended; if so, its result is stored."""
        try:
            outcome = self._computing.outcome(job.id)
        except Exception:
            await self.drop(job)
            raise
        if outcome is None:
            return False
        descriptor = await self._descriptor(job.id)
        report = local(outcome.report, job.id, descriptor=descriptor.digest().hex())
        await self._desk.succeed(job, Ending(outcome, report))
        await self.drop(job)
        return True

    async def _descriptor(self, job_id: str) -> Descriptor:
        async with self._conduct.database.reading() as transaction:
            row = await store.find_step(transaction, job_id, 0)
        assert row is not None
        return _signed(row.document).statement


def _answer(
    item: Report,
    refusal: str | None,
    speaks: set[str],
    known: dict[store.ReportKey, str],
    reporting: set[str],
    most: int,
) -> Answer:
    if item.curator not in speaks:
        return Answer(403, NOT_YOURS)
    before = known.get((item.curator, item.record, item.round))
    if before is not None:
        return Answer(200) if before == _body(item) else Answer(409, OTHER_BYTES)
    if refusal is not None:
        return Answer(422, refusal)
    if item.curator not in reporting and len(reporting) >= most:
        return Answer(409, FULL)
    return Answer(201)


def _body(item: Report) -> str:
    return item.canonical().decode()


def _signed(text: str) -> Signed[Descriptor]:
    return Signed[Descriptor].model_validate_json(text)


def _share(descriptor: Descriptor, now: datetime) -> float:
    """The share of the collecting time that is over, in steps of a twentieth."""
    over = (now - descriptor.opened) / (descriptor.deadline - descriptor.opened)
    return COLLECTING_SHARE * int(max(0.0, over) * 20) / 20


def _refusals(descriptor: Descriptor, reports: Sequence[Report]) -> list[str | None]:
    encoding = read_encoding(descriptor.algorithm, descriptor.encoding)
    return [encoding.refusal(report) for report in reports]
