"""A run's public choices. Spec: sequential-prefix-tree, section 3."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from algorithms.contract import Stance
from algorithms.counts.contract import CountTest
from algorithms.sequential_prefix_tree.problems import TreeTooLarge
from tacit.encoders.sequential_prefix_tree_layout import Layout


@dataclass(frozen=True)
class Settings:
    """group_test: None where no groups are asked for. The stance decides where draws are taken from
    and how counts are made consistent; max_cells: counts that one question asks at most, after the
    first level (None: all); draws: whole noises that a count holds."""

    layout: Layout
    height: int
    group_test: CountTest | None
    item_test: CountTest
    stance: Stance = "sound"
    max_nodes: int = 5_000_000
    max_cells: int | None = None
    draws: Fraction = Fraction(1)

    @property
    def factor(self) -> float:
        """Empty children that an empty node has in expectation (at most, with time bins)."""
        passing = self.group_test.chance if self.group_test else 1
        return float(self.layout.items * passing * self.item_test.chance)

    def check_nodes(self, number: float) -> None:
        """Raises TreeTooLarge."""
        if number > self.max_nodes:
            raise TreeTooLarge(self.max_nodes, self.factor)
