"""Random networks with a path through all vertices: what chapter 6 of Lu's thesis measures on.

Spec: path-publishing, section 5. The source also draws places in the plane, which nothing uses.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from tacit.paths.network import NetworkMap, NetworkPath

SIZES: Final = tuple(
    (vertices, edges)
    for vertices in range(5, 11)
    for edges in range(vertices - 1, vertices * (vertices - 1) // 2 + 1)
)
"""The source's 122 sizes (|V|, |E|)."""

EXTRA_VISITS: Final = 2
"""Of a cyclic path, as in the source's Figure 6.4; the source does not say how it draws them."""


def random_network(
    vertices: int, edges: int, generator: np.random.Generator, extra_visits: int = 0
) -> NetworkPath:
    """Vertices 1..n, a random path through all of them, the other edges uniform.

    extra_visits: number of further visits at uniform positions, never twice the same in a row.
    Raises ValueError where the edges are too few for the path, or too many.
    """
    while True:
        path = generator.permutation(vertices).tolist()
        for _ in range(extra_visits):
            path = _visited_again(path, vertices, generator)
        steps = {(min(pair), max(pair)) for pair in pairwise(path)}
        if len(steps) <= edges or not extra_visits:
            break
        if edges < vertices - 1 + min(extra_visits, 1):
            raise ValueError("too few edges for a path with rings")
    rest = [
        (one, other)
        for one in range(vertices)
        for other in range(one + 1, vertices)
        if (one, other) not in steps
    ]
    if not len(steps) <= edges <= len(steps) + len(rest):
        raise ValueError("no network has so many edges")
    chosen = generator.permutation(len(rest))[: edges - len(steps)].tolist()
    listed = sorted(steps | {rest[at] for at in chosen})
    network = NetworkMap(tuple(range(1, vertices + 1)), np.array(listed, np.int64))
    return NetworkPath(network, np.array(path, np.int64))


def _visited_again(path: list[int], vertices: int, generator: np.random.Generator) -> list[int]:
    while True:
        at = int(generator.integers(0, len(path) + 1))
        vertex = int(generator.integers(0, vertices))
        if vertex not in path[max(0, at - 1) : at + 1]:
            return [*path[:at], vertex, *path[at:]]
