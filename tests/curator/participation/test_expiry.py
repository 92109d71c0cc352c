"""Old rounds at a curator: what was refused and delivered goes, the ledger stays as it was."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Table, func, select

from common.runtime.clock import ManualClock
from common.store.transactions import Database
from common.web.dependencies import part_of
from curator.participation import settlement
from curator.participation.loop import Participation
from curator.participation.settlement import Expiry
from curator.store.tables import debits, outbox, refusals, rounds
from tests.curator.conftest import HOUR, NOISY, START, OpenSite, Site, query
from tests.curator.double import FakeWorld, problem

KEPT_S = 30 * 86_400
LONG = timedelta(days=40)


async def count(s: Site, table: Table) -> int:
    async with part_of(s.app, Database).reading() as transaction:
        found = await transaction.execute(select(func.count()).select_from(table))
        return int(found.scalar_one())


async def figures(s: Site) -> dict[str, Any]:
    """All that a curator's owner is told of its budget and its ledger's chain."""
    paths = ("/v1/curators/a/budget", "/v1/curators/b/budget", "/v1/ledger/verification")
    return {path: await s.get(path) for path in paths}


async def take_part(s: Site, world: FakeWorld, number: int) -> None:
    """A round in which a takes part and b refuses."""
    start = START - number * HOUR
    descriptor = s.open(query(NOISY), start=start, end=start + HOUR)
    await s.take_part()
    world.finish(descriptor, "released")
    await s.take_part()
    await part_of(s.app, Participation).settle()


async def setting_up(s: Site) -> None:
    await s.enrol("gw", ["a", "b"])
    await s.request("PUT", "/v1/curators/b/policy", {"min_participants": 50})


@pytest.mark.usefixtures("database_url")
async def test_what_was_refused_and_delivered_goes_and_the_ledger_stays(
    site: OpenSite, world: FakeWorld, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement, "AT_ONCE", 2)
    async with site(retention_s=KEPT_S) as s:
        await setting_up(s)
        for number in range(3):
            await take_part(s, world, number)
        work = part_of(s.app, Expiry)
        await work.look()
        assert (await count(s, refusals), await count(s, outbox)) == (3, 9)
        shown = (await s.history("b"))[0]
        assert (shown["state"], shown["expired"]) == ("refused", None)
        assert shown["refused_because"]
        clock.advance(LONG)
        before = await figures(s)
        await work.look()
        assert (await count(s, refusals), await count(s, outbox)) == (0, 0)
        assert (await count(s, debits), await count(s, rounds)) == (3, 3)
        assert await figures(s) == before
        (refused, *_), (taken, *_) = await s.history("b"), await s.history("a")
        assert (refused["state"], refused["refused_because"]) == ("refused", [])
        assert (taken["state"], taken["contributed"]) == ("delivered", True)
        assert taken["expired"] is not None
        assert "rounds_expired_total 3.0" in (await s.client.get("/metrics")).text


async def test_what_is_not_settled_or_not_old_stays(site: OpenSite, clock: ManualClock) -> None:
    async with site(retention_s=KEPT_S) as s:
        await setting_up(s)
        s.open(query(NOISY))
        await s.take_part()  # and nobody says how it ended
        clock.advance(LONG)
        await take_part(s, s.world, 1)
        await part_of(s.app, Expiry).look()
        assert (await count(s, refusals), await count(s, outbox)) == (2, 6)


async def test_nobody_contributes_again_to_the_query_and_window_of_an_expired_round(
    site: OpenSite, world: FakeWorld, clock: ManualClock
) -> None:
    async with site(retention_s=KEPT_S) as s:
        await setting_up(s)
        await take_part(s, world, 0)
        clock.advance(LONG)
        await part_of(s.app, Expiry).look()
        again = s.open(query(NOISY))
        await s.take_part()
        assert world.members(again) == set()
        assert (await count(s, debits)) == 1


async def test_a_round_that_its_coordinator_forgot_is_settled_without_a_credit(
    s: Site, world: FakeWorld, clock: ManualClock
) -> None:
    await setting_up(s)
    descriptor = s.open(query(NOISY))
    await s.take_part()
    before = await figures(s)
    world.finish(descriptor, "aborted")
    world.gone[descriptor.round] = problem(410, "round_expired", state="aborted")
    await s.take_part()
    await part_of(s.app, Participation).settle()
    shown = (await s.history("a"))[0]
    assert (shown["outcome"], shown["credited"]) == ("aborted", False)
    assert await figures(s) == before
