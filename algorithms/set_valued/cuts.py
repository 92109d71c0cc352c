"""What a partition is in public: its cut through the taxonomy and the budget that is left.

Spec: set-valued, sections 3.2 and 3.3. Everything here follows from the public tree and from which
sub-partitions survived; no count enters.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from tacit.encoders.set_valued_taxonomy import Node, Taxonomy


@dataclass(frozen=True, slots=True)
class Cut:
    """wave: the nodes of the greatest height that are still to be split, each with its place among
    the masks of every record here (`records`); later: lower nodes to be split; items: items of the
    cut; internal: splits that may still come, n of Theorem 4.1; rest: partitioning budget left;
    depth: splits so far."""

    wave: tuple[tuple[Node, int], ...]
    later: tuple[Node, ...]
    items: tuple[int, ...]
    internal: int
    rest: Fraction
    depth: int

    @property
    def alpha(self) -> Fraction:
        """What the next split costs."""
        return self.rest / self.internal

    @property
    def last(self) -> bool:
        """Whether one node is left: a split can then end in an itemset."""
        return len(self.wave) == 1 and not self.later


@dataclass(frozen=True, slots=True)
class Split:
    """One split of a cut: `node` into the non-empty subsets of its children.

    cells: their number M; leaf_mask: the children that are items if a subset of them alone ends the
    chain, else 0.
    """

    cut: Cut
    node: Node
    place: int
    alpha: Fraction
    cells: int
    leaf_mask: int

    @property
    def leaf_cells(self) -> int:
        """Sub-partitions that are itemsets."""
        return int((1 << self.leaf_mask.bit_count()) - 1)


def root_cut(taxonomy: Taxonomy, epsilon: Fraction) -> Cut:
    """All records, generalised to the root; half of epsilon is for partitioning."""
    root = taxonomy.root
    return Cut(((root, 0),), (), (), taxonomy.internal(root), epsilon / 2, 0)


def split_of(taxonomy: Taxonomy, cut: Cut, pick: int) -> Split:
    """Split number `pick` of the wave."""
    node, place = cut.wave[pick]
    return Split(
        cut,
        node,
        place,
        cut.alpha,
        (1 << len(taxonomy.children(node))) - 1,
        taxonomy.leaf_mask(node) if cut.last else 0,
    )


def child_cut(taxonomy: Taxonomy, split: Split, mask: int) -> Cut:
    """The cut of one sub-partition that is split further."""
    cut, node = split.cut, split.node
    items, inner, below = selected(taxonomy, node, mask)
    wave = tuple(each for each in cut.wave if each[0] != node)
    later = cut.later + inner
    depth = cut.depth + 1
    if not wave and later:  # the records' masks continue with the next height, from left to right
        height = max(each.level for each in later)
        nodes = sorted(each for each in later if each.level == height)
        wave = tuple(zip(nodes, range(depth, depth + len(nodes)), strict=True))
        later = tuple(each for each in later if each.level < height)
    return Cut(
        wave,
        later,
        cut.items + items,
        cut.internal - taxonomy.internal(node) + below,
        cut.rest - split.alpha,
        depth,
    )


def itemset(taxonomy: Taxonomy, split: Split, mask: int) -> tuple[int, ...]:
    """The items of a sub-partition that ends the chain, in order."""
    return tuple(sorted(split.cut.items + selected(taxonomy, split.node, mask)[0]))


@lru_cache(maxsize=1 << 17)
def selected(
    taxonomy: Taxonomy, node: Node, mask: int
) -> tuple[tuple[int, ...], tuple[Node, ...], int]:
    """Of the children in a mask: the items, the other nodes, and the splits below these."""
    chosen = [child for bit, child in enumerate(taxonomy.children(node)) if mask >> bit & 1]
    inner = tuple(child for child in chosen if child.level)
    return (
        tuple(child.place for child in chosen if not child.level),
        inner,
        sum(taxonomy.internal(child) for child in inner),
    )
