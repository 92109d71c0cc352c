"""Cut queries and degrees of synthetic graphs: DER, blocks and their peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from algorithms.graph_der.parameters import BLOCK_SHARES, block_plan_of, plan_of
from algorithms.graph_der.publication import labelled, publish
from algorithms.graph_der.regions import Ints
from bench.utility.compare import Comparison, Contender, Figures, compare
from bench.utility.graph_peers import (
    Floats,
    chung_lu,
    degrees_of,
    isotonic_degrees,
    noisy_degrees,
    top_m_filter,
    uniform_grid,
)
from reproduction.stand_in_data import power_law
from simulation.populations import shared_data

GRAPHS: Final = ("ca-GrQc", "ca-HepTh", "wiki-Vote", "facebook_combined", "email-Eu-core")
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


PRODUCT: Final = {
    "error of range cuts": "blocks, ranges",
    "error of random cuts": "blocks, cuts",
    "divergence of degrees": "blocks, degrees",
    "error of a degree": "blocks, degrees",
    "sorted degrees, L1": "blocks, degree_sequence",
}
"""By measure, the aim that a user would choose."""
SIMPLE: Final = (
    "degrees alone",
    "degrees + isotonic",
    "Chung-Lu",
    "TmF",
    "uniform grid",
    "uniform graph",
)


def graph(runs: int) -> Iterator[Comparison]:
    """Cut queries and degrees: blocks against DER and the peers."""
    for name, data in graphs():
        ends = _by_id(data)
        degrees = degrees_of(ends, data.count)
        for epsilon in ("0.5", "1", "2"):
            asked = GraphParameters(epsilon=epsilon, labelling="id")
            budget = float(epsilon)
            methods: dict[str, Callable[[int], Ends]] = {
                "DER": partial(der, data, asked),
                **{
                    f"blocks, {aim}": partial(blocks, data, asked.model_copy(update={"aim": aim}))
                    for aim in BLOCK_SHARES
                },
                "TmF": partial(_top_m, data, budget),
                "Chung-Lu": partial(chung_lu, degrees, budget),
                "uniform grid": partial(uniform_grid, *ends, data.count, budget),
                "uniform graph": partial(random_ends, data.count, data.edges),
            }
            contenders: dict[str, Contender] = {
                each: partial(_measured, data, way) for each, way in methods.items()
            }
            for each, peer in (
                ("degrees alone", noisy_degrees),
                ("degrees + isotonic", isotonic_degrees),
            ):
                contenders[each] = partial(_degrees_alone, degrees, peer, budget)
            yield compare(
                f"{name}, epsilon {epsilon}",
                contenders,
                runs,
                algorithm="graph-der",
                product=PRODUCT,
                simple=SIMPLE,
            )


def _measured(data: EdgeList, method: Callable[[int], Ends], seed: int) -> Figures:
    released = method(seed)
    true, vertices = degrees_of(_by_id(data), data.count), data.count
    return cut_errors(data, released) | degree_errors(true, degrees_of(released, vertices))


def _degrees_alone(
    true: Ints, peer: Callable[[Ints, float, int], Floats], epsilon: float, seed: int
) -> Figures:
    """The isotonic sequence says nothing of any vertex."""
    figures = degree_errors(true, peer(true, epsilon, seed))
    if peer is isotonic_degrees:
        del figures["error of a degree"]
    return figures


def degree_errors(true: Ints, released: Floats | Ints) -> Figures:
    """Mean error of a vertex's degree; the same when both are sorted."""
    return {
        "error of a degree": float(np.abs(released - true).mean()),
        "sorted degrees, L1": float(np.abs(np.sort(released) - np.sort(true)).mean()),
    }


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
