"""A noisy label for each pair of vertices. Spec: path-publishing, section 3.9.

A pair is a step of the path, another edge, or none. A step gets the label H with probability 1 - q,
another edge G with the same, a pair without an edge either by a fair coin; q = 1/(1+e^epsilon).
Between any two of the three a label is at most e^epsilon times as likely.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from algorithms.path_publishing.coins import WORD, wrong_threshold
from algorithms.path_publishing.complement import sorted_ids
from tacit.paths.network import NetworkPath
from tacit.paths.published import RandomizedLabels
from tacit.randomness import NoiseSource
from tacit.wire import format_exact

ABSENT, LINK, STEP = range(3)


def statuses(network: NetworkPath) -> NDArray[np.int8]:
    """ABSENT, LINK or STEP for each pair of sorted ids, in lexicographic order."""
    size = network.network.size
    _, rank = sorted_ids(network.network.vertices)
    found = np.full((size, size), ABSENT, np.int8)
    ends = np.sort(rank[network.network.edges], axis=1)
    found[ends[:, 0], ends[:, 1]] = LINK
    steps = np.sort(rank[np.stack((network.path[:-1], network.path[1:]), axis=1)], axis=1)
    found[steps[:, 0], steps[:, 1]] = STEP
    return found[np.triu_indices(size, 1)]


def drawn_labels(
    status: NDArray[np.int8], epsilon: Fraction, source: NoiseSource
) -> NDArray[np.bool_]:
    """A label for each status; true is H. Decided by exact integers."""
    wrong = wrong_threshold(epsilon)
    thresholds = np.array([WORD // 2, wrong, WORD - wrong], np.uint64)
    shown: NDArray[np.bool_] = source.words(status.size) < thresholds[status]
    return shown


def labelled(network: NetworkPath, epsilon: Fraction, source: NoiseSource) -> RandomizedLabels:
    """All labels, without a direction."""
    ids, _ = sorted_ids(network.network.vertices)
    labels = drawn_labels(statuses(network), epsilon, source)
    return RandomizedLabels(ids, labels, format_exact(epsilon))
