"""Somebody who can write to a curator's database gives its budget back.

A chain of hashes has no key outside the database that it protects: who rewrites the rows rewrites
the hashes. A checkpoint kept elsewhere tells.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from common.store.transactions import Database
from common.web.dependencies import part_of
from curator.participation.loop import Participation
from tests.curator.conftest import HOUR, NOISY, START, Site, query
from tests.curator.double import FakeWorld

ROUTE = "/v1/ledger/verification"
SOME: dict[str, Any] = {**NOISY, "collusion": {"curators": 0, "aggregators": 1}}


async def verified(s: Site, kept: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = await s.get(
        ROUTE if kept is None else f"{ROUTE}?seq={kept['rows']}&head={kept['head']}"
    )
    return found


async def ran(s: Site, *statements: str) -> None:
    async with part_of(s.app, Database).begin() as transaction:
        for statement in statements:
            await transaction.execute(text(statement))


async def spent(s: Site, rounds: int) -> None:
    """A curator that took part in some rounds."""
    await s.policy()
    await s.enrol("house")
    for index in range(rounds):
        s.open(query(SOME, name=f"q-{index}"), start=START + index * HOUR)
        await s.take_part()


NEWEST = "(SELECT max(id) FROM debit)"


@pytest.mark.parametrize(
    ("change", "row"),
    [
        ("UPDATE debit SET curator_epsilon = 1 WHERE id = (SELECT min(id) FROM debit)", 3),
        (f"UPDATE debit SET window_end = window_start WHERE id = {NEWEST}", 3),
        (f"DELETE FROM debit WHERE id = {NEWEST}", 3),
        ("DELETE FROM debit", 1),
    ],
    ids=["a figure", "a window", "the last row", "every row"],
)
async def test_a_rewritten_ledger_is_not_that_of_the_checkpoint(
    s: Site, change: str, row: int
) -> None:
    await spent(s, 3)
    kept = await verified(s)
    assert (kept["verified"], kept["rows"]) == (True, 3)
    await ran(s, change)
    # Control: by itself the rewritten ledger has nothing to be wrong with.
    assert (await verified(s))["verified"]
    found = await verified(s, kept)
    assert not found["verified"]
    assert found["broken"]["row"] == row


async def test_a_ledger_that_grew_is_still_that_of_the_checkpoint(
    s: Site, world: FakeWorld, clock: Any
) -> None:
    await s.policy()
    empty = await verified(s)
    await spent(s, 2)
    kept = await verified(s)
    clock.advance(timedelta(days=1))
    descriptor = s.open(query(SOME, name="later"))
    await s.take_part()
    world.finish(descriptor, "aborted", 2)
    await part_of(s.app, Participation).settle()
    for checkpoint in (empty, kept):
        found = await verified(s, checkpoint)
        assert (found["verified"], found["rows"]) == (True, 3)
    assert not (await verified(s, {**kept, "rows": 1}))["verified"]


async def test_a_credit_that_no_aggregator_signed_for(s: Site) -> None:
    await spent(s, 2)
    await ran(s, f"UPDATE debit SET credited = made WHERE id = {NEWEST}")
    found = await verified(s)
    assert found["broken"] == {
        "row": 2,
        "reason": "it was credited, and no signed statements earn that",
    }
