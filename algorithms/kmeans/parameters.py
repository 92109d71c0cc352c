"""The parameters of k-means, their ranges, and what the stance requires of them.

Spec: kmeans, sections 2.1 and 3; jobs, "Parameters".
"""

from __future__ import annotations

from fractions import Fraction
from itertools import chain
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from algorithms.contract import MethodNeedsSound, Stance
from algorithms.kmeans.plan import Mode, Plan, PlanImpossible, StartMethod, make_plan
from tacit.encoders.kmeans import Grid
from tacit.errors import Invalid
from tacit.records.text_files import number_problem
from tacit.wire import Exact, WireModel, require

CENTRAL_CELLS: Final = 65_536
FEDERATED_CELLS: Final = 4_096
SMALLEST_EPSILON: Final = Fraction(1, 1000)
LARGEST_EPSILON: Final = Fraction(50)
DIMENSIONS: Final = 256


class BoundsMissing(Invalid):
    """The sound stance takes no bounds from the data."""

    name = "bounds_missing"
    title = "Declare the bounds of every column"


class SizeHintMissing(Invalid):
    """The sound stance takes no size from the data."""

    name = "n_hint_missing"
    title = "Declare a rough public size"


class DataShape(Invalid):
    """The table does not fit the parameters."""

    name = "data_shape"
    title = "The table does not fit"


class UnitMismatch(Invalid):
    """The unit needs owners of rows."""

    name = "privacy_unit"
    title = "The unit of privacy does not fit the data"


class NoPlan(Invalid):
    """No plan fits the parameters."""

    name = "bad_parameter"
    title = "The parameters allow no plan"


class Metrics(WireModel):
    """What an evaluation compares with the true data."""

    inertia: bool = Field(True, description="sum of squared distances, of the box scaled to [0,1]")
    inertia_ratio: bool = Field(True, description="over the best of 20 non-private runs")
    clusters: bool = Field(
        True, description="rows of each centre, and how far their mean lies from it"
    )
    labels: bool = Field(False, description="the nearest centre of each row")


class Parameters(WireModel):
    """Parameters of `kmeans`; those of only the source's algorithm are marked paper."""

    model_config = ConfigDict(title="KmeansParameters")

    _EVERYTHING: ClassVar[Metrics] = Metrics(inertia=True, inertia_ratio=True, labels=True)

    k: Annotated[int, Field(ge=1, le=1024, description="number of clusters")]
    epsilon: Exact = Field(
        Fraction(1),
        description="budget, 0.001..50: of the whole job (sound), of each step (paper)",
    )
    bounds: Annotated[
        tuple[tuple[float, float], ...] | None,
        Field(
            description="[lo, hi] of each column in its own unit, declared and never computed "
            "from the data; sound needs it, paper ignores it",
        ),
    ] = None
    n_hint: Annotated[
        int | None,
        Field(
            ge=1,
            le=10**12,
            description="a rough public number of records, never computed from the data; sound "
            "needs it",
        ),
    ] = None
    privacy_unit: Literal["record", "curator"] = "record"
    contribution_bound: Annotated[
        int, Field(ge=1, le=10**6, description="records of one curator that count")
    ] = 1
    mode: Mode | Literal["auto"] = "auto"
    rounds: Annotated[
        int | None, Field(ge=0, le=20, description="zone rounds; the plan's unless given")
    ] = None
    start: StartMethod | Literal["auto"] = Field(
        "auto",
        description="mode synopsis+zone: grid: one histogram; two-level: a coarse one, and a finer "
        "one of the cells that stand out (over curators one more round); auto: two-level where "
        "n_hint is large enough",
    )
    public_seed: Annotated[
        int, Field(ge=0, lt=1 << 63, description="drives public choices only; printed")
    ] = 0
    max_cells: Annotated[
        int | None,
        Field(
            ge=16,
            le=1 << 20,
            description="cells of the histogram; 65,536 unless given (4,096 if federated)",
        ),
    ] = None
    evaluate: bool | Metrics = False
    strategy: Annotated[
        Literal["prior", "posterior"], Field(description="paper: what the zones are made from")
    ] = "posterior"
    stop: Annotated[
        Literal["labels", "fix", "move"],
        Field(
            description="paper: ends when labels repeat, when the means keep the labels, or when "
            "no mean is farther than move_tolerance from its centre",
        ),
    ] = "labels"
    move_tolerance: Annotated[
        float, Field(gt=0, le=1, description="paper, stop move: columns scaled to [0, 1]")
    ] = 1e-4
    measure: Annotated[
        Literal["polar", "lebesgue"], Field(description="paper: what densities refer to")
    ] = "polar"
    max_passes: Annotated[int, Field(ge=1, le=100_000, description="paper")] = 1000
    final_epsilon: Annotated[
        Exact | None, Field(description="paper: of the final counts; epsilon unless given")
    ] = None

    @field_validator("epsilon", "final_epsilon")
    @classmethod
    def _epsilons(cls, value: Fraction | None) -> Fraction | None:
        fits = value is None or SMALLEST_EPSILON <= value <= LARGEST_EPSILON
        return require(fits, value, "must be between 0.001 and 50")

    @field_validator("bounds")
    @classmethod
    def _bounds(
        cls, value: tuple[tuple[float, float], ...] | None
    ) -> tuple[tuple[float, float], ...] | None:
        if value is None:
            return None
        require(1 <= len(value) <= DIMENSIONS, value, f"names 1 to {DIMENSIONS} columns")
        for end in chain.from_iterable(value):
            if (wrong := number_problem(end)) is not None:
                require(False, value, wrong)
        return require(
            all(low < high for low, high in value), value, "every lo must be below its hi"
        )

    @field_validator("contribution_bound")
    @classmethod
    def _contribution(cls, value: int, info: ValidationInfo) -> int:
        curator = info.data.get("privacy_unit", "curator") == "curator"
        return require(curator or value == 1, value, "has a meaning for privacy_unit curator only")

    @property
    def metrics(self) -> Metrics | None:
        """What to evaluate; None: nothing."""
        if isinstance(self.evaluate, bool):
            return self._EVERYTHING if self.evaluate else None
        return self.evaluate


def grid_and_plan(
    params: Parameters,
    *,
    noise_share: Fraction = Fraction(1),
    default_cells: int = CENTRAL_CELLS,
) -> tuple[Grid, Plan]:
    """The plan of a sound run, from public parameters only. Raises BoundsMissing,
    SizeHintMissing, NoPlan; each names the field."""
    if params.bounds is None:
        raise BoundsMissing(pointer="/params/bounds")
    if params.n_hint is None:
        raise SizeHintMissing(pointer="/params/n_hint")
    records = params.contribution_bound if params.privacy_unit == "curator" else 1
    try:
        plan = make_plan(
            size=params.n_hint,
            dimension=len(params.bounds),
            clusters=params.k,
            epsilon=params.epsilon,
            mode=params.mode,
            rounds=params.rounds,
            max_cells=params.max_cells or default_cells,
            noise_share=noise_share,
            records=records,
            start=params.start,
        )
    except PlanImpossible as problem:
        raise NoPlan(problem.reason, pointer=f"/params/{problem.field}") from None
    low, high = zip(*params.bounds, strict=True)
    return Grid(low, high, plan.steps), plan


def check_start(params: Parameters, stance: Stance) -> None:
    """Raises MethodNeedsSound for a start that the source does not have."""
    if stance == "paper" and params.start == "two-level":
        raise MethodNeedsSound("the source starts from records", pointer="/params/start")


def check_table(
    params: Parameters, stance: Stance, rows: int, columns: int, has_curators: bool
) -> None:
    """Refuse a table that does not fit; the answer may depend on private sizes: operator only.

    Raises DataShape, UnitMismatch, MethodNeedsSound.
    """
    if not 1 <= columns <= DIMENSIONS:
        raise DataShape(f"a table has 1 to {DIMENSIONS} numeric columns", pointer="/dataset")
    check_start(params, stance)
    if stance == "paper":
        if rows <= params.k:
            raise DataShape("the source's algorithm needs more records than k", pointer="/params/k")
        return
    if params.bounds is not None and len(params.bounds) != columns:
        raise DataShape("one pair of bounds for each column", pointer="/params/bounds")
    if params.privacy_unit == "curator" and not has_curators:
        raise UnitMismatch(
            "privacy_unit curator needs a column with the role curator",
            pointer="/params/privacy_unit",
        )
