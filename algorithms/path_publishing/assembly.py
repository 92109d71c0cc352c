"""From pieces on levels to what is published. Source: Lu's thesis, Algorithm 6.3 and Rule 5.

Spec: path-publishing, sections 3.6 and 2.4. Nodes and edges are sorted: the order of insertion is
the order of the path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from algorithms.path_publishing.insertion import Arrangement, arranged
from algorithms.path_publishing.levels import Levels, bits
from algorithms.path_publishing.relations import Relations
from tacit.paths.network import VertexId
from tacit.paths.published import LevelledGraph, Node


def graph_path(
    relations: Relations,
    vertices: Sequence[VertexId],
    search_budget: int,
    *,
    split: bool = True,
    beat: Callable[[], None] = lambda: None,
) -> tuple[LevelledGraph, Arrangement]:
    """The published graph, turned so that the side of the path's beginning is on top.

    Raises NoGraphPath.
    """
    done = arranged(relations.together, search_budget, split=split, beat=beat)
    turned = begins_below(done.levels, relations.real)
    return _published(done.levels, relations, vertices, turned=turned), done


def canonical_layout(
    together: Sequence[int], vertices: Sequence[VertexId], search_budget: int
) -> LevelledGraph:
    """A layout that is a function of the published edges alone: vertices in sorted order, never
    turned. together[i]: mask of the vertices joined with vertex i of the sorted ids."""
    done = arranged(together, search_budget)
    order = tuple((place, 0) for place in range(len(vertices)))
    relations = Relations(order, len(order), tuple(together))
    return _published(done.levels, relations, vertices, turned=False, canonical=True)


def begins_below(levels: Levels, real: int) -> bool:
    """Rule 5: whether a childless piece has a smaller path position than all parentless ones."""
    none = len(levels.node)

    def smallest(empty: list[int]) -> int:
        places = (node for node, mask in zip(levels.node, empty, strict=True) if not mask)
        return min((node for node in places if node < real), default=none)

    return smallest(levels.below) < smallest(levels.above)


def _published(
    levels: Levels,
    relations: Relations,
    vertices: Sequence[VertexId],
    *,
    turned: bool,
    canonical: bool = False,
) -> LevelledGraph:
    top, bottom = levels.top, levels.bottom
    nodes = []
    for node, number, level in zip(levels.node, levels.number, levels.level, strict=True):
        base, copy = relations.order[node]
        shown = bottom - level if turned else level - top
        nodes.append(Node(vertices[base], copy, number, shown))
    names = [(node.base, node.sub, node.piece) for node in nodes]
    order = sorted(range(len(nodes)), key=names.__getitem__)
    rank = {piece: place for place, piece in enumerate(order)}
    edges = []
    for upper, below in enumerate(levels.below):
        for lower in bits(below):
            edges.append((rank[lower], rank[upper]) if turned else (rank[upper], rank[lower]))
    return LevelledGraph(tuple(nodes[at] for at in order), tuple(sorted(edges)), canonical)
