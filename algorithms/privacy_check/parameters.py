"""The parameters of `privacy-check`, what is refused, and the measures of groups.

A group is the rows that are equal on all quasi-identifiers. Measured are how often it has each
sensitive value, one number for each model, and, for t-closeness, the earth mover's distance of its
distribution to the table's. Spec: trajectory-kcl, section 10.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from algorithms.datasets.tables import Texts
from tacit.errors import Invalid
from tacit.records.text_files import exact_number
from tacit.wire import Exact, WireModel, require


class UnknownColumn(Invalid):
    name = "unknown_column"
    title = "The table has no such column"


class QidSensitiveOverlap(Invalid):
    name = "qid_sensitive_overlap"
    title = "A column is quasi-identifier and sensitive at once"


class EmptyTable(Invalid):
    name = "empty_table"
    title = "The table has no rows"


class BadDistance(Invalid):
    name = "bad_distance"
    title = "The ground distance is not a metric"


class ValueMissing(Invalid):
    name = "value_missing"
    title = "A sensitive cell has no value"


MOST_VALUES: Final = 10_000
Names = tuple[str, ...]


def _share(value: Fraction | None) -> Fraction | None:
    return require(value is None or 0 <= value <= 1, value, "is between 0 and 1")


class KAnonymity(WireModel):
    """Every group has at least k rows."""

    model: Literal["k-anonymity"] = "k-anonymity"
    k: Annotated[int | None, Field(ge=1)] = None


class DistinctDiversity(WireModel):
    """Every group has at least l different sensitive values."""

    model: Literal["distinct-l-diversity"] = "distinct-l-diversity"
    least: Annotated[int | None, Field(ge=1, alias="l")] = None


class EntropyDiversity(WireModel):
    """The exponential of every group's entropy is at least l."""

    model: Literal["entropy-l-diversity"] = "entropy-l-diversity"
    least: Annotated[Exact | None, Field(alias="l")] = None

    @field_validator("least")
    @classmethod
    def _least(cls, value: Fraction | None) -> Fraction | None:
        return require(value is None or value >= 1, value, "is at least 1")


class RecursiveDiversity(WireModel):
    """In every group the most frequent value is below c times the l-th and all rarer ones."""

    model: Literal["recursive-cl-diversity"] = "recursive-cl-diversity"
    least: Annotated[int, Field(ge=1, le=1000, alias="l")] = 2
    factor: Annotated[Exact | None, Field(alias="c")] = None

    @field_validator("factor")
    @classmethod
    def _factor(cls, value: Fraction | None) -> Fraction | None:
        return require(value is None or value > 0, value, "is above 0")


class ConfidenceBounding(WireModel):
    """The confidence of every template is at most its h."""

    model: Literal["confidence-bounding"] = "confidence-bounding"


class AlphaKAnonymity(WireModel):
    """Every group has at least k rows and no listed value above the share alpha."""

    model: Literal["alpha-k-anonymity"] = "alpha-k-anonymity"
    alpha: Exact
    k: Annotated[int, Field(ge=1)]
    values: Annotated[
        Names | None,
        Field(min_length=1, description="listed sensitive values, as written; all unless given"),
    ] = None

    @field_validator("alpha")
    @classmethod
    def _alpha(cls, value: Fraction) -> Fraction:
        _share(value)
        return value


class TCloseness(WireModel):
    """Every group's distribution is at most t away from the table's, by earth mover's distance."""

    model: Literal["t-closeness"] = "t-closeness"
    t: Exact | None = None

    @field_validator("t")
    @classmethod
    def _distance(cls, value: Fraction | None) -> Fraction | None:
        return require(value is None or value >= 0, value, "is at least 0")


class Utility(WireModel):
    """What generalisation and suppression cost: cells, discernibility, ILoss, classification."""

    model: Literal["utility"] = "utility"


Model: TypeAlias = Annotated[
    KAnonymity
    | DistinctDiversity
    | EntropyDiversity
    | RecursiveDiversity
    | ConfidenceBounding
    | AlphaKAnonymity
    | TCloseness
    | Utility,
    Field(discriminator="model"),
]


class Template(WireModel):
    """`<qid -> value, h>`: no group of these columns may reveal the value with a confidence
    above h."""

    qid: Names
    value: str
    h: Exact
    column: Annotated[str | None, Field(description="sensitive; the first unless given")] = None

    @field_validator("h")
    @classmethod
    def _confidence(cls, value: Fraction) -> Fraction:
        _share(value)
        return value


class EqualDistance(WireModel):
    """Any two values are 1 apart: the distance of distributions is total variation."""

    kind: Literal["equal"] = "equal"


class OrderedDistance(WireModel):
    """Values in a row: |i - j| / (m - 1). `order`: required for texts; without it the cells are
    numbers, compared exactly."""

    kind: Literal["ordered"] = "ordered"
    order: Names | None = None


class TreeDistance(WireModel):
    """The length of the way between leaves; each edge is [child, parent, length]."""

    kind: Literal["tree"] = "tree"
    edges: Annotated[tuple[tuple[str, str, float], ...], Field(max_length=2 * MOST_VALUES)]

    @model_validator(mode="after")
    def _check(self) -> TreeDistance:
        parents = {child: parent for child, parent, _ in self.edges}
        if len(parents) != len(self.edges) or any(length < 0 for *_, length in self.edges):
            raise BadDistance("a node has one parent, and no length is negative")
        reaches_root: set[str] = set()
        for child in parents:
            way, node = {child}, parents[child]
            while node in parents and node not in reaches_root:
                if node in way:
                    raise BadDistance("the edges of a tree have no circle")
                way.add(node)
                node = parents[node]
            reaches_root |= way
        if len(set(parents.values()) - set(parents)) > 1:
            raise BadDistance("a tree has one root")
        return self


class MatrixDistance(WireModel):
    """All distances: symmetric, not negative, 0 from a value to itself."""

    kind: Literal["matrix"] = "matrix"
    values: Annotated[Names, Field(min_length=1, max_length=1000)]
    distances: tuple[tuple[float, ...], ...]

    @model_validator(mode="after")
    def _check(self) -> MatrixDistance:
        size, rows = len(self.values), self.distances
        if len(set(self.values)) != size or len(rows) != size or {len(r) for r in rows} != {size}:
            raise BadDistance("one row and one column for each of the different values")
        for place, row in enumerate(rows):
            if row[place] != 0 or min(row) < 0:
                raise BadDistance("distances are not negative, and 0 from a value to itself")
            if any(row[other] != rows[other][place] for other in range(place)):
                raise BadDistance("distances are symmetric")
        return self


Distance: TypeAlias = Annotated[
    EqualDistance | OrderedDistance | TreeDistance | MatrixDistance, Field(discriminator="kind")
]


class Leaves(WireModel):
    """Leaves of a taxonomy: of its whole domain, and under each general value (others have 1)."""

    domain: Annotated[int, Field(ge=1)]
    under: Annotated[dict[str, Annotated[int, Field(ge=1)]], Field(max_length=MOST_VALUES)]


_ALL: Final[tuple[Model, ...]] = (
    KAnonymity(),
    DistinctDiversity(),
    EntropyDiversity(),
    RecursiveDiversity(),
    TCloseness(),
    Utility(),
)


class Parameters(WireModel):
    """Parameters of `privacy-check`."""

    qid: Annotated[Names, Field(description="columns that an attacker may know")]
    sensitive: Annotated[
        Names, Field(min_length=1, max_length=64, description="columns that shall stay unknown")
    ]
    models: Annotated[
        tuple[Model, ...],
        Field(description="what to check; without thresholds: what the table satisfies"),
    ] = _ALL
    templates: tuple[Template, ...] = ()
    ground_distance: Annotated[
        dict[str, Distance], Field(description="by sensitive column; equal unless given")
    ] = Field(default_factory=dict)
    leaves: Annotated[dict[str, Leaves], Field(description="taxonomies, by column, for ILoss")] = (
        Field(default_factory=dict)
    )
    label: Annotated[str | None, Field(description="class column of the classification metric")] = (
        None
    )

    @model_validator(mode="after")
    def _apart(self) -> Parameters:
        for name, columns in (("qid", self.qid), ("sensitive", self.sensitive)):
            require(len(set(columns)) == len(columns), columns, f"{name} names a column once")
        parts = [self.qid, *(template.qid for template in self.templates)]
        targets = {*self.sensitive, *(t.column for t in self.templates if t.column is not None)}
        if any(targets & set(part) for part in parts):
            raise QidSensitiveOverlap(pointer="/params/qid")
        # a value that is given but never checked would look checked
        bounded = any(isinstance(model, ConfidenceBounding) for model in self.models)
        require(
            bounded == bool(self.templates), self, "confidence-bounding and templates go together"
        )
        distances, leaves = set(self.ground_distance), set(self.leaves)
        require(distances <= set(self.sensitive), self, "ground_distance names sensitive columns")
        require(leaves <= set(self.qid), self, "leaves names columns of qid")
        return self


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_WIDEST: Final = 1 << 62


@dataclass(frozen=True, eq=False)
class Groups:
    """of (n,): the group of each row; sizes (g,); `first` (g,): a row of each."""

    of: Ints
    sizes: Ints
    first: Ints


@dataclass(frozen=True, eq=False)
class Counts:
    """How often groups have values: entries (group, value, count), by group, then value.

    starts (g + 1,): the entries of group i are starts[i]..starts[i + 1]. totals (m,): of the table.
    """

    starts: Ints
    values: Ints
    counts: Ints
    sizes: Ints
    totals: Ints

    @property
    def groups(self) -> Ints:
        """The group of each entry."""
        return np.repeat(np.arange(len(self.sizes)), np.diff(self.starts))

    @property
    def shares(self) -> Floats:
        """Of each entry: its share of its group."""
        result: Floats = self.counts / self.sizes[self.groups]
        return result

    def dense(self, start: int, stop: int) -> Floats:
        """Shares (stop - start, m) of all values in these groups."""
        result = np.zeros((stop - start, len(self.totals)))
        part = slice(self.starts[start], self.starts[stop])
        result[self.groups[part] - start, self.values[part]] = self.shares[part]
        return result


def grouped(columns: Sequence[Texts], rows: int) -> Groups:
    """The groups of these columns; without columns all rows are one."""
    keys = np.zeros(rows, np.int64)
    size = 1
    for column in columns:
        width = max(len(column.values), 1)
        if size * width >= _WIDEST:
            different, keys = np.unique(keys, return_inverse=True)
            size = len(different)
        keys = keys * width + column.codes
        size *= width
    _, first, of, sizes = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    return Groups(of.reshape(-1), sizes, first)


def counted(groups: Groups, sensitive: Texts) -> Counts:
    """How often each group has each value."""
    width = len(sensitive.values)
    keys, counts = np.unique(groups.of * width + sensitive.codes, return_counts=True)
    starts = np.searchsorted(keys // width, np.arange(len(groups.sizes) + 1))
    totals = np.bincount(sensitive.codes, minlength=width)
    return Counts(starts, keys % width, counts, groups.sizes, totals)


# Spec: trajectory-kcl, section 10.1. Sources: Chen's thesis, chapter 2; for t-closeness Lu's
# thesis, chapter 2. All take the entries of `Counts` and give an array (g,).


def distinct(counts: Counts) -> Ints:
    """Different sensitive values of each group."""
    return np.diff(counts.starts)


def entropy_diversity(counts: Counts) -> Floats:
    """exp of the entropy of each group's distribution: 1 where there is one value."""
    shares = counts.shares
    entropies = np.add.reduceat(-shares * np.log(shares), counts.starts[:-1])
    result: Floats = np.exp(entropies)
    return result


def recursive_factor(counts: Counts, least: int) -> Floats:
    """The infimum of c for which a group is recursive (c, l)-diverse with l = `least`.

    f_1 / (f_l + ... + f_m), frequencies in falling order; infinite for fewer than l values.
    """
    groups = counts.groups
    order = np.lexsort((-counts.counts, groups))
    falling = counts.counts[order]
    rank = np.arange(len(falling)) - counts.starts[groups]
    rest = np.add.reduceat(np.where(rank >= least - 1, falling, 0), counts.starts[:-1])
    most = falling[counts.starts[:-1]]
    result: Floats = np.divide(most, rest, out=np.full(len(most), np.inf), where=rest > 0)
    return result


def confidences(counts: Counts, value: int) -> tuple[Ints, Ints]:
    """Rows of each group with the value, and rows of each group."""
    largest_counts = np.zeros(len(counts.sizes), np.int64)
    chosen = counts.values == value
    largest_counts[counts.groups[chosen]] = counts.counts[chosen]
    return largest_counts, counts.sizes


def discernibility(sizes: Ints) -> int:
    """DM: the sum of the squares of the groups' sizes."""
    return sum(size * size for size in sizes.tolist())


def outside_majority(counts: Counts) -> float:
    """Classification metric: the share of rows outside the largest class of their group."""
    most = np.maximum.reduceat(counts.counts, counts.starts[:-1])
    return 1 - int(most.sum()) / int(counts.sizes.sum())


# Spec: trajectory-kcl, section 10.1. Closed forms where there are some: total variation (equal),
# cumulative differences (ordered), the flow over each edge (tree); else the transport programme, by
# HiGHS (scipy, imported inside).

_CELLS: Final = 1 << 20


def closeness(
    counts: Counts, column: Texts, distance: Distance, beat: Callable[[], None] = lambda: None
) -> Floats:
    """The distance (g,) of each group. Raises BadDistance if the distance does not define a
    value."""
    overall = counts.totals / counts.totals.sum()
    if isinstance(distance, EqualDistance):
        return _equal(counts, overall)
    result = np.empty(len(counts.sizes))
    measure = _measure(column, distance, overall, beat)
    step = max(_CELLS // len(overall), 1)
    for start in range(0, len(result), step):
        beat()
        stop = min(start + step, len(result))
        result[start:stop] = measure(counts.dense(start, stop))
    return result


def _equal(counts: Counts, whole: Floats) -> Floats:
    """Total variation, from the values that a group has alone."""
    overall_shares = whole[counts.values]
    apart = np.add.reduceat(np.abs(counts.shares - overall_shares), counts.starts[:-1])
    absent = 1 - np.add.reduceat(overall_shares, counts.starts[:-1])
    result: Floats = np.maximum((apart + absent) / 2, 0)
    return result


def _measure(
    column: Texts, distance: Distance, whole: Floats, beat: Callable[[], None]
) -> Callable[[Floats], Floats]:
    if isinstance(distance, OrderedDistance):
        order, starts = _order(column, distance)

        def row(shares: Floats) -> Floats:
            result: Floats = np.add.reduceat(shares[..., order], starts, axis=-1)
            return result

        return lambda shares: ordered(row(shares), row(whole))
    if isinstance(distance, TreeDistance):
        below, lengths = _edges(column, distance)
        return lambda shares: np.abs((shares - whole) @ below) @ lengths
    assert isinstance(distance, MatrixDistance)
    matrix = _matrix(column, distance)

    def each(shares: Floats) -> Floats:
        result = np.empty(len(shares))
        for place, row in enumerate(shares):
            beat()
            result[place] = transport(row, whole, matrix)
        return result

    return each


def ordered(shares: Floats, whole: Floats) -> Floats:
    """Of distributions (g, m) over values in a row, neighbours 1 / (m - 1) apart."""
    size = shares.shape[1]
    if size == 1:
        return np.zeros(len(shares))
    result: Floats = np.abs(np.cumsum(shares - whole, axis=1)).sum(axis=1) / (size - 1)
    return result


def transport(one: Floats, other: Floats, distances: Floats) -> float:
    """The least cost of moving a distribution (m,) to another, distances (m, m)."""
    from scipy.optimize import linprog
    from scipy.sparse import eye_array, kron, vstack

    size = len(one)
    ones = np.ones((1, size))
    sums = vstack([kron(eye_array(size), ones), kron(ones, eye_array(size))], format="csr")
    solution = linprog(
        distances.reshape(-1),
        A_eq=sums[:-1],
        b_eq=np.concatenate((one, other))[:-1],
        method="highs",
    )
    return max(float(solution.fun), 0.0)


def _order(column: Texts, distance: OrderedDistance) -> tuple[list[int], list[int]]:
    """The codes of the column in the order of the distance, and where in them each place of the row
    begins: texts that write one number share a place."""
    if distance.order is None:
        numbers = [exact_number(text) for text in column.values]
        if any(number is None for number in numbers):
            raise BadDistance("texts need an order", pointer="/params/ground_distance")
        known_numbers = [number for number in numbers if number is not None]
        order = sorted(range(len(known_numbers)), key=known_numbers.__getitem__)
        ranked = [known_numbers[code] for code in order]
        starts = [at for at in range(len(order)) if not at or ranked[at] != ranked[at - 1]]
        return order, starts
    places = _places(column, distance.order)
    if len(distance.order) != len(column.values):
        raise BadDistance(
            "the order has the column's values, once", pointer="/params/ground_distance"
        )
    return np.argsort(places).tolist(), list(range(len(places)))


def _places(column: Texts, names: tuple[str, ...]) -> list[int]:
    at = {name: place for place, name in enumerate(names)}
    if len(at) != len(names) or not set(column.values) <= set(at):
        raise BadDistance("a value of the column is missing", pointer="/params/ground_distance")
    return [at[text] for text in column.values]


def _edges(column: Texts, distance: TreeDistance) -> tuple[Floats, Floats]:
    """Which values lie below each edge (m, e), and the edges' lengths (e,)."""
    above = {child: (parent, place) for place, (child, parent, _) in enumerate(distance.edges)}
    below = np.zeros((len(column.values), len(distance.edges)))
    for code in range(len(column.values)):
        node = column.values[code]
        if node not in above:
            reason = "a value of the column is no leaf"
            raise BadDistance(reason, pointer="/params/ground_distance")
        while node in above:
            node, edge = above[node]
            below[code, edge] = 1
    return below, np.array([length for *_, length in distance.edges])


def _matrix(column: Texts, distance: MatrixDistance) -> Floats:
    places = _places(column, distance.values)
    result: Floats = np.array(distance.distances)[np.ix_(places, places)]
    return result
