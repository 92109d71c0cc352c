"""A released table: intervals of cells and margins, alone and together, and how it is shown."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from cli.formatting import result_lines
from cli.rounds import _without_small_counts
from tacit.accounting.expected_error import added_up, all_draws
from tacit.answers.base import read
from tacit.client.query_objects import Result
from tacit.query.mechanisms import aggregator_plan, draw
from tacit.query.tables import table_figures
from tacit.randomness import SeededRandom
from tacit.report.accuracy import error_statement
from tacit.report.model import Subject
from tacit.report.queries import query_report
from tacit.report.tables import cell_figures, grid, records, text_lines
from tests.tacit.query.test_tables import MEASURED, query

SEX_AND_AGE = query()
assert SEX_AND_AGE.columns is not None
COLUMNS = SEX_AND_AGE.columns


def widths(**changes: Any) -> dict[int, tuple[Fraction, Fraction]]:
    """How far noise moves the sum of so many cells: by itself, and with all at once."""
    margins = error_statement(query(**changes), 50)["margins"]
    return {
        each["cells"]: (Fraction(each["half_width"]), Fraction(each["joint_half_width"]))
        for each in margins
    }


def test_the_interval_of_a_margin_is_that_of_the_sum_of_its_cells() -> None:
    """Against the convolution of the law of one cell: three aggregators' discrete Laplaces."""
    scale, reach = 2.0, 200
    rate = np.exp(-1 / scale)
    one = (1 - rate) / (1 + rate) * rate ** np.abs(np.arange(-reach, reach + 1))
    for cells, (alone, joint) in widths(collusion={"aggregators": 2}).items():
        law = np.array([1.0])
        for _ in range(3 * cells):
            law = np.convolve(law, one)
        middle = law.size // 2
        within = np.cumsum(np.append(law[middle], 2 * law[middle + 1 :]))
        for width, level in ((alone, 0.95), (joint, 1 - 0.05 / 15)):
            assert within[int(width)] >= level > within[int(width) - 1]


def test_all_figures_are_within_their_joint_intervals_at_once() -> None:
    """2,000 tables: at most 5 of 100 may have any figure outside. The union bound leaves room: a
    false alarm, with a true share of 5 of 100, has probability below 0.1 %."""
    asked = query(collusion={"aggregators": 2})
    plan = aggregator_plan(asked)
    assert plan is not None
    noise = draw(plan, SeededRandom(7), 3 * 2_000).reshape(3, 2_000, 8).sum(axis=0)
    most = widths(collusion={"aggregators": 2})
    outside = sum(
        any(abs(figure.value) > most[figure.cells][1] for figure in table_figures(COLUMNS, row))
        for row in noise.tolist()
    )
    assert outside <= 132


def test_a_coin_for_all_cells_at_once_makes_no_interval_too_narrow() -> None:
    """A party's one coin decides for all its cells: their sum has heavier tails than coins apart
    would give it, so that all parties are taken to draw."""
    two_layer = {
        "mechanism": "two-layer",
        "epsilon": None,
        "epsilon_u": "1",
        "epsilon_s": "1",
        "pr_u": "1/2",
        "pr_s": "1/2",
    }
    draws = all_draws(query(**two_layer), 50, 0)
    assert {layer.probability for layer in added_up(draws, 4)} == {1}
    assert added_up(draws, 1) == draws


@pytest.mark.parametrize(
    "changes", [MEASURED, {"noise": "gaussian", "epsilon": None, "rho": "0.0001"}]
)
def test_wider_sums_have_wider_intervals_and_joint_ones_are_wider_still(
    changes: dict[str, Any],
) -> None:
    found = widths(**changes)
    assert list(found) == [1, 2, 4, 8]
    alone, joint = zip(*found.values(), strict=True)
    assert list(alone) == sorted(alone)
    assert all(one < together for one, together in zip(alone, joint, strict=True))


def answer(**changes: Any) -> dict[str, Any]:
    """A released result."""
    asked = query(**changes)
    subject = Subject(kind="query", id="q")
    report = query_report(asked, subject=subject, participants=50)
    return {
        "format": "tacit.round-result/1",
        "round": "r",
        "query_id": "q",
        "function": "table",
        "unit": asked.unit,
        "window": {"start": "1970-01-01T00:00:00Z", "end": "2200-01-01T00:00:00Z"},
        "participants": 50,
        "columns": [column.model_dump(mode="json") for column in asked.columns or ()],
        "result": {"table": ["30", "1", "-2", "4", "50", "60", "70", "80"]},
        "completeness": {"answered": 50, "with_readings": None, "note": ""},
        "report": json.loads(report.model_dump_json()),
    }


SHOWN = """\
sex  [0, 18)  [18, 40)  [40, 65)  [65, inf)       all
f     30 ± 6   (1 ± 6)  (-2 ± 6)    (4 ± 6)   33 ± 11
m     50 ± 6    60 ± 6    70 ± 6     80 ± 6  260 ± 11
all   80 ± 8    61 ± 8    68 ± 8     84 ± 8  293 ± 16
±: noise, in 95 of 100 cases at most, of each figure by itself
( ): cannot be told from 0"""


def test_a_table_is_printed_with_its_margins() -> None:
    result = read(Result, answer())
    for lines in (str(result).splitlines(), [line[2:] for line in result_lines(result)]):
        start = next(at for at, line in enumerate(lines) if line.startswith("sex"))
        assert "\n".join(lines[start : start + 6]) == SHOWN


def test_a_table_is_tidy_rows() -> None:
    result = read(Result, answer())
    rows = result.rows()
    assert len(rows) == 15
    assert rows[0] == {
        "sex": "f",
        "age": "[0, 18)",
        "value": 30,
        "low": 24,
        "high": 36,
        "unit": "1",
    }
    assert (rows[-1]["sex"], rows[-1]["age"], rows[-1]["value"]) == (None, None, 293)
    assert result.half_width is None
    with pytest.raises(ValueError, match="one column"):
        result.top(2)
    others = read(Result, {**answer(), "columns": None, "result": {"table": []}})
    assert others.cells == []


def test_the_largest_categories_of_one_column() -> None:
    ages = {"columns": {"age": [str(edge) for edge in range(9)]}}
    codes = {"columns": {"city": list("abcdefgh")}}
    for columns in (codes, {"columns": [{"name": "age", "edges": ages["columns"]["age"]}]}):
        top = read(Result, answer(**columns)).top(3)
        assert [row["value"] for row in top] == [80, 70, 60]
    assert "city" in read(Result, answer(**codes)).top(1)[0]


def test_the_cells_of_a_table_are_drawn() -> None:
    [axes] = read(Result, answer()).plot().axes
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert len(names) == 8
    assert names[5] == "m, [18, 40)"
    assert [bar.get_height() for bar in axes.patches][:3] == [30, 1, -2]


def test_a_column_may_have_the_name_of_a_figure() -> None:
    columns = query(columns={"unit": ["a", "b"]}).columns
    assert columns is not None
    rows = records(columns, cell_figures(columns, ["1", "2"], None), "kWh")
    assert rows[0] == {"column unit": "a", "value": 1, "low": None, "high": None, "unit": "kWh"}


def test_three_columns_stand_below_and_beside_each_other() -> None:
    columns = query(columns={"a": ["1", "2"], "b": ["x", "y"], "c": ["p", "q"]}).columns
    assert columns is not None
    figures = cell_figures(columns, [str(value) for value in range(8)], None)
    lines = text_lines(grid(columns, figures))
    assert lines[0].split() == ["a", "b", "p", "q", "all"]
    assert lines[1].split() == ["1", "x", "0", "1", "1"]
    assert lines[-1].split() == ["all", "all", "12", "16", "28"]
    assert len(lines) == 10


EXACT: dict[str, Any] = {
    "mechanism": "exact",
    "epsilon": None,
    "rule": {"min_participants": 2, "small_cells": True},
}


def test_an_exact_table_is_passed_on_without_its_small_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The small counts of the first row add up to 7: with its 30 published nobody would believe
    that one of them is 10 or more."""
    cells = ["30", "1", "2", "4", "50", "60", "70", "80"]
    released = {**answer(**EXACT), "result": {"table": cells}}
    result = read(Result, released)
    figures = {figure.labels: figure.value for figure in result.suppressed(10)}
    for small in ("[18, 40)", "[40, 65)", "[65, inf)"):
        assert figures["f", small] is None
    assert figures["f", "[0, 18)"] is None
    assert (figures["f", None], figures[None, None]) == (37, 297)
    printed = _without_small_counts(result, 10)
    assert printed.human is not None
    printed.human()
    text = capsys.readouterr().out
    assert "x: suppressed, so that no count from 1 to 9 can be computed from the others." in text
    assert all(row["value"] not in ("1", "2", "4") for row in printed.value["rows"])


@pytest.mark.parametrize("changes", [{}, {**MEASURED, **EXACT}], ids=["noise", "a measure"])
def test_what_is_no_exact_table_of_counts_is_not_suppressed(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="only a table of counts without noise"):
        read(Result, answer(**changes)).suppressed(10)


def test_a_least_count_of_one_suppresses_nothing() -> None:
    with pytest.raises(ValueError, match="2 or more"):
        read(Result, answer(**EXACT)).suppressed(1)
