"""A vertex that fits nowhere is cut into pieces. Spec: path-publishing, section 3.5.

Source: Lu's thesis, Algorithm 6.6. A greedy cover: each piece takes the place that serves most of
the pairs that are left. Options are examined again after every piece, or else two pieces of one
vertex could become comparable through a third. It always ends with every pair covered.
"""

from __future__ import annotations

from algorithms.path_publishing.levels import Levels, bits


def split(levels: Levels, node: int, together: int, pieces: list[int]) -> int:
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
        under = sum(1 << each for each in bits(below) if not above & ~levels.above[each])
        over = sum(1 << each for each in bits(above) if not below & ~levels.below[each])
        for option in ((above, under), (over, below)):
            served = ((option[0] | option[1]) & rest).bit_count()
            if served > best[0]:
                best = (served, level, *option)
    return best
