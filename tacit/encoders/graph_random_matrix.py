"""graph-random-matrix over curators: each vertex sends its own row of A S + Z.

Spec: federated-counting, section 11; graph-random-matrix, sections 3.6 and 4.2. A curator is a
vertex, its set of items the vertices that it has an edge to. It adds up the public rows S_j of its
neighbours and draws a discrete Gaussian number for every column; no one adds rows up. S has signs
only, so that every row has the squared norm q: m, or s in a sparse matrix.

An edge {i, j} is in two rows, which change by S_j and S_i: together 2 q, squared. Noise of variance
q sigma^2 makes that rho = 1 / sigma^2, as where one keeper holds the graph. Whoever knows one end's
set knows the edge anyway.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.encoders.sums import Cost, EncodingRefused, LedgerUnit
from tacit.noise.discrete_gaussian import DiscreteGaussian, gaussian_sampler_delta, reach_of
from tacit.noise.gaussian_privacy import zcdp_epsilon
from tacit.protocol.federation import Report
from tacit.randomness import NoiseSource
from tacit.wire import format_exact

MOST_VERTICES: Final = 20_000
MOST_COLUMNS: Final = 1_000
MOST_SIGMA: Final = 10**6
MOST_EPSILON: Final = 100
_SPARE: Final = 1 - 1e-9
"""Of delta for the noise; the rest is for the sampler."""


@dataclass(frozen=True)
class RowReports:
    """`vertices`: curators' ids, in order of rows; sigma: deviation of the noise for rows of S
    of length 1; epsilon, delta: the guarantee promised for an edge."""

    vertices: tuple[str, ...]
    projection: Projection
    sigma: Fraction
    epsilon: Fraction
    delta: Fraction

    @property
    def columns(self) -> int:
        """One: the sets of one name."""
        return 1

    @property
    def labelled(self) -> bool:
        """Never."""
        return False

    @property
    def most_rows(self) -> int:
        """A curator is one vertex."""
        return 1

    @property
    def ledger_unit(self) -> LedgerUnit:
        """An edge: an item of a curator's set."""
        return "record"

    @property
    def variance(self) -> Fraction:
        """Of the noise, in integers."""
        return self.length * self.sigma**2

    @property
    def length(self) -> int:
        """q: the squared norm of every row of S."""
        law = self.projection
        return law.columns if law.kind == "rademacher" else law.nonzeros

    @property
    def cost(self) -> Cost:
        """What an edge costs, in the two rows that contain it. Raises EncodingRefused if the
        noise does not keep what is promised."""
        bound = zcdp_epsilon(float(1 / self.sigma**2) * (1 + 1e-15), float(self.delta) * _SPARE)
        imperfect = gaussian_sampler_delta(2 * self.projection.columns, self.epsilon)
        if bound > float(self.epsilon) * (1 + 1e-9) or imperfect > self.delta / 10**9:
            raise EncodingRefused("the noise does not keep the promised epsilon and delta")
        return Cost(self.epsilon, self.delta)

    @property
    def other_cost(self) -> Cost:
        """Of a curator's whole set, in its own row: k items more or less change that by k sqrt(q)
        at most."""
        rho = (len(self.vertices) - 1) ** 2 / (2 * self.sigma**2)
        epsilon = zcdp_epsilon(float(rho) * (1 + 1e-15), float(self.delta) * _SPARE)
        return Cost(Fraction(epsilon), self.delta)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The row of each vertex."""
        return {vertex: place for place, vertex in enumerate(self.vertices)}

    def document(self) -> dict[str, Any]:
        """As JSON."""
        law = self.projection
        return {
            "vertices": list(self.vertices),
            "projection": law.kind,
            "m": law.columns,
            "seed": str(law.seed),
            "nonzeros": law.nonzeros,
            "sigma": format_exact(self.sigma),
            "epsilon": format_exact(self.epsilon),
            "delta": format_exact(self.delta),
        }

    def row(self, vertex: str, neighbours: Iterable[str]) -> NDArray[np.int64]:
        """A_i S (m,), without noise. Items that are no vertices and the vertex itself are
        ignored; a repeated edge counts once."""
        columns = {self.places[neighbour] for neighbour in neighbours if neighbour in self.places}
        columns.discard(self.places[vertex])
        drawn = entries(self.projection)
        chosen = replace(drawn, values=drawn.values[sorted(columns)]).dense()
        total: NDArray[np.int64] = chosen.sum(axis=0, dtype=np.int64)
        return total

    def perturbed(self, rows: Mapping[str, Any], source: NoiseSource) -> list[Report]:
        """One noisy row of each curator that is a vertex; of others nothing."""
        known_names = [name for name in rows if name in self.places]
        if not known_names:
            return []
        cells = np.stack([self.row(name, rows[name][0]) for name in known_names])
        DiscreteGaussian(self.variance).add_to(cells.reshape(-1), source)
        return [
            Report(curator=name, values=tuple(values))
            for name, values in zip(known_names, cells.tolist(), strict=True)
        ]

    def refusal(self, report: Report) -> str | None:
        """Why a row is refused: no vertex, another number of columns, or numbers that no honest
        row reaches."""
        if report.curator not in self.places or (report.record, report.round) != ("1", 1):
            return "the curator is no vertex of this graph, or it has one row"
        if len(report.values) != self.projection.columns:
            return "the row has another number of columns"
        most = len(self.vertices) + reach_of(self.variance)
        if any(abs(value) > most for value in report.values):
            return "no row has numbers as large as this"
        return None


def read(document: Mapping[str, Any]) -> RowReports:
    """The encoding of a document. Raises EncodingRefused, KeyError, TypeError or ValueError."""
    vertices = tuple(document["vertices"])
    kind, m, seed = document["projection"], document["m"], int(document["seed"])
    nonzeros = document["nonzeros"]
    sigma, epsilon = Fraction(document["sigma"]), Fraction(document["epsilon"])
    delta = Fraction(document["delta"])
    if not all(isinstance(vertex, str) for vertex in vertices) or type(m) is not int:
        raise EncodingRefused("the document is not one of the algorithm's")
    if not 3 <= len(set(vertices)) == len(vertices) <= MOST_VERTICES:
        raise EncodingRefused("vertices: 3 to 20,000, each once")
    if kind not in ("rademacher", "sparse") or not 1 <= m <= MOST_COLUMNS:
        raise EncodingRefused("the projection has signs, and 1 to 1,000 columns")
    if type(nonzeros) is not int or not 1 <= nonzeros <= (m if kind == "sparse" else MOST_COLUMNS):
        raise EncodingRefused("a row has as many signs as columns at most")
    if not 0 <= seed < 1 << 64:
        raise EncodingRefused("the seed has 64 bits")
    if not (0 < sigma <= MOST_SIGMA and 0 < epsilon <= MOST_EPSILON and 0 < delta < 1):
        raise EncodingRefused("sigma, epsilon or delta is out of range")
    projection = Projection(kind, len(vertices), m, seed, nonzeros)
    reports = RowReports(vertices, projection, sigma, epsilon, delta)
    if reports.cost.epsilon <= 0:
        raise EncodingRefused("an edge costs something")
    return reports


# Public random projections in whole numbers, and the exact sensitivity of what they project: an
# edge {i, j} changes row i of A P by row j of P, and row j by row i, so that the squared L2 change
# is the sum of two squared row norms of P.
#
#     rademacher  signs; every row has squared norm m exactly
#     sparse      s signs in distinct columns, one in each of s ranges of columns; squared norm s
#     gaussian    N(0, 1/m) rounded to the grid 2^-20; the two largest squared norms are found
#
# The seed is public, the generator (Philox) has nothing to do with the noise.

Kind = Literal["rademacher", "gaussian", "sparse"]

GRID_BITS: Final = 20
_PART: Final = 1 << 20


@dataclass(frozen=True)
class Projection:
    """Which matrix (vertices, columns) it is; nonzeros: in each row of a sparse one."""

    kind: Kind
    vertices: int
    columns: int
    seed: int
    nonzeros: int = 8

    @property
    def unit(self) -> float:
        """The value of one integer unit of the product."""
        if self.kind == "gaussian":
            return float(2.0**-GRID_BITS)
        return float((self.columns if self.kind == "rademacher" else self.nonzeros) ** -0.5)


@dataclass(frozen=True, eq=False)
class Entries:
    """The matrix as it is used.

    values, by kind: bits (n, ceil(m / 8)) of uint8, the lowest first, 1 for +1; or (n, s) of
    uint16, twice the column, plus 1 for -1; or (n, m) of int32. largest_pair: the two largest
    squared row norms together.
    """

    kind: Kind
    columns: int
    values: NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.int32]
    largest_pair: int

    def dense(self) -> NDArray[np.int32]:
        """All entries (n, m) as integers: for tests and small graphs."""
        if self.kind == "rademacher":
            bits = np.unpackbits(
                self.values.astype(np.uint8), axis=1, count=self.columns, bitorder="little"
            )
            return 2 * bits.astype(np.int32) - 1
        if self.kind == "gaussian":
            return self.values.astype(np.int32)
        full = np.zeros((len(self.values), self.columns), np.int32)
        columns = (self.values >> 1).astype(np.intp)
        np.put_along_axis(full, columns, 1 - 2 * (self.values & 1).astype(np.int32), axis=1)
        return full


_last: dict[Projection, Entries] = {}


def entries(projection: Projection, beat: Callable[[], None] = lambda: None) -> Entries:
    """The matrix; the last one is kept, so that the blocks on one worker draw it once."""
    if projection not in _last:
        drawn_entries = _drawn(projection, beat)
        _last.clear()
        _last[projection] = drawn_entries
    return _last[projection]


def forget() -> None:
    """Give the memory of the last matrix back."""
    _last.clear()


def _drawn(projection: Projection, beat: Callable[[], None]) -> Entries:
    n, m = projection.vertices, projection.columns
    bits = philox(projection.seed, projection.kind)
    if projection.kind == "rademacher":
        width = (m + 7) // 8
        words = bits.random_raw((n * width + 7) // 8)
        signs = words.astype("<u8", copy=False).view(np.uint8)[: n * width].reshape(n, width)
        return Entries("rademacher", m, signs, 2 * m)
    generator = np.random.Generator(bits)
    if projection.kind == "sparse":
        s = projection.nonzeros
        borders = np.arange(s + 1) * m // s
        codes = generator.integers(2 * borders[:-1], 2 * borders[1:], (n, s), dtype=np.int64)
        return Entries("sparse", m, codes.astype(np.uint16), 2 * s)
    drawn = np.empty((n, m), np.int32)
    norms = np.empty(n, np.int64)
    step = max(1, _PART // m)
    for first in range(0, n, step):
        beat()
        part = generator.standard_normal((min(step, n - first), m))
        part *= 2.0**GRID_BITS / m**0.5
        drawn[first : first + step] = np.rint(part)
        norms[first : first + step] = squared_norms(drawn[first : first + step])
    return Entries("gaussian", m, drawn, largest_pair(norms))


def largest_pair_of(projection: Projection, beat: Callable[[], None] = lambda: None) -> int:
    """The squared change of an edge, in integers; for a gaussian projection the matrix has to be
    drawn."""
    if projection.kind == "rademacher":
        return 2 * projection.columns
    if projection.kind == "sparse":
        return 2 * projection.nonzeros
    return entries(projection, beat).largest_pair


def philox(seed: int, purpose: str) -> np.random.Philox:
    """The public generator of a purpose; the seed has 64 bits, purposes share no words."""
    text = f"tacit graph-random-matrix {purpose} {seed}".encode()
    return np.random.Philox(key=int.from_bytes(hashlib.sha256(text).digest()[:16], "big"))


def squared_norms(values: NDArray[np.int32]) -> NDArray[np.int64]:
    """(n,) of rows (n, m); exact, entries of magnitude at most 2^26 and at most 1,000 columns."""
    wide = values.astype(np.int64)
    norms: NDArray[np.int64] = np.einsum("ij,ij->i", wide, wide)
    return norms


def largest_pair(norms: NDArray[np.int64]) -> int:
    """The two largest together: what one edge can change, squared."""
    return int(np.partition(norms, norms.size - 2)[-2:].sum())
