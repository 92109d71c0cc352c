"""A curator's own records, what a federated job's round gets of them, and what it is refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from common.store.transactions import Database
from common.web.dependencies import part_of
from curator.errors import BadRecords, MalformedRow
from curator.records.records import MOST_ROWS, RecordWindow, RowQuestion, load_rows, read_csv
from tacit.encoders import sums
from tacit.encoders.kmeans import Grid, Histogram
from tacit.encoders.kmeans_sums import KmeansSum
from tacit.protocol.federation import FederatedStep, RegisterStatistic, StatisticKind
from tacit.query.fields import ALWAYS, Window
from tacit.query.functions import parts
from tacit.query.query import Query
from tacit.query.terms import MOST_RECORDS
from tests.curator.conftest import HOUR, START, OpenSite, Site
from tests.curator.double import FakeWorld

GRID = Grid((0.0, 0.0), (10.0, 10.0))
SUM = KmeansSum(GRID, Histogram(4, 2, GRID.steps, Fraction(1)))
ROWS = [[1.0, 1.0], [9.0, 9.0], [9.5, 9.0], [100.0, -3.0]]
AGREED = {"algorithms": ["kmeans"], "min_participants": 2}
OF_A_JOB: dict[str, Any] = {
    "job": "job-1",
    "layer": "aggregator",
    "sharing": "additive",
    "aggregators": 3,
    "collusion": {"curators": 0, "aggregators": 2},
    "min_participants": 2,
    "n_max": 100,
    "deadline_s": 3600,
}


def step_and_query(asked: KmeansSum = SUM, number: int = 1, **changes: Any) -> tuple[Any, Query]:
    """What a coordinator asks; `changes` of the query's fields."""
    plan, columns = changes.pop("plan", b"p" * 32), changes.pop("columns", ("a", "b"))
    step = FederatedStep(
        job="job-1",
        algorithm="kmeans",
        step=number,
        plan=plan,
        columns=columns,
        sum=asked.document(),
    )
    fields = {
        **sums.query_fields(asked, "record", MOST_RECORDS),
        "name": step.name,
        **OF_A_JOB,
        **changes,
    }
    return step, Query.model_validate_json(json.dumps(fields))


@asynccontextmanager
async def serving_steps(site: OpenSite, world: FakeWorld) -> AsyncIterator[Site]:
    """The curator `meter`, and a coordinator that serves `app.state.steps`."""
    steps: dict[int, bytes] = {}

    async def serve(request: Request) -> Response:
        return Response(steps[request.path_params["number"]], media_type="application/json")

    world.app.router.routes.append(Route("/v1/jobs/{job}/steps/{number:int}", serve))
    async with site() as running:
        running.app.state.steps = steps
        await running.enrol("meter")
        yield running


@pytest.fixture
async def it(site: OpenSite, world: FakeWorld) -> AsyncIterator[Site]:
    """A curator with a table."""
    async with serving_steps(site, world) as running:
        await running.policy(**AGREED)
        table = {"curator": "meter", "columns": ["b", "c", "a"]}
        rows = [[b, 0.0, a] for a, b in ROWS]
        await running.request("POST", "/v1/records", {**table, "rows": rows})
        yield running


async def ask(it: Site, step: FederatedStep, query: Query, window: Window = ALWAYS) -> Any:
    """Open a round of it; the curator's part in it."""
    it.app.state.steps[step.step] = step.model_dump_json().encode()
    it.open(query, start=window.start, end=window.end)
    await it.take_part()
    return (await it.history("meter"))[0]


def refused(found: dict[str, Any]) -> str | None:
    """Why a curator stayed out."""
    grounds = found["refused_because"]
    return grounds[0]["name"] if grounds else None


async def test_a_round_of_a_job_gets_the_sum_of_the_rows(it: Site) -> None:
    found = await ask(it, *step_and_query())
    assert found["contributed"]
    assert found["readings"]["used"] == len(ROWS)
    assert found["declared"]["epsilon"] == "1"
    (signed,) = it.world.rounds.values()  # aggregators add the noise, and these add none
    total = it.world.total(signed.statement)
    assert total.tolist() == SUM.query.sums(GRID.quantise(np.array(ROWS))).tolist()


FORGED: list[tuple[str, dict[str, Any]]] = [
    ("less noise", {"epsilon": "2"}),
    (
        "another bound",
        {"blocks": [{"name": "cells", "dimension": 16, "l1_bound": "0.5", "resolution": "0.5"}]},
    ),
    ("another unit", {"max_readings": 3, "privacy_unit": "curator", "epsilon": "3"}),
]


async def test_a_query_that_counts_every_record(it: Site) -> None:
    """Half the noise of one that leaves some out, where a table holds no more than count."""
    every = {"every_record": True}
    step, query = step_and_query(**every)
    assert [part.sensitivity for part in parts(query)] == [1]
    assert [part.sensitivity for part in parts(step_and_query()[1])] == [2]
    found = await ask(it, step, query)
    assert (found["contributed"], found["declared"]["epsilon"]) == (True, "1")
    few = step_and_query(number=2, max_readings=MOST_RECORDS - 1, **every)
    assert refused(await ask(it, *few)) == "step_refused"
    _, query = step_and_query(number=3, **every)
    renamed = query.model_copy(update={"name": "no-step"})
    assert refused(await ask(it, step, renamed)) == "step_refused"


async def test_a_statistic_of_a_register_is_not_one_record_alone(it: Site) -> None:
    columns = tuple(
        RegisterStatistic(register="energy_import", statistic=kind)
        for kind in (StatisticKind.MIN, StatisticKind.MAX)
    )
    for every, outcome in ((True, "step_refused"), (None, None)):
        asked = {"columns": columns, "registers": ["energy_import"], "every_record": every}
        assert refused(await ask(it, *step_and_query(**asked))) == outcome


def test_a_table_holds_no_more_rows_than_a_round_can_count() -> None:
    assert MOST_ROWS == MOST_RECORDS
    with pytest.raises(BadRecords, match=str(MOST_ROWS)):
        read_csv(b"a\n" + b"1\n" * (MOST_ROWS + 1))
    assert len(read_csv(b"a\n" + b"1\n" * MOST_ROWS).values) == MOST_ROWS


async def test_a_query_that_is_not_that_of_its_step(it: Site) -> None:
    for name, change in FORGED:
        assert refused(await ask(it, *step_and_query(**change))) == "step_refused", name
    _, query = step_and_query()
    other, _ = step_and_query(KmeansSum(GRID, Histogram(4, 2, GRID.steps, Fraction(1, 2))))
    assert refused(await ask(it, other, query)) == "step_refused"
    assert (await it.get("/v1/curators/meter/budget"))["units"]["record"]["debits"] == []


async def test_rows_have_no_time_so_that_no_window_hides_a_second_job(it: Site) -> None:
    window = Window(start=START, end=START + HOUR)
    assert refused(await ask(it, *step_and_query(), window)) == "step_refused"


async def test_a_job_keeps_its_plan_and_asks_no_step_twice(it: Site) -> None:
    assert (await ask(it, *step_and_query(number=2)))["contributed"]
    assert refused(await ask(it, *step_and_query(number=1))) == "step_refused"
    other = KmeansSum(GRID, Histogram(8, 2, GRID.steps, Fraction(1)))
    assert refused(await ask(it, *step_and_query(other, 2))) == "step_refused"
    assert refused(await ask(it, *step_and_query(other, 3, plan=b"q" * 32))) == "step_refused"
    assert (await ask(it, *step_and_query(other, 3)))["contributed"]


async def test_a_table_by_csv_and_what_is_told_of_it(it: Site) -> None:
    await it.request(
        "POST",
        "/v1/records?curator=meter",
        content=b"a,b\r\n1,2\r\n\r\n3,4.5\r\n",
        headers={"Content-Type": "text/csv"},
    )
    found = await it.get("/v1/curators/meter/records")
    assert found == {"curator": "meter", "columns": ["a", "b"], "rows": 2}
    bad = {"content": b"a,b\n1,\xff\n", "headers": {"Content-Type": "text/csv"}}
    await it.request("POST", "/v1/records?curator=meter", status=422, **bad)
    await it.request("DELETE", "/v1/curators/meter/records", status=204)
    assert (await it.get("/v1/curators/meter/records"))["rows"] == 0


BAD_CSV = [
    ("", BadRecords),
    ("a,a\n1,2\n", BadRecords),
    ("a,\n1,2\n", BadRecords),
    ("a,b\n1\n", MalformedRow),
    ("a,b\n1,secret\n", MalformedRow),
    ("a,b\n1,nan\n", MalformedRow),
    ("a,b\n1,1_000\n", MalformedRow),
    ("a,b\n1,\uff11\n", MalformedRow),
    ("a,b\n1,1e-400\n", MalformedRow),
    ('a,b\n1,"2\n', MalformedRow),
]


@pytest.mark.parametrize(("text", "error"), BAD_CSV)
def test_a_table_that_cannot_be_read(text: str, error: type[Exception]) -> None:
    with pytest.raises(error) as found:
        read_csv(text.encode())
    assert "secret" not in str(found.value)


async def test_a_table_is_its_owners(it: Site) -> None:
    await it.enrol("other")
    made = await it.request("POST", "/v1/tokens", {"scope": "curator", "subject": "other"}, 201)
    headers = {"Authorization": f"Bearer {made['token']}"}
    body = {"curator": "meter", "columns": ["a"], "rows": [[1]]}
    await it.request("POST", "/v1/records", body, 403, headers=headers)
    await it.request("POST", "/v1/records", {**body, "curator": "other"}, headers=headers)


async def test_a_statistic_of_a_register_over_hours_of_the_day(it: Site) -> None:
    for minute, value in ((0, "1"), (30, "2"), (60, "4"), (-24 * 60, "8")):
        await it.reading("meter", value, minute)
    hour = START.hour
    window = Window(start=START, end=START + timedelta(days=1))
    expected = {"sum": 7.0, "mean": 7 / 3, "min": 1.0, "max": 4.0}
    async with part_of(it.app, Database).reading() as transaction:
        for statistic, value in expected.items():
            column = RegisterStatistic.model_validate_json(
                json.dumps({"register": "energy_import", "statistic": statistic})
            )
            (row,) = (await load_rows(transaction, [column], window, (0, 10))).values()
            assert row.tolist() == [[pytest.approx(value)]]
        narrow = {"register": "energy_import", "statistic": "sum", "hours": [hour, hour + 1]}
        column = RegisterStatistic.model_validate_json(json.dumps(narrow))
        (row,) = (await load_rows(transaction, [column], window, (0, 10))).values()
        assert row.tolist() == [[3.0]]


def test_of_too_many_rows_the_same_are_chosen_for_the_whole_job() -> None:
    rows = np.arange(40.0).reshape(20, 2)
    question = RowQuestion(("a", "b"), SUM, b"s" * 32)
    chosen = question.chosen(7, rows, 3)
    assert len(chosen) == 3
    assert (question.chosen(7, rows, 3) == chosen).all()
    other = RowQuestion(("a", "b"), SUM, b"t" * 32).chosen(7, rows, 3)
    assert not (other == chosen).all()


def test_a_curator_without_rows_contributes_zeros() -> None:
    _, query = step_and_query()
    window = RecordWindow(RowQuestion(("a", "b"), SUM, b"s" * 32), {2: np.array(ROWS)})
    rows = window.of(1, np.array([True, True, False]))
    found = rows.encoded(query)
    assert rows.count == 2
    assert found.values[0].tolist() == [0] * 16
    assert found.values[1].sum() == len(ROWS)
