"""The sound modes: publish the map's edges off the path and nothing else, or a noisy label for each
pair of vertices. Spec: path-publishing, sections 3.8 and 3.9.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.path_publishing.levelled_graph import canonical_layout
from tacit.paths.network import Ints, NetworkPath, VertexId, pair_codes, sorted_codes, without
from tacit.paths.published import ComplementEdges, Direction, LevelledGraph, RandomizedLabels
from tacit.randomness import NoiseSource
from tacit.wire import format_exact

LAYOUT_BUDGET = 2000


def off_path(network: NetworkPath, beat: Callable[[], None] = lambda: None) -> ComplementEdges:
    """Sorted ids and the sorted edges off the path, without a direction. `beat` is called between
    its steps."""
    size = network.network.size
    ids, rank = sorted_ids(network.network.vertices)
    edges, path = network.network.edges, rank[network.path]
    if ids != network.network.vertices:
        edges = rank[edges]
    beat()
    codes = sorted_codes(edges[:, 0], edges[:, 1], size)
    beat()
    left = without(codes, pair_codes(path[:-1], path[1:], size))
    beat()
    return ComplementEdges(ids, np.stack(np.divmod(left, size), axis=1))


def sorted_ids(vertices: tuple[VertexId, ...]) -> tuple[tuple[VertexId, ...], Ints]:
    """The ids in order, and the rank (n,) of each."""
    ordered = tuple(sorted(vertices))
    if ordered == vertices:
        return vertices, np.arange(len(vertices))
    order = sorted(range(len(vertices)), key=vertices.__getitem__)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return ordered, rank


def layout_of(published: ComplementEdges) -> LevelledGraph:
    """The published edges on levels, from them alone."""
    together = [0] * len(published.vertices)
    for low, high in published.edges.tolist():
        together[low] |= 1 << high
        together[high] |= 1 << low
    return canonical_layout(together, published.vertices, LAYOUT_BUDGET)


# Spec: path-publishing, section 3.9. A pair is a step of the path, another edge, or none. A step
# gets the label H with probability 1 - q, another edge G with the same, a pair without an edge
# either by a fair coin; q = 1/(1+e^epsilon). Between any two of the three a label is at most
# e^epsilon times as likely.

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


WORD: Final = 1 << 64
_DOWN: Final = Context(prec=60, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_UP: Final = Context(prec=60, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)


def wrong_threshold(epsilon: Fraction) -> int:
    """t: words below it give the wrong answer. 1 <= t <= 2^63, epsilon >= 0."""
    exponent = _DOWN.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    growth = _DOWN.add(1, _DOWN.next_minus(_DOWN.exp(exponent)))
    return min(int(_UP.divide(Decimal(WORD), growth).to_integral_value(ROUND_CEILING)), WORD // 2)


def epsilon_of(threshold: int) -> Fraction:
    """The loss of a threshold, rounded up."""
    ratio = _UP.divide(Decimal(WORD - threshold), Decimal(threshold))
    return Fraction(_UP.next_plus(_UP.ln(ratio))) if threshold < WORD // 2 else Fraction(0)


def drawn_direction(first_is_smaller: bool, epsilon: Fraction, source: NoiseSource) -> Direction:
    """Whether the path begins at the smaller of its end ids, truthful with probability
    e^epsilon / (1 + e^epsilon)."""
    wrong = int(source.words(1)[0]) < wrong_threshold(epsilon)
    return Direction(int(first_is_smaller != wrong), format_exact(epsilon))
