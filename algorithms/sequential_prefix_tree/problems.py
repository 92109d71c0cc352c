"""What is refused, and where."""

from __future__ import annotations

from tacit.errors import Invalid, TooLarge


class BadTaxonomy(Invalid):
    """An item without a group, an empty group, or two taxonomies at the same time."""

    name = "bad_taxonomy"
    title = "The taxonomy is not valid"


class BadHeight(Invalid):
    """Outside its range."""

    name = "bad_height"
    title = "The height is not valid"


class BadSplit(Invalid):
    """Outside its range."""

    name = "bad_split"
    title = "The share of the groups is not valid"


class BadThreshold(Invalid):
    """Negative, or one with which empty nodes multiply without end."""

    name = "bad_threshold"
    title = "The threshold is not valid"


class DegenerateFanOut(Invalid):
    """Groups of two items or fewer: the source's split leaves nothing for the items."""

    name = "degenerate_fan_out"
    title = "The groups are too small for the source's split"


class TreeTooLarge(TooLarge):
    """More nodes than the job allows. Decided from noisy counts alone."""

    name = "tree_too_large"
    title = "The tree would be too large"

    def __init__(self, limit: int, factor: float) -> None:
        super().__init__(
            f"more than {limit} nodes are expected; an empty node has {factor:.3g} empty children "
            "in expectation, each level anew: raise the thresholds or max_nodes, or give a taxonomy"
        )
