"""What curators and analysts poll: descriptors, pages, tags, long polls."""

from __future__ import annotations

import asyncio
from typing import Any

from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.store import rounds as store
from tacit.protocol.round.state import RoundState
from tests.coordinator.conftest import Houses
from tests.coordinator.double import NOISY, House, integers, query


async def get(it: House, path: str, tag: str | None = None, token: str | None = None) -> Any:
    headers = {} if tag is None else {"If-None-Match": tag}
    more = {} if token is None else {"token": token}
    return await it.ask("GET", path, headers=headers, **more)


async def copies(it: House, count: int) -> list[str]:
    """Stored rounds that nobody conducts."""
    first = (await it.ask_for(query()))["id"]
    await it.ask("POST", f"/v1/rounds/{first}/abort")
    names = []
    database = part_of(it.app, Database)
    async with database.begin() as transaction:
        row = await store.find(transaction, first)
        assert row is not None
        for index in range(count):
            name = f"ffffffff-0000-7000-8000-{index:012x}"
            await store.add(
                transaction,
                name,
                row.query_id,
                row.opened,
                row.deadline,
                row.descriptor,
                row.summary,
                None,
            )
            await store.change(transaction, name, RoundState.OPEN, state=RoundState.ABORTED)
            names.append(name)
    return names


async def test_a_curator_waits_for_a_round(house: Houses) -> None:
    async with house() as it:
        await it.host("gateway", 3)
        token = await it.token("curator")
        empty = await get(it, "/v1/rounds?state=open", token=token)
        assert (empty.status_code, empty.json()) == (200, {"rounds": []})
        tag = empty.headers["etag"]
        same = await get(it, "/v1/rounds?state=open&wait_s=0.2", tag, token)
        assert same.status_code == 304
        assert same.headers["etag"] == tag
        waiting = [
            asyncio.create_task(get(it, "/v1/rounds?state=open&wait_s=20", tag, token)),
            asyncio.create_task(get(it, "/v1/rounds?state=open&wait_s=20", None, token)),
        ]
        opened = await it.ask_for(query())
        answers = await asyncio.gather(*waiting)
        for answer in answers:
            shown = answer.json()["rounds"]
            assert [item["statement"]["round"] for item in shown] == [opened["id"]]
        assert (await get(it, "/v1/rounds?state=open&wait_s=31")).status_code == 422


async def test_nobody_sees_a_round_that_too_few_aggregators_know(house: Houses) -> None:
    async with house() as it:
        await it.host("gateway", 3)
        it.wires[2].fault = lambda method, path: "request" if method == "POST" else None
        opened = (await it.ask_for(query()))["id"]
        await it.wires[2].heard("/v1/rounds")
        assert (await get(it, "/v1/rounds?state=open")).json() == {"rounds": []}
        assert (await get(it, "/v1/rounds")).json()["rounds"][0]["id"] == opened
        it.wires[2].fault = lambda method, path: None
        assert len((await get(it, "/v1/rounds?state=open&wait_s=10")).json()["rounds"]) == 1


async def test_a_round_is_followed_by_its_tag(house: Houses) -> None:
    async with house() as it:
        host = await it.host("gateway", 3)
        opened = await it.open(query())
        path = f"/v1/rounds/{opened.id}"
        first = await get(it, path)
        assert first.json()["state"] == "open"
        assert first.json()["descriptor_hash"] == opened.descriptor.digest().hex()
        assert (await get(it, path, first.headers["etag"])).status_code == 304
        waiting = asyncio.create_task(get(it, f"{path}?wait_s=20", first.headers["etag"]))
        await opened.contribute(host, integers(3))
        assert (await waiting).json()["state"] in ("frozen", "committed", "released")
        await it.finish(opened)
        for name in ("descriptor", "result", "report", "transcript"):
            whole = await get(it, f"{path}/{name}")
            assert whole.status_code == 200
            known = await get(it, f"{path}/{name}", whole.headers["etag"])
            assert (known.status_code, known.content) == (304, b"")


async def test_rounds_come_in_pages_of_heads(house: Houses) -> None:
    async with house() as it:
        names = await copies(it, 12)

        async def listed(following: str | None) -> list[str]:
            found: list[str] = []
            while following is not None:
                answer = await get(it, following)
                found += [item["id"] for item in answer.json()["rounds"]]
                following = answer.links.get("next", {}).get("url")
            return found

        found = await listed("/v1/rounds?state=aborted&limit=5")
        assert found[-12:] == names
        assert await listed("/v1/rounds?state=aborted&limit=5&newest_first=true") == found[::-1]
        query_id = (await get(it, f"/v1/rounds/{names[0]}")).json()["query_id"]
        assert len((await get(it, f"/v1/rounds?query_id={query_id}&limit=1")).json()["rounds"]) == 1
        assert (await get(it, "/v1/rounds?query_id=other")).json() == {"rounds": []}
        assert (await get(it, "/v1/rounds?state=lost")).status_code == 422


async def test_a_round_behind_a_full_page_changes_its_tag(house: Houses) -> None:
    async with house() as it:
        await it.host("gateway", 3)
        first = await it.open(query(name="a"))
        page = await get(it, "/v1/rounds?state=open&limit=1")
        tag = page.headers["etag"]
        waiting = asyncio.create_task(get(it, "/v1/rounds?state=open&limit=1&wait_s=20", tag))
        second = await it.open(query(name="b"))
        answer = await waiting
        assert answer.status_code == 200
        assert answer.json()["rounds"][0]["statement"]["round"] == first.id
        following = await get(it, answer.links["next"]["url"])
        assert following.json()["rounds"][0]["statement"]["round"] == second.id


async def test_a_list_tells_the_figures_of_results_and_the_times_of_steps(house: Houses) -> None:
    async with house() as it:
        host = await it.host("gateway", 20)
        opened = await it.open(query(**NOISY))
        [signed] = (await get(it, "/v1/rounds?state=open")).json()["rounds"]
        [head] = (await get(it, "/v1/rounds?state=open&form=head")).json()["rounds"]  # for people
        assert signed["statement"]["round"] == head["id"] == opened.id
        assert (head["state"], head["minimum"], head["figures"]) == ("open", 2, None)
        assert [step["step"] for step in head["steps"]] == ["opened", "announced"]
        assert (await get(it, "/v1/rounds?form=bitmap")).status_code == 422
        await opened.contribute(host, integers(20))
        await it.finish(opened)
        [head] = (await get(it, "/v1/rounds?newest_first=true")).json()["rounds"]
        found = await it.result(opened)
        [part] = found["report"]["error"]["parts"]
        promised = next(line for line in found["report"]["verified"] if line["key"] == "e")
        assert head["figures"] == {
            "result": found["result"],
            "interval": part["interval"],
            "guess": promised["guess"],
        }
        steps = [step["step"] for step in head["steps"]]
        assert steps == ["opened", "announced", "frozen", "committed", "released"]
        times = [step["at"] for step in head["steps"]]
        assert times == sorted(times)
