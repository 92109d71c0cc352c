"""The ledger through the API: bounds, limits, refusals, and what a tampered store shows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import delete

from cli.budget import _print_limits
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator import examples
from coordinator.rounds.context import Conduct
from coordinator.store.tables import ledger_checkpoints, ledger_events
from tacit.sets import pack
from tacit.wire import encode_binary
from tests.coordinator.conftest import Houses
from tests.coordinator.double import OPERATOR_TOKEN, WINDOW, House, integers, problem, query

LOCAL: dict[str, Any] = {
    "mechanism": "local",
    "epsilon_i": "0.5",
    "sharing": "none",
    "aggregators": 1,
    "collusion": {"curators": 0, "aggregators": 1},
}


async def note(it: House, kind: str, curators: Sequence[str], **more: Any) -> httpx.Response:
    body = {"kind": kind, "curators": list(curators), **more}
    return await it.ask("POST", "/v1/budget/events", body)


async def happens(it: House, kind: str, curators: Sequence[str], **more: Any) -> None:
    answer = await note(it, kind, curators, **more)
    assert answer.status_code == 201, answer.text


def claims(found: dict[str, Any]) -> dict[str, tuple[str | None, bool | None]]:
    return {item["name"]: (item["epsilon"], item["applies"]) for item in found["claimed"]["bounds"]}


def disclosed(*readings: int) -> dict[str, Any]:
    return {
        "declared": {
            "epsilon": "1",
            "sensitivity": str(max(readings)),
            "largest_contribution": str(sum(readings)),
        },
        "disclosed": {
            "largest_reading": str(max(readings)),
            "total": str(sum(readings)),
            "readings": len(readings),
        },
    }


async def test_the_worked_example_event_by_event(house: Houses) -> None:
    """Spec: budget, sections 2 and 7, check 1."""
    async with house(0) as it:
        x_1, x_2, x_3 = [(await it.host(f"x{number}", 1)).curators[0] for number in (1, 2, 3)]
        assert (await it.read("/v1/budget"))["curators"]["undeclared"] == 3
        assert "declare no epsilon" in (await it.read("/v1/budget"))["claimed"]["reason"]
        await happens(it, "refreshed", [x_1], **disclosed(1, 2, 3, 4))
        await happens(it, "refreshed", [x_2], **disclosed(5, 6, 7, 8))
        await happens(it, "refreshed", [x_3], **disclosed(1, 1, 1, 27))
        found = await it.read("/v1/budget")
        assert claims(found) == {
            "max_epsilon": ("1", False),
            "sum_epsilon": ("3", True),
            "unconditional": ("2.7", True),
        }
        assert found["claimed"]["theorem_5_2"] == {
            "largest_total": "30",
            "limit": "156",
            "holds": True,
        }
        assert found["claimed"]["holds"]["record"] == "1"
        assert found["claimed"]["holds"]["curator"] == "3.25"

        await happens(it, "left", [x_3])
        two = {
            "max_epsilon": ("1", True),
            "sum_epsilon": ("2", True),
            "unconditional": ("0.8", True),
        }
        assert claims(await it.read("/v1/budget")) == two
        await happens(it, "non_compliant", [x_2])
        assert {value for value, _ in claims(await it.read("/v1/budget")).values()} == {"inf"}
        await it.restart()
        await happens(it, "cleansed", [x_2])
        assert claims(await it.read("/v1/budget")) == two
        await happens(it, "joined", [x_3])
        assert claims(await it.read("/v1/budget"))["unconditional"] == ("2.7", True)

        analyst = await it.token("analyst")
        public = (await it.ask("GET", "/v1/budget", token=analyst)).json()
        assert claims(public) == {
            "max_epsilon": ("1", None),
            "sum_epsilon": ("3", True),
            "unconditional": ("3", True),
        }
        assert public["claimed"]["theorem_5_2"] is None
        for private in ("27", "2.7", "156"):
            assert f'"{private}"' not in json.dumps(public)
        rows = (await it.ask("GET", "/v1/budget/events")).json()["events"]
        assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
        assert "27" not in [item.get("total") for item in rows]
        assert not any("largest_reading" in json.dumps(row) for row in rows)
        one = (await it.ask("GET", f"/v1/budget/curators/{x_3}")).json()
        assert one["disclosed"]["total"] == "30"
        assert one["refreshed"] == 1


async def test_a_local_query_stands_for_curators_that_declare_nothing(house: Houses) -> None:
    async with house(1) as it:
        await it.host("gateway", 4)
        created = (await it.ask("POST", "/v1/queries", query(**LOCAL))).json()
        found = await it.read("/v1/budget", query_id=created["id"])
        assert claims(found) == {
            "max_epsilon": ("0.5", None),
            "sum_epsilon": ("2", True),
            "unconditional": ("2", True),
        }
        below = query(**LOCAL, name="feeding-in", bounds=["-1", "5"])
        below_zero = (await it.ask("POST", "/v1/queries", below)).json()
        found = await it.read("/v1/budget", query_id=below_zero["id"])
        assert {value for value, _ in claims(found).values()} == {None}
        spread = query(**LOCAL, name="spread", function="variance", resolution="0.1")
        created = await it.ask("POST", "/v1/queries", spread)
        assert created.status_code == 201, created.text
        answer = await it.ask("GET", "/v1/budget", params={"query_id": created.json()["id"]})
        assert problem(answer) == (422, "bad_parameter")
        other = (await it.ask("POST", "/v1/queries", query())).json()
        answer = await it.ask("GET", "/v1/budget", params={"query_id": other["id"]})
        assert problem(answer) == (422, "bad_parameter")


NOISY: dict[str, Any] = {"mechanism": "distributed", "epsilon": "0.5"}


async def limited(it: House, *limits: dict[str, Any]) -> None:
    answer = await it.ask("PUT", "/v1/budget/limits", {"limits": list(limits)})
    assert answer.status_code == 200, answer.text


async def opening(it: House, query_id: str, window: dict[str, str] = WINDOW) -> httpx.Response:
    return await it.ask("POST", "/v1/rounds", {"query_id": query_id, "window": window})


LATER = {"start": "2026-11-03T18:00:00Z", "end": "2026-11-03T19:00:00Z"}


async def answered(client: httpx.AsyncClient, body: bytes) -> httpx.Response:
    """The answer to a request for a round. Who waited too long for others' locks asks again."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {OPERATOR_TOKEN}"}
    while True:
        answer = await client.post("/v1/rounds", content=body, headers=headers)
        if answer.status_code != 503:
            return answer
        assert answer.json()["retryable"] is True


async def test_two_rounds_at_one_instant_against_a_budget_for_one(
    house: Houses, database_url: str
) -> None:
    """Spec: budget, section 7, check 4, at the coordinator; also from two processes."""
    async with house(3, database_url) as it, it.replica() as (_, other):
        await it.host("gateway", 3)
        await limited(it, {"epsilon": "0.75"})
        created = (await it.ask("POST", "/v1/queries", query(**NOISY))).json()
        body = json.dumps({"query_id": created["id"], "window": WINDOW}).encode()
        answers = await asyncio.gather(
            *(answered(client, body) for client in (it.client, other, it.client, other))
        )
        assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409], [
            answer.text for answer in answers
        ]
        (won,) = [answer for answer in answers if answer.status_code == 201]
        for lost in answers:
            if lost is won:
                continue
            assert problem(lost) == (409, "budget_exceeded")
            (refusal,) = lost.json()["limits"]
            assert refusal["asked"]["epsilon"] == "0.5"
            assert refusal["spent"]["epsilon"] == "0.5"
            assert refusal["limit"]["epsilon"] == "0.75"
            assert refusal["curators"] == 3
            assert "gateway" not in lost.text
            assert refusal["rounds"] == [won.json()["id"]]
            assert refusal["windows"][0]["start"] == WINDOW["start"]


GAUSSIAN: dict[str, Any] = {
    "function": "vector_sum",
    "dimension": 4,
    "coordinates": "slots",
    "window_bound": "8",
    "noise": "gaussian",
    "rho": "0.0025",
    "epsilon": None,
    "resolution": "0.001",
}


async def test_gaussian_rounds_against_a_limit_in_zcdp(house: Houses) -> None:
    """(1, 10^-6) is rho 0.024355: of rounds of 0.0025 nine are opened, and no tenth."""
    async with house(3) as it:
        await it.host("gateway", 3)
        await limited(it, {"currency": "zcdp", "epsilon": "1", "delta": "0.000001"})
        body = query(**{**NOISY, **GAUSSIAN})
        asked = {name: value for name, value in body.items() if value is not None}
        created = (await it.ask("POST", "/v1/queries", asked)).json()
        for hour in range(9):
            start, end = (f"2026-11-01T{each:02}:00:00Z" for each in (hour, hour + 1))
            answer = await opening(it, created["id"], {"start": start, "end": end})
            assert answer.status_code == 201, answer.text
        (refusal,) = (await opening(it, created["id"], LATER)).json()["limits"]
        assert refusal["limit"]["currency"] == "zcdp"
        assert (refusal["asked"]["rho"], refusal["spent"]["rho"]) == ("0.0025", "0.0225")
        # The same debits, by their (epsilon, delta): also what a limit in epsilon sees.
        assert float(refusal["spent"]["epsilon"]) > 2


async def test_a_release_charges_who_came_and_an_abort_who_might_have(house: Houses) -> None:
    async with house(3) as it:
        host, late = await it.host("gateway", 4), await it.host("late", 2)
        opened = await it.open(query(**NOISY))
        assert (await it.read("/v1/budget"))["released"]["rounds"] == 1
        one = (await it.ask("GET", "/v1/budget/curators/late.0")).json()
        assert {row["key"]: row["epsilon"] for row in one["spent"]["curator"]}["e"] == "0.5"
        await opened.contribute(host, integers(4))
        assert (await it.finish(opened, by="close"))["state"] == "released"
        assert (await it.ask("GET", "/v1/budget/curators/late.1")).json()["spent"]["rounds"] == 0
        came = (await it.ask("GET", "/v1/budget/curators/gateway.3")).json()
        assert {row["key"]: row["epsilon"] for row in came["spent"]["curator"]}["e"] == "0.5"
        assert late.first == 64

        again = await it.open(query(**NOISY))
        assert (await it.finish(again, by="abort"))["state"] == "aborted"
        after = {
            row["key"]: row["epsilon"]
            for row in (await it.ask("GET", "/v1/budget/curators/late.1")).json()["spent"][
                "curator"
            ]
        }
        assert after["e"] == "0"  # all three aggregators signed that nothing was frozen


async def test_an_abort_without_enough_statements_is_a_debit(house: Houses) -> None:
    """Spec: budget, section 7, check 10, at the coordinator: t_s + 1 statements, and one fewer."""
    asked = query(**NOISY, collusion={"curators": 0, "aggregators": 2})
    async with house(3) as it:
        await it.host("gateway", 3)
        opened = await it.open(asked)
        it.wires[2].fault = lambda _, path: "request" if path.endswith("/abort") else None
        assert (await it.finish(opened, by="abort"))["state"] == "aborted"
        found = {row["key"]: row for row in (await it.read("/v1/budget"))["released"]["curator"]}
        assert found["e"]["epsilon"] == "0.5"
        it.wires[2].fault = lambda *_: None
        opened = await it.open(asked)
        await it.finish(opened, by="abort")
        found = {row["key"]: row for row in (await it.read("/v1/budget"))["released"]["curator"]}
        assert found["e"]["epsilon"] == "0.5"


async def test_windows_and_names_of_the_worst(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 3)
        await it.released(host, query(**NOISY))
        await it.released(host, query(**NOISY, name="other"))
        await it.released(host, query(**NOISY), window=LATER)
        found = await it.read("/v1/budget", delta="0.000001")
        record = {row["key"]: row for row in found["released"]["record"]}["e"]
        whole = {row["key"]: row for row in found["released"]["curator"]}["e"]
        assert whole["epsilon"] == "1.5"
        assert record["epsilon"] == "0.25"
        assert record["worst"]["instant"] == WINDOW["start"]
        assert whole["worst"]["curator"].startswith("gateway.")
        assert float(whole["tight"]["epsilon"]) <= 1.5
        everyone = {row["key"]: row for row in found["released"]["curator"]}["d"]
        assert (everyone["epsilon"], everyone["trust_model"]) == ("inf", "OC")
        public = await it.ask("GET", "/v1/budget", token=await it.token("analyst"))
        assert "worst" not in public.text


async def test_a_preview_says_what_would_happen_and_spends_nothing(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 3)
        created = (await it.ask("POST", "/v1/queries", query(**NOISY))).json()
        await limited(it, {"epsilon": "0.125", "unit": "record"})
        plan = {"query_id": created["id"], "window": WINDOW}
        seen = (await it.ask("POST", "/v1/budget/preview", plan)).json()
        assert (seen["allowed"], seen["curators"]) == (True, 3)
        assert {row["key"]: row["epsilon"] for row in seen["costs"]["curator"]}["e"] == "0.5"
        assert (await it.read("/v1/budget"))["released"]["rounds"] == 0
        await it.released(host, query(**NOISY))
        seen = (await it.ask("POST", "/v1/budget/preview", plan)).json()
        assert seen["allowed"] is False
        assert seen["refusals"][0]["spent"]["epsilon"] == "0.125"
        assert seen["refusals"][0]["blocked"] == [f"gateway.{index}" for index in range(3)]
        analyst = await it.ask("POST", "/v1/budget/preview", plan, await it.token("analyst"))
        assert "gateway" not in analyst.text
        assert problem(await opening(it, created["id"])) == (409, "budget_exceeded")
        seen = (await it.ask("POST", "/v1/budget/preview", {**plan, "window": LATER})).json()
        assert seen["allowed"] is True


async def test_the_past_and_how_long_the_limits_last(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 3)
        created = (await it.ask("POST", "/v1/queries", query(**NOISY))).json()
        await limited(it, {"epsilon": "3"}, {"epsilon": "0.125", "unit": "record"})
        await it.released(host, query(**NOISY))
        past = (await it.ask("GET", "/v1/budget/history")).json()
        assert [past["points"][-1][name] for name in ("epsilon", "rounds")] == ["0.5", 1]
        assert past["limit"]["epsilon"] == "3"
        early = {"to": "2020-01-01T00:00:00Z", "from": "2019-12-31T00:00:00Z", "step_s": 43200}
        past = (await it.ask("GET", "/v1/budget/history", params=early)).json()
        assert [point["epsilon"] for point in past["points"]] == ["0", "0", "0"]
        body: dict[str, Any] = {"queries": [{"query_id": created["id"], "period_s": 86400}]}
        found = (await it.ask("POST", "/v1/budget/outlook", body)).json()
        [schedule] = found["schedules"]
        assert (schedule["rounds"], schedule["epsilon"]) == (365, "0.5")
        whole, record = found["limits"]
        assert (whole["spent"]["epsilon"], whole["left"]) == ("0.5", "2.5")
        assert whole["exhausted"] is not None
        assert whole["points"][-1]["rounds"] == 5
        advice = {"every": 73, "share": "0.013", "epsilon": "0.0065", "rho": None}
        assert whole["advice"] == advice
        assert (record["exhausted"], record["advice"]) == (None, None)
        tried = {**body, "limits": [{"epsilon": "1000"}]}
        [wide] = (await it.ask("POST", "/v1/budget/outlook", tried)).json()["limits"]
        assert wide["exhausted"] is None
        in_rho = {"currency": "zcdp", "epsilon": "8", "delta": "0.000001"}
        [zcdp] = (await it.ask("POST", "/v1/budget/outlook", {**body, "limits": [in_rho]})).json()[
            "limits"
        ]
        # 0.5 tanh(0.25) is rho 0.122459332 a round: one was spent, seven more fit in 1.052358.
        assert (schedule["rho"], schedule["rho_delta"]) == ("0.122459332", "0")
        assert (zcdp["most"], zcdp["left"]) == ("1.052358004", "0.929898672")
        assert zcdp["points"][-1]["rounds"] == 7
        assert zcdp["advice"]["every"] == 49
        assert (zcdp["advice"]["epsilon"], zcdp["advice"]["rho"]) == (None, "0.002449186")
        assert (await it.ask("POST", "/v1/budget/outlook", {})).json()["schedules"] == []


BAD_COURSES: list[tuple[str, str, dict[str, Any], str]] = [
    ("GET", "history", {"step_s": "1", "from": "2020-01-01T00:00:00Z"}, "/step_s"),
    ("GET", "history", {"scenario": "nobody"}, "/scenario"),
    ("GET", "history", {"unit": "record", "period_s": "86400"}, "/period_s"),
    ("GET", "history", {"from": "2020-01-01T00:00:00"}, "/from"),
    ("POST", "outlook", {"days": 0}, "/days"),
    ("POST", "outlook", {"queries": [{"period_s": 60}]}, "/queries/0"),
    ("POST", "outlook", {"queries": [{"query_id": "QUERY"}]}, "/queries/0/period_s"),
    ("POST", "outlook", {"queries": [{"query_id": "QUERY", "period_s": 60}], "days": 3660},
     "/days"),
]  # fmt: skip


async def test_a_course_that_cannot_be_told_names_the_field(house: Houses) -> None:
    async with house(0) as it:
        created = (await it.ask("POST", "/v1/queries", query(**NOISY))).json()
        for method, path, asked, pointer in BAD_COURSES:
            body = json.loads(json.dumps(asked).replace("QUERY", created["id"]))
            more = {"params": asked} if method == "GET" else {"body": body}
            answer = await it.ask(method, f"/v1/budget/{path}", **more)
            assert answer.status_code == 422, answer.text
            assert [each["pointer"] for each in answer.json()["errors"]] == [pointer]


async def test_what_may_not_follow_is_refused_and_changes_nothing(house: Houses) -> None:
    async with house(0, allow_paper=False) as it:
        host = await it.host("gateway", 3)
        first = host.curators[0]
        before = (await it.read("/v1/budget"))["ledger"]
        refused = [
            (await note(it, "cleansed", [first]), (409, "event_refused")),
            (await note(it, "joined", [first]), (409, "event_refused")),
            (await note(it, "flagged", ["nobody"]), (404, "unknown_curator")),
            (await note(it, "refreshed", [first], **disclosed(1)), (403, "disclosure_refused")),
            (await note(it, "flagged", [first], **disclosed(1)), (422, "bad_parameter")),
            (await note(it, "exploded", [first]), (422, "bad_parameter")),
            (await it.ask("POST", "/v1/budget/events", {"kind": "left"}), (422, "bad_parameter")),
        ]
        for answer, wanted in refused:
            assert problem(answer) == wanted, answer.text
        assert (await it.read("/v1/budget"))["ledger"] == before


async def test_a_host_speaks_for_its_own_curators_only(house: Houses) -> None:
    async with house(0) as it:
        host = it.federation.sender("gateway", ["gateway.0", "gateway.1"])
        token = await it.enrolled(host)
        other = await it.host("other", 1)

        async def says(kind: str, curator: str) -> httpx.Response:
            body = {"kind": kind, "curators": [curator]}
            return await it.ask("POST", "/v1/budget/events", body, token)

        assert (await says("refreshed", "gateway.0")).status_code == 201
        assert problem(await says("flagged", "gateway.0")) == (403, "update_forbidden")
        assert problem(await says("refreshed", other.curators[0])) == (404, "unknown_curator")
        assert (await says("left", "gateway.1")).status_code == 201
        found = await it.read("/v1/budget")
        assert (found["curators"]["active"], found["curators"]["left"]) == (2, 1)
        mine = await it.ask("GET", "/v1/budget/curators/gateway.0", token=token)
        assert mine.json()["refreshed"] == 1
        theirs = await it.ask("GET", f"/v1/budget/curators/{other.curators[0]}", token=token)
        assert problem(theirs) == (404, "unknown_curator")
        rows = await it.ask("GET", "/v1/budget/events?curator=gateway.1")
        assert [row["kind"] for row in rows.json()["events"]] == ["joined", "left"]


async def test_who_left_alone_is_not_waited_for(house: Houses) -> None:
    async with house(3) as it:
        host, gone = await it.host("gateway", 3), await it.host("gone", 1)
        await happens(it, "left", gone.curators)
        opened = await it.released(host, query(**NOISY))
        assert (await it.result(opened))["participants"] == 3


async def test_who_left_comes_back_with_what_it_spent(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 3)
        await it.released(host, query(**NOISY))
        assert (await it.ask("DELETE", "/v1/parties/gateway")).status_code == 204
        assert (await it.read("/v1/budget"))["curators"]["left"] == 3
        back = await it.ask("POST", "/v1/parties/gateway/return")
        assert back.status_code == 200
        assert problem(await it.ask("POST", "/v1/parties/gateway/return"))[0] == 404
        one = await it.ask("GET", "/v1/budget/curators/gateway.0", token=back.json()["token"])
        assert one.json()["spent"]["rounds"] == 1
        assert one.json()["status"] == "active"


async def test_who_was_enrolled_later_may_say_that_it_was_in_a_round(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 3)
        done = await it.released(host, query(**NOISY))
        late = it.federation.sender("late", ["late.0", "late.1"])
        token = await it.enrolled(late)
        said = {"members": encode_binary(pack(np.array([False, True])))}
        path = f"/v1/rounds/{done.id}/acknowledgement"
        assert (await it.ask("PUT", path, said, token)).status_code == 204
        answer = await it.ask("GET", f"/v1/budget/rounds/{done.id}")
        assert answer.status_code == 200
        assert answer.json()["debited_but_not_charged"] == {"curators": 1, "some": ["late.1"]}
        wrong = await it.ask("PUT", path, {"members": "AAAA"}, token)
        assert problem(wrong) == (422, "bad_parameter")


NOBODY = "019a0c2e-8f00-7000-8000-000000000001"


async def test_several_parties_say_at_once_what_they_debited(house: Houses) -> None:
    async with house(3) as it:
        tokens, hosts = [], []
        for name in ("gateway", "other"):
            host = it.federation.sender(name, [f"{name}.{index}" for index in range(3)])
            tokens.append(await it.enrolled(host))
            hosts.append(host)
        rounds = []
        for _ in range(2):
            opened = await it.open(query(**NOISY))
            for host in hosts:
                await opened.contribute(host, integers(3))
            rounds.append((await it.finish(opened))["id"])

        def said(token: str, *members: bool, place: int = 0) -> dict[str, str]:
            return {
                "round": rounds[place],
                "token": token,
                "members": encode_binary(pack(np.array(members))),
            }

        body = {
            "reports": [
                said(tokens[0], True, False, False),
                said(tokens[1], True, True, False),
                said("tct_curator_unknown", True, True, True),
                said(await it.token("analyst"), True, True, True),
                {"round": rounds[0], "token": tokens[1], "members": "AAAA"},
                {**said(tokens[0], True, True, True), "round": NOBODY},
                said(tokens[1], False, True, True, place=1),
            ]
        }
        assert problem(await it.ask("PUT", "/v1/acknowledgements", body)) == (403, "scope_missing")
        answer = await it.ask("PUT", "/v1/acknowledgements", body, tokens[0])
        assert answer.status_code == 200
        assert not any(token in answer.text for token in tokens)
        assert [(item["status"], item.get("problem")) for item in answer.json()] == [
            (204, None),
            (204, None),
            (401, "token_unknown"),
            (403, "scope_missing"),
            (422, "bad_parameter"),
            (404, "unknown_round"),
            (204, None),
        ]
        found = (await it.ask("GET", f"/v1/budget/rounds/{rounds[0]}")).json()
        assert found["acknowledged_by"] == ["gateway", "other"]
        assert (found["charged"], found["acknowledged"]) == (6, 3)
        left_out = ["gateway.1", "gateway.2", "other.2"]
        assert found["charged_but_not_debited"] == {"curators": 3, "some": left_out}
        assert found["debited_but_not_charged"]["curators"] == 0
        other = (await it.ask("GET", f"/v1/budget/rounds/{rounds[1]}")).json()
        assert (other["acknowledged_by"], other["acknowledged"]) == (["other"], 2)


async def tamper(it: House, statement: Any) -> dict[str, Any]:
    async with part_of(it.app, Database).begin() as transaction:
        await transaction.execute(statement)
    return await it.read("/v1/budget/verification")


async def until(it: House, *, ready: bool) -> None:
    """Wait for the answer of the readiness probe; what a start took from a checkpoint is verified
    while it serves."""
    async with asyncio.timeout(60):
        while ((await it.client.get("/readyz")).status_code == 200) != ready:
            await asyncio.sleep(0.02)


async def test_a_tampered_ledger_is_found_and_named(house: Houses) -> None:
    """Spec: budget, section 7, checks 2 and 11; rows edited, removed and moved: test_ledger."""
    async with house(3) as it:
        host = await it.host("gateway", 3)
        for kind in ("flagged", "reinstated", "non_compliant", "cleansed", "refreshed"):
            await happens(it, kind, ["gateway.1"])
        await it.released(host, query(**NOISY))
        await part_of(it.app, Conduct).ledger.checkpoint()
        assert (await it.ask("GET", "/v1/budget/verification")).json()["verified"] is True
        # The checkpoint goes too: the round's descriptor still carries a head.
        await tamper(it, delete(ledger_checkpoints))
        found = await tamper(it, delete(ledger_events).where(ledger_events.c.seq >= 3))
        assert found["verified"] is False
        assert found["broken"]["row"] == 3
        for _ in range(2):  # the second start does not trust the checkpoint any more
            await it.restart()
            await until(it, ready=False)
            assert problem(await note(it, "flagged", ["gateway.0"])) == (503, "ledger_broken")


async def test_metrics_are_coarse_and_name_nobody(house: Houses) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 3)
        await happens(it, "flagged", ["gateway.1"])
        await it.released(host, query(**NOISY))
        await it.read("/v1/budget")
        text = (await it.client.get("/metrics")).text
        assert 'tacit_coordinator_budget_curators{status="flagged"} 1.0' in text
        assert 'tacit_coordinator_budget_spent_epsilon{unit="curator"} 0.5' in text
        assert 'tacit_coordinator_budget_spent_epsilon{unit="record"} 0.2' in text
        assert "gateway" not in text


async def test_which_limits_hold_for_a_curator(house: Houses) -> None:
    """Its own, and those of the deployment, each by name."""
    async with house(3) as it:
        await it.enrol(it.federation.sender("host", ["meter-0007"]))
        own = "/v1/budget/curators/meter-0007"
        await limited(it, {"unit": "curator", "epsilon": "12"})
        shown = (await it.ask("GET", own)).json()
        assert (shown["limits"], len(shown["deployment_limits"])) == ([], 1)
        body = {"limits": [{"unit": "record", "epsilon": "2"}]}
        assert (await it.ask("PUT", f"{own}/limits", body)).status_code == 200
        shown = (await it.ask("GET", own)).json()
        assert [item["epsilon"] for item in shown["limits"]] == ["2"]
        assert [item["epsilon"] for item in shown["deployment_limits"]] == ["12"]
        for path in ("/v1/budget/limits", f"{own}/limits"):
            assert (await it.ask("PUT", path, examples.LIMITS)).status_code == 200
        assert (await it.ask("GET", "/v1/budget/limits")).json()["limits"][0]["epsilon"] == "12"


def test_the_limits_that_hold_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    plain = {"scenario": "assumed", "currency": "epsilon"}
    _print_limits([{**plain, "unit": "curator", "epsilon": "12"}], [])
    assert "limit of the deployment: unit curator, assumed: epsilon 12" in capsys.readouterr().out
    _print_limits([], [{**plain, "unit": "record", "epsilon": "2"}])
    assert "limit of this curator: unit record, assumed: epsilon 2" in capsys.readouterr().out
    zcdp = {"unit": "curator", "scenario": "assumed", "currency": "zcdp"}
    _print_limits([{**zcdp, "epsilon": "8", "delta": "0.000001"}], [])
    printed = " ".join(capsys.readouterr().out.split())
    assert "assumed: epsilon 8, delta 0.000001 in zcdp" in printed
    _print_limits([], [])
    assert "limits: none" in capsys.readouterr().out
