"""Texts of rounds at rest: packed against the first round of their query, the same on the wire."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select, update

from common.store.texts import packs
from common.store.transactions import Database
from common.web.parts import part_of
from coordinator.store import rounds as store
from coordinator.store.tables import queries, rounds
from tests.coordinator.conftest import Houses
from tests.coordinator.double import House, integers, query

SHOWN = ("descriptor", "transcript", "report")
ASKED = query(mechanism="distributed", epsilon="0.5")


async def shown(it: House, round_id: str) -> dict[str, bytes]:
    answers = {name: await it.ask("GET", f"/v1/rounds/{round_id}/{name}") for name in SHOWN}
    assert {answer.status_code for answer in answers.values()} == {200}
    return {name: answer.content for name, answer in answers.items()}


async def stored(it: House) -> dict[str, Any]:
    async with part_of(it.app, Database).reading() as transaction:
        return {row.id: row for row in await transaction.execute(select(rounds))}


async def test_later_rounds_are_packed_against_the_first_and_read_as_they_were(
    house: Houses, database_url: str
) -> None:
    async with house(3, database_url) as it:
        host, done = await it.host("gateway", 3), []
        for _ in range(3):
            opened = await it.open(ASKED)
            await opened.contribute(host, integers(3))
            assert (await it.finish(opened))["state"] == "released"
            done.append(opened.id)
        kept, before = await stored(it), {name: await shown(it, name) for name in done}
        if packs(part_of(it.app, Database).dialect):
            assert [kept[name].sample for name in done] == [None, done[0], done[0]]
            for name in done[1:]:
                assert len(kept[name].report) < len(before[name]["report"]) / 10
                assert len(kept[name].transcript) < len(before[name]["transcript"]) / 2
        # in another process, which has no sample at hand
        store._samples.clear()
        await it.restart()
        assert {name: await shown(it, name) for name in done} == before
        listed = (await it.ask("GET", "/v1/rounds")).json()["rounds"]
        assert {item["id"] for item in listed} == set(done)


async def test_rounds_from_before_there_was_packing_are_read_and_serve_as_samples(
    house: Houses,
) -> None:
    async with house(3) as it:
        host = await it.host("gateway", 3)
        opened = await it.open(ASKED)
        await opened.contribute(host, integers(3))
        await it.finish(opened)
        before = await shown(it, opened.id)
        database = part_of(it.app, Database)
        async with database.reading() as transaction:
            row = await store.find(transaction, opened.id)
            assert row is not None
            documents = {name: await store.document(transaction, opened.id, name) for name in SHOWN}
        texts = {
            **documents,
            **{name: getattr(row, name) for name in ("accepted", "manifest", "commitments")},
        }
        assert all(isinstance(text, str) and text[0] in "[{" for text in texts.values())
        async with database.begin() as transaction:
            await transaction.execute(update(rounds).values(**texts))
        await it.restart()
        assert await shown(it, opened.id) == before
        async with database.reading() as transaction:
            sample = (await transaction.execute(select(queries.c.sample))).scalar_one()
        assert sample == opened.id
        store._samples.clear()
        again = await it.open(ASKED)
        await again.contribute(host, integers(3))
        assert (await it.finish(again))["state"] == "released"
        assert (await stored(it))[again.id].sample == opened.id
        assert (await shown(it, again.id)).keys() == before.keys()


async def test_an_aborted_round_is_no_sample(house: Houses) -> None:
    async with house(3) as it:
        await it.host("gateway", 3)
        opened = await it.open(ASKED)
        await it.ask("POST", f"/v1/rounds/{opened.id}/abort")
        assert (await it.finish(opened))["state"] == "aborted"
        async with part_of(it.app, Database).reading() as transaction:
            assert (await transaction.execute(select(queries.c.sample))).scalar_one() is None
