"""Noisy subspace iteration on a grid: an alternative estimator for the same budget.

X_0 has orthonormal columns, the first one constant. Each of T steps publishes Y = A X + noise and
takes an orthonormal basis of Y as the next X. X is public before its step, and is rounded to a grid
first: A X is then a matrix of whole multiples, an edge {i, j} changes it by rows i and j of X, and
the two longest rows bound that exactly. Noise of variance D^2 T / (2 rho) in each step spends
rho / T of it, rho in total (adaptive composition of zCDP).

Source: M. Hardt and E. Price, "The noisy power method", NeurIPS 2014. Spec: graph-random-matrix,
section 3.6, point 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.graph_random_matrix.product import can_compile, dense_product
from algorithms.graph_random_matrix.publication import block_rows
from algorithms.graph_random_matrix.rows import Adjacency
from algorithms.graph_random_matrix.spectrum import Floats, Spectrum, of_thin, orthonormal
from tacit.encoders.graph_random_matrix.projection import largest_pair, philox, squared_norms
from tacit.noise.discrete_gaussian import DiscreteGaussian


@dataclass(frozen=True, eq=False)
class Iterate:
    """One step's release: cells (n, k) of whole numbers; variance of their noise, in those."""

    cells: NDArray[np.int64]
    variance: Fraction


@dataclass(frozen=True, eq=False)
class Iteration:
    """spectrum: of the last step's; unit: the value of one whole number."""

    iterates: tuple[Iterate, ...]
    unit: float
    spectrum: Spectrum

    @property
    def deviation(self) -> float:
        """Of the last step's noise, as a matrix of reals."""
        return math.sqrt(self.iterates[-1].variance) * self.unit


def first_basis(vertices: int, eigenvectors: int, seed: int) -> Floats:
    """(n, k) with orthonormal columns: the constant one and random ones, by a public seed."""
    start = np.random.Generator(philox(seed, "subspace")).standard_normal((vertices, eigenvectors))
    start[:, 0] = 1.0
    return start


def on_grid(basis: Floats, bits: int) -> NDArray[np.int32]:
    """Multiples of 2^-bits, rounded to the nearest."""
    return np.rint(basis * 2.0**bits).astype(np.int32)


def iterate(
    graph: Adjacency,
    eigenvectors: int,
    iterations: int,
    sigma: Fraction,
    bits: int,
    seed: int,
    context: Context,
) -> Iteration:
    """T noisy steps that together are (1 / sigma^2)-zCDP for an edge. Raises Cancelled."""
    compiled = can_compile(graph.entries * eigenvectors * iterations)
    unit = 2.0**-bits
    start = first_basis(graph.count, eigenvectors, seed)
    basis, _ = orthonormal(start, partial(context.progress, 0.1, "subspace iteration"))
    steps: list[Iterate] = []
    for step in range(iterations):
        beat = partial(context.progress, 0.1 + 0.5 * step / iterations, "subspace iteration")
        held = on_grid(basis, bits)
        # rho / T = D^2 / (2 variance), rho = 1 / sigma^2. A grid on which the basis vanishes is too
        # coarse to show anything, and still gets noise.
        change = max(1, largest_pair(squared_norms(held)))
        variance = change * sigma**2 * iterations / 2
        law = DiscreteGaussian(variance)
        cells = np.empty(held.shape, np.int64)
        for rows in graph.blocks(block_rows(eigenvectors)):
            beat()
            part = dense_product(rows, held, compiled=compiled)
            source = context.noise(f"subspace {step}", rows.number)
            law.add_to(part.reshape(-1), source, compiled=compiled)
            cells[rows.first : rows.first + rows.count] = part
        steps.append(Iterate(cells, variance))
        if step + 1 < iterations:
            basis, _ = orthonormal(cells.astype(np.float64), beat)
    last = steps[-1].cells.astype(np.float64) * unit
    spectrum = of_thin(last, partial(context.progress, 0.6, "singular vectors"))
    return Iteration(tuple(steps), unit, spectrum)
