"""The parameters of `crowd-tasking`: a task as its publisher posts it.

Spec: crowd-tasking, section 2; jobs, "Parameters". Defaults that depend on the stance (components,
sensitivity) are left open here and filled in by `algorithms.crowd_tasking.task`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from tacit.encoders.crowd_tasking import MOST_STEPS
from tacit.wire import Exact, WireModel, require

Aggregate = Literal["AVG", "HIST", "CLS"]
Unit = Literal["reading", "level", "user"]
Part = Literal["Y", "G", "L"]
ReportKind = Literal["laplace", "window", "subset"]

MOST_EPSILON: Final = 64
MOST_USERS: Final = 1_000_000
MOST_ROUNDS: Final = 100_000
MOST_COORDINATES: Final = 64
MOST_BUCKETS: Final = 500
FEWEST_STEPS: Final = 256
"""A reading moves by half a step at most, which no interval counts: 0.2 % of its range."""

Name = Annotated[str, Field(min_length=1, max_length=100)]
Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e15, le=1e15)]


class Coordinate(WireModel):
    """One number of a reading, in the sensor's unit; readings are clamped to its bounds."""

    name: Name
    lower: Number
    upper: Number

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if not self.lower < self.upper:
            raise PydanticCustomError("bad_parameter", "lower is below upper")
        if self.upper - self.lower < 1e-9 * max(1.0, abs(self.lower), abs(self.upper)):
            raise PydanticCustomError("bad_parameter", "the bounds are too close to each other")
        return self


class Sensor(WireModel):
    """What is measured. `steps`: of the grid, over the range of each coordinate."""

    name: Name
    unit: str = Field(default="1", max_length=40)
    coordinates: tuple[Coordinate, ...] = Field(min_length=1, max_length=MOST_COORDINATES)
    steps: int = Field(default=1 << 16, ge=FEWEST_STEPS, le=MOST_STEPS)

    @field_validator("coordinates")
    @classmethod
    def _distinct(cls, value: tuple[Coordinate, ...]) -> tuple[Coordinate, ...]:
        return require(
            len({coordinate.name for coordinate in value}) == len(value),
            value,
            "coordinate names differ",
        )


class Buckets(WireModel):
    """The buckets of a histogram of one coordinate: edges, or one width from the lower bound on."""

    edges: tuple[Number, ...] | None = Field(default=None, min_length=3, max_length=501)
    width: Number | None = Field(default=None, gt=0)
    coordinate: Name | None = Field(default=None, description="the first, unless named")

    @model_validator(mode="after")
    def _either(self) -> Self:
        if (self.edges is None) == (self.width is None):
            raise PydanticCustomError("bad_parameter", "either edges or width")
        if self.edges is not None and any(
            not low < high for low, high in zip(self.edges, self.edges[1:], strict=False)
        ):
            raise PydanticCustomError("bad_parameter", "edges ascend")
        return self


class Parameters(WireModel):
    """A task: aggregate, sensor, wanted users, budget (or tolerated error), and how it runs."""

    model_config = ConfigDict(title="CrowdTaskingParams")

    aggregate: Aggregate = "AVG"
    sensor: Sensor
    n: int = Field(ge=1, le=MOST_USERS, description="users wanted")
    epsilon: Exact | None = Field(
        default=None,
        description="eps_a, 0 < eps <= 64: of one reading (with sensitivity per-coordinate: of one "
        "coordinate of it); with privacy_unit user: of all rounds together",
    )
    max_error: Number | None = Field(
        default=None,
        gt=0,
        description="tolerated mean error instead of epsilon: AVG in the sensor's unit, HIST a "
        "share (below 1), CLS the ratio d / d_avg",
    )
    misc: dict[str, Any] = Field(default_factory=dict, description="free, public")
    rounds: int = Field(default=1, alias="T", ge=1, le=MOST_ROUNDS)
    p: Exact = Field(default=Fraction(1, 2), description="how often the dynamic part L is kept")
    components: tuple[Part, ...] | None = Field(
        default=None, description="default: Y, G, L in paper; Y in sound (Y, G for unit level)"
    )
    privacy_unit: Unit = "reading"
    delta: Exact = Field(
        default=Fraction(1, 10**6), description="for privacy_unit user: of all rounds; 0 is pure"
    )
    sensitivity: Literal["per-coordinate", "l1"] | None = Field(
        default=None, description="default: per-coordinate in paper (as it was run), l1 in sound"
    )
    buckets: Buckets | None = Field(default=None, description="for HIST")
    report: ReportKind | Literal["auto"] | None = Field(
        default=None,
        description="laplace: the source's (default of paper); window: AVG, bounded reports; "
        "subset: HIST of one coordinate, a few buckets; auto: by aggregate and forecast (default "
        "of sound)",
    )
    estimator: Literal["naive", "deconvolve"] = "naive"
    reference: tuple[Number, ...] | None = Field(
        default=None, description="public guess of the bucket shares (default: uniform)"
    )
    classifier: Literal["knn", "svm"] = "knn"
    neighbours: int = Field(default=5, ge=1, le=1000)
    classes: tuple[int, ...] | None = Field(
        default=None, max_length=1000, description="for CLS: all labels there can be, public"
    )
    labels_are_public: bool = Field(
        default=False, description="labels are sent as they are and are not protected"
    )
    label_epsilon: Exact | None = Field(
        default=None, description="randomised response on labels, its epsilon added to a reading's"
    )
    d_avg: Number | None = Field(
        default=None, gt=0, description="for CLS: mean distance of classes, from public data"
    )
    epsilon_limits: dict[str, Exact] | None = Field(
        default=None, description="epsilon_u of each user, by its id; others set no limit"
    )
    prediction_seed: int = Field(default=0, ge=0, lt=1 << 63, description="public")
    evaluate: bool = False

    @field_validator("epsilon")
    @classmethod
    def _epsilon(cls, value: Fraction | None) -> Fraction | None:
        good = value is None or 0 < value <= MOST_EPSILON
        return require(good, value, f"is above 0 and is at most {MOST_EPSILON}")

    @field_validator("label_epsilon")
    @classmethod
    def _label_epsilon(cls, value: Fraction | None) -> Fraction | None:
        good = value is None or 0 < value <= MOST_EPSILON
        return require(good, value, f"is above 0 and is at most {MOST_EPSILON}")

    @field_validator("p")
    @classmethod
    def _probability(cls, value: Fraction) -> Fraction:
        return require(0 <= value <= 1, value, "a probability is between 0 and 1")

    @field_validator("delta")
    @classmethod
    def _delta(cls, value: Fraction) -> Fraction:
        good = value == 0 or Fraction(1, 10**15) <= value <= Fraction(1, 10)
        return require(good, value, "is 0, or is between 1e-15 and 0.1")

    @field_validator("components")
    @classmethod
    def _components(cls, value: tuple[Part, ...] | None) -> tuple[Part, ...] | None:
        good = value is None or (bool(value) and len(set(value)) == len(value))
        return require(good, value, "names at least one part, each once")

    @field_validator("classes")
    @classmethod
    def _classes(cls, value: tuple[int, ...] | None) -> tuple[int, ...] | None:
        good = value is None or (len(value) >= 2 and len(set(value)) == len(value))
        return require(good, value, "at least two classes, which differ")

    @field_validator("epsilon_limits")
    @classmethod
    def _limits(cls, value: dict[str, Fraction] | None) -> dict[str, Fraction] | None:
        good = value is None or all(limit > 0 for limit in value.values())
        return require(good, value, "a user's limit is above 0")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.epsilon is None) == (self.max_error is None):
            raise _refused("epsilon", "either epsilon or max_error")
        if self.privacy_unit == "user" and self.sensitivity == "per-coordinate":
            raise _refused("sensitivity", "the unit user goes with l1")
        if self.aggregate == "HIST":
            self._fits_histogram()
        elif self.buckets is not None:
            raise _refused("buckets", "are for HIST")
        if self.aggregate == "CLS":
            self._fits_classifier()
        return self

    def _fits_histogram(self) -> None:
        if self.buckets is None:
            raise _refused("buckets", "HIST needs some")
        names = [coordinate.name for coordinate in self.sensor.coordinates]
        if self.buckets.coordinate is not None and self.buckets.coordinate not in names:
            raise _refused("buckets.coordinate", "is no coordinate of the sensor")
        if self.buckets.width is not None:
            chosen = self.histogram_coordinate
            count = (chosen.upper - chosen.lower) / self.buckets.width
            if not 1 < math.ceil(count - 1e-9) <= MOST_BUCKETS:
                raise _refused("buckets.width", f"gives between 2 and {MOST_BUCKETS} buckets")
        edges = self.bucket_edges
        chosen = self.histogram_coordinate
        if edges[0] > chosen.lower or edges[-1] < chosen.upper:
            raise _refused("buckets.edges", "cover the bounds")
        if self.reference is not None:
            if len(self.reference) != len(edges) - 1 or min(self.reference) < 0:
                raise _refused("reference", "has one share for each bucket, none below 0")
            if abs(sum(self.reference) - 1) > 1e-6:
                raise _refused("reference", "shares add up to 1")
        if self.max_error is not None and self.max_error >= 1:
            raise _refused("max_error", "an error of shares is below 1")

    def _fits_classifier(self) -> None:
        if self.classes is None:
            raise _refused("classes", "CLS names at least two")
        if self.labels_are_public and self.label_epsilon is not None:
            raise _refused("label_epsilon", "public labels are not perturbed")
        if self.label_epsilon is not None and self.privacy_unit != "reading":
            raise _refused("label_epsilon", "goes with privacy_unit reading")
        if self.max_error is not None and self.d_avg is None:
            raise _refused("d_avg", "a ratio is solved for with a public d_avg")

    @property
    def dimension(self) -> int:
        """k, the number of coordinates."""
        return len(self.sensor.coordinates)

    @property
    def widths(self) -> tuple[float, ...]:
        """(k,) the range of each coordinate, in the sensor's unit."""
        return tuple(coordinate.upper - coordinate.lower for coordinate in self.sensor.coordinates)

    @property
    def histogram_coordinate(self) -> Coordinate:
        """The coordinate whose histogram is requested."""
        return self.sensor.coordinates[self.histogram_place]

    @property
    def histogram_place(self) -> int:
        """The place of the coordinate, from 0."""
        if self.buckets is None or self.buckets.coordinate is None:
            return 0
        return [coordinate.name for coordinate in self.sensor.coordinates].index(
            self.buckets.coordinate
        )

    @property
    def bucket_edges(self) -> tuple[float, ...]:
        """(m+1,) of the histogram; the last bucket of a width may be cut by the upper bound."""
        assert self.buckets is not None
        if self.buckets.edges is not None:
            return self.buckets.edges
        assert self.buckets.width is not None
        chosen = self.histogram_coordinate
        width = self.buckets.width
        count = math.ceil((chosen.upper - chosen.lower) / width - 1e-9)
        return (*(chosen.lower + place * width for place in range(count)), chosen.upper)


def _refused(field: str, reason: str) -> PydanticCustomError:
    return PydanticCustomError(
        "bad_parameter", "{field}: {reason}", {"field": field, "reason": reason}
    )
