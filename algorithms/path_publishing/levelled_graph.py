"""From a network and a path to what is published: the source's levelled graph, and the sound modes.

The levelled graph: copies of vertices and which pairs must connect; pieces on levels; sub-vertices
inserted with backtracking, and split where they must be; assembly. Source: Lu's thesis, Algorithm
6.3 and Rule 5. Spec: path-publishing, sections 3.1 to 3.5.

The sound modes publish the map's edges off the path and nothing else, or a noisy label for each
pair of vertices. Spec: path-publishing, sections 3.8 and 3.9.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.path_publishing.parameters import NoGraphPath
from tacit.paths.network import Ints, NetworkPath, VertexId, pair_codes, sorted_codes, without
from tacit.paths.published import ComplementEdges, Direction, LevelledGraph, Node, RandomizedLabels
from tacit.randomness import NoiseSource
from tacit.wire import format_exact

VertexCopy: TypeAlias = tuple[int, int]
"""A sub-vertex: place of the base vertex, number of the copy."""

WORD: Final = 1 << 64


@dataclass(frozen=True)
class Relations:
    """order: sub-vertices, the first `real` in the order of the path, then the fake copies.
    together[i]: bit mask of the places j in `order` with r = 2 (one branch of the graph)."""

    order: tuple[VertexCopy, ...]
    real: int
    together: tuple[int, ...]

    def pairs(self) -> set[tuple[int, int]]:
        """The pairs (i, j), i < j, with r = 2."""
        places = range(len(self.order))
        return {(i, j) for i in places for j in places if i < j and self.together[i] >> j & 1}


def fake_probability(epsilon_e: float | None) -> float:
    """p2: the probability that a pair without an edge is drawn into one branch; 0 without noise."""
    return 0.0 if epsilon_e is None else 1 / (1 + math.exp(-epsilon_e / 2))


def copy_probabilities(least: int, most: int, epsilon_v: float) -> list[float]:
    """The probabilities that a vertex shows least, least + 1, ..., most copies: weights
    exp(-epsilon n / 2).

    The degree term of the source's quality function is the same for all n, and cancels.
    """
    weights = [math.exp(-epsilon_v * (number - least) / 2) for number in range(least, most + 1)]
    return [weight / sum(weights) for weight in weights]


def drawn_copies(
    network: NetworkPath, epsilon_v: float | None, source: NoiseSource
) -> tuple[int, ...]:
    """How many copies each vertex shows: as many as it has visits, or more (Algorithm 6.1)."""
    visits = Counter(network.path.tolist())
    base = [visits[place] for place in range(network.network.size)]
    if epsilon_v is None:
        return tuple(base)
    most = max(2, *base)
    words = source.words(len(base)).tolist()
    copies = []
    for least, word in zip(base, words, strict=True):
        total = Fraction(0)
        drawn = least
        for number, chance in enumerate(copy_probabilities(least, most, epsilon_v), least):
            drawn = number
            total += Fraction(chance)
            if word < round(total * WORD):
                break
        copies.append(drawn)
    return tuple(copies)


def insertion_order(path: list[int], copies: tuple[int, ...]) -> tuple[tuple[VertexCopy, ...], int]:
    """Sub-vertices in the order in which they are inserted: the visits of the path, then the fake
    copies vertex by vertex; and how many are visits."""
    shown_copies: Counter[int] = Counter()
    order = []
    for place in path:
        order.append((place, shown_copies[place]))
        shown_copies[place] += 1
    for place, shown in enumerate(copies):
        order += [(place, copy) for copy in range(shown_copies[place], shown)]
    return tuple(order), len(path)


def drawn_relations(
    network: NetworkPath, copies: tuple[int, ...], epsilon_e: float | None, source: NoiseSource
) -> Relations:
    """r for every pair (Algorithm 6.2): steps of the path apart, other edges together, and pairs
    without an edge by one coin each."""
    order, real = insertion_order(network.path.tolist(), copies)
    threshold = round(Fraction(fake_probability(epsilon_e)) * WORD)
    joined = {tuple(edge) for edge in network.network.edges.tolist()}
    count = len(order)
    words = source.words(count * (count - 1) // 2).tolist() if threshold else []
    drawn = iter(words)
    together = [0] * count
    for i, (one, _) in enumerate(order):
        for j in range(i + 1, count):
            other = order[j][0]
            fake = bool(words) and next(drawn) < threshold
            if j == i + 1 < real:
                continue
            if ((one, other) if one < other else (other, one)) in joined or fake:
                together[i] |= 1 << j
                together[j] |= 1 << i
    return Relations(order, real, tuple(together))


# Pieces on levels, and where a further one fits. Spec: path-publishing, section 3.3. Source: Lu's
# thesis, Algorithm 6.5. What is placed is a transitive DAG at every moment: a piece's ancestors and
# descendants are all of its comparable pieces. Sets of pieces are bit masks over their order of
# placing.


class Levels:
    """Placed pieces: the place of each one's node in the insertion order, its number among the
    node's pieces, its level (smaller is higher), ancestors and descendants."""

    def __init__(self) -> None:
        self.node: list[int] = []
        self.number: list[int] = []
        self.level: list[int] = []
        self.above: list[int] = []
        self.below: list[int] = []

    @property
    def top(self) -> int:
        """The highest level in use."""
        return min(self.level, default=0)

    @property
    def bottom(self) -> int:
        """The lowest level in use."""
        return max(self.level, default=0)

    def place(self, node: int, number: int, level: int, above: int, below: int) -> int:
        """Add a piece with these ancestors and descendants; its place."""
        placed = len(self.node)
        bit = 1 << placed
        for other in bits(above):
            self.below[other] |= bit
        for other in bits(below):
            self.above[other] |= bit
        self.node.append(node)
        self.number.append(number)
        self.level.append(level)
        self.above.append(above)
        self.below.append(below)
        return placed

    def remove_last(self) -> None:
        """Remove the one that was placed last."""
        for column in (self.node, self.number, self.level):
            column.pop()
        above, below = self.above.pop(), self.below.pop()
        bit = 1 << len(self.node)
        for other in bits(above):
            self.below[other] ^= bit
        for other in bits(below):
            self.above[other] ^= bit

    def higher(self, pieces: int, level: int) -> int:
        """Those of the pieces that are above a level."""
        result = 0
        for piece in bits(pieces):
            if self.level[piece] < level:
                result |= 1 << piece
        return result

    def options(self, together: int) -> list[tuple[int, int, int]]:
        """The possible positions of a piece that must be comparable to the pieces `together` and to
        no other: (level, ancestors, descendants), from high to low, including one level beyond both
        ends.

        All levels between two levels of these pieces are equivalent.
        """
        first, last = self.top - 1, self.bottom + 1
        if not together:
            return [(level, 0, 0) for level in range(first, last + 1)]
        by_level: dict[int, int] = {}
        for piece in bits(together):
            level = self.level[piece]
            by_level[level] = by_level.get(level, 0) | 1 << piece
        result: list[tuple[int, int, int]] = []
        above, low = 0, first
        used_levels = sorted(by_level)
        for level in (*used_levels, last + 1):
            if low < level and self._fits(above, together & ~above):
                result += [(option, above, together & ~above) for option in range(low, level)]
            above |= by_level.get(level, 0)
            low = level + 1
        return result

    def _fits(self, above: int, below: int) -> bool:
        for piece in bits(above):
            if self.above[piece] & ~above or below & ~self.below[piece]:
                return False
        return all(not self.below[piece] & ~below for piece in bits(below))


def bits(mask: int) -> Iterator[int]:
    """The places of the ones, from the lowest."""
    while mask:
        bit = mask & -mask
        yield bit.bit_length() - 1
        mask ^= bit


# A vertex that fits nowhere is cut into pieces. Spec: path-publishing, section 3.5. Source: Lu's
# thesis, Algorithm 6.6. A greedy cover: each piece takes the place that serves most of the pairs
# that are left. Options are examined again after every piece, or else two pieces of one vertex
# could become comparable through a third. It always ends with every pair covered.


def split_node(levels: Levels, node: int, together: int, pieces: list[int]) -> int:
    """Place as many pieces of a node as its pairs with `together` need; the first one's place.

    pieces: how many each node has, by its place in the insertion order; counted up here.
    """
    first: int | None = None

    def piece_of(owner: int, level: int, above: int, below: int) -> int:
        number = pieces[owner]
        pieces[owner] += 1
        return levels.place(owner, number, level, above, below)

    rest = together
    while rest:
        served, level, above, below = _best(levels, together, rest)
        if not served:
            break
        placed = piece_of(node, level, above, below)
        first = placed if first is None else first
        rest &= ~(above | below)
    if rest or first is None:
        bottom = levels.bottom
        placed = piece_of(node, bottom + 1, 0, 0)
        first = placed if first is None else first
        for other in bits(rest):
            piece_of(levels.node[other], bottom + 2, 1 << placed, 0)
    return first


def _best(levels: Levels, together: int, rest: int) -> tuple[int, int, int, int]:
    """How many of `rest` the best place serves, its level, ancestors and descendants."""
    best = (0, 0, 0, 0)
    closed_above = closed_below = 0
    for piece in bits(together):
        if not levels.above[piece] & ~together:
            closed_above |= 1 << piece
        if not levels.below[piece] & ~together:
            closed_below |= 1 << piece
    for level in range(levels.bottom + 1, levels.top - 2, -1):
        higher = levels.higher(together, level)
        lower = together & ~levels.higher(together, level + 1)
        above, below = closed_above & higher, closed_below & lower
        under = sum(1 << bit for bit in bits(below) if not above & ~levels.above[bit])
        over = sum(1 << bit for bit in bits(above) if not below & ~levels.below[bit])
        for option in ((above, under), (over, below)):
            served = ((option[0] | option[1]) & rest).bit_count()
            if served > best[0]:
                best = (served, level, *option)
    return best


# Sub-vertices are inserted one after the other, with backtracking, and split where they must be.
# Source: Lu's thesis, Algorithm 6.4, repaired. Spec: path-publishing, section 3.4. A stage ends
# when all nodes are placed, when nothing is left to try, or when its budget of steps is used up;
# then the deepest arrangement that it reached is kept, the next node is split, and a new stage
# begins.

BEAT_STEPS: Final = 256


@dataclass(frozen=True, eq=False)
class Arrangement:
    """All pieces on their levels, and the course of the search: visible only to the owner.

    exhausted: whether the search once ran out of budget, not of possibilities.
    """

    levels: Levels
    splits: int
    budget_hits: int
    steps: int


def arranged(
    together: Sequence[int],
    search_budget: int,
    *,
    split: bool = True,
    beat: Callable[[], None] = lambda: None,
) -> Arrangement:
    """Levels for nodes 0, 1, ... in this order; together[i]: mask of the nodes comparable to i.

    search_budget: steps of a stage. beat: called at every stage, and every 256 steps.
    Raises NoGraphPath without `split`, where a node fits nowhere or the budget is used up.
    """
    search = _Search(together, search_budget, beat)
    levels, count = search.levels, len(together)
    search.place(0, 0, 0, 0)
    position = 1
    splits = hits = 0
    while position < count:
        beat()
        best = search.stage(position)
        if best is None:
            break
        hits += search.budget_used
        if not split:
            raise NoGraphPath("the search ended early" if search.budget_used else "")
        node = position + len(best)
        for at, (level, above, below) in enumerate(best, position):
            search.place(at, level, above, below)
        first = split_node(levels, node, search.placed_pairs(node), search.pieces)
        search.active[node] = first
        splits += 1
        position = node + 1
    return Arrangement(levels, splits, hits, search.steps)


class _Search:
    """The pieces so far. active: the piece of each node that later nodes are compared with."""

    def __init__(self, together: Sequence[int], budget: int, beat: Callable[[], None]) -> None:
        self.together, self.budget, self.beat = together, budget, beat
        self.levels = Levels()
        self.active: dict[int, int] = {}
        self.pieces = [0] * len(together)
        self.steps = 0
        self.budget_used = False

    def placed_pairs(self, node: int) -> int:
        """The placed pieces that a node has to be comparable to."""
        result = 0
        for other in bits(self.together[node] & ((1 << node) - 1)):
            result |= 1 << self.active[other]
        return result

    def place(self, node: int, level: int, above: int, below: int) -> None:
        """The node as one piece."""
        self.active[node] = self.levels.place(node, 0, level, above, below)
        self.pieces[node] = 1

    def remove_last(self, node: int) -> None:
        """Remove the one that was placed last."""
        self.levels.remove_last()
        del self.active[node]
        self.pieces[node] = 0

    def stage(self, position: int) -> list[tuple[int, int, int]] | None:
        """Try to place all nodes from `position` on. None: done. Otherwise none of them is
        placed, and the result is where the deepest try had placed the first of them."""
        steps, node = 0, position
        chosen: list[tuple[int, int, int]] = []
        best: list[tuple[int, int, int]] = []
        stack = [self.levels.options(self.placed_pairs(node))]
        while True:
            steps += 1
            self.steps += 1
            if self.steps % BEAT_STEPS == 0:
                self.beat()
            if stack[-1] and steps < self.budget:
                option = stack[-1].pop()
                self.place(node, *option)
                chosen.append(option)
                node += 1
                if node == len(self.together):
                    return None
                if len(chosen) > len(best):
                    best = chosen.copy()
                stack.append(self.levels.options(self.placed_pairs(node)))
                continue
            stack.pop()
            if not stack or steps >= self.budget:
                break
            node -= 1
            self.remove_last(node)
            chosen.pop()
        self.budget_used = steps >= self.budget
        while node > position:
            node -= 1
            self.remove_last(node)
        return best


# Source: Lu's thesis, Algorithm 6.3 and Rule 5. Spec: path-publishing, sections 3.6 and 2.4. Nodes
# and edges are sorted: the order of insertion is the order of the path.


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


LAYOUT_BUDGET = 2000


def off_path(network: NetworkPath, beat: Callable[[], None] = lambda: None) -> ComplementEdges:
    """Sorted ids and the sorted edges off the path, without a direction. `beat` is called between
    its steps."""
    size = network.network.size
    ids, rank = sorted_ids(network.network.vertices)
    edges, path = network.network.edges, rank[network.path]
    if ids != network.network.vertices:
        edges = rank[edges]
    beat()
    codes = sorted_codes(edges[:, 0], edges[:, 1], size)
    beat()
    off_path_codes = without(codes, pair_codes(path[:-1], path[1:], size))
    beat()
    return ComplementEdges(ids, np.stack(np.divmod(off_path_codes, size), axis=1))


def sorted_ids(vertices: tuple[VertexId, ...]) -> tuple[tuple[VertexId, ...], Ints]:
    """The ids in order, and the rank (n,) of each."""
    ordered = tuple(sorted(vertices))
    if ordered == vertices:
        return vertices, np.arange(len(vertices))
    order = sorted(range(len(vertices)), key=vertices.__getitem__)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return ordered, rank


def layout_of(published: ComplementEdges) -> LevelledGraph:
    """The published edges on levels, from them alone."""
    together = [0] * len(published.vertices)
    for low, high in published.edges.tolist():
        together[low] |= 1 << high
        together[high] |= 1 << low
    return canonical_layout(together, published.vertices, LAYOUT_BUDGET)


# Spec: path-publishing, section 3.9. A pair is a step of the path, another edge, or none. A step
# gets the label H with probability 1 - q, another edge G with the same, a pair without an edge
# either by a fair coin; q = 1/(1+e^epsilon). Between any two of the three a label is at most
# e^epsilon times as likely.

ABSENT, LINK, STEP = range(3)


def statuses(network: NetworkPath) -> NDArray[np.int8]:
    """ABSENT, LINK or STEP for each pair of sorted ids, in lexicographic order."""
    size = network.network.size
    _, rank = sorted_ids(network.network.vertices)
    status_of = np.full((size, size), ABSENT, np.int8)
    ends = np.sort(rank[network.network.edges], axis=1)
    status_of[ends[:, 0], ends[:, 1]] = LINK
    steps = np.sort(rank[np.stack((network.path[:-1], network.path[1:]), axis=1)], axis=1)
    status_of[steps[:, 0], steps[:, 1]] = STEP
    return status_of[np.triu_indices(size, 1)]


def drawn_labels(
    status: NDArray[np.int8], epsilon: Fraction, source: NoiseSource
) -> NDArray[np.bool_]:
    """A label for each status; true is H. Decided by exact integers."""
    wrong = wrong_threshold(epsilon)
    thresholds = np.array([WORD // 2, wrong, WORD - wrong], np.uint64)
    shown: NDArray[np.bool_] = source.words(status.size) < thresholds[status]
    return shown


def labelled(network: NetworkPath, epsilon: Fraction, source: NoiseSource) -> RandomizedLabels:
    """All labels, without a direction."""
    ids, _ = sorted_ids(network.network.vertices)
    labels = drawn_labels(statuses(network), epsilon, source)
    return RandomizedLabels(ids, labels, format_exact(epsilon))


_DOWN: Final = Context(prec=60, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
_UP: Final = Context(prec=60, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)


def wrong_threshold(epsilon: Fraction) -> int:
    """t: words below it give the wrong answer. 1 <= t <= 2^63, epsilon >= 0."""
    exponent = _DOWN.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    growth = _DOWN.add(1, _DOWN.next_minus(_DOWN.exp(exponent)))
    return min(int(_UP.divide(Decimal(WORD), growth).to_integral_value(ROUND_CEILING)), WORD // 2)


def epsilon_of(threshold: int) -> Fraction:
    """The loss of a threshold, rounded up."""
    ratio = _UP.divide(Decimal(WORD - threshold), Decimal(threshold))
    return Fraction(_UP.next_plus(_UP.ln(ratio))) if threshold < WORD // 2 else Fraction(0)


def drawn_direction(first_is_smaller: bool, epsilon: Fraction, source: NoiseSource) -> Direction:
    """Whether the path begins at the smaller of its end ids, truthful with probability
    e^epsilon / (1 + e^epsilon)."""
    wrong = int(source.words(1)[0]) < wrong_threshold(epsilon)
    return Direction(int(first_is_smaller != wrong), format_exact(epsilon))
