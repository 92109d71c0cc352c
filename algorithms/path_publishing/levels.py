"""Pieces on levels, and where a further one fits. Spec: path-publishing, section 3.3.

Source: Lu's thesis, Algorithm 6.5. What is placed is a transitive DAG at every moment: a piece's
ancestors and descendants are all of its comparable pieces. Sets of pieces are bit masks over their
order of placing.
"""

from __future__ import annotations

from collections.abc import Iterator


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
        """The highest level that is taken."""
        return min(self.level, default=0)

    @property
    def bottom(self) -> int:
        """The lowest."""
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
        """Take back the piece that was placed last."""
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
        found = 0
        for piece in bits(pieces):
            if self.level[piece] < level:
                found |= 1 << piece
        return found

    def options(self, together: int) -> list[tuple[int, int, int]]:
        """Where a piece fits that must be comparable to the pieces `together` and to no other:
        (level, ancestors, descendants), from high to low, one level beyond both ends included.

        Between two levels that these pieces take, all levels are alike.
        """
        first, last = self.top - 1, self.bottom + 1
        if not together:
            return [(level, 0, 0) for level in range(first, last + 1)]
        by_level: dict[int, int] = {}
        for piece in bits(together):
            level = self.level[piece]
            by_level[level] = by_level.get(level, 0) | 1 << piece
        found: list[tuple[int, int, int]] = []
        above, low = 0, first
        taken = sorted(by_level)
        for level in (*taken, last + 1):
            if low < level and self._fits(above, together & ~above):
                found += [(each, above, together & ~above) for each in range(low, level)]
            above |= by_level.get(level, 0)
            low = level + 1
        return found

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
