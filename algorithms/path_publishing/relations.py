"""From a network to what the levels have to show: copies of vertices, and which pairs go together.

Source: Lu's thesis, Algorithms 6.1 (ring removal) and 6.2 (edge pre-processing). Spec:
path-publishing, sections 3.1 and 3.2, with its repairs. Stance `paper`: the weights are floats.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from tacit.paths.network import NetworkPath
from tacit.randomness import NoiseSource

Node: TypeAlias = tuple[int, int]
"""A sub-vertex: place of the base vertex, number of the copy."""

WORD: Final = 1 << 64


@dataclass(frozen=True)
class Relations:
    """order: sub-vertices, the first `real` in the order of the path, then the fake copies.
    together[i]: bit mask of the places j in `order` with r = 2 (one branch of the graph)."""

    order: tuple[Node, ...]
    real: int
    together: tuple[int, ...]

    def pairs(self) -> set[tuple[int, int]]:
        """The pairs (i, j), i < j, with r = 2."""
        places = range(len(self.order))
        return {(i, j) for i in places for j in places if i < j and self.together[i] >> j & 1}


def fake_probability(epsilon_e: float | None) -> float:
    """p2: how likely a pair without an edge is drawn into one branch; 0 without noise."""
    return 0.0 if epsilon_e is None else 1 / (1 + math.exp(-epsilon_e / 2))


def copy_probabilities(least: int, most: int, epsilon_v: float) -> list[float]:
    """How likely a vertex shows least, least + 1, ..., most copies: weights exp(-epsilon n / 2).

    The degree term of the source's quality function is the same for all n, and cancels.
    """
    weights = [math.exp(-epsilon_v * (number - least) / 2) for number in range(least, most + 1)]
    return [weight / sum(weights) for weight in weights]


def drawn_copies(
    network: NetworkPath, epsilon_v: float | None, source: NoiseSource
) -> tuple[int, ...]:
    """How many copies each vertex shows: as many as it has visits, or more (Algorithm 6.1)."""
    visits = Counter(network.path.tolist())
    base = [visits[place] for place in range(network.network.size)]
    if epsilon_v is None:
        return tuple(base)
    most = max(2, *base)
    words = source.words(len(base)).tolist()
    copies = []
    for least, word in zip(base, words, strict=True):
        total = Fraction(0)
        drawn = least
        for number, chance in enumerate(copy_probabilities(least, most, epsilon_v), least):
            drawn = number
            total += Fraction(chance)
            if word < round(total * WORD):
                break
        copies.append(drawn)
    return tuple(copies)


def insertion_order(path: list[int], copies: tuple[int, ...]) -> tuple[tuple[Node, ...], int]:
    """Sub-vertices in the order in which they are inserted: the visits of the path, then the fake
    copies vertex by vertex; and how many are visits."""
    seen: Counter[int] = Counter()
    order = []
    for place in path:
        order.append((place, seen[place]))
        seen[place] += 1
    for place, shown in enumerate(copies):
        order += [(place, copy) for copy in range(seen[place], shown)]
    return tuple(order), len(path)


def drawn_relations(
    network: NetworkPath, copies: tuple[int, ...], epsilon_e: float | None, source: NoiseSource
) -> Relations:
    """r for every pair (Algorithm 6.2): steps of the path apart, other edges together, and pairs
    without an edge by one coin each."""
    order, real = insertion_order(network.path.tolist(), copies)
    threshold = round(Fraction(fake_probability(epsilon_e)) * WORD)
    joined = {tuple(edge) for edge in network.network.edges.tolist()}
    count = len(order)
    words = source.words(count * (count - 1) // 2).tolist() if threshold else []
    drawn = iter(words)
    together = [0] * count
    for i, (one, _) in enumerate(order):
        for j in range(i + 1, count):
            other = order[j][0]
            fake = bool(words) and next(drawn) < threshold
            if j == i + 1 < real:
                continue
            if ((one, other) if one < other else (other, one)) in joined or fake:
                together[i] |= 1 << j
                together[j] |= 1 << i
    return Relations(order, real, tuple(together))
