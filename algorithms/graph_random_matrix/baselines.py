"""The source's baselines LNPP and RW (below): **not private.**

LNPP: eigenpairs under Laplace noise.

The scale of an eigenvector's noise is sqrt(n) over the gap of its own eigenvalue: a local
sensitivity, and only of first order. Two equal disjoint cliques have gap 0 and noise without bound,
one edge less has a finite one: no epsilon holds.

Source: Y. Wang, X. Wu, L. Wu, "Differential privacy preserving spectral graph analysis", PAKDD
2013, as far as it could be rebuilt. Spec: graph-random-matrix, section 6.

RW: each edge u - v is replaced by u - z, where z ends a random walk from v. Source: P. Mittal,
C. Papamanthou, D. Song, "Preserving link privacy in social network based systems", arXiv 1208.6189.
"""

from __future__ import annotations

import math

import numpy as np

from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_random_matrix.rows import Adjacency
from algorithms.graph_random_matrix.spectrum import Floats, Spectrum
from tacit.noise.floating import floating_laplace
from tacit.randomness import SeededRandom


def laplace_eigenpairs(
    values: Floats, vectors: Floats, epsilon: float, source: SeededRandom
) -> Spectrum:
    """Noisy eigenpairs k from k + 1 true ones: values (k + 1,), falling; vectors (n, k + 1).

    epsilon is split evenly over the values and each of the k vectors. Not private.
    """
    n, k = vectors.shape[0], vectors.shape[1] - 1
    share = epsilon / (k + 1)
    noisy = values[:k] + floating_laplace(source, math.sqrt(2 * k) / share, k)
    found = np.empty((n, k))
    for place in range(k):
        gap = values[place] - values[place + 1]
        if place:
            gap = min(gap, values[place - 1] - values[place])
        noise = floating_laplace(source, 1.0, n)
        if gap > 0:
            scale = math.sqrt(n) / gap / share
            found[:, place] = vectors[:, place] + scale * noise
        else:
            found[:, place] = noise  # a scale without bound leaves nothing else
    found /= np.linalg.norm(found, axis=0)
    # X (X'X)^(-1/2): the nearest matrix with orthonormal columns.
    left, _, right = np.linalg.svd(found, full_matrices=False)
    return Spectrum(np.abs(noisy), (left @ right) * np.abs(noisy))


def random_walk_graph(graph: Adjacency, steps: int, retries: int, source: SeededRandom) -> EdgeList:
    """Each vertex's edges moved to where a walk of steps - 1 >= 0 from its neighbours ends.

    A walk that ends at the vertex itself or at one joined to it already is repeated, at most
    `retries` times. The first edge of a vertex is kept for sure, each later one with probability
    (degree / 2 - 1) / (degree - 1), so that the number of edges stays about the same. Not private.
    """
    generator = source.generator
    starts, neighbours = graph.starts.tolist(), graph.neighbours.tolist()
    joined: list[set[int]] = [set() for _ in range(graph.count)]
    for vertex in range(graph.count):
        begin, end = starts[vertex], starts[vertex + 1]
        later = (end - begin) / 2 - 1
        for place in range(begin, end):
            for _ in range(retries):
                reached = neighbours[place]
                for _ in range(steps - 1):
                    low, high = starts[reached], starts[reached + 1]
                    reached = neighbours[low + int(generator.random() * (high - low))]
                if reached != vertex and reached not in joined[vertex]:
                    break
            else:
                continue
            if place > begin and generator.random() * (end - begin - 1) >= later:
                continue
            joined[vertex].add(reached)
            joined[reached].add(vertex)
    pairs = np.array(
        [(one, other) for one, found in enumerate(joined) for other in found if one < other],
        np.int32,
    ).reshape(-1, 2)
    return EdgeList.from_pairs(np.arange(graph.count), pairs[:, 0], pairs[:, 1])
