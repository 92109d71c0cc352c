"""Texts of rounds at rest: packed against the first round of their query, the same on the wire."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from common.store.columns import packs
from common.store.transactions import Database
from common.web.dependencies import part_of
from coordinator.store import rounds as store
from coordinator.store.tables import queries, rounds
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, query

SHOWN = ("descriptor", "transcript", "report", "result")
ASKED = query(mechanism="distributed", epsilon="0.5")


async def shown(it: House, round_id: str) -> dict[str, bytes]:
    answers = {name: await it.ask("GET", f"/v1/rounds/{round_id}/{name}") for name in SHOWN}
    assert {answer.status_code for answer in answers.values()} == {200}
    return {name: answer.content for name, answer in answers.items()}


async def stored(it: House) -> dict[str, Any]:
    async with part_of(it.app, Database).reading() as transaction:
        return {row.id: row for row in await transaction.execute(select(rounds))}


async def test_later_rounds_are_packed_against_the_first_and_read_as_they_were(
    house: Houses,
) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 3)
        aborted = await it.open(ASKED)
        assert (await it.finish(aborted, by="abort"))["state"] == "aborted"
        async with part_of(it.app, Database).reading() as transaction:
            assert (await transaction.execute(select(queries.c.sample))).scalar_one() is None
        done = [(await it.released(host, ASKED)).id for _ in range(3)]
        kept, before = await stored(it), {name: await shown(it, name) for name in done}
        assert packs(part_of(it.app, Database).dialect)
        assert [kept[name].sample for name in done] == [None, done[0], done[0]]
        for name in done[1:]:
            assert len(kept[name].report) < len(before[name]["report"]) / 10
            assert len(kept[name].transcript) < len(before[name]["transcript"]) / 2
        # in another process, which has no sample at hand
        store._samples.clear()
        await it.restart()
        assert {name: await shown(it, name) for name in done} == before
        listed = (await it.ask("GET", "/v1/rounds?state=released")).json()["rounds"]
        assert {item["id"] for item in listed} == set(done)
