"""Advances every federated job, also after a restart; the routes of curators.

Spec: jobs, "Federated jobs". The stored rows are a job's whole state: its steps and the sums that
were opened, or the reports that arrived. Curators long-poll for jobs that collect reports now,
fetch steps, and send their noisy reports.
"""

from __future__ import annotations

import json
from typing import Any, Final

from fastapi import Request, Response

from common.runtime.logs import describe, get_logger
from common.runtime.tasks import Repeating
from common.store.failures import store_failed
from common.web.wire import etag_response
from coordinator.jobs.federated import lifecycle
from coordinator.jobs.federated.computing import Computing
from coordinator.jobs.federated.lifecycle import Desk, JobEnded
from coordinator.jobs.federated.reports import Collection
from coordinator.jobs.federated.rounds import Rounds
from coordinator.models.job import JobState, plain_problem
from coordinator.rounds.notifications import Changes
from coordinator.store import jobs as store
from coordinator.store.jobs import JobRow
from coordinator.web import encode
from tacit.errors import DomainError
from tacit.protocol.federation import Federation

log = get_logger("tacit.federated")

LOOK_S: Final = 0.5


class Federated(Repeating):
    """The coordinator's loop over federated jobs. Every process has one."""

    def __init__(self, desk: Desk) -> None:
        super().__init__("look", log, LOOK_S, version=desk.conduct.database.version)
        self._desk = desk
        self.computing = Computing(desk.attempts.settings, self.wake)
        self.rounds = Rounds(desk, self.computing)
        self.collection = Collection(desk, self.computing)
        self._problems: dict[str, str] = {}

    async def stop(self) -> None:
        """Stop; the next start continues from the stored state."""
        await super().stop()
        await self.computing.stop()

    async def look(self) -> bool:
        """Advance every job that can advance; if one did, the next pass follows immediately."""
        running = await self._desk.conduct.database.read(store.federated)
        self.computing.keep_only(job.id for job in running if job.cancelling is None)
        moved = False
        for job in running:
            if self._pauses.ending:
                break
            moved |= await self._carry(job)
        if moved:
            self.wake()
        return not running

    async def _carry(self, job: JobRow) -> bool:
        """Make the transition of a job that is due; return whether there was one."""
        federation = Federation.model_validate_json(job.federation or "")
        collect = self.rounds if federation.collect == "rounds" else self.collection
        try:
            if job.cancelling is not None:
                await collect.drop(job)
                await lifecycle.settle(self._desk.conduct, job.id)
                await self._desk.attempts.end(job.id, JobState.CANCELLED, None)
                return True
            moved = await collect.carry(job)
        except JobEnded as ended:
            await self._fail(job, ended.problem)
            return True
        except Exception as error:
            name = error.name if isinstance(error, DomainError) else type(error).__name__
            if store_failed(error) and not isinstance(error, MemoryError):
                self._note(job, name)
                return False
            if not isinstance(error, DomainError):
                log.error("job_failed", job=job.id, **describe(error))
            await self._fail(job, error)
            return True
        self._problems.pop(job.id, None)
        return moved

    async def _fail(self, job: JobRow, error: Exception) -> None:
        await lifecycle.settle(self._desk.conduct, job.id)
        await self._desk.attempts.end(job.id, JobState.FAILED, plain_problem(error))

    def _note(self, job: JobRow, name: str) -> None:
        if self._problems.get(job.id) != name:  # once, not at every pass
            log.warning("job_waits", job=job.id, problem=name)
        self._problems[job.id] = name


async def collecting(
    request: Request, collection: Collection, changes: Changes, wait_s: float
) -> Response:
    """The signed descriptors of the jobs that collect reports now, each with its hash."""
    first_look = request.headers.get("if-none-match") is None
    looked = changes.shared("collecting", collection.descriptors)

    async def look() -> tuple[Response, bool]:
        statuses = await looked()
        items: list[dict[str, Any]] = [
            {
                "id": item.statement.job,
                "algorithm": item.statement.algorithm,
                "hash": item.statement.digest().hex(),
                "descriptor": json.loads(item.model_dump_json()),
            }
            for item in statuses
        ]
        answer = etag_response(request, encode({"jobs": items}))
        return answer, answer.status_code == 304 or (first_look and not items)

    return await changes.poll(look, wait_s, key="collecting")
