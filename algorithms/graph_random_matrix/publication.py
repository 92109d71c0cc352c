"""The published matrix A P + Q, block of rows by block of rows, and its Gram matrix.

Spec: graph-random-matrix, sections 3.1, 3.6 and 7 (lever 4). `sound`: whole numbers, discrete
Gaussian noise, one secret stream for each block. `paper`: floats, Gaussian noise. Blocks have a
fixed number of rows, so that a repeated attempt draws the same noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context, Stance
from algorithms.graph_random_matrix.product import Signed, can_compile, product
from algorithms.graph_random_matrix.rows import Adjacency, Rows
from algorithms.graph_random_matrix.spectrum import Floats, gram_of, one_thread
from tacit.encoders.graph_random_matrix.projection import (
    Projection,
    entries,
    forget,
    largest_pair_of,
)
from tacit.noise.discrete_gaussian import DiscreteGaussian, reach_of
from tacit.randomness import SeededRandom

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
        """Of the noise of one entry, as a matrix of reals."""
        if self.stance == "paper":
            return float(self.sigma)
        return math.sqrt(self.variance) * self.unit

    def cell_type(self) -> np.dtype[Any]:
        """Of the published matrix, by public numbers: no entry overflows."""
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
        """Of these rows."""
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
        generator = SeededRandom(int.from_bytes(source.bytes(16))).generator
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
    """Hand every block to the sink, in order; the Gram matrix (m, m), in units squared.

    rows: of a block, `block_rows` unless given. Memory is bounded by a block and the projection,
    but for graphs of at least `spread_entries`, whose blocks may be done by other workers.
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
            for each in blocks:
                batch.append(each)
                if len(batch) == _BATCH:
                    gram += _handed(batch, part, context, sink)
                    batch = []
            gram += _handed(batch, part, context, sink)
        else:
            for each in blocks:
                cells, own = part(each)
                sink(each, cells)
                gram += own
    finally:
        forget()
    context.progress(0.6, "adding noise")
    return gram


def _handed(batch: list[Rows], part: BlockRelease, context: Context, sink: Sink) -> Floats:
    columns = part.release.projection.columns
    gram = np.zeros((columns, columns))
    for each, (cells, own) in zip(batch, context.map_blocks(part, batch), strict=True):
        sink(each, cells)
        gram += own
    return gram


def _told(graph: Adjacency, rows: int, context: Context) -> Iterator[Rows]:
    tell = partial(context.progress, stage="adding noise")
    for each in graph.blocks(rows):
        tell(0.1 + 0.5 * each.first / graph.count)
        yield each
