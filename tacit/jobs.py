"""Calls about algorithms and jobs (coordinator): asking, following, ending, reading results."""

from __future__ import annotations

import time
from typing import Final
from uuid import uuid4

import httpx

from tacit.exchange import Item, Json, Request, Steps, Stream, creating, get, pages
from tacit.operation import operation, stream

FINISHED: Final = ("succeeded", "failed", "cancelled")
POLL_S: Final = 20.0
_PLAIN: Final = {"Accept": "text/plain"}


class JobNotSucceeded(Exception):
    """The job failed or was cancelled; `job` is how it ended."""

    def __init__(self, job: Json) -> None:
        error = job.get("error") or {}
        super().__init__(f"the job {job['state']}: {error.get('detail', 'no reason is given')}")
        self.job = job


def _algorithms() -> Steps[list[Json]]:
    """The algorithms that run as jobs."""
    answer: httpx.Response = yield get("/v1/algorithms")
    found: list[Json] = answer.json()["algorithms"]
    return found


def _algorithm(name: str) -> Steps[Json]:
    """One algorithm: what it is for, and the JSON Schema of its parameters."""
    return (yield from _json(get(f"/v1/algorithms/{name}")))


def _submit_job(job: Json, *, key: str | None = None) -> Steps[Json]:
    """Ask for a job: {"algorithm", "dataset", "params", "stance"}; the answer has its preview."""
    return (yield from _json(creating("/v1/jobs", job, key or uuid4().hex)))


def _preview_job(job: Json) -> Steps[Json]:
    """The privacy report that a job would carry, and what it would cost; nothing is queued."""
    return (yield from _json(Request("POST", "/v1/jobs/preview", job, repeatable=True)))


def _jobs(
    *,
    state: str | None = None,
    algorithm: str | None = None,
    dataset: str | None = None,
    schedule: str | None = None,
) -> Stream[Json]:
    """Jobs, the newest first; `schedule`: only the runs of one."""
    filters = {"state": state, "algorithm": algorithm, "dataset": dataset, "schedule": schedule}
    yield from pages("/v1/jobs", "jobs", filters)


def _job(job_id: str) -> Steps[Json]:
    """One job: state, progress, stage, budget, error."""
    return (yield from _json(get(f"/v1/jobs/{job_id}")))


def _watch_job(job_id: str, timeout_s: float = 3600.0) -> Stream[Json]:
    """The job each time it changes, until it has finished; raises TimeoutError."""
    end = time.monotonic() + timeout_s
    tag = ""
    while True:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"job {job_id} is not finished after {timeout_s:.0f} s")
        wait_s = min(POLL_S, left)
        answer: httpx.Response = yield Request(
            "GET",
            f"/v1/jobs/{job_id}",
            params={"wait_s": wait_s},
            headers={"If-None-Match": tag},
            repeatable=True,
            wait_s=wait_s,
        )
        if answer.status_code == 304:
            continue
        tag = answer.headers.get("etag", "")
        state: Json = answer.json()
        yield Item(state)
        if state["state"] in FINISHED:
            return


def _wait_for_job(job_id: str, timeout_s: float = 3600.0) -> Steps[Json]:
    """The result of a job once it has succeeded; raises JobNotSucceeded."""
    watching = _watch_job(job_id, timeout_s)
    step = next(watching)
    while True:
        if isinstance(step, Item):
            if step.value["state"] == "succeeded":
                return (yield from _job_result(job_id))
            if step.value["state"] in FINISHED:
                raise JobNotSucceeded(step.value)
            step = next(watching)
        else:
            step = watching.send((yield step))


def _cancel_job(job_id: str) -> Steps[Json]:
    """Cancel a job; what it was charged stays charged if noise was drawn."""
    return (yield from _json(Request("DELETE", f"/v1/jobs/{job_id}", repeatable=True)))


def _job_result(job_id: str) -> Steps[Json]:
    """The published result."""
    return (yield from _json(get(f"/v1/jobs/{job_id}/result")))


def _job_report(job_id: str) -> Steps[Json]:
    """The privacy report of a job's result."""
    return (yield from _json(get(f"/v1/jobs/{job_id}/report")))


def _job_report_words(job_id: str) -> Steps[str]:
    """The same in plain words."""
    answer: httpx.Response = yield Request(
        "GET", f"/v1/jobs/{job_id}/report", headers=_PLAIN, repeatable=True
    )
    return answer.text


def _job_file(job_id: str, name: str) -> Steps[bytes]:
    """A native file of the result."""
    return (yield from _content(f"/v1/jobs/{job_id}/files/{name}"))


def _job_plot(job_id: str, name: str) -> Steps[bytes]:
    """A plot of published values: NAME.svg or NAME.png."""
    return (yield from _content(f"/v1/jobs/{job_id}/plots/{name}"))


def _job_archive(job_id: str) -> Steps[bytes]:
    """All published parts in one zip."""
    return (yield from _content(f"/v1/jobs/{job_id}/archive"))


def _job_evaluation(job_id: str) -> Steps[Json]:
    """The comparison with the true data, for the operator: never private, never published."""
    return (yield from _json(get(f"/v1/jobs/{job_id}/evaluation")))


def _collecting_jobs() -> Steps[list[Json]]:
    """The jobs that collect reports now: their signed descriptors, for curators."""
    answer: httpx.Response = yield get("/v1/jobs", {"collecting": True})
    found: list[Json] = answer.json()["jobs"]
    return found


def _job_step(job_id: str, number: int) -> Steps[Json]:
    """What one round of a federated job asks of each curator."""
    return (yield from _json(get(f"/v1/jobs/{job_id}/steps/{number}")))


def _send_reports(job_id: str, descriptor: str, reports: list[Json]) -> Steps[list[Json]]:
    """Send noisy reports of a party's curators, and ever again the same; one answer for each."""
    body = {"descriptor": descriptor, "reports": reports}
    request = Request("POST", f"/v1/jobs/{job_id}/reports", body, repeatable=True)
    answer: httpx.Response = yield request
    found: list[Json] = answer.json()["reports"]
    return found


def _schedule_job(job: Json, *, key: str | None = None) -> Steps[Json]:
    """Ask curators for a job in every period: its federation has {"schedule": {"first_start",
    "period_s"}} and no window. The answer has the preview of a run and a forecast."""
    return (yield from _json(creating("/v1/job-schedules", job, key or uuid4().hex)))


def _preview_job_schedule(job: Json) -> Steps[Json]:
    """The privacy report of a run, and what a day, a month and a year of runs cost."""
    return (yield from _json(Request("POST", "/v1/job-schedules/preview", job, repeatable=True)))


def _job_schedules() -> Stream[Json]:
    """Scheduled jobs, the newest first."""
    yield from pages("/v1/job-schedules", "job_schedules")


def _job_schedule(schedule_id: str) -> Steps[Json]:
    """One scheduled job: its runs so far, the next window, and why that waits."""
    return (yield from _json(get(f"/v1/job-schedules/{schedule_id}")))


def _stop_job_schedule(schedule_id: str) -> Steps[Json]:
    """Ask for no further period; jobs that were asked for go on."""
    return (
        yield from _json(Request("DELETE", f"/v1/job-schedules/{schedule_id}", repeatable=True))
    )


def _json(request: Request) -> Steps[Json]:
    answer: httpx.Response = yield request
    found: Json = answer.json()
    return found


def _content(path: str) -> Steps[bytes]:
    answer: httpx.Response = yield get(path)
    return answer.content


class Jobs:
    """Algorithms on stored datasets, and over curators."""

    algorithms = operation(_algorithms)
    algorithm = operation(_algorithm)
    submit_job = operation(_submit_job)
    preview_job = operation(_preview_job)
    jobs = stream(_jobs)
    job = operation(_job)
    watch_job = stream(_watch_job)
    wait_for_job = operation(_wait_for_job)
    cancel_job = operation(_cancel_job)
    job_result = operation(_job_result)
    job_report = operation(_job_report)
    job_report_words = operation(_job_report_words)
    job_file = operation(_job_file)
    job_plot = operation(_job_plot)
    job_archive = operation(_job_archive)
    job_evaluation = operation(_job_evaluation)
    collecting_jobs = operation(_collecting_jobs)
    job_step = operation(_job_step)
    send_reports = operation(_send_reports)
    schedule_job = operation(_schedule_job)
    preview_job_schedule = operation(_preview_job_schedule)
    job_schedules = stream(_job_schedules)
    job_schedule = operation(_job_schedule)
    stop_job_schedule = operation(_stop_job_schedule)
