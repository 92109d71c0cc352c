"""Cut queries and degrees of synthetic graphs: DER, blocks and their peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.datasets.edge_list import EdgeList, read_snap
from algorithms.graph_der import Parameters as GraphParameters
from algorithms.graph_der.block_graph import publish_blocks
from algorithms.graph_der.evaluation import (
    SHARES,
    Cuts,
    Ends,
    degree_divergence,
    random_ends,
    relative_error,
)
from algorithms.graph_der.parameters import block_plan_of, plan_of
from algorithms.graph_der.publication import labelled, publish
from bench.utility.compare import Figures, compare
from bench.utility.peers import (
    chung_lu,
    top_m_filter,
    uniform_grid,
)
from reproduction.stand_in_data import power_law
from simulation.populations import shared_data

GRAPHS: Final = ("ca-GrQc", "ca-HepTh", "wiki-Vote", "facebook_combined")
CUT_QUERIES: Final = 150


def graphs() -> Iterator[tuple[str, EdgeList]]:
    """Real ones that are there; else one that is generated."""
    folder, seen = shared_data(), 0
    for name in GRAPHS:
        if folder is not None and (folder / f"{name}.txt").exists():
            with (folder / f"{name}.txt").open("rb") as stream:
                yield name, read_snap(stream)
            seen += 1
    if not seen:
        yield "generated", power_law(5_000, 30_000, 1, groups=16)


def graph(runs: int) -> None:
    """Cut queries and degrees: blocks against DER and the peers."""
    for name, data in graphs():
        for epsilon in ("0.2", "1"):
            asked = GraphParameters(epsilon=epsilon, labelling="id")
            grid_only = asked.model_copy(
                update={"block_shares": tuple(map(Fraction, ("1/25", "0", "12/25", "12/25")))}
            )
            methods: dict[str, Callable[[int], Ends]] = {
                "DER": partial(der, data, asked),
                "blocks": partial(blocks, data, asked),
                "blocks, no degrees": partial(blocks, data, grid_only),
                "TmF": partial(_top_m, data, float(epsilon)),
                "Chung-Lu": partial(chung_lu, *_by_id(data), data.count, Fraction(epsilon)),
                "uniform grid": partial(uniform_grid, *_by_id(data), data.count, float(epsilon)),
                "uniform graph": partial(random_ends, data.count, data.edges),
            }
            contenders = {each: partial(_measured, data, way) for each, way in methods.items()}
            compare(f"{name}, epsilon {epsilon}", contenders, runs)


def _measured(data: EdgeList, method: Callable[[int], Ends], seed: int) -> Figures:
    return cut_errors(data, method(seed))


def der(data: EdgeList, asked: GraphParameters, seed: int) -> Ends:
    plan = plan_of(asked, "sound", data.count)
    found = publish(data, plan, "id", 0, SequentialContext(test_seed=seed))
    return found.low, found.high


def blocks(data: EdgeList, asked: GraphParameters, seed: int) -> Ends:
    plan = block_plan_of(asked, data.count)
    found = publish_blocks(data, plan, "id", 0, SequentialContext(test_seed=seed))
    return found.low, found.high


def _by_id(data: EdgeList) -> Ends:
    return labelled(data, np.argsort(data.vertices, kind="stable").astype(np.int32))


def _top_m(data: EdgeList, epsilon: float, seed: int) -> Ends:
    return top_m_filter(*_by_id(data), data.count, epsilon, np.random.default_rng(seed))


def cut_errors(data: EdgeList, found: Ends) -> Figures:
    true = _by_id(data)
    figures: Figures = {}
    for drawn in ("range", "random"):
        errors = []
        for share in SHARES:
            largest = max(1, round(share * data.count))
            cuts = Cuts.of(data.count, largest, CUT_QUERIES, drawn, 0)  # type: ignore[arg-type]
            answers = cuts.answers([true, found])
            errors.append(relative_error(answers[0], answers[1], data.edges))
        figures[f"error of {drawn} cuts"] = float(np.mean(errors))
    figures["divergence of degrees"] = degree_divergence(true, found, data.count)
    return figures
