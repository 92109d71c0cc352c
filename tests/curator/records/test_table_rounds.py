"""A table over curators' own records: texts in, cells out, and what a curator keeps to itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from curator.errors import BadRecords, MalformedRow
from curator.records.records import MOST_CHARACTERS, RecordTable, checked, read_csv
from tacit.query.fields import ALWAYS
from tacit.query.query import Query
from tests.curator.conftest import HOUR, START, OpenSite, Site
from tests.curator.records.test_records import refused

CSV = b"sex,age,kwh\r\nf,17,1\r\nm,40, 2.5\r\nd,40,1\r\nm,70,9\r\nf,-1,1\r\n"
AGREED: dict[str, Any] = {"min_participants": 2}


def query(**changes: Any) -> Query:
    """Two sexes, three ages."""
    fields = {
        "name": "sex-and-age",
        "function": "table",
        "columns": {"sex": ["f", "m"], "age": [0, 18, 65, None]},
        "unit": "1",
        "bounds": ["0", "1"],
        "max_readings": 10,
        "resolution": "1",
        "mechanism": "distributed",
        "epsilon": "1",
        "layer": "aggregator",
        "sharing": "additive",
        "aggregators": 3,
        "collusion": {"curators": 0, "aggregators": 2},
        "min_participants": 2,
        "n_max": 100,
        "deadline_s": 3600,
    }
    return Query.of(**{**fields, **changes})


async def give(it: Site, content: bytes = CSV, codes: str = "&codes=sex", status: int = 200) -> Any:
    """The curator's table."""
    headers = {"Content-Type": "text/csv"}
    path = f"/v1/records?curator=meter{codes}"
    return await it.request("POST", path, status=status, content=content, headers=headers)


@pytest.fixture
async def it(site: OpenSite) -> AsyncIterator[Site]:
    """A curator with a table of five records."""
    async with site() as running:
        await running.enrol("meter")
        await running.policy(**AGREED)
        await give(running)
        yield running


async def ask(it: Site, asked: Query) -> Any:
    """Open a round of it; the curator's part in it."""
    it.open(asked, start=ALWAYS.start, end=ALWAYS.end)
    await it.take_part()
    return (await it.history("meter"))[0]


def total(it: Site) -> list[int]:
    """The newest round's sum; its aggregators add no noise."""
    *_, signed = it.world.rounds.values()
    found: list[int] = it.world.total(signed.statement).tolist()
    return found


async def test_records_fall_into_cells_and_the_others_stay_with_their_owner(it: Site) -> None:
    found = await ask(it, query())
    assert found["contributed"]
    assert total(it) == [1, 0, 0, 0, 1, 1]
    # A code that nobody asked for, and an age below all edges.
    assert found["readings"]["used"] == 5
    assert found["readings"]["clamped"] == 2


async def test_a_measure_is_added_up_within_its_bounds(it: Site) -> None:
    measured = {"measure": "kwh", "unit": "kWh", "bounds": ["0", "5"], "resolution": "0.5"}
    assert (await ask(it, query(**measured)))["contributed"]
    assert total(it) == [2, 0, 0, 0, 5, 10]


async def test_a_proved_table_is_the_same_table(it: Site) -> None:
    assert (await ask(it, query(validity="proved")))["contributed"]
    assert total(it) == [1, 0, 0, 0, 1, 1]


async def test_only_the_first_records_of_a_curator_count(it: Site) -> None:
    """Who repeats a record ten thousand times adds no more than the query allows."""
    await give(it, b"sex,age,kwh\n" + b"m,70,9\n" * 10_000)
    assert (await ask(it, query()))["readings"]["used"] == 10
    assert total(it) == [0, 0, 0, 0, 0, 10]


@pytest.mark.parametrize(
    "changes",
    [
        {"columns": {"sex": ["f", "m"], "city": ["x"]}},
        {"measure": "load"},
        {"measure": "sex"},
    ],
    ids=["no such column", "no such measure", "a measure of texts"],
)
async def test_a_curator_without_the_columns_adds_zeros(it: Site, changes: dict[str, Any]) -> None:
    """It takes part like the others: whether it has a column is its owner's."""
    found = await ask(it, query(**changes))
    assert (found["contributed"], found["readings"]["used"]) == (True, 0)
    assert not any(total(it))


async def test_texts_are_no_numbers_and_numbers_no_texts(it: Site) -> None:
    found = await ask(it, query(columns={"sex": [0, 1, None], "age": ["17", "40", "70"]}))
    assert (found["readings"]["used"], found["readings"]["clamped"]) == (5, 5)
    assert not any(total(it))


async def test_a_table_is_of_all_records_whatever_window_a_coordinator_names(it: Site) -> None:
    """Else a record's ledger would count two tables of one record as tables of two."""
    it.open(query(), start=START, end=START + HOUR)
    await it.take_part()
    assert await it.history("meter") == [], "its descriptor is refused before anything is decided"


async def test_a_second_table_without_noise_is_refused(it: Site) -> None:
    """Moved by one year, its edges would show who is eighteen. It is refused although the same
    curators are in both, and the one with noise is not."""
    small = {"min_participants": 2, "small_cells": True}
    rule = {"mechanism": "exact", "epsilon": None, "layer": None, "rule": small}
    await it.policy(**AGREED, exact={"min_participants": 2}, allow_unverified=True)
    unasked = query(name="unasked", **rule)
    assert refused(await ask(it, unasked)) == "policy_refused", "a rule for sums is none for cells"
    await it.policy(**AGREED, exact=small, allow_unverified=True)
    assert (await ask(it, query(**rule)))["contributed"]
    moved = query(
        name="a-year-later", columns={"sex": ["f", "m"], "age": [0, 19, 65, None]}, **rule
    )
    assert refused(await ask(it, moved)) == "in_exact_sum"


async def test_every_table_is_paid_for_by_every_record(it: Site) -> None:
    """Two tables that differ by one record are two answers, and both are charged."""
    limits = {"record": {"period": {"epsilon": "1.5"}}, "curator": {}}
    await it.policy(**AGREED, **limits)
    unit = {"privacy_unit": "record"}
    assert (await ask(it, query(**unit)))["contributed"]
    await give(it, CSV + b"m,18,1\n")
    assert refused(await ask(it, query(**unit))) == "window_contributed"
    assert refused(await ask(it, query(**unit, name="again"))) == "budget_exceeded"


async def test_texts_come_with_json_too(it: Site) -> None:
    rows = [["m", 70, 1], ["f", 3, 1]]
    body = {"curator": "meter", "columns": ["sex", "age", "kwh"], "rows": rows}
    await it.request("POST", "/v1/records", body)
    assert (await ask(it, query()))["contributed"]
    assert total(it) == [1, 0, 0, 0, 0, 1]
    body["rows"] = [["m", 70, 1], [3, 3, 1]]
    problem = await it.request("POST", "/v1/records", body, status=422)
    assert problem["detail"] == "row 2: a column has numbers, or texts, in every row"


@pytest.mark.parametrize(
    ("text", "coded", "error"),
    [
        ("sex,age\nsecret,1\n", [], MalformedRow),
        ("sex,age\nf,secret\n", ["sex"], MalformedRow),
        ("sex,age\nf,1\n", ["sex", "city"], BadRecords),
        (f"sex,age\nsecret{'x' * MOST_CHARACTERS},1\n", ["sex"], MalformedRow),
    ],
    ids=["an undeclared text", "a text among numbers", "a column that is not there", "too long"],
)
def test_texts_that_cannot_be_read(text: str, coded: list[str], error: type[Exception]) -> None:
    with pytest.raises(error) as found:
        read_csv(text.encode(), coded)
    assert "secret" not in str(found.value)


def test_a_csv_file_and_a_json_table_are_the_same_records() -> None:
    from_csv = read_csv(b"sex,age\n f ,1\nm,2\n,3\n", ["sex"])
    rows = (("f", 1.0), ("m", 2.0), ("", 3.0))
    from_json = checked(RecordTable(curator="meter", columns=("sex", "age"), rows=rows))
    for found in (from_csv, from_json):
        assert found.columns == ("sex", "age")
        assert found.codes == {"sex": ("", "f", "m")}
        assert found.values.tolist() == [[1, 1], [2, 2], [0, 3]]
