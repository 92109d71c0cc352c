"""LNPP, the source's baseline: eigenpairs under Laplace noise. **Not private.**

The scale of an eigenvector's noise is sqrt(n) over the gap of its own eigenvalue: a local
sensitivity, and of first order besides. Two equal disjoint cliques have gap 0 and noise without
bound, one edge less has a finite one: no epsilon holds.

Source: Y. Wang, X. Wu, L. Wu, "Differential privacy preserving spectral graph analysis", PAKDD
2013, as far as it could be rebuilt. Spec: graph-random-matrix, section 6.
"""

from __future__ import annotations

import math

import numpy as np

from algorithms.graph_random_matrix.spectrum import Floats, Spectrum
from common.noise.floating import floating_laplace
from common.randomness import SeededRandom


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
