"""Answers about algorithms, jobs and their schedules (spec: jobs)."""

from __future__ import annotations

from typing import Any, Literal

from tacit.answers.base import Answer, Time
from tacit.answers.datasets import Amount
from tacit.answers.rounds import Span
from tacit.crypto.signing import Signed
from tacit.protocol.federation import Descriptor, Federation
from tacit.report.model import PrivacyReport

Stance = Literal["sound", "paper"]


class Algorithm(Answer):
    """An algorithm that runs as a job. `federated`: which of its methods run over curators, by
    `rounds` or by `reports`; `parameters`: a JSON Schema; `result`: the meaning of each part."""

    name: str
    title: str
    source: str
    purpose: str
    dataset_kind: str
    stances: list[Stance]
    federated: dict[str, str] | None
    parameters: dict[str, Any]
    result: dict[str, str]
    complexity: str


class ListOfAlgorithms(Answer):
    """All algorithms, by name."""

    algorithms: list[Algorithm]


class JobPrice(Answer):
    """What a job costs its dataset. `reason`: why no figure covers the release, if it is outside
    the budget."""

    reserved: Amount | None
    outside_budget: bool
    reason: str | None


class JobBudget(JobPrice):
    """What a job costs its dataset, and what was finally charged: nothing, unless noise was
    drawn."""

    charged: Amount | None
    noise_drawn: bool


class PublishedJob(Answer):
    """The public part of a job. `dataset`: null for a job over curators."""

    id: str
    algorithm: str
    version: str
    dataset: str | None
    stance: Stance
    state: Literal["queued", "running", "succeeded", "failed", "cancelled"]


class Job(PublishedJob):
    """All of a job, for operators only, as its running time depends on the data. `progress`: 0
    to 1, of this attempt; `error`: a problem; `remaining_s`: whole seconds, null if unknown."""

    federation: Federation | None
    params: dict[str, Any]
    seed: int | None
    cancelling: bool
    progress: float
    stage: str | None
    attempt: int
    created: Time
    started: Time | None
    finished: Time | None
    error: dict[str, Any] | None
    budget: JobBudget
    remaining_s: int | None


class CreatedJob(Job):
    """A new job, with the privacy report that its result will have."""

    preview: PrivacyReport


class CollectingJob(Answer):
    """A job that asks curators for noisy reports. `hash`: of the descriptor, in hex."""

    id: str
    algorithm: str
    hash: str
    descriptor: Signed[Descriptor]


class ListOfJobs(Answer):
    """A page of jobs, the newest first; or all that collect reports now."""

    jobs: list[Job | PublishedJob | CollectingJob]


class JobPreview(Answer):
    """What a job would cost, and the privacy report that it would carry."""

    algorithm: str
    dataset: str | None
    params: dict[str, Any]
    charge: JobPrice
    preview: PrivacyReport


class ResultFile(Answer):
    """A file of a result."""

    name: str
    media_type: str
    bytes: int
    sha256: str
    description: str


class JobResult(Answer):
    """A result. `summary`: the parts that the algorithm's `result` explains; `public_seeds`: of
    public choices, never of noise."""

    format: Literal["tacit.job-result/1"]
    job: str
    algorithm: str
    version: str
    stance: Stance
    params: dict[str, Any]
    public_seeds: dict[str, int]
    dataset: str | None
    federation: Federation | None
    summary: dict[str, Any]
    files: list[ResultFile]
    plots: list[str]


class Evaluation(Answer):
    """A comparison with the true data, which is not private."""

    format: Literal["tacit.evaluation/1"]
    private: Literal[True]
    evaluation: dict[str, Any]


class ReportTaken(Answer):
    """Whether a curator's report was accepted: its index among those sent, an HTTP status, and
    the reason if it was not."""

    index: int
    status: int
    detail: str | None = None


class ReportsTaken(Answer):
    """An answer for each report."""

    reports: list[ReportTaken]


class RunsCost(Answer):
    """What the runs of a horizon cost each curator, by unit."""

    horizon: Literal["day", "month", "year"]
    days: int
    runs: int
    record: Amount
    curator: Amount


class RunsForecast(Answer):
    """What the runs of a schedule add up to."""

    composition: Literal["basic"]
    privacy_unit_of_a_run: str | None
    horizons: list[RunsCost]


class JobSchedulePreview(Answer):
    """The privacy report of a run, and what the runs cost."""

    algorithm: str
    forecast: RunsForecast
    preview: PrivacyReport


class JobSchedule(Answer):
    """A job that runs again for each period. `runs`: how many began; `waits_for`: the problem
    that delays the next one."""

    id: str
    algorithm: str
    stance: Stance
    params: dict[str, Any]
    federation: Federation
    state: Literal["running", "stopped"]
    runs: int
    next_window: Span | None
    waits_for: dict[str, Any] | None
    created: Time
    stopped: Time | None


class WholeJobSchedule(JobSchedule):
    """The same, with its costs."""

    forecast: RunsForecast
    preview: PrivacyReport


class ListOfJobSchedules(Answer):
    """A page of schedules, the newest first."""

    job_schedules: list[JobSchedule]
