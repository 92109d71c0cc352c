"""Graphs of chapter 7, releases of them, and how good they are: what its experiments share.

Labels are those of the source: the order of first appearance in the file, which the spec shows to
give edges away. So `sound` is run here as an engine; as a job it would be refused.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from algorithms.contract import SequentialContext, Stance
from algorithms.counts.keeper import heads
from algorithms.datasets.edge_list import EdgeList, read_snap
from algorithms.graph_der import Parameters as GraphDerParameters
from algorithms.graph_der.block_graph import cell_of
from algorithms.graph_der.evaluation import (
    Cuts,
    Drawn,
    Ends,
    degree_divergence,
    random_ends,
    relative_error,
)
from algorithms.graph_der.parameters import plan_of
from algorithms.graph_der.publication import publish
from simulation.samples import graph_der
from tacit.noise.alias import PRECISE, decimal
from tacit.randomness import NoiseSource, SeededRandom

STEP: Final = 4
SUBSET: Final = 5_000
STATIONS: Final = 1_012
STAND_IN: Final = "STM stand-in"


def laplace_graph(
    graph: EdgeList, epsilon: Fraction, source: NoiseSource, beat: Callable[[], None] = lambda: None
) -> Ends:
    """Noise on each cell, an edge where it exceeds 1/2: each cell flips on its own.

    epsilon-DP for one edge. Cells that do not flip are skipped: time and memory grow with the
    flips and the edges.
    """
    # Laplace noise of scale 1 / epsilon takes a cell across 1/2: e^(-epsilon / 2) / 2.
    chance = Fraction(PRECISE.exp(decimal(-epsilon / 2))) / 2
    pairs = graph.count * (graph.count - 1) // 2
    flips = heads(pairs, chance, source, beat)
    first, second = graph.first.astype(np.int64), graph.second.astype(np.int64)
    true = first * graph.count - first * (first + 1) // 2 + second - first - 1
    row, column = cell_of(np.setxor1d(true, flips, assume_unique=True), graph.count)
    return row.astype(np.int32), column.astype(np.int32)


@dataclass(frozen=True, eq=False)
class Study:
    """A graph whose vertices are in the order of their labels; `stand_in`: generated."""

    name: str
    graph: EdgeList
    provenance: str
    stand_in: bool = False

    @property
    def vertices(self) -> int:
        """How many."""
        return self.graph.count

    @cached_property
    def true(self) -> Ends:
        """Its edges by labels."""
        return self.graph.first, self.graph.second

    @cached_property
    def random(self) -> Ends:
        """A uniform graph with as many edges."""
        return self.uniform(11)

    def uniform(self, seed: int) -> Ends:
        """Any such graph."""
        return random_ends(self.vertices, self.graph.edges, seed)

    def noisy_cells(self, epsilon: str) -> Ends:
        """Laplace noise on every cell."""
        return laplace_graph(self.graph, Fraction(epsilon), SeededRandom(12))

    def release(
        self, stance: Stance, epsilon: str = "1", k: int = 1, seed: int = 0, step: int = STEP
    ) -> Ends:
        """Edges of a release, with noise that can be repeated."""
        asked = GraphDerParameters(epsilon=Fraction(epsilon), k=k, step=step)
        plan = plan_of(asked, stance, self.vertices)
        made = publish(self.graph, plan, "given", 0, SequentialContext(test_seed=seed))
        return made.low, made.high

    def errors(
        self, graphs: list[Ends], largest: int, queries: int, drawn: Drawn, seed: int = 5
    ) -> list[float]:
        """Mean relative error of each graph on the same cut queries."""
        cuts = Cuts.of(self.vertices, largest, queries, drawn, seed)
        answers = cuts.answers([self.true, *graphs])
        return [relative_error(answers[0], each, self.graph.edges) for each in answers[1:]]

    def divergence(self, graph: Ends) -> float:
        """Of its degrees, nats."""
        return degree_divergence(self.true, graph, self.vertices)

    def sample(self, share: float, generator: np.random.Generator) -> Study:
        """The subgraph on a random part of the vertices, in their order."""
        size = max(2, round(share * self.vertices))
        kept = np.sort(generator.permutation(self.vertices)[:size])
        return replace(self, graph=induced(self.graph, kept))


def induced(graph: EdgeList, kept: np.ndarray) -> EdgeList:
    """The subgraph on these vertices, in this order."""
    place = np.full(graph.count, -1, np.int32)
    place[kept] = np.arange(kept.size)
    ends = place[graph.first], place[graph.second]
    there = (ends[0] >= 0) & (ends[1] >= 0)
    return EdgeList.from_pairs(graph.vertices[kept], ends[0][there], ends[1][there])


@lru_cache(maxsize=2)
def studies(data: Path | None) -> tuple[Study, ...]:
    """The source's four, the last one a stand-in; that one alone where there are no files."""
    made = [_snap(data, name) for name in ("ca-GrQc", "ca-HepTh", "wiki-Vote")] if data else []
    return (*(each for each in made if each is not None), stations())


def _snap(data: Path, name: str) -> Study | None:
    path = data / f"{name}.txt"
    if not path.exists():
        return None
    with path.open("rb") as stream:
        graph = read_snap(stream)
    kept = graph.appearance[:SUBSET] if name == "ca-HepTh" else graph.appearance
    part = f", its first {SUBSET:,} ids" if name == "ca-HepTh" else ""
    return Study(name, induced(graph, kept), f"{name} (SNAP){part}, by first appearance")


@lru_cache(maxsize=1)
def stations() -> Study:
    """1,012 stations, the 7,860 strongest of their links."""
    sample = graph_der()[1]
    ids = [str(place) for place in range(STATIONS)]
    graph = read_snap(io.BytesIO(sample.content), ids)
    text = "a generated network of stations: the source's is not public"
    return Study(STAND_IN, graph, text, stand_in=True)
