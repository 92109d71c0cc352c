"""Federated jobs on the wire: whom a job asks, for what, and what each step asks of a curator.

Spec: jobs, "Federated jobs"; kmeans, section 6.1; crowd-tasking, section 2. A step is public and is
known by its hash: the query that carries it has the hash in its name, so the round's descriptor
binds it, and a curator that is shown another step refuses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import AbortStatement, RoundId
from tacit.query.fields import ALWAYS, Collusion, Schedule, Window
from tacit.query.query import Query
from tacit.query.terms import (
    MAX_AGGREGATORS,
    MAX_CURATORS,
    Function,
    Identifier,
    Layer,
    PrivacyUnit,
    RegisterName,
    Sharing,
    Validity,
)
from tacit.units import UNITS
from tacit.wire import Binary, Exact, Instant, WireModel, require

DESCRIPTOR_LABEL: Final = "tacit report collection"
MOST_COLUMNS: Final = 256
MOST_REPORT_BYTES: Final = 1 << 18
HOURS_OF_A_DAY: Final = 24
MOST_ATTEMPTS: Final = 3
"""How often a step is asked, while its rounds end "never frozen"."""
_NAME: Final = re.compile(r"([a-z][a-z0-9-]{0,39}):(\d{1,6}):([0-9a-f]{64})")

ColumnName = Annotated[str, Field(min_length=1, max_length=128)]
Hash = Annotated[Binary, Field(min_length=32, max_length=32)]


class StatisticKind(StrEnum):
    SUM = "sum"
    MEAN = "mean"
    MIN = "min"
    MAX = "max"


class RegisterStatistic(WireModel):
    """One number computed from a register's readings in the window, in `unit`, from those whose
    hour of the day (UTC) lies in `hours`, [from, to). A curator without such readings has no
    record."""

    register_name: RegisterName = Field(alias="register")
    statistic: StatisticKind
    hours: tuple[
        Annotated[int, Field(ge=0, lt=HOURS_OF_A_DAY)], Annotated[int, Field(gt=0, le=24)]
    ] = (0, HOURS_OF_A_DAY)
    unit: str = "kWh"

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        if self.hours[0] >= self.hours[1]:
            raise PydanticCustomError("bad_parameter", "hours: from lies below to")
        if self.unit not in UNITS:
            raise PydanticCustomError("bad_parameter", "unit: unknown")
        return self


class SequenceTable(WireModel):
    """The curator's own sequences of this name: each is one record."""

    sequences: ColumnName

    @property
    def place(self) -> tuple[str, str]:
        """Kind and name of the table."""
        return "sequences", self.sequences


class TransactionTable(WireModel):
    """The curator's own sets of items of this name: each is one record."""

    transactions: ColumnName

    @property
    def place(self) -> tuple[str, str]:
        """Kind and name of the table."""
        return "transactions", self.transactions


ItemTable = SequenceTable | TransactionTable
FederatedColumn = ColumnName | RegisterStatistic | SequenceTable | TransactionTable


class Federation(WireModel):
    """Which curators a job asks, and under which assumptions; names as in a query.

    `columns`: names of the curator's own table, or its sequences or sets of items of one name,
    or statistics of its registers over `window`; `label`: the column with the class of a row,
    which is sent unchanged. `window`: required for statistics. Of sequences or sets it selects
    those whose time lies in it, none without a time; rows have no time. `schedule`: consecutive
    periods, instead of a window. `collusion`: by default no curator, and all aggregators of a
    quorum but one. `deadline`: for how many seconds a round, or the collection of reports, stays
    open. `n_hint`: a public guess of the total number of records, for the forecast only.
    """

    collect: Literal["rounds", "reports"]
    columns: Annotated[tuple[FederatedColumn, ...], Field(min_length=1, max_length=MOST_COLUMNS)]
    label: ColumnName | None = None
    window: Window | None = None
    schedule: Schedule | None = None
    collusion: Collusion | None = None
    layer: Layer = Layer.AGGREGATOR
    validity: Validity | None = None
    noise_tail: Exact | None = None
    sharing: Literal["additive", "shamir"] = "additive"
    aggregators: Annotated[int, Field(ge=2, le=MAX_AGGREGATORS)] = 3
    threshold: Annotated[int, Field(ge=1, le=MAX_AGGREGATORS)] | None = None
    min_participants: Annotated[int, Field(ge=1, le=MAX_CURATORS)] = 2
    n_max: Annotated[int, Field(ge=1, le=MAX_CURATORS)] = 10_000
    deadline: Annotated[int, Field(ge=1, le=31 * 86_400)] = 3600
    n_hint: Annotated[int, Field(ge=1, le=10**12)] | None = None

    @field_validator("label")
    @classmethod
    def _label(cls, label: str | None, info: ValidationInfo) -> str | None:
        columns = info.data.get("columns", ())
        good = label is None or (_of_table(columns) and label not in columns)
        return require(good, label, "another column of the table that the columns are from")

    @field_validator("validity")
    @classmethod
    def _provable(cls, validity: Validity | None, info: ValidationInfo) -> Validity | None:
        reports = info.data.get("collect") == "reports"
        plain = validity is not Validity.PROVED or not reports
        return require(plain, validity, "single noisy reports are not proved: only sums in rounds")

    @field_validator("schedule")
    @classmethod
    def _schedule(cls, schedule: Schedule | None, info: ValidationInfo) -> Schedule | None:
        if schedule is not None:
            columns = info.data.get("columns", ())
            require(not _of_table(columns), None, "rows of a table have no time")
            require(info.data.get("window") is None, None, "the schedule says the windows")
        return schedule

    @model_validator(mode="after")
    def _fits(self) -> Self:
        tables = [isinstance(column, str) for column in self.columns]
        if any(tables) and not all(tables):
            raise PydanticCustomError(
                "bad_parameter", "columns: either of a table or statistics of registers"
            )
        if len(self.columns) > 1 and any(isinstance(column, ItemTable) for column in self.columns):
            raise PydanticCustomError(
                "bad_parameter", "columns: a table of sequences or sets must be the only column"
            )
        if _of_table(self.columns) and self.window not in (None, ALWAYS):
            raise PydanticCustomError("bad_parameter", "window: rows of a table have no time")
        timed = self.schedule is not None or self.window not in (None, ALWAYS)
        if self.collect == "reports" and self.items and timed:
            raise PydanticCustomError(
                "bad_parameter", "window: reports are of a whole table of sequences or sets"
            )
        if not self.of_table and self.window is None and self.schedule is None:
            raise PydanticCustomError("bad_parameter", "window: statistics need one")
        if self.n_max < self.min_participants:
            raise PydanticCustomError("bad_parameter", "n_max: must reach min_participants")
        return self

    @property
    def of_table(self) -> bool:
        """Whether the records are those of a table, whose values do not change."""
        return any(isinstance(column, str | ItemTable) for column in self.columns)

    @property
    def items(self) -> str | None:
        """The kind of the records that are lists of items; None for numbers."""
        column = self.columns[0]
        return column.place[0] if isinstance(column, ItemTable) else None

    @property
    def covers(self) -> Window:
        """The window that ledgers see."""
        return ALWAYS if self.window is None else self.window

    @property
    def timed_only(self) -> bool:
        """Whether a record counts only if it has a time in the window."""
        return self.items is not None and self.covers != ALWAYS

    def over(self, window: Window) -> Self:
        """The same over one window, once."""
        return self.model_copy(update={"window": window, "schedule": None})

    @property
    def names(self) -> tuple[str, ...]:
        """The columns in words."""
        return tuple(column_name(item) for item in self.columns)


def column_name(item: FederatedColumn) -> str:
    """The name of a column; for a statistic, a description in words."""
    if isinstance(item, str):
        return item
    if isinstance(item, ItemTable):
        return " ".join(item.place)
    return f"{item.statistic} of {item.register_name} [{item.hours[0]}, {item.hours[1]})"


def registers_of(columns: Sequence[FederatedColumn]) -> tuple[str, ...] | None:
    """The registers of which columns take statistics, sorted; None for columns of a table."""
    names = {column.register_name for column in columns if isinstance(column, RegisterStatistic)}
    return tuple(sorted(names)) or None


def _of_table(columns: Sequence[FederatedColumn]) -> bool:
    return any(isinstance(column, str) for column in columns)


class JobTerms(WireModel):
    """What a job that is debited once promises for all its steps, repeated in each of them.

    `epsilon`: the most that any record spends in all rounds together; the other fields are those
    of every round's query and descriptor. Spec: federated-counting, section 6.1.
    """

    format: Literal["tacit.job-terms/1"] = "tacit.job-terms/1"
    opened: Instant
    privacy_unit: PrivacyUnit
    records: Annotated[int, Field(ge=1)]
    window: Window
    universe: Hash
    epsilon: Exact
    layer: Layer | None = None
    sharing: Sharing
    aggregators: Annotated[tuple[Identifier, ...], Field(min_length=1, max_length=MAX_AGGREGATORS)]
    threshold: int | None = None
    noisy_aggregators: int | None = None
    collusion: Collusion
    min_participants: int
    n_max: int
    steps_at_most: Annotated[int, Field(ge=1, le=10_000_000)]

    @classmethod
    def of(
        cls,
        query: Query,
        *,
        opened: datetime,
        aggregators: Sequence[str],
        universe: Sequence[str],
        epsilon: Fraction,
        steps_at_most: int,
    ) -> Self:
        """The terms of a job whose rounds are like this query."""
        return cls(
            opened=opened,
            privacy_unit=query.privacy_unit,
            records=query.max_readings,
            window=query.window or ALWAYS,
            universe=universe_hash(universe),
            epsilon=epsilon,
            layer=query.layer,
            sharing=query.sharing,
            aggregators=tuple(aggregators),
            threshold=query.threshold,
            noisy_aggregators=query.c_noise,
            collusion=query.collusion,
            min_participants=query.min_participants,
            n_max=query.n_max,
            steps_at_most=steps_at_most,
        )


def universe_hash(universe: Sequence[str]) -> bytes:
    """Of the items in order."""
    return sha256(json.dumps(list(universe), separators=(",", ":")).encode()).digest()


class AbortedAttempt(WireModel):
    """An earlier round with the same question, and what its aggregators signed when it was
    aborted."""

    round: RoundId
    aborts: Annotated[
        tuple[Signed[AbortStatement], ...], Field(min_length=1, max_length=MAX_AGGREGATORS)
    ]


class FederatedStep(WireModel):
    """What one round of a job asks of a curator.

    `plan`: hash of the job as submitted; `sum`: a document of `tacit.encoders.sums`; `universe`:
    the items to which the indices in a document of sequences or sets refer; `terms`: of a job
    that is debited once, the same in every step; `aborted`: earlier attempts of which enough
    aggregators signed that they never froze. Each attempt is a step with its own number.
    """

    format: Literal["tacit.federated-step/1"] = "tacit.federated-step/1"
    job: Identifier
    algorithm: Annotated[str, Field(max_length=40)]
    step: Annotated[int, Field(ge=1, le=1_000_000)]
    plan: Hash
    columns: Annotated[tuple[FederatedColumn, ...], Field(min_length=1)]
    sum: dict[str, Any]
    universe: tuple[str, ...] | None = None
    terms: JobTerms | None = None
    aborted: (
        Annotated[tuple[AbortedAttempt, ...], Field(min_length=1, max_length=MOST_ATTEMPTS - 1)]
        | None
    ) = None

    @property
    def of_first_question(self) -> bool:
        """Whether nothing was opened for the job before."""
        return self.step == 1 + len(self.aborted or ())

    @property
    def name(self) -> str:
        """Of the query that carries it."""
        return f"{self.algorithm}:{self.step}:{self.digest().hex()}"


@dataclass(frozen=True)
class StepName:
    """What the name of a step's query says."""

    algorithm: str
    step: int
    digest: bytes


def step_of(query: Query) -> StepName | None:
    """Of a job's query; None for every other one."""
    if query.job is None or query.function is not Function.VECTOR_SUM:
        return None
    match = _NAME.fullmatch(query.name)
    return match and StepName(match[1], int(match[2]), bytes.fromhex(match[3]))


class Descriptor(WireModel):
    """A collection of reports: everything a curator needs to know and to check.

    `encoding`: a document of the algorithm's encoder; `parameters`: the job's, as JSON text.
    """

    format: Literal["tacit.report-descriptor/1"] = "tacit.report-descriptor/1"
    deployment: Identifier
    job: Identifier
    algorithm: Annotated[str, Field(max_length=40)]
    stance: Literal["sound", "paper"]
    columns: tuple[FederatedColumn, ...]
    label: ColumnName | None = None
    window: Window
    min_participants: int
    n_max: int
    opened: Instant
    deadline: Instant
    encoding: dict[str, Any]
    parameters: str

    @property
    def taken(self) -> tuple[FederatedColumn, ...]:
        """What a row holds: the columns, then the label where there is one."""
        return self.columns if self.label is None else (*self.columns, self.label)


class Report(WireModel):
    """One noisy report: whole numbers, or packed bits. `record`: which record of the curator (or
    its user); `round`: of the task; `label`: its index among the public classes."""

    curator: Identifier
    record: Annotated[str, Field(min_length=1, max_length=64)] = "1"
    round: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    values: Annotated[tuple[int, ...], Field(max_length=65_536)] = ()
    bits: Annotated[Binary, Field(min_length=1, max_length=MOST_REPORT_BYTES)] | None = None
    label: Annotated[int, Field(ge=0, le=1_000_000)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if bool(self.values) == (self.bits is not None):
            raise PydanticCustomError("bad_parameter", "a report has either values or bits")
        return self


class Reports(WireModel):
    """Reports in bulk; `descriptor`: the hash of what they answer."""

    descriptor: Hash
    reports: Annotated[tuple[Report, ...], Field(min_length=1, max_length=50_000)]
