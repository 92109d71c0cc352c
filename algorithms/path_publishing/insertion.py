"""Sub-vertices are inserted one after the other, with backtracking, and split where they must be.

Source: Lu's thesis, Algorithm 6.4, repaired. Spec: path-publishing, section 3.4. A stage ends when
all nodes are placed, when nothing is left to try, or when its budget of steps is used up; then the
deepest arrangement that it reached is kept, the next node is split, and a new stage begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from algorithms.path_publishing.levels import Levels, bits
from algorithms.path_publishing.problems import NoGraphPath
from algorithms.path_publishing.splitting import split as split_node

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
        found = 0
        for other in bits(self.together[node] & ((1 << node) - 1)):
            found |= 1 << self.active[other]
        return found

    def place(self, node: int, level: int, above: int, below: int) -> None:
        """The node as one piece."""
        self.active[node] = self.levels.place(node, 0, level, above, below)
        self.pieces[node] = 1

    def remove_last(self, node: int) -> None:
        """Take the node back, which was placed last."""
        self.levels.remove_last()
        del self.active[node]
        self.pieces[node] = 0

    def stage(self, position: int) -> list[tuple[int, int, int]] | None:
        """Try to place all nodes from `position` on. None: done. Else nothing of them is placed,
        and what comes back is where the deepest try had put the first of them."""
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
