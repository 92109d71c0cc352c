"""What an algorithm is: a frozen parameter model and a pure `run(dataset, params, context)`.

Also the interfaces of federated jobs (rounds and collections of noisy reports), how a privacy
report changes when an algorithm runs over curators, the fields and errors that the parameters of
several algorithms share, and the words for what a forecast promises. Spec: jobs;
federated-counting, section 10.

A package may have samples to try it with in `sample.py`: `samples() -> list[Sample]` and
`JOB: SampleJob`. `tacit dataset sample ALGORITHM` writes them, the algorithm's page begins with the
command of the job, and the tests of all algorithms find them there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from pydantic import Field

from algorithms.datasets.declaration import INLINE_UNIVERSE, DatasetReference, Item
from tacit.encoders.sums import RecordSum
from tacit.errors import Invalid
from tacit.protocol.federation import Report
from tacit.randomness import NoiseSource, SecureRandom, SeededRandom
from tacit.records.items import MAX_UNIVERSE
from tacit.report.model import PrivacyReport
from tacit.report.model import Stance as Stance
from tacit.wire import WireModel

Block = TypeVar("Block")
Part = TypeVar("Part")
Way = Literal["rounds", "reports"]


class Cancelled(Exception):
    """The job was cancelled; raised by `Context.progress`."""


class Context(Protocol):
    """The interface of a running job to its worker."""

    def noise(self, stage: str, block: int = 0) -> NoiseSource:
        """The secret stream of a stage and block; the same pair gives the same words on every
        attempt, and streams of different pairs share none."""
        ...

    def progress(self, fraction: float, stage: str) -> None:
        """Report progress (0..1) and the current step, at least every 250 ms; raises
        `Cancelled`."""
        ...

    def map_blocks(
        self, function: Callable[[Block], Part], blocks: Iterable[Block]
    ) -> Sequence[Part]:
        """The results of independent blocks, in order; on several workers if there are any."""
        ...


@dataclass(frozen=True)
class SequentialContext:
    """A context without workers: processes blocks sequentially.

    `seed`: 32 secret bytes; None takes seeded streams, which protect nobody.
    """

    seed: bytes | None = None
    test_seed: int = 1
    on_progress: Callable[[float, str], None] = field(default=lambda _fraction, _stage: None)

    def noise(self, stage: str, block: int = 0) -> NoiseSource:
        """The stream of a stage and block."""
        name = f"{stage}/{block}"
        if self.seed is not None:
            return SecureRandom.from_secret_seed(self.seed, name)
        return SeededRandom(int.from_bytes(f"{self.test_seed}/{name}".encode(), "big"))

    def progress(self, fraction: float, stage: str) -> None:
        """Call `on_progress`."""
        self.on_progress(fraction, stage)

    def map_blocks(
        self, function: Callable[[Block], Part], blocks: Iterable[Block]
    ) -> Sequence[Part]:
        """In sequence."""
        return [function(block) for block in blocks]


def floating_source(secret: NoiseSource) -> SeededRandom:
    """A generator for floating-point noise (stance `paper`), seeded from a job's secret stream.
    Its noise guarantees nothing."""
    return SeededRandom(int.from_bytes(secret.bytes(16)))


@dataclass(frozen=True)
class ResultFile:
    """A native part of a result: CSV, edge list, .npy, NDJSON."""

    name: str
    media_type: str
    content: bytes
    description: str

    @classmethod
    def csv(cls, name: str, text: str, description: str) -> ResultFile:
        """A table."""
        return cls(name, "text/csv", text.encode(), description)

    @classmethod
    def binary(cls, name: str, content: bytes, description: str) -> ResultFile:
        """An array, .npy."""
        return cls(name, "application/octet-stream", content, description)


@dataclass(frozen=True)
class Plot:
    """A picture that is drawn when it is first requested, from these values: plain JSON, published
    with the result and derived from its other published parts only.

    `name`: of one of the algorithm's drawings.
    """

    name: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, **values: Any) -> Plot:
        """Arrays become lists, numbers that are not finite None."""
        return cls(name, {key: _plain(value) for key, value in values.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True)
class Drawing:
    """How a plot is drawn: `fill(axes, values)` on matplotlib's axes, and the size of the paper."""

    fill: Callable[[Any, Mapping[str, Any]], None]
    inches: tuple[float, float] = (5.4, 4.0)


@dataclass(frozen=True)
class Picture:
    """A plot as it was drawn."""

    name: str
    svg: bytes
    png: bytes


@dataclass(frozen=True)
class Outcome:
    """What a job returns. `result`: the summary that the spec lists, plain JSON values.
    `public_seeds` by parameter name; `evaluation`: visible only to the operator."""

    result: Mapping[str, Any]
    report: PrivacyReport
    files: tuple[ResultFile, ...] = ()
    plots: tuple[Plot, ...] = ()
    public_seeds: Mapping[str, int] = field(default_factory=dict)
    evaluation: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PrivacyScope:
    """What a federated sum protects: all of `unit`, of which at most `records` of a curator count.

    `hidden`: how many records' vectors the noise protects together; `every_record`: no record of
    a table is omitted (`Query.every_record`).
    """

    unit: Literal["record", "curator"]
    records: int
    hidden: int
    every_record: bool = False


@dataclass(frozen=True)
class FederatedRounds:
    """An algorithm as pure steps: the next sum to request, the effect of an opened noisy sum, the
    result. A state holds public and published values only.

    `noise_share`: the noise of a sum, in units of one full discrete Laplace of each block that
    hides as many vectors as the scope says.

    `scope(params)`: see PrivacyScope; `universe(params)`: the items of sequences, None: rows of
    numbers; `when`: for which parameters and stances, in a few words.
    `first(params, columns, noise_share) -> state`; `next_sum(state) -> sum or None`;
    `next_sums(state)`: all that may be requested at the same time, the next one first, to be
    absorbed in any order; None: one after the other; `planned(state)`: how many in total.
    `absorb(state, sum, opened) -> state`, `opened` as the sum's `restored` gives it;
    `aborted(state, sum) -> state`, None if the job fails with the round; `release(state)`.
    `preview(params, noise_share)`: the report before any sum; `forecast(params, asking)`: accuracy
    and cost in advance, as JSON values, with an `algorithms.counts.rounds.Asking`; None: no
    forecast. `budget(params)`: the most that a record spends in all sums together; curators enforce
    it themselves, so that they are debited once; None: each round is debited.
    """

    scope: Callable[[Any], PrivacyScope]
    first: Callable[[Any, Sequence[str], Fraction], Any]
    next_sum: Callable[[Any], RecordSum | None]
    absorb: Callable[[Any, RecordSum, Any], Any]
    aborted: Callable[[Any, RecordSum], Any | None]
    release: Callable[[Any], Outcome]
    preview: Callable[[Any, Fraction], PrivacyReport]
    planned: Callable[[Any], int]
    when: str
    universe: Callable[[Any], tuple[str, ...]] | None = None
    forecast: Callable[[Any, Any], dict[str, Any]] | None = None
    budget: Callable[[Any], Fraction] | None = None
    next_sums: Callable[[Any], Sequence[RecordSum]] | None = None


@dataclass(frozen=True)
class Collected:
    """Reports from curators: (user, report) pairs, a user being one record of one curator, in order
    of curators, records and rounds.

    `offered`: how many curators could have reported; `columns`: their names.
    """

    reports: Sequence[tuple[int, Report]]
    offered: int
    columns: tuple[str, ...]


@dataclass(frozen=True)
class FederatedReports:
    """An algorithm whose curators perturb their own rows and send the results.

    `encoding(params, stance)`: what a curator needs to know, as a document of
    `tacit.encoders.sums`, which also states which reports are accepted; `columns(params)`: how
    many; `labelled(params)`: whether a row also has a label, sent unchanged; `aggregate(params,
    stance, collected, context)`: draws no noise; `preview(params, stance)`: the report of the
    result; `when`: for which parameters and stances, in a few words.
    """

    encoding: Callable[[Any, Stance], dict[str, Any]]
    columns: Callable[[Any], int]
    aggregate: Callable[[Any, Stance, Collected, Context], Outcome]
    preview: Callable[[Any, Stance], PrivacyReport]
    when: str
    labelled: Callable[[Any], bool] = lambda _params: False


def _accept(_data: Any, _params: Any, _stance: Stance) -> None:
    """For an algorithm whose parameters fit every dataset of its kind."""


@dataclass(frozen=True)
class Algorithm:
    """An entry of the catalogue.

    `run(dataset, params, stance, context) -> Outcome` is pure; `preview(params, stance)` is the
    report that a result would carry, without data, where the parameters alone decide it;
    `check(dataset, params, stance)` refuses incompatible inputs before any noise is drawn. All
    three raise subclasses of `tacit.errors.Invalid` (or another category) with a pointer into
    `/params` or `/dataset`; the errors of `check` may depend on private rows and are for the
    operator. `check_outline(outline, params, stance)` refuses by the sizes of a dataset alone (the
    outline of its kind), where a full check takes too long before a job is queued. `drawings`: of
    the plots that a result may have, by name.
    `evaluation_pictures(evaluation, result)`: plots of an evaluation and the result's summary as
    parsed from JSON, also visible only to the operator; needs matplotlib.
    """

    name: str
    title: str
    source: str
    purpose: str
    dataset_kind: str
    params: type[WireModel]
    stances: tuple[Stance, ...]
    run: Callable[[Any, Any, Stance, Context], Outcome]
    preview: Callable[[Any, Stance], PrivacyReport]
    result: Mapping[str, str]
    complexity: str
    rounds: FederatedRounds | None = None
    reports: FederatedReports | None = None
    check: Callable[[Any, Any, Stance], None] = _accept
    check_outline: Callable[[Mapping[str, Any], Any, Stance], None] = _accept
    drawings: Mapping[str, Drawing] = field(default_factory=dict)
    evaluation_pictures: Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[Picture, ...]] = (
        lambda _evaluation, _summary: ()
    )

    @property
    def federated(self) -> Mapping[Way, str] | None:
        """In which ways the algorithm runs over curators, and when; None: it does not."""
        ways: dict[Way, str] = {}
        if self.rounds is not None:
            ways["rounds"] = self.rounds.when
        if self.reports is not None:
            ways["reports"] = self.reports.when
        return ways or None


# Spec: jobs, "Privacy report"; federated-counting, section 10.

TRUST: Final = (
    "at most as many corrupt aggregators as the federation declares; coordinator and other "
    "curators are not trusted with privacy"
)
_CENTRAL: Final = ("The coordinator keeps the", "The column with the role curator")


def by_rounds(report: PrivacyReport) -> PrivacyReport:
    """The report without statements that apply only to rows stored at the coordinator."""
    mechanism = report.mechanism
    assert not isinstance(mechanism, str)
    still_true = tuple(item for item in report.assumptions if not item.startswith(_CENTRAL))
    return report.model_copy(
        update={
            "mechanism": mechanism.model_copy(update={"name": f"{mechanism.name}, by rounds"}),
            "assumptions": still_true,
            "details": {**report.details, "trust": TRUST},
        }
    )


@dataclass(frozen=True)
class Sample:
    """A file in a text format of its kind."""

    file_name: str
    kind: str
    format: str
    content: bytes
    description: str


@dataclass(frozen=True)
class SampleJob:
    """The sample that it reads, its parameters, and further options of `tacit job run`; an
    option for a file names one of the samples."""

    file_name: str
    params: Mapping[str, Any]
    options: Mapping[str, str] = field(default_factory=dict)

    def command(self, algorithm: str, folder: Path) -> str:
        """The line for a shell, with samples and parameters in a folder."""
        files = {"--universe"}
        further = [
            f"{option} {folder / value if option in files else value}"
            for option, value in self.options.items()
        ]
        parts = [
            f"tacit job run {algorithm} --dataset {folder / self.file_name}",
            *further,
            f"--params {folder / params_file(algorithm)}",
            f"--out {folder / algorithm}",
        ]
        return " ".join(parts)


def params_file(algorithm: str) -> str:
    """Where its parameters are written."""
    return f"{algorithm}-params.json"


def own_sample(algorithm: str) -> tuple[Callable[[], list[Sample]], SampleJob]:
    """The samples and the job in the package of an algorithm. Raises ModuleNotFoundError."""
    module = import_module(f"algorithms.{algorithm.replace('-', '_')}.sample")
    return module.samples, module.JOB


MaxCells = Annotated[int, Field(ge=1, le=100_000_000)] | None
"""The most counts of one question."""
Metrics = TypeVar("Metrics", bound=WireModel)


def schema_range(**limits: Any) -> dict[str, Any]:
    """Limits for the schema only: the algorithm's own check enforces them, with its own error."""
    return limits


def asked_metrics(evaluate: bool | Metrics, usual: Callable[[], Metrics]) -> Metrics | None:
    """What to evaluate, by the parameter `evaluate`; None: nothing."""
    if isinstance(evaluate, bool):
        return usual() if evaluate else None
    return evaluate


# What several algorithms refuse.


class BadUniverse(Invalid):
    """No universe, one of a size that does not fit, or an item twice."""

    name = "bad_universe"
    title = "The universe of items is not valid"


class BadEpsilon(Invalid):
    """Outside its range, or too small for the noise that the data need."""

    name = "bad_epsilon"
    title = "Epsilon is not valid"


class MethodNeedsSound(Invalid):
    """A method that is not the source's, in stance `paper`."""

    name = "method_needs_sound"
    title = "The stance paper has the source's method only"


class ValueUnknown(Invalid):
    """A parameter names a value that no row has, so it would silently have no effect."""

    name = "value_unknown"
    title = "There is no such value"


class NotOverCurators(Invalid):
    """An option that only a job on stored rows has, not one over curators."""

    name = "not_over_curators"
    title = "Curators cannot answer this"


# The public list of items as a parameter of jobs on sequences. Spec: sequential-prefix-tree and
# sequential-ngram, section 2.

ItemUniverse: TypeAlias = (
    Annotated[tuple[Item, ...], Field(max_length=INLINE_UNIVERSE)]
    | Annotated[int, Field(description="a number n: the items are 1 to n")]
    | DatasetReference
)
ABOUT: Final = (
    "the public list of items, 1 to 1,000,000, or how many there are; chosen without looking at "
    "the data (10,000 inline, more as a dataset of kind universe)"
)
"""The description of the field."""


def universe_size(universe: ItemUniverse) -> int | None:
    """How many items there are; None as long as only a reference to the list is known."""
    if isinstance(universe, tuple):
        return len(universe)
    return universe if isinstance(universe, int) else None


def check_universe(universe: ItemUniverse) -> None:
    """Raises BadUniverse if its known part is not valid."""
    size = universe_size(universe)
    if size is None:
        return
    if not 1 <= size <= MAX_UNIVERSE:
        raise BadUniverse(f"has 1 to {MAX_UNIVERSE} items", pointer="/params/universe")
    if isinstance(universe, tuple) and len(set(universe)) != size:
        raise BadUniverse("names every item once", pointer="/params/universe")


def item_names(universe: ItemUniverse) -> tuple[str, ...]:
    """The items in order. Replace a reference by its list first; raises BadUniverse."""
    if isinstance(universe, tuple):
        return universe
    if isinstance(universe, int):
        return tuple(str(item) for item in range(1, universe + 1))
    raise BadUniverse("the list of this dataset is missing", pointer="/params/universe")


@dataclass(frozen=True)
class Work:
    """The measured cost of a job over a universe on one core: bytes and microseconds for each
    item of the universe, and for each item of a record."""

    item_bytes: int
    item_us: float
    entry_bytes: int
    entry_us: float

    def json(self, items: int) -> dict[str, Any]:
        """For a report: from public numbers only; the number of records is private."""
        return {
            "basis": "measured in a separate process at 1,000 to 200,000 items, right within a "
            "factor of 2; what records add is for each million items of all records together",
            "memory_mb": round(_EMPTY_MB + self.item_bytes * items / 10**6),
            "cpu_s": round(_EMPTY_S + self.item_us * items / 10**6, 1),
            "memory_mb_of_a_million": self.entry_bytes,
            "cpu_s_of_a_million": self.entry_us,
        }


_EMPTY_MB: Final = 120
_EMPTY_S: Final = 2.0


# Whether a result will be useful, weak or noise: one line of a forecast, the same words for all.
# An algorithm states its expected error relative to what it estimates: up to a quarter of it the
# result is useful, up to as much as itself weak, above that noise. Of directions it states a
# cosine. Public and released numbers alone go in; where they do not decide it, the line says
# "unknown", and from which count on which word would hold. Spec: utility, section 1.

Verdict = Literal["useful", "weak", "noise"]

USEFUL_ERROR: Final = 0.25
WEAK_ERROR: Final = 1.0
USEFUL_COSINE: Final = 0.7
WEAK_COSINE: Final = 0.1


def by_error(relative: float) -> Verdict:
    """relative: expected error over what is estimated, 0 or above."""
    if relative <= USEFUL_ERROR:
        return "useful"
    return "weak" if relative <= WEAK_ERROR else "noise"


def by_cosine(cosine: float) -> Verdict:
    """cosine: expected between a direction and its estimate, 0 to 1."""
    if cosine >= USEFUL_COSINE:
        return "useful"
    return "weak" if cosine >= WEAK_COSINE else "noise"


def with_verdict(error: Mapping[str, Any], verdict: Verdict, figure: str) -> dict[str, Any]:
    """An algorithm's forecast with the verdict first, in place of an earlier one. figure: which
    expected error is compared with what, in words."""
    others = {name: value for name, value in error.items() if name != "verdict"}
    return {"verdict": f"{verdict}: {figure}", **others}


def without_verdict(error: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """The same where public numbers do not decide it. reason: what does."""
    return {"verdict": f"unknown: {reason}", **error}


NEEDS_LIST: Final = "needs the list that is named by reference"


def by_size(error: Mapping[str, Any], deviation: float, subject: str) -> dict[str, Any]:
    """The verdict before a run, when the size of a count is unknown. deviation: its expected
    error, whatever its size; what: `a count of ..`."""
    useful, noise = deviation / USEFUL_ERROR, deviation / WEAK_ERROR
    reason = f"{subject} is useful from {useful:.3g} on and noise below {noise:.3g}"
    return without_verdict(error, f"{reason}; how large it is depends on the data")
