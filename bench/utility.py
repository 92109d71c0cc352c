"""What better methods gain at the same epsilon: each beside its peers, same data, same seeds.

    python -m bench.utility [--runs 10] [--only graph,spectrum,clusters,sets,sequences,reports]
    python -m bench.utility --pictures docs/pictures

A line for each data set, epsilon and measure; for each contender mean, median and standard
deviation over the runs, CPU seconds of a run, and the ratio of its mean to that of the first, which
is the source's method or what `sound` did before. Below 1 is better, but for measures marked with
+. Graphs are read from the data folder beside the repository where they are there, else generated.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import SequentialContext
from algorithms.crowd_tasking.aggregates import deconvolved, histogram_distance, shares
from algorithms.datasets.edge_list import EdgeList
from algorithms.datasets.edge_list_files import read_snap
from algorithms.drawing import COLOURS, picture
from algorithms.graph_der import Parameters as GraphParameters
from algorithms.graph_der.block_graph import publish_blocks
from algorithms.graph_der.evaluation import random_ends
from algorithms.graph_der.labelling import labelled
from algorithms.graph_der.metrics import SHARES, Cuts, Ends, degree_divergence, relative_error
from algorithms.graph_der.parameters import block_plan_of, plan_of
from algorithms.graph_der.publication import publish
from algorithms.graph_random_matrix import Parameters as SpectrumParameters
from algorithms.graph_random_matrix import run as run_spectrum
from algorithms.kmeans.baselines import cost, eugkm, su
from algorithms.kmeans.central import Rows, run_central
from algorithms.kmeans.evaluation import best_cost
from algorithms.kmeans.paper import drawn_start
from algorithms.kmeans.settings import make_plan
from algorithms.kmeans.steps import release
from algorithms.sequential_ngram import Parameters as SequenceParameters
from algorithms.sequential_ngram import run as run_sequences
from algorithms.set_valued import Parameters as SetParameters
from algorithms.set_valued import run as run_sets
from algorithms.set_valued.evaluation import relative_errors
from algorithms.simplex import on_simplex
from simulation.experiments.kmeans_data import datasets
from simulation.graph_stand_in import blocks as communities
from simulation.graph_stand_in import power_law
from simulation.populations import shared_data
from simulation.set_valued_data import stm_like_concentrated, stm_like_diffuse
from tacit.encoders.crowd_tasking.bounded import Subset, best_window
from tacit.encoders.kmeans.encoder import Floats, Grid
from tacit.noise import floating_laplace
from tacit.randomness import SeededRandom
from tacit.records.sequences import Sequences
from tacit.records.transactions import Transactions

GRAPHS: Final = ("ca-GrQc", "ca-HepTh", "wiki-Vote", "facebook_combined")
CUT_QUERIES: Final = 150

Figures = dict[str, float]
"""By measure; a name that begins with + is better when larger."""


@dataclass(frozen=True)
class Contender:
    """A method: `run(seed)` gives its figures; None of them where it does not serve the case."""

    name: str
    run: Callable[[int], Figures]


def compare(case: str, contenders: Sequence[Contender], runs: int) -> None:
    """All contenders on one data set and epsilon, measure by measure."""
    found: dict[str, list[Figures]] = {}
    taken: dict[str, float] = {}
    for each in contenders:
        start = time.process_time()
        found[each.name] = [each.run(seed) for seed in range(runs)]
        taken[each.name] = (time.process_time() - start) / runs
    for measure in found[contenders[0].name][0]:
        print(f"\n{case}, {measure}", flush=True)
        first = float(np.mean([figures[measure] for figures in found[contenders[0].name]]))
        for name, figures in found.items():
            values = np.array([each[measure] for each in figures])
            mean = float(values.mean())
            ratio = mean / first if first else float("nan")
            print(
                f"  {name:<24}{mean:10.4f}  median {np.median(values):10.4f}  sd "
                f"{values.std():9.4f}  x {ratio:6.2f}  {taken[name]:7.2f} s CPU",
                flush=True,
            )


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


# ------------------------------------------------------------------------------------------ graphs


def graph(runs: int) -> None:
    """Cut queries and degrees: blocks against DER, the grid alone and a uniform graph."""
    for name, data in graphs():
        for epsilon in ("0.2", "1"):
            asked = GraphParameters(epsilon=epsilon, labelling="id")
            grid_only = asked.model_copy(
                update={"block_shares": tuple(map(Fraction, ("1/25", "0", "12/25", "12/25")))}
            )
            contenders = [
                Contender("DER", lambda seed: _graph(data, _der(data, asked, seed))),  # noqa: B023
                Contender(
                    "blocks",
                    lambda seed: _graph(data, _blocks(data, asked, seed)),  # noqa: B023
                ),
                Contender(
                    "blocks, no degrees",
                    lambda seed: _graph(data, _blocks(data, grid_only, seed)),  # noqa: B023
                ),
                Contender(
                    "uniform graph",
                    lambda seed: _graph(data, random_ends(data.count, data.edges, seed)),  # noqa: B023
                ),
            ]
            compare(f"{name}, epsilon {epsilon}", contenders, runs)


def _der(data: EdgeList, asked: GraphParameters, seed: int) -> Ends:
    plan = plan_of(asked, "sound", data.count)
    found = publish(data, plan, "id", 0, SequentialContext(test_seed=seed))
    return found.low, found.high


def _blocks(data: EdgeList, asked: GraphParameters, seed: int) -> Ends:
    plan = block_plan_of(asked, data.count)
    found = publish_blocks(data, plan, "id", 0, SequentialContext(test_seed=seed))
    return found.low, found.high


def _graph(data: EdgeList, found: Ends) -> Figures:
    true = labelled(data, np.argsort(data.vertices, kind="stable").astype(np.int32))
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


# ---------------------------------------------------------------------------------------- spectrum


def spectrum(runs: int) -> None:
    """Eigenvectors, clusters and rankings: flips against range and subspace."""
    for name, data in graphs():
        for epsilon in ("2", "4"):
            contenders = [
                Contender(
                    estimator,
                    lambda seed, estimator=estimator: _spectrum(  # type: ignore[misc]
                        data,  # noqa: B023
                        epsilon,  # noqa: B023
                        estimator,
                        seed,
                    ),
                )
                for estimator in ("range", "subspace", "flip")
            ]
            compare(f"{name}, epsilon {epsilon}, k = 8", contenders, runs)


def _spectrum(data: EdgeList, epsilon: str, estimator: Any, seed: int) -> Figures:
    asked = SpectrumParameters(
        epsilon=epsilon,
        mode="spectral",
        estimator=estimator,
        evaluate={"clusterings": 2, "top": (100,)},  # type: ignore[arg-type]
    )
    found = run_spectrum(data, asked, "sound", SequentialContext(test_seed=seed)).evaluation
    assert found is not None
    return {
        "+ cosine of the first vector": found["ev_cosine"][0],
        "+ share of the subspace": found["subspace_share"],
        "+ NMI of clusters": found["nmi"]["private"],
        "+ overlap of the first 100": found["overlap"][0]["share"],
    }


# ---------------------------------------------------------------------------------------- clusters


def unbalanced(
    heavy: int, many: int, light: int, few: int, dimension: int, seed: int
) -> NDArray[np.float64]:
    """Dense clusters beside light ones, in the unit box."""
    generator = np.random.default_rng(seed)
    middles = generator.uniform(0.08, 0.92, (heavy + light, dimension))
    sizes = [many] * heavy + [few] * light
    points = np.repeat(middles, sizes, axis=0)
    points = points + generator.normal(0, 0.015, points.shape)
    return np.clip(points, 0, 1)


def clusters(runs: int) -> None:
    """Inertia over the best non-private one: two-level against one grid, EUGkM and SU."""
    cases = [(each.name, each.points, each.clusters) for each in datasets(shared_data())[:4]]
    for shape in ((4, 1_500, 6, 80, 2), (2, 4_000, 12, 120, 2), (3, 3_000, 5, 200, 3)):
        name = "{}x{} and {}x{}, d = {}".format(*shape)
        cases.append((name, unbalanced(*shape, seed=1), shape[0] + shape[2]))
    for name, points, k in cases:
        best = best_cost(points, k)
        for epsilon in ("0.1", "0.5", "1"):
            contenders = [
                Contender(
                    start,
                    lambda seed, start=start: {  # type: ignore[misc]
                        "inertia over the best": cost(
                            points,  # noqa: B023
                            _centres(points, k, epsilon, start, seed),  # noqa: B023
                        )
                        / best  # noqa: B023
                    },
                )
                for start in ("grid", "auto")
            ]
            contenders += [
                Contender("EUGkM", lambda seed: _peer(eugkm, points, k, epsilon, best, seed)),  # noqa: B023
                Contender("SU", lambda seed: _steps(points, k, epsilon, best, seed)),  # noqa: B023
            ]
            compare(f"{name}, epsilon {epsilon}", contenders, runs)


def _centres(points: Floats, k: int, epsilon: str, start: Any, seed: int) -> Floats:
    plan = make_plan(
        size=len(points),
        dimension=points.shape[1],
        clusters=k,
        epsilon=Fraction(epsilon),
        start=start,
    )
    grid = Grid((0.0,) * plan.dimension, (1.0,) * plan.dimension, plan.steps)
    state = run_central(Rows(points), grid, plan, seed, SequentialContext(test_seed=seed))
    return grid.raw(release(state).centres)


def _peer(
    method: Callable[..., Floats], points: Floats, k: int, epsilon: str, best: float, seed: int
) -> Figures:
    found = method(points, k, float(epsilon), SeededRandom(seed))
    return {"inertia over the best": cost(points, found) / best}


def _steps(points: Floats, k: int, epsilon: str, best: float, seed: int) -> Figures:
    source = SeededRandom(seed)
    start = drawn_start(points, k, source.generator)
    return {"inertia over the best": cost(points, su(points, start, float(epsilon), source)) / best}


# -------------------------------------------------------------------------------------------- sets


def sets(runs: int) -> None:
    """Mass and items of fare-card-like records: diffpart+rest against DiffPart."""
    for name, population in (
        ("diffuse", stm_like_diffuse(100_000)),
        ("concentrated", stm_like_concentrated(100_000)),
    ):
        data = population.dataset
        contenders = [
            Contender(method, lambda seed, method=method: _sets(data, method, seed))  # type: ignore[misc]  # noqa: B023
            for method in ("diffpart", "diffpart+rest")
        ]
        compare(f"STM-like, {name}, 100,000 records, epsilon 1", contenders, runs)


def _sets(data: Transactions, method: Any, seed: int, epsilon: str = "1") -> Figures:
    asked = SetParameters(epsilon=epsilon, universe=data.items, method=method, fanout=12)
    found = run_sets(data, asked, "sound", SequentialContext(test_seed=seed))
    counted = np.zeros(len(data.items))
    place = {item: number for number, item in enumerate(data.items)}
    lines = found.files[0].content.decode().splitlines()
    skip = lines[0].startswith("kind")
    for line in lines[1:]:
        count, _, items = line.split(",")[skip:]
        for item in items.split():
            counted[place[item]] += int(count)
    true = np.bincount(data.values, minlength=len(data.items))
    return {
        "+ records kept": found.result["records"] / data.records,
        "error of items": relative_errors([true], [counted], data.records).mean[0],
    }


# --------------------------------------------------------------------------------------- sequences


def long_tail(items: int, count: int) -> Sequences:
    """Sequences of four items, some far more common than others."""
    generator = np.random.default_rng(1)
    weights = 1 / np.arange(1, items + 1) ** 0.8
    drawn = generator.choice(items, 4 * count, p=weights / weights.sum()).astype(np.int32)
    names = tuple(str(item) for item in range(1, items + 1))
    return Sequences(names, drawn, np.arange(0, 4 * count + 1, 4))


def sequences(runs: int) -> None:
    """Counts of items: the root's threshold against none."""
    for items, count in ((5_000, 20_000), (500, 20_000)):
        data = long_tail(items, count)
        contenders = [
            Contender(kind, lambda seed, kind=kind: _sequences(data, kind, seed))  # type: ignore[misc]  # noqa: B023
            for kind in ("all", "threshold")
        ]
        compare(f"{items:,} items, {count:,} sequences, epsilon 1", contenders, runs)


def _sequences(data: Sequences, kind: Any, seed: int, epsilon: str = "1") -> Figures:
    items = len(data.universe)
    asked = SequenceParameters(epsilon=epsilon, universe=items, root=kind, max_nodes=50_000_000)
    found = run_sequences(data, asked, "sound", SequentialContext(test_seed=seed))
    counted = np.zeros(items)
    for line in found.files[0].content.decode().splitlines()[1:]:
        count, _, names = line.split(",")
        for name in names.split():
            counted[int(name) - 1] += int(count)
    true = np.bincount(data.items, minlength=items)
    return {
        "error of items": float(np.mean(np.abs(counted - true) / np.maximum(true, 1))),
        "sequences over the true": found.result["sequences"] / data.count,
    }


# ----------------------------------------------------------------------------------------- reports


def reports(runs: int) -> None:
    """Means and histograms of bounded readings: window and subset against Laplace."""
    readings = np.random.default_rng(1).beta(2, 5, 2_000)
    edges = np.linspace(0, 1, 21)
    for epsilon in (1, 2, 5):
        contenders = [
            Contender("Laplace", lambda seed: _laplace(readings, edges, epsilon, seed)),  # noqa: B023
            Contender("window, subset", lambda seed: _bounded(readings, edges, epsilon, seed)),  # noqa: B023
        ]
        compare(f"2,000 readings, 20 buckets, epsilon {epsilon}", contenders, runs)


def _laplace(readings: Floats, edges: Floats, epsilon: float, seed: int) -> Figures:
    noisy = readings + floating_laplace(SeededRandom(seed), 1 / epsilon, readings.size)
    found = deconvolved(noisy, edges, 0, 1, 1 / epsilon, 1)
    return {
        "error of the mean": abs(float(noisy.mean() - readings.mean())),
        "error of shares": histogram_distance(found, shares(readings, edges)),
    }


def _bounded(readings: Floats, edges: Floats, epsilon: float, seed: int) -> Figures:
    source = SeededRandom(seed)
    window = best_window(Fraction(epsilon))
    steps = np.rint(readings * 65_536).astype(np.int64)
    values = window.estimates(*window.reports(window.placed(steps, 65_536, source), source))
    subset = Subset.of(Fraction(epsilon), edges.size - 1)
    places = np.searchsorted(edges[1:-1], readings, side="right")
    held = subset.reports(places, source).sum(axis=0)
    found = on_simplex(subset.shares(held, readings.size))
    return {
        "error of the mean": abs(float((values.mean() + 1) / 2 - readings.mean())),
        "error of shares": histogram_distance(found, shares(readings, edges)),
    }


# ---------------------------------------------------------------------------------------- pictures

EPSILONS: Final = ("0.5", "1", "2", "4", "8")
PICTURED: Final = 3
"""Runs of each point of a picture."""


@dataclass(frozen=True)
class Curves:
    """A picture of error over epsilon: what runs, by method, the source's or today's first."""

    name: str
    title: str
    measure: str
    methods: dict[str, Callable[[str, int], float]]


def pictures() -> Iterator[Curves]:
    """One for each better method."""
    name, data = next(graphs())
    asked = GraphParameters(epsilon="1", labelling="id")
    yield Curves(
        "graph-der",
        f"Edges between ranges of labels, {name}",
        "mean relative error",
        {
            "der (the source)": lambda epsilon, seed: _graph(
                data, _der(data, asked.model_copy(update={"epsilon": Fraction(epsilon)}), seed)
            )["error of range cuts"],
            "blocks": lambda epsilon, seed: _graph(
                data, _blocks(data, asked.model_copy(update={"epsilon": Fraction(epsilon)}), seed)
            )["error of range cuts"],
        },
    )
    groups = communities((80,) * 8, 0.4, 0.02, 1)
    yield Curves(
        "graph-random-matrix",
        "Eight communities of 80 vertices",
        "1 - share of the subspace",
        {
            estimator: lambda epsilon, seed, estimator=estimator: (  # type: ignore[misc]
                1 - _spectrum(groups, epsilon, estimator, seed)["+ share of the subspace"]
            )
            for estimator in ("range", "subspace", "flip")
        },
    )
    points = unbalanced(2, 4_000, 12, 120, 2, 1)
    best = best_cost(points, 14)
    yield Curves(
        "kmeans",
        "Two dense clusters and twelve light ones",
        "inertia over the best",
        {
            start: lambda epsilon, seed, start=start: (  # type: ignore[misc]
                cost(points, _centres(points, 14, epsilon, start, seed)) / best
            )
            for start in ("grid", "two-level")
        },
    )
    records = stm_like_diffuse(50_000).dataset
    yield Curves(
        "set-valued",
        "Counts of single items, fare-card-like records",
        "mean relative error",
        {
            method: lambda epsilon, seed, method=method: _sets(  # type: ignore[misc]
                records, method, seed, epsilon
            )["error of items"]
            for method in ("diffpart", "diffpart+rest")
        },
    )
    readings = np.random.default_rng(1).beta(2, 5, 2_000)
    edges = np.linspace(0, 1, 21)
    yield Curves(
        "crowd-tasking",
        "Shares of 20 buckets, 2,000 readings",
        "half the L1 distance",
        {
            "laplace (the source)": lambda epsilon, seed: _laplace(
                readings, edges, float(epsilon), seed
            )["error of shares"],
            "subset": lambda epsilon, seed: _bounded(readings, edges, float(epsilon), seed)[
                "error of shares"
            ],
        },
    )
    drawn = long_tail(1_000, 8_000)
    yield Curves(
        "sequential-ngram",
        "Counts of single items, 1,000 items and 8,000 sequences",
        "mean relative error",
        {
            kind: lambda epsilon, seed, kind=kind: _sequences(  # type: ignore[misc]
                drawn, kind, seed, epsilon
            )["error of items"]
            for kind in ("all", "threshold")
        },
    )


def draw(folder: Path) -> None:
    """All pictures, as utility-<algorithm>.svg."""
    for curves in pictures():
        lines = {
            label: [
                float(np.mean([run(epsilon, seed) for seed in range(PICTURED)]))
                for epsilon in EPSILONS
            ]
            for label, run in curves.methods.items()
        }

        def fill(axes: Any, curves: Curves = curves, lines: Any = lines) -> None:
            places = [float(each) for each in EPSILONS]
            for colour, (label, values) in zip(COLOURS[::-1][2:], lines.items(), strict=False):
                axes.plot(places, values, "o-", color=colour, markersize=3, label=label)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xticks(places, EPSILONS)
            axes.set_xlabel("epsilon")
            axes.set_ylabel(curves.measure)
            axes.set_title(curves.title)
            axes.grid(which="major", color="#dddddd", linewidth=0.6)
            axes.legend(frameon=False)

        plot = picture(curves.name, "utility", fill, (5.4, 3.4))
        (folder / f"utility-{curves.name}.svg").write_bytes(plot.svg)
        print(curves.name, {label: np.round(each, 4).tolist() for label, each in lines.items()})


SECTIONS: Final = {
    "graph": graph,
    "spectrum": spectrum,
    "clusters": clusters,
    "sets": sets,
    "sequences": sequences,
    "reports": reports,
}


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--pictures", type=Path, help="folder: draw error over epsilon there")
    asked = parser.parse_args()
    if asked.pictures is not None:
        draw(asked.pictures)
        return
    for name in asked.only.split(","):
        print(f"\n== {name}, {asked.runs} runs")
        SECTIONS[name](asked.runs)


if __name__ == "__main__":
    main()
