"""Jobs on the wire: what is asked for, where it stands, and what a worker is told.

Spec: jobs, sections "Jobs" and "Result".
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from common.models.base import Binary, WireModel
from common.models.dataset import DatasetDeclaration, DatasetId
from common.models.federation import Federation

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

    `seed` makes the output reproducible, hence not private; `acknowledge_unverified` is asked for
    where a release on production data has no verified figure.
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
    """What the holder of an attempt's lease is told. `session` speaks for it from then on.

    `lists`: the public lists that parameters name as datasets. `block_key` seals what it hands to
    other workers. Limits: bytes of memory, seconds.
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
    """How far a running attempt is; sent several times a second, it renews the lease."""

    progress: Annotated[float, Field(ge=0, le=1)]
    stage: Annotated[str, Field(max_length=200)]


class Orders(WireModel):
    """The answer to a beat."""

    cancel: bool


class SecretSeed(WireModel):
    """The job's secret seed, 32 bytes; or the number that its submitter chose (no privacy)."""

    secret: Binary | None = None
    chosen: int | None = None


class Failure(WireModel):
    """How an attempt ended without an outcome: cancelled, or the problem to show."""

    cancelled: bool = False
    problem: dict[str, Any] | None = None
