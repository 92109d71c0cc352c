"""Comparison with the true graph: visible only to the operator, never published.

Metrics of how close a synthetic graph is to the true one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context
from algorithms.datasets.edge_list import EdgeList
from algorithms.graph_der.block_graph import BlockRelease, cell_of, uniform_places
from algorithms.graph_der.parameters import Metrics
from algorithms.graph_der.publication import Release, labelled, neighbours_adjacent
from tacit.randomness import SeededRandom

Labels: TypeAlias = NDArray[np.int32]
Ends: TypeAlias = tuple[Labels, Labels]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Beat = Callable[[], None]
Drawn = Literal["random", "range"]

SANITY: Final = 0.001
"""The sanity bound of a relative error, as a share of the true edges."""
SHARES: Final = (0.2, 0.4, 0.6, 0.8, 1.0)
"""Largest sizes of the sets of cut queries, as shares of the vertices."""
PAIRS: Final = 1_000
_TOGETHER: Final = 64
_EDGES: Final = 1 << 17


def _quiet() -> None:
    """No progress is reported."""


# ----------------------------------------------------------------------------------- cut queries


@dataclass(frozen=True, eq=False)
class Cuts:
    """Cut queries {S, T}: how many edges have an end in S and the other in T.

    random: sets of labels are uniform among those of the drawn size; range: they are consecutive
    labels. Both sets of a query have its size (queries,), uniform from 1 to the largest.
    """

    vertices: int
    sizes: Ints
    drawn: Drawn
    seed: int

    @classmethod
    def of(cls, vertices: int, largest: int, queries: int, drawn: Drawn, seed: int) -> Cuts:
        """This many queries of two sets of at most `largest` vertices."""
        generator = np.random.default_rng((seed, largest))
        sizes = generator.integers(1, max(1, largest) + 1, queries)
        return cls(vertices, sizes, drawn, seed)

    def answers(self, graphs: Sequence[Ends], beat: Beat = _quiet) -> Ints:
        """(graphs, queries) answers; the sets are the same for each graph."""
        generator = np.random.default_rng((self.seed, 1))
        result = np.zeros((len(graphs), len(self.sizes)), np.int64)
        for start in range(0, len(self.sizes), _TOGETHER):
            own = slice(start, start + _TOGETHER)
            one = self._masks(self.sizes[own], generator, beat)
            other = self._masks(self.sizes[own], generator, beat)
            for place, graph in enumerate(graphs):
                result[place, own] = _across(graph, one, other, beat)[: len(self.sizes[own])]
        return result

    def _masks(self, sizes: Ints, generator: np.random.Generator, beat: Beat) -> NDArray[np.uint64]:
        """(vertices,) bit b: whether the label is in set b."""
        masks = np.zeros(self.vertices, np.uint64)
        for bit, size in enumerate(sizes.tolist()):
            beat()
            if self.drawn == "range":
                first = int(generator.integers(0, self.vertices - size + 1))
                masks[first : first + size] |= np.uint64(1 << bit)
            else:
                chosen = generator.permutation(self.vertices)[:size]
                masks[chosen] |= np.uint64(1 << bit)
        return masks


def cut(graph: Ends, one: Sequence[int], other: Sequence[int], vertices: int) -> int:
    """The answer to one query."""
    inside, outside = np.zeros((2, vertices), np.uint64)
    inside[np.asarray(one, np.int64)] = 1
    outside[np.asarray(other, np.int64)] = 1
    return int(_across(graph, inside, outside, _quiet)[0])


def _across(graph: Ends, one: NDArray[np.uint64], other: NDArray[np.uint64], beat: Beat) -> Ints:
    total = np.zeros(_TOGETHER, np.int64)
    for start in range(0, graph[0].size, _EDGES):
        beat()
        low, high = (ends[start : start + _EDGES] for ends in graph)
        hit = (one[low] & other[high]) | (one[high] & other[low])
        octets = hit.astype("<u8").view(np.uint8).reshape(-1, 8)
        total += np.unpackbits(octets, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
    return total


def relative_error(true: Ints, found: Ints, edges: int) -> float:
    """The mean of |found - true| / max(true, sanity bound)."""
    bound = max(SANITY * edges, 1e-9)
    return float(np.mean(np.abs(found - true) / np.maximum(true, bound)))


# --------------------------------------------------------------------------------------- degrees


def degrees(graph: Ends, vertices: int) -> Ints:
    """(vertices,)."""
    return np.bincount(graph[0], minlength=vertices) + np.bincount(graph[1], minlength=vertices)


def degree_shares(graph: Ends, vertices: int) -> Floats:
    """(vertices,) share of vertices of each degree, smoothed by one vertex spread over all."""
    count = np.bincount(degrees(graph, vertices), minlength=vertices)
    smooth: Floats = (count + 1 / vertices) / (vertices + 1)
    return smooth


def degree_divergence(true: Ends, found: Ends, vertices: int) -> float:
    """Kullback-Leibler, in nats, of the true distribution from the found one."""
    one, other = degree_shares(true, vertices), degree_shares(found, vertices)
    return float((one * np.log(one / other)).sum())


# ------------------------------------------------------------------------------------- structure


def mean_distance(graph: Ends, vertices: int, seed: int, beat: Beat = _quiet) -> float | None:
    """Of 1,000 random pairs, those that a path joins; None where none is."""
    generator = np.random.default_rng((seed, 2))
    sources = generator.integers(0, vertices, 20)
    targets = generator.integers(0, vertices, (20, PAIRS // 20))
    both = np.concatenate((graph[0], graph[1])), np.concatenate((graph[1], graph[0]))
    order = np.argsort(both[0], kind="stable")
    starts = np.searchsorted(both[0][order], np.arange(vertices + 1))
    ends = both[1][order].astype(np.int64)
    found: list[int] = []
    for source, own in zip(sources.tolist(), targets, strict=True):
        away = _distances(source, ends, starts, beat)[own]
        found += away[away > 0].tolist()
    return float(np.mean(found)) if found else None


def _distances(source: int, ends: Ints, starts: Ints, beat: Beat) -> Ints:
    """(vertices,) steps from a source; -1 where no path leads."""
    away = np.full(starts.size - 1, -1, np.int64)
    away[source] = 0
    front, steps = np.array([source]), 0
    while front.size:
        beat()
        steps += 1
        sizes = starts[front + 1] - starts[front]
        offsets = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        reached = ends[np.repeat(starts[front], sizes) + offsets]
        front = np.unique(reached[away[reached] < 0])
        away[front] = steps
    return away


def clustering(graph: Ends, vertices: int, beat: Beat = _quiet) -> float:
    """Mean over vertices of the share of pairs of neighbours that are an edge; 0 below two."""
    degree = degrees(graph, vertices)
    # each edge towards the end of larger degree: few leave any vertex
    rank = np.argsort(np.argsort(degree, kind="stable"), kind="stable")
    upward = rank[graph[0]] < rank[graph[1]]
    tail = np.where(upward, graph[0], graph[1]).astype(np.int64)
    head = np.where(upward, graph[1], graph[0]).astype(np.int64)
    keys = np.sort(tail * vertices + head)
    tail, head = np.divmod(keys, vertices)
    starts = np.searchsorted(tail, np.arange(vertices + 1))
    triangles = np.zeros(vertices, np.int64)
    sizes = starts[tail + 1] - np.arange(tail.size) - 1  # later heads of the same tail
    bounds = np.flatnonzero(np.diff(np.cumsum(sizes) // (1 << 20), prepend=-1)).tolist()
    for first, last in pairwise([*bounds, tail.size]):
        beat()
        own = np.repeat(np.arange(first, last), sizes[first:last])
        begins = np.cumsum(sizes[first:last]) - sizes[first:last]
        third = own + 1 + np.arange(own.size) - np.repeat(begins, sizes[first:last])
        low, high = head[own], head[third]
        turned = rank[low] > rank[high]
        key = np.where(turned, high * vertices + low, low * vertices + high)
        place = np.searchsorted(keys, key)
        place[place == keys.size] = 0
        there = keys[place] == key
        for corner in (tail[own], low, high):
            triangles += np.bincount(corner[there], minlength=vertices)
    pairs = degree * (degree - 1) / 2
    return float(np.mean(np.where(pairs > 0, triangles / np.maximum(pairs, 1), 0.0)))


def assortativity(graph: Ends, vertices: int) -> float | None:
    """Correlation of the degrees at both ends of an edge; None where they do not vary."""
    degree = degrees(graph, vertices).astype(np.float64)
    one = np.concatenate((degree[graph[0]], degree[graph[1]]))
    other = np.concatenate((degree[graph[1]], degree[graph[0]]))
    if not one.size or one.std() == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


# Spec: graph-der, section 5. A uniform random graph with the true number of edges is measured, too:
# on random sets it answers cut queries as well as the release.


def random_ends(vertices: int, edges: int, seed: int) -> Ends:
    """A uniform graph with this many edges, for comparison."""
    pairs = vertices * (vertices - 1) // 2
    row, column = cell_of(uniform_places(pairs, edges, SeededRandom(seed)), vertices)
    return row.astype("int32"), column.astype("int32")


def evaluate(
    graph: EdgeList, release: Release | BlockRelease, metrics: Metrics, context: Context
) -> dict[str, Any]:
    """All metrics, of the release and of a random graph; null where nothing can be measured."""
    beat = partial(context.progress, 0.98, "evaluating")
    true: Ends = labelled(graph, release.order)
    found = {
        "release": (release.low, release.high),
        "random": random_ends(graph.count, graph.edges, metrics.query_seed),
    }
    adjacent, base = neighbours_adjacent(graph, release.order)
    result: dict[str, Any] = {
        "vertices": graph.count,
        "edges": graph.edges,
        "loops_dropped": graph.loops,
        "duplicates_merged": graph.duplicates,
        "edges_ratio": release.edges / graph.edges if graph.edges else None,
        "common_edges": release.common,
        "labelling_leak": {"adjacent_consecutive_labels": adjacent, "base_rate": base},
        "query_seed": metrics.query_seed,
    }
    if metrics.queries:
        result["cut_queries"] = _cuts(true, found, graph, metrics, context)
    if metrics.degrees:
        result["degree_divergence"] = {
            name: degree_divergence(true, ends, graph.count) for name, ends in found.items()
        }
    if metrics.structure:
        result["structure"] = {
            name: {
                "mean_distance": mean_distance(ends, graph.count, metrics.query_seed, beat),
                "clustering": clustering(ends, graph.count, beat),
                "assortativity": assortativity(ends, graph.count),
            }
            for name, ends in {"true": true, **found}.items()
        }
    return result


def _cuts(
    true: Ends, found: dict[str, Ends], graph: EdgeList, metrics: Metrics, context: Context
) -> list[dict[str, Any]]:
    """Relative errors by how sets are drawn and by their largest size."""
    beat = partial(context.progress, 0.98, "evaluating")
    kinds: tuple[Drawn, ...] = ("random", "range")
    rows = []
    for drawn in kinds:
        for share in SHARES:
            largest = max(1, round(share * graph.count))
            cuts = Cuts.of(graph.count, largest, metrics.queries, drawn, metrics.query_seed)
            answers = cuts.answers([true, *found.values()], beat)
            errors = {
                name: relative_error(answers[0], answers[place], graph.edges)
                for place, name in enumerate(found, start=1)
            }
            rows.append({"sets": drawn, "largest_size": largest, **errors})
    return rows
