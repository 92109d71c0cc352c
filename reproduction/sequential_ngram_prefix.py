"""The noisy prefix tree in its simple form, as n-grams are compared with it.

Spec: sequential-prefix-tree, section 3 (simple, floating-point noise), with the threshold
max(2 sqrt 2, ln L) that keeps it from growing without end (spec: sequential-ngram, section 6).
"""

from __future__ import annotations

from fractions import Fraction

from algorithms.contract import Context
from algorithms.sequential_ngram.evaluation import Text
from algorithms.sequential_prefix_tree import Parameters as SequentialPrefixTreeParameters
from algorithms.sequential_prefix_tree.counts import publish
from algorithms.sequential_prefix_tree.parameters import item_multiple, resolved
from tacit.records.items import Sequences


def prefix_text(dataset: Sequences, epsilon: Fraction, height: int, context: Context) -> Text:
    """The synthetic database of a prefix tree of this height, as the source prints it."""
    items = len(dataset.universe)
    asked = SequentialPrefixTreeParameters(
        epsilon=epsilon,
        universe=items,
        height=height,
        theta_item=item_multiple(items, "sound", None),
    )
    release = publish(dataset, resolved(asked, "paper")[1], context)
    return Text.of_counts(*release.synthetic(dataset.universe))
