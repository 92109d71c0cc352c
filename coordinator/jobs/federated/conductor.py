"""Advances every federated job, also after a restart; the routes of curators.

Spec: jobs, "Federated jobs". The stored rows are a job's whole state: its steps and the sums that
were opened, or the reports that arrived. Curators long-poll for jobs that collect reports now,
fetch steps, and send their noisy reports.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from fastapi import Depends, FastAPI, Path, Request, Response
from starlette.responses import JSONResponse

from common.runtime.logs import describe, get_logger
from common.runtime.tasks import Repeating
from common.store.failures import store_failed
from common.web.dependencies import part
from common.web.openapi import gives, takes
from common.web.wire import etag_response, read_body
from coordinator import examples
from coordinator.errors import UnknownPart
from coordinator.jobs.federated import lifecycle
from coordinator.jobs.federated.lifecycle import Desk, JobEnded
from coordinator.jobs.federated.reports import Collection
from coordinator.jobs.federated.rounds import Rounds
from coordinator.models.job import JobState, plain_problem
from coordinator.rounds.notifications import Changes
from coordinator.store import federated_jobs
from coordinator.store import jobs as store
from coordinator.store.jobs import JobRow
from coordinator.web import DatabasePart, Party, Reader, encode
from tacit.answers.jobs import ReportsTaken
from tacit.errors import DomainError
from tacit.protocol.federation import FederatedStep, Federation, Reports

log = get_logger("tacit.federated")

LOOK_S: Final = 0.5


class Federated(Repeating):
    """The coordinator's loop over federated jobs. Every process has one."""

    def __init__(self, desk: Desk) -> None:
        super().__init__("look", log, LOOK_S, version=desk.conduct.database.version)
        self._desk = desk
        self.rounds, self.collection = Rounds(desk), Collection(desk)
        self._problems: dict[str, str] = {}

    async def stop(self) -> None:
        """Stop; the next start continues from the stored state."""
        await super().stop()
        await self.collection.stop()

    async def look(self) -> bool:
        """Advance every job that can advance; if one did, the next pass follows immediately."""
        async with self._desk.conduct.database.reading() as transaction:
            running = await store.federated(transaction)
        self.collection.keep_only(job.id for job in running)
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


# The long poll of curators for the jobs that collect reports now.


async def collecting(
    request: Request, collection: Collection, changes: Changes, wait_s: float
) -> Response:
    """The signed descriptors of the jobs that collect reports now, each with its hash."""
    first_look = request.headers.get("if-none-match") is None
    looked = changes.shared("collecting", collection.descriptors)

    async def look() -> tuple[Response, bool]:
        found = await looked()
        items: list[dict[str, Any]] = [
            {
                "id": item.statement.job,
                "algorithm": item.statement.algorithm,
                "hash": item.statement.digest().hex(),
                "descriptor": json.loads(item.model_dump_json()),
            }
            for item in found
        ]
        answer = etag_response(request, encode({"jobs": items}))
        return answer, answer.status_code == 304 or (first_look and not items)

    return await changes.poll(look, wait_s, key="collecting")


# Routes by which curators participate in federated jobs: steps, and their noisy reports.

Number = Annotated[int, Path(ge=0, lt=2**31)]


def add_reports(app: FastAPI) -> None:
    """Add them to the app."""

    @app.get(
        "/v1/jobs/{job_id}/steps/{number}",
        **gives(FederatedStep),
        tags=["jobs"],
        summary="What one round of a federated job asks of each curator",
    )
    async def get_job_step(
        request: Request, job_id: str, number: Number, database: DatabasePart, _: Reader
    ) -> Response:
        async with database.reading() as transaction:
            found = await federated_jobs.find_step(transaction, job_id, number)
        if found is None:
            raise UnknownPart
        return etag_response(request, found.document.encode())

    @app.post(
        "/v1/jobs/{job_id}/reports",
        **gives(ReportsTaken),
        tags=["jobs"],
        summary="Noisy reports of a party's curators; one answer for each",
        openapi_extra=takes(Reports, examples.REPORTS),
    )
    async def submit_job_reports(
        request: Request,
        job_id: str,
        federated: Annotated[Federated, Depends(part(Federated))],
        caller: Party,
    ) -> Response:
        body = await read_body(request, Reports)
        answers = await federated.collection.take(job_id, caller.subject or "", body)
        items = [answer.document(index) for index, answer in enumerate(answers)]
        return JSONResponse({"reports": items})
