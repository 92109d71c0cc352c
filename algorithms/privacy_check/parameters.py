"""The parameters of `privacy-check`, and what is refused. Spec: trajectory-kcl, section 10."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from tacit.errors import Invalid
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
    """`<qid -> value, h>`: no group of these columns may reveal the value with more confidence."""

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
    """Values in a row: |i - j| / (m - 1). `order`: needed for texts; without it the cells are
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
