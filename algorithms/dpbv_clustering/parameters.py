"""The parameters of dpbv-clustering, what follows from them alone, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Final, Literal, Self, get_args

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from algorithms.contract import MethodNeedsSound, Stance
from tacit.accounting.randomised_response import MOST_RESPONSES, response_epsilon
from tacit.encoders.dpbv_clustering import (
    MOST_CELLS,
    Box,
    Code,
    Design,
    Flip,
    Floats,
    make_codes,
    most_differing,
    point_scale,
)
from tacit.errors import Invalid, TooLarge
from tacit.noise import DiscreteLaplace
from tacit.records.text_files import number_problem
from tacit.wire import Exact, WireModel, require


class BadParameter(Invalid):
    """A parameter, or a row, that the algorithm cannot use.

    `field`: the parameter (or the column); `row`: counted from 0, visible only to the operator.
    No value of the data is in the message.
    """

    name = "bad_parameter"
    title = "A parameter is not valid"

    def __init__(self, field: str, reason: str, row: int | None = None) -> None:
        place = field if row is None else f"{field}, row {row}"
        about_data = field == "dataset" or row is not None
        super().__init__(
            f"{place}: {reason}",
            pointer="/dataset" if about_data else f"/params/{field}",
            extra={} if row is None else {"row": row, "column": field},
        )
        self.field, self.reason, self.row = field, reason, row


class TooFewRows(BadParameter):
    """There are no rows."""

    name = "too_few_rows"
    title = "The dataset has too few rows"


class RowOutside(BadParameter):
    """A value outside the declared bounds, which this stance does not clamp."""

    name = "malformed_row"
    title = "A row of the dataset is malformed"


class TooManyRows(TooLarge):
    """More rows than can be stored or compared in pairs; `field` as in BadParameter."""

    name = "too_large"
    title = "The dataset is too large for this method"

    def __init__(self, field: str, reason: str) -> None:
        pointer = "/dataset" if field == "dataset" else f"/params/{field}"
        super().__init__(f"{field}: {reason}", pointer=pointer)


class TooManyCells(BadParameter):
    """The grid would be too fine for its number of columns."""

    name = "too_many_cells"
    title = "The grid has too many cells"


class UnitNotProtected(BadParameter):
    """The method protects another unit."""

    name = "unit_not_protected"
    title = "The unit of privacy is not protected by this method"


class NoiseTooLarge(BadParameter):
    """No local distance is distinguishable from the noise."""

    name = "noise_too_large_for_local_view"
    title = "The noise leaves nothing local"


# Spec: dpbv-clustering, section 2. Ranges are checked when the model is made; what depends on the
# stance, on the number of columns or on the (public) number of rows when a run is planned.

Method = Literal["grid-core", "grid-ldp", "laplace-points", "dpbv-exact"]
METHOD_OF_ROUNDS: Final[Method] = "grid-core"
"""Its counts are sums; curators answer every other method with reports."""
METHODS_OF_REPORTS: Final = tuple(
    get_arg for get_arg in get_args(Method) if get_arg != METHOD_OF_ROUNDS
)
Consistency = Literal["none", "line", "hop-mean", "literal", "matched"]
Partition = Literal["horizontal", "vertical-plain", "vertical-decomposed"]
Clusterer = Literal["kcluster", "dbscan", "agglomerative"]
Baseline = Literal["kmeans", "adp", "rsp"]

HOP_MEAN_ROWS: Final = 2000
"""The largest table for the closure over middle points: n^3."""
FEW_RECORDS: Final = 1000
"""Below this n epsilon a grid is coarser."""
COARSE, FINE = 8, 16
SHORTEST, LONGEST = 1e-15, 1e15
"""Ranges of an attribute after the map: squared distances are held in 32 bits."""
_SEED_END: Final = 1 << 64


def _between(low: Fraction, high: Fraction, *, open_low: bool) -> AfterValidator:
    words = f"lies {'above' if open_low else 'between'} {low} and {'at most ' * open_low}{high}"

    def check(value: Fraction) -> Fraction:
        inside = (low < value if open_low else low <= value) and value <= high
        return require(inside, value, words)

    return AfterValidator(check)


BitBudget = Annotated[Exact, _between(Fraction(0), Fraction(20), open_low=True)]
Epsilon = Annotated[Exact, _between(Fraction(0), Fraction(64), open_low=True)]
Delta = Annotated[Exact, _between(Fraction(0), Fraction(1, 1000), open_low=False)]
Sigma = Annotated[Exact, _between(Fraction(0), Fraction(10**6), open_low=True)]
Seed = Annotated[int, Field(ge=0, lt=_SEED_END)]
Pair = tuple[float, float]


def _ordered(value: Pair) -> Pair:
    for end in value:
        if (wrong := number_problem(end)) is not None:
            require(False, value, wrong)
    return require(value[0] < value[1], value, "the lower end is below the upper end")


Interval = Annotated[Pair, AfterValidator(_ordered)]


class Parameters(WireModel):
    """Parameters of a job. Lengths named `t`, `dbscan_radius` are in units after `rescale_to`."""

    columns: Annotated[tuple[str, ...], Field(min_length=1, max_length=256)] | None = Field(
        default=None, description="attributes; default: all numeric columns"
    )
    bounds: Annotated[tuple[Interval, ...], Field(min_length=1, max_length=256)] | None = Field(
        default=None,
        description="public range of every attribute; required in sound. In paper the data's own "
        "smallest and largest values are taken where it is missing, which is a leak",
    )
    rescale_to: Interval | None = Field(default=(0.0, 50.0), description="affine map of the bounds")
    rescale_global: bool = Field(default=False, description="one factor for all attributes")
    s: int = Field(default=1000, ge=8, le=65_536, description="bits per value")
    t: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="half window; default: half of an attribute's range"
    )
    epsilon_bit: BitBudget | Literal["inf"] = Field(
        default=Fraction(2), description="paper: budget of one bit, in (0, 20]; inf: no flips"
    )
    epsilon: Epsilon = Field(default=Fraction(4), description="sound: of a record, in (0, 64]")
    delta: Delta = Field(
        default=Fraction(1, 10**6), description="of a record, in [0, 1/1000]; dpbv-exact only"
    )
    privacy_unit: Literal["record", "radius"] = Field(
        default="record", description="radius: dpbv-exact protects near pairs at the stated budget"
    )
    radius: tuple[Annotated[float, Field(gt=0)], ...] | None = Field(
        default=None, description="of the unit radius: one length per attribute, in data units"
    )
    clusterer: Clusterer = "kcluster"
    method: Method | None = Field(
        default=None, description="sound; default: grid-core up to 4096 cells, else laplace-points"
    )
    cells_per_axis: Annotated[int, Field(ge=2, le=64)] | None = Field(
        default=None, description="default: 16, or 8 where records times epsilon are below 1000"
    )
    grid: Literal["fixed", "adaptive"] | None = Field(
        default=None,
        description="grid-core: fixed: cells_per_axis; adaptive: the plan of kmeans at half the "
        "epsilon, for kcluster and at most 6 columns, where it is the default (over curators: with "
        "n_hint)",
    )
    n_hint: Annotated[int, Field(ge=1, le=10**12)] | None = Field(
        default=None,
        description="a rough public number of records, never computed from the data; grid adaptive "
        "over curators needs it, stored rows are counted",
    )
    r_design: Design | None = Field(
        default=None, description="public points; default: grid in dpbv-exact, else uniform"
    )
    tight_k: bool = Field(default=False, description="count the bits that can really differ")
    metric: Literal["euclidean", "manhattan"] = "euclidean"
    r_seed: Seed = Field(default=1, description="public: the random points")
    public_seed: Seed = Field(default=1, description="public: first records, restarts, projections")
    k: Annotated[int, Field(ge=1, le=256)] | None = Field(
        default=None,
        description="clusters, 1..256; paper: at most the rows, and 1 for a single row only; not "
        "for dbscan",
    )
    n_init: int = Field(default=10, ge=1, le=100, description="restarts")
    max_iter: int = Field(default=100, ge=1, le=1000)
    dbscan_radius: Annotated[float, Field(gt=0)] | None = None
    min_samples: Annotated[int, Field(ge=2)] | None = None
    consistency: Consistency | None = Field(
        default=None,
        description="default: none where 2t covers the range; else line without flips, hop-mean "
        "with flips up to 2000 rows, matched beyond",
    )
    bias_correct: bool | None = Field(default=None, description="default: in dpbv-exact only")
    partition: Partition = "horizontal"
    alice_columns: Annotated[int, Field(ge=1, le=255)] | None = Field(
        default=None, description="vertical: how many of the first attributes Alice holds"
    )
    baselines: tuple[Baseline, ...] = Field(default=(), description="paper; in the evaluation")
    adp_sigma: Sigma = Field(default=Fraction(1), description="standard deviation, data units")
    rsp_dimensions: Annotated[int, Field(ge=1, le=256)] | None = Field(
        default=None, description="of the projection; default: half of the attributes"
    )
    evaluate: bool = Field(default=False, description="compare with the true data; never published")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.columns is not None and len(set(self.columns)) != len(self.columns):
            raise ValueError("columns: names differ")
        if self.clusterer != "dbscan" and self.k is None:
            raise ValueError("k: this clusterer needs the number of clusters")
        if (self.privacy_unit == "radius") != (self.radius is not None):
            raise ValueError("radius: given with the privacy unit radius, and only there")
        if (self.partition == "horizontal") != (self.alice_columns is None):
            raise ValueError("alice_columns: given with a vertical partition, and only there")
        return self

    @property
    def bit_epsilon(self) -> Fraction | None:
        """`epsilon_bit`, None without flips."""
        return None if self.epsilon_bit == "inf" else self.epsilon_bit


# --------------------------------------------------------------------------------------- the plan


@dataclass(frozen=True, eq=False)
class BitPlan:
    """How records become bits, and how these are clustered. All of it is public.

    differing: bits in which two records can differ, as accounted. `near`: the same for pairs
    within the radius, None for the unit record. `epsilon_bit`: as requested; None: no flips.
    """

    box: Box
    codes: tuple[Code, ...]
    flip: Flip
    epsilon_bit: Fraction | None
    differing: int
    near: int | None
    consistency: Consistency
    bias_correct: bool

    @property
    def spans(self) -> tuple[float, ...]:
        """mu, the width of every attribute."""
        return tuple(code.span for code in self.codes)


def check_rows(params: Parameters, stance: Stance, rows: int) -> None:
    """Check whether the rows allow k clusters. Raises BadParameter, in `paper` only.

    In `sound` a refusal would reveal the number of rows without noise; it finds fewer clusters
    instead.
    """
    k = params.k
    if stance == "sound":
        return
    if rows < 1:
        raise TooFewRows("dataset", "at least one row")
    if params.clusterer == "dbscan" or k is None:
        return
    if k > rows:
        raise BadParameter("k", "no more clusters than rows")
    if k == 1 and rows > 1:
        raise BadParameter("k", "is between 2 and 256")


def check_stance(params: Parameters, stance: Stance) -> None:
    """What a stance needs. Raises BadParameter, MethodNeedsSound."""
    if stance == "paper":
        if params.grid == "adaptive":
            raise MethodNeedsSound("the source has no grid", pointer="/params/grid")
        if params.clusterer == "dbscan":
            _need_dbscan(params)
        if params.partition == "vertical-decomposed" and params.consistency not in (None, "none"):
            raise BadParameter("consistency", "a decomposition has one distance per pair: none")
        return
    for field, empty in (("baselines", ()), ("partition", "horizontal")):
        if getattr(params, field) != empty:
            raise BadParameter(field, "offered in the stance paper only")
    if params.bounds is None:
        raise BadParameter("bounds", "the stance sound needs the public range of every attribute")
    if params.consistency == "literal":
        raise BadParameter("consistency", "literal is offered in the stance paper only")
    method = params.method
    if method == "dpbv-exact" and params.clusterer == "dbscan":
        _need_dbscan(params)
    if method != "dpbv-exact":
        if params.privacy_unit == "radius":
            raise UnitNotProtected("privacy_unit", "radius needs dpbv-exact")
        if params.clusterer == "agglomerative":
            raise BadParameter("clusterer", "agglomerative needs dpbv-exact")
    if method == "laplace-points" and params.clusterer != "kcluster":
        raise BadParameter("clusterer", "noisy points are clustered by k-means: kcluster")


def _need_dbscan(params: Parameters) -> None:
    for field in ("dbscan_radius", "min_samples"):
        if getattr(params, field) is None:
            raise BadParameter(field, "dbscan needs it")


def resolve_method(params: Parameters, rows: int | None) -> tuple[Method, int]:
    """The sound method, and the cells of an axis for the grids.

    `rows`: public; None (a preview): assumed large. Raises BadParameter with `too_many_cells`.
    """
    assert params.bounds is not None
    dimension = len(params.bounds)
    few = rows is not None and rows * params.epsilon < FEW_RECORDS
    per_axis = params.cells_per_axis or (COARSE if few else FINE)
    fits = per_axis**dimension <= MOST_CELLS
    method = params.method or ("grid-core" if fits else "laplace-points")
    if method.startswith("grid") and not fits:
        raise TooManyCells(
            "cells_per_axis",
            f"{per_axis}^{dimension} cells are more than {MOST_CELLS}: take fewer columns",
        )
    if method == "laplace-points" and params.clusterer != "kcluster":
        raise BadParameter("clusterer", "noisy points are clustered by k-means: kcluster")
    try:
        if method == "grid-core":
            DiscreteLaplace(2 / params.epsilon)
        elif method == "grid-ldp":
            Flip.of_epsilon(params.epsilon)
        elif method == "laplace-points":
            point_scale(dimension, params.epsilon)
    except ValueError as wrong:
        raise BadParameter("epsilon", str(wrong)) from None
    return method, per_axis


def make_box(params: Parameters, bounds: tuple[Pair, ...]) -> Box:
    """The declared (or, in paper, measured) box with its map."""
    lower, upper = zip(*bounds, strict=True)
    return Box(lower, upper, params.rescale_to, params.rescale_global)


def plan_bits(params: Parameters, stance: Stance, box: Box, rows: int | None) -> BitPlan:
    """Codes, coins and consistency. `rows`: public; None: a preview. Raises BadParameter."""
    exact = stance == "sound"
    widths = [high - low for low, high in box.ranges]
    if not all(SHORTEST <= width <= LONGEST for width in widths):
        reason = f"gives each attribute a range from {SHORTEST:g} to {LONGEST:g}: name one"
        raise BadParameter("rescale_to", reason)
    if params.t is not None and params.t > min(widths):
        raise BadParameter("t", "no longer than an attribute's range, after the map")
    halves = tuple(params.t if params.t is not None else width / 2 for width in widths)
    design = params.r_design or ("grid" if exact else "uniform")
    codes = make_codes(box.ranges, halves, params.s, design, params.r_seed)
    differing = params.s * len(codes)
    if params.tight_k:
        differing = sum(most_differing(code) for code in codes)
    if differing > MOST_RESPONSES:
        raise BadParameter("s", f"a record has at most {MOST_RESPONSES} bits in total")
    near = _near(params, box, codes)
    budget = params.bit_epsilon
    if exact:
        budget = response_epsilon(near or differing, params.epsilon, params.delta)
    try:
        flip = Flip.of_epsilon(budget)
    except ValueError as wrong:
        raise BadParameter("epsilon" if exact else "epsilon_bit", str(wrong)) from None
    covers = all(2 * code.half_window >= code.upper - code.lower for code in codes)
    consistency = params.consistency or _default_consistency(exact, covers, flip, rows)
    if consistency == "line" and flip.threshold:
        raise BadParameter("consistency", "line needs bits without flips")
    if consistency == "hop-mean" and rows is not None and rows > HOP_MEAN_ROWS:
        raise BadParameter("consistency", f"hop-mean takes {HOP_MEAN_ROWS} rows: take matched")
    correct = exact if params.bias_correct is None else params.bias_correct
    return BitPlan(box, codes, flip, budget, differing, near, consistency, correct)


def _near(params: Parameters, box: Box, codes: tuple[Code, ...]) -> int | None:
    if params.radius is None:
        return None
    if len(params.radius) != len(codes):
        raise BadParameter("radius", "one length for every attribute")
    # The map rounds: a hair more than the radius after it.
    lengths: Floats = box.stretch(np.array(params.radius)) * (1 + 1e-9)
    return max(
        1, sum(most_differing(code, far) for code, far in zip(codes, lengths.tolist(), strict=True))
    )


def _default_consistency(exact: bool, covers: bool, flip: Flip, rows: int | None) -> Consistency:
    if exact:
        return "matched"
    if covers:
        return "none"
    if not flip.threshold:
        return "line"
    return "hop-mean" if rows is None or rows <= HOP_MEAN_ROWS else "matched"
