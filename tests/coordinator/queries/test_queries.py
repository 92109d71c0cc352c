"""Queries: what is refused and why, what is immutable, and what a preview says."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from coordinator.errors import QueryRefused
from coordinator.queries.queries import check_query
from coordinator.settings import CoordinatorSettings
from tacit.query.query import Query
from tests.coordinator.conftest import Houses
from tests.coordinator.double import pointers, problem, query

NOISY: dict[str, Any] = {
    "mechanism": "distributed",
    "epsilon": "1",
    "collusion": {"curators": 0, "aggregators": 2},
}
TWO_LAYER: dict[str, Any] = {
    "mechanism": "two-layer",
    "epsilon_u": "1",
    "epsilon_s": "1",
    "pr_u": "1",
    "pr_s": "1",
}
SHAMIR: dict[str, Any] = {"sharing": "shamir", "aggregators": 5, "threshold": 3}

BAD: list[tuple[dict[str, Any], str]] = [
    ({"unit": "furlong"}, "/unit"),
    ({"function": "median"}, "/function"),
    ({"bounds": ["5", "0"]}, "/bounds"),
    ({"bounds": ["0", 5]}, "/bounds/1"),
    ({"bounds": ["0", "NaN"]}, "/bounds/1"),
    ({"resolution": "0"}, "/resolution"),
    ({"max_readings": 0}, "/max_readings"),
    ({"mechanism": "trust-me"}, "/mechanism"),
    ({**NOISY, "epsilon": "0"}, "/epsilon"),
    ({**NOISY, "epsilon": "-1"}, "/epsilon"),
    ({**NOISY, "epsilon": None}, "/epsilon"),
    ({**NOISY, "epsilon": 1}, "/epsilon"),
    ({**NOISY, "delta": "1"}, "/delta"),
    ({**NOISY, "layer": "roof"}, "/layer"),
    ({**TWO_LAYER, "epsilon_u": "0"}, "/epsilon_u"),
    ({**TWO_LAYER, "pr_u": "1.5"}, "/pr_u"),
    ({**TWO_LAYER, "pr_s": "-0.1"}, "/pr_s"),
    ({**SHAMIR, "threshold": 6}, "/threshold"),
    ({**SHAMIR, "threshold": 2}, "/threshold"),
    ({**SHAMIR, "threshold": None}, "/threshold"),
    ({"threshold": 2}, "/threshold"),
    ({"aggregators": 1}, "/aggregators"),
    ({**NOISY, "collusion": {"curators": 0, "aggregators": 3}}, "/collusion"),
    ({"collusion": {"curators": 5, "aggregators": 0}, "min_participants": 5}, "/min_participants"),
    ({"n_max": 1}, "/n_max"),
    ({"validity": "sworn"}, "/validity"),
    ({**SHAMIR, "validity": "proved"}, "/sharing"),
    ({**NOISY, "validity": "proved", "stance": "paper"}, "/stance"),
    ({**NOISY, "validity": "proved", "noise_tail": "1e-9"}, "/noise_tail"),
    ({**TWO_LAYER, "noise_tail": "1e-9"}, "/noise_tail"),
    (
        {"validity": "proved", "resolution": "1e-9", "max_readings": 10**6, "n_max": 5},
        "/resolution",
    ),
    ({"function": "vector_sum", "dimension": 0, "l1_bound": "1"}, "/dimension"),
    ({"function": "histogram", "edges": ["0"]}, "/edges"),
    ({"deadline_s": 0}, "/deadline_s"),
    ({"window": {"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}}, "/window/end"),
    ({"window": {"start": "yesterday", "end": "2026-01-01T00:00:00Z"}}, "/window/start"),
    ({"schedule": {"period_s": 1, "first_start": "2026-01-01T00:00:00Z"}}, "/schedule/period_s"),
    ({"name": "no blanks"}, "/name"),
    ({"surprise": 1}, "/surprise"),
]


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


async def test_what_is_no_query_is_told(house: Houses) -> None:
    async with house(0) as it:
        assert problem(await it.ask("POST", "/v1/queries", b"{")) == (400, "malformed_body")
        answer = await it.ask("POST", "/v1/queries", b'{"n_max": NaN}')
        assert problem(answer) == (400, "malformed_body")
        answer = await it.client.post(
            "/v1/queries",
            content=b"x",
            headers={"Content-Type": "text/plain", "Authorization": "Bearer " + "x" * 40},
        )
        assert answer.status_code == 401
        answer = await it.ask("GET", "/v1/queries/nothing")
        assert problem(answer) == (404, "unknown_query")
        large = b" " * (9 * 1024 * 1024)
        assert problem(await it.ask("POST", "/v1/queries", large)) == (413, "body_too_large")


async def test_exact_is_refused_by_default(house: Houses) -> None:
    async with house(0, insecure_allow_exact=False) as it:
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
        again = await it.ask("GET", f"/v1/queries/{made.json()['id']}")
        assert again.status_code == 200


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


async def test_a_sum_that_could_wrap_is_refused(house: Houses) -> None:
    async with house(0) as it:
        asked = query(
            bounds=["0", "1000000"],
            max_readings=1000,
            resolution="0.000001",
            n_max=10_000_000,
        )
        answer = await it.ask("POST", "/v1/queries", asked)
        assert answer.status_code == 422
        assert pointers(answer) == ["/n_max"]
        assert "wrap" in answer.json()["errors"][0]["detail"]


async def test_the_same_content_is_the_same_query(house: Houses, database_url: str) -> None:
    async with house(0, database_url) as it:
        asked = query(**NOISY)
        answers = await asyncio.gather(*(it.ask("POST", "/v1/queries", asked) for _ in range(4)))
        assert sorted(item.status_code for item in answers) == [200, 200, 200, 201]
        assert len({item.content for item in answers}) == 1
        first = answers[0].json()
        assert answers[0].headers["location"] == f"/v1/queries/{first['id']}"
        other = await it.ask("POST", "/v1/queries", {**asked, "name": "other"})
        assert other.json()["id"] != first["id"]
        assert other.json()["hash"] != first["hash"]
        shown = await it.ask("GET", f"/v1/queries/{first['id']}")
        assert shown.json() == first
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


async def test_a_preview_stores_nothing(house: Houses) -> None:
    async with house(0) as it:
        answer = await it.ask("POST", "/v1/queries/preview", query(**NOISY))
        assert answer.status_code == 200
        assert answer.json()["error"]
        assert (await it.ask("GET", "/v1/queries")).json() == {"queries": []}


async def test_a_retry_with_its_key_gets_the_first_answer(house: Houses, database_url: str) -> None:
    async with house(0, database_url) as it:
        key = {"Idempotency-Key": "one"}
        first = await it.ask("POST", "/v1/queries", query(), headers=key)
        assert first.status_code == 201
        again = await it.ask("POST", "/v1/queries", query(), headers=key)
        assert (again.status_code, again.content) == (201, first.content)
        assert again.headers["idempotency-replayed"] == "true"
        other = await it.ask("POST", "/v1/queries", query(name="other"), headers=key)
        assert problem(other) == (422, "idempotency_key_reused")
        bad = await it.ask("POST", "/v1/queries", query(), headers={"Idempotency-Key": ""})
        assert problem(bad) == (400, "idempotency_key_malformed")


@pytest.mark.parametrize("function", ["sum", "count", "mean", "variance", "histogram"])
async def test_functions_are_accepted_with_noise(house: Houses, function: str) -> None:
    edges = {"edges": ["0", "1", "5"]} if function == "histogram" else {}
    async with house(0) as it:
        asked = query(function=function, resolution="0.01", **edges, **NOISY)
        answer = await it.ask("POST", "/v1/queries", asked)
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    ("changes", "pointer", "words"),
    [
        ({"epsilonn": "1"}, "/epsilonn", "no such field: did you mean epsilon?"),
        ({"min_participant": 3}, "/min_participant", "did you mean min_participants?"),
        ({"collusion": {"curator": 3}}, "/collusion/curator", "did you mean curators?"),
        ({"window": {"begin": "x"}}, "/window/begin", "no such field"),
        ({"zzz": 1}, "/zzz", "no such field"),
    ],
)
async def test_a_misspelt_field_gets_the_nearest_name(
    house: Houses, changes: dict[str, Any], pointer: str, words: str
) -> None:
    async with house(0) as it:
        answer = await it.ask("POST", "/v1/queries/preview", query(**changes))
        assert problem(answer) == (422, "bad_parameter")
        found = {each["pointer"]: each["detail"] for each in answer.json()["errors"]}
        assert found[pointer].endswith(words)
