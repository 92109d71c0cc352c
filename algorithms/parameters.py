"""What the parameters of several algorithms share: fields, the public item universe, and errors.

Spec: jobs, "Parameters".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from pydantic import Field

from algorithms.datasets.declaration import INLINE_UNIVERSE, DatasetReference, Item
from tacit.errors import Invalid
from tacit.records.items import MAX_UNIVERSE
from tacit.wire import WireModel

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
    """A parameter names a value that no row has: it would silently have no effect."""

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
    """How many items there are; None while only a reference to the list is known."""
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
    """The items in order. A reference has to be replaced by its list before; raises BadUniverse."""
    if isinstance(universe, tuple):
        return universe
    if isinstance(universe, int):
        return tuple(str(item) for item in range(1, universe + 1))
    raise BadUniverse("the list of this dataset is missing", pointer="/params/universe")
