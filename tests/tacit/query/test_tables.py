"""Contingency tables: domains, cells, margins, and how far one record or curator moves them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tacit.errors import FieldsRefused
from tacit.query.fields import ALWAYS
from tacit.query.functions import Readings, decode, encode, parts
from tacit.query.proofs import proof_plan
from tacit.query.query import Query
from tacit.query.tables import (
    OUTSIDE,
    TableColumn,
    cells_of,
    figure_count,
    margin_sizes,
    table_figures,
)
from tacit.query.terms import MOST_RECORDS
from tests.tacit.examples import PLAIN

SEX_AND_AGE = {"sex": ["f", "m"], "age": [0, 18, 40, 65, None]}
FIELDS: dict[str, Any] = {
    **PLAIN,
    "function": "table",
    "columns": SEX_AND_AGE,
    "bounds": ["0", "1"],
    "mechanism": "distributed",
    "epsilon": "1",
    "min_participants": 2,
    "n_max": 100,
}
MEASURED = {"measure": "kwh", "unit": "kWh", "bounds": ["-1", "3"], "resolution": "1"}


def query(**changes: Any) -> Query:
    """A table of two sexes and four ages."""
    return Query.of(**{**FIELDS, **changes})


def test_columns_by_name_are_the_same_query_as_columns_in_full() -> None:
    by_name = query()
    ages = ["0", "18", "40", "65", None]
    in_full = query(columns=[{"name": "sex", "codes": ["f", "m"]}, {"name": "age", "edges": ages}])
    assert by_name.digest() == in_full.digest()
    assert Query.model_validate_json(by_name.canonical()) == by_name
    assert (by_name.register_name, by_name.window) == ("records", ALWAYS)
    assert by_name.columns[1].categories == ("[0, 18)", "[18, 40)", "[40, 65)", "[65, inf)")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"columns": None}, "/columns: a table needs columns"),
    ({"columns": {}}, "/columns: a table needs columns"),
    ({"columns": {"sex": []}}, "needs at least two edges"),
    ({"columns": {"sex": "f"}}, "/columns/0/codes: must be a list"),
    ({"columns": {"sex": ["f", "f"]}}, "/columns/0/codes: codes must differ"),
    ({"columns": {"sex": ["f", None]}}, "/columns/0/edges/0: must be a decimal string"),
    ({"columns": {"age": [0, None, 3]}}, "/columns/0/edges: only the last edge may be null"),
    ({"columns": {"age": [3, 3]}}, "/columns/0/edges: must rise strictly"),
    ({"columns": [{"name": "age", "edges": ["0", "1e-400"]}]}, "/columns/0/edges"),
    ({"columns": [{"name": "age"}]}, "give codes (texts) or edges"),
    ({"columns": [{"name": "a", "codes": ["x"]}] * 2}, "/columns: column names must differ"),
    ({"columns": {str(at): ["x"] for at in range(5)}}, "/columns: must have at most 4 items"),
    (
        {"columns": {name: [str(code) for code in range(257)] for name in "ab"}},
        "/columns: a table has at most 65536 cells",
    ),
    ({"register": "energy_export"}, "/register: a table is of records"),
    (
        {"schedule": {"period_s": 3600, "first_start": "2026-01-01T00:00:00Z"}},
        "/schedule: rows of a table have no time",
    ),
    (
        {"window": {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}},
        "/window: rows of a table have no time",
    ),
    ({"stance": "paper"}, "/stance: a table needs stance sound"),
    ({"job": "job-1"}, "/job: a table is no step of a job"),
    ({"function": "count"}, "/columns: only a table has this"),
    ({"function": "count", "columns": None, "measure": "kwh"}, "/measure: only a table has this"),
]


@pytest.mark.parametrize(("changes", "told"), REFUSED)
def test_a_table_that_is_none(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(FieldsRefused) as refused:
        query(**changes)
    assert told in str(refused.value)


def test_a_value_falls_into_one_category_or_none() -> None:
    sex = TableColumn(name="sex", codes=("f", "m"))
    assert sex.places(np.array([2.0, 0, 1, 2]), ("d", "f", "m")).tolist() == [1, OUTSIDE, 0, 1]
    assert sex.places(np.zeros(0), ()).tolist() == []
    age = TableColumn(name="age", edges=(Fraction(0), Fraction(18), Fraction(65)))
    ages = np.array([-1e-100, 0, 17.999, 18, 64.9, 65, 1e100])
    assert age.places(ages, None).tolist() == [OUTSIDE, 0, 0, 1, 1, OUTSIDE, OUTSIDE]
    endless = TableColumn(name="age", edges=(Fraction("0.1"), None))
    assert endless.places(np.array([0.1, 1e100, 0.0999]), None).tolist() == [0, 0, OUTSIDE]
    # A column of the other kind has nothing that could be compared.
    assert sex.places(np.array([0.0, 1.0]), None).tolist() == [OUTSIDE, OUTSIDE]
    assert age.places(np.array([0.0, 1.0]), ("1", "20")).tolist() == [OUTSIDE, OUTSIDE]


def test_cells_are_in_row_major_order_and_margins_agree_with_them() -> None:
    columns = query().columns
    assert columns is not None
    places = [np.array([0, 1, 1, 0, OUTSIDE]), np.array([0, 0, 3, OUTSIDE, 2])]
    assert cells_of(columns, places).tolist() == [0, 4, 7, OUTSIDE, OUTSIDE]
    released = [Fraction(value) for value in (1, -2, 3, 4, 5, 6, 7, 8)]
    figures = {figure.labels: figure for figure in table_figures(columns, released)}
    assert len(figures) == figure_count(columns) == 15
    assert figures["f", "[18, 40)"][1:] == (-2, 1)
    assert figures["m", None][1:] == (26, 4)
    assert figures[None, "[0, 18)"][1:] == (6, 2)
    assert figures[None, None][1:] == (32, 8)
    assert {figure.cells for figure in figures.values()} == set(margin_sizes(columns))


def summed(asked: Query, records: list[tuple[int, int]]) -> list[int]:
    """f(x) of one curator with these (cell, nano-units) records."""
    cell, amount = np.array(records, np.int64).reshape(-1, 2).T
    owner = np.zeros(len(records), np.int64)
    return encode(asked, Readings(1, owner, amount, cell)).values[0].tolist()


@pytest.mark.parametrize("unit", ["record", "curator"])
@pytest.mark.parametrize("measured", [{}, MEASURED], ids=["counts", "sums"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_no_neighbour_moves_a_table_by_more_than_its_sensitivity(
    unit: str, measured: dict[str, Any], noise: str
) -> None:
    """All tables of up to three records over two cells or none, of which two count: the largest
    distance over all neighbours is the declared sensitivity, neither more nor less."""
    gaussian = (
        {"noise": "gaussian", "epsilon": None, "rho": "0.0001"} if noise == "gaussian" else {}
    )
    asked = query(
        columns={"sex": ["f", "m"]},
        privacy_unit=unit,
        mechanism="distributed",
        **measured,
        **gaussian,
    )
    kwh = 1_000 * 10**9
    amounts = [-kwh, 3 * kwh] if measured else [0]
    records = list(itertools.product([0, 1, OUTSIDE], amounts))
    distances = []
    for count in range(4):
        for table in itertools.product(records, repeat=count):
            if unit == "curator":
                neighbours: list[list[tuple[int, int]]] = [[]]
            else:
                neighbours = [[*table[:at], *table[at + 1 :]] for at in range(count)]
            for other in neighbours:
                moved = np.subtract(summed(asked, list(table)), summed(asked, other))
                power = 1 if noise == "laplace" else 2
                distances.append(int((np.abs(moved) ** power).sum()))
    (part,) = parts(asked)
    declared = part.sensitivity if noise == "laplace" else part.squared_sensitivity
    # Blocks of both signs have a bound that one cell does not reach.
    loose = bool(measured) and unit == "record" and noise == "gaussian"
    assert max(distances) <= declared if loose else max(distances) == declared


def test_a_table_that_counts_all_records_needs_half_the_noise() -> None:
    """None of the curator's other records can replace the one that is removed."""
    few, every = (
        query(privacy_unit="record", max_readings=most) for most in (MOST_RECORDS - 1, MOST_RECORDS)
    )
    assert [parts(asked)[0].sensitivity for asked in (few, every)] == [2, 1]


def test_a_record_of_no_cell_counts_nowhere_and_its_owner_is_told() -> None:
    asked = query(**MEASURED)
    cell = np.array([0, OUTSIDE, 5])
    kwh = 1_000 * 10**9
    found = encode(asked, Readings(1, np.zeros(3, np.int64), np.array([kwh, kwh, kwh]), cell))
    assert found.values[0].tolist() == [1] + [0] * 7, "the third is beyond max_readings"
    assert (found.used.tolist(), found.clamped.tolist()) == ([2], [1])
    assert decode(asked, found.values[0]) == {"table": ["1", "0", "0", "0", "0", "0", "0", "0"]}


def test_a_proof_allows_no_more_records_than_the_query() -> None:
    """The range of a proved table of counts is that of a histogram: each cell, and all together."""
    asked = query(validity="proved")
    histogram = Query.of(
        **{
            **{name: value for name, value in FIELDS.items() if name != "columns"},
            "function": "histogram",
            "edges": [str(edge) for edge in range(9)],
            "validity": "proved",
        }
    )
    assert proof_plan(asked).of(1).function == proof_plan(histogram).of(1).function
