"""The job: parameters, what a result holds, what the report says, what never gets out."""

from __future__ import annotations

import csv
import io
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from algorithms.contract import BadEpsilon, BadUniverse, SequentialContext, Stance
from algorithms.sequential_prefix_tree import (
    Parameters,
    check,
    preview,
    run,
)
from algorithms.sequential_prefix_tree.algorithm import RESULT
from algorithms.sequential_prefix_tree.evaluation import frequent
from algorithms.sequential_prefix_tree.parameters import (
    BadHeight,
    BadSplit,
    BadTaxonomy,
    BadThreshold,
    DegenerateFanOut,
    TreeTooLarge,
    resolved,
)
from simulation.stand_in_data import metro
from tacit.errors import Invalid
from tacit.records.item_files import read_text_sequences
from tacit.records.items import Sequences
from tacit.records.text_files import MalformedRow, UnknownItem
from tests.algorithms.outcomes import names_drawn, published
from tests.algorithms.sequential_prefix_tree.examples import TABLE_6_1

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
SAMPLE = metro(10_000)
LINES = dict(zip(SAMPLE.dataset.universe, SAMPLE.taxonomy, strict=True))


def params(**changes: Any) -> Parameters:
    values: dict[str, Any] = {
        "epsilon": "1",
        "universe": SAMPLE.dataset.universe,
        "taxonomy": LINES,
    }
    return Parameters(**(values | changes))


def context() -> SequentialContext:
    return SequentialContext(bytes(range(32)))


SIMPLE = {"taxonomy": None}
FEW = {"universe": 4, "taxonomy": None}


@pytest.mark.parametrize(
    ("changes", "problem", "pointer"),
    [
        ({"epsilon": "100.1"}, BadEpsilon, "epsilon"),
        ({"epsilon": "1/100000000"}, BadEpsilon, "epsilon"),
        ({"height": 65}, BadHeight, "height"),
        ({"split": "1"}, BadSplit, "split"),
        ({"theta_item": "-1"}, BadThreshold, "theta_item"),
        ({"theta_group": "1001"}, BadThreshold, "theta_group"),
        ({"universe": 1_000_001, **SIMPLE}, BadUniverse, "universe"),
        ({"universe": ("a", "b", "a")}, BadUniverse, "universe"),
        ({"time_bins": 3}, BadUniverse, "time_bins"),
        ({"taxonomy": {"01": "a"}}, BadTaxonomy, "taxonomy"),
        ({"taxonomy": LINES | {"stranger": "nowhere"}}, BadTaxonomy, "taxonomy"),
        ({"taxonomy": None, "form": "hybrid"}, BadTaxonomy, "taxonomy"),
        ({"fan_out": 5}, BadTaxonomy, "fan_out"),
        ({"taxonomy": None, "fan_out": 0}, BadTaxonomy, "fan_out"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_is_refused(changes: dict[str, Any], problem: type[Invalid], pointer: str) -> None:
    for stance in ("sound", "paper"):
        with pytest.raises(problem) as wrong:
            preview(params(**changes), stance)  # type: ignore[arg-type]
        assert wrong.value.pointer == f"/params/{pointer}"
        assert wrong.value.name == problem.name
    with pytest.raises(problem):
        check(SAMPLE.dataset, params(**changes), "sound")


def test_groups_of_two() -> None:
    """Spec: sequential-prefix-tree, section 8, check 6: nothing would be left for the items."""
    pairs = {"universe": 4, "taxonomy": None, "fan_out": 2}
    with pytest.raises(DegenerateFanOut) as wrong:
        preview(params(**pairs), "paper")
    assert wrong.value.name == "degenerate_fan_out"
    assert preview(params(**pairs, split="1/2"), "paper").details["split"] == "0.5"
    assert preview(params(**pairs), "sound").details["split"] == "0.5"


@pytest.mark.parametrize("stance", ["sound", "paper"])
@pytest.mark.parametrize(("epsilon", "height"), [("1", 1), ("1/3", 7), ("0.7", 12)])
def test_budgets_add_up(stance: Stance, epsilon: str, height: int) -> None:
    for changes in ({}, SIMPLE | {"theta_item": "5"}, {"split": "3/7"}):
        chosen = resolved(params(epsilon=epsilon, height=height, **changes), stance)[1]
        groups = chosen.group_test.rate if chosen.group_test else Fraction(0)
        assert height * (groups + chosen.item_test.rate) == Fraction(epsilon)


def test_the_sources_simple_form_is_refused_where_it_explodes() -> None:
    with pytest.raises(BadThreshold, match=r"2\.01 empty"):
        preview(params(**SIMPLE), "paper")
    preview(params(**FEW), "paper")
    preview(params(**SIMPLE, theta_item="5"), "paper")
    nobody = Sequences.of([str(item) for item in range(1, 945)], [])
    asked = params(universe=944, taxonomy=None, theta_item="2.83")
    with pytest.raises(TreeTooLarge):
        run(nobody, asked, "paper", SequentialContext())


def test_references_have_to_be_replaced_by_their_lists() -> None:
    for changes in ({"universe": {"dataset": ID}}, {"taxonomy": {"dataset": ID}}):
        referring = params(**changes)
        unknown = {"verdict": "unknown: needs the list that is named by reference"}
        assert preview(referring, "sound").error == unknown
        with pytest.raises(Invalid, match="missing"):
            run(SAMPLE.dataset, referring, "sound", context())
        text = referring.model_dump_json()
        assert Parameters.model_validate_json(text) == referring
    replaced = params().model_copy(update={"taxonomy": SAMPLE.taxonomy})
    assert published(run(SAMPLE.dataset, replaced, "sound", context())) == published(
        run(SAMPLE.dataset, params(), "sound", context())
    )


def test_rows_that_do_not_fit() -> None:
    with pytest.raises(UnknownItem) as unknown:
        check(TABLE_6_1, params(**FEW | {"universe": 3}), "sound")
    assert (unknown.value.row, unknown.value.column) == (4, 3)
    timed = params(universe=4, taxonomy=None, time_bins=2)
    fine = Sequences.of("1234", ["13", "", "24", "12", "344"])
    check(fine, timed, "sound")
    with pytest.raises(MalformedRow) as falls:
        run(Sequences.of("1234", ["34", "", "143", "142"]), timed, "sound", context())
    assert (falls.value.row, falls.value.column) == (4, 3)


def test_a_release() -> None:
    told: list[float] = []
    outcome = run(
        SAMPLE.dataset,
        params(expanded=True),
        "sound",
        SequentialContext(bytes(32), on_progress=lambda share, _stage: told.append(share)),
    )
    assert told == sorted(told)
    assert set(outcome.result) == {"form", "nodes", "nodes_by_level", "sequences", "rows"}
    files = {file.name: file.content.decode() for file in outcome.files}
    names = {"synthetic.csv", "synthetic.ndjson", "synthetic.txt", "tree.csv"}
    assert set(files) == names <= set(RESULT)
    table = list(csv.reader(io.StringIO(files["synthetic.csv"])))
    assert table[0] == ["count", "length", "items"]
    rows = [(row[2].split(" "), int(row[0])) for row in table[1:]]
    lines = [json.loads(line) for line in files["synthetic.ndjson"].splitlines()]
    assert rows == [(line["items"], line["count"]) for line in lines]
    assert len(rows) == outcome.result["rows"]
    assert sum(count for _, count in rows) == outcome.result["sequences"]
    assert rows == sorted(rows, key=lambda row: (len(row[0]), row[0]))
    again = read_text_sequences(
        io.BytesIO(files["synthetic.txt"].encode()), SAMPLE.dataset.universe
    )
    assert again.count == outcome.result["sequences"]
    tree = list(csv.DictReader(io.StringIO(files["tree.csv"])))
    assert len(tree) == outcome.result["nodes"] == sum(outcome.result["nodes_by_level"])
    assert all(row["noisy"].isdigit() for row in tree)
    assert outcome.evaluation is None
    assert names_drawn("sequential-prefix-tree", outcome.plots) == ["levels", "consistency"]


def test_a_run_adds_only_the_errors_of_its_file() -> None:
    planned, made = preview(params(), "sound"), run(SAMPLE.dataset, params(), "sound", context())
    assert planned.error is not None
    assert made.report.error is not None
    stated = {**made.report.error, "verdict": planned.error["verdict"]}
    assert planned.error.items() <= stated.items()
    assert planned.details == made.report.details
    table = planned.details["budget_table"]
    assert sum(Fraction(part) for row in table.values() for part in row) == 1
    assert planned.details["mean_group_size"] == "17"


def test_nothing_private_gets_out() -> None:
    """Spec: sequential-prefix-tree, section 2.

    True counts, exact size, empty nodes, shortened records.
    """
    outcome = run(SAMPLE.dataset, params(evaluate={"queries": 10, "top": (5,)}), "sound", context())
    assert outcome.evaluation is not None
    assert outcome.evaluation["sequences"] == 10_000
    shown = json.dumps(outcome.result) + outcome.report.model_dump_json()
    for private in ("empty_nodes", "shortened", "true", "10000", "longest"):
        assert private not in json.dumps(outcome.result)
    assert "10000" not in shown.replace(",", "")
    other = run(SAMPLE.dataset, params(), "sound", context())
    assert (outcome.files, outcome.result) == (other.files, other.result)
    assert outcome.report.evaluation_attached


def nobody() -> Sequences:
    return Sequences.of("1234", [])


def plain_support(lists: list[str], pattern: tuple[int, ...]) -> int:
    def holds(each: str) -> bool:
        rest = iter(each)
        return all(str(item + 1) in rest for item in pattern)

    return sum(holds(each) for each in lists)


def test_frequent_patterns_with_gaps() -> None:
    generator = np.random.default_rng(2)
    lists = [
        "".join(generator.choice(list("1234"), size, p=[0.4, 0.3, 0.2, 0.1]))
        for size in generator.integers(0, 8, 200)
    ]
    data = Sequences.of("1234", lists)
    found = frequent(data, None, 60)
    every = [tuple(int(digit) for digit in np.base_repr(n, 5)) for n in range(6, 5**5)]
    patterns = [tuple(item - 1 for item in each) for each in every if 0 not in each]
    ranked = [(pattern, plain_support(lists, pattern)) for pattern in patterns]
    assert found == sorted(ranked, key=lambda each: (-each[1], len(each[0]), each[0]))[:60]
    distinct = sorted(set(lists))
    weights = np.array([lists.count(each) for each in distinct])
    assert frequent(Sequences.of("1234", distinct), weights, 60) == found
    assert frequent(nobody(), None, 5) == []
