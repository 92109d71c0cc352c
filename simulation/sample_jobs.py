"""A job that runs on each algorithm's samples: parameters, and the command that starts it.

`tacit dataset sample ALGORITHM` writes them beside the samples, and each algorithm's page begins
with that command. Parameters are those of a first try: what a figure means is on the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from simulation.sequential_stand_in import metro
from simulation.set_valued_data import msnbc_like

LINES: Final = tuple(metro(1).dataset.universe)
"""The stations of the trips of the two sequential samples."""
_TRIPS: Final = {"universe": list(LINES), "epsilon": "2"}


@dataclass(frozen=True)
class SampleJob:
    """The sample that it reads, its parameters, and further options of `tacit job run`; those that
    name a file name one of the samples."""

    file_name: str
    params: Mapping[str, Any]
    options: Mapping[str, str]

    def command(self, algorithm: str, folder: Path) -> str:
        """The line for a shell, with samples and parameters in a folder."""
        files = {"--universe"}
        further = [
            f"{option} {folder / value if option in files else value}"
            for option, value in self.options.items()
        ]
        parts = [
            f"tacit job run {algorithm} --dataset {folder / self.file_name}",
            *further,
            f"--params {folder / params_file(algorithm)}",
            f"--out {folder / algorithm}",
        ]
        return " ".join(parts)


def params_file(algorithm: str) -> str:
    """Where its parameters are written."""
    return f"{algorithm}-params.json"


JOBS: Final[Mapping[str, SampleJob]] = {
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
