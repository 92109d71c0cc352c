"""The sorted degrees of a graph from a noisy sequence that was sorted before the noise:
post-processing, no budget.

How many vertices have a degree is taken to follow a geometric law, with the mean that expectation
maximisation finds. Given the noisy sequence, the number of vertices with at most v edges has then a
law for each v, and its median is estimated: the sum of its errors over all v is that of the sorted
degrees. The laws follow from sums over all rising sequences, forwards and backwards, degree by
degree (L. Rabiner, 1989). With many vertices
and degrees only numbers near those of the likeliest sequence are weighed, which is the isotonic
regression in least absolute deviations (M. Hay et al., 2009, with least squares).

Spec: graph-der, section 10.2.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_NUMBERS: Final = 1 << 23
"""Numbers of vertices that are weighed at most, for all degrees together."""

_FEWEST: Final = 0.01
"""Vertices of one degree that are expected at least."""


def estimated_sequence(
    noisy: Ints, scale: float, law: Floats, most_numbers: int = MOST_NUMBERS
) -> Ints:
    """(n,) rising degrees from 0 to n - 1; noisy (n,): sorted degrees with discrete Laplace noise
    of this scale; law: probability of each degree from 0 on."""
    vertices, degrees = noisy.size, min(law.size, noisy.size)
    expected = np.maximum(law[:degrees] * vertices, _FEWEST)
    more = np.log(expected / (1 + expected))  # of one vertex more with this degree
    likeliest = likeliest_numbers(noisy, degrees)
    reach = max(1, most_numbers // (2 * degrees))
    least, most = np.maximum(likeliest - reach, 0), np.minimum(likeliest + reach, vertices)
    least[-1] = vertices

    def logs(degree: int, first: int, last: int) -> Floats:
        """(last - first + 1,) log chances that the vertices from `first` on have this degree."""
        sums = np.zeros(last - first + 1)
        np.cumsum(more[degree] - np.abs(noisy[first:last] - degree) / scale, out=sums[1:])
        return sums

    # forward[v][c]: of the noisy values of the first c vertices, which have at most v edges.
    forward, weights, first = [], np.zeros(1), 0
    for degree in range(degrees):
        chances = logs(degree, first, most[degree])
        reached = np.full(chances.size, -np.inf)
        reached[: weights.size] = weights
        reached = np.logaddexp.accumulate(reached - chances) + chances
        weights = reached[least[degree] - first :]
        weights -= weights.max()
        forward.append(weights)
        first = least[degree]
    numbers = np.full(degrees, vertices)
    backward = np.zeros(1)  # of all others, which have more than v
    for degree in range(degrees - 1, 0, -1):
        first, last = least[degree - 1], most[degree - 1]
        chances = logs(degree, first, most[degree])
        reached = np.full(chances.size, -np.inf)
        reached[chances.size - backward.size :] = backward
        reached = np.logaddexp.accumulate((reached + chances)[::-1])[::-1] - chances
        backward = reached[: last - first + 1]
        backward -= backward.max()
        law = forward.pop(-2) + backward
        below = np.exp(law - law.max()).cumsum()
        numbers[degree - 1] = first + np.searchsorted(below, below[-1] / 2)
    return np.searchsorted(numbers, np.arange(vertices), side="right")


def likeliest_numbers(noisy: Ints, degrees: int) -> Ints:
    """(degrees,) how many vertices have at most v = 0, 1, .. edges in the likeliest sequence:
    the cut with the fewest noisy values above v before it, and up to v after it."""
    numbers = np.full(degrees, noisy.size)
    tasks = [(0, degrees - 1, 0, noisy.size)]
    while tasks:
        low, high, first, last = tasks.pop()
        if low == high:
            continue
        degree = (low + high) // 2
        surplus = np.cumsum(np.where(noisy[first:last] > degree, 1, -1))
        number = first
        if surplus.size and surplus.min() < 0:
            number += int(surplus.argmin()) + 1
        numbers[degree] = number
        tasks += [(low, degree, first, number), (degree + 1, high, number, last)]
    return numbers
