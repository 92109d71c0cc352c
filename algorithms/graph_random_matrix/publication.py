"""The published matrix A P + Q, block of rows by block of rows, and its Gram matrix.

Rows of the adjacency matrix times a matrix of integers, exactly; and noisy subspace iteration on
a grid, an alternative estimator for the same budget. Spec: graph-random-matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context, Stance, floating_source
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_random_matrix.linear_algebra import (
    Adjacency,
    Floats,
    Rows,
    Spectrum,
    gram_of,
    of_thin,
    one_thread,
    orthonormal,
)
from tacit.encoders.graph_random_matrix import (
    Entries,
    Projection,
    entries,
    forget,
    largest_pair,
    largest_pair_of,
    philox,
    squared_norms,
)
from tacit.noise.discrete_gaussian import DiscreteGaussian, reach_of

WORTH_COMPILING: Final = 20_000_000
"""Additions from which the seconds of compiling pay."""
_PART: Final = 1 << 22

Signed = NDArray[np.int32] | NDArray[np.int64]


def can_compile(additions: int) -> bool:
    """Whether numba is installed and so much work pays."""
    return additions >= WORTH_COMPILING and find_spec("numba") is not None


def product(rows: Rows, matrix: Entries, *, compiled: bool = False) -> Signed:
    """(rows, m): int32 where the matrix has signs, else int64."""
    if compiled:
        from algorithms.graph_random_matrix import compiled as kernels

        return kernels.product(rows, matrix)
    if matrix.kind == "rademacher":
        return _signs(rows, matrix)
    if matrix.kind == "sparse":
        return _sparse(rows, matrix)
    entries = matrix.values
    return _summed(rows, matrix.columns, np.dtype(np.int64), lambda places: entries[places])


def dense_product(
    rows: Rows, matrix: NDArray[np.int32], *, compiled: bool = False
) -> NDArray[np.int64]:
    """The same of any integers (n, k)."""
    products = product(rows, Entries("gaussian", matrix.shape[1], matrix, 0), compiled=compiled)
    return products.astype(np.int64, copy=False)


def _signs(rows: Rows, matrix: Entries) -> NDArray[np.int32]:
    def ones(places: NDArray[np.int32]) -> NDArray[np.uint8]:
        chosen = matrix.values[places].astype(np.uint8, copy=False)
        return np.unpackbits(chosen, axis=1, count=matrix.columns, bitorder="little")

    result = _summed(rows, matrix.columns, np.dtype(np.int32), ones).astype(np.int32, copy=False)
    result *= 2
    result -= np.diff(rows.starts).astype(np.int32)[:, None]
    return result


def _sparse(rows: Rows, matrix: Entries) -> NDArray[np.int32]:
    m = matrix.columns
    owners = np.repeat(np.arange(rows.count, dtype=np.int64), np.diff(rows.starts))
    codes = matrix.values[rows.neighbours].astype(np.int64)
    cells = (owners[:, None] * m + (codes >> 1)).ravel()
    weights = (1 - 2 * (codes & 1)).ravel().astype(np.float64)
    summed = np.bincount(cells, weights, minlength=rows.count * m)
    return summed.astype(np.int32).reshape(rows.count, m)


def _summed(
    rows: Rows,
    columns: int,
    kind: np.dtype[np.int32] | np.dtype[np.int64],
    chosen: Callable[[NDArray[np.int32]], NDArray[np.generic]],
) -> Signed:
    """Sums of the matrix's rows that each row has as neighbours, some rows at a time."""
    result: Signed = np.zeros((rows.count, columns), kind)
    marks = np.arange(0, rows.neighbours.size, max(1, _PART // columns))
    cuts = np.unique(np.concatenate(([0], np.searchsorted(rows.starts, marks), [rows.count])))
    for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        begin, end = int(rows.starts[first]), int(rows.starts[last])
        if begin == end:
            continue
        occupied = first + np.flatnonzero(np.diff(rows.starts[first : last + 1]))
        part = chosen(rows.neighbours[begin:end])
        result[occupied] = np.add.reduceat(part, rows.starts[occupied] - begin, axis=0, dtype=kind)
    return result


# The adjacency matrix of a graph, row by row. Spec: graph-random-matrix, section 7, lever 4.


def adjacency(graph: EdgeList, *, compiled: bool = False) -> Adjacency:
    """Both directions of each edge. compiled: by numba, which has to be installed."""
    starts = np.concatenate(([0], np.cumsum(graph.degrees())))
    if compiled:
        from algorithms.graph_random_matrix.compiled import both_directions

        return Adjacency(starts, both_directions(starts, graph.first, graph.second))
    rows = np.concatenate([graph.second, graph.first])
    order = np.argsort(rows, kind="stable")
    ends = np.concatenate([graph.first, graph.second])
    return Adjacency(starts, ends[order])


# Spec: graph-random-matrix, sections 3.1, 3.6 and 7 (lever 4). `sound`: whole numbers, discrete
# Gaussian noise, one secret stream for each block. `paper`: floats, Gaussian noise. Blocks have a
# fixed number of rows, so that a repeated attempt draws the same noise.

BLOCK_CELLS: Final = 1 << 22
"""Entries of the published matrix in a block, about."""
MOST_ROWS: Final = 32_768
SPREAD_ENTRIES: Final = 20_000_000
"""Entries of the adjacency matrix from which blocks may go to other workers."""
STAGE: Final = "matrix"
_BATCH: Final = 64
"""Blocks that are in progress at a time: results are passed on before more are started."""

Cells = Signed | NDArray[np.float32]
Sink = Callable[[Rows, Cells], None]


def block_rows(columns: int) -> int:
    """Rows of a block: a power of two, so that a block takes a tenth of a second or so."""
    return int(min(MOST_ROWS, 1 << (BLOCK_CELLS // columns).bit_length() - 1))


@dataclass(frozen=True)
class Release:
    """What is added to which projection.

    sigma: deviation of the noise: in `sound` for rows of length 1, in `paper` literally.
    largest_pair: the squared change of an edge, in integers.
    """

    projection: Projection
    sigma: Fraction
    stance: Stance
    largest_pair: int

    @classmethod
    def of(
        cls,
        projection: Projection,
        sigma: Fraction,
        stance: Stance,
        beat: Callable[[], None] = lambda: None,
    ) -> Release:
        """With what an edge can change."""
        return cls(projection, sigma, stance, largest_pair_of(projection, beat))

    @property
    def variance(self) -> Fraction:
        """Of the noise of `sound`, in integers of the product: that makes
        rho = (squared change of an edge) / (2 variance) = 1 / sigma^2."""
        return self.largest_pair * self.sigma**2 / 2

    @property
    def unit(self) -> float:
        """The value of one unit of a published number."""
        return self.projection.unit if self.stance == "sound" else 1.0

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of one entry, in the units of the real matrix."""
        if self.stance == "paper":
            return float(self.sigma)
        return math.sqrt(self.variance) * self.unit

    def cell_type(self) -> np.dtype[Any]:
        """The element type of the published matrix, by public numbers: no entry overflows."""
        if self.stance == "paper":
            return np.dtype(np.float32)
        largest = self.projection.vertices + reach_of(self.variance)
        fits = self.projection.kind != "gaussian" and largest < 1 << 31
        return np.dtype(np.int32 if fits else np.int64)


@dataclass(frozen=True)
class BlockRelease:
    """A block's part: its published rows (rows, m) and their Gram matrix (m, m).

    Wherever it runs it draws the projection from its seed, and noise from the block's own stream.
    """

    release: Release
    context: Context
    compiled: bool

    def __call__(self, rows: Rows) -> tuple[Cells, Floats]:
        """The product of these rows."""
        cells = noisy_rows(self.release, rows, self.context, compiled=self.compiled)
        with one_thread():
            return cells, gram_of(cells)


def noisy_rows(release: Release, rows: Rows, context: Context, *, compiled: bool) -> Cells:
    """A block of A P + Q, divided by the release's unit."""
    matrix = entries(release.projection)
    source = context.noise(STAGE, rows.number)
    exact = product(rows, matrix, compiled=compiled)
    if release.stance == "paper":
        # Floating noise needs a generator that can be repeated; its seed is secret.
        generator = floating_source(source).generator
        drawn = generator.standard_normal(exact.shape, np.float32) * np.float32(release.sigma)
        return exact.astype(np.float32) * np.float32(release.projection.unit) + drawn
    cells: Signed = exact.astype(release.cell_type(), copy=False)
    law = DiscreteGaussian(release.variance)
    law.add_to(cells.reshape(-1), source, compiled=compiled)
    return cells


def publish(
    graph: Adjacency,
    release: Release,
    context: Context,
    sink: Sink,
    rows: int | None = None,
    spread_entries: int = SPREAD_ENTRIES,
) -> Floats:
    """Pass every block to the sink, in order; returns the Gram matrix (m, m), in units squared.
    rows: of a block, by default `block_rows`.

    Memory is bounded by a block and the projection, except for graphs of at least
    `spread_entries`, whose blocks other workers can compute.
    """
    columns = release.projection.columns
    additions = (graph.entries + graph.count) * columns
    part = BlockRelease(release, context, can_compile(additions))
    size = rows or block_rows(columns)
    blocks = _told(graph, size, context)
    gram = np.zeros((columns, columns))
    try:
        if graph.entries >= spread_entries:
            batch: list[Rows] = []
            for block in blocks:
                batch.append(block)
                if len(batch) == _BATCH:
                    gram += _handed(batch, part, context, sink)
                    batch = []
            gram += _handed(batch, part, context, sink)
        else:
            for block in blocks:
                cells, gram_of_block = part(block)
                sink(block, cells)
                gram += gram_of_block
    finally:
        forget()
    context.progress(0.6, "adding noise")
    return gram


def _handed(batch: list[Rows], part: BlockRelease, context: Context, sink: Sink) -> Floats:
    columns = part.release.projection.columns
    gram = np.zeros((columns, columns))
    for block, (cells, gram_of_block) in zip(batch, context.map_blocks(part, batch), strict=True):
        sink(block, cells)
        gram += gram_of_block
    return gram


def _told(graph: Adjacency, rows: int, context: Context) -> Iterator[Rows]:
    tell = partial(context.progress, stage="adding noise")
    for block in graph.blocks(rows):
        tell(0.1 + 0.5 * block.first / graph.count)
        yield block


# X_0 has orthonormal columns, the first one constant. Each of T steps publishes Y = A X + noise and
# takes an orthonormal basis of Y as the next X. X is public before its step, and is rounded to a
# grid first: A X is then a matrix of whole multiples, an edge {i, j} changes it by rows i and j of
# X, and the two longest rows bound that exactly. Noise of variance D^2 T / (2 rho) in each step
# spends rho / T of it, rho in total (adaptive composition of zCDP). Source: M. Hardt and E. Price,
# "The noisy power method", NeurIPS 2014. Spec: graph-random-matrix, section 3.6, point 6.


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
        gridded = on_grid(basis, bits)
        # rho / T = D^2 / (2 variance), rho = 1 / sigma^2. A grid on which the basis vanishes is too
        # coarse to show anything, and still gets noise.
        change = max(1, largest_pair(squared_norms(gridded)))
        variance = change * sigma**2 * iterations / 2
        law = DiscreteGaussian(variance)
        cells = np.empty(gridded.shape, np.int64)
        for rows in graph.blocks(block_rows(eigenvectors)):
            beat()
            part = dense_product(rows, gridded, compiled=compiled)
            source = context.noise(f"subspace {step}", rows.number)
            law.add_to(part.reshape(-1), source, compiled=compiled)
            cells[rows.first : rows.first + rows.count] = part
        steps.append(Iterate(cells, variance))
        if step + 1 < iterations:
            basis, _ = orthonormal(cells.astype(np.float64), beat)
    last = steps[-1].cells.astype(np.float64) * unit
    spectrum = of_thin(last, partial(context.progress, 0.6, "singular vectors"))
    return Iteration(tuple(steps), unit, spectrum)
