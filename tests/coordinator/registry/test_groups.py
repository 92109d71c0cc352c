"""Groups at the coordinator: declaring them, and rounds that sum one of them only."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from common.runtime.clock import Clock
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.registry import members
from coordinator.registry.members import GroupRequest
from tests.aggregator.double import Round, Sender
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, integers, pointers, problem, query


async def declare(it: House, name: str, curators: list[str], **more: object) -> None:
    answer = await it.ask("POST", "/v1/groups", {"name": name, "curators": curators, **more})
    assert answer.status_code == 201, answer.text


def named(host: str, *numbers: int) -> list[str]:
    return [f"{host}.{number}" for number in numbers]


async def deliver(opened: Round, host: Sender, values: np.ndarray, present: np.ndarray) -> None:
    """A host's batches of some of its curators, to every aggregator."""
    for index, body in opened.batches_of(host, values, present):
        answer = await opened.send_batch(host, index, body)
        assert answer.status_code == 201, answer.text


async def test_a_group_is_declared_once(house: Houses) -> None:
    async with house(0) as it:
        await it.host("gateway", 5)
        body = {"name": "feeder-1", "curators": named("gateway", 4, 1)}
        answer = await it.ask("POST", "/v1/groups", body)
        assert answer.status_code == 201
        assert answer.headers["location"] == "/v1/groups/feeder-1"
        shown = answer.json()
        assert (shown["name"], shown["parent"], shown["curators"]) == ("feeder-1", None, 2)
        again = await it.ask("POST", "/v1/groups", {**body, "curators": body["curators"][::-1]})
        assert (again.status_code, again.json()) == (200, shown)
        for other in ({"curators": named("gateway", 1)}, {"parent": "feeder-1"}):
            answer = await it.ask("POST", "/v1/groups", {**body, **other})
            assert problem(answer) == (409, "group_conflict")
        await declare(it, "a", named("gateway", 0))
        listed = (await it.ask("GET", "/v1/groups?limit=1")).json()["groups"]
        assert [item["name"] for item in listed] == ["a"]
        assert (await it.ask("GET", "/v1/groups/feeder-1")).json() == shown
        first = await it.ask("GET", "/v1/groups/feeder-1/curators?limit=1")
        assert first.json()["curators"] == [{"number": 1, "id": "gateway.1"}]
        path = first.links["next"]["url"]
        assert [item["id"] for item in (await it.ask("GET", path)).json()["curators"]] == [
            "gateway.4"
        ]
        for path in ("/v1/groups/none", "/v1/groups/none/curators"):
            assert problem(await it.ask("GET", path)) == (404, "unknown_group")


async def test_a_group_has_enrolled_curators_of_its_parent(house: Houses) -> None:
    async with house(0) as it:
        await it.host("gateway", 4)
        await it.host("gone", 2)
        await it.ask("DELETE", "/v1/parties/gone")
        body = {"name": "g", "curators": [*named("gateway", 0), "who", *named("gone", 1)]}
        answer = await it.ask("POST", "/v1/groups", body)
        assert problem(answer) == (422, "group_refused")
        assert pointers(answer) == ["/curators/1", "/curators/2"]
        answer = await it.ask("POST", "/v1/groups", {**body, "curators": ["who"] * 2})
        assert pointers(answer) == ["/curators/1"]
        answer = await it.ask("POST", "/v1/groups", {**body, "curators": []})
        assert pointers(answer) == ["/curators"]
        await declare(it, "substation", named("gateway", 0, 1, 2))
        inner = {"name": "feeder", "parent": "substation"}
        answer = await it.ask("POST", "/v1/groups", {**inner, "curators": named("gateway", 2, 3)})
        assert problem(answer) == (422, "group_refused")
        assert pointers(answer) == ["/parent"]
        assert answer.json()["count"] == 1
        assert "gateway" not in answer.text
        answer = await it.ask(
            "POST", "/v1/groups", {**inner, "parent": "no", "curators": named("gateway", 0)}
        )
        assert problem(answer) == (404, "unknown_group")
        await declare(it, "feeder", named("gateway", 1, 2), parent="substation")


async def test_a_member_that_left_does_not_change_its_group(house: Houses) -> None:
    async with house(0) as it:
        await it.enrol(it.federation.sender("alone"))
        await it.host("gateway", 2)
        body = {"name": "g", "curators": ["alone", "gateway.1"]}
        assert (await it.ask("POST", "/v1/groups", body)).status_code == 201
        await it.ask("DELETE", "/v1/parties/alone")
        assert (await it.ask("POST", "/v1/groups", body)).status_code == 200


async def test_a_round_of_a_group_sums_the_group(house: Houses) -> None:
    """It waits for nobody else, takes nothing from anybody else, and charges nobody else."""
    async with house(3) as it:
        host = await it.host("gateway", 20)
        lone = await it.enrol(it.federation.sender("alone"))
        other = await it.enrol(it.federation.sender("other"))
        await declare(it, "feeder", ["alone", *named("gateway", *range(5, 15))])
        opened = await it.open(query(group="feeder", n_max=20))  # the roster is larger
        invited = opened.descriptor.invited()
        assert invited is not None
        assert set(np.flatnonzero(invited)) == {lone.first, *range(5, 15)}
        values = integers(21)
        inside = np.zeros(20, np.bool_)
        inside[5:15] = True
        for index, words in enumerate(opened.split(values[:20])):
            (body,) = opened.batches(host, index, words)
            assert problem(await opened.send_batch(host, index, body)) == (409, "not_in_group")
        for index, words in enumerate(opened.split(values[:1])):
            piece = opened.piece(other, index, words[0])
            assert problem(await opened.send(other, index, piece)) == (409, "not_in_group")
        await deliver(opened, host, values[:20], inside)
        await opened.contribute(lone, values[20:])
        finished = await it.finish(opened)  # at once: everybody expected is there
        assert finished["state"] == "released", finished
        assert finished["participants"] == 11
        total = int(values[5:15].sum() + values[20].sum())
        assert Decimal((await it.result(opened))["result"]["sum"]) == Decimal(total) / 1000
        charged_by_name = {"alone": 1, "gateway.5": 1, "gateway.4": 0, "other": 0}
        for name, charges in charged_by_name.items():
            charged = (await it.ask("GET", f"/v1/budget/curators/{name}")).json()
            spent = charged["spent"]
            assert (spent["rounds"], spent["exact_answers"]) == (charges, charges), (name, charged)


async def test_a_query_of_a_group_that_nobody_declared(house: Houses) -> None:
    async with house(3) as it:
        await it.host("gateway", 3)
        created = (await it.ask("POST", "/v1/queries", query(group="none"))).json()["id"]
        window = {"start": "2025-12-31T23:00:00Z", "end": "2026-01-01T00:00:00Z"}
        answer = await it.ask("POST", "/v1/rounds", {"query_id": created, "window": window})
        assert problem(answer) == (404, "unknown_group")


@pytest.mark.slow
async def test_a_group_of_a_hundred_thousand(house: Houses) -> None:
    """The look-ups are in chunks, and what is stored is a bitmap."""
    count = 100_000
    async with house(0, enrolment_open_body_bytes=1 << 24) as it:
        sender = it.federation.sender("platform", [f"m{number}" for number in range(count)])
        answer = await it.send_enrolment(it.enrolment(sender, await it.grant(sender)))
        assert answer.status_code == 201, answer.text
        database, clock = part_of(it.app, Database), part_of(it.app, Clock)
        request = GroupRequest(name="odd", curators=sender.curators[1::2])
        async with database.begin() as transaction:
            row, new = await members.create(transaction, request, clock.now())
        assert new
        assert row.curators == count // 2
        assert len(row.members) < 1000
        async with database.begin() as transaction:
            invited = await members.invited(transaction, "odd", count + 7)
        bits = np.unpackbits(np.frombuffer(invited, np.uint8), bitorder="little")
        assert np.flatnonzero(bits).tolist() == list(range(1, count, 2))
