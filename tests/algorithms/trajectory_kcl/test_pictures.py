"""Pictures of the published table show its pairs, and nothing else."""

from __future__ import annotations

import io
import json
from collections import Counter
from fractions import Fraction

from algorithms.contract import SequentialContext
from algorithms.datasets.trajectories import read_ndjson
from algorithms.trajectory_kcl import ALGORITHM
from algorithms.trajectory_kcl.algorithm import (
    MOST_PLACES,
    MOST_TIMES,
    pairs_by_place_and_time,
    plots_of,
)
from algorithms.trajectory_kcl.parameters import PairTable, Parameters, code
from reproduction.trajectory_kcl import SENSITIVE
from tests.algorithms.outcomes import names_drawn
from tests.algorithms.trajectory_kcl.tables import dataset_51


def table_of(paths: list[list[tuple[str, float]]]) -> PairTable:
    text = "".join(json.dumps({"path": path}) + "\n" for path in paths)
    return code(read_ndjson(io.BytesIO(text.encode())), ()).table


def test_the_picture_counts_what_the_file_publishes() -> None:
    params = Parameters(K=2, C=Fraction(1, 2), L=2, sensitive_values=SENSITIVE)
    outcome = ALGORITHM.run(dataset_51(), params, "sound", SequentialContext(test_seed=1))
    [file] = outcome.files
    records = [json.loads(line) for line in file.content.splitlines()]
    told = Counter((place, f"{time:g}") for record in records for place, time in record["path"])
    places, times, counts = pairs_by_place_and_time(
        code(read_ndjson(io.BytesIO(file.content)), SENSITIVE).table
    )
    drawn = {
        (place, time): int(counts[row, column])
        for row, place in enumerate(places)
        for column, time in enumerate(times)
    }
    assert +Counter(drawn) == told
    assert names_drawn("trajectory-kcl", outcome.plots) == ["pairs", "lengths"]


def test_the_fullest_places_are_drawn_and_times_put_together() -> None:
    paths = [[(f"p{place:02}", place + step / 64)] for place in range(40) for step in range(place)]
    places, times, counts = pairs_by_place_and_time(table_of(paths))
    assert places == [f"p{place:02}" for place in range(39, 39 - MOST_PLACES, -1)]
    assert len(times) == MOST_TIMES
    assert counts.shape == (MOST_PLACES, MOST_TIMES)
    assert counts.sum(axis=1).tolist() == list(range(39, 39 - MOST_PLACES, -1))


def test_a_place_is_drawn_as_it_is_called() -> None:
    table = table_of([[("$\\frac{1", 1.0)], [("<b>", 2.0)]])
    assert names_drawn("trajectory-kcl", plots_of(table, table.rows)) == ["pairs", "lengths"]


def test_a_table_without_pairs_has_lengths_alone() -> None:
    table = table_of([[], []])
    assert names_drawn("trajectory-kcl", plots_of(table, table.rows)) == ["lengths"]
