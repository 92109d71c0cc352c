"""Pictures of what is published: a graph on its levels, or labels of pairs.

Needs matplotlib (extra `plots`), imported inside and drawn by Agg; no plots without it, and none of
what is too large to be seen. The same values give the same SVG, byte for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from algorithms.contract import Plot
from algorithms.drawing import can_draw, picture
from tacit.paths.published import ComplementEdges, LevelledGraph, Published, RandomizedLabels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.6)
_BLUE: Final = "#1b6ca8"
_GREY: Final = "#b9c3cc"
_MOST_NODES: Final = 60
_MOST_MATRIX: Final = 60


def pictures(
    published: Published,
    layout: LevelledGraph | None = None,
    beat: Callable[[], None] = lambda: None,
) -> tuple[Plot, ...]:
    """One or two plots; none of a sealed path."""
    if not can_draw():
        return ()
    plots = []
    for each in (published, layout):
        beat()
        match each:
            case LevelledGraph() if len(each.nodes) <= _MOST_NODES:
                plots.append(picture("path-publishing", "levels", partial(_levels, each), _INCHES))
            case ComplementEdges() if len(each.vertices) <= _MOST_MATRIX:
                plots.append(picture("path-publishing", "edges", partial(_edges, each), _INCHES))
            case ComplementEdges():
                plots.append(
                    picture("path-publishing", "degrees", partial(_degrees, each), _INCHES)
                )
            case RandomizedLabels():
                plots.append(picture("path-publishing", "labels", partial(_labels, each), _INCHES))
            case _:
                pass
    return tuple(plots)


def _levels(graph: LevelledGraph, axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Published graph, pieces on their levels")
    ranks: Counter[int] = Counter()
    width = Counter(node.level for node in graph.nodes)
    places = []
    for node in graph.nodes:
        # rows that alternate by a little keep edges from running through nodes
        shift = 0.25 * (-1) ** node.level
        places.append((ranks[node.level] - (width[node.level] - 1) / 2 + shift, node.level))
        ranks[node.level] += 1
    for upper, lower in graph.edges:
        (x0, y0), (x1, y1) = places[upper], places[lower]
        bend = 0.18 * ((upper + lower) % 3 - 1) + (0.35 if x0 == x1 and y1 - y0 > 1 else 0)
        axes.annotate(
            "",
            (x1, y1),
            (x0, y0),
            arrowprops={
                "arrowstyle": "-|>",
                "color": _GREY,
                "shrinkA": 9,
                "shrinkB": 9,
                "connectionstyle": f"arc3,rad={bend:.2f}",
            },
        )
    single = not any(node.sub or node.piece for node in graph.nodes)
    for node, (x, y) in zip(graph.nodes, places, strict=True):
        name = _short(node.base) if single else f"{_short(node.base)}.{node.sub}.{node.piece}"
        axes.text(
            x,
            y,
            name,
            ha="center",
            va="center",
            fontsize=8,
            color="white",
            parse_math=False,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": _BLUE, "edgecolor": "none"},
        )
    most = max(width.values(), default=1) / 2 + 0.5
    axes.set_xlim(-most, most)
    axes.set_ylim(max(width, default=0) + 0.6, -0.6)
    axes.set_xticks([])
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines["bottom"].set_visible(False)
    axes.set_ylabel("level (0 is the top)" + ("" if single else "; names: id.copy.piece"))


def _edges(published: ComplementEdges, axes: Axes) -> None:
    axes.set_title("Published edges: the map without the path")
    size = len(published.vertices)
    shown = np.zeros((size, size))
    shown[published.edges[:, 0], published.edges[:, 1]] = 1
    _matrix(axes, shown + shown.T, published.vertices)


def _labels(published: RandomizedLabels, axes: Axes) -> None:
    axes.set_title("Noisy labels (dark: said to be an edge off the path)")
    size = len(published.vertices)
    shown = np.zeros((size, size))
    shown[np.triu_indices(size, 1)] = ~published.labels
    _matrix(axes, shown + shown.T, published.vertices)


def _matrix(axes: Axes, shown: Any, vertices: tuple[Any, ...]) -> None:
    axes.imshow(shown, cmap="Blues", vmin=0, vmax=1.3, interpolation="nearest")
    if len(vertices) <= 20:
        names = [_short(each) for each in vertices]
        axes.set_xticks(range(len(names)), names, rotation=0 if max(map(len, names)) < 3 else 90)
        axes.set_yticks(range(len(names)), names)
        for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            label.set_parse_math(False)  # an id may have a dollar sign
    shown_by = "vertex" if len(vertices) <= 20 else "place of the vertex in the published list"
    axes.set_xlabel(shown_by)
    axes.set_ylabel(shown_by)


def _degrees(published: ComplementEdges, axes: Axes) -> None:
    axes.set_title("Published edges: degrees")
    counts = np.bincount(np.bincount(published.edges.ravel(), minlength=len(published.vertices)))
    kept = np.flatnonzero(counts)
    axes.plot(kept, counts[kept], ".", color=_BLUE)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("log")
    axes.set_xlabel("published edges at a vertex")
    axes.set_ylabel("vertices")


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= 10 else text[:9] + "…"
