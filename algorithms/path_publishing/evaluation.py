"""What only the owner may know of a run: effort, self-tests, attacks on the own result.

Spec: path-publishing, sections 2.4, 8 (check 3) and 9. All of it needs the true path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from algorithms.contract import Context
from algorithms.path_publishing.attacks import (
    Replay,
    label_posterior,
    level_sort,
    prior_counts,
    replay,
    single_steps,
)
from algorithms.path_publishing.complement import sorted_ids
from algorithms.path_publishing.insertion import Arrangement
from algorithms.path_publishing.orientation import orientable
from algorithms.path_publishing.randomized import drawn_labels, statuses
from algorithms.path_publishing.relations import Relations
from tacit.paths.decoding import best_paths, map_weights
from tacit.paths.network import NetworkPath
from tacit.paths.published import ComplementEdges, LevelledGraph, Published, RandomizedLabels
from tacit.paths.recovery import Recovered, recover
from tacit.randomness import NoiseSource, SeededRandom

_SIMULATED_WORK: Final = 1 << 22
_MOST_SIMULATED: Final = 200
_SIMULATION_SEED: Final = 1


def score(found: Recovered, true: tuple[Any, ...]) -> float:
    """1 where the direction is decided rightly, 0.5 undecided, 0 wrong."""
    if len(found.paths) == 2:
        return 0.5
    return float(found.paths[0] == true)


def self_test(network: NetworkPath, published: Published) -> dict[str, Any]:
    """What a holder of the map gets out of it."""
    true = network.ids()
    found = recover(network.network, published)
    return {
        "recovered": true in (found.paths[0], found.paths[0][::-1]),
        "direction_confidence": found.direction_confidence,
        "good_output": score(found, true),
        "ties": found.ties,
    }


def graph_path_evaluation(
    network: NetworkPath,
    graph: LevelledGraph,
    relations: Relations,
    done: Arrangement,
    search_budget: int,
    context: Context,
) -> dict[str, Any]:
    """Of the mode graph-path, with both attacks."""
    size, steps = network.network.size, single_steps(network)
    warnings = []
    if len(network.network.edges) == size * (size - 1) // 2:
        warnings.append("the map is complete: the levels are the path")
    attacked = None
    if steps:
        word = int(context.noise("attacked step").words(1)[0])
        attacked = replay(
            graph, network, steps[word % len(steps)], search_budget, _beat(context, 0.6)
        )
    sorted_by_level = level_sort(graph, network.ids())
    return {
        "usable_without_split": orientable(relations.together),
        "splits": done.splits,
        "budget_hits": done.budget_hits,
        "search_steps": done.steps,
        "pieces": len(graph.nodes),
        "self_test": self_test(network, graph),
        "adversary_prior": _prior(network),
        "attack": {
            "replay": None if attacked is None else replay_shown(attacked),
            "candidates_left_of": None if attacked is None else baselines_shown(attacked),
            "level_sort": {
                "whole_path": sorted_by_level.whole_path,
                "share_of_path_edges": sorted_by_level.edges_read,
            },
        },
        "warnings": warnings,
    }


def replay_shown(found: Replay) -> dict[str, Any]:
    """Candidates for the missing edge of a step, counted from 0."""
    return {
        "step": found.step,
        "candidates": len(found.prior),
        "after_pairs": len(found.after_pairs),
        "after_levels": len(found.after_levels),
        "identified": len(found.after_levels) == 1,
    }


def baselines_shown(found: Replay) -> dict[str, int]:
    """How many candidates for the same missing edge other publications would have left: the pairs
    alone in a separate layout show what the fakes leak without the levels."""
    return {
        "sealed": len(found.prior),
        "complement": len(found.prior),
        "g_only_canonical_layout": len(found.after_pairs),
        "graph-path": len(found.after_levels),
    }


def complement_evaluation(network: NetworkPath, published: ComplementEdges) -> dict[str, Any]:
    """Of the mode complement."""
    return {
        "self_test": self_test(network, published),
        "adversary_prior": _prior(network),
    }


def randomized_evaluation(
    network: NetworkPath, published: RandomizedLabels, epsilon: Any, context: Context
) -> dict[str, Any]:
    """Of the mode randomized: how often such a map's path is found at all, by simulation."""
    steps = single_steps(network)
    word = int(context.noise("attacked step").words(1)[0])
    posterior = label_posterior(published, network, steps[word % len(steps)], float(epsilon))
    return {
        "self_test": self_test(network, published),
        "adversary_prior": _prior(network),
        "posterior_of_the_true_edge": next(iter(posterior.values())),
        "estimated_recovery": recovery_rate(
            network, epsilon, repetitions(network.network.size), SeededRandom(_SIMULATION_SEED),
            _beat(context, 0.8),
        ),
    }  # fmt: skip


def repetitions(size: int) -> int:
    """As many simulated publications as take a few seconds."""
    return max(3, min(_MOST_SIMULATED, _SIMULATED_WORK // (size << size)))


def recovery_rate(
    network: NetworkPath,
    epsilon: Any,
    times: int,
    source: NoiseSource,
    beat: Callable[[], None] = lambda: None,
) -> float:
    """The share of publications of which a holder of the map finds the path, without its
    direction; a tie among k best paths counts 1/k."""
    status = statuses(network)
    ids, _ = sorted_ids(network.network.vertices)
    rank = {each: place for place, each in enumerate(ids)}
    path = np.array([rank[each] for each in network.ids()])
    found = 0.0
    for _ in range(times):
        beat()
        drawn = RandomizedLabels(ids, drawn_labels(status, epsilon, source), "")
        weights = map_weights(network.network, drawn)
        best = best_paths(weights)
        assert best is not None
        if int(weights[path[:-1], path[1:]].sum()) == best.weight:
            found += 1 / best.count
    return found / times


def _prior(network: NetworkPath) -> dict[str, Any] | None:
    counts = prior_counts(network)
    if not counts.size:
        return None
    return {"mean": float(counts.mean()), "max": int(counts.max())}


def _beat(context: Context, share: float) -> Callable[[], None]:
    return lambda: context.progress(share, "attacking the own result")
