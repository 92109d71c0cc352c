"""One measurement of chapter 6: is a network usable, and is the direction determined correctly.

Spec: path-publishing, section 5. Good output: 1 where the direction is decided correctly, 0.5 where
it is undecided, 0 where it is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from algorithms.path_publishing.evaluation import orientable, score
from algorithms.path_publishing.levelled_graph import (
    Relations,
    drawn_copies,
    drawn_relations,
    graph_path,
)
from reproduction.path_publishing_networks import random_network
from tacit.paths.network import NetworkPath
from tacit.paths.recovery import Rule, recover
from tacit.randomness import SeededRandom

BUDGET: Final = 2000
SOURCE_RULE: Final[Rule] = "nearest-root"
"""How the source determines the direction (the words of its Proposition 6.1)."""


@dataclass(frozen=True)
class Setting:
    """A size, the noise (None: none), and further visits of the path."""

    vertices: int
    edges: int
    epsilon_v: float | None = None
    epsilon_e: float | None = None
    extra_visits: int = 0

    def network(self, source: SeededRandom) -> NetworkPath:
        """A random one."""
        return random_network(self.vertices, self.edges, source.generator, self.extra_visits)

    def relations(self, network: NetworkPath, source: SeededRandom) -> Relations:
        """What its levels have to show."""
        copies = drawn_copies(network, self.epsilon_v, source)
        return drawn_relations(network, copies, self.epsilon_e, source)

    def published(self, source: SeededRandom) -> None:
        """One network through the whole of it, for its time."""
        network = self.network(source)
        graph_path(self.relations(network, source), network.network.vertices, BUDGET)


def usable_share(setting: Setting, times: int, source: SeededRandom) -> float:
    """The share of networks that need no split: those whose pairs have a transitive orientation."""
    usable = 0
    for _ in range(times):
        usable += orientable(setting.relations(setting.network(source), source).together)
    return usable / times


def good_output(
    setting: Setting,
    times: int,
    source: SeededRandom,
    *,
    usable_only: bool = False,
    rule: Rule = SOURCE_RULE,
) -> float:
    """The mean score of this many networks (of those among them that are usable)."""
    scores: list[float] = []
    while len(scores) < times:
        network = setting.network(source)
        relations = setting.relations(network, source)
        if usable_only and not orientable(relations.together):
            continue
        graph, _ = graph_path(relations, network.network.vertices, BUDGET)
        scores.append(score(recover(network.network, graph, direction=rule), network.ids()))
    return float(np.mean(scores))


def rank_correlation(one: list[float], other: list[float]) -> float:
    """Spearman's, with mean ranks for ties; 0 where either does not vary."""

    def ranks(values: list[float]) -> list[float]:
        return [
            sum(each < value for each in values) + (values.count(value) - 1) / 2 for value in values
        ]

    if len(set(one)) == 1 or len(set(other)) == 1:
        return 0.0
    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])
