"""Single items that noise alone would show are not released one by one: their mass is spread.

Without it half of all items come out above 0 whatever the data, each about b = l_max / e_root
often. Items at the root's own threshold theta stay. Of the u others, x their noisy counts,

    r = sum x + u (theta + b) e^(-theta / b) / 2

is what they hold together, without the bias of having cut off the upper tail of their noise. If it
is more than noise, r > 3 b sqrt(2 u), each gets r / u, rounded without bias; else nothing.

Post-processing of noisy counts: no budget. Spec: sequential-ngram, section 3, step 4.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.sequential_ngram.tree import Tree
from tacit.randomness import NoiseSource

_CLEAR: Final = 3


def with_clear_root(tree: Tree, source: NoiseSource) -> Tree:
    """The tree with a first row (whole numbers) in which items below the threshold are alike, up to
    rounding."""
    counts = tree.noisy[0, :-1]
    threshold = float(tree.thresholds()[0, 0])
    others = np.flatnonzero(counts < threshold)
    row = tree.noisy[0].copy()
    if others.size:
        each = spread(counts[others].astype(np.float64), threshold, _scale(tree))
        whole = math.floor(each)
        coins = (source.words(others.size) >> np.uint64(11)) * 2.0**-53
        row[others] = np.minimum(whole + (coins < each - whole), max(math.ceil(threshold) - 1, 0))
    return replace(tree, noisy=np.concatenate((row[None], tree.noisy[1:])))


def spread(counts: NDArray[np.float64], threshold: float, scale: float) -> float:
    """What each of the items (u,) below the threshold gets; scale: b of their noise."""
    number = counts.size
    tail = (threshold + scale) * math.exp(-threshold / scale) / 2
    held = float(counts.sum()) + number * tail
    return held / number if held > _CLEAR * scale * math.sqrt(2 * number) else 0.0


def _scale(tree: Tree) -> float:
    return tree.settings.l_max / float(tree.spends[int(tree.groups[0])].budget)
