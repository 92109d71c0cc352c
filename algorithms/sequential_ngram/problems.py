"""What is refused, and where."""

from __future__ import annotations

from tacit.errors import Invalid, TooLarge


class BadLength(Invalid):
    """`l_max` or `n_max` outside its range."""

    name = "bad_length"
    title = "A length is not valid"


class TreeTooLarge(TooLarge):
    """More counts or more grams than the job allows. Decided from noisy counts alone."""

    name = "tree_too_large"
    title = "The tree would be too large"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"more than {limit} counts of grams would be asked, or more grams listed: raise "
            "max_nodes, or ask for less with a smaller epsilon, n_max or universe",
            pointer="/params/max_nodes",
        )


class TooManyPairs(TooLarge):
    """Noise alone is expected to join more items than may be listed. From public parameters."""

    name = "too_many_pairs"
    title = "Noise would join too many items"

    def __init__(self, limit: int, expected: float) -> None:
        super().__init__(
            f"about {expected:.2g} pairs of items are expected from noise alone, where max_nodes "
            f"allows {limit}: take a larger epsilon, fewer items, a smaller l_max or n_max, or "
            "raise max_nodes",
            pointer="/params/max_nodes",
        )
