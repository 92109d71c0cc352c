"""Graphs for the experiments on random projections, with their true spectrum.

Spec: graph-random-matrix, section 5. The source's graphs (Facebook, Pokec, LiveJournal) are not
shipped; facebook_combined (SNAP) is read where it is available, otherwise generated graphs are
used.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.datasets.edge_list import EdgeList, read_snap
from algorithms.graph_random_matrix.evaluation import reference_spectrum
from algorithms.graph_random_matrix.linear_algebra import Adjacency, Spectrum, from_gram
from algorithms.graph_random_matrix.publication import Cells, Release, adjacency, publish
from reproduction.stand_in_data import power_law
from tacit.encoders.graph_random_matrix import Kind, Projection
from tacit.wire import parse_exact

FILE: Final = "facebook_combined.txt"
VERTICES: Final = 4039
EDGES: Final = 88_234
MOST: Final = 16
"""Eigenvectors that any table asks for."""


@dataclass(frozen=True, eq=False)
class Network:
    """A graph. real: facebook_combined, which the spec's figures are of."""

    name: str
    edges: EdgeList
    provenance: str
    real: bool = False

    @cached_property
    def graph(self) -> Adjacency:
        """Its neighbours."""
        return adjacency(self.edges)

    @cached_property
    def truth(self) -> Spectrum:
        """Its 16 leading eigenvectors."""
        return reference_spectrum(self.graph, MOST)

    @property
    def mean_degree(self) -> float:
        """Edges at a vertex."""
        return self.graph.entries / self.graph.count

    def estimate(
        self, columns: int, sigma: str, seed: int, vectors: int = MOST, kind: Kind = "rademacher"
    ) -> Spectrum:
        """What a sound release with this noise shows; seeded, so it protects nobody."""
        projection = Projection(kind, self.graph.count, columns, seed)
        release = Release.of(projection, parse_exact(sigma), "sound")
        parts: list[Cells] = []
        context = SequentialContext(test_seed=seed)
        gram = publish(self.graph, release, context, lambda _rows, cells: parts.append(cells))
        return from_gram(np.concatenate(parts), release.unit, gram, min(vectors, columns))


@lru_cache(maxsize=2)
def facebook(folder: Path | None) -> Network:
    """The file in the folder; else a power law of the same size."""
    if folder is not None and (folder / FILE).exists():
        with (folder / FILE).open("rb") as stream:
            edges = read_snap(stream)
        return Network("facebook_combined", edges, "SNAP facebook_combined, all of it", real=True)
    edges = power_law(VERTICES, EDGES, 1, groups=16)
    text = f"generated power law in 16 groups: {VERTICES:,} vertices, {EDGES:,} edges"
    return Network("stand-in", edges, text)
