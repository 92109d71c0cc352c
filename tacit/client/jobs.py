"""Calls about datasets and jobs (coordinator): bringing data, starting, following and ending jobs,
reading results.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

import httpx

import tacit
from tacit import answers
from tacit.answers.base import Answer
from tacit.client.exchange import (
    KEY,
    C,
    Group,
    Json,
    Request,
    Steps,
    Stream,
    answer_of,
    content_of,
    creating,
    events,
    get,
    items_of,
    json_of,
    last,
    operation,
    pages_of,
    repeatable,
    stream,
    text_of,
    watch,
)
from tacit.errors import Error

UPLOAD_WAIT_S = 600.0


def _add_dataset(
    name: str,
    kind: str,
    format: str,  # noqa: A002, the name on the wire
    *,
    content: bytes | Mapping[str, bytes] | None = None,
    key: str | None = None,
    **fields: Any,
) -> Steps[answers.datasets.Dataset]:
    """Upload a dataset: `content` of its file (or of each part by name), or `rows` with `columns`,
    or a `url` that the deployment allows. Also `roles`, `privacy_unit`, `budget`, `purpose`,
    `revision_of`, `universe`."""
    description: Json = {"name": name, "kind": kind, "format": format, **fields}
    headers = {KEY: key or uuid4().hex}
    if content is None:
        body: dict[str, Any] = {"json": description}
    else:
        parts = {"file": content} if isinstance(content, bytes) else dict(content)
        form, form_headers = _form(description, parts)
        headers |= form_headers
        body = {"content": form}
    return answer_of(
        answers.datasets.Dataset,
        Request(
            "POST",
            "/v1/datasets",
            headers=headers,
            repeatable=True,
            wait_s=UPLOAD_WAIT_S,
            **body,
        ),
    )


def _form(description: Json, parts: Mapping[str, bytes]) -> tuple[bytes, dict[str, str]]:
    """A form with fields and files, and its headers."""
    fields = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in description.items()
        if value is not None
    }
    files = {name: (name, content) for name, content in parts.items()}
    built = httpx.Request("POST", "http://form", data=fields, files=files)
    return built.read(), {"Content-Type": built.headers["Content-Type"]}


def _datasets(*, kind: str | None = None) -> Stream[answers.datasets.Dataset]:
    """The datasets that are kept."""
    return pages_of(answers.datasets.Dataset, "/v1/datasets", "datasets", {"kind": kind})


def _dataset(dataset_id: str) -> Steps[answers.datasets.Dataset]:
    """One dataset: its schema, row count and budget."""
    return answer_of(answers.datasets.Dataset, get(f"/v1/datasets/{dataset_id}"))


def _dataset_ledger(dataset_id: str) -> Steps[answers.datasets.DatasetLedger]:
    """What jobs reserved and charged; also of a dataset that was deleted."""
    return answer_of(answers.datasets.DatasetLedger, get(f"/v1/datasets/{dataset_id}/ledger"))


def _delete_dataset(dataset_id: str) -> Steps[None]:
    """Delete a dataset; its ledger stays with the data."""
    yield Request("DELETE", f"/v1/datasets/{dataset_id}")


class Datasets(Group[C]):
    """Data for jobs."""

    add = operation(_add_dataset)
    list = stream(_datasets)
    get = operation(_dataset)
    ledger = operation(_dataset_ledger)
    delete = operation(_delete_dataset)


FINISHED: Final = ("succeeded", "failed", "cancelled")


class JobNotSucceeded(Error):
    """The job failed or was cancelled; `job` is its final state."""

    def __init__(self, job: tacit.Job) -> None:
        error = job.get("error") or {}
        super().__init__(f"the job {job['state']}: {error.get('detail', 'no reason is given')}")
        self.job = job


def _algorithms() -> Steps[list[answers.jobs.Algorithm]]:
    """The algorithms that run as jobs."""
    return items_of(answers.jobs.Algorithm, get("/v1/algorithms"), "algorithms")


def _algorithm(name: str) -> Steps[answers.jobs.Algorithm]:
    """One algorithm: what it is for, and the JSON Schema of its parameters."""
    return answer_of(answers.jobs.Algorithm, get(f"/v1/algorithms/{name}"))


def _submit_job(job: Json, *, key: str | None = None) -> Steps[tacit.Job]:
    """Submit a job: {"algorithm", "dataset", "params", "stance"}; the answer has its preview."""
    return answer_of(tacit.Job, creating("/v1/jobs", job, key or uuid4().hex))


def _preview_job(job: Json) -> Steps[answers.jobs.JobPreview]:
    """The privacy report that a job would carry, and what it would cost; nothing is queued."""
    return answer_of(answers.jobs.JobPreview, repeatable("POST", "/v1/jobs/preview", job))


def _jobs(
    *,
    state: str | None = None,
    algorithm: str | None = None,
    dataset: str | None = None,
    schedule: str | None = None,
) -> Stream[tacit.Job]:
    """Jobs, the newest first; `schedule`: only the runs of one."""
    filters = {"state": state, "algorithm": algorithm, "dataset": dataset, "schedule": schedule}
    return pages_of(tacit.Job, "/v1/jobs", "jobs", filters)


def _job(job_id: str) -> Steps[tacit.Job]:
    """One job: state, attempt, progress, stage, budget, error."""
    return answer_of(tacit.Job, get(f"/v1/jobs/{job_id}"))


def _watch_job(job_id: str, timeout_s: float = 3600.0) -> Stream[tacit.Job]:
    """The job each time it changes, until it has finished; raises NotFinished. Its `progress`
    never goes back within an `attempt` and begins again at 0 with the next one."""
    return watch(f"/v1/jobs/{job_id}", f"job {job_id}", FINISHED, timeout_s, kind=tacit.Job)


def _job_events(job_id: str, timeout_s: float = 3600.0) -> Stream[Json]:
    """Events of a job, as they happen, until it has finished: `{"event": "job", "data": the
    job}` at each change, and `job_debited` and `job_settled` for a job over curators that is
    debited once. Raises NotFinished."""
    return events(f"/v1/jobs/{job_id}/events", f"job {job_id}", timeout_s)


def _wait_for_job(
    job_id: str, timeout_s: float = 3600.0, *, progress: Callable[[tacit.Job], object] | None = None
) -> Steps[tacit.JobResult]:
    """The result of a job once it has succeeded; raises JobNotSucceeded, NotFinished. `progress` is
    called with the job each time that it changes (`tacit.show_progress` prints it)."""
    job = yield from last(_watch_job(job_id, timeout_s), progress)
    if job["state"] != "succeeded":
        raise JobNotSucceeded(job)
    return (yield from _job_result(job_id))


def _run_job(
    job: Json,
    timeout_s: float = 3600.0,
    *,
    progress: Callable[[tacit.Job], object] | None = None,
    key: str | None = None,
) -> Steps[tacit.JobResult]:
    """Submit a job and wait for its result: `submit`, then `wait`."""
    submitted = yield from _submit_job(job, key=key)
    return (yield from _wait_for_job(submitted.id, timeout_s, progress=progress))


def _compare_jobs(ids: Sequence[str]) -> Steps[Answer]:
    """Two to four jobs that succeeded, side by side; keys that differ are marked."""
    return answer_of(Answer, get("/v1/jobs/compare", {"ids": ",".join(ids)}))


def _cancel_job(job_id: str) -> Steps[tacit.Job]:
    """Cancel a job; what it was charged stays charged if noise was drawn."""
    return answer_of(tacit.Job, repeatable("DELETE", f"/v1/jobs/{job_id}"))


def _job_result(job_id: str) -> Steps[tacit.JobResult]:
    """The published result, with its tables of up to 16 MB each."""
    result = yield from answer_of(tacit.JobResult, get(f"/v1/jobs/{job_id}/result"))
    for name in result.table_files():
        result._tables[name] = yield from _job_file(job_id, name)
    return result


def _job_report(job_id: str) -> Steps[tacit.Report]:
    """The privacy report of a job's result."""
    return answer_of(tacit.Report, get(f"/v1/jobs/{job_id}/report"))


def _job_report_words(job_id: str) -> Steps[str]:
    """The same in plain words."""
    return text_of(f"/v1/jobs/{job_id}/report")


def _job_file(job_id: str, name: str) -> Steps[bytes]:
    """A native file of the result."""
    return content_of(f"/v1/jobs/{job_id}/files/{name}")


def _job_plot(job_id: str, name: str) -> Steps[tacit.Picture]:
    """A plot of published values, NAME.svg or NAME.png; a notebook draws it."""
    return tacit.Picture((yield from content_of(f"/v1/jobs/{job_id}/plots/{name}")))


def _job_archive(job_id: str) -> Steps[bytes]:
    """All published parts in one zip."""
    return content_of(f"/v1/jobs/{job_id}/archive")


def _job_evaluation(job_id: str) -> Steps[answers.jobs.Evaluation]:
    """The comparison with the true data, for the operator: never private, never published."""
    return answer_of(answers.jobs.Evaluation, get(f"/v1/jobs/{job_id}/evaluation"))


def _collecting_jobs() -> Steps[list[answers.jobs.CollectingJob]]:
    """The jobs that are collecting reports: their signed descriptors, for curators."""
    return items_of(answers.jobs.CollectingJob, get("/v1/jobs", {"collecting": True}), "jobs")


def _job_step(job_id: str, number: int) -> Steps[Json]:
    """What one round of a federated job asks of each curator."""
    return json_of(get(f"/v1/jobs/{job_id}/steps/{number}"))


def _send_reports(
    job_id: str, descriptor: str, reports: list[Json]
) -> Steps[list[answers.jobs.ReportTaken]]:
    """Send the noisy reports of a party's curators; a retry must send the same ones. One answer
    for each."""
    body = {"descriptor": descriptor, "reports": reports}
    request = repeatable("POST", f"/v1/jobs/{job_id}/reports", body)
    return items_of(answers.jobs.ReportTaken, request, "reports")


def _schedule_job(job: Json, *, key: str | None = None) -> Steps[answers.jobs.WholeJobSchedule]:
    """Run a job over curators in every period: its federation has {"schedule": {"first_start",
    "period_s"}} and no window. The answer has the preview of a run and a forecast."""
    return answer_of(
        answers.jobs.WholeJobSchedule, creating("/v1/job-schedules", job, key or uuid4().hex)
    )


def _preview_job_schedule(job: Json) -> Steps[answers.jobs.JobSchedulePreview]:
    """The privacy report of a run, and what a day, a month and a year of runs cost."""
    return answer_of(
        answers.jobs.JobSchedulePreview, repeatable("POST", "/v1/job-schedules/preview", job)
    )


def _job_schedules() -> Stream[answers.jobs.JobSchedule]:
    """Scheduled jobs, the newest first."""
    return pages_of(answers.jobs.JobSchedule, "/v1/job-schedules", "job_schedules")


def _job_schedule(schedule_id: str) -> Steps[answers.jobs.WholeJobSchedule]:
    """One scheduled job: its runs so far, the next window, and why that is delayed."""
    return answer_of(answers.jobs.WholeJobSchedule, get(f"/v1/job-schedules/{schedule_id}"))


def _stop_job_schedule(schedule_id: str) -> Steps[answers.jobs.WholeJobSchedule]:
    """Request no further period; jobs that were already requested continue."""
    return answer_of(
        answers.jobs.WholeJobSchedule, repeatable("DELETE", f"/v1/job-schedules/{schedule_id}")
    )


class Jobs(Group[C]):
    """Algorithms on stored datasets, and over curators."""

    algorithms = operation(_algorithms)
    algorithm = operation(_algorithm)
    run = operation(_run_job)
    submit = operation(_submit_job)
    preview = operation(_preview_job)
    list = stream(_jobs)
    get = operation(_job)
    watch = stream(_watch_job)
    events = stream(_job_events)
    wait = operation(_wait_for_job)
    compare = operation(_compare_jobs)
    cancel = operation(_cancel_job)
    result = operation(_job_result)
    report = operation(_job_report)
    report_text = operation(_job_report_words)
    file = operation(_job_file)
    plot = operation(_job_plot)
    archive = operation(_job_archive)
    evaluation = operation(_job_evaluation)
    collecting = operation(_collecting_jobs)
    step = operation(_job_step)
    send_reports = operation(_send_reports)
    schedule = operation(_schedule_job)
    preview_schedule = operation(_preview_job_schedule)
    list_schedules = stream(_job_schedules)
    get_schedule = operation(_job_schedule)
    stop_schedule = operation(_stop_job_schedule)
