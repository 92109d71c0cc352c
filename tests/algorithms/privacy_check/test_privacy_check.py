"""Partition models of tables: the sources' worked examples, distances, limits."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from algorithms.contract import SequentialContext, ValueUnknown
from algorithms.datasets.tables import Table, Texts
from algorithms.privacy_check import ALGORITHM
from algorithms.privacy_check.parameters import (
    BadDistance,
    EmptyTable,
    Parameters,
    QidSensitiveOverlap,
    UnknownColumn,
    closeness,
    counted,
    grouped,
    ordered,
    transport,
)
from reproduction.privacy_check_data import (
    FAMILIES,
    TABLE_21,
    TABLE_22,
    TABLE_23,
    TABLE_24,
    similar,
    table_of,
)
from tacit.report.text import plain_words
from tests.property_examples import examples

JSQ = '"qid": ["Job", "Sex", "Age"], "sensitive": ["Disease"]'


def answer(table: Table, text: str) -> list[dict[str, Any]]:
    params = Parameters.model_validate_json("{" + text + "}")
    outcome = ALGORITHM.run(table, params, "sound", SequentialContext())
    assert outcome.evaluation is not None
    found: list[dict[str, Any]] = outcome.evaluation["findings"]
    return found


def values(table: Table, text: str = JSQ) -> dict[str, Any]:
    return {each["model"]: each.get("value") for each in answer(table, text)} | {
        "dm": answer(table, text)[-1]["discernibility"]
    }


@pytest.mark.parametrize(
    ("table", "qid", "expected"),
    [
        (TABLE_21, JSQ, (1, 1, 1, "inf", 0.7143, 11)),
        (TABLE_22, JSQ, (3, 2, 1.7548, 3, 0.3810, 25)),
        (TABLE_23, JSQ, (2, 1, 1, "inf", 0.4286, 17)),
        (TABLE_24, '"qid": ["BID"], "sensitive": ["Disease"]', (3, 2, 1.7548, 3, 0.3810, 25)),
    ],
    ids=["2.1", "2.2", "2.3", "2.4"],
)
def test_the_four_tables(table: Table, qid: str, expected: tuple[Any, ...]) -> None:
    found = values(table, qid)
    names = ("k-anonymity", "distinct-l-diversity", "entropy-l-diversity")
    names += ("recursive-cl-diversity", "t-closeness", "dm")  # type: ignore[assignment]
    for name, value in zip(names, expected, strict=True):
        assert found[name] == (pytest.approx(value, abs=5e-5) if value != "inf" else "inf"), name


@pytest.mark.parametrize(
    ("table", "share"), [(TABLE_21, 1), (TABLE_22, 0.75), (TABLE_23, 1)], ids=["2.1", "2.2", "2.3"]
)
def test_the_template_on_hiv(table: Table, share: float) -> None:
    (found,) = answer(
        table,
        JSQ + ', "models": [{"model": "confidence-bounding"}], "templates": '
        '[{"qid": ["Job", "Sex", "Age"], "value": "HIV", "h": "0.1"}]',
    )
    assert found["value"] == pytest.approx(share)
    assert not found["satisfied"]
    if table is TABLE_22:
        assert found["worst_group"]["cells"]["Job"] == "Artist"
    if table is TABLE_23:
        assert found["worst_group"]["cells"]["Job"] == "Dancer"


def test_thresholds_and_violating_groups() -> None:
    models = (
        '{"model": "k-anonymity", "k": 3}, {"model": "distinct-l-diversity", "l": 3}, '
        '{"model": "entropy-l-diversity", "l": "1.8"}, '
        '{"model": "recursive-cl-diversity", "l": 2, "c": "3"}, '
        '{"model": "alpha-k-anonymity", "alpha": "3/4", "k": 3, "values": ["HIV"]}, '
        '{"model": "t-closeness", "t": "0.3"}'
    )
    found = answer(TABLE_22, JSQ + f', "models": [{models}]')
    assert [each["satisfied"] for each in found] == [True, False, False, False, True, False]
    assert [each["violating_groups"] for each in found] == [0, 2, 1, 1, 0, 1]
    assert found[2]["violating"][0]["cells"]["Job"] == "Artist"
    (strict,) = answer(
        TABLE_22, JSQ + ', "models": [{"model": "alpha-k-anonymity", "alpha": "0.74", "k": 3}]'
    )
    assert (strict["satisfied"], strict["k"]) == (False, 3)


@pytest.mark.parametrize("kind", ["tree", "matrix"])
@pytest.mark.parametrize(
    ("within", "first", "second"),
    [
        (0.25, (0.4444, 0.2778, 0.2778), (0.2222, 0.2778, 0.1667)),
        (1.0, (0.4444, 0.4444, 0.4444), (0.5556, 0.4444, 0.3333)),
    ],
)
def test_table_2_4_of_lu(
    kind: str, within: float, first: tuple[float, ...], second: tuple[float, ...]
) -> None:
    for blocks, expected in (("a", first), ("b", second)):
        table, distance = similar(blocks), FAMILIES[kind](within)
        column = table.column("Disease")
        counts = counted(grouped([table.column("block")], table.rows), column)
        found = closeness(counts, column, distance)
        assert found.tolist() == pytest.approx(expected, abs=5e-5)


shares = st.lists(st.integers(0, 20), min_size=2, max_size=6).filter(sum)


@examples(200)
@given(shares, shares)
def test_the_programme_is_total_variation_and_cumulative_differences(
    one: list[int], other: list[int]
) -> None:
    size = min(len(one), len(other))
    first, second = np.array(one[:size], float) + 1e-3, np.array(other[:size], float) + 1e-3
    first, second = first / first.sum(), second / second.sum()
    same = 1 - np.eye(size)
    variation = np.abs(first - second).sum() / 2
    assert transport(first, second, same) == pytest.approx(variation, abs=1e-9)
    places = np.arange(size)
    apart = np.abs(places[:, None] - places) / (size - 1)
    (row,) = ordered(first[None, :], second)
    assert transport(first, second, apart) == pytest.approx(row, abs=1e-9)


def random_table(seed: int, rows: int = 60) -> Table:
    draw = np.random.default_rng(seed)
    cells = draw.integers(0, 4, (rows, 2))
    sensitive = draw.integers(0, 5, rows)
    return Table(
        ("a", "b", "s"),
        (Texts.of(cells[:, 0]), Texts.of(f"v{each}" for each in cells[:, 1]), Texts.of(sensitive)),
    )


def test_groups_by_brute_force() -> None:
    table = random_table(3)
    groups = grouped([table.column("a"), table.column("b")], table.rows)
    rows = list(zip(table.column("a").tolist(), table.column("b").tolist(), strict=True))
    names: dict[object, int] = {}
    for row, group in zip(rows, groups.of.tolist(), strict=True):
        assert names.setdefault(row, group) == group
    assert sorted(groups.sizes.tolist()) == sorted(rows.count(each) for each in set(rows))


def test_many_columns_do_not_overflow() -> None:
    draw = np.random.default_rng(1)
    wide = [Texts.of(draw.permutation(np.arange(3000) // 2)) for _ in range(8)]
    groups = grouped(wide, 3000)
    rows = set(zip(*(each.codes.tolist() for each in wide), strict=True))
    assert len(groups.sizes) == len(rows)


def test_ordered_numbers_and_texts() -> None:
    table = table_of(("g", "s"), [("x", "low"), ("x", "high"), ("y", "mid"), ("y", "mid")])
    text = '"qid": ["g"], "sensitive": ["s"], "models": [{"model": "t-closeness"}]'
    (found,) = answer(
        table,
        text + ', "ground_distance": {"s": {"kind": "ordered", "order": ["low", "mid", "high"]}}',
    )
    assert found["value"] == pytest.approx(0.25)
    with pytest.raises(BadDistance):
        answer(table, text + ', "ground_distance": {"s": {"kind": "ordered"}}')
    numbers = Table(("g", "s"), (Texts.of("0011"), Texts.of(["1.5", "9", "4", "4.0"])))
    (found,) = answer(numbers, text + ', "ground_distance": {"s": {"kind": "ordered"}}')
    assert found["value"] == pytest.approx(0.25)


def test_utility_metrics() -> None:
    (found,) = answer(
        TABLE_23,
        JSQ + ', "models": [{"model": "utility"}], "label": "Disease", "leaves": {"Job": '
        '{"domain": 4, "under": {"Professional": 2}}}',
    )
    assert found["cells"] == 21
    assert found["suppressed_cells"] == 6
    assert found["iloss"] == {"Job": pytest.approx(9 / 4)}
    assert found["classification_metric"] == pytest.approx(2 / 7)
    (found,) = answer(
        TABLE_22,
        JSQ + ', "models": [{"model": "utility"}], "leaves": {"Job": '
        '{"domain": 4, "under": {"Professional": 2, "Artist": 2}}}',
    )
    assert (found["generalised_cells"], found["suppressed_cells"]) == (7, 0)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('"qid": ["Town"], "sensitive": ["Disease"]', UnknownColumn),
        ('"qid": ["Job"], "sensitive": ["Illness"]', UnknownColumn),
        ('"qid": ["Job"], "sensitive": ["Disease"], "label": "x"', UnknownColumn),
        ('"qid": ["Job", "Disease"], "sensitive": ["Disease"]', QidSensitiveOverlap),
        (
            JSQ + ', "models": [{"model": "confidence-bounding"}], "templates": '
            '[{"qid": ["Job"], "value": "Cold", "h": "0.1"}]',
            ValueUnknown,
        ),
        (
            JSQ + ', "ground_distance": {"Disease": {"kind": "matrix", "values": ["HIV"], '
            '"distances": [[0]]}}',
            BadDistance,
        ),
        (
            JSQ + ', "ground_distance": {"Disease": {"kind": "tree", "edges": [["HIV", "r", 1]]}}',
            BadDistance,
        ),
    ],
    ids=range(7),
)
def test_what_does_not_fit_the_table(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        answer(TABLE_21, text)


@pytest.mark.parametrize(
    "distance",
    [
        '{"kind": "matrix", "values": ["a", "b"], "distances": [[0, 1], [2, 0]]}',
        '{"kind": "matrix", "values": ["a", "b"], "distances": [[0, -1], [-1, 0]]}',
        '{"kind": "matrix", "values": ["a", "b"], "distances": [[1, 1], [1, 0]]}',
        '{"kind": "matrix", "values": ["a", "a"], "distances": [[0, 1], [1, 0]]}',
        '{"kind": "tree", "edges": [["a", "r", -1]]}',
        '{"kind": "tree", "edges": [["a", "b", 1], ["b", "a", 1]]}',
        '{"kind": "tree", "edges": [["a", "r", 1], ["a", "q", 1]]}',
    ],
)
def test_bad_distances(distance: str) -> None:
    with pytest.raises(BadDistance):
        Parameters.model_validate_json("{" + JSQ + f', "ground_distance": {{"x": {distance}}}}}')


@pytest.mark.parametrize(
    "text",
    [
        '"qid": ["a"], "sensitive": []',
        '"qid": ["a", "a"], "sensitive": ["s"]',
        JSQ + ', "models": [{"model": "k-anonymity", "k": 0}]',
        JSQ + ', "models": [{"model": "alpha-k-anonymity", "alpha": "2", "k": 1}]',
        JSQ + ', "templates": [{"qid": ["Job"], "value": "x", "h": "1.1"}]',
    ],
)
def test_bad_parameters(text: str) -> None:
    with pytest.raises(ValidationError):
        Parameters.model_validate_json("{" + text + "}")


def test_an_empty_table_is_refused() -> None:
    empty = Table(("Job", "Sex", "Age", "Disease"), (Texts.of(()),) * 4)
    with pytest.raises(EmptyTable):
        answer(empty, JSQ)
    with pytest.raises(EmptyTable):
        ALGORITHM.check(empty, Parameters.model_validate_json("{" + JSQ + "}"), "sound")


def test_no_column_is_a_quasi_identifier() -> None:
    found = values(TABLE_21, '"qid": [], "sensitive": ["Disease"]')
    assert found["k-anonymity"] == 7
    assert found["t-closeness"] == pytest.approx(0, abs=1e-12)


def test_the_published_part_says_nothing_about_the_table() -> None:
    params = Parameters.model_validate_json("{" + JSQ + "}")
    outcomes = [
        ALGORITHM.run(table, params, "sound", SequentialContext()) for table in (TABLE_21, TABLE_22)
    ]
    assert outcomes[0].result == outcomes[1].result
    assert outcomes[0].report == outcomes[1].report
    assert not outcomes[0].files
    assert not outcomes[0].plots
    assert "HIV" not in json.dumps(outcomes[0].result)
    report = ALGORITHM.preview(params, "sound")
    assert report.charged is not None
    assert report.charged.ledger == "none"
    assert "stays with their owner" in plain_words(report)
    assert outcomes[0].report.evaluation_attached


def test_the_picture_of_an_evaluation() -> None:
    """A bar for each model that asked for a number; read from JSON, as the operator's tool does."""
    models = '[{"model": "k-anonymity", "k": 3}, {"model": "entropy-l-diversity", "l": "1.8"}]'
    found = answer(TABLE_22, f'{JSQ}, "models": {models}')
    evaluation = json.loads(json.dumps({"findings": found}))
    (plot,) = ALGORITHM.evaluation_pictures(evaluation, {})
    assert plot.name == "findings"
    assert b"k-anonymity" in plot.svg or plot.svg.startswith(b"<?xml")
    assert ALGORITHM.evaluation_pictures(evaluation, {}) == (plot,)
    assert ALGORITHM.evaluation_pictures({"findings": [{"model": "utility"}]}, {}) == ()
