"""Jobs on the wire: request, state, what a worker receives, errors as problem documents.

Spec: jobs, sections "Jobs" and "Result". A problem document (RFC 9457) is made here without a web
framework.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from algorithms.datasets.declaration import DatasetDeclaration, DatasetId
from tacit.errors import Conflict, DomainError, FieldError, Invalid, NotFound, TooLarge, Unavailable
from tacit.protocol.federation import Federation
from tacit.wire import Binary, WireModel

RESULT_FORMAT = "tacit.job-result/1"


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINISHED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class JobRequest(WireModel):
    """A job: an algorithm, its parameters, and a stored dataset or a federation of curators.

    `seed` makes the output reproducible, hence not private; `acknowledge_unverified` is required
    if a release on production data has no verified figure.
    """

    algorithm: Annotated[str, Field(max_length=64)]
    dataset: DatasetId | None = None
    federation: Federation | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    stance: Literal["sound", "paper"] = "sound"
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None
    acknowledge_unverified: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.dataset is None) == (self.federation is None):
            raise PydanticCustomError("bad_parameter", "either dataset or federation")
        return self


class Assignment(WireModel):
    """What the holder of an attempt's lease receives.

    `session` authorises its later requests. `lists`: the public lists that parameters refer to
    as datasets. `block_key` encrypts what it sends to other workers. Limits: bytes of memory,
    seconds.
    """

    job: str
    algorithm: str
    params_json: str
    lists: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    stance: Literal["sound", "paper"]
    declaration: DatasetDeclaration
    session: str
    block_key: Binary
    memory_bytes: int
    wall_s: float
    lease_s: float


class Beat(WireModel):
    """A heartbeat: the progress of a running attempt. Sent every 250 ms, it renews the lease."""

    progress: Annotated[float, Field(ge=0, le=1)]
    stage: Annotated[str, Field(max_length=200)]


class Orders(WireModel):
    """The answer to a heartbeat."""

    cancel: bool


class SecretSeed(WireModel):
    """The job's secret seed, 32 bytes; or the number that its submitter chose (no privacy)."""

    secret: Binary | None = None
    chosen: int | None = None


class Failure(WireModel):
    """How an attempt ended without an outcome: cancelled, or the problem to show."""

    cancelled: bool = False
    problem: dict[str, Any] | None = None


# An error of a job as a problem document (RFC 9457), made without a web framework.

_PROBLEM_PREFIX: Final = "urn:tacit:problem:"
_STATUS: Final = (
    (Invalid, 422),
    (NotFound, 404),
    (TooLarge, 413),
    (Conflict, 409),
    (Unavailable, 503),
)


class JobFailed(Conflict):
    """The algorithm raised an unexpected error."""

    name = "job_failed"
    title = "The job failed"


class WorkerLost(Unavailable):
    """Every attempt lost its worker."""

    name = "worker_lost"
    title = "The job's workers were lost, as often as it was tried"


def plain_problem(error: Exception) -> dict[str, Any]:
    """The document of an error. An error that is not a DomainError is named by its type only: its
    message might contain data."""
    if not isinstance(error, DomainError):
        error = JobFailed(f"an unforeseen error ({type(error).__name__})")
    field_errors: tuple[FieldError, ...] = error.errors if isinstance(error, Invalid) else ()
    if error.pointer is not None and not field_errors:
        field_errors = (FieldError(error.pointer, error.detail),)
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
    return {
        **error.extra,
        "type": _PROBLEM_PREFIX + error.name,
        "title": error.title,
        "status": status,
        "detail": error.detail,
        "errors": [{"pointer": item.pointer, "detail": item.message} for item in field_errors],
        "retryable": error.retryable,
    }
