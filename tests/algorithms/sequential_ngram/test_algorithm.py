"""The job: parameters, what a result holds, what the report says, what never gets out."""

from __future__ import annotations

import csv
import io
import json
import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from algorithms.contract import BadEpsilon, BadUniverse, Cancelled, SequentialContext, Stance
from algorithms.sequential_ngram import (
    ALGORITHM,
    Parameters,
    check,
    preview,
    run,
)
from algorithms.sequential_ngram.algorithm import RESULT
from algorithms.sequential_ngram.parameters import expected_pairs
from algorithms.sequential_ngram.settings import BadLength, TooManyPairs, TreeTooLarge
from tacit.errors import DomainError
from tacit.randomness import SeededRandom
from tacit.records.items import Sequences
from tacit.records.text_files import UnknownItem
from tests.algorithms.outcomes import names_drawn, published

ITEMS = tuple("abcdef")


@lru_cache(maxsize=1)
def sample() -> Sequences:
    generator = np.random.default_rng(3)
    lists = []
    for size in generator.geometric(0.2, 6000):
        steps = generator.integers(0, 2, size) * generator.integers(0, 2, size)
        lists.append([ITEMS[place % 6] for place in generator.integers(0, 3) + np.cumsum(steps)])
    return Sequences.of(ITEMS, lists)


def params(**changes: Any) -> Parameters:
    values: dict[str, Any] = {"epsilon": "1", "universe": ITEMS, "l_max": 10, "n_max": 4}
    return Parameters(**(values | changes))


def context(stance: Stance = "sound") -> SequentialContext:
    return SequentialContext(bytes(range(32)))


def test_a_pattern_that_nobody_has_is_not_said_to_be_beyond_noise() -> None:
    """In at most 5 of 100 releases one may be: more than 14 have a chance below 0.0002."""
    universe = tuple(str(item) for item in range(400))
    lists = [[str(item % 4)] for item in range(8000)] + [["5", "6"]] * 2000
    data = Sequences.of(universe, lists)
    asked = Parameters(epsilon="1", universe=universe, l_max=4, n_max=3)
    evidence: dict[str, int] = {}
    wrong = 0
    for seed in range(100):
        patterns = run(data, asked, "sound", SequentialContext(bytes([seed] * 32))).result[
            "patterns"
        ]
        assert patterns[0]["items"] == ["5", "6"]
        assert patterns[0]["evidence"] == "beyond noise"
        for row in patterns[1:]:
            evidence[row["evidence"]] = evidence.get(row["evidence"], 0) + 1
        wrong += any(row["evidence"] == "beyond noise" for row in patterns[1:])
    assert wrong <= 14
    assert evidence["may be noise"] > 100  # there were some to be wrong about


@pytest.mark.parametrize(
    ("changes", "problem", "pointer"),
    [
        ({"epsilon": "100.1"}, BadEpsilon, "epsilon"),
        ({"epsilon": "1/100000000"}, BadEpsilon, "epsilon"),
        ({"l_max": 1001}, BadLength, "l_max"),
        ({"n_max": 11, "l_max": 20}, BadLength, "n_max"),
        ({"n_max": 4, "l_max": 3}, BadLength, "n_max"),
        ({"l_max": "auto", "length_cap": 1001}, BadLength, "length_cap"),
        ({"l_max": "auto", "epsilon_length": "1"}, BadEpsilon, "epsilon_length"),
        ({"universe": 10**6 + 1}, BadUniverse, "universe"),
        ({"universe": ("a", "b", "a")}, BadUniverse, "universe"),
        ({"max_nodes": 6}, TreeTooLarge, "max_nodes"),
        (
            {"universe": 10**6, "epsilon": "1/1000", "root": "all"},
            TooManyPairs,
            "max_nodes",
        ),
        (
            {"universe": 3_000, "epsilon": "1/1000", "max_nodes": 9_000, "root": "all"},
            TooManyPairs,
            "max_nodes",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_is_refused(changes: dict[str, Any], problem: type[DomainError], pointer: str) -> None:
    with pytest.raises(problem) as wrong:
        preview(params(**changes), "sound")
    assert wrong.value.pointer == f"/params/{pointer}"
    with pytest.raises(problem):
        check(sample(), params(**changes), "sound")


def test_an_unknown_item_is_refused() -> None:
    with pytest.raises(UnknownItem):
        check(sample(), params(universe=ITEMS[:2]), "sound")


def test_a_release() -> None:
    told: list[float] = []
    outcome = run(
        sample(),
        params(top_k=7),
        "sound",
        SequentialContext(bytes(32), on_progress=lambda share, _stage: told.append(share)),
    )
    assert min(told) >= 0
    assert max(told) <= 1
    files = {file.name: file.content.decode() for file in outcome.files}
    assert set(files) | set(outcome.result) == set(RESULT)
    table = list(csv.DictReader(io.StringIO(files["synthetic.csv"])))
    rows = [(row["items"].split(" "), int(row["count"])) for row in table]
    lines = [json.loads(line) for line in files["synthetic.ndjson"].splitlines()]
    assert rows == [(line["items"], line["count"]) for line in lines]
    assert rows == sorted(rows, key=lambda row: (len(row[0]), row[0]))
    assert len(rows) == outcome.result["rows"]
    assert sum(count for _, count in rows) == outcome.result["sequences"]
    grams = list(csv.DictReader(io.StringIO(files["grams.csv"])))
    kinds = [row["kind"] for row in grams]
    assert set(kinds) == {"released", "estimated", "extended"}
    assert len(grams) == outcome.result["grams"] + outcome.result["extended_grams"]
    assert kinds.count("extended") == outcome.result["extended_grams"]
    assert {int(row["length"]) for row in grams if row["kind"] == "extended"} <= set(range(5, 11))
    counts = {row["items"]: int(row["count"]) for row in grams}
    patterns = list(csv.DictReader(io.StringIO(files["patterns.csv"])))
    assert len(patterns) == 7
    assert all(counts[row["items"]] == int(row["count"]) for row in patterns)
    assert {row["evidence"] for row in patterns} == {"beyond noise"}
    assert outcome.evaluation is None
    assert names_drawn("sequential-ngram", outcome.plots) == ["grams", "lengths"]
    assert Fraction(outcome.report.details["max_path_spend"]) <= 1
    assert outcome.report.details["draws"] > 6
    assert preview(params(evaluate=True), "sound").evaluation_attached
    assert ALGORITHM.federated == {"rounds": "stance sound"}


def test_what_is_cut_off_and_empty_sequences_leave_no_trace() -> None:
    """What is published is the same; true counts are for the operator alone."""
    data = sample()
    lists = [
        [ITEMS[place] for place in data.items[low:high].tolist()]
        for low, high in zip(data.starts[:-1].tolist(), data.starts[1:].tolist(), strict=True)
    ]
    padded = [[], *(each + ["f"] * 3 if len(each) >= 10 else each for each in lists), []]
    asked = params(evaluate={"queries": 20})
    one = run(data, asked, "sound", context())
    other = run(Sequences.of(ITEMS, padded), asked, "sound", context())
    assert published(one) == published(other)
    assert one.evaluation is not None
    assert other.evaluation is not None
    assert other.evaluation["sequences"] == one.evaluation["sequences"] + 2
    text = json.dumps(one.result) + one.report.model_dump_json() + str(one.files)
    for private in ("sequences", "items", "shortened"):
        assert not re.search(rf"\b{one.evaluation[private]}\b", text)
    assert "shortened" not in text


def test_l_max_from_the_lengths() -> None:
    asked = params(l_max="auto", epsilon="50")
    outcome = run(sample(), asked, "sound", context())
    lengths = np.diff(sample().starts)
    assert 12 <= outcome.result["l_max"] <= 16
    assert (lengths <= outcome.result["l_max"]).mean() > 0.93
    assert outcome.report.details["epsilon_length"] == "10/3"
    assert outcome.result["sequences"] == pytest.approx(len(lengths), rel=0.02)
    assert outcome.report.charged is not None
    assert outcome.report.charged.epsilon == "50"


def test_a_tree_that_is_too_large() -> None:
    with pytest.raises(TreeTooLarge) as wrong:
        run(sample(), params(max_nodes=40), "sound", context())
    assert wrong.value.name == "tree_too_large"


@pytest.mark.parametrize(("items", "scale"), [(2_000, 100), (300, 1_000)])
def test_pairs_of_noise_are_as_many_as_forecast(items: int, scale: int) -> None:
    """Within 10 %, the mean of 40 draws of a fixed seed: its own deviation is below 2 %."""
    generator = SeededRandom(1).generator
    found = []
    for _ in range(40):
        counts = np.floor(np.maximum(generator.laplace(0, scale, items), 0))
        products = np.multiply.outer(counts, counts)
        found.append(np.count_nonzero(products >= counts.sum()))
    assert float(np.mean(found)) == pytest.approx(expected_pairs(items, Fraction(scale)), rel=0.1)


def test_cancelling() -> None:
    def stop(share: float, _stage: str) -> None:
        if share > 0.6:
            raise Cancelled

    with pytest.raises(Cancelled):
        run(sample(), params(), "sound", SequentialContext(bytes(32), on_progress=stop))
