"""The public list of items as a parameter of jobs on sequences.

Spec: sequential-prefix-tree and sequential-ngram, section 2.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import Field

from algorithms.datasets.declaration import INLINE_UNIVERSE, DatasetReference, Item
from algorithms.problems import BadUniverse
from tacit.records.sequences import MAX_UNIVERSE

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
    """Raises BadUniverse where what is known of it is not valid."""
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
