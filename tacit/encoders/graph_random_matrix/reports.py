"""graph-random-matrix over curators: each vertex sends its own row of A S + Z.

Spec: federated-counting, section 11; graph-random-matrix, sections 3.6 and 4.2. A curator is a
vertex, its set of items the vertices that it has an edge to. It adds up the public rows S_j of its
neighbours and draws a discrete Gaussian number for every column; nobody adds rows up. S has signs
only, so that every row has the squared norm q: m, or s in a sparse matrix.

An edge {i, j} is in two rows, which change by S_j and S_i: together 2 q, squared. Noise of variance
q sigma^2 makes that rho = 1 / sigma^2, as where one keeper holds the graph. Whoever knows one end's
set knows the edge anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.gaussian import zcdp_epsilon
from tacit.encoders.graph_random_matrix.projection import Projection, entries
from tacit.encoders.reports import Cost, EncodingRefused, LedgerUnit
from tacit.noise.discrete_gaussian import DiscreteGaussian, gaussian_sampler_delta, reach_of
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
    """`vertices`: curators' ids, in order of rows; sigma: deviation of the noise for rows of S of
    length 1; epsilon, delta: what an edge is promised."""

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
        found = self.projection
        return found.columns if found.kind == "rademacher" else found.nonzeros

    @property
    def cost(self) -> Cost:
        """Of an edge, in the two rows that it is in. Raises EncodingRefused where the noise does
        not keep what is promised."""
        found = zcdp_epsilon(float(1 / self.sigma**2) * (1 + 1e-15), float(self.delta) * _SPARE)
        imperfect = gaussian_sampler_delta(2 * self.projection.columns, self.epsilon)
        if found > float(self.epsilon) * (1 + 1e-9) or imperfect > self.delta / 10**9:
            raise EncodingRefused("the noise does not keep the promised epsilon and delta")
        return Cost(self.epsilon, self.delta)

    @property
    def other_cost(self) -> Cost:
        """Of a curator's whole set, in its own row: k items more or less change that by k sqrt(q)
        at most."""
        rho = (len(self.vertices) - 1) ** 2 / (2 * self.sigma**2)
        found = zcdp_epsilon(float(rho) * (1 + 1e-15), float(self.delta) * _SPARE)
        return Cost(Fraction(found), self.delta)

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The row of each vertex."""
        return {vertex: place for place, vertex in enumerate(self.vertices)}

    def document(self) -> dict[str, Any]:
        """As JSON."""
        found = self.projection
        return {
            "vertices": list(self.vertices),
            "projection": found.kind,
            "m": found.columns,
            "seed": str(found.seed),
            "nonzeros": found.nonzeros,
            "sigma": format_exact(self.sigma),
            "epsilon": format_exact(self.epsilon),
            "delta": format_exact(self.delta),
        }

    def row(self, vertex: str, neighbours: Iterable[str]) -> NDArray[np.int64]:
        """A_i S (m,), without noise. Items that are no vertices, and the vertex itself, are no
        edges; an edge counts once."""
        own = {self.places[each] for each in neighbours if each in self.places}
        own.discard(self.places[vertex])
        drawn = entries(self.projection)
        chosen = replace(drawn, values=drawn.values[sorted(own)]).dense()
        total: NDArray[np.int64] = chosen.sum(axis=0, dtype=np.int64)
        return total

    def perturbed(self, rows: Mapping[str, Any], source: NoiseSource) -> list[Report]:
        """One noisy row of each curator that is a vertex; of others nothing."""
        known = [name for name in rows if name in self.places]
        if not known:
            return []
        cells = np.stack([self.row(name, rows[name][0]) for name in known])
        DiscreteGaussian(self.variance).add_to(cells.reshape(-1), source)
        return [
            Report(curator=name, values=tuple(values))
            for name, values in zip(known, cells.tolist(), strict=True)
        ]

    def refusal(self, report: Report) -> str | None:
        """No vertex, another number of columns, or numbers that no honest row reaches."""
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
    if not all(isinstance(each, str) for each in vertices) or type(m) is not int:
        raise EncodingRefused("the document is none of the algorithm's")
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
    found = RowReports(vertices, projection, sigma, epsilon, delta)
    if found.cost.epsilon <= 0:
        raise EncodingRefused("an edge costs something")
    return found
