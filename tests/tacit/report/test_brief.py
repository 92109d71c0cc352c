"""A report in a few lines: each row has its own reason and unit; figures are rounded against us."""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tacit.report.model import Subject
from tacit.report.queries import query_report
from tacit.report.text import brief, brief_text
from tests.tacit.examples import METERED, query


def report() -> dict[str, Any]:
    asked = query(**METERED, collusion={"aggregators": 1}, min_participants=3)
    made = query_report(asked, subject=Subject(kind="query", id="q"))
    found: dict[str, Any] = json.loads(made.model_dump_json())
    return found


def test_each_row_has_a_letter_a_unit_and_its_own_reason() -> None:
    found = brief(report())
    assert [row.key for row in found.rows] == ["a", "b", "c", "d", "e"]
    assert {row.unit for row in found.rows} == {"curator"}
    reasons = {row.key: row.why for row in found.rows}
    assert reasons["a"] is reasons["b"] is None
    assert reasons["c"] is not None and "less than the one" in reasons["c"]
    assert reasons["d"] is not None and "sees the exact value" in reasons["d"]
    lines = brief_text(found).splitlines()
    nothing = next(place for place, line in enumerate(lines) if line.startswith("d  none"))
    rest = "\n".join(lines[nothing : nothing + 4])
    assert "no limit" in rest and "because no honest party adds noise" in rest
    assert json.loads(json.dumps(asdict(found)))["rows"][3]["why"] == reasons["d"]


def test_briefly_each_statement_has_its_first_clause_and_in_full_every_word() -> None:
    found = brief(report())
    for title, statements in found.lists:
        short, full = brief_text(found), brief_text(found, full=True)
        assert f"{title}: " in short
        for each in statements:
            words = each.split()
            assert words[0] in short
            assert " ".join(words) in " ".join(full.split())
    assert len(brief_text(found).splitlines()) < len(brief_text(found, full=True).splitlines())


def test_a_job_whose_rows_are_for_several_units_says_which() -> None:
    lines = [
        {"scenario": "recipient", "key": None, "epsilon": epsilon, "delta": "0", "guess": "1",
         "model": "pure-dp", "privacy_unit": unit, "description": unit}
        for epsilon, unit in (("1", "reading"), ("600", "user"), ("375.81", "radius"))
    ]  # fmt: skip
    found = brief({"stance": "sound", "privacy_unit": "user", "verified": lines})
    assert [row.cells[:5] for row in found.rows] == [
        ("a", "1", "0", "100 of 100", "reading"),
        ("b", "600", "0", "100 of 100", "user"),
        ("c", "376", "0", "100 of 100", "radius"),
    ]


def test_what_is_not_stated_is_no_number() -> None:
    row = {"scenario": "recipient", "model": "none", "epsilon": None, "delta": None, "guess": None}
    found = brief({"stance": "paper", "privacy_unit": None, "verified": [row]})
    assert found.rows[0].cells == ("a", "no figure", "", "", "", "recipient")
    assert "Nothing is verified." in brief_text(brief({"stance": "paper", "verified": []}))


@given(st.decimals("0.0001", "99999", places=6), st.decimals(0, 1, places=9))
def test_figures_are_never_smaller_than_they_are(epsilon: Any, delta: Any) -> None:
    line = {"scenario": "recipient", "key": "a", "model": "approximate-dp", "guess": "0.7301",
            "epsilon": f"{epsilon:f}", "delta": f"{delta:f}"}  # fmt: skip
    (row,) = brief({"stance": "sound", "privacy_unit": "record", "verified": [line]}).rows
    assert Fraction(row.cells[1]) >= Fraction(epsilon)
    assert Fraction(row.cells[1]) <= Fraction(epsilon) * Fraction(101, 100)
    assert Fraction(row.cells[2]) >= Fraction(delta)
    assert row.cells[3] == "74 of 100"
