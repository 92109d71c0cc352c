"""The job: parameters, what a result holds, what the report says, what never gets out."""

from __future__ import annotations

import csv
import io
import itertools
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import BadEpsilon, BadUniverse, SequentialContext, Stance
from algorithms.set_valued import (
    Parameters,
    check,
    preview,
    run,
)
from algorithms.set_valued.algorithm import RESULT
from algorithms.set_valued.settings import BadEta, BadFanout, PartitionCap, RowCap
from simulation.stand_in_data import msnbc_like
from tacit.errors import Invalid
from tacit.records.items import Transactions
from tacit.report.model import PrivacyReport
from tests.algorithms.outcomes import names_drawn, published
from tests.algorithms.set_valued.examples import ITEMS, TABLE_4_1

SAMPLE = msnbc_like(10_000, 17, 1)


def params(**changes: Any) -> Parameters:
    """DiffPart alone; the methods of `rest` have tests of their own."""
    values: dict[str, Any] = {"epsilon": "1", "universe": SAMPLE.universe, "method": "diffpart"}
    return Parameters(**(values | changes))


def context() -> SequentialContext:
    return SequentialContext(bytes(range(32)))


@pytest.mark.parametrize(
    ("changes", "problem", "pointer"),
    [
        ({"epsilon": "20.1"}, BadEpsilon, "epsilon"),
        ({"epsilon": "1/100000000"}, BadEpsilon, "epsilon"),
        ({"fanout": 17}, BadFanout, "fanout"),
        ({"eta": "0"}, BadEta, "eta"),
        ({"eta_leaf": "1"}, BadEta, "eta_leaf"),
        ({"universe": ("a", "b", "a")}, BadUniverse, "universe"),
        ({"universe": None}, BadUniverse, "universe"),
        (
            {"universe": tuple(map(str, range(23))), "method": "basic"},
            BadUniverse,
            "universe",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_is_refused(changes: dict[str, Any], problem: type[Invalid], pointer: str) -> None:
    with pytest.raises(problem) as wrong:
        preview(params(**changes), "sound")
    assert wrong.value.pointer == f"/params/{pointer}"
    assert wrong.value.name == problem.name
    with pytest.raises(problem):
        check(SAMPLE.dataset, params(**changes), "sound")


def test_a_release() -> None:
    told: list[float] = []
    outcome = run(
        SAMPLE.dataset,
        params(),
        "sound",
        SequentialContext(bytes(32), on_progress=lambda share, _stage: told.append(share)),
    )
    assert told == sorted(told)
    assert set(outcome.result) == {"method", "rows", "records", "partitions_split"}
    files = {file.name: file.content.decode() for file in outcome.files}
    assert set(files) == {"release.csv", "release.ndjson", "splits.csv"} <= set(RESULT)
    table = list(csv.reader(io.StringIO(files["release.csv"])))
    assert table[0] == ["count", "length", "items"]
    rows = [(row[2].split(" "), int(row[0])) for row in table[1:]]
    lines = [json.loads(line) for line in files["release.ndjson"].splitlines()]
    assert rows == [(line["items"], line["count"]) for line in lines]
    assert len(rows) == outcome.result["rows"]
    assert sum(count for _, count in rows) == outcome.result["records"]
    assert min(count for _, count in rows) >= 1
    assert rows == sorted(rows, key=lambda row: (len(row[0]), row[0]))
    splits = list(csv.reader(io.StringIO(files["splits.csv"])))[1:]
    assert {Fraction(row[0]) for row in splits} >= {Fraction(1, 6)}
    assert outcome.evaluation is None
    assert names_drawn("set-valued", outcome.plots) == ["counts", "lengths"]


def test_empty_records_and_duplicates_leave_no_trace() -> None:
    """Spec: set-valued, section 8, check 13.

    Published parts are the same; the counts are for the operator.
    """
    small = TABLE_4_1
    records = [[ITEMS[item] for item in small.values[a:b]] for a, b in _bounds(small)]
    padded = [[], *(record + record[:1] for record in records), [], []]
    asked = params(universe=ITEMS, fanout=2, epsilon="5", evaluate=True)
    one = run(small, asked, "sound", context())
    other = run(Transactions.of(padded, ITEMS), asked, "sound", context())
    assert published(one) == published(other)
    assert one.evaluation is not None
    assert other.evaluation is not None
    assert (one.evaluation["empty_records"], one.evaluation["merged_duplicates"]) == (0, 0)
    assert (other.evaluation["empty_records"], other.evaluation["merged_duplicates"]) == (3, 8)
    for private in ("empty", "merged", "duplicates", "real", "false_rows", "covered"):
        assert private not in json.dumps(one.result)


def _bounds(dataset: Transactions) -> list[tuple[int, int]]:
    offsets = dataset.offsets.tolist()
    return list(itertools.pairwise(offsets))


def test_a_histogram() -> None:
    outcome = run(TABLE_4_1, params(universe=ITEMS, method="basic"), "sound", context())
    held = next(file for file in outcome.files if file.name == "histogram.npy")
    noisy = np.load(io.BytesIO(held.content))
    assert noisy.shape == (16,)
    assert noisy.dtype == np.int64
    assert outcome.result["records"] == int(np.maximum(noisy, 0).sum())
    assert "partitions_split" not in outcome.result
    floating = run(
        TABLE_4_1, params(universe=ITEMS, method="basic"), "paper", SequentialContext()
    ).files[-1]
    assert np.load(io.BytesIO(floating.content)).dtype == np.float64


def test_caps_end_the_job() -> None:
    exploding = params(C1=1.0, C2=0.1, max_partitions=20)
    with pytest.raises(PartitionCap, match="in expectation") as wrong:
        run(SAMPLE.dataset, exploding, "paper", SequentialContext())
    assert wrong.value.name == "partition_cap"
    for method in ("diffpart", "basic"):
        with pytest.raises(RowCap):
            run(SAMPLE.dataset, params(max_rows=1, method=method), "sound", context())


def run_report(stance: Stance, **changes: Any) -> PrivacyReport:
    test = SequentialContext() if stance == "paper" else context()
    return run(SAMPLE.dataset, params(**changes), stance, test).report


def test_a_run_adds_only_what_it_publishes() -> None:
    planned, made = preview(params(), "sound"), run_report("sound")
    assert planned.details["expected_false"]["total_rows_bound"] is None
    assert float(made.details["expected_false"]["total_rows_bound"]) >= 0
    assert planned.details["caps_hit"] == made.details["caps_hit"] == "none"
    assert planned.claimed is not None
    assert planned.claimed.epsilon == "1"
    same = {"details": {}}
    assert planned.model_copy(update=same) == made.model_copy(update=same)


def test_a_universe_from_the_data_voids_everything() -> None:
    report = run_report("paper", universe=None, C1=3.0, C2=5.0)
    (line,) = report.verified
    assert (line.model, line.epsilon, line.delta) == ("none", "inf", "1")
    assert any("NO PRIVACY" in caveat for caveat in report.caveats)
