"""For each id of a reproduction one deliberately wrong variant, which must not pass.

A variant is told the monkeypatch of a test and breaks what the id measures: noise doubled, a step
left out, the wrong sensitivity or strategy, a parameter that is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pytest

from algorithms.datasets.tables import Table
from algorithms.graph_random_matrix.publication import Release
from algorithms.kmeans import paper as kmeans_paper
from reproduction import (
    budget_bounds,
    budget_figures,
    budget_noise,
    crowd_tasking_classifiers,
    crowd_tasking_privacy,
    crowd_tasking_shift,
    crowd_tasking_utility,
    dpbv_clustering,
    dpbv_clustering_lengths,
    graph_der_study,
    graph_random_matrix_data,
    graph_random_matrix_figures,
    graph_random_matrix_walks,
    kmeans_baselines,
    kmeans_convergence,
    path_publishing_study,
    privacy_check,
    sequential_ngram_study,
    sequential_prefix_tree_study,
    set_valued,
    trajectory_kcl,
    trajectory_kcl_losses,
    two_layer_privacy,
    two_layer_sweep,
)
from simulation.stand_in_data import Population
from tacit.encoders.dpbv_clustering import Flip

Patch = pytest.MonkeyPatch
Variant = Callable[[Patch], None]


def _around(owner: Any, name: str, change: Callable[..., Any]) -> Variant:
    """Replace a function by `change`, which is given the right one and its arguments."""

    def variant(patch: Patch) -> None:
        right = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, **more: change(right, *args, **more))

    return variant


def _both(*variants: Variant) -> Variant:
    def variant(patch: Patch) -> None:
        for each in variants:
            each(patch)

    return variant


def _twice(right: Any, *args: Any, **more: Any) -> Any:
    return 2 * right(*args, **more)


def _without_the_last_row(right: Any, table: Table, *args: Any) -> Any:
    return right(
        Table(table.columns, tuple(replace(each, codes=each.codes[:-1]) for each in table.cells)),
        *args,
    )


_ONE_LESS: Final = _around(privacy_check, "run_check", _without_the_last_row)
_SENSITIVITY: Final = _around(
    two_layer_privacy,
    "delta_at",
    lambda right, epsilon, units, draws: right(epsilon, 2 * units, draws),
)
_SWEEP: Final = _around(two_layer_sweep, "total_noise", _twice)
_BUDGET: Final = _around(budget_noise, "total_noise", _twice)
_INJECTED: Final = _both(_BUDGET, _around(budget_figures, "exact_total", _twice))
_CURATOR_LEFT_OUT: Final = _around(
    budget_bounds, "aggregate", lambda right, curators: right(curators[:-1])
)


def _reversed(right: Any, *args: Any, **more: Any) -> Any:
    found = right(*args, **more)
    return replace(found, paths=tuple(path[::-1] for path in found.paths))


_DIRECTION: Final = _around(path_publishing_study, "recover", _reversed)


def _five_vertices(patch: Patch) -> None:
    def network(_self: Any, source: Any) -> Any:
        return path_publishing_study.random_network(5, 9, source.generator)

    patch.setattr(path_publishing_study.Setting, "network", network)


_KMEANS_NOISE: Final = _both(
    _around(kmeans_paper, "floating_laplace", _twice),
    _around(kmeans_baselines, "floating_laplace", _twice),
)


def _other_strategy(right: Any, points: Any, start: Any, settings: Any, generator: Any) -> Any:
    other = "posterior" if settings.strategy == "prior" else "prior"
    return right(points, start, replace(settings, strategy=other), generator)


def _counted_thrice(right: Any, *args: Any) -> Any:
    found = right(*args)
    return replace(found, passes=3 * found.passes)


_STRATEGY: Final = _around(kmeans_convergence, "run_paper", _other_strategy)
_COUNTED: Final = _around(kmeans_convergence, "run_paper", _counted_thrice)

_MatrixNetwork = graph_random_matrix_data.Network
_SIGMA: Final = _around(
    _MatrixNetwork,
    "estimate",
    lambda right, self, columns, sigma, seed: right(self, columns, str(3 * float(sigma)), seed),
)


_LONG_WALKS: Final = _around(
    graph_random_matrix_walks,
    "random_walk_graph",
    lambda right, graph, steps, *rest: right(graph, 10 * steps, *rest),
)


def _no_noise(patch: Patch) -> None:
    patch.setattr(
        graph_random_matrix_figures, "baseline", lambda network, _k, _source: network.truth
    )


def _wide_cells(patch: Patch) -> None:
    patch.setattr(Release, "cell_type", lambda _self: np.dtype(np.int64))


_READINGS: Final = _around(
    crowd_tasking_privacy,
    "perturb_floating",
    lambda right, components, scales, *rest: right(components, 2 * scales, *rest),
)
_SAME_READINGS: Final = _around(
    crowd_tasking_privacy,
    "perturb_floating",
    lambda right, components, scales, *rest: right(components, 0 * scales + 10, *rest),
)
_NOISE: Final = _around(crowd_tasking_utility, "noise", _twice)
_MOVED: Final = _around(
    crowd_tasking_shift,
    "perturb_floating",
    lambda right, components, *rest: right(components[:2], *rest),
)
_JOINS: Final = _around(
    crowd_tasking_privacy, "admits", lambda right, limit, asked: not right(limit, asked)
)
_SHIFT: Final = _around(
    crowd_tasking_classifiers, "mean_shift", lambda right, *args: right(*args) / 3
)


def _part_left_out(patch: Patch) -> None:
    patch.setattr(crowd_tasking_classifiers, "_PARTS", 2)


_Sets = set_valued.Study


def _budget(share: int) -> Callable[..., Any]:
    """A release with so many times the noise: epsilon divided."""

    def change(right: Any, self: Any, epsilon: str, *args: Any, **more: Any) -> Any:
        return right(self, str(Fraction(epsilon) / share), *args, **more)

    return change


def _same_budget(right: Any, self: Any, _epsilon: str, *args: Any, **more: Any) -> Any:
    return right(self, "1", *args, **more)


_SETS_NOISE: Final = _around(_Sets, "release", _budget(2))
_SETS_BUDGET: Final = _around(_Sets, "release", _same_budget)


def _sets_in_wrong_universe(patch: Patch) -> None:
    right = Population.cut
    patch.setattr(
        Population, "cut", lambda self, _items, size, source: right(self, 1012, size, source)
    )


def _nothing_sampled(patch: Patch) -> None:
    patch.setattr(Population, "sample", lambda self, *_: self)


_KEPT: Final = _around(
    trajectory_kcl,
    "anonymise",
    lambda right, table, model, *args, **more: right(
        table, replace(model, least=max(model.least // 2, 1), length=1), *args, **more
    ),
)


def _always_global(patch: Patch) -> None:
    right = trajectory_kcl_losses.suppressed

    def suppressed(table: Any, model: Any, _method: Any, *args: Any) -> Any:
        return right(table, model, "global", *args)

    patch.setattr(trajectory_kcl_losses, "suppressed", suppressed)


_Trees = sequential_prefix_tree_study.Study
_Grams = sequential_ngram_study.Study


def _trees(change: Callable[..., tuple[Any, ...]]) -> Variant:
    def wrong(right: Any, self: Any, form: Any, epsilon: str, height: int, seed: int) -> Any:
        return right(self, *change(form, epsilon, height, seed))

    return _around(_Trees, "release", wrong)


def _less(epsilon: str, share: int) -> str:
    return str(Fraction(epsilon) / share)


_TREES_NOISE: Final = _trees(lambda form, e, height, seed: (form, _less(e, 3), height, seed))
_TREES_FORM: Final = _trees(lambda _form, e, height, seed: ("simple", e, height, seed))
_TREES_BUDGET: Final = _trees(lambda form, _e, height, seed: (form, "1", height, seed))
_TREES_HEIGHT: Final = _trees(lambda form, e, height, seed: (form, e, height // 5, seed))


def _same_time(patch: Patch) -> None:
    stand_in = type(sequential_prefix_tree_study.metro(1000))
    patch.setattr(stand_in, "sample", lambda self, *_: self)


def _grams(share: int) -> Variant:
    return _around(_Grams, "_released", _budget(share))


def _no_fill(patch: Patch) -> None:
    right = _Grams._released

    def released(self: Any, epsilon: str, method: Any, seed: int) -> Any:
        return right(self, epsilon, replace(method, fill="none"), seed)

    patch.setattr(_Grams, "_released", released)


def _fixed_l_max(patch: Patch) -> None:
    right = _Grams._released

    def released(self: Any, epsilon: str, method: Any, seed: int) -> Any:
        return right(self, epsilon, replace(method, l_max=4, n_max=2), seed)

    patch.setattr(_Grams, "_released", released)


_Cells = graph_der_study.Study


def _cells(change: Callable[..., Any]) -> Variant:
    def wrong(
        right: Any,
        self: Any,
        stance: Any,
        epsilon: str = "1",
        k: int = 1,
        seed: int = 0,
        step: int = 4,
    ) -> Any:
        return right(self, *change(stance, epsilon, k, seed, step))

    return _around(_Cells, "release", wrong)


_CELLS_NOISE: Final = _cells(lambda stance, e, k, seed, step: (stance, _less(e, 3), k, seed, step))
_CELLS_BUDGET: Final = _cells(lambda stance, _e, k, seed, step: (stance, "1", k, seed, step))
_CELLS_GROUP: Final = _cells(lambda stance, e, _k, seed, step: (stance, e, 1, seed, step))


def _random_graph(patch: Patch) -> None:
    patch.setattr(_Cells, "release", lambda self, *_, **__: self.random)


def _no_cell_noise(patch: Patch) -> None:
    patch.setattr(_Cells, "noisy_cells", lambda self, _epsilon: self.true)


def _nothing_left_out(patch: Patch) -> None:
    patch.setattr(_Cells, "sample", lambda self, *_: self)


def _flip(share: int) -> Variant:
    def variant(patch: Patch) -> None:
        right = Flip.of_epsilon

        def of_epsilon(epsilon: Fraction | None) -> Flip:
            return right(None if epsilon is None else epsilon / share)

        patch.setattr(Flip, "of_epsilon", of_epsilon)

    return variant


_CODE: Final = _around(
    dpbv_clustering,
    "_code",
    lambda right, low, high, half, bits, seed: right(low, high, 2 * half, bits, seed),
)

_OTHER_CHANCE: Final = _around(
    dpbv_clustering_lengths, "bits", lambda right, epsilon, delta: right(-epsilon, delta)
)

_IDS: Final[tuple[tuple[Variant, str], ...]] = (
    (_ONE_LESS, "table-2.2 chen-table-2.1"),
    (_SENSITIVITY, "prop-4.1"),
    (_SWEEP, "fig-4.2 fig-4.3 fig-4.4 fig-4.5"),
    (_CURATOR_LEFT_OUT, "table-5.1 table-5.2"),
    (_BUDGET, "fig-5.2 fig-5.3 table-5.3 table-5.4"),
    (_INJECTED, "fig-5.4"),
    (_five_vertices, "fig-6.7"),
    (_DIRECTION, "fig-6.8 fig-6.9 fig-6.10"),
    (_KMEANS_NOISE, "fig-7.7"),
    (_STRATEGY, "fig-7.8"),
    (_COUNTED, "fig-7.9 fig-7.10"),
    (_SIGMA, "book-fig-11.2 book-fig-11.5 book-table-11.6 book-fig-11.8 book-table-11.11"),
    (_wide_cells, "book-table-11.2"),
    (_no_noise, "book-table-11.3 book-table-11.7"),
    (_LONG_WALKS, "book-table-11.5 book-table-11.9 book-fig-11.11"),
    (_READINGS, "book-table-12.1 book-fig-12.1"),
    (_SAME_READINGS, "book-fig-12.2"),
    (_NOISE, "book-fig-12.3 book-fig-12.4 book-fig-12.12 book-fig-12.13"),
    (_part_left_out, "book-fig-12.6"),
    (_SHIFT, "book-fig-12.7"),
    (_MOVED, "book-fig-12.8"),
    (_JOINS, "book-fig-12.11"),
    (_SETS_NOISE, "chen-fig-4.3 chen-fig-4.7"),
    (_SETS_BUDGET, "chen-fig-4.4"),
    (_sets_in_wrong_universe, "chen-fig-4.5"),
    (_around(_Sets, "release", _budget(8)), "chen-fig-4.6"),
    (_nothing_sampled, "chen-fig-4.8"),
    (_KEPT, "chen-table-5.2 chen-fig-5.5"),
    (_always_global, "chen-fig-5.2 chen-fig-5.3 chen-fig-5.4"),
    (_TREES_NOISE, "chen-fig-6.3 chen-table-6.6"),
    (_TREES_FORM, "chen-fig-6.4"),
    (_same_time, "chen-fig-6.5"),
    (_TREES_BUDGET, "chen-table-6.7"),
    (_TREES_HEIGHT, "chen-table-6.8"),
    (_grams(2), "chen-fig-6.7 chen-fig-6.12"),
    (_grams(20), "chen-fig-6.8 chen-fig-6.13"),
    (_grams(4), "chen-fig-6.9"),
    (_grams(10), "chen-fig-6.10 chen-table-6.10 chen-table-6.11"),
    (_no_fill, "chen-fig-6.11"),
    (_fixed_l_max, "chen-fig-6.14 chen-fig-6.15"),
    (_CELLS_NOISE, "chen-table-7.2 chen-fig-7.6"),
    (_no_cell_noise, "chen-fig-7.3"),
    (_CELLS_BUDGET, "chen-fig-7.4"),
    (_CELLS_GROUP, "chen-fig-7.5"),
    (_random_graph, "chen-fig-7.7"),
    (_nothing_left_out, "chen-fig-7.8"),
    (_CODE, "dpbv-fig-2 dpbv-fig-3 dpbv-fig-10"),
    (_flip(2), "dpbv-table-3 dpbv-fig-5 dpbv-fig-6 dpbv-fig-11"),
    (_flip(4), "dpbv-fig-7"),
    (_flip(10), "dpbv-fig-8"),
    (_OTHER_CHANCE, "dpbv-fig-9"),
)
WRONG: Final = {name: variant for variant, names in _IDS for name in names.split()}
