"""Sums over records: no two neighbouring tables differ by more than the query's sensitivity says.

The relation is one record more or less. With `every_record` nothing comes in where a record leaves;
without it another record may, which is the swap of `tacit.query.encoding`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tacit.encoders import sums
from tacit.encoders.kmeans import Floats, Grid, Histogram, Lift, Marginals, Projection, Zone
from tacit.encoders.kmeans_sums import FineCells, KmeansSum
from tacit.query.functions import parts
from tacit.query.mechanisms import aggregator_plan
from tacit.query.query import Query
from tacit.query.terms import MOST_RECORDS
from tacit.report.model import Subject
from tacit.report.queries import query_report
from tacit.report.text import plain_words
from tests.property_examples import examples
from tests.tacit.examples import query as example

SUBJECT = Subject(kind="query", id="query-1")
BOX = Grid((0.0, 0.0), (10.0, 10.0))
ROWS = np.array([[1, 1], [2, 1], [1, 3], [8, 9], [9, 7], [10, 12]], np.float64)
CENTRES = np.array([[-52429, -52429], [52429, 52429]])
ZONE = Zone(
    CENTRES, np.array([26214, 26214]), 1 << 16, Fraction(3, 4), Fraction(3, 20), Fraction(1, 10)
)


def query_of(asked: KmeansSum, *, every: bool, **changes: Any) -> Query:
    """The query that carries a sum."""
    fields = {
        **sums.query_fields(asked, "record", MOST_RECORDS, every_record=every),
        "name": "kmeans:1:" + "0" * 64,
        "job": "job-1",
        "layer": "aggregator",
        "collusion": {"curators": 0, "aggregators": 2},
        "min_participants": 2,
        "n_max": 100,
        **changes,
    }
    return example(**fields)


def changes(query: Query, asked: KmeansSum, one: Floats, other: Floats) -> list[int]:
    """How far two tables' contributions lie apart, part by part (L1)."""
    found = [sums.encoded(query, asked, rows).values[0] for rows in (one, other)]
    apart, start, result = np.abs(found[0] - found[1]), 0, []
    for part in parts(query):
        result.append(int(apart[start : start + part.dimension].sum()))
        start += part.dimension
    return result


def sensitivities(query: Query) -> list[int]:
    """Of its parts."""
    return [part.sensitivity for part in parts(query)]


def test_the_worked_example() -> None:
    """Spec: kmeans, section 10, check 8.

    Two zones of radius 26,214, sixteen units of the sum a step.
    """
    asked = KmeansSum.of(BOX, ZONE, sums.SWAP)
    every, some = query_of(asked, every=True), query_of(asked, every=False)
    assert asked.weights == (16, 16)
    assert sensitivities(every) == [16 * 26214, 1, 256]
    assert sensitivities(some) == [2 * 16 * 26214, 2, 512]
    plan = aggregator_plan(every)
    # b = Delta / (share epsilon), of each of three parts: the whole of epsilon is 1.
    assert plan.scales == (
        16 * 26214 / Fraction(3, 4),
        1 / Fraction(3, 20),
        256 / Fraction(1, 10),
    )
    whole = sums.encoded(every, asked, ROWS).values[0].tolist()
    assert [value // 16 for value in whole[:4]] == [13107, 26214, 0, -13107]
    assert whole[4:] == [3, 3, 384, 640]
    # Without the third record: its offset (0, 26214), a count, and V levels; all attain the bound.
    assert changes(every, asked, ROWS, np.delete(ROWS, 2, 0)) == [16 * 26214, 1, 256]
    # In its place a record of the other zone: twice as far, which `every_record` does not cover.
    replaced = ROWS.copy()
    replaced[2] = (8, 10)
    apart = changes(every, asked, ROWS, replaced)
    assert apart[1] == 2
    assert apart[0] > 16 * 26214
    assert all(found <= bound for found, bound in zip(apart, sensitivities(some), strict=True))


@st.composite
def asked_sums(draw: st.DrawFn) -> KmeansSum:
    """Of every kind."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dimension, clusters = draw(st.integers(2, 4)), draw(st.integers(1, 4))
    grid = Grid((0.0,) * dimension, (10.0,) * dimension, 1 << draw(st.integers(4, 16)))
    half, tenth = Fraction(1, 2), Fraction(1, 10)
    turned = np.linalg.qr(generator.normal(size=(dimension, 2)))[0]
    match draw(st.sampled_from(("hist", "fine", "marginal", "lift", "zone"))):
        case "hist":
            return KmeansSum(grid, Histogram(draw(st.integers(1, 5)), dimension, grid.steps, half))
        case "fine":
            per_side = draw(st.integers(1, 4))
            cells = per_side**dimension
            kept = np.sort(generator.choice(cells, generator.integers(1, cells + 1), False))
            sides = generator.integers(1, 4, kept.size)
            return KmeansSum(
                grid, FineCells(per_side, dimension, grid.steps, kept, sides, half, 1 << 16)
            )
        case "marginal":
            return KmeansSum(grid, Marginals(Projection.of(turned, grid.steps), half, 8))
        case "lift":
            centres = generator.integers(-grid.steps, grid.steps + 1, (clusters, 2))
            radius = draw(st.integers(1, 2 * dimension * grid.steps))
            view = Projection.of(turned, grid.steps)
            return KmeansSum(grid, Lift(view, centres, radius, half, tenth))
        case _:
            centres = generator.integers(-grid.steps, grid.steps + 1, (clusters, dimension))
            radii = generator.integers(1, 2 * dimension * grid.steps + 1, clusters)
            zone = Zone(centres, radii, grid.steps, half, tenth, tenth)
            return KmeansSum.of(grid, zone, sums.SWAP)


@examples(200)
@given(asked_sums(), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_neighbouring_tables_keep_within_the_sensitivity(
    asked: KmeansSum, size: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.uniform(-4, 14, (size, asked.columns))
    place = int(generator.integers(size))
    every, some = query_of(asked, every=True), query_of(asked, every=False)
    apart = changes(every, asked, rows, np.delete(rows, place, 0))
    assert all(found <= bound for found, bound in zip(apart, sensitivities(every), strict=True))
    other = rows.copy()
    other[place] = generator.uniform(-4, 14, asked.columns)
    apart = changes(some, asked, rows, other)
    assert all(found <= bound for found, bound in zip(apart, sensitivities(some), strict=True))
    assert [2 * bound for bound in sensitivities(every)] == sensitivities(some)


def test_the_report_states_the_relation() -> None:
    asked = KmeansSum.of(BOX, ZONE, sums.SWAP)
    every = query_report(query_of(asked, every=True), subject=SUBJECT)
    some = query_report(query_of(asked, every=False), subject=SUBJECT)
    assert [item.value for item in every.sensitivity] == ["419424", "1", "256"]
    assert [item.value for item in some.sensitivity] == ["838848", "2", "512"]
    for report in (every, some):
        assert report.neighbouring == "add-remove"
        assert {line.neighbouring for line in report.verified} == {"add-remove"}
        line = next(line for line in report.verified if line.key == "e")
        assert (line.epsilon, line.delta) == ("1", "0")
    words = plain_words(every)
    assert "A record replaced by another one is a removal and an addition" in words
    assert "Every record counts" in words
    assert "A value changed in place is covered as one" in plain_words(some)


def test_the_query_binds_what_it_says() -> None:
    asked = KmeansSum.of(BOX, ZONE, sums.SWAP)
    every, some = query_of(asked, every=True), query_of(asked, every=False)
    assert every.digest() != some.digest()
    assert b"every_record" not in some.canonical()  # a query without it is what it was before
    sums.check_query(every, asked)
    sums.check_query(some, asked)
    few = query_of(asked, every=True, max_readings=MOST_RECORDS - 1)
    with pytest.raises(sums.SumRefused, match="omits records"):
        sums.check_query(few, asked)


@pytest.mark.parametrize(
    "wrong",
    [
        {"privacy_unit": "curator"},
        {"job": None},
        {"every_record": False},
    ],
)
def test_where_it_has_no_meaning(wrong: dict[str, Any]) -> None:
    asked = KmeansSum.of(BOX, ZONE, sums.SWAP)
    with pytest.raises(ValidationError) as found:
        query_of(asked, every=True, **wrong)
    assert found.value.errors()[0]["loc"] == ("every_record",)
    with pytest.raises(ValidationError):
        example(function="sum", every_record=True)
