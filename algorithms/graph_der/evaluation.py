"""Comparison with the true graph, for the operator only, and pictures of the release.

Metrics of how close a synthetic graph is to the true one; pictures of densities of regions and of
degrees. Pictures of errors, and of structure next to the true one, are for the operator only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Context, Drawing, Picture, Plot
from algorithms.datasets.edge_list import EdgeList
from algorithms.drawing import BLUE, RED, compared_bars, picture
from algorithms.graph_der.block_graph import BlockRelease, cell_of, uniform_places
from algorithms.graph_der.parameters import Metrics
from algorithms.graph_der.publication import Release, labelled, neighbours_adjacent
from tacit.randomness import SeededRandom

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
            batch = slice(start, start + _TOGETHER)
            one = self._masks(self.sizes[batch], generator, beat)
            other = self._masks(self.sizes[batch], generator, beat)
            for place, graph in enumerate(graphs):
                result[place, batch] = _across(graph, one, other, beat)[: len(self.sizes[batch])]
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


def relative_error(true: Ints, answers: Ints, edges: int) -> float:
    """The mean of |found - true| / max(true, sanity bound)."""
    bound = max(SANITY * edges, 1e-9)
    return float(np.mean(np.abs(answers - true) / np.maximum(true, bound)))


# --------------------------------------------------------------------------------------- degrees


def degrees(graph: Ends, vertices: int) -> Ints:
    """(vertices,)."""
    return np.bincount(graph[0], minlength=vertices) + np.bincount(graph[1], minlength=vertices)


def degree_shares(graph: Ends, vertices: int) -> Floats:
    """(vertices,) share of vertices of each degree, smoothed by one vertex spread over all."""
    count = np.bincount(degrees(graph, vertices), minlength=vertices)
    smooth: Floats = (count + 1 / vertices) / (vertices + 1)
    return smooth


def degree_divergence(true: Ends, released: Ends, vertices: int) -> float:
    """Kullback-Leibler, in nats, of the true distribution from the found one."""
    one, other = degree_shares(true, vertices), degree_shares(released, vertices)
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
    distances: list[int] = []
    for source, targets_of_source in zip(sources.tolist(), targets, strict=True):
        away = _distances(source, ends, starts, beat)[targets_of_source]
        distances += away[away > 0].tolist()
    return float(np.mean(distances)) if distances else None


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
        edge_numbers = np.repeat(np.arange(first, last), sizes[first:last])
        begins = np.cumsum(sizes[first:last]) - sizes[first:last]
        third = (
            edge_numbers + 1 + np.arange(edge_numbers.size) - np.repeat(begins, sizes[first:last])
        )
        low, high = head[edge_numbers], head[third]
        turned = rank[low] > rank[high]
        key = np.where(turned, high * vertices + low, low * vertices + high)
        place = np.searchsorted(keys, key)
        place[place == keys.size] = 0
        there = keys[place] == key
        for corner in (tail[edge_numbers], low, high):
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
    """All metrics, of the release and of a random graph; null if nothing can be measured."""
    beat = partial(context.progress, 0.98, "evaluating")
    true: Ends = labelled(graph, release.order)
    ends_of = {
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
        result["cut_queries"] = _cuts(true, ends_of, graph, metrics, context)
    if metrics.degrees:
        result["degree_divergence"] = {
            name: degree_divergence(true, ends, graph.count) for name, ends in ends_of.items()
        }
    if metrics.structure:
        result["structure"] = {
            name: {
                "mean_distance": mean_distance(ends, graph.count, metrics.query_seed, beat),
                "clustering": clustering(ends, graph.count, beat),
                "assortativity": assortativity(ends, graph.count),
            }
            for name, ends in {"true": true, **ends_of}.items()
        }
    return result


def _cuts(
    true: Ends, ends_by_name: dict[str, Ends], graph: EdgeList, metrics: Metrics, context: Context
) -> list[dict[str, Any]]:
    """Relative errors by how sets are drawn and by their largest size."""
    beat = partial(context.progress, 0.98, "evaluating")
    kinds: tuple[Drawn, ...] = ("random", "range")
    rows = []
    for drawn in kinds:
        for share in SHARES:
            largest = max(1, round(share * graph.count))
            cuts = Cuts.of(graph.count, largest, metrics.queries, drawn, metrics.query_seed)
            answers = cuts.answers([true, *ends_by_name.values()], beat)
            errors = {
                name: relative_error(answers[0], answers[place], graph.edges)
                for place, name in enumerate(ends_by_name, start=1)
            }
            rows.append({"sets": drawn, "largest_size": largest, **errors})
    return rows


class Regions(Protocol):
    """What is drawn of a release: bounds (n, 4) in labels, pairs and edges in each region, and the
    synthetic edges low < high."""

    @property
    def vertices(self) -> int:
        """The number of vertices."""
        ...

    @property
    def triangle(self) -> bool:
        """Whether regions are above the diagonal only."""
        ...

    @property
    def bounds(self) -> Ints:
        """Rows from, to, columns from, to (exclusive)."""
        ...

    @property
    def room(self) -> Ints:
        """(n,) pairs."""
        ...

    @property
    def counts(self) -> Ints:
        """(n,) edges."""
        ...

    @property
    def low(self) -> Labels:
        """(m,) smaller ends."""
        ...

    @property
    def high(self) -> Labels:
        """(m,) larger ends."""
        ...


_INCHES: Final = (6.0, 4.6)
_BLUE: Final = "#1b6ca8"
_PIXELS: Final = 512


def plots_of(release: Regions) -> tuple[Plot, ...]:
    """Both plots."""
    side, places, densities = shown_regions(release)
    count = np.bincount(degrees((release.low, release.high), release.vertices))
    place = np.flatnonzero(count)
    return (
        Plot.of(
            "regions",
            labels=release.vertices,
            side=side,
            triangle=release.triangle,
            places=places,
            densities=densities,
        ),
        Plot.of("degrees", degrees=place, vertices=count[place]),
    )


def shown_regions(
    release: Regions, pixels: int = _PIXELS
) -> tuple[int, NDArray[np.int64], NDArray[np.float64]]:
    """Points on a side, the leaves that have one of the map's points, the largest first (m, 4), and
    their released densities (m,). A point shows the leaf of its first label; small ones may fall
    between."""
    side = min(pixels, release.vertices)
    room = np.maximum(1, release.room)
    at = -(-release.bounds * side // release.vertices)
    order = np.argsort(-room, kind="stable")
    has_points = (at[order, 1] > at[order, 0]) & (at[order, 3] > at[order, 2])
    order = order[has_points]
    return side, at[order], release.counts[order] / room[order]


def density_map(values: Mapping[str, Any]) -> NDArray[np.float64]:
    """(side, side) released density of the leaf at each point; NaN where there is none."""
    side = values["side"]
    image = np.full((side, side), np.nan)
    for (top, bottom, left, right), density in zip(
        values["places"], values["densities"], strict=True
    ):
        image[top:bottom, left:right] = density
    if values["triangle"]:
        image = np.where(np.tri(side, k=-1, dtype=np.bool_), image.T, image)
    return image


def _regions(axes: Axes, values: Mapping[str, Any]) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator

    image = density_map(values)
    positive = image[image > 0]
    vertices = values["labels"]
    axes.set_title("Density of edges by region (released)")
    axes.set_xlabel("label")
    axes.set_ylabel("label")
    low, high = (positive.min(), positive.max()) if positive.size else (0.1, 1.0)
    axes.set_facecolor("white")
    shown = axes.imshow(
        np.where(image > 0, image, np.nan),
        extent=(0, vertices, vertices, 0),
        norm=LogNorm(low, max(high, low * 1.01)),
        cmap="YlGnBu",
        interpolation="nearest",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True))
    axes.figure.colorbar(shown, ax=axes, label="edges per pair (white: none)", shrink=0.85)


def _degrees(axes: Axes, values: Mapping[str, Any]) -> None:
    axes.set_title("Degrees of the synthetic graph")
    axes.plot(values["degrees"], values["vertices"], ".", color=_BLUE, markersize=4)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("log")
    axes.set_xlim(left=-0.2)
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.set_xlabel("degree (edges at a vertex)")
    axes.set_ylabel("vertices")


DRAWINGS: Final = {"regions": Drawing(_regions, _INCHES), "degrees": Drawing(_degrees, _INCHES)}


# Spec: jobs, section "Result"; graph-der, section 5. Visible only to the operator; drawn where the
# evaluation is read.

_EVALUATION_INCHES: Final = (5.4, 4.0)
_NAME: Final = "graph-der"
_COLOURS: Final = {"release": BLUE, "random": RED}
_STYLES: Final = {"range": "o-", "random": "s--"}


def evaluation_pictures(
    evaluation: Mapping[str, Any],
    summary: Mapping[str, Any],  # noqa: ARG001 - one signature for all algorithms
) -> tuple[Picture, ...]:
    """Those that the evaluation has figures for."""
    drawn = []
    if evaluation.get("cut_queries"):
        rows = evaluation["cut_queries"]
        drawn.append(
            picture(_NAME, "cut-queries", lambda axes: _cut_bars(axes, rows), _EVALUATION_INCHES)
        )
    if "structure" in evaluation:
        structure = evaluation["structure"]
        drawn.append(
            picture(
                _NAME, "structure", lambda axes: _structure(axes, structure), _EVALUATION_INCHES
            )
        )
    return tuple(drawn)


def _cut_bars(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title("Errors of cut queries (private)")
    for sets, style in _STYLES.items():
        rows_of_size = [row for row in rows if row["sets"] == sets]
        for name in ("release", "random"):
            shown = [
                (row["largest_size"], row[name]) for row in rows_of_size if row[name] is not None
            ]
            axes.plot(
                [size for size, _ in shown],
                [error for _, error in shown],
                style,
                color=_COLOURS[name],
                markersize=4,
                label=f"{'release' if name == 'release' else 'random graph'}, {sets} sets",
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("largest set (vertices)")
    axes.set_ylabel("mean relative error")
    axes.legend(frameon=False)


def _structure(axes: Axes, structure: Mapping[str, Mapping[str, float | None]]) -> None:
    axes.set_title("Structure (private)")
    names = {"mean_distance": "mean distance", "clustering": "clustering", "assortativity": None}
    series = {
        label: [structure[key][name] for name in names]
        for label, key in (("true", "true"), ("release", "release"), ("random graph", "random"))
    }
    compared_bars(axes, [shown or name for name, shown in names.items()], series)
    axes.set_yscale("symlog", linthresh=0.1)
