"""Small sample datasets, one function per algorithm: `tacit dataset sample ALGORITHM`.

And a job that runs on each of them: parameters, and the command that starts it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np

from algorithms.catalogue import NAMES
from algorithms.contract import Sample, SampleJob, own_sample
from simulation.stand_in_data import metro, msnbc_like
from tacit.randomness import SeededRandom

SEED: Final = 1


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    lines = [",".join(columns), *(",".join(str(cell) for cell in row) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


def _lines(rows: Iterable[str]) -> bytes:
    return "".join(row + "\n" for row in rows).encode()


def kmeans() -> list[Sample]:
    """Iris."""
    from sklearn.datasets import load_iris

    iris = load_iris()
    columns = ["sepal_length", "sepal_width", "petal_length", "petal_width", "species", "owner"]
    names = [str(name) for name in iris.target_names]
    rows = [
        [*values, names[target], number % 50 + 1]
        for number, (values, target) in enumerate(
            zip(iris.data.tolist(), iris.target.tolist(), strict=True)
        )
    ]
    plain = [row[:5] for row in rows]
    return [
        Sample(
            "iris.csv",
            "numeric-table",
            "csv",
            _csv(columns[:5], plain),
            "150 flowers in cm; role label: species; bounds 0..10, n_hint 150",
        ),
        Sample(
            "iris-owners.csv",
            "numeric-table",
            "csv",
            _csv(columns, rows),
            "the same over 50 owners; role curator: owner",
        ),
    ]


def dpbv_clustering() -> list[Sample]:
    """Two moons."""
    from sklearn.datasets import make_moons

    points, moons = make_moons(400, noise=0.06, random_state=SEED)
    rows = [
        [f"{x:.6f}", f"{y:.6f}", moon]
        for (x, y), moon in zip(points.tolist(), moons.tolist(), strict=True)
    ]
    return [
        Sample(
            "two-moons.csv",
            "numeric-table",
            "csv",
            _csv(["x", "y", "moon"], rows),
            "400 points; role label: moon; bounds -1.5..2.5 and -1..1.5",
        )
    ]


def crowd_tasking() -> list[Sample]:
    """Heart rates."""
    from simulation.stand_in_data import heart_series

    series = heart_series(20, 600, SeededRandom(SEED))
    rows = zip(
        series.users.tolist(),
        series.rounds.tolist(),
        (f"{value:.2f}" for value in series.values[:, 0].tolist()),
        strict=True,
    )
    return [
        Sample(
            "heart-rate.csv",
            "user-series",
            "csv",
            _csv(["user", "round", "x1"], rows),
            "generated: 20 users, 600 rounds, beats a minute, declared 50..150",
        )
    ]


def path_publishing() -> list[Sample]:
    """Six vertices."""
    missing = {(1, 3), (1, 4), (1, 5)}
    edges = [list(pair) for pair in combinations(range(1, 7), 2) if pair not in missing]
    content = {"vertices": list(range(1, 7)), "edges": edges, "path": list(range(1, 7))}
    return [
        Sample(
            "six-vertices.json",
            "network-path",
            "json",
            json.dumps(content).encode() + b"\n",
            "a map of 6 places and 12 roads, and a path through all",
        )
    ]


def set_valued() -> list[Sample]:
    """Table 4.1, and records like those of MSNBC."""
    from simulation.stand_in_data import msnbc_like

    table = ["I1 I2 I3 I4", "I2 I4", "I2", "I1 I2", "I2", "I1", "I1 I2 I3 I4", "I2 I3 I4"]
    generated = msnbc_like(10_000).dataset
    items, values = generated.items, generated.values.tolist()
    starts = generated.offsets.tolist()
    records = (
        " ".join(items[place] for place in values[start:end]) for start, end in pairwise(starts)
    )
    return [
        Sample(
            "table-4.1.txt",
            "transactions",
            "text",
            _lines(table),
            "8 records over the items I1 I2 I3 I4",
        ),
        Sample(
            "msnbc-like.txt",
            "transactions",
            "text",
            _lines(records),
            "generated: 10,000 records over 17 items",
        ),
        Sample(
            "msnbc-like-items.txt",
            "universe",
            "text",
            _lines(items),
            "the 17 items of msnbc-like.txt",
        ),
    ]


def trajectory_kcl() -> list[Sample]:
    """Table 5.1."""
    table = {
        "a1 d2 b3 e4 f6 e8": "HIV",
        "d2 c5 f6 c7 e9": "Fever",
        "b3 c7 e8": "Hepatitis",
        "b3 e4 f6 e8": "Flu",
        "a1 d2 c5 f6 c7": "HIV",
        "c5 f6 e9": "Hepatitis",
        "f6 c7 e8": "Fever",
        "a1 d2 f6 c7 e9": "Flu",
    }
    records = (
        {
            "path": [[pair[0], int(pair[1:])] for pair in path.split()],
            "sensitive": {"disease": disease},
        }
        for path, disease in table.items()
    )
    return [
        Sample(
            "table-5.1.ndjson",
            "trajectories",
            "ndjson",
            _lines(json.dumps(record) for record in records),
            "8 records; sensitive: disease",
        )
    ]


def sequential_prefix_tree() -> list[Sample]:
    """Table 6.1, trips, and trips with times."""
    rows = "L1L2L3 L1L2 L3L2L1 L1L2L4 L1L2L3 L3L2 L1L2L4L1 L3L1"
    return [
        _sequences("table-6.1.txt", rows, "8 sequences over L1 L2 L3 L4"),
        _trips("trips", 1),
        _commutes(),
    ]


def sequential_ngram() -> list[Sample]:
    """Table 6.2, and trips."""
    rows = "L2L3L1 L2L3 L3L2 L3L2L1 L2L3L1 L2L3L1L2L3 L3L2 L3L1L2L3"
    return [_sequences("table-6.2.txt", rows, "8 sequences over L1 L2 L3"), _trips("journeys", 2)]


def _trips(name: str, seed: int) -> Sample:
    """Other ones for each algorithm: one content has one budget."""
    from simulation.stand_in_data import metro

    metro_made = metro(5_000, seed).dataset
    names, places = metro_made.universe, metro_made.items.tolist()
    rows = (
        " ".join(names[place] for place in places[start:end])
        for start, end in pairwise(metro_made.starts.tolist())
    )
    about = "generated: 5,000 trips over 68 stations"
    return Sample(f"{name}.txt", "sequences", "text", _lines(rows), about)


def _commutes() -> Sample:
    """A place in the morning, one an hour later, and in two of three cases back in the evening."""
    generator = np.random.default_rng(3)
    homes, works = generator.integers(1, 6, 5_000), generator.integers(5, 9, 5_000)
    mornings = generator.normal(7.5 * 3_600, 2_400, 5_000).clip(0, 12 * 3_600).astype(int)
    evenings = generator.normal(17.5 * 3_600, 3_600, 5_000).clip(14 * 3_600, 86_399).astype(int)
    rides = generator.integers(600, 5_400, 5_000)
    rows = [
        f"{home}@{start} {work}@{start + ride}" + f" {home}@{end}" * (number % 3 > 0)
        for number, (home, work, start, ride, end) in enumerate(
            zip(homes, works, mornings, rides, evenings, strict=True)
        )
    ]
    about = "generated: 5,000 trips over 8 places, PLACE@SECOND of a day"
    return Sample("commutes.txt", "sequences", "text", _lines(rows), about)


def _sequences(file_name: str, rows: str, description: str) -> Sample:
    lines = (row.replace("L", " L").strip() for row in rows.split())
    return Sample(file_name, "sequences", "text", _lines(lines), description)


def graph_der() -> list[Sample]:
    """The worked graph G8, and a stand-in for a network of stations."""
    pairs = "1-6 1-7 1-8 2-6 2-7 2-8 3-6 3-7 3-4 4-5".replace("-", " ").split(" ")
    worked = [f"{one} {other}" for one, other in zip(pairs[::2], pairs[1::2], strict=True)]
    generator = np.random.default_rng(7)
    places = generator.normal(size=(1012, 2))
    weights = generator.lognormal(0, 1, 1012)
    first, second = np.triu_indices(1012, 1)
    square = ((places[first] - places[second]) ** 2).sum(axis=1)
    score = weights[first] * weights[second] / (0.02 + square)
    best = np.sort(np.argsort(-score, kind="stable")[:7860])
    edges = zip(first[best].tolist(), second[best].tolist(), strict=True)
    return [
        Sample("g8.txt", "edge-list", "snap", _lines(worked), "8 vertices, 10 edges"),
        Sample(
            "stations.txt",
            "edge-list",
            "snap",
            _lines(f"{one} {other}" for one, other in edges),
            "generated: at most 1,012 vertices, 7,860 edges",
        ),
        Sample(
            "stations-vertices.txt",
            "universe",
            "text",
            _lines(map(str, range(1012))),
            "the 1,012 vertices of stations.txt",
        ),
    ]


def graph_random_matrix() -> list[Sample]:
    """A stochastic block model."""
    generator = np.random.default_rng(SEED)
    first, second = np.triu_indices(1000, 1)
    chance = np.where(first // 250 == second // 250, 0.05, 0.005)
    there = generator.random(first.size) < chance
    edges = zip(first[there].tolist(), second[there].tolist(), strict=True)
    return [
        Sample(
            "four-blocks.txt",
            "edge-list",
            "snap",
            _lines(f"{one} {other}" for one, other in edges),
            "generated: 4 blocks of 250 vertices, 0.05 inside, 0.005 between",
        )
    ]


def privacy_check() -> list[Sample]:
    """Table 2.1 and its three releases."""
    diseases = ["Hepatitis", "Hepatitis", "HIV", "Flu", "HIV", "HIV", "HIV"]
    people = [
        ("Engineer", "Male", "35"),
        ("Engineer", "Male", "38"),
        ("Lawyer", "Male", "38"),
        ("Writer", "Female", "30"),
        ("Writer", "Female", "30"),
        ("Dancer", "Female", "30"),
        ("Dancer", "Female", "30"),
    ]
    tables = {
        "table-2.1": (people, "the raw table"),
        "table-2.2": (
            [("Professional", "Male", "[35-40)")] * 3 + [("Artist", "Female", "[30-35)")] * 4,
            "generalised",
        ),
        "table-2.3": ([("*", "Male", "*")] * 3 + people[3:], "suppressed"),
    }
    columns = ["job", "sex", "age", "disease"]
    samples = [
        Sample(
            f"{name}.csv",
            "table",
            "csv",
            _csv(columns, [(*row, ill) for row, ill in zip(rows, diseases, strict=True)]),
            description,
        )
        for name, (rows, description) in tables.items()
    ]
    buckets = [
        (*row, 1 if number < 3 else 2, ill)
        for number, (row, ill) in enumerate(
            zip(
                people,
                ["HIV", "Hepatitis", "Hepatitis", "HIV", "Flu", "HIV", "HIV"],
                strict=True,
            )
        )
    ]
    bucketed = _csv([*columns[:3], "bucket", "disease"], buckets)
    samples.append(Sample("table-2.4.csv", "table", "csv", bucketed, "in buckets"))
    return samples


_MADE_HERE: Final[Mapping[str, Callable[[], list[Sample]]]] = {
    "kmeans": kmeans,
    "dpbv-clustering": dpbv_clustering,
    "crowd-tasking": crowd_tasking,
    "path-publishing": path_publishing,
    "set-valued": set_valued,
    "trajectory-kcl": trajectory_kcl,
    "sequential-prefix-tree": sequential_prefix_tree,
    "sequential-ngram": sequential_ngram,
    "graph-der": graph_der,
    "graph-random-matrix": graph_random_matrix,
    "privacy-check": privacy_check,
}


# `tacit dataset sample ALGORITHM` writes them beside the samples, and each algorithm's page begins
# with that command. Parameters are those of a first try: what a figure means is on the page.

LINES: Final = tuple(metro(1).dataset.universe)
"""The stations of the trips of the two sequential samples."""
_TRIPS: Final = {"universe": list(LINES), "epsilon": "2"}


_JOBS_HERE: Final[Mapping[str, SampleJob]] = {
    "kmeans": SampleJob(
        "iris.csv",
        {"k": 3, "epsilon": "2", "bounds": [[0, 10]] * 4, "n_hint": 150},
        {"--label": "species"},
    ),
    "dpbv-clustering": SampleJob(
        "two-moons.csv",
        {"epsilon": "2", "bounds": [[-1.5, 2.5], [-1, 1.5]], "k": 2},
        {"--label": "moon"},
    ),
    "crowd-tasking": SampleJob(
        "heart-rate.csv",
        {
            "aggregate": "AVG",
            "sensor": {
                "name": "heart rate",
                "unit": "1/min",
                "coordinates": [{"name": "rate", "lower": 50, "upper": 150}],
            },
            "n": 20,
            "T": 600,
            "epsilon": "2",
        },
        {},
    ),
    "set-valued": SampleJob(
        "msnbc-like.txt",
        {"epsilon": "1", "universe": list(msnbc_like(1).dataset.items)},
        {},
    ),
    "sequential-prefix-tree": SampleJob("trips.txt", _TRIPS, {}),
    "sequential-ngram": SampleJob("journeys.txt", _TRIPS, {}),
    "trajectory-kcl": SampleJob(
        "table-5.1.ndjson",
        {
            "K": 2,
            "C": "1/2",
            "L": 2,
            "sensitive_values": [["disease", "HIV"], ["disease", "Hepatitis"]],
        },
        {},
    ),
    "graph-der": SampleJob(
        "stations.txt",
        {"epsilon": "1"},
        {"--format": "snap", "--universe": "stations-vertices.txt"},
    ),
    "graph-random-matrix": SampleJob(
        "four-blocks.txt",
        {"mode": "spectral", "epsilon": "4", "k": 4},
        {"--format": "snap"},
    ),
    "privacy-check": SampleJob(
        "table-2.2.csv",
        {
            "qid": ["job", "sex", "age"],
            "sensitive": ["disease"],
            "models": [
                {"model": "k-anonymity", "k": 3},
                {"model": "entropy-l-diversity", "l": "1.8"},
                {"model": "t-closeness"},
            ],
        },
        {},
    ),
    "path-publishing": SampleJob("six-vertices.json", {"epsilon_dir": "5"}, {}),
}

SAMPLES: Final[Mapping[str, Callable[[], list[Sample]]]] = {
    name: _MADE_HERE[name] if name in _MADE_HERE else own_sample(name)[0] for name in NAMES
}
"""How the samples of each algorithm are made: here, or in its package."""
JOBS: Final[Mapping[str, SampleJob]] = {
    name: _JOBS_HERE[name] if name in _JOBS_HERE else own_sample(name)[1] for name in NAMES
}
"""The job on them."""
