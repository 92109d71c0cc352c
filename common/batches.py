"""Items cut into batches whose sizes stay within a bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import TypeVar

Item = TypeVar("Item")


def batches(
    items: Iterable[Item], size_of: Callable[[Item], int], most: float, most_items: float = inf
) -> Iterator[list[Item]]:
    """The items in their order, in batches of at most `most` in size and `most_items` in number;
    an item that is larger alone is a batch alone."""
    batch: list[Item] = []
    size = 0
    for item in items:
        more = size_of(item)
        if batch and (size + more > most or len(batch) >= most_items):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += more
    if batch:
        yield batch
