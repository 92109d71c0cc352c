"""What is refused, and where."""

from __future__ import annotations

from common.errors import Invalid, TooLarge


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
            "max_nodes, or ask for less with a smaller epsilon, n_max or universe"
        )
