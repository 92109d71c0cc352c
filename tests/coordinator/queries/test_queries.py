"""Queries: what is refused and why, what is immutable, and what a preview says."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator import queries
from coordinator.errors import QueryRefused
from coordinator.queries import check_query
from coordinator.settings import CoordinatorSettings
from tacit.query.fields import Schedule
from tacit.query.query import Query
from tests.coordinator.conftest import Houses
from tests.coordinator.double import NOISY, pointers, problem, query

TWO_LAYER: dict[str, Any] = {
    "mechanism": "two-layer",
    "epsilon_u": "1",
    "epsilon_s": "1",
    "pr_u": "1",
    "pr_s": "1",
}
SHAMIR: dict[str, Any] = {"sharing": "shamir", "aggregators": 5, "threshold": 3}

BAD: list[tuple[dict[str, Any], str]] = [
    # one for each place of a rule; all rules: tests/tacit/query
    ({"function": "median"}, "/function"),
    ({"bounds": ["0", 5]}, "/bounds/1"),
    ({**NOISY, "epsilon": None}, "/epsilon"),
    ({**TWO_LAYER, "pr_u": "1.5"}, "/pr_u"),
    ({**SHAMIR, "threshold": 2}, "/threshold"),
    ({**NOISY, "collusion": {"curators": 0, "aggregators": 3}}, "/collusion"),
    ({**SHAMIR, "validity": "proved"}, "/sharing"),
    ({"validity": "proved", "resolution": "1e-9", "max_readings": 10**6, "n_max": 5},
     "/resolution"),
    ({"bounds": ["0", "1000000"], "max_readings": 1000, "resolution": "0.000001",
      "n_max": 10_000_000}, "/n_max"),
    ({"window": {"start": "yesterday", "end": "2026-01-01T00:00:00Z"}}, "/window/start"),
    ({"surprise": 1}, "/surprise"),
]  # fmt: skip
UNSUITED: list[tuple[dict[str, Any], str]] = [
    ({"unit": "W"}, "/unit"),
    ({"register": "power_import"}, "/unit"),
    ({"register": "1-0:1.8.0"}, "/register"),
    ({"register": "1-0:77.8.0"}, "/register"),
]


async def test_a_query_whose_unit_is_not_its_registers_is_refused(house: Houses) -> None:
    async with house(0) as it:
        for changes, pointer in UNSUITED:
            for path in ("/v1/queries", "/v1/queries/preview"):
                answer = await it.ask("POST", path, query(**changes))
                assert problem(answer) == (422, "query_refused"), (changes, answer.text)
                assert pointers(answer) == [pointer]
        own = query(register="steam", unit="W")  # nothing is known of it here
        assert (await it.ask("POST", "/v1/queries/preview", own)).status_code == 200


async def test_a_bad_field_is_named(house: Houses) -> None:
    async with house(0) as it:
        for changes, pointer in BAD:
            for path in ("/v1/queries", "/v1/queries/preview"):
                answer = await it.ask("POST", path, query(**changes))
                assert problem(answer) == (422, "bad_parameter"), (changes, answer.text)
                assert pointer in pointers(answer), (changes, answer.text)
        assert (await it.ask("GET", "/v1/queries")).json() == {"queries": []}


async def test_exact_is_refused_by_default(house: Houses) -> None:
    async with house(0, exact_rule=None) as it:
        answer = await it.ask("POST", "/v1/queries", query())
        assert problem(answer) == (403, "exact_refused")
        assert pointers(answer) == ["/mechanism"]


async def test_paper_is_refused_where_the_deployment_says_so(house: Houses) -> None:
    asked = query(**{**TWO_LAYER, "pr_u": "0.5", "stance": "paper"})
    async with house(0, allow_paper=False) as it:
        answer = await it.ask("POST", "/v1/queries", asked)
        assert problem(answer) == (403, "paper_refused")
        assert pointers(answer) == ["/stance"]
        await it.restart(allow_paper=True)
        assert (await it.ask("POST", "/v1/queries", asked)).status_code == 201


async def test_what_is_not_proved_is_refused_where_the_deployment_demands_proofs(
    house: Houses,
) -> None:
    """At preview and creation; whatever keeps it from being proved. Queries that exist stay."""
    proved = {**NOISY, "validity": "proved"}
    below: list[dict[str, Any]] = [NOISY, {**TWO_LAYER, "pr_u": "0.5", "stance": "paper"}]
    async with house(0) as it:
        made = await it.ask("POST", "/v1/queries", query(**NOISY))
        assert made.status_code == 201
        await it.restart(require_validity="proved")
        for path in ("/v1/queries", "/v1/queries/preview"):
            for changes in below:
                answer = await it.ask("POST", path, query(**{**changes, "name": "below"}))
                assert problem(answer) == (403, "proof_required"), answer.text
                assert pointers(answer) == ["/validity"]
            answer = await it.ask("POST", path, query(**proved))
            assert answer.status_code == (200 if "preview" in path else 201), answer.text
        assert len((await it.ask("GET", "/v1/queries")).json()["queries"]) == 2
        assert (await it.ask("GET", f"/v1/queries/{made.json()['id']}")).status_code == 200


async def test_sound_refuses_with_figures(house: Houses) -> None:
    async with house(0) as it:
        asked = query(**{**TWO_LAYER, "pr_u": "0.5", "pr_s": "0.5"})
        answer = await it.ask("POST", "/v1/queries", asked)
        assert problem(answer) == (422, "query_refused")
        assert pointers(answer) == ["/delta"]
        assert "delta is 0." in answer.json()["detail"]
        assert "epsilon" in answer.json()["detail"]
        assert "above the declared 0" in answer.json()["detail"]


async def test_aggregators_of_one_operator_are_one(house: Houses) -> None:
    asked = Query.model_validate_json(json.dumps(query(**NOISY)))
    settings = CoordinatorSettings()
    check_query(asked, settings, ("a", "b", "c"))
    with pytest.raises(QueryRefused):
        check_query(asked, settings, ("a", "a", "a"))


async def test_the_same_content_is_the_same_query(house: Houses, database_url: str) -> None:
    async with house(0, database_url) as it:
        asked = query(**NOISY)
        assert (await it.ask("POST", "/v1/queries/preview", asked)).json()["error"]
        assert (await it.ask("GET", "/v1/queries")).json() == {"queries": []}
        answers = await asyncio.gather(*(it.ask("POST", "/v1/queries", asked) for _ in range(4)))
        assert sorted(item.status_code for item in answers) == [200, 200, 200, 201]
        assert len({item.content for item in answers}) == 1
        first = answers[0].json()
        assert answers[0].headers["location"] == f"/v1/queries/{first['id']}"
        other = await it.ask("POST", "/v1/queries", {**asked, "name": "other"})
        assert other.json()["id"] != first["id"]
        assert other.json()["hash"] != first["hash"]
        assert (await it.ask("GET", f"/v1/queries/{first['id']}")).json() == first
        assert problem(await it.ask("GET", "/v1/queries/nothing")) == (404, "unknown_query")
        assert first["query"]["epsilon"] == "1"
        assert first["preview"]["subject"]["id"] == first["id"]
        assert first["preview"]["verified"]
        listed = await it.ask("GET", "/v1/queries?limit=1")
        assert listed.json()["queries"] == [first]
        following = listed.links["next"]["url"]
        assert (await it.ask("GET", following)).json()["queries"] == [other.json()]


async def test_a_preview_of_a_proved_query_says_how_far_a_lie_reaches(house: Houses) -> None:
    async with house(0) as it:
        declared, proved = [
            (await it.ask("POST", "/v1/queries/preview", query(**NOISY, **changes))).json()
            for changes in ({}, {"validity": "proved"})
        ]
        assert declared["validity"]["sentences"] == [
            "A lying curator shifts the sum by any amount."
        ]
        assert proved["validity"]["kind"] == "proved"
        (sum_part,) = proved["validity"]["influence"]
        assert sum_part["part"] == "sum"
        assert "at most" in proved["validity"]["sentences"][0]
        assert proved["verified"] == declared["verified"]
        clamped = query(**NOISY, layer="both", validity="proved", noise_tail="1e-9")
        for path in ("/v1/queries", "/v1/queries/preview"):
            answer = await it.ask("POST", path, clamped)
            assert problem(answer) == (422, "query_refused")
            assert pointers(answer) == ["/delta"]
        found = (await it.ask("POST", path, {**clamped, "delta": "1e-8"})).json()
        assert float(found["verified"][-1]["delta"]) == pytest.approx(3.718281828459e-9)
        assert found["charged"]["delta"] == found["verified"][-1]["delta"]


async def test_a_preview_says_that_too_few_aggregators_are_paired(house: Houses) -> None:
    """A query may be made before its aggregators are paired; who looks first is told."""
    async with house(2) as it:
        answer = await it.ask("POST", "/v1/queries/preview", query(aggregators=3))
        assert problem(answer) == (409, "not_enough_aggregators")
        assert pointers(answer) == ["/aggregators"]
        assert "asks for 3 aggregators, and 2 are paired" in answer.json()["detail"]
        assert (await it.ask("POST", "/v1/queries", query(aggregators=3))).status_code == 201
        assert (await it.ask("POST", "/v1/queries/preview", query(aggregators=2))).is_success


async def test_a_retry_with_its_key_gets_the_first_answer(house: Houses) -> None:
    async with house(0) as it:
        key = {"Idempotency-Key": "one"}
        first = await it.ask("POST", "/v1/queries", query(), headers=key)
        again = await it.ask("POST", "/v1/queries", query(), headers=key)
        assert (again.status_code, again.content) == (201, first.content)
        assert again.headers["idempotency-replayed"] == "true"


START = datetime(2026, 1, 1, tzinfo=UTC)
HOURLY = Schedule(period_s=3600, first_start=START)


@pytest.mark.parametrize(
    ("after_s", "count"), [(-7200, 0), (-1, 0), (0, 0), (3599, 0), (3600, 1), (7199, 1), (7200, 2)]
)
def test_a_period_is_over_with_its_last_moment(after_s: int, count: int) -> None:
    assert queries.periods_over(HOURLY, START + timedelta(seconds=after_s)) == count


@given(st.integers(60, 366 * 86_400), st.integers(0, 100), st.integers(0, 10**8))
def test_periods_follow_one_another(period_s: int, number: int, now_s: int) -> None:
    schedule = Schedule(period_s=period_s, first_start=START)
    window = queries.period_window(schedule, number)
    assert window.end == queries.period_window(schedule, number + 1).start
    now = START + timedelta(seconds=now_s)
    assert (queries.periods_over(schedule, now) > number) == (window.end <= now)


def test_nothing_ends_beyond_the_years_of_an_instant() -> None:
    late = Schedule(period_s=3600, first_start=datetime(9899, 12, 31, 23, 30, tzinfo=UTC))
    with pytest.raises(ValueError, match="9899"):
        queries.period_window(late, 0)
